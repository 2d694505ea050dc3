//! What a comparison showed for each repository in it (S-30): how much both have, and what they
//! lack of what we serve. What we lacked is known only once it was fetched, and added then.

use super::compare::Difference;
use crate::ingest::Ingest;
use crate::peers::{self, Counts, LackWarner, Standing};
use grasp_core::{Coordinate, EventId, Filter, RelayUrl, RepoId, Time};
use grasp_store::{
    Budget, Cursor, EventStore, Hit, Progress, Result, Space, StoreError, Transaction, Want,
};
use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Of one repository, and of one difference: beyond that the figures are a lower bound.
const COUNTED_MAX: u64 = 100_000;
const ATTRIBUTED_MAX: usize = 20_000;
const PAGE: Budget = Budget { steps: 20_000, bytes: usize::MAX };

/// Only the question after events that name our repositories tells something about them.
pub(super) fn counts(
    store: &dyn EventStore,
    filter: &Filter,
    difference: &Difference,
    now: Time,
) -> Result<Vec<(RepoId, Counts)>> {
    let Some(values) = filter.tags.get(&b'a') else { return Ok(Vec::new()) };
    let mut lacking: BTreeMap<RepoId, u64> = BTreeMap::new();
    for id in difference.have.iter().take(ATTRIBUTED_MAX) {
        for repo in repos_of(store, id)? {
            *lacking.entry(repo).or_default() += 1;
        }
    }
    let mut found = Vec::new();
    for value in values {
        let Ok(coordinate) = value.parse::<Coordinate>() else { continue };
        let Some(repo) = coordinate.repo() else { continue };
        let they_lack = lacking.get(&repo).copied().unwrap_or(0);
        let ours = served(store, value, now)?;
        let both = ours.saturating_sub(they_lack);
        found.push((repo, Counts { both, they_lack, we_lack: 0 }));
    }
    Ok(found)
}

fn repos_of(store: &dyn EventStore, id: &EventId) -> Result<Vec<RepoId>> {
    let found = store.read()?.get(Space::Served, id)?;
    let Some(found) = found else { return Ok(Vec::new()) };
    let named = found.event.tags_named("a").filter_map(|tag| tag.value()?.parse().ok());
    Ok(named.filter_map(|coordinate: Coordinate| coordinate.repo()).collect())
}

fn served(store: &dyn EventStore, coordinate: &str, now: Time) -> Result<u64> {
    let mut filter = Filter::default();
    filter.tags.insert(b'a', vec![coordinate.to_owned()]);
    let mut cursor = Cursor::new([filter].into(), Want::Positions, u64::MAX, now.timestamp());
    let mut count = 0;
    let mut progress = Progress::Paused;
    while progress == Progress::Paused && count < COUNTED_MAX {
        let mut sink = |_: Hit<'_>| count += 1;
        progress = store.read()?.advance(Space::Served, &mut cursor, &mut { PAGE }, &mut sink)?;
    }
    Ok(count)
}

/// Writes it down, and warns of peers that lack something, not too often (S-42).
pub(super) async fn keep(
    ingest: &Ingest,
    warner: &Mutex<LackWarner>,
    relay: &RelayUrl,
    found: Vec<(RepoId, Counts)>,
    now: Time,
) {
    for (repo, counts) in &found {
        if warner.lock().lacks(relay, counts.they_lack, now).is_some() {
            let (lacks, repo) = (counts.they_lack, repo.coordinate());
            tracing::warn!(%relay, %repo, lacks, "the peer lacks events that are served here");
        }
    }
    let relay = relay.clone();
    let set = move |txn: &mut dyn Transaction| -> std::result::Result<(), StoreError> {
        found.iter().try_for_each(|(repo, counts)| {
            peers::set(txn, &relay, repo, Standing::from_counts(*counts, now))
        })
    };
    ingest.jot(Box::new(set)).await;
}

/// What we lacked and they had, by repository.
pub(super) async fn attribute(
    ingest: &Ingest,
    relay: &RelayUrl,
    lacked: BTreeMap<RepoId, u64>,
    now: Time,
) {
    let relay = relay.clone();
    let add = move |txn: &mut dyn Transaction| -> std::result::Result<(), StoreError> {
        lacked
            .iter()
            .try_for_each(|(repo, events)| peers::attribute(txn, &relay, repo, *events, now))
    };
    ingest.jot(Box::new(add)).await;
}

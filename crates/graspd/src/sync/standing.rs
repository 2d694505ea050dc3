//! What a comparison showed for each repository in it (S-30): how much both have, and what they
//! lack of what we serve. What we lack is known of a repository only where it was asked about alone.

use super::compare::Difference;
use crate::ingest::Ingest;
use crate::ledger::{self, Counts, Fingerprint, LackWarner, Look, Peer, Seen, Why};
use crate::metrics::LedgerMetrics;
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

/// Only the question after events that name our repositories tells something about them. Nothing is
/// said of several of which one lacks something here: the engine asks again when that is fetched,
/// and about fewer of them if it is not to be had.
pub(super) fn counts(
    store: &dyn EventStore,
    filter: &Filter,
    difference: &Difference,
    now: Time,
) -> Result<Vec<(RepoId, Counts)>> {
    let Some(values) = filter.tags.get(&b'a') else { return Ok(Vec::new()) };
    let we_lack = u64::try_from(difference.need.len()).unwrap_or(u64::MAX);
    if filter.since.is_some() || (we_lack > 0 && values.len() > 1) {
        return Ok(Vec::new());
    }
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
        let (ours, fingerprint) = served(store, value, now)?;
        let both = ours.saturating_sub(they_lack);
        found.push((repo, Counts { both, they_lack, we_lack, fingerprint }));
    }
    Ok(found)
}

fn repos_of(store: &dyn EventStore, id: &EventId) -> Result<Vec<RepoId>> {
    let found = store.read()?.get(Space::Served, id)?;
    let Some(found) = found else { return Ok(Vec::new()) };
    let named = found.event.tags_named("a").filter_map(|tag| tag.value()?.parse().ok());
    let mut repos: Vec<RepoId> =
        named.filter_map(|coordinate: Coordinate| coordinate.repo()).collect();
    repos.sort_unstable();
    repos.dedup();
    Ok(repos)
}

/// Events about a repository that are served here, and their ids summed up.
pub fn served(store: &dyn EventStore, coordinate: &str, now: Time) -> Result<(u64, Fingerprint)> {
    let mut filter = Filter::default();
    filter.tags.insert(b'a', vec![coordinate.to_owned()]);
    let mut cursor = Cursor::new([filter].into(), Want::Positions, u64::MAX, now.timestamp());
    let (mut count, mut fingerprint) = (0, Fingerprint::default());
    let mut progress = Progress::Paused;
    while progress == Progress::Paused && count < COUNTED_MAX {
        let mut sink = |hit: Hit<'_>| {
            count += 1;
            fingerprint.add(&hit.position.id());
        };
        progress = store.read()?.advance(Space::Served, &mut cursor, &mut { PAGE }, &mut sink)?;
    }
    Ok((count, fingerprint))
}

/// Writes it down, and warns of peers that lack something, not too often (S-42).
pub(super) async fn keep(
    (ingest, metrics): (&Ingest, &LedgerMetrics),
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
        metrics.checked("events", Seen::Events(*counts).verdict());
    }
    let peer = Peer::Relay(relay.clone());
    let set = move |txn: &mut dyn Transaction| -> std::result::Result<(), StoreError> {
        found.iter().try_for_each(|(repo, counts)| {
            ledger::set(txn, &peer, repo, Look::new(Seen::Events(*counts), now))
        })
    };
    ingest.jot(Box::new(set)).await;
}

/// How a relay stands for these cannot be found out.
pub(super) async fn doubt(
    (ingest, metrics): (&Ingest, &LedgerMetrics),
    relay: &RelayUrl,
    repos: Vec<RepoId>,
    why: Why,
    now: Time,
) {
    let peer = Peer::Relay(relay.clone());
    let seen = Seen::Nothing(why);
    repos.iter().for_each(|_| metrics.checked("events", seen.verdict()));
    let set = move |txn: &mut dyn Transaction| -> std::result::Result<(), StoreError> {
        repos
            .iter()
            .try_for_each(|repo| ledger::set(txn, &peer, repo, Look::new(seen.clone(), now)))
    };
    ingest.jot(Box::new(set)).await;
}

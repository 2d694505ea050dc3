//! Looks through what is served, pass after pass: states whose objects are gone, and repositories
//! whose objects cannot be read. Both are looked for elsewhere like anything else that is missing.

use super::Ground;
use super::drive::HuntWatch;
use super::look::lacks;
use crate::ingest::{Round, Waits, families_around};
use grasp_core::{RepoId, Time};
use grasp_engine::hunt::FamilyId;
use grasp_git::is_sound;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// How long one pass may read objects; what it does not reach comes first in the next.
const READING_MAX: Duration = Duration::from_secs(300);
/// Between two repositories, so that nobody notices.
const BETWEEN: Duration = Duration::from_millis(100);
/// Repositories whose last reading is remembered.
const READ_MAX: usize = 100_000;

pub(super) async fn run(ground: Arc<Ground>, watch: HuntWatch, every: Duration) {
    // When each was last read through; nobody knows after a start.
    let mut read_at: BTreeMap<RepoId, Time> = BTreeMap::new();
    while pause(&ground, every).await {
        let Some(served) = everything_served(&ground).await else { return };
        let families: BTreeSet<&FamilyId> = served.values().collect();
        // Read anew: somebody else may have changed a directory.
        served.keys().for_each(|repo| ground.node.host.repos.forget(repo));
        for family in families {
            look_at(&ground, &watch, family).await;
        }
        read_through(&ground, &watch, &served, &mut read_at).await;
    }
}

/// Every repository that is served, with its family; `None` when the server stops.
async fn everything_served(ground: &Arc<Ground>) -> Option<BTreeMap<RepoId, FamilyId>> {
    let (mut round, mut served) = (Round::default(), BTreeMap::new());
    loop {
        let rules = Arc::clone(&ground.node.rules);
        let asked = ground.node.explorers.ask(move |store| {
            let found = round.next(store, &rules).and_then(|(repos, more)| {
                let families = families_around(store, &rules, &repos)?;
                Ok((repos, families, more))
            });
            (round, found)
        });
        let (next, found) = asked.await.ok()?;
        let Ok((repos, families, more)) = found else { return Some(served) };
        let named = repos.into_iter().zip(families);
        served.extend(named.filter_map(|(repo, family)| Some((repo, family?))));
        if !more {
            return Some(served);
        }
        round = next;
    }
}

/// Is everything there that its refs and states name?
async fn look_at(ground: &Arc<Ground>, watch: &HuntWatch, family: &FamilyId) {
    let Some(found) = lacks(ground, family).await else { return };
    if found.events.iter().any(|it| it.standing == Waits::Served) {
        tracing::error!(%family, "objects of a served repository are gone; looking for them");
        watch.is_damaged(family.clone());
    }
}

/// Reads as many repositories as fit, those first that were not read for longest.
async fn read_through(
    ground: &Arc<Ground>,
    watch: &HuntWatch,
    served: &BTreeMap<RepoId, FamilyId>,
    read_at: &mut BTreeMap<RepoId, Time>,
) {
    let clock = &ground.node.clock;
    let begun = clock.now();
    read_at.retain(|repo, _| served.contains_key(repo));
    let mut in_order: Vec<&RepoId> = served.keys().collect();
    in_order.sort_by_key(|repo| read_at.get(*repo).copied());
    for repo in in_order {
        if clock.now().since(begun) > READING_MAX || !pause(ground, BETWEEN).await {
            return;
        }
        if read_at.len() < READ_MAX {
            read_at.insert(repo.clone(), clock.now());
        }
        let Some(is_sound) = read(ground, repo).await else { continue };
        let was_damaged = match is_sound {
            true => ground.damaged.lock().remove(repo),
            false => !ground.damaged.lock().insert(repo.clone()),
        };
        if !is_sound && !was_damaged {
            tracing::error!(%repo, "some objects of a served repository cannot be read");
        }
        if let (false, Some(family)) = (is_sound, served.get(repo)) {
            watch.is_damaged(family.clone());
        }
    }
}

/// Can all of it be read? `None` if that could not be found out. A first no is asked again, because
/// something may just have changed.
async fn read(ground: &Arc<Ground>, repo: &RepoId) -> Option<bool> {
    let host = &ground.node.host;
    let directory = host.repos.directory(repo);
    let _upkeep = host.upkeep.lock().await;
    let mut verdict = is_sound(&host.git, &directory).await;
    if let Ok(false) = verdict {
        verdict = is_sound(&host.git, &directory).await;
    }
    let could_not = |error| tracing::warn!(%repo, %error, "a repository could not be read through");
    verdict.map_err(could_not).ok()
}

/// False when the server stops.
async fn pause(ground: &Ground, length: Duration) -> bool {
    tokio::select! {
        () = ground.node.closing.cancelled() => false,
        () = tokio::time::sleep(length) => true,
    }
}

//! Looks through what is served, pass after pass: states whose objects are gone, and repositories
//! whose objects cannot be read. Both are looked for elsewhere like anything else that is missing.

use super::Ground;
use super::drive::{HuntWatch, lacks};
use crate::ingest::Round;
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
        for repo in &served {
            look_at(&ground, &watch, repo).await;
        }
        read_through(&ground, &watch, served, &mut read_at).await;
    }
}

/// `None` when the server stops.
async fn everything_served(ground: &Arc<Ground>) -> Option<Vec<RepoId>> {
    let (mut round, mut served) = (Round::default(), Vec::new());
    loop {
        let rules = Arc::clone(&ground.node.rules);
        let asked = ground.node.explorers.ask(move |store| {
            let found = round.next(store, &rules);
            (round, found)
        });
        let (next, found) = asked.await.ok()?;
        let Ok((repos, more)) = found else { return Some(served) };
        served.extend(repos);
        if !more {
            return Some(served);
        }
        round = next;
    }
}

/// Is everything there that its refs and states name?
async fn look_at(ground: &Arc<Ground>, watch: &HuntWatch, repo: &RepoId) {
    // Read anew: somebody else may have changed the directory.
    ground.node.host.repos.forget(repo);
    let family = FamilyId { owner: repo.owner, identifier: repo.identifier.clone() };
    let Some(mut found) = lacks(ground, &family).await else { return };
    let family = found.elsewhere.take().unwrap_or(family);
    if found.events.is_empty() {
        let Some(again) = lacks(ground, &family).await else { return };
        found = again;
    }
    if found.events.iter().any(|it| it.standing == crate::ingest::Waits::Served) {
        tracing::error!(%repo, "objects of a served repository are gone; looking for them");
        watch.is_damaged(family);
    }
}

/// Reads as many repositories as fit, those first that were not read for longest.
async fn read_through(
    ground: &Arc<Ground>,
    watch: &HuntWatch,
    mut served: Vec<RepoId>,
    read_at: &mut BTreeMap<RepoId, Time>,
) {
    let clock = &ground.node.clock;
    let begun = clock.now();
    served.sort_by_key(|repo| read_at.get(repo).copied());
    let current: BTreeSet<&RepoId> = served.iter().collect();
    read_at.retain(|repo, _| current.contains(repo));
    drop(current);
    for repo in served {
        if clock.now().since(begun) > READING_MAX || !pause(ground, BETWEEN).await {
            return;
        }
        let (host, at) = (&ground.node.host, clock.now());
        if read_at.len() < READ_MAX {
            read_at.insert(repo.clone(), at);
        }
        let directory = host.repos.directory(&repo);
        match is_sound(&host.git, &directory).await {
            Ok(true) => {}
            Ok(false) => {
                tracing::error!(%repo, "some objects of a served repository cannot be read");
                ground.damaged.lock().insert(repo.clone());
                watch.is_damaged(FamilyId { owner: repo.owner, identifier: repo.identifier });
            }
            Err(error) => tracing::warn!(%repo, %error, "a repository could not be read through"),
        }
    }
}

/// False when the server stops.
async fn pause(ground: &Ground, length: Duration) -> bool {
    tokio::select! {
        () = ground.node.closing.cancelled() => false,
        () = tokio::time::sleep(length) => true,
    }
}

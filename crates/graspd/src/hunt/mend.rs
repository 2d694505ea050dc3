//! The end of a repair: everything signed for is here again, so packs that cannot be relied upon may
//! go. What else they held is saved first, as far as it can be read.

use super::Ground;
use crate::ingest::Mended;
use crate::landing::open_quarantine;
use grasp_core::{Oid, RepoId};
use grasp_git::{Quarantine, copy, damaged_packs};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Refs that are saved one by one when they cannot be saved together.
const ONE_BY_ONE_MAX: usize = 256;

pub(super) async fn mend(ground: &Ground, repo: &RepoId) {
    let host = &ground.node.host;
    let directory = host.repos.directory(repo);
    let _upkeep = host.upkeep.lock().await;
    let damaged = match damaged_packs(&host.git, &directory).await {
        Ok(damaged) => damaged,
        Err(error) => {
            tracing::warn!(%repo, %error, "packs could not be checked");
            return;
        }
    };
    if !damaged.is_empty() {
        let saved = save(ground, repo).await;
        let repo = repo.clone();
        ground.node.ingest.mend(Mended { repo, saved, damaged_packs: damaged }).await;
    }
    ground.damaged.lock().remove(repo);
}

/// What only pull requests and hidden refs lead to.
async fn save(ground: &Ground, repo: &RepoId) -> Vec<Quarantine> {
    let (host, of) = (Arc::clone(&ground.node.host), repo.clone());
    let shown = tokio::task::spawn_blocking(move || host.repos.shown(&of)).await;
    let Ok(Ok(shown)) = shown else { return Vec::new() };
    let signed: BTreeSet<Oid> = shown.refs.governed.values().map(|entry| entry.oid).collect();
    let proposed = shown.refs.proposals.values().map(|entry| entry.oid);
    let others = proposed.chain(shown.refs.kept.iter().copied());
    let others: BTreeSet<Oid> = others.filter(|oid| !signed.contains(oid)).collect();
    if others.is_empty() {
        return Vec::new();
    }
    if let Some(all) = carry(ground, repo, &others, &signed).await {
        return vec![all];
    }
    let mut saved = Vec::new();
    for oid in others.into_iter().take(ONE_BY_ONE_MAX) {
        saved.extend(carry(ground, repo, &BTreeSet::from([oid]), &signed).await);
    }
    saved
}

/// `None` if not all of it can be read.
async fn carry(
    ground: &Ground,
    repo: &RepoId,
    wants: &BTreeSet<Oid>,
    has: &BTreeSet<Oid>,
) -> Option<Quarantine> {
    let host = &ground.node.host;
    let into = open_quarantine(host, repo, 0).await.ok()?;
    let from = host.repos.directory(repo);
    match copy(&host.git, &from, &into, wants, has, &host.pack).await {
        Ok(_) => Some(into),
        Err(error) => {
            tracing::warn!(%repo, refs = wants.len(), %error, "not all of these can be saved");
            None
        }
    }
}

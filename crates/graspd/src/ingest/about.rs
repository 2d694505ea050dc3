//! One repository as it stands here, for those who want to know: who announced it, who has a say,
//! which state its refs follow, and what lies on the disk.

use super::gather::family;
use super::holds;
use super::lacks::lacked_by;
use super::plan::followed;
use super::roles::RoleCache;
use super::views::{announcement, governing};
use crate::repos::{RepoError, Repos, Shown};
use grasp_core::hold::Phase;
use grasp_core::maintainers::Standing;
use grasp_core::nip34::{Announcement, State};
use grasp_core::policy::Rules;
use grasp_core::{EventId, PubKey, RepoId};
use grasp_store::{Result, Snapshot, Space, StoredEvent};
use std::collections::BTreeSet;
use std::sync::Arc;

#[derive(Debug)]
pub struct About {
    pub announced: StoredEvent,
    pub announcement: Announcement,
    pub rest: Hosted,
    pub people: BTreeSet<PubKey>,
    /// The state that is in force, and what it says.
    pub state: Option<(StoredEvent, State)>,
    /// `Err`: it cannot be read.
    pub shown: std::result::Result<Arc<Shown>, RepoError>,
    /// Objects somebody signed for and nobody brought yet.
    pub missing: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hosted {
    Served,
    Held,
    Asleep,
}

/// `None` if this repository is not hosted here, nor about to be.
pub fn about(
    store: &dyn Snapshot,
    rules: &Rules,
    repos: &Repos,
    repo: &RepoId,
) -> Result<Option<About>> {
    let Some((announced, standing)) = announcement(store, repo)? else { return Ok(None) };
    let Ok(announcement) = Announcement::parse(&announced.event) else { return Ok(None) };
    if !rules.hosts(&announcement) {
        return Ok(None);
    }
    let hold = holds::of(store, &announced.event.id)?;
    let rest = match (standing, hold.map(|hold| hold.phase)) {
        (Standing::Served, _) => Hosted::Served,
        (Standing::Held, Some(Phase::Asleep)) => Hosted::Asleep,
        (Standing::Held, _) => Hosted::Held,
    };
    let roles = &mut RoleCache::default();
    let family = family(store, roles, [repo.owner], repo.identifier.as_str())?;
    let people = family.members_of(&repo.owner, rules.maintainer_rule).unwrap_or_default();
    let state = match governing(store, roles, rules, repo)? {
        Some(candidate) => found(store, &candidate.id)?.map(|it| (it, candidate.state)),
        None => None,
    };
    let missing = lacked_by(store, rules, repos, repo)?;
    let shown = repos.shown(repo);
    Ok(Some(About { announced, announcement, rest, people, state, shown, missing }))
}

/// The state a repository's refs follow now.
pub fn followed_state(store: &dyn Snapshot, repo: &RepoId) -> Result<Option<StoredEvent>> {
    match followed(store, repo)? {
        Some(id) => found(store, &id),
        None => Ok(None),
    }
}

fn found(store: &dyn Snapshot, id: &EventId) -> Result<Option<StoredEvent>> {
    match store.get(Space::Served, id)? {
        None => store.get(Space::History, id),
        served => Ok(served),
    }
}

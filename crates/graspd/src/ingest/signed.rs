//! What a repository's refs should be, here and elsewhere: the state in force, and one that beats it
//! but waits for objects. Reads only.

use super::gather::family;
use super::roles::RoleCache;
use super::views::{announcement, candidate, preferred, said, state_of, views, waiting};
use grasp_core::maintainers::Standing;
use grasp_core::nip34::Announcement;
use grasp_core::policy::Rules;
use grasp_core::push::Candidate;
use grasp_core::{EventId, Identifier, Oid, PubKey, RefName, RepoId};
use grasp_store::{EventStore, Result, Snapshot, Space};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub struct Signed {
    pub announcement: Announcement,
    /// `None`: nobody has signed anything that is served.
    pub in_force: Option<BTreeMap<RefName, Oid>>,
    /// Of a state that beats it and lacks objects here.
    pub waiting: Option<BTreeMap<RefName, Oid>>,
    /// Of the states before it, as far as they are remembered.
    pub earlier: Vec<BTreeMap<RefName, Oid>>,
}

/// `None` if the repository is not served here.
pub fn signed(store: &dyn EventStore, rules: &Rules, repo: &RepoId) -> Result<Option<Signed>> {
    Signatures::new(rules).of(&*store.read()?, repo)
}

/// Reads what people signed for one repository after another, each announcement once.
#[derive(Debug)]
pub struct Signatures<'a> {
    rules: &'a Rules,
    roles: RoleCache,
}

impl<'a> Signatures<'a> {
    pub fn new(rules: &'a Rules) -> Self {
        Self { rules, roles: RoleCache::default() }
    }

    /// `None` if the repository is not served here.
    pub fn of(&mut self, store: &dyn Snapshot, repo: &RepoId) -> Result<Option<Signed>> {
        let served = announcement(store, repo)?.filter(|(_, it)| *it == Standing::Served);
        let Some((found, _)) = served else { return Ok(None) };
        let Ok(announcement) = Announcement::parse(&found.event) else { return Ok(None) };
        if !self.rules.hosts(&announcement) {
            return Ok(None);
        }
        let (mut spoken, mut waits) = (Vec::new(), Vec::new());
        for member in &self.members(store, repo)? {
            spoken.extend(said(store, member, &repo.identifier)?);
            waits.extend(waiting(store, member, &repo.identifier)?);
            let wanted = store.current(Space::Wanted, &state_of(member, &repo.identifier))?;
            waits.extend(wanted.as_ref().and_then(candidate));
        }
        let governing = preferred(&spoken);
        let beats = |it: &&Candidate| governing.is_none_or(|now| it.rank.beats(&now.rank));
        let whole = |it: &&Candidate| it.state.satisfiable && it.state.names_objects();
        let newest = preferred(waits.iter().filter(whole).filter(beats));
        Ok(Some(Signed {
            announcement,
            in_force: governing.map(|it| it.state.refs.clone()),
            waiting: newest.map(|it| it.state.refs.clone()),
            earlier: spoken.iter().map(|it| it.state.refs.clone()).collect(),
        }))
    }

    /// What is served here: who announced it, and every state of those who have a say.
    pub fn ids(&mut self, store: &dyn Snapshot, repo: &RepoId) -> Result<Vec<EventId>> {
        let members = self.members(store, repo)?;
        let states = members.iter().map(|member| state_of(member, &repo.identifier));
        let mut ids = Vec::new();
        for coordinate in std::iter::once(repo.coordinate()).chain(states) {
            let found = store.current(Space::Served, &coordinate)?;
            ids.extend(found.map(|it| it.event.id));
        }
        Ok(ids)
    }

    /// The repositories here in which this author has a say.
    pub fn concerned(
        &mut self,
        store: &dyn Snapshot,
        author: &PubKey,
        identifier: &Identifier,
    ) -> Result<Vec<RepoId>> {
        let around = BTreeSet::from([*author]);
        let (_, views) = views(store, &mut self.roles, self.rules, identifier, &around)?;
        let theirs = views.into_iter().filter(|view| view.members.contains(author));
        Ok(theirs.map(|view| view.repo).collect())
    }

    fn members(&mut self, store: &dyn Snapshot, repo: &RepoId) -> Result<BTreeSet<PubKey>> {
        let family = family(store, &mut self.roles, [repo.owner], repo.identifier.as_str())?;
        Ok(family.members_of(&repo.owner, self.rules.maintainer_rule).unwrap_or_default())
    }
}

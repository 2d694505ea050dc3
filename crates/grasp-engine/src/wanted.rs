//! What we want: repositories, the relays their announcements list, and their roots (S-1). Learnt
//! only from our own accepted events. Things have numbers, so that a million of them are small.

use crate::vocabulary::Level;
use grasp_core::{EventId, RepoId};
use std::collections::HashMap;

#[derive(Debug, Default)]
pub(crate) struct Wanted {
    repos: Vec<Repo>,
    repo_numbers: HashMap<RepoId, u32>,
    roots: Vec<Root>,
    root_numbers: HashMap<EventId, u32>,
}

#[derive(Debug)]
pub(crate) struct Repo {
    pub(crate) id: RepoId,
    /// `None`: withdrawn.
    pub(crate) level: Option<Level>,
    pub(crate) serial: u64,
    pub(crate) relays: Vec<u32>,
    pub(crate) roots: Vec<u32>,
}

#[derive(Debug)]
pub(crate) struct Root {
    pub(crate) id: EventId,
    pub(crate) serial: u64,
    repos: Repos,
}

/// Nearly every root belongs to one repository.
#[derive(Debug)]
enum Repos {
    One(u32),
    Many(Box<[u32]>),
}

const NAMED_MAX: usize = 200_000;

impl Wanted {
    /// Gives back what growing took too much of.
    pub(crate) fn shrink(&mut self) {
        self.roots.shrink_to_fit();
        self.repos.shrink_to_fit();
        self.repos.iter_mut().for_each(|repo| repo.roots.shrink_to_fit());
    }

    pub(crate) fn repo(&self, number: u32) -> Option<&Repo> {
        self.repos.get(number as usize)
    }

    pub(crate) fn repo_mut(&mut self, number: u32) -> Option<&mut Repo> {
        self.repos.get_mut(number as usize)
    }

    pub(crate) fn root(&self, number: u32) -> Option<&Root> {
        self.roots.get(number as usize)
    }

    pub(crate) fn number_of(&self, repo: &RepoId) -> Option<u32> {
        self.repo_numbers.get(repo).copied()
    }

    pub(crate) fn roots(&self) -> usize {
        self.roots.len()
    }

    pub(crate) fn repos(&self) -> usize {
        self.repos.iter().filter(|repo| repo.level.is_some()).count()
    }

    /// Roots may name repositories nobody announced; so many are remembered, and no more.
    pub(crate) fn has_room(&self) -> bool {
        self.repos.len() < NAMED_MAX
    }

    pub(crate) fn number_for(&mut self, repo: &RepoId) -> u32 {
        if let Some(number) = self.repo_numbers.get(repo) {
            return *number;
        }
        let number = u32::try_from(self.repos.len()).unwrap_or(u32::MAX);
        let (relays, roots) = (Vec::new(), Vec::new());
        self.repos.push(Repo { id: repo.clone(), level: None, serial: 0, relays, roots });
        self.repo_numbers.insert(repo.clone(), number);
        number
    }

    /// Notes a root; returns the repositories it was not known to belong to before.
    pub(crate) fn add_root(&mut self, id: EventId, repos: &[u32], serial: u64) -> (u32, Vec<u32>) {
        let number = match self.root_numbers.get(&id) {
            Some(number) => *number,
            None => {
                let number = u32::try_from(self.roots.len()).unwrap_or(u32::MAX);
                self.roots.push(Root { id, serial, repos: Repos::Many(Box::default()) });
                self.root_numbers.insert(id, number);
                number
            }
        };
        let mut new = Vec::new();
        if let Some(root) = self.roots.get_mut(number as usize) {
            for repo in repos {
                if root.repos.insert(*repo) {
                    new.push(*repo);
                }
            }
        }
        for repo in &new {
            if let Some(repo) = self.repos.get_mut(*repo as usize) {
                repo.roots.push(number);
            }
        }
        (number, new)
    }

    pub(crate) fn wants_repo_on(&self, repo: u32, relay: u32, level: Level) -> bool {
        let repo = self.repo(repo);
        repo.is_some_and(|it| it.level == Some(level) && it.relays.contains(&relay))
    }

    /// Is this repository followed in full on that relay?
    fn is_followed(&self, repo: u32, relay: u32) -> bool {
        self.wants_repo_on(repo, relay, Level::Full)
    }

    pub(crate) fn wants_root_on(&self, root: u32, relay: u32) -> bool {
        let root = self.root(root);
        root.is_some_and(|root| root.repos.iter().any(|repo| self.is_followed(*repo, relay)))
    }
}

impl Wanted {
    pub(crate) fn root_serial_on(&self, root: u32, relay: u32) -> u64 {
        let Some(root) = self.root(root) else { return 0 };
        let followed = root.repos.iter().filter(|repo| self.is_followed(**repo, relay));
        let listed = followed.filter_map(|repo| Some(self.repo(*repo)?.serial)).min();
        root.serial.max(listed.unwrap_or(0))
    }
}

impl Repos {
    fn insert(&mut self, repo: u32) -> bool {
        match self {
            Self::One(one) if *one == repo => false,
            Self::One(one) => {
                *self = Self::Many([*one, repo].into());
                true
            }
            Self::Many(many) if many.is_empty() => {
                *self = Self::One(repo);
                true
            }
            Self::Many(many) if many.contains(&repo) => false,
            Self::Many(many) => {
                *self = Self::Many(many.iter().copied().chain([repo]).collect());
                true
            }
        }
    }

    fn iter(&self) -> std::slice::Iter<'_, u32> {
        match self {
            Self::One(one) => std::slice::from_ref(one).iter(),
            Self::Many(many) => many.iter(),
        }
    }
}

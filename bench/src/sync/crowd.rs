//! What the engine alone is told of: repositories, the relays they name and their threads, made up
//! from their numbers, so that nothing but the engine has to keep them.

use anyhow::{Context, Result};
use grasp_core::{EventId, Identifier, PubKey, RelayUrl, RepoId};
use grasp_engine::{Input, Level};
use grasp_testkit::Random;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Crowd {
    pub(crate) repositories: usize,
    pub(crate) roots: usize,
    pub(crate) relays: usize,
    /// Relays that are linked at a time.
    pub(crate) links: usize,
    /// Roots of the largest repository, which is the first; the others share the rest.
    pub(crate) largest: usize,
}

impl Crowd {
    /// As the words of a command line.
    pub(crate) fn words(&self) -> [String; 5] {
        let Self { repositories, roots, relays, links, largest } = *self;
        [repositories, roots, relays, links, largest].map(|number| number.to_string())
    }

    pub(crate) fn parse(words: &mut impl Iterator<Item = String>) -> Option<Self> {
        let mut number = || words.next()?.parse().ok();
        Some(Self {
            repositories: number()?,
            roots: number()?,
            relays: number()?,
            links: number()?,
            largest: number()?,
        })
    }

    /// Relays that a great many repositories name.
    pub(super) fn popular(&self) -> usize {
        (self.relays / 1_000).max(3).min(self.relays)
    }

    /// The repository a root belongs to.
    pub(super) fn repository_of(&self, root: usize) -> usize {
        match root < self.largest || self.repositories < 2 {
            true => 0,
            false => 1 + root % (self.repositories - 1),
        }
    }
}

/// The crowd with its names.
#[derive(Debug)]
pub(super) struct Town {
    pub(super) crowd: Crowd,
    relays: Vec<RelayUrl>,
}

impl Town {
    pub(super) fn of(crowd: Crowd) -> Result<Self> {
        let relays = (0..crowd.relays).map(|n| format!("wss://relay-{n}.example").parse());
        let relays = relays.collect::<Result<_, _>>().context("a relay's address")?;
        Ok(Self { crowd, relays })
    }

    pub(super) fn repo(&self, number: usize) -> Result<RepoId> {
        let owner = PubKey::from_bytes(Random::seeded(number as u64).bytes32());
        let identifier: Identifier = format!("repository-{number}").parse()?;
        Ok(RepoId { owner, identifier })
    }

    pub(super) fn root_id(number: usize) -> EventId {
        EventId::from_bytes(Random::seeded((1 << 40) + number as u64).bytes32())
    }

    /// Three or four relays: first a popular one, then any. A later version names others.
    pub(super) fn relays_of(&self, number: usize, version: u64) -> Vec<RelayUrl> {
        let mut random = Random::seeded((1 << 41) + number as u64);
        let mut relays = vec![self.relays[random.index(self.crowd.popular())].clone()];
        let mut others = Random::seeded(random.next_u64() ^ version);
        for _ in 0..2 + number % 2 {
            relays.push(others.pick(&self.relays).clone());
        }
        relays
    }

    pub(super) fn announced(&self, number: usize, version: u64, serial: u64) -> Result<Input> {
        let (repo, relays) = (self.repo(number)?, self.relays_of(number, version));
        Ok(Input::Announced { repo, relays, level: Level::Full, serial })
    }

    pub(super) fn root(&self, number: usize, of: usize, serial: u64) -> Result<Input> {
        Ok(Input::Root { id: Self::root_id(number), repos: vec![self.repo(of)?], serial })
    }
}

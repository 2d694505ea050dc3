//! The same reports from the data of a server that does not run: nothing is known then of links and
//! fetches, everything of what is on the disk.

use super::Page;
use super::held::{Draft, Hunts};
use super::shapes::{EventReport, Purgatory, Relays, Repo, Repos, Status};
use super::sight::{Identity, Live, Sight};
use crate::clock::Clock;
use crate::config::Config;
use crate::node::rules;
use crate::repos;
use crate::serve::{self, Opened};
use grasp_core::policy::Rules;
use grasp_core::{EventId, RepoId, WallOffset};
use grasp_git::{Layout, used_bytes};
use grasp_store::Result;

#[derive(Debug)]
pub struct Offline {
    opened: Opened,
    rules: Rules,
    repos: repos::Repos,
    identity: Identity,
    live: Live,
}

/// Claims the data, so no server may run on it meanwhile.
pub fn offline(config: &Config) -> anyhow::Result<Offline> {
    let opened = serve::open(config)?;
    let rules = rules(config, opened.relay_key.public);
    let repos = repos::Repos::new(Layout::new(opened.git_root.canonicalize()?));
    let git_used_bytes = used_bytes(&opened.git_root).ok();
    let (identity, live) = (Identity::of(config), Live { git_used_bytes, ..Live::default() });
    Ok(Offline { opened, rules, repos, identity, live })
}

impl Offline {
    fn sight(&self) -> Sight<'_> {
        Sight {
            store: &*self.opened.store,
            rules: &self.rules,
            repos: &self.repos,
            identity: &self.identity,
            live: &self.live,
            now: Clock::default().wall(),
            offset: WallOffset::default(),
        }
    }

    pub fn status(&self) -> Result<Status> {
        self.sight().status()
    }

    /// Nothing is linked, and what was known of links is not told.
    pub fn relays(&self, _: &Page) -> Result<Relays> {
        Ok(Relays { now: self.sight().now, relays: Vec::new(), next: None })
    }

    pub fn repos(&self, page: &Page) -> Result<Repos> {
        self.sight().repos(page)
    }

    pub fn repo(&self, repo: &RepoId) -> Result<Option<Repo>> {
        let sight = self.sight();
        let draft = sight.repo(repo)?;
        Ok(draft.map(|it| it.told(&sight.shaper(&Hunts::default()))))
    }

    pub fn purgatory(&self, page: &Page) -> Result<Purgatory> {
        let sight = self.sight();
        Ok(sight.purgatory(page)?.told(&sight.shaper(&Hunts::default())))
    }

    pub fn event(&self, id: &EventId) -> Result<Option<EventReport>> {
        let sight = self.sight();
        let draft = sight.event(id)?;
        Ok(draft.map(|it| it.told(&sight.shaper(&Hunts::default()))))
    }
}

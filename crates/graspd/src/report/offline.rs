//! The same reports from the data of a server that does not run: nothing is known then of links and
//! fetches, everything of what is on the disk.

use super::Page;
use super::shapes::{EventReport, Purgatory, Relays, Repo, Repos, Status};
use super::sight::{Identity, Live, Sight};
use crate::clock::Clock;
use crate::config::Config;
use crate::node::rules;
use crate::repos;
use crate::serve::{self, Opened};
use grasp_core::policy::Rules;
use grasp_core::{EventId, RepoId};
use grasp_git::Layout;
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
    let (identity, live) = (Identity::of(config), Live::default());
    Ok(Offline { opened, rules, repos, identity, live })
}

impl Identity {
    pub fn of(config: &Config) -> Self {
        Self {
            name: config.relay_name.clone(),
            description: config.relay_description.clone(),
            syncs: config.sync.enabled,
            allow_non_global: config.sync.allow_non_global,
            verdict_age_max: config.sync.verdict_age_max,
            wanted_for: config.hunt.wanted.kept,
        }
    }
}

impl Offline {
    fn sight(&self) -> Sight<'_> {
        Sight {
            store: &*self.opened.store,
            rules: &self.rules,
            repos: &self.repos,
            identity: &self.identity,
            live: &self.live,
            now: Clock::default().now(),
        }
    }

    pub fn status(&self) -> Result<Status> {
        self.sight().status()
    }

    pub fn relays(&self, page: &Page) -> Result<Relays> {
        self.sight().relays(page)
    }

    pub fn repos(&self, page: &Page) -> Result<Repos> {
        self.sight().repos(page)
    }

    pub fn repo(&self, repo: &RepoId) -> Result<Option<Repo>> {
        self.sight().repo(repo)
    }

    pub fn purgatory(&self, page: &Page) -> Result<Purgatory> {
        self.sight().purgatory(page)
    }

    pub fn event(&self, id: &EventId) -> Result<Option<EventReport>> {
        self.sight().event(id)
    }
}

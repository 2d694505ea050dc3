//! What reports are read from: the store, the repositories, and a look at the machines if the server
//! runs. The same for a running server and for the data of one that does not run.

use super::shapes::{Activity, Server};
use crate::hunt;
use crate::repos::Repos;
use crate::sync::Watch;
use grasp_core::policy::Rules;
use grasp_core::{RepoId, Time};
use grasp_engine::hunt::{DomainView, FamilyId, HuntView};
use grasp_engine::{RelayView, Totals};
use grasp_store::EventStore;
use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub struct Sight<'a> {
    pub store: &'a dyn EventStore,
    pub rules: &'a Rules,
    pub repos: &'a Repos,
    pub identity: &'a Identity,
    pub live: &'a Live,
    pub now: Time,
}

/// What does not change while the server runs.
#[derive(Debug, Clone)]
pub struct Identity {
    pub name: String,
    pub description: String,
    pub syncs: bool,
    /// Addresses inside a network may be shown: its operator said that all of them may be followed.
    pub allow_non_global: bool,
    /// A verdict that is older says nothing any more.
    pub verdict_age_max: Duration,
    /// How long something is looked for after it gave up waiting.
    pub wanted_for: Duration,
}

/// A look at the running machines; empty when none run.
#[derive(Debug, Default)]
pub struct Live {
    pub uptime: Option<Duration>,
    pub totals: Totals,
    pub relays: Vec<RelayView>,
    pub watch: Option<Watch>,
    pub hunts: Option<hunt::Snapshot>,
    pub activity: Vec<Activity>,
    /// Why it cannot serve, or soon will not.
    pub problems: Vec<String>,
}

impl Live {
    pub fn hunt(&self, families: &[FamilyId]) -> Option<&HuntView> {
        self.hunts.as_ref()?.families.iter().find(|it| families.contains(&it.family))
    }

    pub fn domains(&self) -> &[DomainView] {
        self.hunts.as_ref().map_or(&[], |it| &it.domains)
    }
}

impl Sight<'_> {
    pub(super) fn server(&self, used: (u64, u64)) -> Server {
        let service = &self.rules.service;
        let tls = if service.is_bare_address() { "" } else { "s" };
        let address = service.address();
        Server {
            name: self.identity.name.clone(),
            description: self.identity.description.clone(),
            npub: self.rules.relay_key.to_npub(),
            version: env!("CARGO_PKG_VERSION").into(),
            relay: format!("ws{tls}://{address}"),
            clone: format!("http{tls}://{address}"),
            syncs: self.identity.syncs,
            uptime_secs: self.live.uptime.map(|it| it.as_secs()),
            disk_used_bytes: used.0,
            disk_budget_bytes: used.1,
        }
    }
}

/// `<npub>/<identifier>`
pub fn place(repo: &RepoId) -> String {
    format!("{}/{}", repo.owner.to_npub(), repo.identifier)
}

//! What reports are read from: the store, the repositories, and a look at the machines if the server
//! runs. The same for a running server and for the data of one that does not run.

use super::shapes::{Activity, Server};
use super::text::{WORDS_MAX, shown};
use crate::config::Config;
use crate::metrics::FullTable;
use crate::outbound::{Rule, vet};
use crate::repos::Repos;
use grasp_core::held_share::HeldUse;
use grasp_core::policy::Rules;
use grasp_core::{RelayUrl, RepoId, Service, Time, WallOffset};
use grasp_engine::hunt::{FullSlots, HuntTotals, HuntView};
use grasp_engine::{RelayTrouble, Totals};
use grasp_git::NoRoom;
use grasp_store::EventStore;
use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub struct Sight<'a> {
    pub store: &'a dyn EventStore,
    pub rules: &'a Rules,
    pub repos: &'a Repos,
    pub identity: &'a Identity,
    pub live: &'a Live,
    /// Wall time, like all times of a report.
    pub now: Time,
    /// Deadlines of what is held are in steady time.
    pub offset: WallOffset,
}

/// What does not change while the server runs.
#[derive(Debug, Clone)]
pub struct Identity {
    pub name: String,
    pub description: String,
    pub syncs: bool,
    /// A relay inside the operator's network: nobody else is told where it is.
    pub private_relay: Option<RelayUrl>,
    /// A verdict that is older says nothing any more.
    pub verdict_age_max: Duration,
    /// How long something is looked for after it gave up waiting.
    pub wanted_for: Duration,
    /// How many events may wait.
    pub held_table: HeldUse,
}

/// A look at the running machines; empty when none run.
#[derive(Debug, Default)]
pub struct Live {
    pub uptime: Option<Duration>,
    pub totals: Totals,
    pub hunts: HuntTotals,
    pub activity: Vec<Activity>,
    /// Why `/readyz` says no.
    pub not_ready: Option<String>,
    /// Less is free on the disk of the repositories than the reserve.
    pub disk_shortage: Option<NoRoom>,
    /// How far the wall clock was set lately, and how long ago.
    pub clock_step: Option<(i64, Duration)>,
    /// Tables that refused something lately, and how often.
    pub full_tables: Vec<(FullTable, u64)>,
    pub relay_troubles: Vec<(RelayUrl, RelayTrouble)>,
    /// Families whose git data was looked for in vain several times, and how many there are.
    pub stuck: Vec<HuntView>,
    pub stuck_total: usize,
    /// Fetches that wait because all slots they may use are in use.
    pub full_slots: Vec<FullSlots>,
    /// What the git data takes on the disk.
    pub git_used_bytes: Option<u64>,
}

const PRIVATE_RELAY: &str = "the operator's own relay";

impl Identity {
    pub fn of(config: &Config) -> Self {
        let sync = &config.sync;
        let is_private =
            |relay: &&RelayUrl| !sync.allow_non_global && vet(relay, Rule::Strangers).is_err();
        Self {
            name: config.relay_name.clone(),
            description: config.relay_description.clone(),
            syncs: sync.enabled,
            private_relay: sync.bootstrap.as_ref().filter(is_private).cloned(),
            verdict_age_max: sync.verdict_age_max,
            wanted_for: config.hunt.wanted.kept,
            held_table: HeldUse {
                events: config.store.held_events_max,
                bytes: config.store.held_bytes_max,
            },
        }
    }

    /// The address of a relay, for everybody.
    pub fn shown_relay(&self, relay: &str) -> String {
        match &self.private_relay {
            Some(private) if private.as_str() == relay => PRIVATE_RELAY.to_owned(),
            _ => shown(relay, WORDS_MAX),
        }
    }

    /// Only its host, with its port if that is not the usual one, as sentences have it.
    pub fn relay_host(&self, relay: &RelayUrl) -> String {
        match &self.private_relay {
            Some(private) if private == relay => PRIVATE_RELAY.to_owned(),
            _ => shown(&relay.host_and_port(), WORDS_MAX),
        }
    }
}

impl Sight<'_> {
    pub(super) fn server(&self, used: (u64, u64)) -> Server {
        let service = &self.rules.service;
        let tls = if service.is_bare_address() { "" } else { "s" };
        Server {
            name: self.identity.name.clone(),
            description: self.identity.description.clone(),
            npub: self.rules.relay_key.to_npub(),
            version: env!("CARGO_PKG_VERSION").into(),
            relay: own_relay(service),
            clone: format!("http{tls}://{}", service.address()),
            syncs: self.identity.syncs,
            uptime_secs: self.live.uptime.map(|it| it.as_secs()),
            disk_used_bytes: used.0,
            git_used_bytes: self.live.git_used_bytes,
            disk_budget_bytes: used.1,
        }
    }
}

/// The address of this server's relay.
pub fn own_relay(service: &Service) -> String {
    let tls = if service.is_bare_address() { "" } else { "s" };
    format!("ws{tls}://{}", service.address())
}

/// `<npub>/<identifier>`
pub fn place(repo: &RepoId) -> String {
    format!("{}/{}", repo.owner.to_npub(), repo.identifier)
}

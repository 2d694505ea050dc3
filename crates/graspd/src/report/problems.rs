//! The problems of this server: one list for the command line, the pages, the API, `doctor` and the
//! metrics. Each has a stable code, names its object, says why it matters and what to do. Pure.

use super::text::bytes;
use super::when::{clock, span};
use crate::metrics::FullTable;
use grasp_core::held_share::HeldUse;
use grasp_core::{RepoId, Time};
use grasp_engine::hunt::{FullSlots, SlotClass};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// From here on a full store is worth a word.
pub(crate) const NEARLY_FULL_PERCENT: u64 = 80;

/// Something an operator should look at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// The server answers `/readyz` with 503.
    NotReady {
        reason: String,
    },
    /// Less is free on the disk of the repositories than the reserve.
    DiskLow {
        free_bytes: u64,
        reserve_bytes: u64,
    },
    StoreNearlyFull {
        used_percent: u64,
    },
    /// The system's clock was set lately: so far, so long ago.
    ClockStep {
        by_ms: i64,
        ago: Duration,
    },
    /// A table with a limit refused something lately.
    TableFull {
        table: FullTable,
        refused: u64,
    },
    /// One share of the events that wait for git data is used up.
    HeldShareFull {
        /// `announcements from the relay wss://one.example`
        share: String,
        used: HeldUse,
    },
    NoRelayConnected {
        relays: usize,
    },
    RelayDead {
        relay: String,
        since: Time,
        next_try: Time,
    },
    RelayUnreachable {
        relay: String,
        since: Time,
        failures: u32,
        next_try: Time,
    },
    RelayBanned {
        relay: String,
        until: Time,
    },
    RelayPaused {
        relay: String,
        until: Time,
    },
    /// It sent more events that are refused here than it may in a day (S-47).
    RelayRefused {
        relay: String,
        bytes: u64,
        until: Time,
    },
    /// Another server lacks what is served here.
    MirrorLacks(Lack),
    /// Another server has what is missing here.
    WeLack(Lack),
    /// Git data was looked for in vain several times.
    FetchStuck {
        repo: RepoId,
        attempts: u32,
        asked: String,
    },
    /// Fetches wait because all slots that they may use are in use.
    SlotsFull(FullSlots),
    /// More problems of one kind than are named.
    Further {
        kind: ProblemKind,
        count: usize,
    },
}

/// What one side lacks of one repository, and of how many others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    pub server: String,
    pub repo: RepoId,
    pub because: String,
    pub other_repositories: usize,
    /// The server has nothing of this repository; this is where it could learn of it.
    pub learn_from: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProblemKind {
    NotReady,
    DiskLow,
    StoreNearlyFull,
    ClockStep,
    TableFull(FullTable),
    NoRelayConnected,
    RelayDead,
    RelayUnreachable,
    RelayBanned,
    RelayPaused,
    RelayRefused,
    MirrorLacks,
    WeLack,
    FetchStuck,
    SlotsFull,
}

/// How urgent a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// This server refuses something that it should accept.
    Error,
    /// Something is incomplete, here or elsewhere.
    Warning,
}

/// A problem as the API sends it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProblemReport {
    /// Stable, such as `relay-dead`.
    pub code: String,
    pub severity: Severity,
    /// What it is about: a host, a table, a repository.
    pub object: String,
    /// How many things it stands for; more than one where they are not named.
    pub count: usize,
    pub what: String,
    pub why: String,
    pub fix: String,
}

impl ProblemReport {
    /// What is wrong and what to do, as one sentence.
    pub fn sentence(&self) -> String {
        format!("{}; {}", self.what, self.fix)
    }
}

impl ProblemKind {
    /// Every code there is, so that metrics can begin at zero.
    pub fn all() -> Vec<Self> {
        let mut all = vec![
            Self::NotReady,
            Self::DiskLow,
            Self::StoreNearlyFull,
            Self::ClockStep,
            Self::NoRelayConnected,
            Self::RelayDead,
            Self::RelayUnreachable,
            Self::RelayBanned,
            Self::RelayPaused,
            Self::RelayRefused,
            Self::MirrorLacks,
            Self::WeLack,
            Self::FetchStuck,
            Self::SlotsFull,
        ];
        all.extend(FullTable::ALL.map(Self::TableFull));
        all
    }

    pub const fn code(self) -> &'static str {
        match self {
            Self::NotReady => "not-ready",
            Self::DiskLow => "disk-low",
            Self::StoreNearlyFull => "store-nearly-full",
            Self::ClockStep => "clock-step",
            Self::TableFull(table) => table.code(),
            Self::NoRelayConnected => "no-relay-connected",
            Self::RelayDead => "relay-dead",
            Self::RelayUnreachable => "relay-unreachable",
            Self::RelayBanned => "relay-banned",
            Self::RelayPaused => "relay-paused",
            Self::RelayRefused => "relay-refused-events",
            Self::MirrorLacks => "mirror-lacks",
            Self::WeLack => "we-lack",
            Self::FetchStuck => "fetch-stuck",
            Self::SlotsFull => "fetch-slots-full",
        }
    }

    pub const fn severity(self) -> Severity {
        match self {
            Self::NotReady | Self::DiskLow | Self::TableFull(_) => Severity::Error,
            _ => Severity::Warning,
        }
    }

    const fn why(self) -> &'static str {
        match self {
            Self::NotReady => "clients and other servers are turned away",
            Self::DiskLow => "pushes are refused and nothing is fetched",
            Self::StoreNearlyFull => "at 95 percent events are no longer accepted",
            Self::ClockStep => {
                "a clock that is behind refuses new events as of the future; after a step forward nothing \
                 is deleted because of its age for an hour"
            }
            Self::TableFull(FullTable::Held) => {
                "new states and pull requests whose git data is not here yet are refused"
            }
            Self::TableFull(FullTable::Aside) => {
                "deletions that come before what they delete are refused"
            }
            Self::TableFull(FullTable::FetchQueue) => {
                "the git data of further repositories is not looked for"
            }
            Self::TableFull(FullTable::Ledger) => {
                "the oldest verdicts are forgotten, so some mirrors are shown without one"
            }
            Self::TableFull(FullTable::Proposals) => "further pull requests are refused there",
            Self::TableFull(FullTable::GraspLists) => "lists of further authors are refused",
            Self::TableFull(FullTable::Deletions) => "further deletions are refused",
            Self::TableFull(FullTable::GitSlots) => {
                "clones and pushes that waited too long get 503 and have to be tried again"
            }
            Self::TableFull(FullTable::Connections) => "new connections are refused",
            Self::NoRelayConnected => "nothing new of other servers is heard",
            Self::RelayDead | Self::RelayUnreachable => {
                "what is published only there is not heard here"
            }
            Self::RelayBanned | Self::RelayPaused => {
                "nothing is heard from it and nothing compared"
            }
            Self::RelayRefused => "new repositories that are announced only there are not heard of",
            Self::MirrorLacks => "people who use that server do not see everything",
            Self::WeLack => "people who use this server do not see everything",
            Self::FetchStuck => "a signed state or a pull request is not served until it is here",
            Self::SlotsFull => "what waits for a slot is fetched late",
        }
    }
}

impl Problem {
    pub const fn kind(&self) -> ProblemKind {
        match self {
            Self::NotReady { .. } => ProblemKind::NotReady,
            Self::DiskLow { .. } => ProblemKind::DiskLow,
            Self::StoreNearlyFull { .. } => ProblemKind::StoreNearlyFull,
            Self::ClockStep { .. } => ProblemKind::ClockStep,
            Self::TableFull { table, .. } => ProblemKind::TableFull(*table),
            Self::HeldShareFull { .. } => ProblemKind::TableFull(FullTable::Held),
            Self::NoRelayConnected { .. } => ProblemKind::NoRelayConnected,
            Self::RelayDead { .. } => ProblemKind::RelayDead,
            Self::RelayUnreachable { .. } => ProblemKind::RelayUnreachable,
            Self::RelayBanned { .. } => ProblemKind::RelayBanned,
            Self::RelayPaused { .. } => ProblemKind::RelayPaused,
            Self::RelayRefused { .. } => ProblemKind::RelayRefused,
            Self::MirrorLacks(_) => ProblemKind::MirrorLacks,
            Self::WeLack(_) => ProblemKind::WeLack,
            Self::FetchStuck { .. } => ProblemKind::FetchStuck,
            Self::SlotsFull(_) => ProblemKind::SlotsFull,
            Self::Further { kind, .. } => *kind,
        }
    }

    /// How many things it is about.
    const fn count(&self) -> usize {
        match self {
            Self::Further { count, .. } => *count,
            _ => 1,
        }
    }

    pub fn report(&self, now: Time) -> ProblemReport {
        let kind = self.kind();
        ProblemReport {
            code: kind.code().into(),
            severity: kind.severity(),
            object: self.object(),
            count: self.count(),
            what: self.what(now),
            why: kind.why().into(),
            fix: self.fix(),
        }
    }

    /// Names the same problem the same at another time.
    fn object(&self) -> String {
        match self {
            Self::NotReady { .. } => "server".into(),
            Self::DiskLow { .. } => "disk".into(),
            Self::StoreNearlyFull { .. } => "event store".into(),
            Self::ClockStep { .. } => "clock".into(),
            Self::TableFull { table, .. } => table_name(*table).into(),
            Self::HeldShareFull { share, .. } => share.clone(),
            Self::NoRelayConnected { .. } => "relays".into(),
            Self::RelayDead { relay, .. }
            | Self::RelayUnreachable { relay, .. }
            | Self::RelayBanned { relay, .. }
            | Self::RelayRefused { relay, .. }
            | Self::RelayPaused { relay, .. } => relay.clone(),
            Self::MirrorLacks(lack) | Self::WeLack(lack) => lack.server.clone(),
            Self::FetchStuck { repo, .. } => short_repo(repo),
            Self::SlotsFull(full) => slots_name(full.class).into(),
            Self::Further { .. } => "more".into(),
        }
    }

    fn what(&self, now: Time) -> String {
        match self {
            Self::NotReady { reason } => format!("the server is not ready: {reason}"),
            Self::DiskLow { free_bytes, reserve_bytes } => format!(
                "{} are free where the repositories are, and {} are kept in reserve",
                bytes(*free_bytes),
                bytes(*reserve_bytes)
            ),
            Self::StoreNearlyFull { used_percent } => {
                format!("the event store is {used_percent} % full")
            }
            Self::ClockStep { by_ms, ago } => {
                let way = if *by_ms < 0 { "back" } else { "forward" };
                // Two clocks are never read at the same moment.
                let by =
                    span(Duration::from_secs(by_ms.unsigned_abs().saturating_add(500) / 1_000));
                let slept = if *by_ms < 0 { "" } else { ", or this machine was suspended" };
                format!(
                    "the clock of this machine was set {way} by {by}{slept}, {} ago",
                    span(*ago)
                )
            }
            Self::TableFull { table, refused } => {
                format!("the table of {} is full (refused {refused} times)", table_name(*table))
            }
            Self::HeldShareFull { share, used } => format!(
                "the share of {share} among the events that wait for git data is full \
                 ({} events, {})",
                used.events,
                bytes(used.bytes)
            ),
            Self::NoRelayConnected { relays } => format!("none of {relays} relays is connected"),
            Self::RelayDead { relay, since, next_try } => format!(
                "relay {relay} is dead: no answer since {}, next try {}",
                clock(*since, now),
                clock(*next_try, now)
            ),
            Self::RelayUnreachable { relay, since, failures, next_try } => format!(
                "relay {relay} cannot be reached since {} ({failures} attempts), next try {}",
                clock(*since, now),
                clock(*next_try, now)
            ),
            Self::RelayBanned { relay, until } => format!(
                "relay {relay} is not dialled until {}: its address is forbidden or it broke the \
                 protocol",
                clock(*until, now)
            ),
            Self::RelayPaused { relay, until } => format!(
                "relay {relay} refuses our requests and is left alone until {}",
                clock(*until, now)
            ),
            Self::RelayRefused { relay, bytes, until } => format!(
                "relay {relay} sent {} of events that are refused here; it is asked only for known \
                 repositories until {}",
                super::text::bytes(*bytes),
                clock(*until, now)
            ),
            Self::MirrorLacks(lack) => format!("mirror {}", lack.told()),
            Self::WeLack(lack) => format!("this server lacks something: {}", lack.told()),
            Self::FetchStuck { repo, attempts, asked } => format!(
                "git data of {} was not found in {attempts} attempts{asked}",
                short_repo(repo)
            ),
            Self::SlotsFull(FullSlots { class, used, max, waiting, since }) => format!(
                "all fetch slots for {} are in use since {} ({used} of {max}), {waiting} wait",
                slots_name(*class),
                clock(*since, now)
            ),
            Self::Further { kind, count } => {
                format!("{count} more of the kind `{}`", kind.code())
            }
        }
    }

    fn fix(&self) -> String {
        match self {
            Self::MirrorLacks(Lack { learn_from: Some(relay), server, .. }) => format!(
                "publish the repository's announcement to {server}; if it is a GRASP server, its operator \
                 can set NGIT_SYNC_BOOTSTRAP_RELAY_URL={relay} instead"
            ),
            Self::FetchStuck { repo, .. } => format!(
                "push it, or ask its owner to; `graspd repo {}` lists the servers that were asked",
                super::place(repo)
            ),
            other => other.kind().fix().into(),
        }
    }
}

impl Lack {
    fn told(&self) -> String {
        let more = match self.other_repositories {
            0 => String::new(),
            1 => ", and there is 1 more such repository".to_owned(),
            more => format!(", and there are {more} more such repositories"),
        };
        format!("{} {} ({}){more}", self.server, self.because, short_repo(&self.repo))
    }
}

const fn table_name(table: FullTable) -> &'static str {
    match table {
        FullTable::Held => "events that wait for git data",
        FullTable::Aside => "deletions kept aside",
        FullTable::FetchQueue => "repositories whose git data is looked for",
        FullTable::Ledger => "verdicts about mirrors",
        FullTable::Proposals => "pull requests of a repository",
        FullTable::GraspLists => "lists of GRASP servers (kind 10317)",
        FullTable::Deletions => "deletions that are remembered",
        FullTable::GitSlots => "git requests that run at the same time",
        FullTable::Connections => "open connections",
    }
}

const fn slots_name(class: SlotClass) -> &'static str {
    match class {
        SlotClass::Served => "served repositories",
        SlotClass::KnownOwner => "new repositories of known owners",
        SlotClass::Proposal => "pull requests",
        SlotClass::UnknownOwner => "owners without a fetch that succeeded",
    }
}

/// The identifier, and enough of the owner to tell two of them apart.
fn short_repo(repo: &RepoId) -> String {
    let npub = repo.owner.to_npub();
    let (start, end) = (npub.get(..12), npub.len().checked_sub(6).and_then(|at| npub.get(at..)));
    match (start, end) {
        (Some(start), Some(end)) => format!("{} of {start}…{end}", repo.identifier),
        _ => repo.identifier.to_string(),
    }
}

/// How long problems last, for a log line.
pub(super) fn lasted(began: Time, now: Time) -> String {
    span(Duration::max(now.since(began), Duration::from_secs(1)))
}

#[cfg(test)]
mod tests;

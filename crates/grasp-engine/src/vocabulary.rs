//! The two closed lists: all that can happen to the engine, and all it may do to others.

use grasp_core::{EventId, Filter, RelayUrl, RepoId, Time, Timestamp, WallOffset};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A subscription on one relay; never used twice by one engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sub(pub u64);

/// How much of a repository we follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// It waits for git data: only its states are asked for.
    StateOnly,
    /// It is served.
    Full,
}

/// Something happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// An announcement was accepted or is held. Replaces what was known of this repository.
    /// `serial` is its number in the store; numbers only grow.
    Announced {
        repo: RepoId,
        relays: Vec<RelayUrl>,
        level: Level,
        serial: u64,
    },
    /// The repository is neither served nor held any more.
    Withdrawn(RepoId),
    /// A patch, pull request, update or issue was accepted.
    Root {
        id: EventId,
        repos: Vec<RepoId>,
        serial: u64,
    },
    /// What an earlier run knew of this relay, in wall time. Comes before `Replayed`.
    Recalled {
        relay: RelayUrl,
        record: Box<crate::Record>,
    },
    /// The feed has told all of the past: plan now, without waiting for the window.
    Replayed,
    Connected {
        relay: RelayUrl,
        peer: Peer,
        /// Where the link leads, as links per address are counted.
        address: Option<IpAddr>,
    },
    /// The link is gone, or never came to be. Every subscription on it is gone too.
    Lost {
        relay: RelayUrl,
        why: Loss,
    },
    /// A subscription that stays (`Listen`) has told what is stored: EOSE.
    Listening {
        relay: RelayUrl,
        sub: Sub,
        page: Page,
    },
    /// A subscription is over. Every event it brought has been judged.
    Ended {
        relay: RelayUrl,
        sub: Sub,
        end: End,
    },
    /// An event that a live subscription brought is wanted, and this server has no room for it now.
    NoRoom {
        relay: RelayUrl,
        sub: Sub,
        id: EventId,
    },
    /// Events of this relay were judged since the last such input.
    Judged {
        relay: RelayUrl,
        judged: JudgedEvents,
    },
    /// How far the wall clock is ahead now. Told whenever it changed.
    WallClock(WallOffset),
    Notice {
        relay: RelayUrl,
        text: String,
    },
    /// The answer to `Authenticate`.
    Authenticated {
        relay: RelayUrl,
        ok: bool,
    },
    /// Somebody asks for a relay, for the relays of a repository, or for all, by hand.
    Refresh {
        relay: Option<RelayUrl>,
        repo: Option<RepoId>,
    },
}

/// What came of events that one relay sent (S-47).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct JudgedEvents {
    /// New here, and stored or held.
    pub accepted: u64,
    pub known: u64,
    pub refused: u64,
    pub refused_bytes: u64,
}

/// What a relay says about itself (NIP-11); all of it may be missing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Peer {
    pub subscriptions_max: Option<u32>,
    pub message_bytes_max: Option<u32>,
    pub limit_default: Option<u32>,
    /// It says that it is a GRASP server.
    pub grasp: bool,
    /// How often one address may ask its git side (S-56).
    pub git_requests_per_minute: Option<u32>,
    /// Is NIP-77 in its list of NIPs? `None`: it has no such list.
    pub nip77: Option<bool>,
}

/// Why a link is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Loss {
    /// It ended, or could not be made: network, name, TLS, handshake. Short, for people.
    Failed(String),
    /// It was not there in time and gave its place to others; counts as a failure.
    TooSlow,
    /// This address may never be dialled.
    Forbidden(String),
    /// It is this very server under another name.
    Ourselves,
    /// It sent forgeries, or events nobody asked for, beyond all patience.
    Misbehaved(String),
    /// It could not be tried now, for want of a place here; nobody's fault.
    Crowded,
    /// Its network address has all the links it may have.
    AddressFull(IpAddr),
    /// We hung up, as the engine asked.
    HungUp,
}

/// How a subscription ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// EOSE, and everything before it was received. The link has sent CLOSE.
    Complete(Page),
    /// The relay refused or ended it.
    Closed(String),
    /// No progress in time; the link has sent CLOSE.
    Silent,
    /// More came than one question may bring; the link has sent CLOSE.
    Flood(Page),
    /// Both sides are compared.
    Reconciled(Reconciliation),
    /// The relay does not compare so many events at once. It may say how many it compares.
    TooManyEvents { limit: Option<u64> },
    /// The relay does not speak NIP-77.
    NoNegentropy,
    /// It does, but this attempt failed.
    NegentropyFailed(String),
}

/// What a comparison showed (NIP-77).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reconciliation {
    /// What they have and we neither have nor refused.
    pub need: Vec<EventId>,
    /// So many of ours they do not have.
    pub lacking: usize,
    /// The first of these, up to `LACKS_MAX`.
    pub lacks: Vec<(Timestamp, EventId)>,
    /// Of what both are said to have: some that may be asked for.
    pub sample: Vec<EventId>,
    /// So many events they say they have.
    pub theirs: usize,
}

impl Reconciliation {
    /// Events of ours that a comparison names of those the relay lacks.
    pub const LACKS_MAX: usize = 20;
}

/// What one request brought: one tally for each of its filters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Page {
    pub tallies: Vec<Tally>,
    /// NIP-67: the relay says whether older events match.
    pub hint: Option<Hint>,
    /// Some event belongs to several filters, and nobody can tell for which of them it was sent.
    pub mixed: bool,
    /// Of the ids that were asked for by name: those that did not come.
    pub missing: Vec<EventId>,
    /// Of what came: events that are wanted and for which this server has no room now.
    pub no_room: Vec<EventId>,
    /// Of what came: events that were stored or held and not known before.
    pub stored: u32,
    /// Of what came: the first events that are wanted and were not here, up to `FRESH_MAX`.
    pub fresh: Vec<(Timestamp, EventId)>,
    pub bytes: u64,
}

impl Page {
    /// New events that a page names.
    pub const FRESH_MAX: usize = 20;
}

/// What came for one filter, whatever became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    pub received: u32,
    pub oldest: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// Nothing older matches.
    Finish,
    More,
}

/// Do this.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    Connect(RelayUrl),
    /// Ends the link, or the attempt. No `Lost` needs to follow.
    Hangup(RelayUrl),
    /// Opens a subscription that stays.
    Listen {
        relay: RelayUrl,
        sub: Sub,
        filters: Arc<[Filter]>,
    },
    /// Asks once: up to EOSE, then the link sends CLOSE.
    Request {
        relay: RelayUrl,
        sub: Sub,
        filters: Arc<[Filter]>,
        errand: Errand,
    },
    /// Compares what both sides have for one filter (NIP-77). How these repositories stand by it is
    /// kept in mind until `Stands`.
    Reconcile {
        relay: RelayUrl,
        sub: Sub,
        filter: Filter,
        errand: Errand,
        standing: Vec<RepoId>,
        /// The relay has to answer within this; `None`: as usual.
        answer_within: Option<Duration>,
    },
    /// Forgets a comparison that the relay refused by a NOTICE; nothing is sent. Nothing is reported
    /// about it any more.
    Abandon {
        relay: RelayUrl,
        sub: Sub,
    },
    /// What comparisons showed of these is how they stand.
    Stands {
        relay: RelayUrl,
        repos: Vec<RepoId>,
    },
    /// CLOSE. Nothing is reported about this subscription any more.
    Close {
        relay: RelayUrl,
        sub: Sub,
    },
    /// How this relay stands for these repositories cannot be found out now.
    Doubt {
        relay: RelayUrl,
        repos: Vec<RepoId>,
        doubt: Doubt,
    },
    /// Answer the relay's challenge (NIP-42) as the relay's own key.
    Authenticate(RelayUrl),
    /// Its record changed; see `Engine::record`.
    Remember(RelayUrl),
    /// Its record is of no use any more.
    Forget(RelayUrl),
    Tell(News),
}

/// Why a relay cannot be compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doubt {
    NoNegentropy,
    Unreachable {
        since: Time,
    },
    /// It names events that it does not give out.
    Keeps,
    /// It does not want our questions.
    Refused,
    RateLimited {
        until: Time,
    },
    /// It gave out events that it had hidden from a comparison.
    Hides,
    /// A comparison did not come to its end.
    Failed,
    /// We do not compare, as the operator decided.
    TurnedOff,
}

/// For what history is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errand {
    pub purpose: Purpose,
    /// Since when all of this was heard live. What was created later and comes only now is a gap.
    pub live_since: Option<Timestamp>,
    /// It asks for what was missed since this was last heard.
    pub catches_up: bool,
}

impl Errand {
    pub const BACKFILL: Self =
        Self { purpose: Purpose::Backfill, live_since: None, catches_up: false };
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    Backfill,
    Daily,
    /// An operator ordered it.
    ByHand,
}

/// For operators; the shell chooses words and level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    Connected {
        relay: RelayUrl,
    },
    Failed {
        relay: RelayUrl,
        why: String,
        failures: u32,
        next_try: Time,
    },
    /// It failed for so long without a break.
    Dead {
        relay: RelayUrl,
        failed_for: Duration,
        next_try: Time,
    },
    Recovered {
        relay: RelayUrl,
    },
    /// More events in one second than the relay gives out at once; some of them may be missing.
    SecondTooFull {
        relay: RelayUrl,
        second: Timestamp,
    },
    NoNegentropy {
        relay: RelayUrl,
    },
    /// It gave out an event that it hides from comparisons; these are ignored until then.
    HidesEvents {
        relay: RelayUrl,
        id: EventId,
        until: Time,
    },
    /// Too many of its events are refused: it is asked by the names of our repositories. `spent`: its
    /// budget for the day is used up; else almost all of its events are refused.
    AskedByName {
        relay: RelayUrl,
        budget: crate::RefusedBudget,
        spent: bool,
    },
    Cooling {
        relay: RelayUrl,
        until: Time,
    },
    Paused {
        relay: RelayUrl,
        why: String,
        until: Time,
    },
    /// Not everything fits into live subscriptions; so many groups are asked for in turn.
    Rotating {
        relay: RelayUrl,
        groups: usize,
    },
    /// No more relays can be followed.
    TooManyRelays {
        relay: RelayUrl,
    },
    /// A comparison failed, and its part of the past is read in pages. `is_new`: the reason is not
    /// the one of the failure before.
    ComparisonFailed {
        relay: RelayUrl,
        why: String,
        is_new: bool,
    },
    /// The relay ended a subscription without EOSE, or did not answer it.
    SubscriptionFailed {
        relay: RelayUrl,
        batch: Option<u64>,
        why: String,
    },
    /// The link is back after a long absence: what was confirmed does not count any more.
    Stale {
        relay: RelayUrl,
        away: Duration,
    },
    DailyBegan {
        relay: RelayUrl,
        groups: usize,
    },
    DailyEnded {
        relay: RelayUrl,
        took: Duration,
        stored: u64,
    },
    /// The live filters were packed anew.
    Consolidated {
        relay: RelayUrl,
        filters_before: usize,
        filters_after: usize,
    },
    /// No repository names the relay any more; the link is ended.
    Unwanted {
        relay: RelayUrl,
    },
    BatchBegan {
        relay: RelayUrl,
        batch: u64,
        groups: usize,
        compares: bool,
    },
    BatchEnded {
        relay: RelayUrl,
        batch: u64,
        confirmed: bool,
        took: Duration,
    },
}

impl Action {
    pub fn relay(&self) -> &RelayUrl {
        match self {
            Self::Connect(relay)
            | Self::Hangup(relay)
            | Self::Authenticate(relay)
            | Self::Remember(relay)
            | Self::Forget(relay)
            | Self::Listen { relay, .. }
            | Self::Request { relay, .. }
            | Self::Reconcile { relay, .. }
            | Self::Stands { relay, .. }
            | Self::Abandon { relay, .. }
            | Self::Doubt { relay, .. }
            | Self::Close { relay, .. } => relay,
            Self::Tell(news) => news.relay(),
        }
    }
}

impl News {
    pub fn relay(&self) -> &RelayUrl {
        match self {
            Self::Connected { relay }
            | Self::Failed { relay, .. }
            | Self::Dead { relay, .. }
            | Self::Recovered { relay }
            | Self::SecondTooFull { relay, .. }
            | Self::NoNegentropy { relay }
            | Self::HidesEvents { relay, .. }
            | Self::AskedByName { relay, .. }
            | Self::Cooling { relay, .. }
            | Self::Paused { relay, .. }
            | Self::Rotating { relay, .. }
            | Self::TooManyRelays { relay }
            | Self::ComparisonFailed { relay, .. }
            | Self::SubscriptionFailed { relay, .. }
            | Self::Stale { relay, .. }
            | Self::DailyBegan { relay, .. }
            | Self::DailyEnded { relay, .. }
            | Self::Consolidated { relay, .. }
            | Self::Unwanted { relay }
            | Self::BatchBegan { relay, .. }
            | Self::BatchEnded { relay, .. } => relay,
        }
    }
}

//! What travels between a server and a relay, and the link it travels on. In order within one link;
//! links know nothing of each other.

use grasp_core::{Event, Filter, RelayUrl, Time};
use grasp_engine::{Hint, Patience, Reception, Reconciliation, Sub};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LinkId(pub(crate) u64);

/// From a server to a relay.
#[derive(Debug)]
pub(crate) enum Word {
    Req { sub: Sub, filters: Arc<[Filter]> },
    NegOpen { sub: Sub, filter: Box<Filter>, answer_within: Option<Duration> },
    NegMore { sub: Sub },
    Close { sub: Sub },
    Auth,
}

/// From a relay to a server.
#[derive(Debug)]
pub(crate) enum Frame {
    Events { sub: Sub, copies: Vec<Copied> },
    Eose { sub: Sub, hint: Option<Hint> },
    Closed { sub: Sub, text: String },
    Notice(&'static str),
    NegDone { sub: Sub, found: Reconciliation },
    NegRound { sub: Sub },
    NegErr { sub: Sub, text: &'static str, limit: Option<u64> },
    Authed { ok: bool },
}

/// An event as it came; only whoever verifies it may look at `forged`.
#[derive(Debug, Clone)]
pub(crate) struct Copied {
    pub(crate) event: Arc<Event>,
    pub(crate) forged: bool,
    /// It came before the end of what was stored.
    pub(crate) past: bool,
}

impl Copied {
    pub(crate) fn genuine(event: &Arc<Event>) -> Self {
        Self { event: event.clone(), forged: false, past: true }
    }

    /// The right id, the wrong words.
    pub(crate) fn forged(event: &Arc<Event>) -> Self {
        let mut copy = Event::clone(event);
        copy.content = "not what the author wrote".to_owned();
        Self { event: Arc::new(copy), forged: true, past: true }
    }
}

/// A link, from the server's side.
#[derive(Debug)]
pub(crate) struct Link {
    pub(crate) server: usize,
    pub(crate) relay: usize,
    pub(crate) url: RelayUrl,
    pub(crate) is_up: bool,
    pub(crate) up_at: Time,
    /// How long there was none before it; `None`: never.
    pub(crate) away: Option<Duration>,
    /// Nothing passes any more, and the ends do not know yet.
    pub(crate) is_cut: bool,
    pub(crate) reception: Reception,
    /// Reconciliations under way, and how many rounds each has had.
    pub(crate) rounds: BTreeMap<Sub, u32>,
    pub(crate) latency_ms: u64,
    pub(crate) to_relay_at: Time,
    pub(crate) to_server_at: Time,
    pub(crate) impatient_at: Option<Time>,
}

impl Link {
    pub(crate) const ROUNDS_MAX: u32 = 64;

    pub(crate) fn new(server: usize, relay: usize, url: RelayUrl, latency_ms: u64) -> Self {
        // Small enough that a flood ends soon.
        let patience = Patience { events_max: 600, ..Patience::default() };
        Self {
            server,
            relay,
            url,
            is_up: false,
            up_at: Time(0),
            away: None,
            is_cut: false,
            reception: Reception::new(patience),
            rounds: BTreeMap::new(),
            latency_ms,
            to_relay_at: Time(0),
            to_server_at: Time(0),
            impatient_at: None,
        }
    }
}

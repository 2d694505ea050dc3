//! How large everything is. The quick plan runs the same code over tiny sizes.

use super::crowd::Crowd;
use crate::cli::Settings;
use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The engine at the size it is built for, and at the size its seed had in mind.
    pub(crate) crowd: Crowd,
    pub(crate) seed_crowd: Crowd,
    pub(crate) live: Live,
    pub(crate) history: History,
    pub(crate) judged: bool,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Live {
    /// Threads that exist before anything is measured.
    pub(crate) roots: usize,
    /// What every server has from the year before.
    pub(crate) past: usize,
    pub(crate) events: usize,
    pub(crate) per_second: u64,
    /// Published while one of the servers is dead.
    pub(crate) missed: usize,
    pub(crate) pauses: Pauses,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct History {
    pub(crate) repositories: usize,
    pub(crate) roots: usize,
    pub(crate) replies: usize,
    pub(crate) pauses: Pauses,
}

/// Times that have nothing to do with how fast anything is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pauses {
    /// How long the servers collect what is new before they ask for it.
    pub(crate) window: Duration,
    /// When nothing has come for so long, nothing will.
    pub(crate) quiet: Duration,
    /// The cap on waiting, which only ends a broken run.
    pub(crate) patience: Duration,
}

impl Plan {
    pub(crate) fn of(settings: &Settings) -> Self {
        if settings.quick { quick() } else { full() }
    }
}

fn full() -> Plan {
    let pauses = Pauses {
        window: Duration::from_secs(5),
        quiet: Duration::from_secs(10),
        patience: Duration::from_secs(300),
    };
    Plan {
        crowd: Crowd {
            repositories: 100_000,
            roots: 1_000_000,
            relays: 10_000,
            links: 500,
            largest: 50_000,
        },
        seed_crowd: Crowd {
            repositories: 1_000,
            roots: 50_000,
            relays: 100,
            links: 100,
            largest: 500,
        },
        live: Live {
            roots: 100,
            past: 20_000,
            events: 10_000,
            per_second: 100,
            missed: 100,
            pauses,
        },
        history: History { repositories: 1_000, roots: 50_000, replies: 50_000, pauses },
        judged: true,
    }
}

fn quick() -> Plan {
    let pauses = Pauses {
        window: Duration::from_millis(300),
        quiet: Duration::from_millis(1_500),
        patience: Duration::from_secs(180),
    };
    let crowd = Crowd { repositories: 200, roots: 2_000, relays: 50, links: 20, largest: 500 };
    Plan {
        crowd,
        seed_crowd: crowd,
        live: Live { roots: 10, past: 50, events: 100, per_second: 100, missed: 10, pauses },
        history: History { repositories: 5, roots: 100, replies: 100, pauses },
        judged: false,
    }
}

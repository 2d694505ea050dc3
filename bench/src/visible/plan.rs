//! How large everything is. The quick plan runs the same code over tiny sizes.

use crate::cli::Settings;
use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) town: Town,
    pub(super) asked: Asked,
    pub(super) beside: Beside,
    pub(super) upkeep: Upkeep,
    /// The cap on waiting, which only ends a broken run.
    pub(super) patience: Duration,
    pub(super) judged: bool,
}

/// What a large server has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Town {
    pub(super) repositories: usize,
    /// Of those: with a state and its git data, and with a state that waits for git data.
    pub(super) whole: usize,
    pub(super) held: usize,
    pub(super) owners: u64,
    /// Relays that are servers with nothing in them: every announcement names one.
    pub(super) popular: usize,
    /// Others, of which every announcement names one, too; nobody answers there.
    pub(super) relays: usize,
    pub(super) issues: usize,
    /// About the one repository that is looked at.
    pub(super) issues_of_first: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    pub(super) times: usize,
    /// Before anything counts.
    pub(super) warmup: usize,
    /// Requests with a pause before each, in which the server forgets what it saw last.
    pub(super) after_pause: usize,
    pub(super) pause: Duration,
    /// Lines of a list.
    pub(super) lines: usize,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Beside {
    pub(super) rounds: usize,
    pub(super) round: Duration,
    pub(super) publishers: usize,
    /// Events that all of them publish in a second.
    pub(super) events_per_second: u32,
    pub(super) askers: usize,
    /// After each answer.
    pub(super) pause: Duration,
    pub(super) requests_per_second: u32,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Upkeep {
    pub(super) repositories: usize,
    pub(super) peers: usize,
    pub(super) issues: usize,
    /// How old a verdict may become while a round is measured.
    pub(super) age_max: Duration,
    /// How long the server is watched with nothing to do.
    pub(super) idle: Duration,
}

impl Plan {
    pub(super) fn of(settings: &Settings) -> Self {
        if settings.quick { quick() } else { full() }
    }
}

fn full() -> Plan {
    Plan {
        town: Town {
            repositories: 10_000,
            whole: 1_000,
            held: 3_000,
            owners: 500,
            popular: 3,
            relays: 300,
            issues: 20_000,
            issues_of_first: 1_000,
        },
        asked: Asked {
            times: 300,
            warmup: 20,
            after_pause: 7,
            pause: Duration::from_millis(1_050),
            lines: 100,
        },
        beside: Beside {
            rounds: 5,
            round: Duration::from_secs(6),
            publishers: 4,
            events_per_second: 100,
            askers: 4,
            pause: Duration::from_millis(10),
            requests_per_second: 20,
        },
        upkeep: Upkeep {
            repositories: 1_000,
            peers: 5,
            issues: 10_000,
            age_max: Duration::from_secs(120),
            idle: Duration::from_secs(60),
        },
        patience: Duration::from_secs(600),
        judged: true,
    }
}

fn quick() -> Plan {
    Plan {
        town: Town {
            repositories: 20,
            whole: 4,
            held: 6,
            owners: 5,
            popular: 1,
            relays: 5,
            issues: 40,
            issues_of_first: 10,
        },
        asked: Asked {
            times: 5,
            warmup: 1,
            after_pause: 1,
            pause: Duration::from_millis(10),
            lines: 5,
        },
        beside: Beside {
            rounds: 1,
            round: Duration::from_millis(500),
            publishers: 2,
            events_per_second: 20,
            askers: 2,
            pause: Duration::from_millis(10),
            requests_per_second: 40,
        },
        upkeep: Upkeep {
            repositories: 4,
            peers: 2,
            issues: 10,
            age_max: Duration::from_secs(10),
            idle: Duration::from_millis(500),
        },
        patience: Duration::from_secs(120),
        judged: false,
    }
}

//! What outlives a restart, for each relay: a dead relay stays dead, a limit once learnt is not
//! learnt again by annoying somebody, and what was confirmed is not fetched again.

use grasp_core::{EventId, Time};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    pub health: crate::Health,
    /// Until then nothing confirmed was missed.
    pub last_alive: Option<Time>,
    /// Whatever was wanted of this relay and has a serial up to this was confirmed then.
    pub confirmed_through: u64,
    pub daily_at: Option<Time>,
    /// The last daily sync that came to its end.
    pub daily_last: Option<crate::DailyResult>,
    pub last_failure: Option<Time>,
    /// The oldest that is known of how it stands.
    pub verified: Option<Time>,
    /// It was to be looked at again soon.
    pub recheck: bool,
    pub paused_until: Option<Time>,
    pub cooling_until: Option<Time>,
    /// Events it said it has and did not give out yet.
    pub owed: Vec<EventId>,
    pub learned: Learned,
    pub negentropy: crate::NegMemory,
    pub account: Account,
    pub budget: crate::RefusedBudget,
}

impl Record {
    /// The same with every moment translated.
    #[must_use]
    pub fn with_times(mut self, translate: impl Fn(Time) -> Time) -> Self {
        self.last_failure = self.last_failure.map(&translate);
        let Self { health, last_alive, daily_at, verified, paused_until, cooling_until, .. } =
            &mut self;
        *health = health.with_times(&translate);
        for at in [last_alive, daily_at, verified, paused_until, cooling_until] {
            *at = at.map(&translate);
        }
        if let Some(daily) = &mut self.daily_last {
            daily.ended = translate(daily.ended);
        }
        self.negentropy = self.negentropy.with_times(&translate);
        self.budget = self.budget.with_times(&translate);
        self.account.known_since = translate(self.account.known_since);
        self
    }
}

/// Limits a relay showed by refusing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Learned {
    pub filters_per_request_max: Option<u32>,
    pub subscriptions_max: Option<u32>,
    pub live_bytes_max: Option<u64>,
}

/// How reliable a peer has been (S-30).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Account {
    pub attempts: u64,
    pub failures: u64,
    /// Since when we have known it.
    pub known_since: Time,
    pub connected_ms: u64,
    /// While we were running and wanted it: what `connected_ms` is a part of.
    pub wanted_ms: u64,
}

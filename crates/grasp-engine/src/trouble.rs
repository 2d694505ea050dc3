//! Relays that an operator should know about: dead, out of reach for a while, or left alone. Only
//! relays that a served repository names, or that the operator chose, are told of.

use crate::Health;
use crate::engine::Engine;
use crate::relay::{Link, Relay};
use grasp_core::{RelayUrl, Time};
use std::time::Duration;

/// Why nothing comes from a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RelayTrouble {
    /// It did not answer for so long that it is tried once a day.
    Dead { since: Time, next_try: Time },
    /// It does not answer, and is tried again and again.
    Unreachable { since: Time, failures: u32, next_try: Time },
    /// It is not dialled: its address is forbidden, or it broke the protocol.
    Banned { until: Time },
    /// It sent more events that we refuse than it may in a day.
    RefusedEvents { bytes: u64, until: Time },
    /// It is connected and refuses our requests.
    Paused { until: Time },
}

/// A restart of a relay takes less than this.
const UNREACHABLE_AFTER: Duration = Duration::from_secs(300);

impl Engine {
    /// Up to `count_max` relays in trouble, by address, in wall time.
    pub fn relay_troubles(&self, count_max: usize, now: Time) -> Vec<(RelayUrl, RelayTrouble)> {
        let relays = self.numbers.values().filter_map(|number| self.relay(*number));
        let to_wall = |at| self.wall.offset.to_wall(at);
        let troubles = relays
            .filter_map(|relay| Some((relay.url.clone(), relay.trouble(now)?.with_times(to_wall))));
        troubles.take(count_max).collect()
    }
}

impl RelayTrouble {
    fn with_times(self, translate: impl Fn(Time) -> Time) -> Self {
        match self {
            Self::Dead { since, next_try } => {
                Self::Dead { since: translate(since), next_try: translate(next_try) }
            }
            Self::Unreachable { since, failures, next_try } => {
                let (since, next_try) = (translate(since), translate(next_try));
                Self::Unreachable { since, failures, next_try }
            }
            Self::Banned { until } => Self::Banned { until: translate(until) },
            Self::RefusedEvents { bytes, until } => {
                Self::RefusedEvents { bytes, until: translate(until) }
            }
            Self::Paused { until } => Self::Paused { until: translate(until) },
        }
    }
}

impl Relay {
    fn trouble(&self, now: Time) -> Option<RelayTrouble> {
        if self.ourselves || (self.served == 0 && !self.bootstrap) {
            return None;
        }
        if self.budget.is_spent(now) {
            let (bytes, until) = (self.budget.refused_bytes, self.budget.day_ends());
            return Some(RelayTrouble::RefusedEvents { bytes, until });
        }
        if matches!(self.link, Link::Up(_)) {
            let until = self.brake.paused_until;
            return (until > now).then_some(RelayTrouble::Paused { until });
        }
        match self.health {
            Health::Healthy => None,
            Health::Degraded { failures, first: since, next_try } => (now.since(since)
                >= UNREACHABLE_AFTER)
                .then_some(RelayTrouble::Unreachable { since, failures, next_try }),
            Health::Dead { first: since, next_try, .. } => {
                Some(RelayTrouble::Dead { since, next_try })
            }
            Health::Banned { until } => (until > now).then_some(RelayTrouble::Banned { until }),
        }
    }
}

//! The condition of another relay (S-22): healthy, degraded with a growing wait, or dead and tried
//! once a day. Only a link that held for a while counts as recovery, so a flapping relay is not
//! hammered; and all of it is data, so a restart forgets nothing.

use crate::Settings;
use grasp_core::Time;
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Health {
    #[default]
    Healthy,
    /// Failed so often in a row, first then; not before `next_try`.
    Degraded { failures: u32, first: Time, next_try: Time },
    /// Failed for so long that it is tried once a day.
    Dead { failures: u32, first: Time, next_try: Time },
    /// Not to be dialled before then: forbidden, ourselves, or a liar.
    Banned { until: Time },
}

impl Health {
    pub fn failures(&self) -> u32 {
        match self {
            Self::Degraded { failures, .. } | Self::Dead { failures, .. } => *failures,
            Self::Healthy | Self::Banned { .. } => 0,
        }
    }

    /// How long it has failed without a break.
    pub fn failed_for(&self, now: Time) -> Duration {
        match self {
            Self::Degraded { first, .. } | Self::Dead { first, .. } => now.since(*first),
            Self::Healthy | Self::Banned { .. } => Duration::ZERO,
        }
    }

    /// The earliest moment of the next attempt.
    pub fn next_try(&self) -> Time {
        match self {
            Self::Healthy => Time(0),
            Self::Degraded { next_try, .. } | Self::Dead { next_try, .. } => *next_try,
            Self::Banned { until } => *until,
        }
    }

    pub fn is_dead(&self) -> bool {
        matches!(self, Self::Dead { .. })
    }

    /// The same with every moment translated.
    #[must_use]
    pub fn with_times(self, translate: impl Fn(Time) -> Time) -> Self {
        match self {
            Self::Healthy => Self::Healthy,
            Self::Degraded { failures, first, next_try } => {
                Self::Degraded { failures, first: translate(first), next_try: translate(next_try) }
            }
            Self::Dead { failures, first, next_try } => {
                Self::Dead { failures, first: translate(first), next_try: translate(next_try) }
            }
            Self::Banned { until } => Self::Banned { until: translate(until) },
        }
    }

    /// Nothing is put off for longer than it ever should be, and a relay has failed for no longer
    /// than was seen: a clock that was set between two runs is not its failure.
    #[must_use]
    pub fn clamped(self, now: Time, settings: &Settings) -> Self {
        let at_most = |at: Time, wait: Duration| at.min(now.plus(wait));
        match self {
            Self::Healthy => Self::Healthy,
            Self::Degraded { failures, first, next_try } => {
                let seen_ms = next_try.0.saturating_sub(first.0);
                let first = first.max(Time(now.0.saturating_sub(seen_ms))).min(now);
                let next_try = at_most(next_try, backoff(failures, settings));
                Self::Degraded { failures, first, next_try }
            }
            Self::Dead { failures, first, next_try } => {
                let next_try = at_most(next_try, settings.dead_retry);
                Self::Dead { failures, first: first.min(now), next_try }
            }
            Self::Banned { until } => {
                Self::Banned { until: at_most(until, settings.banned_for.max(settings.pause)) }
            }
        }
    }

    /// As bad as it was, but tried then.
    #[must_use]
    pub fn tried_at(self, at: Time) -> Self {
        match self {
            Self::Healthy | Self::Banned { .. } => Self::Healthy,
            Self::Degraded { failures, first, .. } => {
                Self::Degraded { failures, first, next_try: at }
            }
            Self::Dead { failures, first, .. } => Self::Dead { failures, first, next_try: at },
        }
    }

    #[must_use]
    pub fn after_failure(self, now: Time, settings: &Settings) -> Self {
        let (failures, first) = match self {
            Self::Degraded { failures, first, .. } | Self::Dead { failures, first, .. } => {
                (failures.saturating_add(1), first)
            }
            Self::Healthy | Self::Banned { .. } => (1, now),
        };
        if now.since(first) >= settings.dead_after {
            return Self::Dead { failures, first, next_try: now.plus(settings.dead_retry) };
        }
        Self::Degraded { failures, first, next_try: now.plus(backoff(failures, settings)) }
    }
}

/// How long a relay is left alone after so many failures in a row.
fn backoff(failures: u32, settings: &Settings) -> Duration {
    let doublings = failures.saturating_sub(1).min(31);
    settings.backoff_base.saturating_mul(1 << doublings).min(settings.backoff_max)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s22_the_wait_doubles_up_to_an_hour() {
        let settings = Settings::default();
        let mut health = Health::Healthy;
        let now = Time::from_secs(1_000);
        for wait in [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600] {
            health = health.after_failure(now, &settings);
            assert_eq!(health.next_try(), now.plus(Duration::from_secs(wait)));
        }
    }

    #[test]
    fn s22_a_day_of_failure_is_death_and_then_one_try_a_day() {
        let settings = Settings::default();
        let first = Time::from_secs(1_000);
        let mut health = Health::Healthy.after_failure(first, &settings);
        let nearly = first.plus(Duration::from_secs(24 * 3600 - 1));
        health = health.after_failure(nearly, &settings);
        assert!(!health.is_dead());
        let day = first.plus(Duration::from_secs(24 * 3600));
        health = health.after_failure(day, &settings);
        assert!(health.is_dead());
        assert_eq!(health.next_try(), day.plus(Duration::from_secs(24 * 3600)));
    }
}

//! Why a relay is asked nothing for a while (S-23).

use crate::Settings;
use grasp_core::Time;
use std::time::Duration;

/// Each reason has its own clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Brake {
    /// It asked us to slow down.
    pub(crate) cooling_until: Time,
    cooldowns: u32,
    /// It does not want us.
    pub(crate) paused_until: Time,
    /// Questions went unanswered.
    pub(crate) unanswered_until: Time,
    unanswered: u32,
}

impl Brake {
    /// Until when nothing at all is asked.
    pub(crate) fn all_until(&self) -> Time {
        self.cooling_until.max(self.paused_until)
    }

    pub(crate) fn history_until(&self) -> Time {
        self.all_until().max(self.unanswered_until)
    }

    /// Notices inside a cooldown do not extend it. Returns whether one began.
    pub(crate) fn cool(&mut self, now: Time, settings: &Settings) -> bool {
        if now < self.cooling_until {
            return false;
        }
        if now.since(self.cooling_until) >= settings.cooldown_forgotten_after {
            self.cooldowns = 0;
        }
        let wait = doubled(settings.cooldown, self.cooldowns, settings.cooldown_max);
        self.cooldowns += 1;
        self.cooling_until = now.plus(wait);
        true
    }

    pub(crate) fn unanswered(&mut self, now: Time, settings: &Settings) {
        if now < self.unanswered_until {
            return;
        }
        let wait = doubled(settings.cooldown, self.unanswered, settings.cooldown_max);
        self.unanswered += 1;
        self.unanswered_until = now.plus(wait);
    }

    pub(crate) fn answered(&mut self) {
        self.unanswered = 0;
    }

    /// Whatever it was, it is over.
    pub(crate) fn release(&mut self) {
        *self = Self::default();
    }
}

fn doubled(base: Duration, times: u32, max: Duration) -> Duration {
    base.saturating_mul(1 << times.min(16)).min(max)
}

//! A clock that is set back: whoever waits for a moment waits as long as was meant, not until
//! the clock has come to where it was once more.

use crate::Health;
use crate::engine::Engine;
use crate::relay::{Link, Relay};
use crate::session::Negentropy;
use grasp_core::Time;
use std::time::Duration;

/// A clock is corrected by less than this all the time.
const CORRECTION_MAX: Duration = Duration::from_secs(60);

impl Engine {
    /// Somebody looks at the clock.
    pub(crate) fn heed_clock(&mut self, now: Time) {
        let back_ms = self.looked.0.saturating_sub(now.0);
        if now.plus(CORRECTION_MAX) < self.looked {
            self.timers.ring_earlier(back_ms);
            let numbers: Vec<u32> = self.numbers.values().copied().collect();
            for number in numbers {
                if let Some(relay) = self.relay_mut(number) {
                    relay.clock_went_back(back_ms);
                }
            }
        }
        self.looked = now;
    }
}

impl Relay {
    fn clock_went_back(&mut self, back_ms: u64) {
        for at in self.moments() {
            *at = Time(at.0.saturating_sub(back_ms));
        }
        if let Some(pace) = &mut self.pace {
            pace.clock_went_back(back_ms);
        }
    }

    fn moments(&mut self) -> Vec<&mut Time> {
        let mut all = vec![&mut self.not_before, &mut self.verified, &mut self.doubted];
        all.push(&mut self.check_at);
        all.extend(self.brake.moments());
        let others = [&mut self.daily_at, &mut self.last_alive];
        let past = [&mut self.made_way, &mut self.wanted_since];
        all.extend(others.into_iter().chain(past).flatten());
        match &mut self.health {
            Health::Healthy => {}
            Health::Degraded { first, next_try, .. } | Health::Dead { first, next_try, .. } => {
                all.extend([first, next_try]);
            }
            Health::Banned { until } => all.push(until),
        }
        for group in &mut self.groups {
            all.extend([&mut group.verified, &mut group.covered, &mut group.asked_at]);
            all.push(&mut group.behind.since);
            all.extend(&mut group.recheck);
        }
        if let Link::Up(session) = &mut self.link {
            all.extend([&mut session.since, &mut session.turn_since, &mut session.believed]);
            all.extend(&mut session.repack_since);
            all.extend(session.batches.values_mut().map(|batch| &mut batch.started));
            if let Negentropy::NotBefore(until, _) = &mut session.negentropy {
                all.push(until);
            }
        }
        all
    }
}

//! What happens when the clock is set back: every moment the hunt remembers moves with it, so that
//! what was due in a minute is due in a minute. Without that all would stand still for as long.

use super::alarm::Alarm;
use super::machine::Hunt;
use grasp_core::Time;
use std::time::Duration;

/// Clocks are corrected by less than this all the time.
const UNSTEADY_MAX: Duration = Duration::from_secs(1);

/// The same moment by the new clock.
pub(super) fn earlier(at: Time, by: Duration) -> Time {
    match at {
        Time(u64::MAX) => at,
        Time(ms) => Time(ms.saturating_sub(u64::try_from(by.as_millis()).unwrap_or(u64::MAX))),
    }
}

impl Hunt {
    /// Comes before anything else that looks at the time.
    pub(super) fn mind_the_clock(&mut self, now: Time) {
        let by = self.seen.since(now);
        if by <= UNSTEADY_MAX {
            self.seen = self.seen.max(now);
            return;
        }
        self.seen = now;
        let mut alarms: Vec<(Time, Alarm)> = Vec::new();
        while let Some((at, alarm)) = self.timers.next() {
            self.timers.clear(alarm.clone());
            alarms.push((at, alarm));
        }
        for (at, alarm) in alarms {
            self.timers.set(alarm, earlier(at, by));
        }
        for entry in self.entries.values_mut() {
            entry.set_back(by);
        }
        for job in self.jobs.values_mut() {
            job.started = earlier(job.started, by);
        }
        self.neighbours.set_back(by);
        self.absent.set_back(by);
        self.budget.set_back(by);
        self.check_budget.set_back(by);
    }
}

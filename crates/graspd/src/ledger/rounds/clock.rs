//! What happens when the clock is set back: every moment that is remembered moves with it, so that what
//! was due in an hour is due in an hour. Without that all would stand still for as long.

use super::Rounds;
use grasp_core::{RepoId, Time};
use std::time::Duration;

/// Clocks are corrected by less than this all the time.
const UNSTEADY_MAX: Duration = Duration::from_secs(60);

impl Rounds {
    /// Comes before anything else that looks at the time.
    pub fn mind_the_clock(&mut self, now: Time) {
        let by = self.seen.since(now);
        if by <= UNSTEADY_MAX {
            self.seen = self.seen.max(now);
            return;
        }
        self.seen = now;
        let repos: Vec<RepoId> = self.due.keys().cloned().collect();
        for check in repos.iter().flat_map(|repo| self.of(repo)).collect::<Vec<_>>() {
            let due = self.due_at(&check).unwrap_or(now);
            self.put(check, earlier(due, by));
        }
        for times in self.later.values_mut() {
            *times = times.iter().map(|at| earlier(*at, by)).collect();
        }
        self.early.values_mut().for_each(|at| *at = earlier(*at, by));
        self.gaps.values_mut().for_each(|gap| gap.until = earlier(gap.until, by));
        self.doubts.set_back(by);
        self.shares.set_back(by);
        self.places.set_back(by);
    }
}

/// The same moment by a clock that was set back.
pub(super) fn earlier(at: Time, by: Duration) -> Time {
    Time(at.0.saturating_sub(u64::try_from(by.as_millis()).unwrap_or(u64::MAX)))
}

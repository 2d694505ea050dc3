//! The only place that reads a clock. Schedulers, limits and deadlines use steady time: the wall
//! time of the start plus what has passed since, so that no one can set it. Wall time is for
//! `created_at` and for records. A step of the wall clock is noticed here.

use grasp_core::{Time, WallOffset};
use parking_lot::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A smaller change is a correction, not a step.
pub const STEP_MIN: Duration = Duration::from_secs(60);
/// For so long operators are told of a step, and after a step forward nothing is deleted because of its
/// age. While a machine is suspended steady time stands still, so waking up is a step forward, too.
pub const STEP_DOUBTED_FOR: Duration = Duration::from_secs(3_600);

#[derive(Debug)]
pub struct Clock {
    started: Instant,
    /// Wall time then.
    began: Time,
    steps: Mutex<StepLog>,
    /// What a test adds to what passes, and to the wall clock.
    #[cfg(test)]
    added_ms: std::sync::atomic::AtomicI64,
    #[cfg(test)]
    wall_added_ms: std::sync::atomic::AtomicI64,
}

/// Both times of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    pub now: Time,
    pub wall: Time,
}

/// The wall clock was set: so far, at this steady moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockStep {
    pub by_ms: i64,
    pub at: Time,
}

#[derive(Debug, Default)]
struct StepLog {
    offset: WallOffset,
    last: Option<ClockStep>,
    last_forward: Option<Time>,
}

impl Default for Clock {
    fn default() -> Self {
        Self::starting_at(system_time())
    }
}

impl Clock {
    fn starting_at(began: Time) -> Self {
        Self {
            started: Instant::now(),
            began,
            steps: Mutex::default(),
            #[cfg(test)]
            added_ms: Default::default(),
            #[cfg(test)]
            wall_added_ms: Default::default(),
        }
    }

    /// Steady time: never set, never back.
    pub fn now(&self) -> Time {
        let now = self.began.plus(self.started.elapsed());
        #[cfg(test)]
        let now = tests::add(now, &self.added_ms);
        now
    }

    /// What the system says it is.
    pub fn wall(&self) -> Time {
        self.read().wall
    }

    /// Both, read together; a step since the last reading is noticed.
    pub fn read(&self) -> ClockReading {
        let wall = system_time();
        #[cfg(test)]
        let wall = tests::add(tests::add(wall, &self.added_ms), &self.wall_added_ms);
        let reading = ClockReading { now: self.now(), wall };
        if let Some(step) = self.steps.lock().notice(reading) {
            tracing::warn!(by_ms = step.by_ms, "the wall clock was set");
        }
        reading
    }

    pub fn offset(&self) -> WallOffset {
        self.read().offset()
    }

    pub fn to_wall(&self, steady: Time) -> Time {
        self.offset().to_wall(steady)
    }

    /// A record's moment; one that is still to come was written by a clock that was wrong.
    pub fn past_to_steady(&self, wall: Time) -> Time {
        let reading = self.read();
        reading.offset().to_steady(wall).min(reading.now)
    }

    /// The last step, while it is recent enough to be doubted.
    pub fn recent_step(&self) -> Option<ClockStep> {
        let now = self.read().now;
        self.steps.lock().last.filter(|step| now.since(step.at) < STEP_DOUBTED_FOR)
    }

    /// May something be deleted because of its age? Not soon after the clock was set forward: it may
    /// be wrong, and what is deleted is gone.
    pub fn may_delete(&self) -> bool {
        let now = self.read().now;
        self.steps.lock().may_delete(now)
    }

    /// This start may itself be a step: the last record is that much older.
    pub fn doubt_start(&self) {
        self.steps.lock().last_forward = Some(self.now());
    }
}

impl ClockReading {
    pub fn offset(self) -> WallOffset {
        WallOffset::between(self.wall, self.now)
    }
}

impl StepLog {
    fn notice(&mut self, reading: ClockReading) -> Option<ClockStep> {
        let (offset, before) = (reading.offset(), self.offset);
        self.offset = offset;
        if offset.step_from(before) < STEP_MIN {
            return None;
        }
        let step = ClockStep { by_ms: offset.0.saturating_sub(before.0), at: reading.now };
        self.last = Some(step);
        if step.by_ms > 0 {
            self.last_forward = Some(reading.now);
        }
        Some(step)
    }

    fn may_delete(&self, now: Time) -> bool {
        self.last_forward.is_none_or(|at| now.since(at) >= STEP_DOUBTED_FOR)
    }
}

fn system_time() -> Time {
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Time(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicI64, Ordering};

    const HOUR_MS: u64 = 3_600_000;

    pub(super) fn add(time: Time, added_ms: &AtomicI64) -> Time {
        Time(time.0.saturating_add_signed(added_ms.load(Ordering::Relaxed)))
    }

    impl Clock {
        /// The process started when the wall clock was so far ahead, and it still is.
        pub(crate) fn started_ahead(ahead_ms: i64) -> Self {
            let clock = Self::starting_at(Time(system_time().0.saturating_add_signed(ahead_ms)));
            clock.wall_added_ms.store(ahead_ms, Ordering::Relaxed);
            clock
        }

        /// Time passes.
        pub(crate) fn elapse(&self, time: Duration) {
            let ms = i64::try_from(time.as_millis()).unwrap();
            self.added_ms.fetch_add(ms, Ordering::Relaxed);
        }

        /// The wall clock is set.
        pub(crate) fn set_wall(&self, by_ms: i64) {
            self.wall_added_ms.fetch_add(by_ms, Ordering::Relaxed);
        }
    }

    fn reading(now: u64, wall: u64) -> ClockReading {
        ClockReading { now: Time(now), wall: Time(wall) }
    }

    #[test]
    fn steady_time_never_goes_back_and_begins_as_wall_time() {
        let clock = Clock::default();
        let (first, second) = (clock.read(), clock.read());
        assert!(second.now >= first.now);
        assert!(first.offset().step_from(WallOffset::default()) < STEP_MIN);
    }

    #[test]
    fn after_a_step_forward_nothing_is_deleted_for_an_hour_of_steady_time() {
        let mut steps = StepLog::default();
        assert_eq!(steps.notice(reading(10 * HOUR_MS, 10 * HOUR_MS)), None);
        assert_eq!(steps.notice(reading(10 * HOUR_MS + 10, 10 * HOUR_MS + 5_000)), None);
        assert!(steps.may_delete(Time(10 * HOUR_MS + 10)), "a correction is no step");
        let step = steps.notice(reading(11 * HOUR_MS, 35 * HOUR_MS));
        assert_eq!(step.map(|step| step.at), Some(Time(11 * HOUR_MS)));
        assert!(!steps.may_delete(Time(11 * HOUR_MS)));
        assert!(!steps.may_delete(Time(12 * HOUR_MS - 1)));
        assert!(steps.may_delete(Time(12 * HOUR_MS)));
    }

    #[test]
    fn a_step_back_is_noticed_and_deletes_nothing_early() {
        let mut steps = StepLog::default();
        steps.notice(reading(10 * HOUR_MS, 34 * HOUR_MS));
        let step = steps.notice(reading(12 * HOUR_MS, 12 * HOUR_MS)).unwrap();
        assert_eq!(step.by_ms, -24 * 3_600_000);
        assert!(steps.may_delete(Time(12 * HOUR_MS)));
    }
}

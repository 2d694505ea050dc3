//! The only place that reads a clock.

use grasp_core::Time;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Wall time that does not run backwards over small corrections. A large step back is a clock that
/// was wrong before: insisting on the old future would freeze every deadline, so it is followed.
#[derive(Debug, Default)]
pub struct Clock {
    latest_ms: AtomicU64,
}

const STEP_BACK_MS_MAX: u64 = 10 * 60 * 1000;

impl Clock {
    pub fn now(&self) -> Time {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.steadied(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX))
    }

    fn steadied(&self, wall_ms: u64) -> Time {
        let latest = self.latest_ms.fetch_max(wall_ms, Ordering::Relaxed);
        if latest.saturating_sub(wall_ms) > STEP_BACK_MS_MAX {
            self.latest_ms.store(wall_ms, Ordering::Relaxed);
            return Time(wall_ms);
        }
        Time(latest.max(wall_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_steps_back_are_smoothed_and_large_ones_followed() {
        let clock = Clock::default();
        assert_eq!(clock.steadied(1_000_000), Time(1_000_000));
        assert_eq!(clock.steadied(999_000), Time(1_000_000));
        assert_eq!(clock.steadied(1_000_001), Time(1_000_001));
        assert_eq!(clock.steadied(1_000), Time(1_000));
        assert_eq!(clock.steadied(2_000), Time(2_000));
    }
}

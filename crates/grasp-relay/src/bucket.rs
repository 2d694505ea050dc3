//! How fast something may happen. Whole numbers only: a bucket neither leaks nor invents a token,
//! however often it is asked.

use grasp_core::Time;
use std::time::Duration;

/// `tokens` every `per_ms`, and up to `burst` at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    pub tokens: u32,
    pub per_ms: u32,
    pub burst: u32,
}

impl Rate {
    const MINUTE_MS: u32 = 60_000;

    pub const fn per_minute(tokens: u32, burst: u32) -> Self {
        Self { tokens, per_ms: Self::MINUTE_MS, burst }
    }

    /// The whole hour's worth may come at once.
    pub const fn per_hour(tokens: u32) -> Self {
        Self { tokens, per_ms: 60 * Self::MINUTE_MS, burst: tokens }
    }

    /// The whole day's worth may come at once.
    pub const fn per_day(tokens: u32) -> Self {
        Self { tokens, per_ms: 24 * 60 * Self::MINUTE_MS, burst: tokens }
    }

    pub const fn grants_nothing(&self) -> bool {
        self.tokens == 0 || self.burst == 0
    }

    /// A token in the bucket's own unit, in which `tokens` units drip each millisecond.
    const fn unit(&self) -> u64 {
        self.per_ms as u64
    }

    const fn full(&self) -> u64 {
        self.burst as u64 * self.unit()
    }
}

/// What has been used of a `Rate`. A new bucket is full, and so is one left alone for long enough.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenBucket {
    used: u64,
    at: Time,
}

/// Smaller steps back are corrections that the true time soon catches up with.
const STEP_BACK_MS_MAX: u64 = 10 * 60 * 1000;

impl TokenBucket {
    /// Takes one token, or says how long to wait for it.
    pub fn take(&mut self, rate: &Rate, now: Time) -> Result<(), Duration> {
        self.drip(rate, now);
        let wanted = self.used.saturating_add(rate.unit());
        let excess = wanted.saturating_sub(rate.full());
        if excess == 0 {
            self.used = wanted;
            return Ok(());
        }
        if rate.grants_nothing() {
            return Err(Duration::MAX);
        }
        Err(Duration::from_millis(excess.div_ceil(u64::from(rate.tokens))))
    }

    /// True if forgetting this bucket would forgive nothing.
    pub fn is_full(&mut self, rate: &Rate, now: Time) -> bool {
        self.drip(rate, now);
        self.used == 0
    }

    fn drip(&mut self, rate: &Rate, now: Time) {
        let elapsed_ms = now.0.saturating_sub(self.at.0);
        self.used = self.used.saturating_sub(elapsed_ms.saturating_mul(u64::from(rate.tokens)));
        // A clock that was far ahead and is set right must not freeze the bucket until then.
        let was_wrong = self.at.0.saturating_sub(now.0) > STEP_BACK_MS_MAX;
        self.at = if was_wrong { now } else { self.at.max(now) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RATE: Rate = Rate::per_minute(1_200, 2_400);

    #[test]
    fn a_burst_is_granted_at_once_and_then_the_wait_is_told_exactly() {
        let mut bucket = TokenBucket::default();
        let start = Time(1_000_000);
        for _ in 0..2_400 {
            assert_eq!(bucket.take(&RATE, start), Ok(()));
        }
        let wait = bucket.take(&RATE, start).unwrap_err();
        assert_eq!(wait, Duration::from_millis(50));
        assert!(bucket.take(&RATE, Time(start.0 + 49)).is_err());
        assert_eq!(bucket.take(&RATE, Time(start.0 + 50)), Ok(()));
    }

    #[test]
    fn a_clock_that_was_a_day_ahead_does_not_freeze_the_bucket() {
        let rate = Rate::per_minute(1, 1);
        let mut bucket = TokenBucket::default();
        let day = 86_400_000;
        assert_eq!(bucket.take(&rate, Time(2 * day)), Ok(()));
        assert!(bucket.take(&rate, Time(day)).is_err(), "the step itself grants nothing");
        assert_eq!(bucket.take(&rate, Time(day + 60_000)), Ok(()));
    }

    #[test]
    fn a_clock_that_steps_back_grants_nothing() {
        let rate = Rate::per_minute(1, 1);
        let mut bucket = TokenBucket::default();
        bucket.take(&rate, Time(100_000)).unwrap();
        assert!(bucket.take(&rate, Time(0)).is_err());
        assert!(bucket.take(&rate, Time(159_999)).is_err());
        assert_eq!(bucket.take(&rate, Time(160_000)), Ok(()));
    }

    #[test]
    fn a_rate_of_nothing_grants_nothing_and_does_not_divide_by_it() {
        let mut bucket = TokenBucket::default();
        let nothing = Rate::per_minute(0, 0);
        assert_eq!(bucket.take(&nothing, Time(1)), Err(Duration::MAX));
    }

    proptest! {
        #[test]
        fn no_window_ever_sees_more_than_burst_plus_rate_times_time(
            tokens in 1u32..2_000, per_ms in 1u32..100_000, burst in 1u32..500,
            waits in prop::collection::vec(0u64..5_000, 1..400),
        ) {
            let rate = Rate { tokens, per_ms, burst };
            let mut bucket = TokenBucket::default();
            let mut now = Time(1);
            let mut granted: Vec<Time> = Vec::new();
            for wait in waits {
                now = Time(now.0 + wait);
                if bucket.take(&rate, now).is_ok() {
                    granted.push(now);
                }
            }
            for (index, from) in granted.iter().enumerate() {
                let in_window = (granted.len() - index) as u64;
                let elapsed = granted[granted.len() - 1].0 - from.0;
                let allowed = u64::from(burst) + elapsed * u64::from(tokens) / u64::from(per_ms);
                prop_assert!(in_window <= allowed, "{in_window} > {allowed}");
            }
        }

        #[test]
        fn a_steady_client_within_its_rate_is_never_refused(
            tokens in 1u32..2_000, per_ms in 1u32..100_000, burst in 1u32..500,
        ) {
            let rate = Rate { tokens, per_ms, burst };
            let pace_ms = u64::from(per_ms).div_ceil(u64::from(tokens));
            let mut bucket = TokenBucket::default();
            for step in 0..2_000 {
                prop_assert_eq!(bucket.take(&rate, Time(step * pace_ms)), Ok(()));
            }
        }

        #[test]
        fn waiting_as_told_is_always_enough(
            tokens in 1u32..2_000, per_ms in 1u32..100_000, burst in 1u32..50,
        ) {
            let rate = Rate { tokens, per_ms, burst };
            let mut bucket = TokenBucket::default();
            let mut now = Time(0);
            for _ in 0..200 {
                if let Err(wait) = bucket.take(&rate, now) {
                    now = now.plus(wait);
                    prop_assert_eq!(bucket.take(&rate, now), Ok(()));
                }
            }
        }
    }
}

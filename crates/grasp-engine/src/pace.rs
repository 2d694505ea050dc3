//! How fast one relay is asked for history (S-21): a burst, then so many per second. A relay that
//! objected is asked more slowly, and as before once it has not objected for a while (S-44).

use grasp_core::Time;
use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) struct Pace {
    every_ms: u64,
    /// For somebody who has not objected, and says nothing about itself.
    usual_ms: u64,
    /// What this relay was asked at, and in which bursts, before it objected.
    before_ms: u64,
    burst_before: u64,
    burst: u64,
    /// When the bucket would be full, had it been left alone.
    full_at_ms: u64,
    objected: bool,
    /// When a gap that grew is halved, if nothing happens before.
    recovers_at: Time,
}

/// However often it objects.
const OBJECTED_MS_MAX: u64 = 10_000;
/// Each time this passes without an objection, the gap is halved down to the usual one; after one
/// more such time the objection is forgotten.
const RECOVERS_AFTER: Duration = Duration::from_secs(30 * 60);

impl Pace {
    pub(crate) fn new(per_second: u32, burst: u32, now: Time) -> Self {
        let every_ms = 1_000 / u64::from(per_second.clamp(1, 1_000));
        Self {
            every_ms,
            usual_ms: every_ms,
            before_ms: every_ms,
            burst_before: u64::from(burst.max(1)),
            burst: u64::from(burst.max(1)),
            full_at_ms: now.0,
            objected: false,
            recovers_at: Time(0),
        }
    }

    /// The relay showed what it is. Whoever objected once is not asked faster again; what was taken
    /// before counts as it did.
    pub(crate) fn set_rate(&mut self, per_second: u32, now: Time) {
        let every_ms = 1_000 / u64::from(per_second.clamp(1, 1_000));
        self.before_ms = every_ms;
        if !self.objected {
            let taken = self.full_at_ms.saturating_sub(now.0).div_ceil(self.every_ms.max(1));
            self.full_at_ms = now.0 + taken * every_ms;
            self.every_ms = every_ms;
        }
    }

    /// The gap between two starts.
    pub(crate) fn every(&self) -> Duration {
        Duration::from_millis(self.every_ms)
    }

    pub(crate) fn has_objected(&self) -> bool {
        self.objected
    }

    /// Takes one start, or says when one will be there.
    pub(crate) fn take(&mut self, now: Time) -> Result<(), Time> {
        self.recover(now);
        let free_at = self.free_at();
        if free_at > now {
            return Err(free_at);
        }
        self.full_at_ms = self.full_at_ms.max(now.0) + self.every_ms;
        Ok(())
    }

    fn free_at(&self) -> Time {
        Time((self.full_at_ms + self.every_ms).saturating_sub(self.burst * self.every_ms))
    }

    /// The relay said that this was too fast. No burst any more, and a longer gap.
    pub(crate) fn slow_down(&mut self, now: Time) {
        let slower = if self.objected { self.every_ms * 2 } else { self.usual_ms };
        let slower = Duration::from_millis(slower.max(self.every_ms).min(OBJECTED_MS_MAX));
        self.every_ms = u64::try_from(slower.as_millis()).unwrap_or(OBJECTED_MS_MAX);
        self.burst = 1;
        self.objected = true;
        self.full_at_ms = now.0 + self.every_ms;
        self.recovers_at = now.plus(RECOVERS_AFTER);
    }

    /// What was objected to a while ago is tried again, step by step.
    fn recover(&mut self, now: Time) {
        while self.objected && self.recovers_at <= now {
            if self.every_ms > self.usual_ms {
                self.every_ms = (self.every_ms / 2).max(self.usual_ms);
            } else {
                (self.every_ms, self.burst) = (self.before_ms, self.burst_before);
                self.objected = false;
                // The burst fills up from now on.
                self.full_at_ms = now.0.saturating_add(self.burst * self.every_ms);
            }
            self.recovers_at = self.recovers_at.plus(RECOVERS_AFTER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s21_a_burst_and_then_one_start_a_second() {
        let mut pace = Pace::new(1, 30, Time(5_000));
        let free = (0..100).filter(|_| pace.take(Time(5_000)).is_ok()).count();
        assert_eq!(free, 30);
        assert_eq!(pace.take(Time(5_000)), Err(Time(6_000)));
        assert_eq!(pace.take(Time(6_000)), Ok(()));
        assert_eq!(pace.take(Time(6_999)), Err(Time(7_000)));
        let later = Time(1_000_000);
        assert_eq!((0..100).filter(|_| pace.take(later).is_ok()).count(), 30);
    }

    #[test]
    fn s21_a_relay_that_shows_itself_as_another_gets_no_second_burst() {
        let mut pace = Pace::new(1, 30, Time(0));
        pace.set_rate(20, Time(0));
        let taken = |pace: &mut Pace| (0..100).filter(|_| pace.take(Time(0)).is_ok()).count();
        assert_eq!(taken(&mut pace), 30);
        pace.set_rate(1, Time(0));
        assert_eq!(taken(&mut pace), 0);
        assert_eq!(pace.take(Time(1_000)), Ok(()));
        assert!(pace.take(Time(1_000)).is_err());
    }

    #[test]
    fn s23_a_relay_that_objected_is_asked_more_slowly() {
        let mut pace = Pace::new(1, 30, Time(0));
        pace.set_rate(20, Time(0));
        pace.slow_down(Time(10_000));
        pace.set_rate(20, Time(10_000));
        assert_eq!(pace.take(Time(10_000)), Err(Time(11_000)));
        assert_eq!(pace.take(Time(11_000)), Ok(()));
        assert_eq!(pace.take(Time(11_100)), Err(Time(12_000)));
        for _ in 0..10 {
            pace.slow_down(Time(20_000));
        }
        assert_eq!(pace.take(Time(20_000)), Err(Time(30_000)));
    }

    #[test]
    fn s44_a_lowered_pace_recovers_by_itself() {
        let minutes = |minutes: u64| Time(minutes * 60_000);
        let mut pace = Pace::new(1, 30, Time(0));
        pace.set_rate(20, Time(0));
        (0..3).for_each(|_| pace.slow_down(Time(0)));
        assert_eq!(pace.every(), Duration::from_secs(4));
        for (at, gap_ms) in [(29, 4_000), (31, 2_000), (61, 1_000), (89, 1_000), (91, 50)] {
            let _ = pace.take(minutes(at));
            assert_eq!(pace.every(), Duration::from_millis(gap_ms), "after {at} minutes");
        }
        assert!(!pace.has_objected());
        let taken = (0..100).filter(|_| pace.take(minutes(92)).is_ok()).count();
        assert_eq!(taken, 30, "the burst is back");
    }
}

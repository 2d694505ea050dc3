//! How fast a fetch brings bytes of packs at present. A burst long ago buys no time: credit for bytes
//! is limited to the time that a slow fetch is allowed anyway.

use grasp_core::Time;
use std::time::Duration;

/// A fetch that brings fewer bytes of packs than this is slow.
const PACK_BYTES_PER_SEC_MIN: u64 = 10 << 10;
/// How long a fetch may be slow while others wait for its slot.
pub(super) const SLOW_MAX: Duration = Duration::from_secs(10);
/// How long a fetch may be slow while others wait for its domain alone: the domain itself may be
/// slow, and then the next fetch from there would be no faster.
const SLOW_ON_DOMAIN_MAX: Duration = Duration::from_secs(600);
/// The window of the rate, in steps of a second.
const WINDOW_SECS: u64 = 10;

/// What one fetch has brought, and how fast.
#[derive(Debug)]
pub(super) struct PackPace {
    started: Time,
    bytes: u64,
    /// Seconds since the start and the bytes that came in each.
    steps: [(u64, u64); WINDOW_SECS as usize],
    for_slot: PaceCredit,
    for_domain: PaceCredit,
}

/// Until when the bytes that came last this long at the slowest allowed rate.
#[derive(Debug)]
struct PaceCredit {
    until: Time,
    max: Duration,
}

impl PaceCredit {
    fn add(&mut self, worth: Duration, now: Time) {
        let debt_max = Time(now.0.saturating_sub(millis(self.max)));
        self.until = self.until.max(debt_max).plus(worth).min(now.plus(self.max));
    }

    fn slow_at(&self, started: Time) -> Time {
        self.until.max(started.plus(self.max))
    }
}

impl PackPace {
    pub(super) fn new(started: Time) -> Self {
        let credit = |max| PaceCredit { until: started, max };
        Self {
            started,
            bytes: 0,
            steps: Default::default(),
            for_slot: credit(SLOW_MAX),
            for_domain: credit(SLOW_ON_DOMAIN_MAX),
        }
    }

    pub(super) fn add(&mut self, bytes: u64, now: Time) {
        self.bytes = self.bytes.saturating_add(bytes);
        let second = now.since(self.started).as_secs();
        let place = usize::try_from(second % WINDOW_SECS).unwrap_or(0);
        if let Some(step) = self.steps.get_mut(place) {
            if step.0 != second {
                *step = (second, 0);
            }
            step.1 = step.1.saturating_add(bytes);
        }
        let worth = Duration::from_millis(bytes.saturating_mul(1_000) / PACK_BYTES_PER_SEC_MIN);
        self.for_slot.add(worth, now);
        self.for_domain.add(worth, now);
    }

    pub(super) fn has_bytes(&self) -> bool {
        self.bytes > 0
    }

    /// When it will be too slow for its slot, if nothing more comes.
    pub(super) fn slow_at(&self) -> Time {
        self.for_slot.slow_at(self.started)
    }

    /// When it will be too slow for its domain, if nothing more comes.
    pub(super) fn slow_on_domain_at(&self) -> Time {
        self.for_domain.slow_at(self.started)
    }

    /// Bytes of packs per second, over the last ten seconds.
    pub(super) fn rate(&self, now: Time) -> u64 {
        let age = now.since(self.started);
        let oldest = (age.as_secs() + 1).saturating_sub(WINDOW_SECS);
        let recent = self.steps.iter().filter(|(second, _)| *second >= oldest);
        let bytes = recent.fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        let measured = age.min(Duration::from_secs(WINDOW_SECS));
        bytes.saturating_mul(1_000) / millis(measured).max(1)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> Time {
        Time::from_secs(1_000 + secs)
    }

    #[test]
    fn a_burst_is_worth_ten_seconds_at_most() {
        let mut pace = PackPace::new(at(0));
        pace.add(100 << 20, at(1));
        assert_eq!(pace.slow_at(), at(11));
        assert_eq!(pace.slow_on_domain_at(), at(601));
        for second in 2..20 {
            pace.add(100, at(second));
        }
        assert!(pace.slow_at() < at(12), "a trickle adds next to nothing");
    }

    #[test]
    fn the_rate_forgets_what_lies_more_than_ten_seconds_back() {
        let mut pace = PackPace::new(at(0));
        pace.add(1 << 20, at(1));
        assert_eq!(pace.rate(at(2)), 1 << 19);
        assert_eq!(pace.rate(at(30)), 0);
        (30..40).for_each(|second| pace.add(5_000, at(second)));
        assert_eq!(pace.rate(at(39)), 5_000);
    }

    #[test]
    fn a_steady_fetch_that_was_slow_once_is_soon_fast_again() {
        let mut pace = PackPace::new(at(0));
        (1..1_000).for_each(|second| pace.add(5 << 10, at(second)));
        assert!(pace.slow_at() < at(999));
        (1_000..1_015).for_each(|second| pace.add(20 << 10, at(second)));
        assert!(pace.slow_at() > at(1_014));
    }
}

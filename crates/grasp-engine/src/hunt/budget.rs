//! So many bytes in a day: a bucket that fills all the time. A fetch reserves what it may take at
//! most and pays for what it took. Invariant: what is reserved was there when it was reserved.

use grasp_core::Time;

const DAY_MS: i128 = 86_400_000;

#[derive(Debug, Clone)]
pub(super) struct Budget {
    per_day: i128,
    /// In bytes times `DAY_MS`, so that no refill is rounded away. Below zero when somebody took
    /// more than it had reserved.
    level: i128,
    filled_at: Time,
    reserved: i128,
}

impl Budget {
    /// Full.
    pub(super) fn new(per_day: u64) -> Self {
        let per_day = i128::from(per_day);
        Self { per_day, level: per_day * DAY_MS, filled_at: Time(0), reserved: 0 }
    }

    /// What nobody has taken or reserved.
    pub(super) fn left(&self, now: Time) -> u64 {
        let left = (self.level(now) / DAY_MS - self.reserved).max(0);
        u64::try_from(left).unwrap_or(u64::MAX)
    }

    /// When so much will be left, if no fetch ends before. `None` if only that can help.
    pub(super) fn left_at(&self, bytes: u64, now: Time) -> Option<Time> {
        let needed = i128::from(bytes) + self.reserved;
        if needed > self.per_day {
            return None;
        }
        let lacks = (needed * DAY_MS - self.level(now)).max(0);
        let wait_ms = (lacks + self.per_day - 1) / self.per_day.max(1);
        Some(Time(now.0.saturating_add(u64::try_from(wait_ms).unwrap_or(u64::MAX))))
    }

    pub(super) fn is_full(&self, now: Time) -> bool {
        self.reserved == 0 && self.level(now) == self.per_day * DAY_MS
    }

    pub(super) fn reserve(&mut self, bytes: u64) {
        self.reserved += i128::from(bytes);
    }

    pub(super) fn give_back(&mut self, bytes: u64) {
        self.reserved = (self.reserved - i128::from(bytes)).max(0);
    }

    pub(super) fn pay(&mut self, bytes: u64, now: Time) {
        self.level = self.level(now) - i128::from(bytes) * DAY_MS;
        self.filled_at = self.filled_at.max(now);
    }

    fn level(&self, now: Time) -> i128 {
        let since_ms = i128::from(now.0.saturating_sub(self.filled_at.0));
        (self.level + self.per_day * since_ms).min(self.per_day * DAY_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(1_700_000_000);

    #[test]
    fn what_is_reserved_or_taken_is_not_there_for_others() {
        let mut budget = Budget::new(1_000);
        assert!(budget.is_full(NOW));
        budget.reserve(600);
        assert_eq!(budget.left(NOW), 400);
        budget.pay(200, NOW);
        budget.give_back(200);
        assert_eq!(budget.left(NOW), 400, "it was reserved before it was taken");
        budget.give_back(400);
        assert_eq!(budget.left(NOW), 800);
    }

    #[test]
    fn a_day_fills_it_and_no_byte_is_lost_by_looking_often() {
        let mut budget = Budget::new(1_000);
        budget.pay(1_000, NOW);
        assert_eq!(budget.left(NOW), 0);
        for ms in (0..86_400_000).step_by(86_399) {
            budget.pay(0, Time(NOW.0 + ms));
        }
        assert_eq!(budget.left(Time(NOW.0 + 86_399_999)), 999);
        assert_eq!(budget.left(Time(NOW.0 + 86_400_000)), 1_000);
        assert_eq!(budget.left(Time(NOW.0 + 864_000_000)), 1_000);
    }

    #[test]
    fn it_says_when_there_will_be_enough() {
        let mut budget = Budget::new(86_400);
        budget.pay(86_400 + 10, NOW);
        let at = budget.left_at(100, NOW).unwrap();
        assert_eq!(at, Time(NOW.0 + 110_000));
        assert_eq!((budget.left(Time(at.0 - 1)), budget.left(at)), (99, 100));
        budget.reserve(86_400);
        assert_eq!(budget.left_at(1, NOW), None, "only the end of that fetch can help");
    }
}

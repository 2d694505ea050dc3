//! So many bytes in a day. A fetch reserves what it may take at most and pays for what it took.
//! Invariant: in no 24 hours is more paid than a day's bytes, as long as nobody takes more than it
//! reserved. What was paid is free again a day after the hour in which it was paid.

use grasp_core::Time;
use std::collections::VecDeque;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
/// A day after the last moment of its hour.
const COUNTED_FOR: Duration = Duration::from_secs(25 * 3600);
/// This part of a day's bytes is worth starting for, if a fetch may take that much.
const WORTH_STARTING: u64 = 16;

#[derive(Debug, Clone)]
pub(super) struct Budget {
    per_day: u64,
    /// When an hour began, and what was paid in it.
    hours: VecDeque<(Time, u64)>,
    reserved: u64,
}

/// With less than this left nothing starts: it would only be cut off, again and again.
pub(super) fn worth_starting(per_day: u64, fetch_max: u64) -> u64 {
    fetch_max.min(per_day / WORTH_STARTING).max(1)
}

impl Budget {
    pub(super) fn new(per_day: u64) -> Self {
        Self { per_day, hours: VecDeque::new(), reserved: 0 }
    }

    /// What nobody has taken or reserved.
    pub(super) fn left(&self, now: Time) -> u64 {
        self.per_day.saturating_sub(self.paid(now)).saturating_sub(self.reserved)
    }

    /// When so much will be left, if no fetch ends before. `None` if only that can help.
    pub(super) fn left_at(&self, bytes: u64, now: Time) -> Option<Time> {
        let needed = bytes.saturating_add(self.reserved);
        let may_be_paid = self.per_day.checked_sub(needed)?;
        let mut paid = self.paid(now);
        let mut hours = self.counted(now);
        let mut at = now;
        while paid > may_be_paid {
            let (began, bytes) = hours.next()?;
            paid = paid.saturating_sub(*bytes);
            at = began.plus(COUNTED_FOR);
        }
        Some(at)
    }

    /// So little was paid lately that it may as well be forgotten.
    pub(super) fn is_nearly_unused(&self, now: Time) -> bool {
        self.reserved == 0 && self.paid(now) <= self.per_day / WORTH_STARTING
    }

    pub(super) fn reserve(&mut self, bytes: u64) {
        self.reserved = self.reserved.saturating_add(bytes);
    }

    pub(super) fn give_back(&mut self, bytes: u64) {
        self.reserved = self.reserved.saturating_sub(bytes);
    }

    pub(super) fn pay(&mut self, bytes: u64, now: Time) {
        if bytes == 0 {
            return;
        }
        while self.hours.front().is_some_and(|(began, _)| began.plus(COUNTED_FOR) <= now) {
            self.hours.pop_front();
        }
        match self.hours.back_mut() {
            Some((began, paid)) if now < began.plus(HOUR) => *paid = paid.saturating_add(bytes),
            _ => self.hours.push_back((now, bytes)),
        }
    }

    fn paid(&self, now: Time) -> u64 {
        self.counted(now).fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
    }

    fn counted(&self, now: Time) -> impl Iterator<Item = &(Time, u64)> {
        self.hours.iter().skip_while(move |(began, _)| began.plus(COUNTED_FOR) <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_secs(1_700_000_000);

    fn hours(count: u32) -> Time {
        NOW.plus(count * HOUR)
    }

    #[test]
    fn what_is_reserved_or_taken_is_not_there_for_others() {
        let mut budget = Budget::new(1_000);
        assert!(budget.is_nearly_unused(NOW));
        budget.reserve(600);
        assert_eq!(budget.left(NOW), 400);
        budget.pay(200, NOW);
        budget.give_back(200);
        assert_eq!(budget.left(NOW), 400, "it was reserved before it was taken");
        budget.give_back(400);
        assert_eq!(budget.left(NOW), 800);
        assert!(!budget.is_nearly_unused(NOW));
    }

    #[test]
    fn no_24_hours_hold_more_than_a_day() {
        let mut budget = Budget::new(1_000);
        let mut paid: Vec<(Time, u64)> = vec![];
        for minutes in 0..6_000 {
            let now = NOW.plus(minutes * Duration::from_secs(60));
            let takes = budget.left(now).min(u64::from(minutes % 7));
            budget.pay(takes, now);
            paid.push((now, takes));
            let day = paid.iter().rev().take_while(|(at, _)| now.since(*at) < 24 * HOUR);
            let sum: u64 = day.map(|(_, bytes)| bytes).sum();
            assert!(sum <= 1_000, "{sum} at minute {minutes}");
        }
        let all: u64 = paid.iter().map(|(_, bytes)| bytes).sum();
        assert!(all >= 4_000, "{all} in a little more than four days");
    }

    #[test]
    fn it_says_when_there_will_be_enough() {
        let mut budget = Budget::new(1_000);
        budget.pay(300, NOW);
        budget.pay(100, NOW.plus(HOUR / 2));
        budget.pay(600, hours(2));
        assert_eq!(budget.left_at(0, hours(2)), Some(hours(2)));
        assert_eq!(budget.left_at(400, hours(2)), Some(hours(25)));
        assert_eq!((budget.left(Time(hours(25).0 - 1)), budget.left(hours(25))), (0, 400));
        assert_eq!(budget.left_at(401, hours(2)), Some(hours(27)));
        budget.reserve(400);
        assert_eq!(budget.left_at(601, hours(2)), None, "only the end of that fetch can help");
    }

    #[test]
    fn a_budget_is_worth_a_sixteenth_of_its_day_or_one_whole_fetch() {
        assert_eq!(worth_starting(1_600, 1_000), 100);
        assert_eq!(worth_starting(1_600, 30), 30);
        assert_eq!(worth_starting(0, 30), 1, "and nothing at all is worth nothing");
    }
}

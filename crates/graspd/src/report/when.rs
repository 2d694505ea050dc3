//! Times for people: always UTC, and how long ago or ahead they are. Pure.

use grasp_core::{Time, Timestamp};
use std::time::Duration;

/// The end of the year 9999; what strangers date later is not worth more digits.
pub const LAST_SECOND: u64 = 253_402_300_799;

/// A second as the calendar has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calendar {
    pub year: u64,
    /// From 1.
    pub month: u64,
    pub day: u64,
    pub hour: u64,
    pub minute: u64,
    pub second: u64,
}

impl Calendar {
    pub fn of(at: Time) -> Self {
        let secs = (at.0 / 1_000).min(LAST_SECOND);
        let (year, month, day) = date(secs / 86_400);
        let (hour, minute, second) = (secs / 3_600 % 24, secs / 60 % 60, secs % 60);
        Self { year, month, day, hour, minute, second }
    }
}

/// Days since 1970 to year, month and day, counting years from March.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (year + era * 400 + next, month, day)
}

/// `2026-11-16 10:03:49 UTC`
pub fn moment(at: Time) -> String {
    let Calendar { year, month, day, hour, minute, second } = Calendar::of(at);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

pub fn stamp(at: Timestamp) -> String {
    moment(Time::from_secs(at.0.min(LAST_SECOND)))
}

/// `14:05 UTC`, with its date on another day.
pub fn clock(at: Time, now: Time) -> String {
    let whole = moment(at);
    let is_today = at.0 / 86_400_000 == now.0 / 86_400_000;
    let start = if is_today { 11 } else { 0 };
    format!("{} UTC", whole.get(start..16).unwrap_or(&whole))
}

/// `3 min ago`, `in 2 h`, `now`
pub fn distance(at: Time, now: Time) -> String {
    let (ago, ahead) = (now.since(at), at.since(now));
    match (ago.as_secs(), ahead.as_secs()) {
        (0, 0) => "now".to_owned(),
        (0, _) => format!("in {}", span(ahead)),
        _ => format!("{} ago", span(ago)),
    }
}

/// The largest unit that says enough.
pub fn span(length: Duration) -> String {
    let secs = length.as_secs();
    match secs {
        0..120 => format!("{secs} s"),
        120..7_200 => format!("{} min", secs / 60),
        7_200..172_800 => format!("{} h", secs / 3_600),
        _ => format!("{} days", secs / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_in_utc() {
        for (secs, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (784_111_777, "1994-11-06 08:49:37 UTC"),
            (1_709_251_199, "2024-02-29 23:59:59 UTC"),
            (1_709_251_200, "2024-03-01 00:00:00 UTC"),
            (4_102_444_800, "2100-01-01 00:00:00 UTC"),
        ] {
            assert_eq!(moment(Time::from_secs(secs)), text);
        }
        assert_eq!(stamp(Timestamp(u64::MAX)), "9999-12-31 23:59:59 UTC");
    }

    #[test]
    fn a_moment_of_today_needs_no_date() {
        let now = Time::from_secs(1_709_251_199);
        assert_eq!(clock(now, now), "23:59 UTC");
        assert_eq!(clock(Time::from_secs(1_709_251_200), now), "2024-03-01 00:00 UTC");
    }

    #[test]
    fn distances_use_the_largest_unit_that_says_enough() {
        let at = |secs| distance(Time::from_secs(secs), Time::from_secs(1_000_000));
        assert_eq!(at(1_000_000), "now");
        assert_eq!(at(999_990), "10 s ago");
        assert_eq!(at(1_000_600), "in 10 min");
        assert_eq!(at(990_000), "2 h ago");
        assert_eq!(at(0), "11 days ago");
    }
}

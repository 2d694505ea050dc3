//! How often the log repeats itself: so many lines about one subject within a time, and a count of
//! those that were left out. Pure; the time is a parameter.

use crate::log_table::LogLimit;
use grasp_core::Time;
use std::collections::BTreeMap;

/// Subjects that are told apart. Further ones share one window.
const SUBJECTS_MAX: usize = 20_000;
/// The subject that further ones share.
const OTHERS: &str = "others";

/// The row of a line, and what the line is about.
pub type LogSubject = (&'static str, String);

#[derive(Debug, Default)]
pub struct LogLimiter {
    windows: BTreeMap<LogSubject, LogWindow>,
}

#[derive(Debug)]
struct LogWindow {
    since: Time,
    ends: Time,
    lines: u32,
    left_out: u64,
}

impl LogLimiter {
    /// `Some`: the line may be written, and so many like it were left out since the last one.
    pub fn admit(&mut self, subject: LogSubject, limit: LogLimit, now: Time) -> Option<u64> {
        let subject = self.place_for(subject, now);
        let (since, ends) = (now, now.plus(limit.per));
        let fresh = LogWindow { since, ends, lines: 0, left_out: 0 };
        let window = self.windows.entry(subject).or_insert(fresh);
        if now >= window.ends {
            (window.since, window.ends, window.lines) = (since, ends, 0);
        }
        if window.lines >= limit.lines_max {
            window.left_out += 1;
            return None;
        }
        window.lines += 1;
        Some(std::mem::take(&mut window.left_out))
    }

    /// The subject itself, or the one that all share for whom there is no room.
    fn place_for(&mut self, subject: LogSubject, now: Time) -> LogSubject {
        if self.windows.contains_key(&subject) || self.windows.len() < SUBJECTS_MAX {
            return subject;
        }
        // A count that was not written yet is not dropped with its window.
        self.windows.retain(|_, window| now < window.ends || window.left_out > 0);
        match self.windows.len() < SUBJECTS_MAX {
            true => subject,
            false => (subject.0, OTHERS.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const HOURLY: LogLimit = LogLimit { lines_max: 1, per: Duration::from_secs(3_600) };

    fn subject(number: usize) -> LogSubject {
        ("row", number.to_string())
    }

    #[test]
    fn s42_a_line_is_written_once_an_hour_for_each_subject_and_says_how_many_were_left_out() {
        let (mut limiter, at) = (LogLimiter::default(), Time::from_secs);
        assert_eq!(limiter.admit(subject(1), HOURLY, at(0)), Some(0));
        assert_eq!(limiter.admit(subject(1), HOURLY, at(1)), None);
        assert_eq!(limiter.admit(subject(2), HOURLY, at(1)), Some(0), "another subject");
        assert_eq!(limiter.admit(("other row", "1".into()), HOURLY, at(1)), Some(0));
        assert_eq!(limiter.admit(subject(1), HOURLY, at(3_599)), None);
        assert_eq!(limiter.admit(subject(1), HOURLY, at(3_600)), Some(2));
        assert_eq!(limiter.admit(subject(1), HOURLY, at(7_199)), None);
        assert_eq!(limiter.admit(subject(1), HOURLY, at(7_200)), Some(1));
    }

    #[test]
    fn a_burst_is_written_up_to_its_limit() {
        let (mut limiter, at) = (LogLimiter::default(), Time::from_secs);
        let burst = LogLimit { lines_max: 3, per: Duration::from_secs(60) };
        let written = (0..10).filter_map(|_| limiter.admit(subject(1), burst, at(5))).count();
        assert_eq!(written, 3);
        assert_eq!(limiter.admit(subject(1), burst, at(65)), Some(7));
    }

    #[test]
    fn beyond_so_many_subjects_lines_share_one_window_and_none_goes_uncounted() {
        let (mut limiter, at) = (LogLimiter::default(), Time::from_secs);
        for number in 0..SUBJECTS_MAX {
            assert_eq!(limiter.admit(subject(number), HOURLY, at(0)), Some(0));
        }
        assert_eq!(limiter.admit(subject(SUBJECTS_MAX), HOURLY, at(1)), Some(0));
        for number in 1..10 {
            assert_eq!(limiter.admit(subject(SUBJECTS_MAX + number), HOURLY, at(1)), None);
        }
        assert!(limiter.windows.len() <= SUBJECTS_MAX + 1);
        let shared = ("row", OTHERS.to_owned());
        assert_eq!(limiter.admit(shared, HOURLY, at(3_601)), Some(9));
    }
}

//! `Retry-After`, in seconds or as a date. Pure.

use grasp_core::Time;
use std::time::Duration;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// How long to wait from now; `None` if it does not say so in a way that is understood.
pub(super) fn parse(text: &str, now: Time) -> Option<Duration> {
    let text = text.trim();
    if let Ok(secs) = text.parse::<u32>() {
        return Some(Duration::from_secs(secs.into()));
    }
    Some(Time::from_secs(date(text)?).since(now))
}

/// `Sun, 06 Nov 1994 08:49:37 GMT`, the one form of a date that servers may send.
pub fn date(text: &str) -> Option<u64> {
    let (_, text) = text.split_once(", ")?;
    let mut parts = text.strip_suffix(" GMT")?.split(' ');
    let mut part = || parts.next();
    let (day, month, year, clock) = (part()?, part()?, part()?, part()?);
    let number = |text: &str| text.parse::<u64>().ok();
    let (day, year) = (number(day)?, number(year)?);
    let month = u64::try_from(MONTHS.iter().position(|name| *name == month)?).ok()? + 1;
    let mut clock = clock.split(':').map(number);
    let mut unit = || clock.next().flatten();
    let (hours, minutes, secs) = (unit()?, unit()?, unit()?);
    let fits = (1..=31).contains(&day)
        && (1970..=9999).contains(&year)
        && hours < 24
        && minutes < 60
        && secs <= 60;
    fits.then(|| ((days(year, month, day) * 24 + hours) * 60 + minutes) * 60 + secs)
}

/// Days since 1970, counting years from March so that a leap day is a year's last.
fn days(year: u64, month: u64, day: u64) -> u64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    year * 365 + leap_days + (month * 153 + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s35_seconds_and_dates_are_understood() {
        let secs = |text: &str, now: u64| parse(text, Time::from_secs(now)).map(|it| it.as_secs());
        assert_eq!(secs("120", 5), Some(120));
        assert_eq!(secs(" 0 ", 5), Some(0));
        assert_eq!(secs("Sun, 06 Nov 1994 08:49:37 GMT", 784_111_700), Some(77));
        assert_eq!(secs("Thu, 01 Jan 1970 00:00:09 GMT", 0), Some(9));
        assert_eq!(secs("Thu, 29 Feb 2024 23:59:59 GMT", 1_709_251_198), Some(1));
        assert_eq!(secs("Fri, 01 Mar 2024 00:00:00 GMT", 1_709_251_198), Some(2));
        assert_eq!(secs("Sun, 06 Nov 1994 08:49:37 GMT", 1_709_251_198), Some(0), "long ago");
    }

    #[test]
    fn what_is_neither_is_nothing() {
        for text in [
            "",
            "soon",
            "-1",
            "1.5",
            "99999999999999999999",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 GMT",
            "Sun, 06 Foo 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 32 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 99999999 08:49:37 GMT",
            "Sun, 06 Nov 1 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
        ] {
            assert_eq!(parse(text, Time(0)), None, "{text}");
        }
    }
}

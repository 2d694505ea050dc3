use super::*;

#[test]
fn times_are_said_in_utc_and_never_fall_off_the_calendar() {
    for (secs, iso_form, human) in [
        (0, "1970-01-01T00:00:00Z", "1 Jan 1970, 00:00 UTC"),
        (951_827_696, "2000-02-29T12:34:56Z", "29 Feb 2000, 12:34 UTC"),
        (1_763_287_380, "2025-11-16T10:03:00Z", "16 Nov 2025, 10:03 UTC"),
        (4_107_542_399, "2100-02-28T23:59:59Z", "28 Feb 2100, 23:59 UTC"),
        (LAST_SECOND, "9999-12-31T23:59:59Z", "31 Dec 9999, 23:59 UTC"),
        (u64::MAX / 1_000, "9999-12-31T23:59:59Z", "after the year 9999"),
    ] {
        let time = Time::from_secs(secs);
        assert_eq!((iso(&time).as_str(), utc(&time).as_str()), (iso_form, human), "{secs}");
    }
}

#[test]
fn spans_have_two_units_at_most() {
    for (secs, words) in [
        (0_u64, "0 s"),
        (59, "59 s"),
        (725, "12 min"),
        (3_600, "1 h"),
        (3_660, "1 h 1 min"),
        (90_000, "1 day 1 h"),
        (172_800, "2 days"),
        (86_400 * 1_000, "1,000 days"),
    ] {
        assert_eq!(span(secs), words);
    }
    let now = &Time::from_secs(1_000);
    assert_eq!(ago(now, &Time::from_secs(995)), "just now");
    assert_eq!(ago(now, &Time::from_secs(700)), "5 min ago");
    assert_eq!(ago(now, &Time::from_secs(1_300)), "in 5 min");
    assert_eq!(left(now, &Time::from_secs(900)), "any moment now");
}

#[test]
fn numbers_are_grouped_and_rounded_down() {
    assert_eq!(count(0_u64), "0");
    assert_eq!(count(1_234_567_u64), "1,234,567");
    assert_eq!(count(123_456_usize), "123,456");
    assert_eq!(bytes(999), "999 bytes");
    assert_eq!(bytes(1_536), "1.5 KiB");
    assert_eq!(bytes(u64::MAX), "16383 PiB");
    assert_eq!(percent(99.99), "99.9 %");
    assert_eq!(percent(100.0), "100 %");
    assert_eq!(percent(f64::NAN), "unknown");
    assert_eq!(permille(1_000), "100 %");
    assert_eq!(permille(995), "99.5 %");
}

#[test]
fn a_ledger_is_said_in_few_words() {
    let ledger = |equal, they_lack| Ledger { equal, they_lack, ..Ledger::default() };
    assert_eq!(mirrors(&ledger(0, 0)), "no other mirror known");
    assert_eq!(mirrors(&ledger(1, 0)), "its only mirror is equal");
    assert_eq!(mirrors(&ledger(4, 0)), "all 4 mirrors equal");
    assert_eq!(mirrors(&ledger(3, 1)), "3 of 4 mirrors equal");
    assert_eq!(mirrors(&ledger(0, 1)), "0 of 1 mirror equal");
}

use super::*;
use crate::commands::{HeadLimits, HeadReader, PushCaps, Step};

const OID: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

#[test]
fn success_is_reported_ref_by_ref() {
    let head = push(&["refs/heads/main", "refs/tags/v1"], "report-status");
    assert_eq!(accepted(&head), "000eunpack ok\n0017ok refs/heads/main\n0014ok refs/tags/v1\n0000");
}

#[test]
fn in_a_side_band_the_report_has_a_flush_inside_and_one_outside() {
    let head = push(&["refs/heads/main"], "report-status-v2 side-band-64k");
    let report = "000eunpack ok\n0017ok refs/heads/main\n0000";
    assert_eq!(accepted(&head), format!("002e\u{1}{report}0000"));
}

#[test]
fn a_refusal_says_why_above_beside_unpack_and_beside_each_ref() {
    let head = push(&["refs/heads/main"], "report-status side-band-64k");
    let answer = refused(&head, "no state", "Publish a state first.\nThen push again.");
    let advice = "002d\u{2}Publish a state first.\nThen push again.\n";
    let report = "0014unpack no state\n0020ng refs/heads/main no state\n0000";
    assert_eq!(answer, format!("{advice}003d\u{1}{report}0000"));
}

#[test]
fn without_a_side_band_the_report_stands_alone() {
    let head = push(&["refs/heads/main"], "report-status");
    let answer = refused(&head, "no state", "Publish a state first.");
    assert_eq!(answer, "0014unpack no state\n0020ng refs/heads/main no state\n0000");
}

#[test]
fn a_client_that_reads_no_report_gets_an_error() {
    let head = push(&["refs/heads/main"], "");
    assert_eq!(refused(&head, "no state", "advice"), "0011ERR no state\n");
    assert_eq!(accepted(&head), "", "and no news is good news");
    let head = push(&["refs/heads/main"], "side-band-64k");
    let answer = refused(&head, "no state", "advice");
    assert_eq!(answer, "000c\u{2}advice\n000e\u{3}no state\n0000");
    assert_eq!(accepted(&head), "0000");
}

#[test]
fn a_long_report_is_cut_into_packets_of_the_largest_size() {
    let names: Vec<_> = (0..3_000).map(|n| format!("refs/heads/branch-{n:04}")).collect();
    let head = push(&names.iter().map(String::as_str).collect::<Vec<_>>(), "report-status");
    let report = accepted(&head);
    let framed = PushHead { wants: PushCaps { side_band_64k: true, ..head.wants }, ..head };
    let answer = accepted(&framed);
    let (first, rest) = answer.split_at(65_520);
    assert!(first.starts_with(b"fff0\x01"));
    assert_eq!(first[5..], report[..65_515]);
    let second = format!("{:04x}\u{1}", report.len() - 65_515 + 5);
    assert_eq!(&rest[..5], second.as_bytes());
    assert_eq!(rest[5..rest.len() - 4], report[65_515..]);
    assert!(rest.ends_with(b"00000000"), "the report's flush, then the band's");
}

#[test]
fn names_are_echoed_as_given_and_reasons_never_break_the_line() {
    let head = push(&["refs/heads/naïve~^:"], "report-status");
    let answer = refused(&head, "a\nb\0c\x1b[2J\r", "");
    let text = String::from_utf8(answer.to_vec()).unwrap();
    assert!(text.contains("ng refs/heads/naïve~^: a b c [2J\n"), "{text:?}");
    assert!(text.starts_with("0015unpack a b c [2J\n"), "{text:?}");
    let long = refused(&head, &"ü".repeat(2_000), "");
    assert!(long.len() < 2 * (REASON_BYTES_MAX + 50), "cut, and between two letters");
}

#[test]
fn advice_has_an_end() {
    let head = push(&["refs/heads/main"], "report-status side-band-64k");
    let endless = refused(&head, "no", &"line\n".repeat(100_000));
    assert!(endless.len() < ADVICE_BYTES_MAX + 100);
}

#[test]
fn progress_reaches_only_those_who_can_hear_it() {
    let head = push(&["refs/heads/main"], "report-status side-band-64k");
    assert_eq!(progress(&head, "still here").unwrap(), "0010\u{2}still here\n");
    let quiet = push(&["refs/heads/main"], "side-band-64k quiet");
    assert_eq!(progress(&quiet, "still here").unwrap(), "0005\u{2}", "a sign of life, no words");
    assert_eq!(progress(&push(&["refs/heads/main"], "report-status"), "still here"), None);
}

#[test]
fn a_list_that_could_not_be_read_is_answered_on_the_lane_for_errors() {
    let answer = refused_unread(&BadPush::Certificate);
    let text = "signed pushes are not taken; push again with --no-signed\n";
    assert_eq!(answer, format!("{:04x}\u{3}{text}0000", text.len() + 5));
}

fn push(names: &[&str], caps: &str) -> PushHead {
    let mut bytes = Vec::new();
    let mut caps = Some(format!("\0{caps}"));
    for name in names {
        let line = format!("{OID} {OID} {name}{}", caps.take().unwrap_or_default());
        pktline::data(&mut bytes, line.as_bytes());
    }
    pktline::flush(&mut bytes);
    match HeadReader::new(HeadLimits::default()).feed(&bytes) {
        Ok(Step::Done { head, .. }) => head,
        other => panic!("{other:?}"),
    }
}

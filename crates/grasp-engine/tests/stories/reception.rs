//! What comes in on one link: asked for or not, counted, judged, and when a subscription is over.

use super::kit::SECOND;
use grasp_core::{Event, EventId, Filter, Kind, Time, Timestamp};
use grasp_engine::{End, Hint, Intake, Page, Patience, Reception, Report, Sub, Tally};
use grasp_testkit::{Author, Draft};
use std::time::Duration;

const NOW: Time = Time(1_000_000);
const ASKED: Sub = Sub(1);
const PAST: Intake = Intake::Take { past: true };

fn note(kind: u16, at: u64, text: &str) -> Event {
    Author::number(1).signs_unchecked(Draft::new(Kind(kind), at).content(text))
}

fn of_kinds(kinds: &[u16]) -> Vec<Filter> {
    let of = |kind: &u16| Filter { kinds: Some([Kind(*kind)].into()), ..Filter::default() };
    kinds.iter().map(of).collect()
}

fn by_id(ids: Vec<EventId>) -> Vec<Filter> {
    vec![Filter { ids: Some(ids.into()), ..Filter::default() }]
}

fn link() -> Reception {
    Reception::new(Patience::default())
}

/// A question about issues is open.
fn asking(filters: Vec<Filter>) -> Reception {
    let mut link = link();
    link.opens(ASKED, filters.into(), false, NOW);
    link
}

fn listening(filters: Vec<Filter>) -> Reception {
    let mut link = link();
    link.opens(ASKED, filters.into(), true, NOW);
    link
}

fn tally(received: u32, oldest: u64) -> Tally {
    Tally { received, oldest: Some(Timestamp(oldest)) }
}

fn complete(report: Option<Report>) -> Page {
    match report {
        Some(Report::Ended(End::Complete(page))) => page,
        other => panic!("not complete: {other:?}"),
    }
}

// ---- what confirms

#[test]
fn s20_only_eose_completes_a_question() {
    let mut link = asking(of_kinds(&[1621]));
    assert_eq!(link.event(ASKED, &note(1621, 50, ""), 300, NOW), PAST);
    assert_eq!(link.judged(ASKED, true, NOW), None, "not over yet");
    assert!(link.is_open(ASKED));
    let page = complete(link.eose(ASKED, None, NOW));
    assert_eq!(page.tallies, [tally(1, 50)]);
    assert_eq!(page.bytes, 300);
    assert!(!link.is_open(ASKED));
}

#[test]
fn s20_closed_is_told_as_closed_even_after_events() {
    let mut link = asking(of_kinds(&[1621]));
    link.event(ASKED, &note(1621, 50, ""), 300, NOW);
    link.judged(ASKED, true, NOW);
    let end = End::Closed("error: x".to_owned());
    assert_eq!(link.ends(ASKED, end.clone()), Some(Report::Ended(end)));
    assert_eq!(link.eose(ASKED, None, NOW), None, "nothing can complete it any more");
}

#[test]
fn s20_an_end_is_told_only_after_every_event_before_it_was_judged() {
    let mut link = asking(of_kinds(&[1621]));
    for n in 0..3 {
        assert_eq!(link.event(ASKED, &note(1621, 50 + n, ""), 300, NOW), PAST);
    }
    assert_eq!(link.eose(ASKED, None, NOW), None);
    assert_eq!(link.judged(ASKED, true, NOW), None);
    assert_eq!(link.judged(ASKED, true, NOW), None);
    assert_eq!(complete(link.judged(ASKED, true, NOW)).tallies, [tally(3, 50)]);
    assert_eq!(link.judged(ASKED, true, NOW), None, "a verdict too many is nothing");
}

#[test]
fn s20_a_flood_too_is_told_only_after_its_events_were_judged() {
    let patience = Patience { events_max: 2, ..Patience::default() };
    let mut link = Reception::new(patience);
    link.opens(ASKED, of_kinds(&[1621]).into(), false, NOW);
    assert_eq!(link.event(ASKED, &note(1621, 53, ""), 300, NOW), PAST);
    assert_eq!(link.event(ASKED, &note(1621, 52, ""), 300, NOW), PAST);
    assert_eq!(link.event(ASKED, &note(1621, 51, ""), 300, NOW), Intake::Flood);
    assert_eq!(link.floods(ASKED), None, "two are not judged yet");
    assert_eq!(link.judged(ASKED, true, NOW), None);
    let end = link.judged(ASKED, true, NOW);
    assert!(matches!(end, Some(Report::Ended(End::Flood(_)))), "{end:?}");
}

#[test]
fn s20_eose_twice_completes_once() {
    let mut link = asking(of_kinds(&[1621]));
    complete(link.eose(ASKED, None, NOW));
    assert_eq!(link.eose(ASKED, None, NOW), None);

    let mut link = asking(of_kinds(&[1621]));
    link.event(ASKED, &note(1621, 50, ""), 300, NOW);
    assert_eq!(link.eose(ASKED, None, NOW), None);
    assert_eq!(link.eose(ASKED, Some(Hint::More), NOW), None, "the first one counts");
    assert_eq!(complete(link.judged(ASKED, true, NOW)).hint, None);
}

#[test]
fn s20_closed_after_eose_does_not_undo_it() {
    // Some relays answer our CLOSE with CLOSED, while the last verdicts are on their way.
    let closed = || End::Closed("closed: as you wished".to_owned());
    let mut link = asking(of_kinds(&[1621]));
    link.event(ASKED, &note(1621, 50, ""), 300, NOW);
    assert_eq!(link.eose(ASKED, None, NOW), None);
    assert_eq!(link.ends(ASKED, closed()), None, "it has told everything");
    assert_eq!(complete(link.judged(ASKED, true, NOW)).tallies, [tally(1, 50)]);
    assert_eq!(link.ends(ASKED, closed()), None);
}

#[test]
fn s20_closed_after_a_flood_does_not_undo_it_either() {
    let mut link = Reception::new(Patience { events_max: 1, ..Patience::default() });
    link.opens(ASKED, of_kinds(&[1621]).into(), false, NOW);
    link.event(ASKED, &note(1621, 53, ""), 300, NOW);
    assert_eq!(link.event(ASKED, &note(1621, 52, ""), 300, NOW), Intake::Flood);
    assert_eq!(link.floods(ASKED), None);
    assert_eq!(link.ends(ASKED, End::Closed(String::new())), None);
    let end = link.judged(ASKED, true, NOW);
    assert!(matches!(end, Some(Report::Ended(End::Flood(_)))), "what it brought counts: {end:?}");
}

#[test]
fn s20_a_live_subscription_that_is_closed_is_over_told_or_not() {
    let mut link = listening(of_kinds(&[1621]));
    link.event(ASKED, &note(1621, 50, ""), 300, NOW);
    link.eose(ASKED, None, NOW);
    let end = End::Closed("error: idle".to_owned());
    assert_eq!(link.ends(ASKED, end.clone()), Some(Report::Ended(end)));
}

#[test]
fn s20_eose_for_something_never_asked_is_nothing() {
    assert_eq!(link().eose(Sub(9), None, NOW), None);
    assert_eq!(link().ends(Sub(9), End::Silent), None);
    assert_eq!(link().floods(Sub(9)), None);
    assert_eq!(link().judged(Sub(9), true, NOW), None);
}

// ---- what is counted

#[test]
fn s19_each_filter_has_its_own_tally_whatever_becomes_of_the_events() {
    let mut link = asking(of_kinds(&[1621, 1617]));
    for (kind, at) in [(1621, 50), (1621, 40), (1617, 70), (1621, 45)] {
        assert_eq!(link.event(ASKED, &note(kind, at, ""), 100, NOW), PAST);
        link.judged(ASKED, true, NOW);
    }
    let page = complete(link.eose(ASKED, Some(Hint::More), NOW));
    assert_eq!(page.tallies, [tally(3, 40), tally(1, 70)]);
    assert_eq!((page.hint, page.bytes), (Some(Hint::More), 400));
}

#[test]
fn s19_an_event_that_matches_two_filters_counts_for_both_and_once_in_all() {
    let patience = Patience { events_max: 3, ..Patience::default() };
    let mut link = Reception::new(patience);
    link.opens(ASKED, of_kinds(&[1621, 1621]).into(), false, NOW);
    for n in 0..3 {
        let intake = link.event(ASKED, &note(1621, 50 + n, ""), 100, NOW);
        assert_eq!(intake, PAST, "three events are not too many");
        link.judged(ASKED, true, NOW);
    }
    assert_eq!(complete(link.eose(ASKED, None, NOW)).tallies, [tally(3, 50), tally(3, 50)]);
}

#[test]
fn s18_ids_that_did_not_come_are_listed() {
    let events: Vec<Event> = (0..4).map(|n| note(1621, 50 + n, "")).collect();
    let ids: Vec<EventId> = events.iter().map(|it| it.id).collect();
    let mut link = asking(by_id(ids.clone()));
    for event in &events[1..3] {
        assert_eq!(link.event(ASKED, event, 100, NOW), PAST);
        link.judged(ASKED, true, NOW);
    }
    let mut missing = vec![ids[0], ids[3]];
    missing.sort_unstable();
    assert_eq!(complete(link.eose(ASKED, None, NOW)).missing, missing);
}

#[test]
fn s26_a_forged_copy_does_not_count_as_the_event() {
    let wanted = note(1621, 50, "true");
    let mut forged = wanted.clone();
    forged.content = "false".to_owned();
    let mut link = asking(by_id(vec![wanted.id]));
    assert_eq!(link.event(ASKED, &forged, 100, NOW), PAST);
    // It is found out when it is judged.
    assert!(!link.forged(ASKED, &wanted.id));
    link.judged(ASKED, true, NOW);
    assert_eq!(complete(link.eose(ASKED, None, NOW)).missing, [wanted.id]);
}

// ---- what nobody asked for

#[test]
fn s26_what_does_not_match_is_dropped_and_counted_and_after_twenty_the_link_is_cut() {
    let mut link = asking(of_kinds(&[1621]));
    for n in 1..20 {
        assert_eq!(link.event(ASKED, &note(1, n, ""), 100, NOW), Intake::Stray, "{n}");
    }
    assert_eq!(link.event(ASKED, &note(1621, 50, ""), 100, NOW), PAST, "what matches is taken");
    assert_eq!(link.event(ASKED, &note(1, 20, ""), 100, NOW), Intake::Enough);
    link.judged(ASKED, true, NOW);
    assert_eq!(complete(link.eose(ASKED, None, NOW)).tallies, [tally(1, 50)], "not in the tally");
}

#[test]
fn s26_outside_the_time_that_was_asked_for_does_not_match() {
    let mut filter = of_kinds(&[1621]).remove(0);
    filter.since = Some(Timestamp(100));
    filter.until = Some(Timestamp(200));
    let mut link = asking(vec![filter]);
    for (at, intake) in [(99, Intake::Stray), (100, PAST), (200, PAST), (201, Intake::Stray)] {
        assert_eq!(link.event(ASKED, &note(1621, at, ""), 100, NOW), intake, "{at}");
    }
}

#[test]
fn s26_late_events_of_what_we_closed_are_nobodys_fault() {
    let mut link = asking(of_kinds(&[1621]));
    link.closes(ASKED);
    for n in 0..100 {
        assert_eq!(link.event(ASKED, &note(1621, n, ""), 100, NOW), Intake::Stray);
    }
    link.opens(Sub(2), of_kinds(&[1621]).into(), false, NOW);
    assert_eq!(link.event(Sub(2), &note(1, 1, ""), 100, NOW), Intake::Stray, "not cut for those");
}

#[test]
fn s26_verdicts_on_events_of_what_we_closed_are_nothing() {
    let mut link = asking(of_kinds(&[1621]));
    link.event(ASKED, &note(1621, 1, ""), 100, NOW);
    link.closes(ASKED);
    assert_eq!(link.judged(ASKED, true, NOW), None);
    assert_eq!(link.eose(ASKED, None, NOW), None);
}

#[test]
fn s26_five_forgeries_cut_the_link() {
    let mut link = link();
    assert!((1..5).all(|_| !link.forged(ASKED, &EventId::from_bytes([9; 32]))));
    assert!(link.forged(ASKED, &EventId::from_bytes([9; 32])));
}

// ---- floods

#[test]
fn s19_a_question_that_brings_more_than_any_may_is_a_flood() {
    let patience = Patience { events_max: 100, ..Patience::default() };
    let mut link = Reception::new(patience);
    link.opens(ASKED, of_kinds(&[1621]).into(), false, NOW);
    for n in 0..100 {
        assert_eq!(link.event(ASKED, &note(1621, 500 - n, ""), 100, NOW), PAST);
        link.judged(ASKED, true, NOW);
    }
    assert_eq!(link.event(ASKED, &note(1621, 400, ""), 100, NOW), Intake::Flood);
    match link.floods(ASKED) {
        Some(Report::Ended(End::Flood(page))) => {
            let oldest = page.tallies[0].oldest.unwrap();
            assert!(oldest.0 == 400 || oldest.0 == 401, "where it goes on: {oldest}");
        }
        other => panic!("{other:?}"),
    }
    assert!(!link.is_open(ASKED));
}

#[test]
fn s19_bytes_are_a_flood_too() {
    let patience = Patience { bytes_max: 1_000, ..Patience::default() };
    let mut link = Reception::new(patience);
    link.opens(ASKED, of_kinds(&[1621]).into(), false, NOW);
    assert_eq!(link.event(ASKED, &note(1621, 1, ""), 1_000, NOW), PAST);
    assert_eq!(link.event(ASKED, &note(1621, 2, ""), 1, NOW), Intake::Flood);
}

#[test]
fn s17_a_live_subscription_may_bring_as_much_as_it_likes_once_its_past_is_told() {
    let patience = Patience { events_max: 10, bytes_max: 1_000, ..Patience::default() };
    let mut link = Reception::new(patience);
    link.opens(ASKED, of_kinds(&[1621]).into(), true, NOW);
    assert!(matches!(link.eose(ASKED, None, NOW), Some(Report::Listening(_))));
    for n in 0..50 {
        let live = Intake::Take { past: false };
        assert_eq!(link.event(ASKED, &note(1621, n, ""), 500, NOW), live);
        link.judged(ASKED, false, NOW);
    }
}

#[test]
fn s17_the_past_of_a_live_subscription_has_the_bounds_of_a_question() {
    let patience = Patience { events_max: 10, ..Patience::default() };
    let mut link = Reception::new(patience);
    link.opens(ASKED, of_kinds(&[1621]).into(), true, NOW);
    for n in 0..10 {
        assert_eq!(link.event(ASKED, &note(1621, n, ""), 500, NOW), PAST);
        link.judged(ASKED, true, NOW);
    }
    assert_eq!(link.event(ASKED, &note(1621, 11, ""), 500, NOW), Intake::Flood);
    assert!(matches!(link.floods(ASKED), Some(Report::Ended(End::Flood(_)))));
    assert!(!link.is_open(ASKED));
}

// ---- live

#[test]
fn s17_before_eose_it_is_the_past_and_after_it_live() {
    let mut link = listening(of_kinds(&[1621]));
    assert_eq!(link.event(ASKED, &note(1621, 50, ""), 100, NOW), PAST);
    assert_eq!(link.eose(ASKED, None, NOW), None, "one verdict is missing");
    let live = Intake::Take { past: false };
    assert_eq!(link.event(ASKED, &note(1621, 60, ""), 100, NOW), live);
    assert_eq!(link.judged(ASKED, false, NOW), None, "that one is not of the past");
    match link.judged(ASKED, true, NOW) {
        Some(Report::Listening(page)) => assert_eq!(page.tallies, [tally(1, 50)]),
        other => panic!("{other:?}"),
    }
    assert!(link.is_open(ASKED), "it stays");
    assert_eq!(link.event(ASKED, &note(1621, 70, ""), 100, NOW), live);
    assert_eq!(link.judged(ASKED, false, NOW), None, "told once");
    assert_eq!(link.eose(ASKED, None, NOW), None);
}

#[test]
fn s17_a_busy_live_subscription_is_told_even_if_verdicts_never_catch_up() {
    let mut link = listening(of_kinds(&[1621]));
    link.event(ASKED, &note(1621, 50, ""), 100, NOW);
    link.eose(ASKED, None, NOW);
    // One more comes before each verdict: there is always one on its way.
    let mut told = 0;
    let mut past = true;
    for n in 0..100 {
        link.event(ASKED, &note(1621, 60 + n, ""), 100, NOW);
        told += usize::from(link.judged(ASKED, past, NOW).is_some());
        past = false;
    }
    assert_eq!(told, 1, "the past was judged long ago");
}

// ---- silence

#[test]
fn s20_half_a_minute_without_anything_is_silence() {
    let mut link = asking(of_kinds(&[1621]));
    let due = NOW.plus(30 * SECOND);
    assert_eq!(link.next_deadline(), Some(due));
    assert_eq!(link.silent(Time(due.0 - 1)), []);
    assert_eq!(link.silent(due), [(ASKED, Report::Ended(End::Silent))]);
    assert!(!link.is_open(ASKED));
    assert_eq!(link.next_deadline(), None);
}

#[test]
fn s20_every_event_verdict_and_message_is_progress() {
    let mut link = asking(of_kinds(&[1621]));
    let at = |secs: u64| NOW.plus(Duration::from_secs(secs));
    link.event(ASKED, &note(1621, 50, ""), 100, at(20));
    link.judged(ASKED, true, at(25));
    assert_eq!(link.next_deadline(), Some(at(55)));
    link.progresses(ASKED, at(50));
    assert_eq!(link.next_deadline(), Some(at(80)));
    assert_eq!(link.silent(at(79)), []);
}

#[test]
fn s20_a_verdict_we_owe_is_not_the_relays_silence() {
    let mut link = asking(of_kinds(&[1621]));
    link.event(ASKED, &note(1621, 50, ""), 100, NOW);
    let later = NOW.plus(600 * SECOND);
    assert_eq!(link.silent(later), []);
    assert_eq!(link.next_deadline(), None, "nothing to be woken for");
    link.judged(ASKED, true, later);
    assert_eq!(link.next_deadline(), Some(later.plus(30 * SECOND)));
}

#[test]
fn s20_what_does_not_match_is_no_progress() {
    let mut link = asking(of_kinds(&[1621]));
    let later = NOW.plus(29 * SECOND);
    link.event(ASKED, &note(1, 1, ""), 100, later);
    assert_eq!(link.next_deadline(), Some(NOW.plus(30 * SECOND)));
}

#[test]
fn s20_a_live_subscription_may_be_silent() {
    let mut link = listening(of_kinds(&[1621]));
    assert_eq!(link.next_deadline(), None);
    assert_eq!(link.silent(NOW.plus(3_600 * SECOND)), []);
}

#[test]
fn s20_one_silent_question_does_not_end_the_others() {
    let mut link = asking(of_kinds(&[1621]));
    let later = NOW.plus(10 * SECOND);
    link.opens(Sub(2), of_kinds(&[1617]).into(), false, later);
    let ended: Vec<Sub> = link.silent(NOW.plus(30 * SECOND)).iter().map(|it| it.0).collect();
    assert_eq!(ended, [ASKED]);
    assert!(link.is_open(Sub(2)));
    assert_eq!(link.next_deadline(), Some(later.plus(30 * SECOND)));
}

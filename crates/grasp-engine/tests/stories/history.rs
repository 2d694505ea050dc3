//! Section 4: comparing first, what follows from it, and what confirms nothing.

use super::kit::*;
use grasp_core::{EventId, Filter, Kind};
use grasp_engine::{End, News, Page, Settings, Tally};
use grasp_testkit::world::names::relay;
use grasp_testkit::world::{Bench, empty_page, full_page};

fn announcements() -> Filter {
    Filter { kinds: Some([Kind::ANNOUNCEMENT].into()), ..Filter::default() }
}

/// A page that brought all ids but these.
fn without(missing: Vec<EventId>, asked: usize) -> Page {
    let came = u32::try_from(asked - missing.len()).unwrap();
    Page { tallies: vec![Tally { received: came, oldest: None }], missing, ..Page::default() }
}

/// A link whose first comparison found these.
fn lacking(need: Vec<EventId>) -> Bench {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    let first = reconcile(&mut net, "one");
    net.reconciled("one", first.sub, need);
    net
}

fn asked_ids(net: &mut Bench) -> Vec<Vec<EventId>> {
    let ids = |filters: &[Filter]| filters[0].ids.clone().map(Vec::from);
    net.requests("one").iter().filter_map(|asked| ids(&asked.filters)).collect()
}

// ---- S-18

#[test]
fn s18_a_fresh_sync_compares_first() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    let mut compared = 0;
    for _ in 0..30 {
        assert_eq!(net.requests("one").len(), 0, "nothing is read that can be compared");
        compared += net.reconciles("one").len();
        net.answers_all("one");
        net.elapse(SECOND);
    }
    assert!(compared >= 5, "each filter once: {compared}");
    assert_eq!(view(&net, "one").confirmed, 3);
}

#[test]
fn s18_a_stale_and_a_daily_sync_compare_too() {
    let mut net = settled(&[("one", "acme")]);
    net.fails("one");
    net.elapse(HOUR);
    net.connect("one");
    assert_eq!(reconcile(&mut net, "one").filter, announcements(), "stale");
    net.settle("one");
    history(&mut net, "one");
    while net.now < view(&net, "one").daily_at.unwrap() {
        net.elapse(SECOND);
        if view(&net, "one").confirmed == 0 {
            break;
        }
    }
    assert_eq!(reconcile(&mut net, "one").filter, announcements(), "daily");
    assert_eq!(net.requests("one").len(), 0);
}

#[test]
fn s18_a_quick_reconnect_does_not() {
    let mut net = settled(&[("one", "acme")]);
    net.fails("one");
    net.connect("one");
    net.settle("one");
    assert_eq!(net.reconciles("one").len(), 0);
}

#[test]
fn s18_what_is_missing_is_fetched_by_name_three_hundred_at_a_time() {
    let mut net = lacking(ids(0..700));
    let mut asked = asked_ids(&mut net);
    for _ in 0..10 {
        net.elapse(SECOND);
        asked.extend(asked_ids(&mut net));
    }
    assert!(asked.iter().all(|ids| ids.len() <= 300));
    let mut all: Vec<EventId> = asked.concat();
    all.sort_unstable();
    assert_eq!(all, ids(0..700), "each once");
}

#[test]
fn s18_nothing_missing_confirms_at_once() {
    let net = lacking(vec![]);
    assert_eq!(view(&net, "one").confirmed, 1);
}

#[test]
fn s18_a_flood_of_needed_ids_is_bounded_and_not_confirmed() {
    let settings = Settings { needed_ids_max: 600, ..Settings::default() };
    let mut net = Bench::new(settings);
    net.announce("acme", &["one"]);
    net.replayed();
    net.connect("one");
    let first = reconcile(&mut net, "one");
    net.reconciled("one", first.sub, ids(0..5_000));
    let mut asked = 0;
    for _ in 0..5 {
        for request in net.requests("one") {
            asked += request.filters[0].ids.as_ref().map_or(0, |list| list.len());
            net.completes("one", request.sub, full_page(1, 300, secs_ago(&net, 10)));
        }
    }
    assert_eq!(asked, 600);
    assert_eq!(view(&net, "one").confirmed, 0, "the rest is found by the next comparison");
    let again: Vec<Filter> = drained(&mut net, "one");
    assert!(again.contains(&announcements()));
}

#[test]
fn s18_a_relay_that_names_what_it_does_not_have_is_read_instead_however_few_are_asked_for() {
    let settings = Settings { needed_ids_max: 40, ids_per_request_max: 5, ..Settings::default() };
    let mut net = Bench::new(settings);
    net.announce("acme", &["one"]);
    net.replayed();
    net.connect("one");
    let mut next = 0;
    for _ in 0..60 {
        // Every comparison names others, more than may be asked for at once.
        for compared in net.reconciles("one") {
            net.reconciled("one", compared.sub, ids(next..next + 50));
            next += 50;
        }
        for request in net.requests("one") {
            match request.filters[0].ids.clone().map(Vec::from) {
                Some(asked) => {
                    let page = without(asked.clone(), asked.len());
                    net.completes("one", request.sub, page);
                }
                None => net.completes("one", request.sub, empty_page(request.filters.len())),
            }
        }
        net.elapse(SECOND);
    }
    assert!(next <= 50 * 8, "it was compared with {} times", next / 50);
    assert_eq!(view(&net, "one").confirmed, 3, "and read page by page");
}

#[test]
fn s18_negentropy_can_be_switched_off() {
    let mut net = following(pages_only(), &named(3), "one");
    net.connect("one");
    for _ in 0..30 {
        assert_eq!(net.reconciles("one").len(), 0);
        net.answers_all("one");
        net.elapse(SECOND);
    }
    assert_eq!(view(&net, "one").confirmed, 3);
}

// ---- ids that do not come

#[test]
fn s18_ids_that_did_not_come_are_asked_for_again_twelve_times_in_all() {
    let mut net = lacking(ids(7..8));
    let mut times = Vec::new();
    for _ in 0..(6 * 3600) {
        for asked in net.requests("one") {
            match asked.filters[0].ids.is_some() {
                true => {
                    assert_eq!(asked.filters[0].ids, Some(ids(7..8).into()));
                    times.push(asked.at);
                    net.completes("one", asked.sub, without(ids(7..8), 1));
                }
                false => net.completes("one", asked.sub, empty_page(asked.filters.len())),
            }
        }
        for asked in net.reconciles("one") {
            net.reconciled("one", asked.sub, vec![]);
        }
        net.elapse(SECOND);
    }
    let waits: Vec<u64> = times.windows(2).map(|it| it[1].since(it[0]).as_secs()).collect();
    assert_eq!(waits, [30, 60, 120, 240, 480, 900, 900, 900, 900, 900, 900]);
}

#[test]
fn s18_what_came_in_the_meantime_is_not_asked_for_again() {
    let mut net = lacking(ids(0..10));
    let first = request(&mut net, "one");
    net.completes("one", first.sub, without(ids(0..4), 10));
    assert_eq!(view(&net, "one").confirmed, 1, "it is owed, and the batch is done");
    net.elapse(30 * SECOND);
    assert_eq!(asked_ids(&mut net), [ids(0..4)]);
    net.answers_all("one");
    net.elapse(HOUR);
    assert_eq!(asked_ids(&mut net), Vec::<Vec<EventId>>::new(), "all of them came");
}

#[test]
fn s18_owed_ids_survive_a_reconnect() {
    let mut net = lacking(ids(0..10));
    let first = request(&mut net, "one");
    net.completes("one", first.sub, without(ids(0..4), 10));
    net.fails("one");
    net.connect("one");
    net.elapse(MINUTE);
    assert!(asked_ids(&mut net).contains(&ids(0..4)));
}

#[test]
fn s18_a_relay_that_does_not_have_what_it_names_is_read_instead() {
    for (need, missing, liar) in [(30, 27, true), (30, 26, false), (20, 20, true), (19, 19, false)]
    {
        let mut net = lacking(ids(0..need));
        let first = request(&mut net, "one");
        let asked = usize::try_from(need).unwrap();
        net.completes("one", first.sub, without(ids(0..missing), asked));
        let next = net.requests("one");
        let read = next.iter().any(|it| it.filters[..] == [announcements()]);
        assert_eq!(read, liar, "{missing} of {need} did not come");
        assert_eq!(view(&net, "one").confirmed, usize::from(!liar));
        if liar {
            assert_eq!(net.reconciles("one").len(), 0);
            net.completes("one", next[0].sub, empty_page(1));
            assert_eq!(view(&net, "one").confirmed, 1);
            assert_eq!(net.reconciles("one").len(), 0, "nor is anything else compared with it");
        }
    }
}

#[test]
fn s18_a_liar_is_read_once_however_often_it_lied() {
    let mut net = lacking(ids(0..600));
    let mut lies = 0;
    let mut read = 0;
    for _ in 0..60 {
        for asked in net.requests("one") {
            match &asked.filters[0].ids {
                Some(ids) => {
                    lies += 1;
                    let page = without(ids.to_vec(), ids.len());
                    net.completes("one", asked.sub, page);
                }
                None => {
                    read += usize::from(asked.filters.contains(&announcements()));
                    net.completes("one", asked.sub, empty_page(asked.filters.len()));
                }
            }
        }
        net.elapse(SECOND);
    }
    assert_eq!((lies, read), (2, 1));
}

// ---- S-19: no negentropy

/// `days`: for so long the engine opens no further comparison.
fn falls_back(days: u32, deny: impl Fn(&mut Bench)) {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    net.news();
    deny(&mut net);
    let asked = request(&mut net, "one");
    assert_eq!(asked.filters[..], [announcements()], "it is read instead");
    net.completes("one", asked.sub, empty_page(1));
    for _ in 0..30 {
        assert_eq!(net.reconciles("one").len(), 0, "remembered for the session");
        net.answers_all("one");
        net.elapse(SECOND);
    }
    assert_eq!(view(&net, "one").confirmed, 3);
    let told = News::NoNegentropy { relay: relay("one") };
    assert_eq!(net.news().iter().filter(|it| **it == told).count(), 1, "told once");
    assert!(!view(&net, "one").negentropy);

    net.fails("one");
    net.elapse(HOUR);
    net.connect("one");
    assert_eq!(net.reconciles("one").len(), 0, "nor does a new session try again");
    net.fails("one");
    net.elapse((days - 1) * DAY);
    net.restart_after(22 * HOUR);
    net.connect("one");
    assert_eq!(net.reconciles("one").len(), 0, "nor a new process");
    net.fails("one");
    net.elapse(2 * HOUR);
    net.connect("one");
    assert_eq!(net.reconciles("one").len(), 1, "after its time it is tried again");
}

#[test]
fn s61_a_relay_that_says_it_cannot_compare_is_read_for_a_week() {
    falls_back(7, |net| {
        let first = reconcile(net, "one");
        net.ends("one", first.sub, End::NoNegentropy);
    });
}

#[test]
fn s61_a_notice_in_any_of_eight_wordings_says_so_too_and_nothing_is_closed() {
    for text in [
        "ERROR: bad msg: unknown envelope label",
        "NEG-OPEN: unknown",
        "no negentropy",
        "could not parse command",
        "bad message type",
        "Command unrecognized",
        "unknown message type",
        "Invalid enum value",
    ] {
        falls_back(7, |net| {
            let first = reconcile(net, "one");
            net.says("one", text);
            assert_eq!(net.abandoned("one"), [first.sub]);
            assert_eq!(net.closes("one"), [], "it would not know NEG-CLOSE either");
        });
    }
}

#[test]
fn s61_silence_says_so_for_a_day_and_the_first_answer_has_three_seconds() {
    falls_back(1, |net| {
        let first = reconcile(net, "one");
        assert_eq!(first.answer_within, Some(3 * SECOND));
        net.ends("one", first.sub, End::Silent);
    });
}

#[test]
fn s19_a_comparison_that_failed_is_tried_again_later_for_other_things() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    let first = reconcile(&mut net, "one");
    net.ends("one", first.sub, End::NegentropyFailed("error: internal".to_owned()));
    let asked = request(&mut net, "one");
    assert_eq!(asked.filters[..], [announcements()]);
    net.completes("one", asked.sub, empty_page(1));
    let next = request(&mut net, "one");
    assert_eq!(net.reconciles("one").len(), 0, "not within the minute");
    net.completes("one", next.sub, empty_page(1));
    net.settle("one");
    while view(&net, "one").confirmed > 0 {
        net.elapse(SECOND);
    }
    assert_eq!(net.reconciles("one").len(), 1, "the next day");
}

#[test]
fn s19_a_notice_about_something_else_changes_nothing() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    net.says("one", "welcome to our relay");
    assert_eq!(net.requests("one").len(), 0);
    assert!(view(&net, "one").negentropy);
    assert_eq!(view(&net, "one").waits, None);
}

//! Section 4: comparing first, what follows from it, and what confirms nothing.

use super::kit::*;
use grasp_core::{EventId, Filter, Kind};
use grasp_engine::{End, News, Page, Settings, Tally};
use grasp_testkit::world::names::relay;
use grasp_testkit::world::{Bench, empty_page, full_page};
use std::time::Duration;

fn announcements() -> Filter {
    Filter { kinds: Some(vec![Kind::ANNOUNCEMENT]), ..Filter::default() }
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
    let ids = |filters: &[Filter]| filters[0].ids.clone();
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
        net.elapse(MINUTE);
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
            asked += request.filters[0].ids.as_ref().map_or(0, Vec::len);
            net.completes("one", request.sub, full_page(1, 300, secs_ago(&net, 10)));
        }
    }
    assert_eq!(asked, 600);
    assert_eq!(view(&net, "one").confirmed, 0, "the rest is found by the next comparison");
    let again: Vec<Filter> = drained(&mut net, "one");
    assert!(again.contains(&announcements()));
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
                    assert_eq!(asked.filters[0].ids, Some(ids(7..8)));
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
                    let page = without(ids.clone(), ids.len());
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

fn falls_back(deny: impl Fn(&mut Bench)) {
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
    assert_eq!(net.reconciles("one").len(), 1, "a new session tries again");
}

#[test]
fn s19_a_relay_that_cannot_compare_is_read() {
    falls_back(|net| {
        let first = reconcile(net, "one");
        net.ends("one", first.sub, End::NoNegentropy);
    });
}

#[test]
fn s19_a_notice_about_an_unknown_envelope_says_so_too() {
    for text in ["ERROR: bad msg: unknown envelope label", "NEG-OPEN: unknown", "no negentropy"] {
        falls_back(|net| {
            let first = reconcile(net, "one");
            net.says("one", text);
            assert_eq!(net.closes("one"), [first.sub]);
        });
    }
}

#[test]
fn s19_so_does_silence() {
    falls_back(|net| {
        let first = reconcile(net, "one");
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
    net.elapse(61 * SECOND);
    net.completes("one", asked.sub, empty_page(1));
    assert_eq!(net.reconciles("one").len(), 1, "after a minute");
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

// ---- S-20

/// A question about a new root that ends badly.
fn ends_badly(end: End) {
    let mut net = settled(&[("one", "acme")]);
    net.root(1, "acme");
    net.elapse(5 * SECOND);
    let asked = request(&mut net, "one");
    net.ends("one", asked.sub, end.clone());
    assert_eq!(view(&net, "one").confirmed, 3, "{end:?} confirms nothing");
    net.elapse(64 * SECOND);
    assert_eq!(net.requests("one").len(), 0, "not at once");
    net.elapse(2 * SECOND);
    let again = request(&mut net, "one");
    assert_eq!(again.filters, asked.filters, "the whole of it is asked for again");
    net.completes("one", again.sub, empty_page(again.filters.len()));
    assert_eq!(view(&net, "one").confirmed, 4);
}

#[test]
fn s20_closed_confirms_nothing() {
    ends_badly(End::Closed("error: internal".to_owned()));
    ends_badly(End::Closed(String::new()));
}

#[test]
fn s20_silence_confirms_nothing() {
    ends_badly(End::Silent);
}

#[test]
fn s20_a_lost_link_confirms_nothing() {
    let mut net = settled(&[("one", "acme")]);
    net.root(1, "acme");
    net.elapse(5 * SECOND);
    request(&mut net, "one");
    net.fails("one");
    assert_eq!(view(&net, "one").confirmed, 3);
    net.connect("one");
    assert!(about_root(&drained(&mut net, "one"), 1));
    assert_eq!(view(&net, "one").confirmed, 4);
}

#[test]
fn s20_a_page_in_the_middle_that_fails_takes_the_whole_batch_back() {
    let mut net = settled(&[("one", "acme")]);
    net.root(1, "acme");
    net.elapse(5 * SECOND);
    let first = request(&mut net, "one");
    net.completes("one", first.sub, full_page(3, 500, secs_ago(&net, 500)));
    let second = request(&mut net, "one");
    net.ends("one", second.sub, End::Silent);
    net.elapse(66 * SECOND);
    assert_eq!(request(&mut net, "one").filters, first.filters, "from the beginning");
}

#[test]
fn s20_a_flood_in_one_filter_does_not_confirm_the_others() {
    let mut net = settled(&[("one", "acme")]);
    net.root(1, "acme");
    net.elapse(5 * SECOND);
    let asked = request(&mut net, "one");
    let oldest = secs_ago(&net, 5_000);
    let mut page = empty_page(asked.filters.len());
    page.tallies[0] = Tally { received: 50_001, oldest: Some(oldest) };
    // Cut before the relay came to its other filters: no EOSE was seen for them.
    net.ends("one", asked.sub, End::Flood(page));
    let asked_before = asked.filters.to_vec();
    let next = drained(&mut net, "one");
    assert!(next.iter().any(|it| it.until == Some(oldest)), "the first goes on");
    for filter in &asked_before[1..] {
        assert!(next.contains(filter), "this one was never answered: {filter:?}");
    }
}

#[test]
fn s20_unanswered_questions_wait_longer_each_time_up_to_an_hour() {
    let mut net = settled(&[("one", "acme")]);
    net.root(1, "acme");
    net.elapse(5 * SECOND);
    let mut times = Vec::new();
    while times.len() < 9 {
        for asked in net.requests("one") {
            times.push(asked.at);
            net.ends("one", asked.sub, End::Silent);
        }
        net.elapse(Duration::from_millis(500));
    }
    let waits: Vec<u64> = times.windows(2).map(|it| it[1].since(it[0]).as_secs()).collect();
    assert_eq!(waits, [65, 130, 260, 520, 1040, 2080, 3600, 3600]);
}

// ---- S-21

/// How many questions start right now, each answered at once.
fn starts_now(net: &mut Bench, on: &str) -> usize {
    let mut count = 0;
    loop {
        let started = net.requests(on).len() + net.reconciles(on).len();
        if started == 0 {
            return count;
        }
        count += started;
        net.answers_all(on);
    }
}

fn busy(peer: grasp_engine::Peer) -> Bench {
    let settings = Settings { negentropy: false, ..tiny_filters() };
    let mut net = following(settings, &named(300), "one");
    net.connect_with("one", peer);
    net
}

#[test]
fn s21_thirty_questions_and_then_one_a_second() {
    let mut net = busy(allowing(500));
    assert_eq!(starts_now(&mut net, "one"), 30);
    for _ in 0..20 {
        net.elapse(SECOND - Duration::from_millis(1));
        assert_eq!(starts_now(&mut net, "one"), 0);
        net.elapse(Duration::from_millis(1));
        assert_eq!(starts_now(&mut net, "one"), 1);
    }
}

#[test]
fn s21_a_grasp_server_is_asked_twenty_times_a_second_until_it_objects() {
    let peer = grasp_engine::Peer { grasp: true, ..allowing(500) };
    let mut net = busy(peer);
    assert_eq!(starts_now(&mut net, "one"), 30);
    let mut in_a_second = 0;
    for _ in 0..20 {
        net.elapse(Duration::from_millis(50));
        in_a_second += starts_now(&mut net, "one");
    }
    assert_eq!(in_a_second, 20);
    net.says_slow_down("one");
    net.elapse(66 * SECOND);
    starts_now(&mut net, "one");
    net.elapse(10 * SECOND);
    let later = starts_now(&mut net, "one");
    assert!(later <= 17, "no faster than 600 ms: {later} in ten seconds");
}

#[test]
fn s21_live_is_exempt() {
    let mut net = busy(allowing(500));
    starts_now(&mut net, "one");
    net.announce("late", &["one"]);
    net.elapse(5 * SECOND);
    assert!(hears(&net, "one", "late"), "though many questions wait for their time");
}

#[test]
fn s21_a_reconnect_brings_no_new_burst() {
    let mut net = busy(allowing(500));
    assert_eq!(starts_now(&mut net, "one"), 30);
    net.fails("one");
    net.elapse(5 * SECOND);
    net.connect_with("one", allowing(500));
    let started = starts_now(&mut net, "one");
    assert!(started <= 6, "five seconds earn five questions, not {started}");
}

#[test]
fn s21_pace_is_kept_for_each_relay_apart() {
    let settings = Settings { negentropy: false, ..tiny_filters() };
    let mut net = Bench::new(settings);
    for name in named(100) {
        net.announce(&name, &["one", "two"]);
    }
    net.replayed();
    net.connect_with("one", allowing(500));
    net.connect_with("two", allowing(500));
    assert_eq!(starts_now(&mut net, "one"), 30);
    assert_eq!(starts_now(&mut net, "two"), 30);
}

//! Section 4: what ends without having been told in full confirms nothing (S-20).

use super::kit::*;
use grasp_engine::{End, Tally};
use grasp_testkit::world::{empty_page, full_page};
use std::time::Duration;

/// A question about a new root that ends badly.
fn ends_badly(end: &End) {
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
    ends_badly(&End::Closed("error: internal".to_owned()));
    ends_badly(&End::Closed(String::new()));
}

#[test]
fn s20_silence_confirms_nothing() {
    ends_badly(&End::Silent);
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

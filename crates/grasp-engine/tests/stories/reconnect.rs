//! What a link transfers when it comes back (S-52).

use super::kit::*;
use grasp_core::{Filter, Timestamp};
use grasp_testkit::world::{Bench, empty_page};

/// A relay that has confirmed everything, and lost its link a minute ago.
fn lost_a_minute_ago() -> (Bench, Timestamp) {
    let mut net = settled(&[("one", "acme")]);
    net.root(1, "acme");
    net.elapse(6 * SECOND);
    net.settle("one");
    history(&mut net, "one");
    let since = secs_ago(&net, RESUME_SECS);
    net.fails("one");
    net.elapse(MINUTE);
    (net, since)
}

#[test]
fn s52_a_quick_reconnect_compares_its_window_and_fetches_only_what_is_missing() {
    let (mut net, since) = lost_a_minute_ago();
    net.connect("one");
    for (sub, filters) in net.listens("one") {
        net.listening("one", sub, empty_page(filters.len()));
    }
    let (mut compared, mut fetched): (Vec<Filter>, Vec<Filter>) = Default::default();
    let mut first = true;
    for _ in 0..60 {
        for asked in net.reconciles("one") {
            let need = if std::mem::take(&mut first) { ids(100..103) } else { vec![] };
            compared.push(asked.filter);
            net.reconciled("one", asked.sub, need);
        }
        for asked in net.requests("one") {
            fetched.extend(asked.filters.iter().cloned());
            net.completes("one", asked.sub, empty_page(asked.filters.len()));
        }
        net.elapse(SECOND);
    }
    assert_eq!(compared.len(), net.live_filters("one").len(), "each live filter once");
    assert!(compared.iter().all(|it| it.since == Some(since)), "{compared:?}");
    let by_id = |filter: &Filter| filter.ids.as_ref().map(|ids| ids.len());
    assert_eq!(fetched.iter().map(by_id).collect::<Vec<_>>(), [Some(3)], "no page is read");
}

#[test]
fn s52_a_relay_without_nip_77_is_asked_for_its_window_once() {
    let (mut net, since) = lost_a_minute_ago();
    net.connect_with("one", without_nip77());
    let asked = drained(&mut net, "one");
    assert_eq!(asked.len(), net.live_filters("one").len(), "{asked:?}");
    assert!(asked.iter().all(|it| it.since == Some(since)), "{asked:?}");
}

#[test]
fn s52_a_comparison_of_the_window_that_fails_is_read_in_pages_from_the_same_moment() {
    let (mut net, since) = lost_a_minute_ago();
    net.connect("one");
    for (sub, filters) in net.listens("one") {
        net.listening("one", sub, empty_page(filters.len()));
    }
    for asked in net.reconciles("one") {
        net.ends("one", asked.sub, grasp_engine::End::NoNegentropy);
    }
    let asked = drained(&mut net, "one");
    assert_eq!(asked.len(), net.live_filters("one").len(), "{asked:?}");
    assert!(asked.iter().all(|it| it.since == Some(since)), "{asked:?}");
}

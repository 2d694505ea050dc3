//! Section 3: connecting, coming back, and what a lost link leaves behind.

use super::kit::*;
use grasp_core::{Filter, Time, Timestamp};
use grasp_engine::{End, Health, News, Peer};
use grasp_testkit::world::names::relay;
use grasp_testkit::world::{Bench, empty_page, full_page};
use std::time::Duration;

// ---- S-12

#[test]
fn s12_disconnected_connecting_connected_disconnected() {
    let mut net = Bench::tracking([("one", "acme")]);
    assert!(net.is_dialled("one") && !view(&net, "one").connected);
    net.connect("one");
    assert!(view(&net, "one").connected);
    assert!(net.news().contains(&News::Connected { relay: relay("one") }));
    net.fails("one");
    assert!(!view(&net, "one").connected);
    net.elapse(5 * SECOND);
    assert!(net.is_dialled("one"), "and again");
}

#[test]
fn s12_an_end_told_twice_counts_once() {
    let mut net = settled(&[("one", "acme")]);
    net.fails("one");
    net.fails("one");
    assert_eq!(view(&net, "one").health.failures(), 1);
}

#[test]
fn s12_what_an_ended_link_still_says_is_ignored() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    let (old, _) = net.listens("one")[0].clone();
    let question = reconcile(&mut net, "one");
    net.fails("one");
    net.reconciled("one", question.sub, ids(0..5));
    net.listening("one", old, empty_page(2));
    net.closed("one", old, "blocked: go away");
    net.connect("one");
    net.reconciled("one", question.sub, ids(0..5));
    assert_eq!(view(&net, "one").confirmed, 0);
    assert_eq!(view(&net, "one").waits, None);
    assert_eq!(net.requests("one").len(), 0);
}

// ---- S-13

#[test]
fn s13_a_fresh_link_is_asked_for_everything_without_since() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.root(1, "acme");
    net.connect("one");
    for filter in net.live_filters("one") {
        assert_eq!((filter.since, filter.limit), (None, Some(0)), "{filter:?}");
    }
    let asked = drained(&mut net, "one");
    assert!(about(&asked, "acme") && about_root(&asked, 1));
    for filter in asked {
        assert_eq!((filter.since, filter.until, filter.limit), (None, None, None), "{filter:?}");
    }
}

/// Everything confirmed, then gone for so long; returns when it was lost.
fn away(for_ms: u64) -> (Bench, Time) {
    let mut net = settled(&[("one", "acme")]);
    net.root(1, "acme");
    net.elapse(6 * SECOND);
    net.settle("one");
    history(&mut net, "one");
    let lost_at = net.now;
    net.fails("one");
    // Dialled after five seconds; it answers when the time has come.
    net.elapse(Duration::from_millis(for_ms));
    (net, lost_at)
}

#[test]
fn s13_a_short_absence_resumes_where_it_ended() {
    for away_ms in [5_000, 60_000, 14 * 60_000, 15 * 60_000 - 1] {
        let (mut net, lost_at) = away(away_ms);
        net.connect("one");
        let since = Some(Timestamp(lost_at.timestamp().0 - RESUME_SECS));
        let live = net.live_filters("one");
        assert!(hears_layer_one(&net, "one"));
        assert!(hears(&net, "one", "acme") && hears_root(&net, "one", 1));
        assert!(live.iter().all(|it| (it.since, it.limit) == (None, Some(0))), "{live:?}");
        let asked = drained(&mut net, "one");
        assert_eq!(asked.len(), live.len(), "no history but the gap is needed");
        assert!(asked.iter().all(|it| (it.since, it.limit) == (since, None)), "{asked:?}");
        assert_eq!(view(&net, "one").confirmed, 4);
    }
}

#[test]
fn s13_fifteen_minutes_away_is_as_if_never_connected() {
    for away_ms in [15 * 60_000, 20 * 60_000, 3 * 3_600_000] {
        let (mut net, _) = away(away_ms);
        net.connect("one");
        assert_eq!(view(&net, "one").confirmed, 0, "confirmed is cleared");
        let live = net.live_filters("one");
        assert!(live.iter().all(|it| (it.since, it.limit) == (None, Some(0))), "{live:?}");
        assert_eq!(net.reconciles("one").len(), 1, "compared again");
        let asked = drained(&mut net, "one");
        assert!(about(&asked, "acme") && about_root(&asked, 1));
    }
}

#[test]
fn s13_what_is_new_is_asked_for_in_full_after_a_short_absence() {
    let (mut net, _) = away(5_000);
    net.root(2, "acme");
    net.connect("one");
    net.elapse(5 * SECOND);
    let (gap, new): (Vec<Filter>, Vec<Filter>) =
        drained(&mut net, "one").into_iter().partition(|it| it.since.is_some());
    assert!(about_root(&new, 2) && !about_root(&new, 1));
    assert!(about_root(&gap, 1) && !about_root(&gap, 2));
}

#[test]
fn s13_more_than_a_page_while_away_is_read_to_its_end() {
    let (mut net, lost_at) = away(60_000);
    net.connect_with("one", without_nip77());
    history(&mut net, "one");
    let since = Some(Timestamp(lost_at.timestamp().0 - RESUME_SECS));
    let oldest = Timestamp(lost_at.timestamp().0 + 10);
    let (sub, filters) = net.listens("one")[0].clone();
    net.listening("one", sub, empty_page(filters.len()));
    let asked = request(&mut net, "one");
    assert!(asked.filters.iter().all(|it| (it.since, it.until) == (since, None)), "{asked:?}");
    net.completes("one", asked.sub, full_page(filters.len(), 500, oldest));
    let asked = request(&mut net, "one");
    assert_eq!(asked.filters.len(), filters.len());
    for filter in asked.filters.iter() {
        assert_eq!((filter.since, filter.until), (since, Some(oldest)), "the rest of it");
    }
}

#[test]
fn s13_an_absence_that_was_not_made_up_for_counts_from_its_beginning() {
    let (mut net, lost_at) = away(60_000);
    net.connect("one");
    // Gone again before anything was told.
    net.elapse(MINUTE);
    net.fails("one");
    net.elapse(MINUTE);
    net.connect("one");
    let since = Some(Timestamp(lost_at.timestamp().0 - RESUME_SECS));
    let asked = gap(&mut net, "one");
    assert!(!asked.is_empty() && asked.iter().all(|it| it.since == since), "{asked:?}");
}

#[test]
fn s13_a_catch_up_that_was_cut_off_is_made_up_for_too() {
    let (mut net, lost_at) = away(60_000);
    net.connect("one");
    for (sub, filters) in net.listens("one") {
        net.listening("one", sub, empty_page(filters.len()));
    }
    assert!(!history(&mut net, "one").is_empty());
    net.elapse(MINUTE);
    net.fails("one");
    net.elapse(10 * SECOND);
    net.connect("one");
    let since = Some(Timestamp(lost_at.timestamp().0 - RESUME_SECS));
    let asked = gap(&mut net, "one");
    assert!(!asked.is_empty() && asked.iter().all(|it| it.since == since), "{asked:?}");
}

#[test]
fn s13_a_relay_that_was_cut_off_before_it_told_anything_is_asked_for_everything() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    net.elapse(SECOND);
    net.fails("one");
    net.connect("one");
    assert!(net.live_filters("one").iter().all(|it| it.since.is_none()));
    assert!(about(&drained(&mut net, "one"), "acme"));
}

#[test]
fn s13_what_is_in_rotation_is_resumed_too() {
    let mut net = following(tiny_filters(), &named(10), "one");
    net.connect_with("one", allowing(2));
    answers_for(&mut net, &["one"], 10 * MINUTE);
    net.fails("one");
    net.elapse(5 * MINUTE);
    net.connect_with("one", allowing(2));
    let back_at = net.now;
    let mut asked = Vec::new();
    for _ in 0..(12 * 60) {
        asked.extend(history(&mut net, "one"));
        net.answers_all("one");
        net.elapse(SECOND);
    }
    for name in named(10) {
        let first = asked.iter().find(|it| about(std::slice::from_ref(it), &name));
        let since = first.and_then(|it| it.since).unwrap();
        assert!(since.0 + 5 * 60 <= back_at.timestamp().0, "{name} from before the absence");
    }
}

#[test]
fn s13_a_resumption_that_floods_is_made_up_for_all_the_same() {
    let (mut net, lost_at) = away(60_000);
    net.connect("one");
    let (sub, filters) = net.listens("one").into_iter().find(|it| about_root(&it.1, 1)).unwrap();
    net.ends("one", sub, End::Flood(full_page(filters.len(), 50_001, net.now.timestamp())));
    let mut asked = Vec::new();
    for _ in 0..(20 * 60) {
        asked.extend(net.live_filters("one"));
        asked.extend(history(&mut net, "one"));
        net.answers_all("one");
        net.elapse(SECOND);
    }
    let covers = |it: &&Filter| {
        about_root(std::slice::from_ref(it), 1)
            && it.since.is_some_and(|it| it <= lost_at.timestamp())
    };
    assert!(asked.iter().any(|it| covers(&it)), "from before the absence");
    assert_eq!(view(&net, "one").missing + view(&net, "one").pending, 0);
}

#[test]
fn s13_a_group_left_behind_does_not_make_a_short_absence_a_long_one() {
    let mut net = following(tiny_filters(), &named(10), "one");
    net.connect_with("one", allowing(2));
    answers_for(&mut net, &["one"], 10 * MINUTE);
    // For twenty minutes nothing that is asked in turn is answered.
    let left_at = net.now;
    for _ in 0..(20 * 60) {
        for asked in net.requests("one") {
            net.ends("one", asked.sub, End::Silent);
        }
        net.elapse(SECOND);
    }
    net.fails("one");
    net.connect_with("one", allowing(2));
    assert!(view(&net, "one").confirmed >= 12, "away for seconds, so nothing is cleared");
    let mut asked = Vec::new();
    for _ in 0..(30 * 60) {
        asked.extend(history(&mut net, "one"));
        net.answers_all("one");
        net.elapse(SECOND);
    }
    for name in named(10) {
        let first = asked.iter().find(|it| about(std::slice::from_ref(it), &name));
        let since = first.and_then(|it| it.since);
        assert!(since.is_some_and(|it| it <= left_at.timestamp()), "{name} from where it was left");
    }
}

// ---- S-14

#[test]
fn s14_on_disconnect_pending_is_dropped_and_the_failure_recorded() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    layer_one_confirmed(&mut net, "one");
    assert_eq!(view(&net, "one").pending, 1);
    net.fails("one");
    let seen = view(&net, "one");
    assert_eq!((seen.pending, seen.missing, seen.confirmed), (0, 1, 2));
    assert_eq!((seen.health.failures(), seen.account.failures), (1, 1));
    assert!(matches!(seen.health, Health::Degraded { .. }));
}

#[test]
fn s14_nothing_is_cleared_on_reconnect() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    layer_one_confirmed(&mut net, "one");
    for (sub, filters) in net.listens("one") {
        net.listening("one", sub, empty_page(filters.len()));
    }
    net.fails("one");
    net.connect("one");
    assert_eq!(view(&net, "one").confirmed, 2, "layer 1 stays confirmed");
    let asked = drained(&mut net, "one");
    assert!(about(&asked, "acme"), "what was pending is asked for again");
    let again = asked.iter().filter(|it| it.tags.is_empty());
    assert!(again.into_iter().all(|it| it.since.is_some()), "and of layer 1 only the gap");
    assert_eq!(view(&net, "one").health.failures(), 1, "a handshake is no recovery");
}

#[test]
fn s13_a_repository_is_current_only_when_all_its_catching_up_is_done() {
    // Its three filters are in two subscriptions, and there is more than a page behind each.
    let mut net = following(tiny_filters(), &named(4), "one");
    let peer = Peer { subscriptions_max: Some(500), ..without_nip77() };
    net.connect_with("one", peer.clone());
    net.settle("one");
    let lost_at = net.now;
    net.fails("one");
    net.elapse(10 * MINUTE);
    net.connect_with("one", peer.clone());
    history(&mut net, "one");
    for (sub, filters) in net.listens("one") {
        let oldest = Timestamp(net.now.timestamp().0 - 300);
        net.listening("one", sub, full_page(filters.len(), 500, oldest));
    }
    // Only the question about some of its filters is answered.
    let asked = net.requests("one");
    let with_repo3: Vec<_> = asked.iter().filter(|it| about(&it.filters, "repo3")).collect();
    assert_eq!(with_repo3.len(), 2, "{asked:?}");
    let small = with_repo3.iter().min_by_key(|it| it.filters.len()).unwrap();
    net.completes("one", small.sub, empty_page(small.filters.len()));
    net.elapse(10 * MINUTE);
    net.fails("one");
    net.elapse(MINUTE);
    net.connect_with("one", peer);
    let live = net.live_filters("one");
    let of_repo3 = live.iter().filter(|it| about(std::slice::from_ref(it), "repo3"));
    for filter in of_repo3 {
        assert!(filter.since.is_none_or(|it| it <= lost_at.timestamp()), "{filter:?}");
    }
}

#[test]
fn s13_catching_up_with_one_filter_does_not_count_for_the_others_of_its_repository() {
    // There is a live subscription for one of the three filters of the last repository only.
    let mut net = following(tiny_filters(), &named(4), "one");
    net.connect_with("one", allowing(3));
    answers_for(&mut net, &["one"], 10 * MINUTE);
    let lost_at = net.now;
    net.fails("one");
    net.elapse(10 * MINUTE);
    net.connect_with("one", allowing(3));
    history(&mut net, "one");
    for (sub, filters) in net.listens("one") {
        let oldest = Timestamp(net.now.timestamp().0 - 300);
        net.listening("one", sub, full_page(filters.len(), 500, oldest));
    }
    let heard = values(&net.live_filters("one"), b'A');
    let coordinate = grasp_testkit::world::names::repo("repo3").coordinate().to_string();
    assert!(!heard.contains(&coordinate), "this one is asked for in turn");
    let mut first = None;
    for _ in 0..(12 * 60) {
        for filter in history(&mut net, "one") {
            let values = filter.tags.get(&b'A').cloned().unwrap_or_default();
            if values.contains(&coordinate) && first.is_none() {
                first = filter.since;
            }
        }
        net.answers_all("one");
        net.elapse(SECOND);
    }
    assert!(first.is_some_and(|it| it <= lost_at.timestamp()), "from {first:?}");
}

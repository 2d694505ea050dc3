//! Section 3: live before history, and no gap between the two (S-17).

use super::kit::*;
use grasp_core::Filter;
use grasp_engine::{Loss, Peer, Settings, Sub};
use grasp_testkit::world::{Bench, empty_page, full_page};
use std::collections::BTreeSet;

#[test]
fn s17_on_connect_live_opens_before_any_history() {
    let mut net = following(Settings::default(), &named(150), "one");
    net.connect("one");
    let live: BTreeSet<Sub> = net.listens("one").into_iter().map(|it| it.0).collect();
    assert!(named(150).iter().all(|name| hears(&net, "one", name)), "all of it");
    let first_question = reconcile(&mut net, "one").sub;
    assert!(live.iter().all(|sub| *sub < first_question));
}

#[test]
fn s17_what_is_new_is_heard_before_its_past_is_asked_for() {
    let mut net = settled(&[("one", "acme")]);
    net.root(1, "acme");
    net.elapse(5 * SECOND);
    let live = net.listens("one").into_iter().map(|it| it.0).max().unwrap();
    let asked = request(&mut net, "one");
    assert!(hears_root(&net, "one", 1) && live < asked.sub);
}

#[test]
fn s17_a_slow_history_delays_no_live() {
    let mut net = Bench::tracking([("slow", "acme"), ("fast", "acme")]);
    net.connect("slow");
    net.connect("fast");
    net.settle("fast");
    // The slow one never answers a question.
    net.announce("lib", &["slow", "fast"]);
    net.root(1, "acme");
    net.elapse(5 * SECOND);
    for name in ["slow", "fast"] {
        assert!(hears(&net, name, "lib") && hears_root(&net, name, 1), "{name}");
    }
}

#[test]
fn s17_live_is_not_paced() {
    let mut net = following(tiny_filters(), &named(120), "one");
    net.connect_with("one", allowing(500));
    assert!(named(120).iter().all(|name| hears(&net, "one", name)), "in the same instant");
}

/// While the past of a root is read, its live subscription breaks off and is opened again.
fn breaks_off_during_history(text: &str) {
    let mut net = settled(&[("one", "acme")]);
    net.root(1, "acme");
    net.elapse(5 * SECOND);
    let (sub, filters) = net.listens("one").into_iter().find(|it| about_root(&it.1, 1)).unwrap();
    net.listening("one", sub, empty_page(filters.len()));
    let first = request(&mut net, "one");
    net.completes("one", first.sub, full_page(3, 500, secs_ago(&net, 1_000)));
    let second = request(&mut net, "one");
    let lost_at = net.now.timestamp();
    net.closed("one", sub, text);
    net.elapse(66 * SECOND);
    net.completes("one", second.sub, empty_page(second.filters.len()));
    // Whatever was published in that minute must be asked for by somebody.
    let mut covered = false;
    for _ in 0..(20 * 60) {
        let live = net.live_filters("one");
        let asked = history(&mut net, "one");
        covered |= live.iter().chain(&asked).any(|filter| {
            let from_before = filter.since.is_none_or(|since| since <= lost_at);
            let to_now = filter.until.is_none_or(|until| until.0 > lost_at.0 + 66);
            let stored = filter.limit.is_none();
            about_root(std::slice::from_ref(filter), 1) && from_before && to_now && stored
        });
        net.answers_all("one");
        net.elapse(SECOND);
    }
    assert!(covered, "{text}: nobody asks for what happened in between");
}

#[test]
fn s17_a_live_subscription_that_breaks_off_during_history_leaves_no_gap() {
    breaks_off_during_history("error: shutting down idle subscription");
}

#[test]
fn s17_nor_does_one_that_was_refused_for_its_rate() {
    breaks_off_during_history("rate-limited: slow down");
}

#[test]
fn s17_a_peer_that_says_nothing_about_itself_is_served_the_same() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect_with("one", Peer::default());
    assert!(hears(&net, "one", "acme"));
    net.lose("one", Loss::TooSlow);
    assert_eq!(view(&net, "one").health.failures(), 1);
}

#[test]
fn s17_a_live_subscription_that_is_never_told_is_asked_for_in_turn() {
    // Some relays send no EOSE when the limit is zero; nobody knows whether they listen.
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    let mut asked: Vec<Filter> = Vec::new();
    for _ in 0..(20 * 60) {
        for it in net.reconciles("one") {
            net.reconciled("one", it.sub, vec![]);
        }
        for it in net.requests("one") {
            asked.extend(it.filters.iter().cloned());
            net.completes("one", it.sub, empty_page(it.filters.len()));
        }
        net.elapse(SECOND);
    }
    let in_turn: Vec<Filter> = asked.into_iter().filter(|it| it.since.is_some()).collect();
    assert!(about(&in_turn, "acme"));
    assert!(in_turn.iter().any(|it| it.tags.is_empty()), "layer 1 too");
}

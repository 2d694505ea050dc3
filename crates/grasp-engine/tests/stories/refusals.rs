//! Section 5, refusals (S-23): each has its own answer, and touches nobody but who gave it.

use super::kit::*;
use grasp_engine::{News, Refusal, Settings, Sub, Wait};
use grasp_testkit::world::names::relay;
use grasp_testkit::world::{Bench, empty_page};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);

/// Everything confirmed, and one question open.
fn asking(names: &[&str]) -> Bench {
    let pairs: Vec<(&str, &str)> = names.iter().map(|name| (*name, "acme")).collect();
    let mut net = settled(&pairs);
    net.root(1, "acme");
    net.elapse(5 * SECOND);
    net.news();
    net
}

fn live_of_root(net: &Bench, on: &str) -> Sub {
    net.listens(on).into_iter().find(|it| about_root(&it.1, 1)).unwrap().0
}

fn cooling_until(net: &Bench, on: &str) -> Option<grasp_core::Time> {
    match view(net, on).waits {
        Some(Wait::Cooldown { until }) => Some(until),
        _ => None,
    }
}

// ---- rate limits

#[test]
fn s23_a_relay_that_asks_us_to_slow_down_is_left_alone_and_nobody_else() {
    let mut net = asking(&["slow", "fast"]);
    let (slow, fast) = (request(&mut net, "slow"), request(&mut net, "fast"));
    net.closed("slow", slow.sub, "rate-limited: too many queries");
    net.completes("fast", fast.sub, empty_page(3));
    net.root(2, "acme");
    net.elapse(5 * SECOND);
    assert!(hears_root(&net, "fast", 2) && about_root(&history(&mut net, "fast"), 2));
    assert!(!hears_root(&net, "slow", 2), "not even live is opened there");

    net.elapse(60 * SECOND - MS);
    assert_eq!(history(&mut net, "slow"), []);
    net.elapse(2 * SECOND);
    assert!(hears_root(&net, "slow", 2));
    assert!(about_root(&drained(&mut net, "slow"), 1), "the question waited, it was not lost");
}

#[test]
fn s23_a_cooldown_doubles_to_an_hour() {
    let mut net = settled(&[("one", "acme")]);
    for secs in [65, 130, 260, 520, 1_040, 2_080, 3_600, 3_600] {
        net.says_slow_down("one");
        let until = cooling_until(&net, "one").unwrap();
        assert_eq!(until, net.now.plus(Duration::from_secs(secs)));
        net.elapse(until.since(net.now) + SECOND);
        assert_eq!(cooling_until(&net, "one"), None);
    }
}

#[test]
fn s23_notices_within_a_cooldown_do_not_extend_it() {
    let mut net = asking(&["one"]);
    net.says_slow_down("one");
    let until = cooling_until(&net, "one").unwrap();
    for _ in 0..6 {
        net.elapse(10 * SECOND);
        net.says_slow_down("one");
        assert_eq!(cooling_until(&net, "one"), Some(until));
    }
    let told = |it: &News| matches!(it, News::Cooling { .. });
    assert_eq!(net.news().iter().filter(|it| told(it)).count(), 1, "told once");
    net.elapse(6 * SECOND);
    assert_eq!(cooling_until(&net, "one"), None);
}

#[test]
fn s23_five_quiet_minutes_after_a_cooldown_it_starts_small_again() {
    let mut net = settled(&[("one", "acme")]);
    net.says_slow_down("one");
    net.elapse(65 * SECOND + 5 * MINUTE - MS);
    net.says_slow_down("one");
    assert_eq!(cooling_until(&net, "one"), Some(net.now.plus(130 * SECOND)));
    net.elapse(130 * SECOND + 5 * MINUTE);
    net.says_slow_down("one");
    assert_eq!(cooling_until(&net, "one"), Some(net.now.plus(65 * SECOND)));
}

#[test]
fn s23_a_cooldown_outlives_a_reconnect() {
    let mut net = asking(&["one"]);
    net.says_slow_down("one");
    net.fails("one");
    net.connect("one");
    assert!(cooling_until(&net, "one").is_some(), "a handshake is no recovery");
    assert_eq!(net.listens("one"), [], "nothing at all is asked");
    history(&mut net, "one");
    net.elapse(66 * SECOND);
    assert!(hears_layer_one(&net, "one") && hears_root(&net, "one", 1), "then all of it");
}

#[test]
fn s23_open_live_subscriptions_stay_during_a_cooldown() {
    let mut net = asking(&["one"]);
    let listens = net.listens("one");
    net.says_slow_down("one");
    net.elapse(2 * MINUTE);
    assert_eq!(net.listens("one"), listens);
    assert_eq!(net.closes("one"), []);
}

#[test]
fn s23_after_a_cooldown_comparisons_are_left_alone_in_this_session() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    let first = reconcile(&mut net, "one");
    net.closed("one", first.sub, "rate-limited: slow down");
    net.elapse(66 * SECOND);
    assert_eq!(net.reconciles("one").len(), 0);
    assert_eq!(net.requests("one").len(), 1, "it is read");
}

#[test]
fn s23_a_live_subscription_refused_for_its_rate_is_opened_again_after_the_cooldown() {
    let mut net = asking(&["one"]);
    let live = live_of_root(&net, "one");
    net.closed("one", live, "rate-limited: slow down");
    net.elapse(65 * SECOND - MS);
    assert!(!hears_root(&net, "one", 1));
    net.elapse(SECOND);
    assert!(hears_root(&net, "one", 1));
}

#[test]
fn s23_a_repair_that_falls_into_a_cooldown_comes_after_it() {
    // Nothing is left to ask, so only the repair itself can bring it back.
    let mut net = asking(&["one"]);
    net.settle("one");
    net.closed("one", live_of_root(&net, "one"), "error: idle");
    net.elapse(30 * SECOND);
    net.says_slow_down("one");
    net.elapse(4 * MINUTE);
    assert!(hears_root(&net, "one", 1));
}

// ---- auth-required

#[test]
fn s23_auth_required_is_answered_once_and_the_question_asked_again() {
    let mut net = asking(&["one"]);
    let asked = request(&mut net, "one");
    net.closed("one", asked.sub, "auth-required: who are you?");
    assert_eq!(net.authentications("one"), 1);
    net.authenticated("one", true);
    let again = request(&mut net, "one");
    assert_eq!(again.filters, asked.filters);
    net.completes("one", again.sub, empty_page(3));
    assert_eq!(view(&net, "one").confirmed, 4);
    assert_eq!(view(&net, "one").waits, None);
}

#[test]
fn s23_a_relay_that_wants_to_know_us_from_the_start_is_satisfied_once() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    let listens = net.listens("one");
    let first = reconcile(&mut net, "one");
    for (sub, _) in &listens {
        net.closed("one", *sub, "auth-required: please log in");
    }
    net.ends("one", first.sub, grasp_engine::End::NegentropyFailed("auth-required: x".to_owned()));
    assert_eq!(net.authentications("one"), 1, "however often it says so");
    assert_eq!(net.listens("one"), []);
    net.authenticated("one", true);
    assert!(hears_layer_one(&net, "one") && hears(&net, "one", "acme"));
    net.settle("one");
    assert_eq!(view(&net, "one").confirmed, 3);
    assert_eq!(net.authentications("one"), 1);
}

#[test]
fn s23_auth_required_a_second_time_is_a_pause_of_a_day() {
    let mut net = asking(&["one"]);
    let asked = request(&mut net, "one");
    net.closed("one", asked.sub, "auth-required: who are you?");
    net.authenticated("one", true);
    let again = request(&mut net, "one");
    net.closed("one", again.sub, "auth-required: still");
    assert_eq!(net.authentications("one"), 1);
    assert_eq!(view(&net, "one").waits, Some(Wait::Pause { until: net.now.plus(DAY) }));
    assert!(net.news().iter().any(|it| matches!(it, News::Paused { .. })));
    net.elapse(DAY - MINUTE);
    assert_eq!(history(&mut net, "one"), []);
}

#[test]
fn s23_a_relay_that_does_not_accept_who_we_are_is_left_alone_for_a_day() {
    let mut net = asking(&["one"]);
    let asked = request(&mut net, "one");
    net.closed("one", asked.sub, "auth-required: who are you?");
    net.authenticated("one", false);
    assert_eq!(view(&net, "one").waits, Some(Wait::Pause { until: net.now.plus(DAY) }));
    assert_eq!(history(&mut net, "one"), []);
}

#[test]
fn s23_authentication_can_be_forbidden() {
    let mut net = Bench::new(Settings { authenticate: false, ..Settings::default() });
    net.announce("acme", &["one"]);
    net.replayed();
    net.connect("one");
    let (sub, _) = net.listens("one")[0].clone();
    net.closed("one", sub, "auth-required: members only");
    assert_eq!(net.authentications("one"), 0);
    assert_eq!(view(&net, "one").waits, Some(Wait::Pause { until: net.now.plus(DAY) }));
}

#[test]
fn s23_each_connection_may_authenticate_once() {
    let mut net = asking(&["one"]);
    let asked = request(&mut net, "one");
    net.closed("one", asked.sub, "auth-required: who are you?");
    net.authenticated("one", true);
    net.fails("one");
    net.connect("one");
    let (sub, _) = net.listens("one")[0].clone();
    net.closed("one", sub, "auth-required: who are you?");
    assert_eq!(net.authentications("one"), 2);
    assert_eq!(view(&net, "one").waits, None);
}

// ---- policy and filters that are not understood

/// What is refused so is not asked again for a day; the link stays.
fn pauses_a_day(text: &str) {
    for live in [false, true] {
        let mut net = asking(&["one", "two"]);
        let asked = request(&mut net, "one");
        let sub = if live { live_of_root(&net, "one") } else { asked.sub };
        net.closed("one", sub, text);
        let until = net.now.plus(DAY);
        assert_eq!(view(&net, "one").waits, Some(Wait::Pause { until }), "{text}");
        if live {
            net.completes("one", asked.sub, empty_page(3));
        }
        net.root(2, "acme");
        net.elapse(DAY - MINUTE);
        let reopened = hears_root(&net, "one", 2);
        assert!(net.is_connected("one") && !reopened, "{text}");
        assert_eq!(history(&mut net, "one"), [], "{text}");
        assert!(hears_root(&net, "two", 2), "{text}: nobody else is touched");
        net.elapse(2 * MINUTE);
        assert!(hears_root(&net, "one", 2) && hears_root(&net, "one", 1), "{text}: a day later");
        assert!(!history(&mut net, "one").is_empty(), "{text}: it is asked again");
    }
}

#[test]
fn s23_a_relay_that_does_not_want_us_is_left_alone_for_a_day() {
    for text in [
        "restricted: not a member",
        "blocked: you are banned",
        "error: membership needed",
        "request rejected",
    ] {
        assert_eq!(Refusal::of(text), Refusal::Policy, "{text}");
        pauses_a_day(text);
    }
}

#[test]
fn s23_a_filter_that_is_not_understood_is_not_repeated_for_a_day() {
    for text in [
        "unsupported filter",
        "error: filter item too large",
        "filter validation failed: tags",
        "unsupported: invalid filters",
        "limit must be positive",
    ] {
        assert_eq!(Refusal::of(text), Refusal::InvalidFilter, "{text}");
        pauses_a_day(text);
    }
}

#[test]
fn s23_a_pause_is_not_shortened_by_what_happens_within_it() {
    let mut net = asking(&["one"]);
    net.settle("one");
    let live = net.listens("one");
    net.closed("one", live[1].0, "blocked: go away");
    // Another one ends without a reason, and would be repaired after a minute.
    net.closed("one", live[2].0, "");
    net.says_slow_down("one");
    net.elapse(DAY - MINUTE);
    assert!(!hears_root(&net, "one", 1));
    net.elapse(5 * MINUTE);
    assert!(hears(&net, "one", "acme") && hears_root(&net, "one", 1), "then all is heard again");
}

// ---- too much at once

#[test]
fn s23_too_many_at_once_is_about_the_ledger_and_no_rate_limit() {
    let mut net = asking(&["one"]);
    let asked = request(&mut net, "one");
    net.closed("one", asked.sub, "error: too many concurrent REQs");
    assert_eq!(cooling_until(&net, "one"), None);
    net.settle("one");
    assert_eq!(view(&net, "one").missing + view(&net, "one").pending, 0);
}

#[test]
fn s23_retained_bytes_are_learnt_and_the_rest_asked_for_in_turn() {
    let mut net = settled(&[("one", "acme")]);
    for n in 1..=5 {
        net.root(n, "acme");
        net.elapse(6 * SECOND);
        net.settle("one");
    }
    net.root(6, "acme");
    net.elapse(5 * SECOND);
    let (sub, _) = net.listens("one").into_iter().find(|it| about_root(&it.1, 6)).unwrap();
    net.closed("one", sub, "error: active subscriptions exceed max size 4096 bytes");
    assert!(net.remembered("one").is_some());
    assert_eq!(view(&net, "one").waits, None, "nothing else is wrong");
    let mut asked = Vec::new();
    for _ in 0..(12 * 60) {
        asked.extend(history(&mut net, "one").into_iter().filter(|it| it.since.is_some()));
        net.answers_all("one");
        net.elapse(SECOND);
        assert!(!hears_root(&net, "one", 6), "not tried for ever");
    }
    assert!(about_root(&asked, 6), "covered in rotation");
    assert!(hears_root(&net, "one", 1) && hears_layer_one(&net, "one"), "the others are heard");

    net.fails("one");
    net.connect("one");
    let filters = net.live_filters("one").len();
    assert!(filters < 2 + 3 + 18, "the limit outlives the link");
}

// ---- unknown

#[test]
fn s23_an_unknown_end_of_live_is_repaired_once_after_a_while_and_then_asked_for_in_turn() {
    let mut net = asking(&["one"]);
    net.settle("one");
    net.closed("one", live_of_root(&net, "one"), "error: shutting down idle subscription");
    net.elapse(65 * SECOND - MS);
    assert!(!hears_root(&net, "one", 1), "a cooldown first");
    net.elapse(SECOND);
    assert!(hears_root(&net, "one", 1), "then exactly one repair");
    let repaired = live_of_root(&net, "one");
    net.answers_all("one");
    assert!(history(&mut net, "one").iter().any(|it| it.since.is_some()), "nothing is missed");
    net.answers_all("one");
    net.closed("one", repaired, "error: shutting down idle subscription");
    let mut in_turn = 0;
    for _ in 0..(30 * 60) {
        assert!(!hears_root(&net, "one", 1), "no second repair");
        in_turn += usize::from(about_root(&history(&mut net, "one"), 1));
        net.answers_all("one");
        net.elapse(SECOND);
    }
    assert!((5..=7).contains(&in_turn), "every five minutes: {in_turn}");

    net.fails("one");
    net.connect("one");
    assert!(hears_root(&net, "one", 1), "a new link may hear it again");
}

#[test]
fn s23_one_subscription_that_ends_does_not_touch_the_others() {
    let mut net = asking(&["one"]);
    net.settle("one");
    let before = net.listens("one");
    let ended = live_of_root(&net, "one");
    net.closed("one", ended, "");
    let rest: Vec<_> = before.into_iter().filter(|it| it.0 != ended).collect();
    assert_eq!(net.listens("one"), rest);
    assert_eq!(view(&net, "one").waits, None);
    assert_eq!(view(&net, "one").relay, relay("one"));
}

#[test]
fn s23_a_refusal_of_a_subscription_we_gave_up_is_ignored() {
    let mut net = asking(&["one"]);
    net.settle("one");
    let ended = live_of_root(&net, "one");
    net.closed("one", ended, "");
    for text in ["blocked: x", "auth-required: x", "rate-limited: x", "invalid number of filters"] {
        net.closed("one", ended, text);
        assert_eq!(view(&net, "one").waits, None, "{text}");
    }
    assert_eq!(net.authentications("one"), 0);
}

#[test]
fn s23_a_pause_is_not_ended_by_being_listed_anew() {
    let mut net = settled(&[("one", "acme")]);
    let (sub, _) = net.listens("one")[1].clone();
    net.closed("one", sub, "blocked: go away");
    net.withdraw("acme");
    net.elapse(10 * MINUTE);
    net.announce("lib", &["one"]);
    net.elapse(10 * SECOND);
    if net.is_dialled("one") {
        net.connect("one");
    }
    net.elapse(MINUTE);
    assert_eq!(net.listens("one"), [], "it said so ten minutes ago");
    assert_eq!(history(&mut net, "one"), []);
}

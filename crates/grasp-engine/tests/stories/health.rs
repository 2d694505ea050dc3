//! Section 5: how a relay is (S-22).

use super::kit::*;
use grasp_core::Time;
use grasp_engine::{Health, Loss, News};
use grasp_testkit::world::Bench;
use grasp_testkit::world::names::relay;
use std::time::Duration;

/// Waits for the next dial and lets it fail; returns when it was.
fn next_failure(net: &mut Bench, name: &str) -> Time {
    while !net.is_dialled(name) {
        let (at, _) = net.engine.next_deadline().unwrap();
        net.elapse(at.since(net.now));
    }
    let at = net.now;
    net.fails(name);
    at
}

#[test]
fn s22_the_wait_doubles_from_five_seconds_to_an_hour() {
    let mut net = Bench::tracking([("one", "acme")]);
    let mut last = next_failure(&mut net, "one");
    for secs in [5, 10, 20, 40, 80, 160, 320, 640, 1_280, 2_560, 3_600, 3_600] {
        assert!(matches!(view(&net, "one").health, Health::Degraded { .. }));
        let at = next_failure(&mut net, "one");
        assert_eq!(at.since(last), Duration::from_secs(secs));
        last = at;
    }
}

#[test]
fn s22_a_failure_is_told_with_its_count_and_the_next_try() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.fails("one");
    let next_try = net.now.plus(5 * SECOND);
    let why = "connection refused".to_owned();
    assert!(net.news().contains(&News::Failed { relay: relay("one"), why, failures: 1, next_try }));
}

#[test]
fn s22_a_day_of_failure_is_death_and_then_one_try_a_day() {
    let mut net = Bench::tracking([("one", "acme")]);
    let first = next_failure(&mut net, "one");
    let mut last = first;
    while !view(&net, "one").health.is_dead() {
        last = next_failure(&mut net, "one");
        assert!(last.since(first) <= DAY + HOUR, "it should be dead by now");
    }
    assert!(last.since(first) >= DAY, "not before a day is over");
    assert_eq!(net.engine.totals().dead, 1);
    let dead = |it: &News| matches!(it, News::Dead { .. });
    assert_eq!(net.news().iter().filter(|it| dead(it)).count(), 1);
    for _ in 0..3 {
        let at = next_failure(&mut net, "one");
        assert_eq!(at.since(last), DAY);
        last = at;
    }
    assert!(!net.news().iter().any(dead), "told once");
}

#[test]
fn s22_five_stable_minutes_are_recovery_and_less_is_not() {
    let mut net = Bench::tracking([("one", "acme")]);
    for _ in 0..3 {
        next_failure(&mut net, "one");
    }
    net.connect("one");
    net.elapse(5 * MINUTE - Duration::from_millis(1));
    let lost = net.now;
    net.fails("one");
    assert_eq!(view(&net, "one").health.failures(), 4);
    assert_eq!(view(&net, "one").health.next_try(), lost.plus(40 * SECOND));

    net.connect("one");
    net.news();
    net.elapse(5 * MINUTE);
    assert_eq!(view(&net, "one").health, Health::Healthy);
    assert!(net.news().contains(&News::Recovered { relay: relay("one") }));
    let lost = net.now;
    net.fails("one");
    assert_eq!(view(&net, "one").health.next_try(), lost.plus(5 * SECOND));
}

#[test]
fn s22_a_dead_relay_that_comes_back_recovers() {
    let mut net = Bench::tracking([("one", "acme")]);
    while !view(&net, "one").health.is_dead() {
        next_failure(&mut net, "one");
    }
    while !net.is_dialled("one") {
        net.elapse(MINUTE);
    }
    net.connect("one");
    assert!(view(&net, "one").health.is_dead(), "a handshake alone is nothing");
    net.elapse(5 * MINUTE);
    assert_eq!(view(&net, "one").health, Health::Healthy);
    assert_eq!(net.engine.totals().dead, 0);
}

#[test]
fn s22_being_hung_up_by_ourselves_or_crowded_out_is_nobodys_fault() {
    for why in [Loss::HungUp, Loss::Crowded] {
        let mut net = settled(&[("one", "acme")]);
        net.lose("one", why);
        assert_eq!(view(&net, "one").health, Health::Healthy);
        assert_eq!(view(&net, "one").account.failures, 0);
        net.elapse(2 * MINUTE);
        assert!(net.is_dialled("one"), "and it is dialled again");
    }
}

#[test]
fn s22_one_failing_relay_does_not_touch_another() {
    let mut net = settled(&[("one", "acme"), ("two", "acme")]);
    let listens = net.listens("two");
    for _ in 0..5 {
        if net.is_connected("one") {
            net.fails("one");
        }
        next_failure(&mut net, "one");
    }
    assert_eq!(view(&net, "two").health, Health::Healthy);
    assert_eq!(net.listens("two"), listens);
}

#[test]
fn s22_a_dead_relay_is_not_forgiven_by_being_listed_anew() {
    let mut net = Bench::tracking([("one", "acme")]);
    while !view(&net, "one").health.is_dead() {
        next_failure(&mut net, "one");
    }
    let dials = net.dials_of("one");
    net.withdraw("acme");
    net.elapse(10 * MINUTE);
    net.announce("lib", &["one"]);
    net.elapse(HOUR);
    assert_eq!(net.dials_of("one"), dials);
}

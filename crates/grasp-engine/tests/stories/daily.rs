//! Section 3: once a day everything anew, and what becomes of relays nobody wants.

use super::kit::*;
use grasp_core::{Filter, RelayUrl, Time};
use grasp_engine::{Engine, Purpose, Settings};
use grasp_testkit::world::names::relay;
use grasp_testkit::world::{Bench, START, empty_page};
use std::collections::BTreeSet;
use std::time::Duration;

// ---- S-15

/// Lives on until everything is asked for anew; returns how long that took.
fn daily_of(net: &mut Bench, name: &str) -> Duration {
    let start = net.now;
    history(net, name);
    while net.reconciles(name).is_empty() {
        assert!(net.now.since(start) < 26 * HOUR, "no daily sync");
        net.answers_all(name);
        net.elapse(10 * SECOND);
    }
    net.now.since(start)
}

#[test]
fn s15_once_a_day_everything_is_asked_for_anew_and_live_stays_open() {
    let mut net = settled(&[("one", "acme")]);
    let listens = net.listens("one");
    let connected_at = START;
    history(&mut net, "one");
    let mut asked = Vec::new();
    while asked.is_empty() {
        net.elapse(10 * SECOND);
        asked = net.reconciles("one");
    }
    let after = net.now.since(connected_at);
    assert!((23 * HOUR..=25 * HOUR + 10 * SECOND).contains(&after), "{after:?}");
    assert_eq!(asked[0].errand.purpose, Purpose::Daily);
    assert_eq!(view(&net, "one").confirmed, 0, "confirmed is dropped");
    assert_eq!(net.listens("one"), listens, "live goes on");
    net.reconciled("one", asked[0].sub, vec![]);
    let all = drained(&mut net, "one");
    assert!(about(&all, "acme") && all.iter().all(|it| it.since.is_none()));
    assert_eq!(view(&net, "one").confirmed, 3);

    let again = daily_of(&mut net, "one");
    assert!((22 * HOUR..=25 * HOUR).contains(&again), "and the next day again: {again:?}");
}

#[test]
fn s15_what_was_asked_before_confirms_nothing_after() {
    let mut net = settled(&[("one", "acme")]);
    net.elapse(22 * HOUR);
    net.root(1, "acme");
    net.elapse(5 * SECOND);
    let pending = request(&mut net, "one");
    let mut first = net.reconciles("one");
    while first.is_empty() {
        net.elapse(SECOND);
        first = net.reconciles("one");
    }
    assert_eq!(first[0].errand.purpose, Purpose::Daily);
    net.completes("one", pending.sub, empty_page(pending.filters.len()));
    assert_eq!(view(&net, "one").confirmed, 0);
    net.reconciled("one", first[0].sub, vec![]);
    assert!(about_root(&drained(&mut net, "one"), 1), "it is asked for again");
}

#[test]
fn s15_relays_have_their_daily_sync_at_different_times() {
    let mut net = Bench::new(Settings::default());
    let names: Vec<String> = (0..20).map(|n| format!("r{n}")).collect();
    let list: Vec<&str> = names.iter().map(String::as_str).collect();
    net.announce("acme", &list);
    net.replayed();
    for name in &list {
        net.connect(name);
    }
    let moments: BTreeSet<Time> =
        list.iter().map(|name| view(&net, name).daily_at.unwrap()).collect();
    assert_eq!(moments.len(), 20, "never all at once");
    let (first, last) = (moments.first().unwrap(), moments.last().unwrap());
    assert!(last.since(*first) > HOUR, "spread over the two hours");
    assert!(first.since(START) >= 23 * HOUR && last.since(net.now) <= 25 * HOUR);
}

#[test]
fn s15_a_relay_that_comes_back_after_its_moment_is_asked_once_not_twice() {
    let mut net = settled(&[("one", "acme")]);
    net.fails("one");
    net.elapse(30 * HOUR);
    while !net.is_dialled("one") {
        net.elapse(MINUTE);
    }
    net.connect("one");
    let asked = drained(&mut net, "one");
    let first_layer = |filter: &&Filter| filter.tags.is_empty();
    assert_eq!(asked.iter().filter(first_layer).count(), 2, "announcements and states: {asked:?}");
}

#[test]
fn s15_a_short_absence_does_not_skip_the_day() {
    let mut net = settled(&[("one", "acme")]);
    let daily_at = view(&net, "one").daily_at.unwrap();
    net.elapse(daily_at.since(net.now) - MINUTE);
    history(&mut net, "one");
    net.fails("one");
    net.elapse(5 * MINUTE);
    net.connect("one");
    net.elapse(SECOND);
    let asked = drained(&mut net, "one");
    assert!(about(&asked, "acme"), "it is made up for");
    assert!(view(&net, "one").daily_at.unwrap() > net.now);
}

// ---- S-16

#[test]
fn s16_a_relay_with_nothing_wanted_is_hung_up_and_forgotten() {
    let mut net = settled(&[("one", "acme"), ("two", "lib")]);
    assert!(net.remembered("one").is_some());
    net.withdraw("acme");
    net.elapse(61 * SECOND);
    assert_eq!(net.hangups("one"), 1);
    assert!(net.remembered("one").is_none());
    assert_eq!(net.engine.relay_view(&relay("one"), net.now), None);
    assert!(net.is_connected("two"));
    net.elapse(DAY);
    assert_eq!(net.dials_of("one"), 1, "never dialled again");
}

#[test]
fn s16_removal_looks_at_what_is_wanted_not_at_what_is_confirmed() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    net.elapse(10 * MINUTE);
    assert_eq!(net.hangups("one"), 0, "nothing is confirmed yet, and all of it is wanted");
}

#[test]
fn s16_a_relay_wanted_again_within_the_minute_stays() {
    let mut net = settled(&[("one", "acme")]);
    let listens = net.listens("one").len();
    net.withdraw("acme");
    net.announce("lib", &["one"]);
    net.elapse(5 * MINUTE);
    assert_eq!(net.hangups("one"), 0);
    assert!(net.listens("one").len() >= listens);
    assert!(hears(&net, "one", "lib"));
}

fn bootstrapped(relays: &[&RelayUrl], settings: Settings) -> Bench {
    let mut net = Bench::new(settings.clone());
    let engine = Engine::new(settings, 1);
    net.engine = relays.iter().fold(engine, |engine, it| engine.with_bootstrap(it, START));
    net
}

#[test]
fn s16_the_bootstrap_relay_stays_whatever_is_wanted() {
    let mut net = bootstrapped(&[&relay("boot")], Settings::default());
    net.replayed();
    net.connect("boot");
    assert!(hears_layer_one(&net, "boot"), "layer 1 alone makes a cold start useful");
    let mut asked = drained(&mut net, "boot");
    asked.retain(|filter| filter.limit.is_none());
    assert_eq!(asked.len(), 2, "announcements and states: {asked:?}");
    net.announce("acme", &["boot"]);
    net.elapse(6 * SECOND);
    net.withdraw("acme");
    net.elapse(HOUR);
    assert_eq!(net.hangups("boot"), 0);
    assert!(view(&net, "boot").bootstrap);
    net.fails("boot");
    net.connect("boot");
}

#[test]
fn s16_the_place_of_a_removed_relay_goes_to_one_that_waits() {
    let mut net = Bench::new(Settings { links_max: 1, ..Settings::default() });
    net.announce("acme", &["one"]);
    net.replayed();
    net.connect("one");
    net.settle("one");
    net.announce("lib", &["two"]);
    net.withdraw("acme");
    net.elapse(61 * SECOND);
    assert_eq!(net.hangups("one"), 1);
    net.elapse(10 * SECOND);
    assert_eq!(net.dials_of("two"), 1, "a link is free");
}

//! Section 4: how fast a relay is asked (S-21).

use super::kit::*;
use grasp_engine::{Peer, Settings};
use grasp_testkit::world::Bench;
use std::time::Duration;

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

fn busy(peer: Peer) -> Bench {
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
    let peer = Peer { grasp: true, ..allowing(500) };
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
    let mut in_a_minute = 0;
    for _ in 0..60 {
        net.elapse(SECOND);
        in_a_minute += starts_now(&mut net, "one");
    }
    assert!(in_a_minute <= 61, "nor faster than one that never objected: {in_a_minute}");
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

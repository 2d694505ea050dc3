//! Those who only look how a domain stands (S-30, S-35): last, and with half of what it may be asked.

use crate::kit::*;
use grasp_core::Time;
use grasp_engine::hunt::{HuntInput, HuntSettings};
use std::time::Duration;

fn asks(net: &mut Net, ticket: u64, again: bool) -> Option<Time> {
    asks_at(net, "one", ticket, again)
}

fn asks_at(net: &mut Net, at: &str, ticket: u64, again: bool) -> Option<Time> {
    let domain = domain(at);
    net.says(HuntInput::WantsCheck { ticket, domain, again });
    let (answered, not_before) = net.checks.pop().unwrap();
    assert_eq!(answered, ticket, "answered at once");
    not_before
}

fn ends(net: &mut Net, objected: Option<Option<Duration>>) {
    net.says(HuntInput::CheckEnded { domain: domain("one"), objected });
}

#[test]
fn s30_checks_use_half_of_what_a_domain_may_be_asked() {
    let mut net = Net::new(HuntSettings::default());
    let mut granted = 0;
    for ticket in 0..40 {
        if asks(&mut net, ticket, false).is_none() {
            granted += 1;
            ends(&mut net, None);
        }
    }
    assert_eq!(granted, 15);
    let until = asks(&mut net, 99, false).unwrap();
    assert_eq!(until.since(net.now), HuntSettings::default().window);
    net.elapse(HuntSettings::default().window);
    assert_eq!(asks(&mut net, 100, false), None, "the window slides");
}

#[test]
fn s30_two_checks_at_a_time_and_a_second_request_of_one_counts_as_well() {
    let mut net = Net::new(HuntSettings::default());
    assert_eq!((asks(&mut net, 1, false), asks(&mut net, 2, false)), (None, None));
    assert!(asks(&mut net, 3, false).is_some());
    for ticket in 4..17 {
        assert_eq!(asks(&mut net, ticket, true), None);
    }
    assert!(asks(&mut net, 17, true).is_some(), "fifteen requests, whoever sends them");
    ends(&mut net, None);
}

#[test]
fn s30_who_looks_for_git_data_goes_first() {
    let mut net = Net::new(HuntSettings::default());
    net.server("one", &[]).latency = 10 * SECOND;
    for n in 0..12 {
        net.misses(&format!("repo{n}"), &[n], &["one"]);
    }
    net.elapse(SECOND);
    assert!(asks(&mut net, 1, false).is_some(), "all places are taken and more wait");
    assert_eq!(net.fetches.len(), 5);
}

#[test]
fn s35_a_domain_that_objects_to_a_check_is_left_alone_by_all() {
    let mut net = Net::new(HuntSettings::default());
    assert_eq!(asks(&mut net, 1, false), None);
    let wait = Duration::from_secs(120);
    ends(&mut net, Some(Some(wait)));
    assert_eq!(asks(&mut net, 2, false), Some(net.now.plus(wait)));
    net.server("one", &[1]).latency = Duration::ZERO;
    net.misses("repo", &[1], &["one"]);
    net.elapse(wait - SECOND);
    assert!(net.fetches.is_empty());
    net.elapse(2 * SECOND);
    assert_eq!(net.fetches.len(), 1);
}

#[test]
fn s33_by_hand_a_family_is_looked_for_now() {
    let mut net = Net::new(HuntSettings::default());
    net.server("one", &[]).latency = Duration::ZERO;
    net.misses("repo", &[1], &["one"]);
    net.elapse(SECOND);
    let looks = net.look_times().len();
    net.says(HuntInput::Now { family: family("repo") });
    net.elapse(Duration::from_millis(1));
    assert!(net.look_times().len() > looks, "long before the next attempt");
    net.says(HuntInput::Now { family: family("nobody") });
    assert!(net.view("nobody").is_none(), "what lacks nothing is not looked for");
}

#[test]
fn s35_whoever_sends_checks_too_much_has_no_more_of_them_and_fetches_go_on() {
    const MIB: u64 = 1 << 20;
    let mut net = Net::new(HuntSettings {
        domain_bytes_per_day_max: 16 * MIB,
        bytes_per_day_max: 48 * MIB,
        ..HuntSettings::default()
    });
    let sends = |net: &mut Net, from: &str, bytes: u64| {
        net.says(HuntInput::CheckReceived { domain: domain(from), bytes });
    };
    assert_eq!(asks(&mut net, 1, false), None);
    sends(&mut net, "one", MIB - 1);
    assert_eq!(asks(&mut net, 2, true), None, "a little is left");
    sends(&mut net, "one", 1);
    let free_at = net.now.plus(25 * HOUR);
    assert_eq!(asks(&mut net, 3, true), Some(free_at), "even of one that has begun");
    ends(&mut net, None);
    assert_eq!(asks(&mut net, 4, false), Some(free_at));
    assert_eq!(net.hunt.domains(net.now)[0].bytes_left, 16 * MIB);
    net.server("one", &[1]).latency = Duration::ZERO;
    net.misses("repo", &[1], &["one"]);
    net.elapse(60 * SECOND);
    assert_eq!(net.fetches.len(), 1, "what is looked for is looked for");
    assert!(asks_at(&mut net, "two", 5, false).is_none(), "and others are checked");
    sends(&mut net, "two", 64 * MIB);
    let until = asks_at(&mut net, "three", 6, false).unwrap();
    assert_eq!(until, free_at, "until all domains together sent too much");
    net.server("three", &[2]).latency = Duration::ZERO;
    net.misses("other", &[2], &["three"]);
    net.elapse(60 * SECOND);
    assert!(net.fetches.iter().any(|it| it.from == "three"));
    net.elapse(26 * HOUR);
    assert_eq!(asks(&mut net, 7, false), None, "the next day");
}

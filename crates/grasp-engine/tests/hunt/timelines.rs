//! The four timelines every such server is measured by, to the second.

use crate::kit::*;
use grasp_engine::hunt::{Brought, HuntInput, HuntSettings};
use std::time::Duration;

fn near(at_ms: u64, secs: u64) -> bool {
    at_ms.abs_diff(secs * 1_000) <= 1_000
}

#[test]
fn timeline_a_a_users_event_whose_push_follows_is_never_hunted() {
    let mut net = Net::new(HuntSettings::default());
    net.server("one", &[1]);
    net.lacks("acme", &[1], &["one"]);
    net.held("acme", Brought::Directly);
    net.elapse(30 * SECOND);
    assert!(net.looks.is_empty());
    net.here.extend(oids(&[1]));
    net.elapse(HOUR);
    assert!(net.look_times().iter().all(|at| near(*at, 180)) && net.looks.len() == 1);
    assert!(net.fetches.is_empty(), "nobody was bothered");
    assert!(net.is_complete("acme"));
}

#[test]
fn timeline_b_what_is_here_before_its_event_needs_no_request() {
    let mut net = Net::new(HuntSettings::default());
    net.server("one", &[1]);
    net.lacks("acme", &[1], &["one"]);
    net.here.extend(oids(&[1]));
    net.elapse(30 * SECOND);
    // Through another owner's repository: the event was held for a moment.
    net.held("acme", Brought::BySync);
    net.elapse(SECOND);
    assert!(net.fetches.is_empty() && net.is_complete("acme"));
    assert_eq!(net.hunt.next_deadline(), None);
}

#[test]
fn timeline_c_synced_and_found_on_the_second_server() {
    let mut net = Net::new(HuntSettings::default());
    net.server("server1", &[]).manner = Manner::Stalls;
    net.server("server2", &[1]).latency = Duration::from_millis(14_500);
    net.server("server3", &[]);
    net.misses("acme", &[1], &["server1", "server2", "server3"]);
    net.elapse(44 * SECOND);
    assert!(!net.is_complete("acme"));
    net.elapse(2 * SECOND);
    assert!(net.is_complete("acme"), "found at 45 s");
    assert_eq!(net.asked(), [(500, "server1"), (30_500, "server2")]);
}

#[test]
fn timeline_c_with_a_slow_no_first() {
    let mut net = Net::new(HuntSettings::default());
    net.server("server1", &[]).latency = 20 * SECOND;
    net.server("server2", &[1]).latency = Duration::from_millis(24_500);
    net.server("server3", &[]);
    net.misses("acme", &[1], &["server1", "server2", "server3"]);
    net.elapse(44 * SECOND);
    assert!(!net.is_complete("acme"));
    net.elapse(2 * SECOND);
    assert!(net.is_complete("acme"));
    assert_eq!(net.asked(), [(500, "server1"), (20_500, "server2")]);
}

#[test]
fn timeline_d_data_that_never_comes() {
    let mut net = Net::new(HuntSettings::default());
    net.server("server1", &[]).latency = Duration::from_millis(50);
    net.server("server2", &[]).latency = Duration::from_millis(50);
    net.server("server3", &[]).latency = Duration::from_millis(50);
    net.servers.get_mut("server2").unwrap().manner = fails();
    net.misses("acme", &[1], &["server1", "server2", "server3"]);
    net.elapse_to(1_800_000);
    let looks = net.look_times();
    assert_eq!(looks[0], 500);
    let expected = [20, 60, 140, 260, 380, 500];
    for (at, secs) in looks[1..].iter().zip(expected) {
        assert!(at.abs_diff(secs * 1_000 + 500) <= 1_000, "{at} ms is not {secs} s");
    }
    assert_eq!(net.fetches.len(), looks.len() * 3, "each attempt asks each server once");
    // Half an hour is over: the event gives up, its objects stay wanted.
    net.families.get_mut(&family("acme")).unwrap().held = false;
    net.says(HuntInput::Wanted { family: family("acme") });
    let before = net.looks.len();
    net.elapse(7 * 24 * HOUR);
    let after = net.looks.len() - before;
    assert!((168..=176).contains(&after), "hourly for a week: {after}");
    net.families.get_mut(&family("acme")).unwrap().wants.clear();
    net.elapse(HOUR);
    assert_eq!(net.hunt.totals().families, 0, "and then dropped");
    assert_eq!(net.hunt.next_deadline(), None);
}

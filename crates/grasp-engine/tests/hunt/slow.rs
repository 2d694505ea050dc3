//! A fetch that is slow but not silent keeps its slot while nobody waits for it, and no longer.

use crate::kit::*;
use grasp_engine::hunt::{HuntInput, HuntSettings, Job};
use std::time::Duration;

const KIB: u64 = 1 << 10;
/// What just does not count as silence.
const DRIP: Manner = Manner::Drips(64 * KIB, MINUTE);

fn one_slot() -> Net {
    let mut net = Net::new(HuntSettings { concurrent_max: 1, ..HuntSettings::default() });
    net.server("slow", &[]).manner = DRIP;
    net.server("good", &[2]);
    net.misses("first", &[1], &["slow"]);
    net.elapse_to(1_000);
    net
}

#[test]
fn s37_a_slow_fetch_may_take_days_while_nobody_waits() {
    let mut net = one_slot();
    net.elapse(72 * HOUR);
    assert!(net.cancelled.is_empty() && net.jobs.len() == 1);
}

#[test]
fn s37_a_slow_fetch_gives_way_after_ten_seconds() {
    let mut net = one_slot();
    net.misses("second", &[2], &["good"]);
    net.elapse_to(10_400);
    assert!(net.view("second").unwrap().waits_for_room);
    net.elapse_to(11_700);
    assert!(net.is_complete("second"));
    let view = net.view("first").unwrap();
    assert_eq!(view.sources[0].said, "too slow while others waited");
    assert!(view.running.is_empty());
}

#[test]
fn s37_a_fetch_that_is_slow_for_long_already_gives_way_at_once() {
    let mut net = one_slot();
    net.elapse(5 * HOUR);
    let at = net.at_ms();
    net.misses("second", &[2], &["good"]);
    net.elapse(2 * SECOND);
    assert!(net.is_complete("second"));
    assert_eq!(net.fetches[1].at_ms, at + 505, "as soon as it has ended");
}

#[test]
fn s37_a_burst_long_ago_does_not_make_a_slow_fetch_fast() {
    let mut net = one_slot();
    let burst = 100 << 20;
    net.hunt.handle(HuntInput::Received { job: Job(0), bytes: burst, pack_bytes: burst }, net.now);
    net.misses("second", &[2], &["good"]);
    net.elapse_to(10_400);
    assert!(net.view("second").unwrap().waits_for_room);
    net.elapse_to(13_000);
    assert!(net.is_complete("second"));
}

#[test]
fn s37_a_long_fetch_that_is_fast_enough_gives_way_to_nobody() {
    let mut net = Net::new(HuntSettings { concurrent_max: 1, ..HuntSettings::default() });
    net.server("long", &[]).manner = Manner::Drips(11 * KIB, SECOND);
    net.server("good", &[2]);
    net.misses("first", &[1], &["long"]);
    net.elapse_to(1_000);
    net.misses("second", &[2], &["good"]);
    net.elapse(6 * HOUR);
    assert!(net.cancelled.is_empty());
    let looks = net.looks.len();
    assert!(net.wakes.len() < looks + 6 * 3_600 / 5, "{} wakes", net.wakes.len());
}

#[test]
fn s35_on_a_busy_domain_too() {
    let mut net = Net::new(HuntSettings { domain_concurrent_max: 2, ..HuntSettings::default() });
    net.server("one", &[]).manner = DRIP;
    for n in 0..2 {
        net.misses(&format!("slow{n}"), &[n], &["one"]);
    }
    net.elapse_to(1_000);
    net.server("one", &[7]).latency = SECOND;
    net.misses("acme", &[7], &["one"]);
    net.elapse_to(600_000);
    assert_eq!(net.view("acme").unwrap().waits_for, [domain("one")]);
    assert!(net.cancelled.is_empty());
    net.elapse_to(602_000);
    assert_eq!(net.cancelled.len(), 1, "one is enough");
    assert!(net.is_complete("acme"));
    net.elapse(Duration::from_secs(20));
    assert!(net.jobs.len() <= 2);
}

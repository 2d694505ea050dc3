//! Fetches that take several requests: each one needs leave and counts (S-35).

use crate::kit::*;
use grasp_core::Time;
use grasp_engine::hunt::{HuntInput, HuntSettings, Job};
use std::time::Duration;

#[test]
fn s35_every_request_counts() {
    let mut net = Net::new(HuntSettings::default());
    net.server("one", &[]).requests = 3;
    for n in 0..20 {
        net.misses(&format!("repo{n}"), &[n], &["one"]);
    }
    net.elapse_to(60_499);
    assert_eq!(net.hunt.domains(net.now)[0].starts_in_window, 30);
    assert_eq!(net.fetches.len(), 10, "thirty requests are ten fetches of three");
    assert_eq!(net.hunt.totals().requests, 30);
}

#[test]
fn s35_who_has_begun_goes_before_who_has_not() {
    let mut net = Net::new(HuntSettings {
        domain_concurrent_max: 2,
        domain_starts_max: 3,
        ..HuntSettings::default()
    });
    let server = net.server("one", &[0, 1, 2, 3]);
    (server.requests, server.latency) = (2, SECOND);
    for n in 0..4 {
        net.misses(&format!("repo{n}"), &[n], &["one"]);
    }
    // 0.5: two fetches begin. 1.5: one sends its second request, the other waits for leave.
    net.elapse_to(10_000);
    assert_eq!(net.fetches.len(), 2, "a slot is free but the window is not");
    assert_eq!(net.jobs.values().filter(|job| job.asks).count(), 1);
    net.elapse_to(60_500);
    assert!(net.jobs.values().all(|job| !job.asks), "leave comes first");
    assert_eq!(net.fetches.len(), 3);
    net.elapse(5 * MINUTE);
    assert!((0..4).all(|n| net.is_complete(&format!("repo{n}"))));
}

#[test]
fn s35_no_leave_while_a_domain_is_paused_and_no_slot_is_held_for_long() {
    let mut net = Net::new(HuntSettings::default());
    let server = net.server("one", &[1]);
    (server.requests, server.latency) = (2, 5 * SECOND);
    net.server("two", &[]);
    net.misses("acme", &[1], &["one", "two"]);
    net.elapse_to(1_000);
    net.servers.get_mut("one").unwrap().manner = slow_down(Some(10 * MINUTE));
    net.servers.get_mut("one").unwrap().latency = SECOND;
    net.misses("other", &[2], &["one"]);
    net.elapse_to(2_500);
    assert!(net.hunt.domains(net.now)[0].paused_until.is_some());
    net.elapse_to(5_500);
    assert_eq!(net.cancelled, [Job(1)], "it would have to wait for ten minutes");
    net.elapse_to(6_000);
    assert_eq!(net.asked()[2..], [(5_500, "two")], "meanwhile the next");
    assert!(net.view("acme").unwrap().waits_for.contains(&domain("one")), "it was not tried");
    let server = net.servers.get_mut("one").unwrap();
    (server.manner, server.requests) = (Manner::Answers, 1);
    net.elapse_to(610_000);
    assert!(net.is_complete("acme"));
}

#[test]
fn s35_a_short_pause_is_waited_for() {
    let mut net = Net::new(HuntSettings::default());
    let server = net.server("one", &[1]);
    (server.requests, server.latency) = (2, 5 * SECOND);
    net.misses("acme", &[1], &["one"]);
    net.elapse_to(1_000);
    net.servers.get_mut("one").unwrap().manner = slow_down(Some(10 * SECOND));
    net.servers.get_mut("one").unwrap().latency = SECOND;
    net.misses("other", &[2], &["one"]);
    net.elapse_to(2_500);
    net.servers.get_mut("one").unwrap().manner = Manner::Answers;
    net.elapse_to(12_499);
    assert!(net.cancelled.is_empty() && net.jobs[&Job(1)].asks);
    net.elapse_to(12_500);
    assert!(!net.jobs[&Job(1)].asks);
    net.elapse_to(14_000);
    assert!(net.is_complete("acme"));
}

#[test]
fn unknown_jobs_and_families_change_nothing() {
    let mut net = Net::new(HuntSettings::default());
    net.server("one", &[1]).latency = Duration::from_secs(2);
    net.misses("acme", &[1], &["one"]);
    net.elapse_to(1_000);
    net.hunt.handle_deadline(net.now);
    let before = format!("{:?}", net.hunt);
    let stranger = family("stranger");
    let lack = grasp_engine::hunt::Lack { wants: oids(&[1]), ..Default::default() };
    for family in [stranger, family("acme")] {
        net.hunt.handle(HuntInput::Looked { family, lack: lack.clone() }, net.now);
    }
    let end = grasp_engine::hunt::JobEnd {
        outcome: grasp_engine::hunt::Outcome::Answered,
        found: oids(&[1]),
        absent: oids(&[2]),
        bytes: 77,
    };
    net.hunt.handle(HuntInput::Ended { job: Job(99), end: end.clone() }, net.now);
    net.hunt.handle(HuntInput::WantsRequest { job: Job(99) }, net.now);
    net.hunt.handle(HuntInput::Received { job: Job(0), bytes: 5, pack_bytes: 5 }, net.now);
    assert_eq!(format!("{:?}", net.hunt), before);
    net.elapse_to(3_000);
    assert!(net.is_complete("acme"));
    net.hunt.handle(HuntInput::Ended { job: Job(1), end }, net.now);
    assert_eq!(net.hunt.totals().found, 1, "it had ended already");
    assert_eq!(net.hunt.poll_action(), None);
    net.hunt.handle_deadline(Time(u64::MAX / 2));
    assert_eq!(net.hunt.poll_action(), None);
}

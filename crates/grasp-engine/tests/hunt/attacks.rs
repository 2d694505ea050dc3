//! Strangers with slow hosts: neither their pull requests nor their keys stop the fetching of what
//! is served.

use crate::kit::*;
use grasp_engine::hunt::{Brought, FamilyStanding, HuntInput, HuntSettings, SlotClass, Source};
use std::time::Duration;

/// A progress packet each second, and never a byte of a pack.
const CHATTERS: Manner = Manner::Chatters(300, SECOND);

/// Pull requests of strangers to a family, each on a host of its own. Their commits are
/// `1_000 + n`.
fn propose(net: &mut Net, name: &str, hosts: u64, manner: &Manner) {
    for n in 0..hosts {
        let host = format!("fork{n}");
        net.server(&host, &[]).manner = manner.clone();
        propose_at(net, name, 1_000 + n, &host);
    }
}

fn propose_at(net: &mut Net, name: &str, number: u64, host: &str) {
    let lacking = net.families.get_mut(&family(name)).unwrap();
    lacking.wants.insert(oid(number));
    lacking.proposed.insert(oid(number));
    let covers = Some(oids(&[number]));
    lacking.sources.push(Source { url: url(host, name), covers, proposed: true });
    net.held(name, Brought::BySync);
}

/// A new state names this object.
fn sign(net: &mut Net, name: &str, number: u64) {
    net.families.get_mut(&family(name)).unwrap().wants.insert(oid(number));
    net.held(name, Brought::BySync);
}

/// A repository that is not served yet, of a key that was never seen.
fn announce(net: &mut Net, name: &str, number: u64, host: &str) {
    net.lacks(name, &[number], &[host]);
    let lacking = net.families.get_mut(&family(name)).unwrap();
    lacking.standing = FamilyStanding::UnknownOwner;
    net.held(name, Brought::BySync);
}

fn announce_slow(net: &mut Net, keys: u64) {
    for n in 0..keys {
        let host = format!("slow{n}");
        net.server(&host, &[]).manner = CHATTERS;
        announce(net, &format!("key{n}/repo"), 10_000 + n, &host);
    }
}

fn is_here(net: &Net, number: u64) -> bool {
    net.here.contains(&oid(number))
}

/// `acme` of alice is served and `main` has its next states.
fn served() -> Net {
    let mut net = Net::new(HuntSettings::default());
    net.server("main", &[1, 2]);
    net.lacks("alice/acme", &[], &["main"]);
    net
}

#[test]
fn four_slow_pull_requests_do_not_delay_the_next_state() {
    let mut net = served();
    propose(&mut net, "alice/acme", 4, &CHATTERS);
    net.elapse(MINUTE);
    assert_eq!(net.view("alice/acme").unwrap().running.len(), 4);
    sign(&mut net, "alice/acme", 1);
    net.elapse(SECOND);
    assert!(is_here(&net, 1));
    assert!(!net.cancelled.is_empty(), "one of them makes room");
}

#[test]
fn while_a_state_lacks_something_one_pull_request_is_fetched_at_a_time() {
    let mut net = served();
    net.servers.get_mut("main").unwrap().manner = Manner::Stalls;
    let lacking = net.families.get_mut(&family("alice/acme")).unwrap();
    lacking.sources[0].covers = Some(oids(&[1]));
    sign(&mut net, "alice/acme", 1);
    net.elapse(SECOND);
    propose(&mut net, "alice/acme", 8, &CHATTERS);
    for _ in 0..60 {
        net.elapse(SECOND);
        let proposals = net.jobs.values().filter(|it| it.server != "main").count();
        assert!(proposals <= 1, "{proposals} at a time");
    }
    let asked = net.fetches.iter().filter(|it| it.from != "main").count();
    assert!(asked >= 5, "each makes room after ten seconds: {asked}");
}

#[test]
fn a_full_family_ends_its_slowest_pull_request_after_ten_seconds() {
    let mut net = served();
    let fast = Manner::Drips(100 << 10, SECOND);
    propose(&mut net, "alice/acme", 3, &fast);
    net.server("slower", &[]).manner = Manner::Drips(50 << 10, SECOND);
    propose_at(&mut net, "alice/acme", 2_000, "slower");
    net.elapse_to(5_000);
    assert_eq!(net.jobs.len(), 4);
    net.server("honest", &[2_001]);
    propose_at(&mut net, "alice/acme", 2_001, "honest");
    net.elapse_to(10_000);
    assert!(!is_here(&net, 2_001) && net.cancelled.is_empty());
    net.elapse_to(12_000);
    assert!(is_here(&net, 2_001), "{:?}", net.asked());
    let view = net.view("alice/acme").unwrap();
    let slower = view.sources.iter().find(|it| it.url == url("slower", "alice/acme")).unwrap();
    assert_eq!(slower.said, "too slow while other pull requests waited");
    net.elapse_to(60_000);
    assert_eq!(net.cancelled.len(), 1, "nothing else waits");
}

#[test]
fn the_slowest_pull_request_of_a_full_family_is_the_one_that_is_slow_now() {
    let mut net = served();
    propose(&mut net, "alice/acme", 3, &Manner::Drips(100 << 10, SECOND));
    net.server("burst", &[]).manner = Manner::Drips(1_000, SECOND);
    propose_at(&mut net, "alice/acme", 2_000, "burst");
    net.elapse_to(2_000);
    let job = *net.jobs.iter().find(|(_, it)| it.server == "burst").unwrap().0;
    let burst = 50 << 20;
    net.hunt.handle(HuntInput::Received { job, bytes: burst, pack_bytes: burst }, net.now);
    net.elapse_to(20_000);
    net.server("honest", &[2_001]);
    propose_at(&mut net, "alice/acme", 2_001, "honest");
    net.elapse_to(22_000);
    assert!(is_here(&net, 2_001), "{:?}", net.asked());
    assert_eq!(net.cancelled, [job]);
}

#[test]
fn a_fetch_of_a_pull_request_ends_after_half_an_hour() {
    let mut net = served();
    propose(&mut net, "alice/acme", 1, &Manner::Drips(20 << 10, SECOND));
    net.elapse(30 * MINUTE);
    assert!(net.cancelled.is_empty(), "it may be as slow as that while nothing waits");
    net.elapse(SECOND);
    assert_eq!(net.cancelled.len(), 1);
    let asked = |net: &Net| net.fetches.iter().filter(|it| it.from == "fork0").count();
    net.elapse(59 * MINUTE);
    assert!(net.jobs.is_empty() && asked(&net) == 1, "and its host is left alone");
    net.elapse(10 * MINUTE);
    assert_eq!(asked(&net), 2, "for an hour");
}

#[test]
fn a_state_may_take_longer_than_half_an_hour() {
    let mut net = served();
    net.servers.get_mut("main").unwrap().manner = Manner::Drips(20 << 10, SECOND);
    sign(&mut net, "alice/acme", 1);
    net.elapse(10 * HOUR);
    assert!(net.cancelled.is_empty() && net.jobs.len() == 1);
}

#[test]
fn a_hundred_slow_hosts_of_strangers_do_not_delay_served_repositories() {
    let mut net = served();
    net.server("other", &[3]);
    net.lacks("bert/other", &[], &["other"]);
    announce_slow(&mut net, 100);
    propose(&mut net, "alice/acme", 15, &CHATTERS);
    for _ in 0..20 {
        net.elapse(7 * SECOND);
        let unknown = net.jobs.values().filter(|it| it.server.starts_with("slow")).count();
        assert_eq!(unknown, 5, "a quarter of the slots");
    }
    let full = net.hunt.full_slots();
    let unknown = full.iter().find(|it| it.class == SlotClass::UnknownOwner).unwrap();
    assert_eq!((unknown.used, unknown.max), (5, 5));
    assert!(unknown.waiting > 50 && unknown.since < net.now.plus(Duration::ZERO));
    let at = net.at_ms();
    sign(&mut net, "alice/acme", 1);
    sign(&mut net, "bert/other", 3);
    net.elapse(SECOND);
    assert!(is_here(&net, 1) && is_here(&net, 3), "after {} ms", net.at_ms() - at);
}

#[test]
fn an_unknown_owner_with_a_good_host_gets_its_turn_among_slow_ones() {
    let mut net = served();
    announce_slow(&mut net, 100);
    net.elapse(5 * MINUTE);
    net.server("good", &[5]);
    announce(&mut net, "carol/new", 5, "good");
    net.elapse(12 * SECOND);
    assert!(is_here(&net, 5), "those that sent nothing come after it");
}

#[test]
fn an_owner_with_one_successful_fetch_no_longer_waits_with_unknown_ones() {
    let mut net = served();
    net.server("good", &[5, 6]);
    announce(&mut net, "carol/first", 5, "good");
    net.elapse(SECOND);
    assert!(is_here(&net, 5));
    announce_slow(&mut net, 100);
    net.elapse(5 * SECOND);
    announce(&mut net, "carol/second", 6, "good");
    net.elapse(SECOND);
    assert!(is_here(&net, 6));
}

#[test]
fn a_quarter_of_the_slots_is_free_for_served_repositories() {
    let mut net = served();
    for n in 0..40 {
        let host = format!("known{n}");
        net.server(&host, &[]).latency = MINUTE;
        let name = format!("known{n}/repo");
        net.lacks(&name, &[20_000 + n], &[&host]);
        net.families.get_mut(&family(&name)).unwrap().standing = FamilyStanding::KnownOwner;
        net.held(&name, Brought::BySync);
    }
    net.elapse(5 * SECOND);
    assert_eq!(net.jobs.len(), 15);
    sign(&mut net, "alice/acme", 1);
    net.elapse(SECOND);
    assert!(is_here(&net, 1));
}

#[test]
fn progress_packets_are_not_progress() {
    for (manner, ended) in [(CHATTERS, true), (Manner::Drips(11 << 10, SECOND), false)] {
        let mut net = Net::new(HuntSettings { concurrent_max: 1, ..HuntSettings::default() });
        net.server("slow", &[]).manner = manner;
        net.server("good", &[2]);
        net.misses("first", &[1], &["slow"]);
        net.elapse(SECOND);
        net.misses("second", &[2], &["good"]);
        net.elapse(15 * SECOND);
        assert_eq!(net.is_complete("second"), ended);
    }
}

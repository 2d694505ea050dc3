//! The main path, and the queues of domains that are busy: moved by what happens, never by looking
//! again and again (S-34).

use crate::kit::*;
use grasp_engine::hunt::{Brought, HuntInput, HuntNews, HuntSettings};
use std::time::Duration;

fn one_at_a_time() -> HuntSettings {
    HuntSettings { domain_concurrent_max: 1, ..HuntSettings::default() }
}

#[test]
fn s34_families_that_are_ready_are_hunted_at_the_same_time() {
    let mut net = Net::new(HuntSettings::default());
    for n in 0..20 {
        let server = format!("server{n}");
        net.server(&server, &[n]).latency = 10 * SECOND;
        net.misses(&format!("repo{n}"), &[n], &[&server]);
    }
    net.elapse(SECOND);
    assert_eq!(net.fetches.len(), 20);
    assert!(net.fetches.iter().all(|it| it.at_ms == 500));
}

#[test]
fn s34_a_busy_domain_is_passed_over_for_the_next_source() {
    let mut net = Net::new(one_at_a_time());
    net.server("busy", &[1, 2]).latency = 10 * SECOND;
    net.server("free", &[2]);
    net.misses("first", &[1], &["busy"]);
    net.misses("second", &[2], &["busy", "free"]);
    net.elapse(SECOND);
    assert_eq!(net.asked(), [(500, "busy"), (500, "free")]);
    assert!(net.is_complete("second"));
    assert_eq!(net.hunt.domains(net.now)[0].queued, 0);
}

#[test]
fn s34_what_only_a_busy_domain_can_have_waits_there_and_also_backs_off() {
    let mut net = Net::new(one_at_a_time());
    net.server("busy", &[1, 2]).latency = 15 * SECOND;
    net.misses("first", &[1], &["busy"]);
    net.misses("second", &[2], &["busy"]);
    net.elapse(SECOND);
    let view = net.view("second").unwrap();
    assert_eq!(view.waits_for, [domain("busy")]);
    assert_eq!(view.next, Some(START.plus(Duration::from_millis(20_500))));
    assert_eq!(net.told(|news| matches!(news, HuntNews::Incomplete { .. })), 0);
    net.elapse_to(15_500);
    assert_eq!(net.asked(), [(500, "busy"), (15_500, "busy")], "the moment the other is over");
    net.elapse_to(30_500);
    assert!(net.is_complete("second"));
}

#[test]
fn s34_a_place_in_a_queue_is_kept_over_the_next_look() {
    let mut net = Net::new(one_at_a_time());
    net.server("busy", &[1, 2, 3]).latency = 25 * SECOND;
    for (name, n) in [("first", 1), ("second", 2), ("third", 3)] {
        net.misses(name, &[n], &["busy"]);
        net.elapse(SECOND);
    }
    net.elapse_to(24_000);
    let looks = |name: &str| net.looks.iter().filter(|it| it.1 == family(name)).count();
    assert_eq!((looks("second"), looks("third")), (2, 2));
    net.elapse_to(60_000);
    let order: Vec<_> = net.fetches.iter().map(|it| (it.at_ms, it.family.clone())).collect();
    let expected = [(500, family("first")), (25_500, family("second")), (50_500, family("third"))];
    assert_eq!(order, expected);
}

#[test]
fn s34_a_look_refreshes_what_a_waiting_family_wants() {
    let mut net = Net::new(one_at_a_time());
    net.server("busy", &[1, 2, 3]).latency = 25 * SECOND;
    net.misses("first", &[1], &["busy"]);
    net.misses("second", &[2], &["busy"]);
    net.misses("third", &[3], &["busy"]);
    net.elapse_to(10_000);
    net.lacks("second", &[2, 4], &["busy"]);
    net.here.extend(oids(&[3]));
    net.elapse_to(25_500);
    assert_eq!(net.fetches[1].wants, oids(&[2, 4]));
    net.elapse_to(60_000);
    assert!(net.is_complete("third") && net.fetches.iter().all(|it| it.family != family("third")));
}

#[test]
fn s34_the_hunt_sleeps_until_something_can_happen() {
    let mut net = Net::new(HuntSettings { domain_starts_max: 2, ..one_at_a_time() });
    net.server("busy", &[]).latency = Duration::ZERO;
    for n in 0..3 {
        net.misses(&format!("repo{n}"), &[n], &["busy"]);
    }
    net.elapse_to(19_000);
    assert_eq!(net.fetches.len(), 2);
    assert_eq!(net.wakes, [500], "one moment, and nothing in between");
    net.elapse_to(60_499);
    assert_eq!(net.fetches.len(), 2);
    net.elapse_to(60_500);
    assert!(net.fetches.len() > 2, "the window is free again");
    let looks_and_windows = net.looks.len() + net.fetches.len();
    assert!(net.wakes.len() <= looks_and_windows, "{:?}", net.wakes);
}

#[test]
fn s34_a_million_seconds_of_nothing_are_nothing() {
    let mut net = Net::new(HuntSettings::default());
    net.server("one", &[1]);
    net.misses("acme", &[1], &["one"]);
    net.elapse(SECOND);
    let wakes = net.wakes.len();
    net.says(HuntInput::Grasp(domain("one")));
    net.elapse(Duration::from_secs(1_000_000));
    assert_eq!((net.wakes.len(), net.hunt.next_deadline()), (wakes, None));
}

#[test]
fn s34_nobody_passes_those_who_wait() {
    let mut net = Net::new(one_at_a_time());
    net.server("busy", &[]).latency = 10 * SECOND;
    for n in 0..3 {
        net.misses(&format!("early{n}"), &[n], &["busy"]);
    }
    net.elapse_to(10_000);
    // Ready at the very moment at which a slot becomes free.
    net.misses("late", &[9], &["busy"]);
    net.elapse_to(35_000);
    let order: Vec<String> =
        net.fetches.iter().map(|it| it.family.identifier.to_string()).collect();
    assert_eq!(order, ["early0", "early1", "early2", "late"]);
}

#[test]
fn s34_a_try_from_a_queue_does_not_put_off_the_next_attempt() {
    let mut net = Net::new(HuntSettings { domain_starts_max: 1, ..HuntSettings::default() });
    net.server("busy", &[]).latency = 10 * SECOND;
    net.server("good", &[]);
    net.misses("other", &[1], &["busy"]);
    net.misses("acme", &[2], &["busy", "good"]);
    net.elapse_to(20_000);
    assert_eq!(net.view("acme").unwrap().next, Some(START.plus(Duration::from_millis(20_600))));
    net.elapse_to(60_650);
    let acme: Vec<u64> =
        net.looks.iter().filter(|it| it.1 == family("acme")).map(|it| it.0).collect();
    assert_eq!(acme, [500, 20_600, 60_600], "although at 60.5 s the turn on the busy one came");
    net.servers.get_mut("good").unwrap().has = oids(&[2]);
    net.elapse_to(71_000);
    assert!(net.is_complete("acme"), "right after the busy one");
}

#[test]
fn s34_who_gets_all_elsewhere_gives_up_its_places() {
    let mut net = Net::new(one_at_a_time());
    net.server("busy", &[]).latency = 10 * SECOND;
    net.server("slow", &[2]).latency = 5 * SECOND;
    net.misses("other", &[1], &["busy"]);
    net.misses("third", &[3], &["busy", "slow"]);
    net.misses("acme", &[2], &["busy", "slow"]);
    net.elapse_to(1_000);
    assert_eq!(net.view("acme").unwrap().waits_for.len(), 2);
    net.elapse_to(10_499);
    assert!(net.is_complete("acme") || net.view("acme").unwrap().running.len() == 1);
    net.elapse_to(60_000);
    assert!(net.is_complete("acme"));
    let busy = net.hunt.domains(net.now).into_iter().find(|it| it.domain == domain("busy"));
    assert!(busy.unwrap().queued <= 2);
    let asked = net.fetches.iter().filter(|it| it.family == family("acme"));
    assert_eq!(asked.map(|it| it.from.as_str()).collect::<Vec<_>>(), ["slow"]);
}

#[test]
fn s34_a_direct_event_waits_its_delay_even_next_to_a_free_domain() {
    let mut net = Net::new(HuntSettings::default());
    net.server("free", &[1]);
    net.lacks("acme", &[1], &["free"]);
    net.held("acme", Brought::Directly);
    net.elapse_to(179_999);
    assert!(net.fetches.is_empty() && net.wakes.is_empty());
}

#[test]
fn s34_a_turn_that_comes_while_we_look_is_taken() {
    let mut net = Net::new(one_at_a_time());
    net.look_takes = 5 * SECOND;
    net.server("busy", &[1, 2, 3]).latency = 22 * SECOND;
    net.misses("first", &[1], &["busy"]);
    net.misses("second", &[2], &["busy"]);
    net.elapse_to(25_500);
    net.lacks("second", &[2, 3], &["busy"]);
    net.elapse_to(27_499);
    assert!(net.looking.contains(&family("second")));
    net.elapse_to(27_500);
    let fetch = net.fetches.last().unwrap();
    assert_eq!(
        (fetch.at_ms, &fetch.family),
        (27_500, &family("second")),
        "for what it lacked then"
    );
    assert_eq!(fetch.wants, oids(&[2]));
    net.elapse(5 * MINUTE);
    assert!(net.is_complete("second"));
    assert_eq!(net.fetches.last().unwrap().wants, oids(&[3]));
}

//! The slots over all domains are shared by owners: nobody can take them away from the others, with
//! however many domains.

use crate::kit::*;
use grasp_engine::hunt::{Brought, HuntInput, HuntSettings};
use std::time::Duration;

/// Domains of one stranger that accept and say nothing, each in a family of its own.
fn silent(net: &mut Net, owner: &str, count: u64) {
    for n in 0..count {
        let server = format!("{owner}{n}");
        net.server(&server, &[]).manner = Manner::Stalls;
        net.misses(&format!("{owner}/r{n}"), &[10_000 + n], &[&server]);
    }
}

#[test]
fn s34_owners_take_turns_where_all_slots_are_taken() {
    let mut net = Net::new(HuntSettings { concurrent_max: 2, ..HuntSettings::default() });
    for server in ["a", "b", "c"] {
        net.server(server, &[]).latency = 10 * SECOND;
    }
    for n in 0..4 {
        let server = if n % 2 == 0 { "a" } else { "c" };
        net.misses(&format!("many/r{n}"), &[n], &[server]);
    }
    net.elapse(SECOND);
    for n in 0..2 {
        net.misses(&format!("one{n}/r"), &[10 + n], &["b"]);
    }
    net.elapse_to(31_000);
    let order: Vec<&str> = net.asked().iter().map(|it| it.1).collect();
    assert_eq!(order[..6], ["a", "c", "b", "a", "b", "c"], "though one came first with four");
    assert_eq!(net.watch.running_max, 2);
}

#[test]
fn s34_five_hundred_silent_domains_of_one_stranger_stop_nobody() {
    let mut net = Net::new(HuntSettings::default());
    silent(&mut net, "mallory", 500);
    net.elapse(MINUTE);
    net.server("good", &[1]);
    net.misses("alice/acme", &[1], &["good"]);
    net.elapse(SECOND);
    assert!(net.is_complete("alice/acme"), "some slots are kept for others");
    // Even after hours, and for many.
    net.elapse(2 * HOUR);
    for n in 0..20 {
        let server = format!("good{n}");
        net.server(&server, &[100 + n]).latency = SECOND;
        net.misses(&format!("owner{n}/acme"), &[100 + n], &[&server]);
    }
    net.elapse(30 * SECOND);
    assert!((0..20).all(|n| net.is_complete(&format!("owner{n}/acme"))));
}

#[test]
fn s34_who_has_more_than_a_share_gives_way_when_others_wait() {
    let mut net = Net::new(HuntSettings::default());
    silent(&mut net, "mallory", 500);
    net.elapse(MINUTE);
    silent(&mut net, "trudy", 100);
    net.elapse(MINUTE);
    let of = |net: &Net, owner: &str| {
        let key = family(&format!("{owner}/x")).owner;
        net.jobs.values().filter(|it| it.family.owner == key).count()
    };
    assert!(of(&net, "mallory") >= 5 && of(&net, "trudy") >= 5, "nothing is free but the rest");
    net.server("good", &[1]);
    net.misses("alice/acme", &[1], &["good"]);
    net.elapse(2 * SECOND);
    assert!(net.is_complete("alice/acme"));
    assert!(net.hunt.domains(net.now).iter().any(|it| it.failing), "who said nothing comes last");
}

#[test]
fn s34_one_owner_alone_leaves_a_quarter_free() {
    let mut net = Net::new(HuntSettings::default());
    silent(&mut net, "alice", 30);
    net.elapse(SECOND);
    assert_eq!(net.jobs.len(), 15);
    silent(&mut net, "bert", 30);
    silent(&mut net, "cleo", 30);
    net.elapse(SECOND);
    assert_eq!(net.jobs.len(), 20);
    net.elapse(20 * SECOND);
    let of = |owner: &str| {
        let key = family(&format!("{owner}/x")).owner;
        net.jobs.values().filter(|it| it.family.owner == key).count()
    };
    assert_eq!((of("bert"), of("cleo")), (5, 5), "alice gives way to them");
}

#[test]
fn s35_who_has_its_share_elsewhere_lets_others_go_first_on_a_busy_domain() {
    let mut net = Net::new(HuntSettings {
        concurrent_max: 8,
        domain_concurrent_max: 1,
        ..HuntSettings::default()
    });
    net.server("one", &[]).latency = 10 * SECOND;
    net.misses("first/x", &[0], &["one"]);
    net.elapse(SECOND);
    for n in 0..3 {
        net.misses(&format!("mallory/x{n}"), &[1 + n], &["one"]);
    }
    silent(&mut net, "mallory", 6);
    net.elapse(SECOND);
    net.misses("alice/acme", &[50], &["one"]);
    net.elapse_to(10_500);
    assert_eq!(net.fetches.last().unwrap().family, family("alice/acme"));
}

#[test]
fn s35_where_there_is_room_enough_nobody_is_held_back() {
    let mut net = Net::new(HuntSettings { domain_concurrent_max: 1, ..HuntSettings::default() });
    net.server("one", &[]).latency = 10 * SECOND;
    silent(&mut net, "alice", 6);
    for name in ["bert/x", "alice/x", "bert/y"] {
        net.misses(name, &[1], &["one"]);
    }
    net.elapse_to(21_000);
    let one = net.fetches.iter().filter(|it| it.from == "one").map(|it| it.family.clone());
    let expected = [family("bert/x"), family("alice/x"), family("bert/y")];
    assert_eq!(one.collect::<Vec<_>>(), expected, "though alice has more than a quarter");
}

#[test]
fn s37_domains_that_fail_come_after_the_others_but_come() {
    let mut net = Net::new(HuntSettings { concurrent_max: 1, ..HuntSettings::default() });
    net.server("bad", &[]).manner = fails();
    net.misses("early/x", &[0], &["bad"]);
    net.elapse(SECOND);
    net.server("slow", &[]).latency = 5 * SECOND;
    net.misses("busy/x", &[1], &["slow"]);
    net.elapse(SECOND);
    net.misses("late/x", &[2], &["bad"]);
    for n in 0..12 {
        let server = format!("good{n}");
        net.server(&server, &[10 + n]).latency = SECOND;
        net.misses(&format!("o{n}/x"), &[10 + n], &[&server]);
    }
    net.elapse(15 * SECOND);
    let order: Vec<&str> = net.asked().iter().map(|it| it.1).collect();
    let bad = order.iter().rposition(|it| *it == "bad").unwrap();
    assert!((5..=8).contains(&bad), "after some of the others, not after all: {order:?}");
}

#[test]
fn s37_a_domain_that_says_nothing_is_asked_after_the_others() {
    let mut net = Net::new(HuntSettings::default());
    net.server("quiet", &[]).manner = Manner::Stalls;
    net.server("good", &[]);
    net.misses("early", &[0], &["quiet"]);
    net.elapse_to(8_000);
    net.misses("young", &[1], &["quiet", "good"]);
    net.elapse_to(12_000);
    net.misses("old", &[2], &["quiet", "good"]);
    net.elapse_to(13_000);
    let asked: Vec<(u64, &str)> = net.asked();
    assert_eq!(asked, [(500, "quiet"), (8_500, "quiet"), (12_500, "good"), (12_600, "quiet")]);
}

#[test]
fn s35_a_full_table_of_domains_does_not_keep_a_fresh_one_out() {
    let settings = HuntSettings { domains_max: 160, ..HuntSettings::default() };
    let mut net = Net::new(settings);
    silent(&mut net, "mallory", 500);
    for n in 0..300 {
        let server = format!("rude{n}");
        net.server(&server, &[]).manner = slow_down(Some(HOUR));
        net.misses(&format!("trudy/r{n}"), &[20_000 + n], &[&server]);
    }
    net.elapse(10 * MINUTE);
    assert!(net.hunt.domains(net.now).len() <= 40, "{}", net.hunt.domains(net.now).len());
    net.server("good", &[1]);
    net.misses("alice/acme", &[1], &["good"]);
    net.elapse(30 * SECOND);
    assert!(net.is_complete("alice/acme"));
}

#[test]
fn s35_many_owners_that_fill_the_table_leave_room_for_those_with_few_domains() {
    let mut net = Net::new(HuntSettings { domains_max: 160, ..HuntSettings::default() });
    for n in 0..400 {
        let server = format!("rude{n}");
        net.server(&server, &[]).manner = slow_down(Some(HOUR));
        net.misses(&format!("sybil{}/r{n}", n % 16), &[20_000 + n], &[&server]);
    }
    net.elapse(10 * MINUTE);
    let known = net.hunt.domains(net.now).len();
    assert!((100..=128).contains(&known), "{known}");
    net.server("good", &[1]);
    net.misses("alice/acme", &[1], &["good"]);
    net.elapse(SECOND);
    assert!(net.is_complete("alice/acme"));
}

#[test]
fn a_grasp_servers_word_still_counts_when_the_table_is_busy() {
    let mut net = Net::new(HuntSettings::default());
    silent(&mut net, "mallory", 100);
    net.elapse(SECOND);
    net.says(HuntInput::Grasp(domain("good")));
    net.server("good", &[1]).latency = Duration::ZERO;
    net.misses("alice/acme", &[1], &["good"]);
    net.elapse(SECOND);
    assert!(net.is_complete("alice/acme"));
    let it = net.hunt.domains(net.now).into_iter().find(|it| it.domain == domain("good"));
    assert_eq!(it.unwrap().starts_max, 300);
}

#[test]
fn s35_who_waited_for_a_slot_has_a_place_where_it_is_busy_by_then() {
    let mut net = Net::new(HuntSettings {
        concurrent_max: 4,
        domain_concurrent_max: 1,
        ..HuntSettings::default()
    });
    net.server("bad", &[]).manner = fails();
    net.misses("early/x", &[0], &["bad"]);
    net.elapse(SECOND);
    for n in 0..10 {
        let server = format!("slow{n}");
        net.server(&server, &[]).latency = if n < 3 { 5 * SECOND } else { MINUTE };
        net.lacks(&format!("alice/s{n}"), &[10 + n], &[&server]);
    }
    net.server("good", &[1, 2]).latency = MINUTE;
    for n in 0..3 {
        net.held(&format!("alice/s{n}"), Brought::BySync);
    }
    net.elapse(SECOND);
    net.misses("alice/acme", &[1], &["good", "bad"]);
    net.elapse(SECOND);
    for n in 3..10 {
        net.held(&format!("alice/s{n}"), Brought::BySync);
    }
    net.misses("bert/acme", &[2], &["good"]);
    net.elapse(10 * SECOND);
    let view = net.view("alice/acme").unwrap();
    assert!(view.running.is_empty(), "others had their turn meanwhile");
    assert_eq!(view.waits_for, [domain("good")]);
}

//! What comes while something is being fetched does not wait for that (S-32).

use crate::kit::*;
use grasp_core::Oid;
use grasp_engine::hunt::{Brought, HuntInput, HuntSettings};
use std::collections::BTreeSet;

const DRIP: Manner = Manner::Drips(64 << 10, MINUTE);

fn net(servers: &[(&str, &[u64])]) -> Net {
    let mut net = Net::new(HuntSettings::default());
    for (name, has) in servers {
        net.server(name, has);
    }
    net
}

fn wants(net: &Net) -> Vec<(u64, &str, Vec<u64>)> {
    let number = |oid: &Oid| u64::from_be_bytes(oid.as_bytes()[..8].try_into().unwrap());
    let wants = |wants: &BTreeSet<Oid>| wants.iter().map(number).collect();
    net.fetches.iter().map(|it| (it.at_ms, it.from.as_str(), wants(&it.wants))).collect()
}

#[test]
fn s32_a_new_state_does_not_wait_for_a_fetch_that_drips() {
    let mut net = net(&[("slow", &[]), ("two", &[2])]);
    net.servers.get_mut("slow").unwrap().manner = DRIP;
    net.misses("acme", &[1], &["slow"]);
    net.elapse_to(20_000);
    net.lacks("acme", &[1, 2], &["slow", "two"]);
    net.held("acme", Brought::BySync);
    net.elapse_to(20_700);
    assert_eq!(net.look_times(), [500, 20_500]);
    let asked = [(500, "slow", vec![1]), (20_500, "two", vec![2])];
    assert_eq!(wants(&net), asked, "half a second, and what drips comes last");
    assert!(net.here.contains(&oid(2)), "it is here although the other goes on");
    assert_eq!(net.view("acme").unwrap().running, [url("slow", "acme")]);
}

#[test]
fn s32_a_source_may_be_asked_for_something_new_while_it_is_asked_for_something_else() {
    let mut net = net(&[("one", &[1, 2])]);
    net.servers.get_mut("one").unwrap().latency = 5 * SECOND;
    net.misses("acme", &[1], &["one"]);
    net.elapse_to(2_000);
    net.misses("acme", &[1, 2], &["one"]);
    net.elapse_to(20_000);
    assert_eq!(wants(&net), [(500, "one", vec![1]), (2_500, "one", vec![2])]);
    assert!(net.is_complete("acme"));
}

#[test]
fn s32_a_users_event_during_a_fetch_keeps_its_three_minutes() {
    let mut net = net(&[("one", &[1])]);
    net.servers.get_mut("one").unwrap().manner = DRIP;
    net.misses("acme", &[1], &["one"]);
    net.elapse_to(1_000);
    net.lacks("acme", &[1, 2], &["one"]);
    net.held("acme", Brought::Directly);
    net.elapse_to(30_400);
    assert_eq!(net.look_times(), [500]);
    net.elapse_to(181_000);
    let new = net.fetches.iter().find(|it| it.wants.contains(&oid(2))).unwrap();
    assert!((30_500..=181_000).contains(&new.at_ms), "{}", new.at_ms);
}

#[test]
fn s32_changes_and_damage_during_a_fetch_are_looked_at_as_well() {
    let change = |family| HuntInput::Changed { family };
    let damage = |family| HuntInput::Damaged { family };
    let inputs: [fn(_) -> HuntInput; 2] = [change, damage];
    for input in inputs {
        let mut net = net(&[("slow", &[]), ("two", &[2])]);
        net.servers.get_mut("slow").unwrap().manner = DRIP;
        net.misses("acme", &[1], &["slow"]);
        net.elapse_to(10_000);
        net.lacks("acme", &[1, 2], &["slow", "two"]);
        net.says(input(family("acme")));
        net.elapse_to(10_500);
        assert_eq!(wants(&net)[1..], [(10_500, "two", vec![2])]);
    }
}

#[test]
fn s32_what_is_being_fetched_is_not_asked_for_again_because_of_a_new_event() {
    let mut net = net(&[("one", &[1]), ("two", &[1])]);
    net.servers.get_mut("one").unwrap().latency = 20 * SECOND;
    net.misses("acme", &[1], &["one", "two"]);
    for _ in 0..8 {
        net.elapse(2 * SECOND);
        net.held("acme", Brought::BySync);
    }
    net.elapse_to(20_400);
    assert_eq!(net.asked(), [(500, "one")]);
    assert!(net.looks.len() >= 8);
    net.elapse_to(21_000);
    assert!(net.is_complete("acme"));
}

#[test]
fn s37_what_is_new_gets_company_of_its_own_after_half_a_minute() {
    let mut net = net(&[("a", &[]), ("b", &[]), ("c", &[2])]);
    for name in ["a", "b"] {
        net.servers.get_mut(name).unwrap().manner = Manner::Stalls;
    }
    net.misses("acme", &[1], &["a"]);
    net.elapse_to(10_000);
    net.misses("acme", &[1, 2], &["a", "b", "c"]);
    net.elapse_to(41_000);
    // The one from the beginning is hedged at 30.5 s, the new one at 40.5 s.
    let expected = [
        (500, "a", vec![1]),
        (10_500, "b", vec![2]),
        (30_500, "b", vec![1]),
        (40_500, "c", vec![2]),
    ];
    assert_eq!(wants(&net)[..2], expected[..2]);
    assert_eq!(wants(&net)[2].0, 30_500);
    assert!(wants(&net).contains(&expected[3]), "{:?}", wants(&net));
    assert!(net.here.contains(&oid(2)));
}

#[test]
fn s37_of_one_family_no_more_than_four_are_asked_and_the_useless_give_way() {
    let mut net = net(&[]);
    let names: Vec<String> = (0..8).map(|n| format!("s{n}")).collect();
    for name in &names {
        net.server(name, &[]).manner = DRIP;
    }
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for n in 0..8 {
        let all: Vec<u64> = (0..=n).collect();
        net.misses("acme", &all, &names);
        net.elapse(5 * SECOND);
    }
    assert_eq!(net.fetches.len(), 4);
    assert_eq!(net.view("acme").unwrap().running.len(), 4);
    // All of that is superseded by one state.
    net.server("good", &[9]);
    let mut all = names.clone();
    all.push("good");
    net.misses("acme", &[9], &all);
    net.elapse(SECOND);
    assert_eq!(net.cancelled.len(), 1, "one of them makes room");
    assert!(net.fetches.last().unwrap().wants == oids(&[9]));
}

#[test]
fn s33_attempts_go_on_while_a_fetch_drips() {
    let mut net = net(&[("slow", &[]), ("two", &[])]);
    net.servers.get_mut("slow").unwrap().manner = DRIP;
    net.misses("acme", &[1], &["slow", "two"]);
    net.elapse_to(300_000);
    let two: Vec<u64> = net.asked().iter().filter(|it| it.1 == "two").map(|it| it.0).collect();
    assert_eq!(two, [30_500, 50_600, 90_700, 170_800, 290_900], "like any other retry");
    assert_eq!(net.asked().iter().filter(|it| it.1 == "slow").count(), 1);
    net.servers.get_mut("two").unwrap().has = oids(&[1]);
    net.elapse(2 * MINUTE);
    assert!(net.is_complete("acme"));
}

//! Who goes first where many wait (S-35): owners in turn, their repositories in turn, and nobody
//! twice before everybody once.

use crate::kit::*;
use grasp_engine::hunt::{FamilyId, HuntSettings};
use std::collections::BTreeSet;
use std::time::Duration;

/// 39 repositories of one owner, then one of another, all on the same servers.
fn two_owners(servers: &[&str], latency: Duration) -> Net {
    // So many that nobody is held back by its share of them all.
    let mut net = Net::new(HuntSettings { concurrent_max: 100, ..HuntSettings::default() });
    for server in servers {
        net.server(server, &[]).latency = latency;
    }
    for n in 0..39 {
        net.misses(&format!("many/repo{n}"), &[n], servers);
    }
    net.misses("single/repo", &[99], servers);
    net
}

fn of_single(net: &Net) -> Vec<usize> {
    let single = |it: &FamilyId| it.owner == family("single/x").owner;
    net.fetches.iter().enumerate().filter(|it| single(&it.1.family)).map(|it| it.0).collect()
}

#[test]
fn s35_an_owner_with_one_repository_is_served_within_two_rounds() {
    let mut net = two_owners(&["one"], 2 * SECOND);
    net.elapse_to(60_000);
    // Five start before anybody waits; then the owners take turns.
    assert_eq!(of_single(&net)[0], 6);
}

#[test]
fn s35_on_each_domain_every_repository_has_a_try_before_any_has_a_second() {
    let servers = ["one", "two", "three"];
    let mut net = two_owners(&servers, 3 * SECOND);
    net.elapse(10 * MINUTE);
    for server in servers {
        let mut untried: BTreeSet<FamilyId> = net.families.keys().cloned().collect();
        for it in net.fetches.iter().filter(|it| it.from == server) {
            if !untried.remove(&it.family) {
                // Whoever had no try yet is being served elsewhere at this very moment.
                assert!(untried.is_subset(&it.busy), "{server}: {:?} is tried twice", it.family);
            }
        }
        assert!(untried.is_empty(), "{server}");
    }
}

#[test]
fn s35_each_owner_gets_the_same_share_of_a_busy_domain() {
    let mut net = Net::new(HuntSettings { domain_concurrent_max: 1, ..HuntSettings::default() });
    net.server("one", &[]).latency = SECOND;
    for (owner, count) in [("anna", 30), ("bert", 10), ("cleo", 3)] {
        for n in 0..count {
            net.misses(&format!("{owner}/repo{n}"), &[n], &["one"]);
        }
    }
    net.elapse_to(10_000);
    let count = |owner: &str| {
        let key = family(&format!("{owner}/x")).owner;
        net.fetches.iter().filter(|it| it.family.owner == key).count()
    };
    let counts = (count("anna"), count("bert"), count("cleo"));
    assert_eq!(counts, (4, 3, 3), "one start was anna's before anybody waited");
}

#[test]
fn s35_a_second_try_that_waits_very_long_counts_as_a_first() {
    let settings = HuntSettings {
        domain_concurrent_max: 1,
        domain_starts_max: 1,
        aged_after: 5 * MINUTE,
        ..HuntSettings::default()
    };
    let mut net = Net::new(settings);
    net.server("one", &[]).latency = SECOND;
    net.misses("patient", &[1], &["one"]);
    // Every minute somebody new takes the one start there is.
    for n in 0..20 {
        net.misses(&format!("new{n}"), &[2 + n], &["one"]);
        net.elapse(MINUTE);
    }
    let patient: Vec<u64> =
        net.fetches.iter().filter(|it| it.family == family("patient")).map(|it| it.at_ms).collect();
    assert!(patient.len() >= 2, "{patient:?}");
    assert!((300_000..480_000).contains(&(patient[1] - patient[0])), "{patient:?}");
}

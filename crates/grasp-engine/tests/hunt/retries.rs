//! Attempts that lead to nothing: the gaps between them, and the wanted-list (S-33).

use crate::kit::*;
use grasp_engine::hunt::{Brought, HuntInput, HuntNews, HuntSettings};
use std::time::Duration;

fn net() -> Net {
    let mut net = Net::new(HuntSettings::default());
    net.server("one", &[]).latency = Duration::ZERO;
    net
}

fn gaps(net: &Net) -> Vec<u64> {
    net.look_times().windows(2).map(|pair| (pair[1] - pair[0]) / 1_000).collect()
}

#[test]
fn s33_the_gap_doubles_to_two_minutes_while_something_is_held() {
    let mut net = net();
    net.misses("acme", &[1], &["one"]);
    net.elapse(30 * MINUTE);
    assert_eq!(gaps(&net)[..6], [20, 40, 80, 120, 120, 120]);
    assert!(gaps(&net)[3..].iter().all(|gap| *gap == 120));
    let incomplete = net.told(|news| matches!(news, HuntNews::Incomplete { .. }));
    assert_eq!(incomplete, net.looks.len(), "each attempt is told once");
}

#[test]
fn s33_what_is_only_wanted_is_looked_for_less_and_less_often_and_at_least_hourly() {
    let mut net = net();
    net.misses("acme", &[1], &["one"]);
    net.elapse(30 * MINUTE);
    let before = gaps(&net).len();
    net.families.get_mut(&family("acme")).unwrap().held = false;
    net.says(HuntInput::Wanted { family: family("acme") });
    net.elapse(12 * HOUR);
    assert_eq!(gaps(&net)[before..][..8], [120, 240, 480, 960, 1_920, 3_600, 3_600, 3_600]);
    assert!(gaps(&net).iter().all(|gap| *gap <= 3_600));
}

#[test]
fn s33_a_hit_ends_the_hunt_however_late() {
    let mut net = net();
    net.misses("acme", &[1], &["one"]);
    net.families.get_mut(&family("acme")).unwrap().held = false;
    net.elapse(24 * HOUR);
    net.servers.get_mut("one").unwrap().has = oids(&[1]);
    net.elapse(HOUR);
    assert!(net.is_complete("acme"));
    assert_eq!(net.hunt.totals().families, 0);
}

#[test]
fn s33_a_new_event_revives_what_was_only_wanted() {
    let mut net = net();
    net.misses("acme", &[1], &["one"]);
    net.families.get_mut(&family("acme")).unwrap().held = false;
    net.elapse(24 * HOUR);
    let before = gaps(&net).len() + 1;
    net.families.get_mut(&family("acme")).unwrap().held = true;
    net.held("acme", Brought::BySync);
    net.elapse(5 * MINUTE);
    assert_eq!(gaps(&net)[before..], [20, 40, 80, 120]);
}

#[test]
fn s33_after_a_restart_the_wanted_list_is_spread_over_an_hour() {
    let mut net = net();
    for n in 0..600 {
        let name = format!("repo{n}");
        net.lacks(&name, &[n], &["one"]);
        net.families.get_mut(&family(&name)).unwrap().held = false;
        net.says(HuntInput::Wanted { family: family(&name) });
    }
    net.says(HuntInput::Wanted { family: family("repo1") });
    net.elapse(HOUR);
    assert_eq!(net.looks.len(), 600, "each once");
    for ten_minutes in 0..6 {
        let range = ten_minutes * 600_000..(ten_minutes + 1) * 600_000;
        let count = net.looks.iter().filter(|(at, _)| range.contains(at)).count();
        assert!((60..140).contains(&count), "{count} in the {ten_minutes}th ten minutes");
    }
    net.elapse(HOUR);
    assert_eq!(net.looks.len(), 1_200, "and then hourly");
}

#[test]
fn s33_being_wanted_neither_brings_forward_nor_resets() {
    let mut net = net();
    net.misses("acme", &[1], &["one"]);
    net.elapse_to(61_000);
    let (looks, attempts) = (net.looks.len(), net.view("acme").unwrap().attempts);
    net.says(HuntInput::Wanted { family: family("acme") });
    net.elapse_to(140_000);
    assert_eq!(net.looks.len(), looks);
    assert_eq!(net.view("acme").unwrap().attempts, attempts);
}

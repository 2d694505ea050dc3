//! When a family is looked for first, and what new events change about that (S-31, S-32).

use crate::kit::*;
use grasp_core::Time;
use grasp_engine::hunt::{Brought, HuntInput, HuntNews, HuntSettings};
use std::time::Duration;

fn net() -> Net {
    let mut net = Net::new(HuntSettings::default());
    net.server("one", &[]);
    net
}

#[test]
fn s31_after_a_restart_only_the_rest_of_the_delay_is_waited_for() {
    let mut net = net();
    for name in ["young", "old", "future"] {
        net.lacks(name, &[1], &["one"]);
    }
    net.held_since("young", Brought::Directly, Time(START.0 - 120_000));
    net.held_since("old", Brought::Directly, Time(START.0 - 86_400_000));
    net.held_since("future", Brought::Directly, Time(START.0 + 86_400_000));
    net.elapse(4 * MINUTE);
    let first = |name: &str| net.looks.iter().find(|(_, it)| *it == family(name)).unwrap().0;
    assert_eq!((first("young"), first("old"), first("future")), (60_000, 0, 180_000));
}

#[test]
fn s32_a_users_event_is_given_three_minutes_and_a_synced_one_half_a_second() {
    let mut net = net();
    net.lacks("users", &[1], &["one"]);
    net.lacks("synced", &[2], &["one"]);
    net.held("users", Brought::Directly);
    net.held("synced", Brought::BySync);
    net.elapse(Duration::from_millis(499));
    assert!(net.looks.is_empty() && net.fetches.is_empty());
    net.elapse(Duration::from_millis(1));
    assert_eq!(net.looks, [(500, family("synced"))]);
    net.elapse_to(180_000);
    let users: Vec<u64> =
        net.looks.iter().filter(|it| it.1 == family("users")).map(|it| it.0).collect();
    assert_eq!(users, [180_000]);
}

#[test]
fn s32_a_burst_of_events_is_one_look_half_a_second_after_the_first() {
    let mut net = net();
    net.lacks("acme", &[1, 2, 3], &["one"]);
    for _ in 0..4 {
        net.held("acme", Brought::BySync);
        net.elapse(Duration::from_millis(100));
    }
    net.elapse_to(5_000);
    assert_eq!(net.look_times(), [500]);
    assert_eq!(net.fetches.len(), 1);
    assert_eq!(net.fetches[0].wants, oids(&[1, 2, 3]));
}

#[test]
fn s32_an_event_only_brings_the_next_attempt_forward() {
    let mut net = net();
    net.lacks("acme", &[1], &["one"]);
    net.held("acme", Brought::Directly);
    net.elapse(10 * SECOND);
    net.held("acme", Brought::BySync);
    net.held("acme", Brought::Directly);
    net.elapse(SECOND);
    assert_eq!(net.look_times(), [10_500]);
}

#[test]
fn s32_a_new_event_is_a_fresh_start() {
    let mut net = net();
    net.misses("acme", &[1], &["one"]);
    net.elapse_to(62_000);
    assert_eq!(net.look_times(), [500, 20_600, 60_700]);
    assert_eq!(net.view("acme").unwrap().attempts, 3);
    net.held("acme", Brought::BySync);
    assert_eq!(net.view("acme").unwrap().attempts, 0);
    net.elapse_to(90_000);
    assert_eq!(net.look_times()[3..], [62_500, 82_500], "and the gaps begin anew");
}

#[test]
fn s32_a_family_is_one_entry_and_strangers_with_the_same_name_are_another() {
    let mut net = net();
    net.lacks("alice/acme", &[1], &["one"]);
    net.lacks("mallory/acme", &[2], &["one"]);
    for name in ["alice/acme", "mallory/acme", "alice/acme"] {
        net.held(name, Brought::BySync);
    }
    assert_eq!(net.hunt.totals().families, 2);
    net.elapse(SECOND);
    assert_eq!(net.looks.len(), 2);
}

#[test]
fn s32_an_event_that_comes_while_we_look_is_not_forgotten() {
    let mut net = net();
    net.look_takes = 2 * SECOND;
    net.lacks("acme", &[], &["one"]);
    net.held("acme", Brought::BySync);
    net.elapse_to(1_000);
    net.held("acme", Brought::BySync);
    net.elapse_to(2_499);
    assert_eq!(net.look_times(), [500]);
    net.lacks("acme", &[1], &["one"]);
    net.elapse_to(2_500);
    assert_eq!(net.look_times(), [500, 2_500], "the answer was older than the event");
    net.elapse_to(4_500);
    assert_eq!(net.asked(), [(4_500, "one")]);
}

#[test]
fn s32_a_change_is_a_fresh_start_and_makes_no_entry() {
    let mut net = net();
    net.server("two", &[1]);
    net.says(HuntInput::Changed { family: family("acme") });
    assert_eq!(net.hunt.totals().families, 0);
    net.misses("acme", &[1], &["one"]);
    net.elapse_to(70_000);
    net.lacks("acme", &[1], &["one", "two"]);
    net.says(HuntInput::Changed { family: family("acme") });
    net.elapse(SECOND);
    assert_eq!(net.fetches.last().unwrap().at_ms, 70_500);
    assert!(net.is_complete("acme"), "it was found where nobody had looked before");
}

#[test]
fn s32_what_was_lost_is_looked_for_soon_but_resets_nothing() {
    let mut net = net();
    net.lacks("acme", &[1], &["one"]);
    net.says(HuntInput::Damaged { family: family("acme") });
    net.elapse_to(61_000);
    assert_eq!(net.look_times(), [500, 20_600, 60_700]);
    net.says(HuntInput::Damaged { family: family("acme") });
    net.elapse_to(61_500);
    assert_eq!(net.look_times().len(), 4);
    assert_eq!(net.view("acme").unwrap().attempts, 4);
}

#[test]
fn what_is_here_when_we_look_is_not_hunted() {
    let mut net = net();
    net.misses("acme", &[1], &["one"]);
    net.here.extend(oids(&[1]));
    net.elapse(HOUR);
    assert_eq!(net.looks.len(), 1);
    assert_eq!(net.told(|news| !matches!(news, HuntNews::Queued { .. })), 0);
    assert!(net.fetches.is_empty() && net.is_complete("acme"));
    assert_eq!(net.hunt.next_deadline(), None);
}

#[test]
fn success_is_told_once() {
    let mut net = net();
    net.server("two", &[1]);
    net.misses("acme", &[1], &["one", "two"]);
    net.elapse(HOUR);
    assert!(net.is_complete("acme"));
    let acme = family("acme");
    let complete =
        |news: &HuntNews| matches!(news, HuntNews::Complete { family, .. } if *family == acme);
    assert_eq!(net.told(complete), 1);
    assert_eq!(net.told(|news| matches!(news, HuntNews::Attempt { .. })), 1);
    assert_eq!(net.told(|news| matches!(news, HuntNews::Incomplete { .. })), 0);
}

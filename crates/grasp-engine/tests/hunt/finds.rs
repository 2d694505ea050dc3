//! What is found: partial finds add up, and every look says what is still lacking (S-36).

use crate::kit::*;
use grasp_core::{CloneUrl, Oid};
use grasp_engine::hunt::{HuntInput, HuntSettings, Job, JobEnd, Outcome, Source};
use std::collections::BTreeSet;
use std::time::Duration;

fn wants(net: &Net) -> Vec<(&str, Vec<u64>)> {
    let number = |oid: &Oid| u64::from_be_bytes(oid.as_bytes()[..8].try_into().unwrap());
    let wants = |wants: &BTreeSet<Oid>| wants.iter().map(number).collect();
    net.fetches.iter().map(|it| (it.from.as_str(), wants(&it.wants))).collect()
}

#[test]
fn s36_partial_finds_of_several_servers_add_up() {
    let mut net = Net::new(HuntSettings::default());
    net.server("one", &[1, 9]);
    net.server("two", &[2, 3]);
    net.server("three", &[4]);
    net.misses("acme", &[1, 2, 3, 4], &["one", "two", "three"]);
    net.elapse(SECOND);
    let expected = [("one", vec![1, 2, 3, 4]), ("two", vec![2, 3, 4]), ("three", vec![4])];
    assert_eq!(wants(&net), expected);
    assert_eq!(net.look_times(), [500, 800], "and in the end somebody looks whether it is true");
    assert!(net.is_complete("acme"));
    assert_eq!(net.hunt.totals().found, 4);
}

#[test]
fn s36_what_a_broken_off_fetch_brought_counts() {
    let mut net = Net::new(HuntSettings::default());
    net.server("one", &[1]).manner = Manner::BreaksOff;
    net.server("two", &[2]);
    net.misses("acme", &[1, 2], &["one", "two"]);
    net.elapse(SECOND);
    assert_eq!(wants(&net), [("one", vec![1, 2]), ("two", vec![2])]);
    assert!(net.is_complete("acme"));
}

#[test]
fn s36_a_server_that_says_it_brought_what_it_did_not_ends_the_attempt_all_the_same() {
    let mut net = Net::new(HuntSettings::default());
    net.server("liar", &[1]).latency = MINUTE;
    net.server("two", &[]);
    net.misses("acme", &[1], &["liar", "two"]);
    for _ in 0..50 {
        net.elapse(10 * SECOND);
        // Everything it seems to bring is not here when we look.
        let jobs: Vec<Job> = net.jobs.keys().copied().collect();
        for job in jobs {
            net.jobs.remove(&job);
            let (found, absent) = (oids(&[1]), BTreeSet::new());
            let end = JobEnd { outcome: Outcome::Answered, found, absent, bytes: 0 };
            net.says(HuntInput::Ended { job, end });
        }
    }
    assert!(net.fetches.len() < 40, "{} fetches", net.fetches.len());
    assert!(net.view("acme").unwrap().next.is_some() || !net.looking.is_empty());
}

#[test]
fn s36_when_everything_is_here_the_other_fetch_is_cancelled() {
    let mut net = Net::new(HuntSettings::default());
    net.server("one", &[]).manner = Manner::Stalls;
    net.server("two", &[1]);
    net.misses("acme", &[1], &["one", "two"]);
    net.elapse(31 * SECOND);
    assert_eq!(net.asked(), [(500, "one"), (30_500, "two")]);
    assert_eq!(net.cancelled, [Job(1)]);
    assert!(net.is_complete("acme") && net.jobs.is_empty());
    assert_eq!(net.hunt.totals().running, 0);
}

#[test]
fn s36_what_a_url_lacks_is_not_asked_for_again_right_away() {
    let mut net = Net::new(HuntSettings::default());
    net.server("one", &[]);
    net.misses("acme", &[1], &["one"]);
    net.elapse_to(5_000);
    net.misses("acme", &[1], &["one"]);
    net.elapse_to(6_000);
    assert_eq!(net.look_times(), [500, 5_500]);
    assert_eq!(net.fetches.len(), 1, "nothing new to ask for");
    net.misses("acme", &[1, 2], &["one"]);
    net.elapse_to(7_000);
    assert_eq!(wants(&net)[1..], [("one", vec![2])]);
    net.elapse_to(30_000);
    assert_eq!(wants(&net)[2..], [("one", vec![1, 2])], "but at the next regular attempt");
}

#[test]
fn s36_a_pull_requests_own_address_is_asked_only_for_its_commit() {
    let mut net = Net::new(HuntSettings::default());
    net.server("main", &[1]);
    net.server("fork", &[2]);
    net.lacks("acme", &[1, 2], &["main"]);
    let fork: CloneUrl = url("fork", "acme");
    let source = Source { url: fork, covers: Some(oids(&[2])), proposed: true };
    net.families.get_mut(&family("acme")).unwrap().sources.insert(0, source);
    net.held("acme", grasp_engine::hunt::Brought::BySync);
    net.elapse(SECOND);
    let asked = [("main", vec![1, 2]), ("fork", vec![2])];
    assert_eq!(wants(&net), asked, "and after those that may have a state");
    assert!(net.is_complete("acme"));
}

#[test]
fn s36_a_source_that_covers_nothing_that_is_lacking_is_not_asked() {
    let mut net = Net::new(HuntSettings::default());
    net.server("fork", &[]);
    net.lacks("acme", &[1], &["fork"]);
    net.families.get_mut(&family("acme")).unwrap().sources[0].covers = Some(oids(&[2]));
    net.held("acme", grasp_engine::hunt::Brought::BySync);
    net.elapse(Duration::from_secs(100));
    assert!(net.fetches.is_empty());
    assert_eq!(net.looks.len(), 3, "but it is looked at again, there may be others by then");
}

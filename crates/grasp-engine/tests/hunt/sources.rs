//! Whom to ask, in which order, and whom besides (S-37).

use crate::kit::*;
use grasp_engine::hunt::{HuntSettings, Outcome};
use std::time::Duration;

fn net(servers: &[&str]) -> Net {
    let mut net = Net::new(HuntSettings::default());
    for name in servers {
        net.server(name, &[]);
    }
    net
}

#[test]
fn s37_sources_are_asked_one_after_the_other_in_their_order() {
    let mut net = net(&["c", "a", "b"]);
    net.misses("acme", &[1], &["c", "a", "b"]);
    net.elapse(5 * SECOND);
    assert_eq!(net.asked(), [(500, "c"), (600, "a"), (700, "b")]);
}

#[test]
fn s37_a_domain_that_failed_lately_is_asked_after_the_others() {
    let mut net = net(&["bad", "two", "three"]);
    net.servers.get_mut("bad").unwrap().manner = fails();
    net.misses("acme", &[1], &["bad", "two", "three"]);
    net.elapse_to(21_000);
    let names: Vec<&str> = net.asked().iter().map(|it| it.1).collect();
    assert_eq!(names, ["bad", "two", "three", "two", "three", "bad"]);
    net.servers.get_mut("bad").unwrap().manner = Manner::Answers;
    net.elapse_to(150_000);
    let names: Vec<&str> = net.asked()[6..].iter().map(|it| it.1).collect();
    assert_eq!(names, ["two", "three", "bad", "bad", "two", "three"], "until it answers again");
}

#[test]
fn s37_a_source_that_takes_half_a_minute_gets_company_on_another_domain() {
    let mut net = net(&["slow", "two", "three"]);
    net.servers.get_mut("slow").unwrap().manner = Manner::Stalls;
    net.servers.get_mut("two").unwrap().manner = Manner::Stalls;
    net.lacks("acme", &[1], &["slow", "two", "three"]);
    let same = everything(url("slow", "other"));
    net.families.get_mut(&family("acme")).unwrap().sources.insert(1, same);
    net.held("acme", grasp_engine::hunt::Brought::BySync);
    net.elapse_to(290_000);
    assert_eq!(net.asked(), [(500, "slow"), (30_500, "two")], "one, and no more than one");
    net.elapse_to(300_500);
    assert_eq!(net.asked()[2..], [(300_500, "three")], "the next when one of them is over");
}

#[test]
fn s37_a_hedge_that_fails_is_followed_by_the_next() {
    let mut net = net(&["slow", "two", "three", "four"]);
    net.servers.get_mut("slow").unwrap().manner = Manner::Stalls;
    net.servers.get_mut("two").unwrap().manner = fails();
    net.servers.get_mut("four").unwrap().has = oids(&[1]);
    net.misses("acme", &[1], &["slow", "two", "three", "four"]);
    net.elapse_to(31_000);
    assert_eq!(net.asked(), [(500, "slow"), (30_500, "two"), (30_600, "three"), (30_700, "four")]);
    assert!(net.is_complete("acme"));
}

#[test]
fn s37_what_is_left_of_two_becomes_the_one_that_may_take_half_a_minute() {
    let mut net = net(&["slow", "two", "three"]);
    net.servers.get_mut("slow").unwrap().latency = 35 * SECOND;
    net.servers.get_mut("two").unwrap().manner = Manner::Stalls;
    net.misses("acme", &[1], &["slow", "two", "three"]);
    net.elapse_to(70_000);
    assert_eq!(net.asked(), [(500, "slow"), (30_500, "two"), (60_500, "three")]);
}

#[test]
fn s37_a_hedge_waits_for_a_busy_domain_and_starts_when_it_is_free() {
    let mut net = Net::new(HuntSettings { domain_concurrent_max: 1, ..HuntSettings::default() });
    net.server("slow", &[]).manner = Manner::Stalls;
    net.server("busy", &[1]).latency = 45 * SECOND;
    net.misses("other", &[1], &["busy"]);
    net.misses("acme", &[1], &["slow", "busy"]);
    net.elapse_to(45_499);
    assert_eq!(net.asked(), [(500, "busy"), (500, "slow")]);
    assert_eq!(net.view("acme").unwrap().waits_for, [domain("busy")]);
    net.elapse_to(45_500);
    assert_eq!(net.asked()[2..], [(45_500, "busy")]);
    net.elapse_to(120_000);
    assert!(net.is_complete("acme"));
}

#[test]
fn s37_what_may_not_be_asked_and_our_own_address_are_left_out_for_an_hour() {
    for outcome in [Outcome::Forbidden("a private address".to_owned()), Outcome::Ourselves] {
        let mut net = net(&["wrong", "two"]);
        net.servers.get_mut("wrong").unwrap().manner = Manner::Ends(outcome);
        net.misses("acme", &[1], &["wrong", "two"]);
        net.elapse_to(3_600_000);
        let wrong = net.asked().iter().filter(|it| it.1 == "wrong").count();
        assert_eq!(wrong, 1);
        net.elapse(5 * MINUTE);
        let wrong = net.asked().iter().filter(|it| it.1 == "wrong").count();
        assert_eq!(wrong, 2, "addresses change");
    }
}

#[test]
fn s37_what_each_source_said_is_kept_for_people() {
    let mut net = net(&["has", "lacks", "fails", "limits", "ours", "large", "rotten"]);
    net.servers.get_mut("has").unwrap().has = oids(&[1]);
    let long = "ä".repeat(500);
    net.servers.get_mut("fails").unwrap().manner = Manner::Ends(Outcome::Failed(long));
    net.servers.get_mut("limits").unwrap().manner = slow_down(None);
    net.servers.get_mut("ours").unwrap().manner = Manner::Ends(Outcome::Ourselves);
    net.servers.get_mut("large").unwrap().manner = Manner::Ends(Outcome::TooLarge);
    let rotten = Outcome::Unacceptable("a damaged pack".to_owned());
    net.servers.get_mut("rotten").unwrap().manner = Manner::Ends(rotten);
    let all = ["has", "lacks", "fails", "limits", "ours", "large", "rotten"];
    net.misses("acme", &[1, 2], &all);
    net.elapse(5 * SECOND);
    let view = net.view("acme").unwrap();
    let said = |name: &str| view.sources.iter().find(|it| it.url == url(name, "acme")).unwrap();
    assert_eq!((said("has").found, said("has").absent), (1, 1));
    assert_eq!(said("has").said, "answered, has a part of this");
    assert_eq!(said("lacks").said, "answered, has nothing of this");
    assert_eq!(said("fails").said, "ä".repeat(200));
    assert_eq!(said("limits").said, "asked us to slow down");
    assert_eq!(said("ours").said, "is this very server");
    assert_eq!(said("large").said, "sends more than we take at a time");
    assert_eq!(said("rotten").said, "a damaged pack");
    assert!(view.sources.iter().all(|source| source.asked.is_some()));
}

#[test]
fn s37_no_more_sources_are_followed_than_the_setting_allows() {
    let mut net = Net::new(HuntSettings { sources_max: 2, ..HuntSettings::default() });
    for name in ["one", "two", "three"] {
        net.server(name, &[]).latency = Duration::ZERO;
    }
    net.misses("acme", &[1], &["one", "one", "two", "three"]);
    net.elapse_to(1_000);
    assert_eq!(net.asked(), [(500, "one")], "the same address twice is one source");
    net.misses("acme", &[2], &["one", "two", "three"]);
    net.elapse_to(3_000);
    assert_eq!(net.asked()[1..], [(1_500, "one"), (1_500, "two")]);
}

//! How much a domain is asked (S-35). That no window ever holds more is checked by the watch over
//! every story; here is that all of it is used.

use crate::kit::*;
use grasp_engine::hunt::{HuntInput, HuntNews, HuntSettings};
use std::collections::BTreeMap;
use std::time::Duration;

/// So many families that want something nobody has, all on one server that answers at once.
fn crowd(settings: HuntSettings, count: u64, latency: Duration) -> Net {
    let mut net = Net::new(settings);
    net.server("one", &[]).latency = latency;
    for n in 0..count {
        net.misses(&format!("repo{n}"), &[n], &["one"]);
    }
    net
}

fn starts_until(net: &mut Net, at_ms: u64) -> usize {
    net.elapse_to(at_ms);
    net.fetches.len()
}

#[test]
fn s35_five_at_a_time() {
    let mut net = crowd(HuntSettings::default(), 12, 10 * SECOND);
    assert_eq!(starts_until(&mut net, 10_499), 5);
    assert_eq!(starts_until(&mut net, 10_500), 10);
    assert_eq!(net.watch.running_max, 5);
    assert_eq!(net.hunt.domains(net.now)[0].in_flight, 5);
}

#[test]
fn s35_thirty_starts_in_any_sixty_seconds() {
    let mut net = crowd(HuntSettings::default(), 100, Duration::ZERO);
    assert_eq!(starts_until(&mut net, 60_499), 30);
    assert_eq!(starts_until(&mut net, 60_500), 60);
    assert_eq!(starts_until(&mut net, 120_499), 60);
    assert_eq!(starts_until(&mut net, 120_500), 90);
    let view = &net.hunt.domains(net.now)[0];
    assert_eq!((view.starts_in_window, view.starts_max, view.requests), (30, 30, 90));
}

#[test]
fn s35_the_window_slides() {
    let mut net = Net::new(HuntSettings::default());
    net.server("one", &[]).latency = Duration::ZERO;
    for n in 0..31 {
        net.misses(&format!("repo{n}"), &[n], &["one"]);
        net.elapse(SECOND / 2);
    }
    // Starts at 0.5, 1.0, ... 15.0; the 31st would be at 15.5, and others come back meanwhile.
    net.elapse_to(60_499);
    assert_eq!(net.fetches.len(), 30);
    for n in 0..10_u64 {
        net.elapse_to(60_500 + n * 500);
        assert_eq!(net.fetches.len() as u64, 31 + n, "one each half second, as they grow old");
    }
}

#[test]
fn s35_the_operators_word_for_a_domain_is_the_last() {
    let overrides = BTreeMap::from([(domain("one"), (2, 7))]);
    let settings = HuntSettings { overrides, ..HuntSettings::default() };
    let mut net = crowd(settings.clone(), 40, SECOND);
    net.says(HuntInput::Grasp(domain("one")));
    assert_eq!(starts_until(&mut net, 60_499), 7);
    assert_eq!(net.watch.running_max, 2);
    let mut wide = crowd(
        HuntSettings { overrides: BTreeMap::from([(domain("one"), (40, 100))]), ..settings },
        40,
        SECOND,
    );
    assert_eq!(starts_until(&mut wide, 1_000), 20, "all that is allowed at a time over all");
}

#[test]
fn s35_a_domain_set_to_nothing_is_never_asked() {
    let overrides = BTreeMap::from([(domain("one"), (0, 0))]);
    let mut net = crowd(HuntSettings { overrides, ..HuntSettings::default() }, 3, SECOND);
    net.elapse(HOUR);
    assert!(net.fetches.is_empty());
    let said = &net.view("repo0").unwrap().sources[0].said;
    assert_eq!(said, "never asked, by this server's settings");
}

#[test]
fn s35_a_grasp_server_may_be_asked_more_until_it_objects() {
    let mut net = crowd(HuntSettings::default(), 400, Duration::ZERO);
    net.says(HuntInput::Grasp(domain("one")));
    assert_eq!(starts_until(&mut net, 60_499), 300);
    net.elapse_to(60_600);
    net.servers.get_mut("one").unwrap().manner = slow_down(None);
    net.servers.get_mut("one").unwrap().latency = Duration::from_millis(10);
    net.elapse_to(120_499);
    let view = net.hunt.domains(net.now)[0].clone();
    assert!(view.grasp && view.starts_max == 300);
    net.elapse_to(120_600);
    assert_eq!(net.hunt.domains(net.now)[0].starts_max, 30, "like anybody else for an hour");
    let objected = net.at_ms();
    net.servers.get_mut("one").unwrap().manner = Manner::Answers;
    net.elapse(2 * MINUTE);
    let before = net.fetches.len();
    net.elapse(10 * MINUTE);
    let after = net.fetches.len() - before;
    assert!((270..=300).contains(&after), "{after} in ten minutes");
    net.elapse_to(objected + 3_600_000);
    assert_eq!(net.hunt.domains(net.now)[0].starts_max, 300);
}

fn publishes(net: &mut Net, requests_per_minute: Option<u32>) {
    net.says(HuntInput::Grasp(domain("one")));
    net.says(HuntInput::GitLimits { domain: domain("one"), requests_per_minute });
}

#[test]
fn s56_a_server_is_asked_as_often_as_it_publishes() {
    let limit = |net: &Net| net.hunt.domains(net.now)[0].starts_max;
    let mut net = crowd(HuntSettings::default(), 500, Duration::ZERO);
    publishes(&mut net, Some(400));
    assert_eq!(starts_until(&mut net, 60_499), 400);
    for (published, starts) in [(Some(9_000), 3_000), (Some(7), 7), (Some(0), 1), (None, 300)] {
        publishes(&mut net, published);
        assert_eq!(limit(&net), starts, "{published:?}");
    }
}

#[test]
fn s56_an_objection_takes_back_the_published_number_for_an_hour() {
    let mut net = crowd(HuntSettings::default(), 600, Duration::from_millis(10));
    publishes(&mut net, Some(1_000));
    let limit = |net: &Net| net.hunt.domains(net.now)[0].starts_max;
    net.servers.get_mut("one").unwrap().manner = slow_down(None);
    net.elapse_to(600);
    assert_eq!(limit(&net), 300, "five were under way, and that is one objection");
    net.servers.get_mut("one").unwrap().manner = Manner::Answers;
    net.elapse(2 * MINUTE);
    let before = net.fetches.len();
    net.elapse(MINUTE);
    assert!(net.fetches.len() - before <= 300);
    net.elapse_to(3_600_600);
    assert_eq!(limit(&net), 1_000);
}

#[test]
fn s56_a_server_that_objects_to_the_usual_number_too_is_treated_like_any_other() {
    let mut net = crowd(HuntSettings::default(), 600, Duration::from_millis(10));
    publishes(&mut net, Some(1_000));
    net.servers.get_mut("one").unwrap().manner = slow_down(None);
    net.elapse(3 * MINUTE);
    assert_eq!(net.hunt.domains(net.now)[0].starts_max, 30);
}

#[test]
fn s35_a_domain_that_objects_is_left_alone_for_a_minute_and_holds_up_nobody_else() {
    let mut net = Net::new(HuntSettings::default());
    net.server("slow", &[]).manner = slow_down(None);
    net.server("fast", &[1]);
    net.misses("acme", &[1], &["slow", "fast"]);
    net.misses("only", &[2], &["slow"]);
    net.elapse_to(1_000);
    assert!(net.is_complete("acme"));
    let until = START.plus(Duration::from_millis(60_600));
    let news = HuntNews::SlowedDown { domain: domain("slow"), until };
    assert_eq!(net.told(|it| *it == news), 2);
    assert_eq!(net.hunt.domains(net.now)[1].paused_until, Some(until));
    net.elapse_to(60_599);
    assert_eq!(net.asked().iter().filter(|it| it.1 == "slow").count(), 2);
    net.elapse_to(60_600);
    assert_eq!(net.asked().iter().filter(|it| it.1 == "slow").count(), 3, "it waited, no poll");
}

#[test]
fn s35_how_long_is_the_servers_word_within_reason() {
    let reasons = [(0, 1), (7, 7), (600, 600), (1_000_000, 3_600)];
    for (asks_secs, pause_secs) in reasons {
        let mut net = Net::new(HuntSettings::default());
        net.server("one", &[]).manner = slow_down(Some(Duration::from_secs(asks_secs)));
        net.misses("acme", &[1], &["one"]);
        net.elapse_to(600);
        let until = START.plus(Duration::from_millis(600 + pause_secs * 1_000));
        assert_eq!(net.hunt.domains(net.now)[0].paused_until, Some(until), "{asks_secs} s");
    }
}

#[test]
fn s35_a_crowded_address_is_tried_again_when_it_has_room() {
    let mut net = Net::new(HuntSettings::default());
    net.server("one", &[1]).manner = Manner::Crowded(9 * SECOND);
    net.misses("acme", &[1], &["one"]);
    net.elapse_to(1_000);
    assert_eq!(net.view("acme").unwrap().waits_for, [domain("one")]);
    net.servers.get_mut("one").unwrap().manner = Manner::Answers;
    net.elapse_to(10_000);
    assert_eq!(net.asked(), [(500, "one"), (9_500, "one")], "in the same attempt");
    assert!(net.is_complete("acme"));
}

#[test]
fn s35_an_address_that_is_crowded_for_no_time_is_not_asked_without_end() {
    let mut net = Net::new(HuntSettings::default());
    net.server("one", &[1]).manner = Manner::Crowded(Duration::ZERO);
    net.misses("acme", &[1], &["one"]);
    net.elapse_to(20_000);
    assert!(net.fetches.len() <= 20, "{}", net.fetches.len());
}

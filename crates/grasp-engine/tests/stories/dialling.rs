//! Section 5, dials (S-25): few at a time, apart from each other, best first, and few for those that
//! only held announcements name.

use super::kit::*;
use grasp_core::{RelayUrl, Time};
use grasp_engine::{Engine, Input, Level, Loss, Peer, Record, Settings, Wait};
use grasp_testkit::world::names::{relay, repo};
use grasp_testkit::world::{Bench, START};
use std::time::Duration;

fn names(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("r{n}")).collect()
}

/// Relays each of which has a repository of its own.
fn many(count: usize, settings: Settings) -> Bench {
    let mut net = Bench::new(settings);
    for name in names(count) {
        net.announce(&format!("on-{name}"), &[name.as_str()]);
    }
    net.replayed();
    net
}

fn order(net: &Bench) -> Vec<String> {
    net.dials().iter().map(|(_, relay)| relay.to_string()).collect()
}

#[test]
fn s25_at_most_eight_dials_at_a_time_a_quarter_second_apart() {
    let mut net = many(30, Settings::default());
    net.elapse(2 * SECOND - Duration::from_millis(1));
    assert_eq!(net.dials().len(), 8);
    for pair in net.dials().windows(2) {
        assert!(pair[1].0.since(pair[0].0) >= Duration::from_millis(250));
    }
}

#[test]
fn s25_a_dial_not_through_in_two_seconds_yields_its_place() {
    let mut net = many(21, Settings::default());
    net.elapse(2 * SECOND);
    assert_eq!(net.dials().len(), 9, "the first one yields");
    net.elapse(4 * SECOND);
    assert_eq!(net.dials().len(), 21, "twenty black holes hold nobody up for six seconds");
    net.connect("r0");
    assert!(hears_layer_one(&net, "r0"), "whoever is late is still welcome");
}

#[test]
fn s25_a_dial_that_ends_makes_room_at_once() {
    let mut net = many(30, Settings { dials_at_once_max: 2, ..Settings::default() });
    net.elapse(SECOND);
    assert_eq!(net.dials().len(), 2);
    net.connect("r0");
    assert_eq!(net.dials().len(), 3, "one is through");
    net.elapse(SECOND / 2);
    net.fails("r1");
    assert_eq!(net.dials().len(), 4, "one has failed");
}

#[test]
fn s25_last_healthy_first_then_bootstrap_then_most_repositories() {
    let settings = Settings::default();
    let mut net = Bench::new(settings.clone());
    net.engine = Engine::new(settings, 1).with_bootstrap(&relay("boot"), START);
    let well = Record { last_alive: Some(Time(START.0 - 1_000_000)), ..Record::default() };
    net.recall("well", well);
    for n in 0..5 {
        net.announce(&format!("big{n}"), &["big"]);
    }
    net.announce("small", &["small", "well"]);
    net.announce("mid0", &["mid"]);
    net.announce("mid1", &["mid"]);
    net.replayed();
    net.elapse(5 * SECOND);
    let expected: Vec<String> =
        ["well", "boot", "big", "mid", "small"].map(|it| relay(it).to_string()).to_vec();
    assert_eq!(order(&net), expected);
}

#[test]
fn s25_links_are_bounded_and_dials_count_as_links() {
    let mut net = many(20, Settings { links_max: 5, ..Settings::default() });
    net.elapse(MINUTE);
    assert_eq!(net.dials().len(), 5);
    net.fails("r3");
    net.elapse(SECOND);
    assert_eq!(net.dials().len(), 6);
}

// ---- relays that only held announcements name

#[test]
fn s25_relays_of_held_announcements_get_a_tenth_of_the_links() {
    let mut net = Bench::new(Settings { links_max: 20, ..Settings::default() });
    for name in names(15) {
        net.announce_held(&format!("waits-{name}"), &[name.as_str()]);
    }
    net.replayed();
    net.elapse(10 * SECOND);
    assert_eq!(net.dials().len(), 2);
    net.announce("acme", &["good"]);
    net.elapse(10 * SECOND);
    assert_eq!(net.dials_of("good"), 1, "served repositories do not wait for them");
}

#[test]
fn s25_relays_of_held_announcements_come_last() {
    let mut net = Bench::new(Settings::default());
    for name in names(5) {
        net.announce_held(&format!("waits-{name}"), &[name.as_str()]);
    }
    net.announce("acme", &["good"]);
    net.replayed();
    assert_eq!(order(&net), [relay("good").to_string()]);
}

fn held(net: &mut Bench, name: &str, url: &str, serial: u64) {
    let relays = vec![url.parse::<RelayUrl>().unwrap()];
    net.input(Input::Announced { repo: repo(name), relays, level: Level::StateOnly, serial });
}

#[test]
fn s25_a_host_of_held_announcements_is_dialled_once_in_ten_minutes() {
    for urls in [
        ["wss://host.example/a", "wss://host.example/b", "wss://host.example"],
        ["wss://host.example:1001", "wss://host.example:1002", "wss://host.example:1003"],
        ["wss://host.example", "ws://host.example", "wss://host.example/x"],
    ] {
        let mut net = Bench::new(Settings::default());
        for (n, url) in (1..).zip(urls) {
            held(&mut net, &format!("waits{n}"), url, n);
        }
        net.replayed();
        net.elapse(10 * MINUTE - SECOND);
        assert_eq!(net.dials().len(), 1, "{urls:?}: {:?}", net.dials());
        net.elapse(2 * SECOND);
        assert_eq!(net.dials().len(), 2, "{urls:?}");
        net.elapse(10 * MINUTE);
        assert_eq!(net.dials().len(), 3, "{urls:?}");
    }
}

#[test]
fn s25_a_relay_queued_for_a_held_announcement_is_dialled_at_once_when_that_is_served() {
    let mut net = Bench::new(Settings::default());
    let relays: Vec<RelayUrl> = ["wss://host.example:1001", "wss://host.example:1002"]
        .map(|url| url.parse().unwrap())
        .into();
    let announced = |level, serial| Input::Announced {
        repo: repo("acme"),
        relays: relays.clone(),
        level,
        serial,
    };
    net.input(announced(Level::StateOnly, 1));
    net.replayed();
    assert_eq!(net.dials().len(), 1, "the other waits for the gap between dials");
    net.input(announced(Level::Full, 2));
    net.elapse(10 * SECOND);
    assert_eq!(net.dials().len(), 2, "it does not wait ten minutes: {:?}", net.dials());
}

#[test]
fn s25_ten_thousand_relays_of_strangers_do_not_delay_an_honest_one() {
    let mut net = Bench::new(Settings::default());
    for n in 0..10_000 {
        let url = format!("wss://spam{n}.example");
        held(&mut net, &format!("spam{n}"), &url, n + 1);
    }
    net.replayed();
    net.elapse(MINUTE);
    assert!(net.dials().len() <= 50, "a tenth of the links: {}", net.dials().len());
    net.announce("acme", &["good"]);
    net.elapse(6 * SECOND);
    assert_eq!(net.dials_of("good"), 1);
}

#[test]
fn s25_a_relay_beyond_all_bounds_is_not_followed_and_that_is_told() {
    let mut net = Bench::new(Settings { relays_max: 3, ..Settings::default() });
    net.announce("acme", &["a", "b", "c", "d"]);
    net.replayed();
    net.elapse(10 * SECOND);
    assert_eq!(net.dials().len(), 3);
    let told = |it: &grasp_engine::News| matches!(it, grasp_engine::News::TooManyRelays { relay: it } if *it == relay("d"));
    assert!(net.news().iter().any(told));
}

#[test]
fn s25_a_relay_whose_repository_is_served_at_last_does_not_wait_for_its_host() {
    let mut net = Bench::new(Settings::default());
    held(&mut net, "first", "wss://host.example/a", 1);
    held(&mut net, "second", "wss://host.example/b", 2);
    net.replayed();
    net.elapse(MINUTE);
    assert_eq!(net.dials().len(), 1, "one for each host");
    let relays = vec!["wss://host.example/b".parse::<RelayUrl>().unwrap()];
    let level = Level::Full;
    net.input(Input::Announced { repo: repo("second"), relays, level, serial: 3 });
    net.elapse(10 * SECOND);
    assert_eq!(net.dials().len(), 2, "ten minutes are for those that wait");
}

// ---- many addresses of one host

/// A served repository that names these relays.
fn served(net: &mut Bench, name: &str, urls: &[String], serial: u64) {
    let relays = urls.iter().map(|url| url.parse::<RelayUrl>().unwrap()).collect();
    net.input(Input::Announced { repo: repo(name), relays, level: Level::Full, serial });
}

fn paths(from: usize, count: usize) -> Vec<String> {
    (from..from + count).map(|n| format!("wss://victim.example/{n}")).collect()
}

/// Every dial is refused at once.
fn refuses_for(net: &mut Bench, time: Duration) {
    let end = net.now.plus(time);
    let mut refused = 0;
    while net.now < end {
        net.elapse(Duration::from_millis(50));
        let dialled: Vec<RelayUrl> =
            net.dials().iter().skip(refused).map(|(_, relay)| relay.clone()).collect();
        refused += dialled.len();
        for relay in dialled {
            let why = Loss::Failed("connection refused".to_owned());
            net.input(Input::Lost { relay, why });
        }
    }
}

#[test]
fn no_more_than_four_addresses_of_one_host_and_port_are_followed() {
    let mut net = Bench::new(Settings::default());
    served(&mut net, "acme", &paths(0, 20), 1);
    net.replayed();
    net.elapse(MINUTE);
    let dialled = net.dials().len();
    assert!(dialled <= 4, "{dialled}");
    served(&mut net, "good", &["wss://victim.example".to_owned()], 2);
    net.elapse(10 * SECOND);
    assert_eq!(net.dials().len(), dialled + 1, "the host's own address always has room");
    let views = net.engine.relay_views_after("", 100, net.now);
    let left_out =
        views.iter().filter(|it| matches!(it.waits, Some(Wait::NotFollowed { .. }))).count();
    assert_eq!((views.len(), left_out), (21, 21 - 4));
}

#[test]
fn a_host_that_fails_is_dialled_as_seldom_under_many_paths_as_under_one() {
    let mut net = Bench::new(Settings::default());
    for n in 0..10 {
        served(&mut net, &format!("r{n}"), &paths(20 * n, 20), 1 + n as u64);
    }
    net.replayed();
    refuses_for(&mut net, Duration::from_secs(160));
    let dialled = net.dials().len();
    // Each dial is two connections: the link and the question what the relay is.
    assert!(dialled <= 6, "{dialled} dials by ten announcements with twenty paths each");
}

#[test]
fn a_host_that_answers_under_one_address_is_dialled_under_the_others() {
    let mut net = Bench::new(Settings::default());
    served(&mut net, "acme", &paths(0, 2), 1);
    net.replayed();
    refuses_for(&mut net, SECOND);
    net.elapse(5 * SECOND);
    let (_, first) = net.dials().last().cloned().unwrap();
    let before = net.dials().len();
    net.input(Input::Connected { relay: first, peer: Peer::default(), address: None });
    net.elapse(SECOND);
    assert_eq!(net.dials().len(), before + 1, "the other one need not wait");
}

#[test]
fn one_held_announcement_causes_one_dial_of_a_host_in_ten_minutes() {
    let mut net = Bench::new(Settings::default());
    let relays = paths(0, 20).iter().map(|url| url.parse().unwrap()).collect();
    net.input(Input::Announced { repo: repo("acme"), relays, level: Level::StateOnly, serial: 1 });
    net.replayed();
    refuses_for(&mut net, 9 * MINUTE);
    assert_eq!(net.dials().len(), 1);
}

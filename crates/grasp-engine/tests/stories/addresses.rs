//! Section 5, many relays at one network address (S-50): they take turns, and the view says so.

use super::kit::*;
use grasp_engine::{Loss, Peer, Settings, Wait};
use grasp_testkit::world::Bench;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

const HOSTER: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1));

/// A hoster of relays, and a driver that gives its address so many links.
struct Hoster {
    net: Bench,
    names: Vec<String>,
    links: usize,
    /// How often each relay was linked.
    linked: Vec<usize>,
}

impl Hoster {
    /// Each relay has a repository of its own.
    fn of(relays: usize, links: usize) -> Self {
        let settings = Settings { links_per_address_max: links, ..Settings::default() };
        let names: Vec<String> = (0..relays).map(|n| format!("h{n}")).collect();
        let mut net = Bench::new(settings);
        for name in &names {
            net.announce(&format!("on-{name}"), &[name.as_str()]);
        }
        net.replayed();
        Self { net, names, links, linked: vec![0; relays] }
    }

    fn open(&self) -> usize {
        self.names.iter().filter(|name| self.net.is_connected(name)).count()
    }

    fn plays(&mut self, time: Duration) {
        let end = self.net.now.plus(time);
        while self.net.now < end {
            for at in 0..self.names.len() {
                let name = &self.names[at];
                if !self.net.is_dialled(name) {
                    self.net.answers_all(name);
                } else if self.open() < self.links {
                    self.net.connect_at(name, Peer::default(), Some(HOSTER));
                    self.linked[at] += 1;
                } else {
                    self.net.lose(name, Loss::AddressFull(HOSTER));
                }
            }
            self.net.elapse(SECOND);
        }
    }
}

#[test]
fn s50_the_relays_of_one_address_take_turns() {
    let mut hoster = Hoster::of(40, Settings::default().links_per_address_max);
    hoster.plays(9 * MINUTE);
    assert_eq!((hoster.open(), hoster.linked.iter().sum::<usize>()), (32, 32));
    hoster.plays(4 * MINUTE);
    let linked = &hoster.linked;
    assert!(linked.iter().all(|times| (1..=2).contains(times)), "each has its turn: {linked:?}");
    assert_eq!(hoster.open(), 32);
}

#[test]
fn s50_a_relay_that_waits_for_its_address_is_not_dialled_in_vain() {
    let mut hoster = Hoster::of(6, 4);
    hoster.plays(9 * MINUTE);
    let dials = hoster.net.dials().len();
    assert_eq!(dials, 6, "the address is known after one dial of each relay");
}

#[test]
fn s50_relays_at_other_addresses_do_not_wait_for_a_full_one() {
    let mut hoster = Hoster::of(6, 4);
    hoster.plays(MINUTE);
    hoster.net.announce("acme", &["other"]);
    hoster.net.elapse(10 * SECOND);
    assert_eq!(hoster.net.dials_of("other"), 1);
    let elsewhere = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
    hoster.net.connect_at("other", Peer::default(), Some(elsewhere));
    hoster.net.settle("other");
    hoster.plays(20 * MINUTE);
    assert!(hoster.net.is_connected("other"), "it makes way for no relay of another address");
}

#[test]
fn s50_a_place_goes_to_the_relay_that_waited_even_if_the_socket_ends_late() {
    let mut hoster = Hoster::of(5, 4);
    hoster.plays(9 * MINUTE);
    let net = &mut hoster.net;
    assert!(!net.is_connected("h4"), "it waits");
    let end = net.now.plus(2 * MINUTE);
    while !net.is_dialled("h4") && net.now < end {
        net.elapse(SECOND / 10);
    }
    assert!(net.is_dialled("h4"), "its turn has come");
    net.lose("h4", Loss::AddressFull(HOSTER));
    net.elapse(5 * SECOND);
    assert_eq!(hoster.open(), 3, "one link makes way, and no others");
    let net = &mut hoster.net;
    assert!((0..5).all(|n| !net.is_dialled(&format!("h{n}"))), "nor does it come back");
    net.elapse(MINUTE + 10 * SECOND);
    assert!(net.is_dialled("h4"), "the relay that waited is next");
}

#[test]
fn s50_the_view_says_that_relays_share_an_address_and_which_one_waits_for_its_turn() {
    let mut hoster = Hoster::of(6, 4);
    hoster.plays(MINUTE);
    let views: Vec<_> = hoster.names.iter().map(|name| view(&hoster.net, name)).collect();
    assert_eq!(views.iter().filter(|it| it.waits == Some(Wait::Address)).count(), 2);
    assert!(views.iter().all(|it| it.shares_address_with == 5), "{views:?}");
    let told = views[0].to_string();
    assert!(told.contains("takes turns with 5 other relays at its network address"), "{told}");
    let mut few = Hoster::of(4, 4);
    few.plays(MINUTE);
    assert_eq!(view(&few.net, "h0").shares_address_with, 0, "all of them are linked");
}

//! Relays by network address (S-50). One address gets `links_per_address_max` links; when more
//! relays than that share it, they take turns. An address is known once a link to it was made, or
//! was refused because the address had all its links.

use crate::engine::Engine;
use crate::relay::{DialPlace, DialRank, Link};
use grasp_core::{RelayUrl, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

/// A socket ends a little later than its link: an address that was full is tried again after this.
const FULL_FOR: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(crate) struct RelayAddresses {
    by_address: BTreeMap<IpAddr, RelayAddress>,
    of_relay: BTreeMap<u32, IpAddr>,
}

#[derive(Debug, Default)]
struct RelayAddress {
    relays: BTreeSet<u32>,
    /// Linked or being dialled.
    linked: BTreeSet<u32>,
    /// Relays that are dialled when a link ends, the next one first.
    waiting: BTreeSet<DialPlace>,
    full_until: Time,
}

impl RelayAddress {
    fn free(&self, links_max: usize, now: Time) -> usize {
        if self.full_until > now { 0 } else { links_max.saturating_sub(self.linked.len()) }
    }
}

impl RelayAddresses {
    /// Where a relay was found; it may have moved.
    pub(crate) fn set(&mut self, relay: u32, address: IpAddr) {
        if self.of_relay.get(&relay) != Some(&address) {
            self.remove(relay);
            self.of_relay.insert(relay, address);
            self.by_address.entry(address).or_default().relays.insert(relay);
        }
    }

    pub(crate) fn remove(&mut self, relay: u32) {
        let Some(address) = self.of_relay.remove(&relay) else { return };
        let Some(shared) = self.by_address.get_mut(&address) else { return };
        shared.relays.remove(&relay);
        shared.linked.remove(&relay);
        shared.waiting.retain(|place| place.relay != relay);
        if shared.relays.is_empty() {
            self.by_address.remove(&address);
        }
    }

    fn get(&self, relay: u32) -> Option<&RelayAddress> {
        self.by_address.get(self.of_relay.get(&relay)?)
    }

    fn get_mut(&mut self, relay: u32) -> Option<&mut RelayAddress> {
        self.by_address.get_mut(self.of_relay.get(&relay)?)
    }

    pub(crate) fn link(&mut self, relay: u32) {
        if let Some(shared) = self.get_mut(relay) {
            shared.linked.insert(relay);
        }
    }

    pub(crate) fn unlink(&mut self, relay: u32) {
        if let Some(shared) = self.get_mut(relay) {
            shared.linked.remove(&relay);
        }
    }

    /// The address of this relay had no place for one more link.
    pub(crate) fn note_full(&mut self, relay: u32, now: Time) {
        if let Some(shared) = self.get_mut(relay) {
            shared.full_until = now.plus(FULL_FOR);
        }
    }

    /// False if the address is not known, so that there is nothing to wait for.
    fn wait(&mut self, place: DialPlace) -> bool {
        let Some(shared) = self.get_mut(place.relay) else { return false };
        shared.waiting.insert(place);
        true
    }

    pub(crate) fn stop_waiting(&mut self, place: DialPlace) {
        if let Some(shared) = self.get_mut(place.relay) {
            shared.waiting.remove(&place);
        }
    }

    pub(crate) fn is_full(&self, relay: u32, links_max: usize, now: Time) -> bool {
        self.get(relay).is_some_and(|shared| shared.free(links_max, now) == 0)
    }

    pub(crate) fn is_waiting(&self, place: DialPlace) -> bool {
        self.get(place.relay).is_some_and(|shared| shared.waiting.contains(&place))
    }

    /// The relay for which a link to the same address has to end.
    pub(crate) fn next_rank(&self, relay: u32, links_max: usize) -> Option<DialRank> {
        let shared = self.get(relay).filter(|shared| shared.linked.len() >= links_max)?;
        shared.waiting.first().map(|place| place.rank)
    }

    /// Other relays at the same address, if not all of them can be linked at once; otherwise 0.
    pub(crate) fn sharing(&self, relay: u32, links_max: usize) -> usize {
        let relays = self.get(relay).map_or(0, |shared| shared.relays.len());
        if relays > links_max { relays - 1 } else { 0 }
    }

    /// As many of the waiting relays as there are free links at the address of this one.
    fn take_next(&mut self, relay: u32, links_max: usize, now: Time) -> Vec<DialPlace> {
        let Some(shared) = self.get_mut(relay) else { return Vec::new() };
        let mut next = Vec::new();
        for _ in 0..shared.free(links_max, now) {
            next.extend(shared.waiting.pop_first());
        }
        next
    }

    /// One relay of each address at which others wait.
    fn waited_for(&self) -> Vec<u32> {
        self.by_address.values().filter_map(|it| Some(it.waiting.first()?.relay)).collect()
    }
}

impl Engine {
    /// The dial of this relay led there.
    pub(crate) fn note_dialled_address(&mut self, url: &RelayUrl, address: Option<IpAddr>) {
        let (Some(number), Some(address)) = (self.numbers.get(url).copied(), address) else {
            return;
        };
        if self.relay(number).is_some_and(|relay| matches!(relay.link, Link::Dialling { .. })) {
            self.addresses.set(number, address);
            self.addresses.link(number);
        }
    }

    /// Queues a relay for a dial, behind those that wait for a link to the same address.
    pub(crate) fn queue_dial(&mut self, place: DialPlace, now: Time) {
        if self.addresses.wait(place) {
            self.release_address(place.relay, now);
        } else {
            self.dialling.queue(place);
        }
    }

    /// Relays that waited for a link to the address of this one may be dialled, if one is free.
    pub(crate) fn release_address(&mut self, relay: u32, now: Time) {
        let links_max = self.settings.links_per_address_max;
        for place in self.addresses.take_next(relay, links_max, now) {
            self.dialling.queue(place);
        }
    }

    pub(crate) fn release_addresses(&mut self, now: Time) {
        for relay in self.addresses.waited_for() {
            self.release_address(relay, now);
        }
    }

    /// A queued relay waits on if its address has got all its links meanwhile.
    pub(crate) fn waits_for_address(&mut self, place: DialPlace, now: Time) -> bool {
        let links_max = self.settings.links_per_address_max;
        self.addresses.is_full(place.relay, links_max, now) && self.addresses.wait(place)
    }
}

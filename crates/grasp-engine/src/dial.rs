//! Whom to dial next (S-25): few at a time, never in a burst, best first. A dial that takes long
//! gives its place to others; when there are more relays than links, they take turns.

use crate::engine::Engine;
use crate::relay::{DialPlace, DialRank, Link, Relay};
use crate::timers::{Alarm, Concern};
use crate::vocabulary::Action;
use grasp_core::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct Dialling {
    ready: BTreeSet<DialPlace>,
    /// Dials that still keep their place.
    patient: usize,
    /// Links and dials together.
    links: usize,
    last: Option<Time>,
    /// When a host was last dialled for the sake of a held announcement.
    held_hosts: BTreeMap<String, Time>,
}

/// A host is remembered here only to be left alone; more than this are not dialled at all.
const HELD_HOSTS_MAX: usize = 10_000;
const LINK_TURN_RETRY: Duration = Duration::from_secs(60);

impl Dialling {
    pub(crate) fn ended(&mut self, patient: bool) {
        if patient {
            self.patient = self.patient.saturating_sub(1);
        }
    }

    pub(crate) fn queue(&mut self, place: DialPlace) {
        self.ready.insert(place);
    }

    pub(crate) fn unlinked(&mut self) {
        self.links = self.links.saturating_sub(1);
    }
}

impl Engine {
    /// Puts a relay into the queue of those to be dialled, or sets the time at which it may be.
    pub(crate) fn consider(&mut self, number: u32, now: Time) {
        self.remove_from_dialling(number);
        let Some(relay) = self.relays.get_mut(number as usize).and_then(Option::as_mut) else {
            return;
        };
        relay.measure_want(now);
        relay.host_not_before = self.hosts.next_try(&relay.place);
        if !relay.is_wanted() || !matches!(relay.link, Link::Down) {
            return;
        }
        let not_before = relay.next_try();
        let place = relay.dial_place();
        if not_before > now {
            self.timers.set(Alarm::Relay(number, Concern::Retry), not_before);
            return;
        }
        if let Some(relay) = self.relay_mut(number) {
            relay.dial_place = Some(place);
        }
        self.queue_dial(place, now);
    }

    /// How a host is changed: each of its relays may have to wait, or need not wait any longer.
    pub(crate) fn consider_host(&mut self, place: &str, now: Time) {
        for number in self.hosts.relays(place) {
            self.consider(number, now);
        }
    }

    pub(crate) fn remove_from_dialling(&mut self, number: u32) {
        self.timers.clear(Alarm::Relay(number, Concern::Retry));
        let place = self.relay_mut(number).and_then(|relay| relay.dial_place.take());
        if let Some(place) = place {
            self.dialling.ready.remove(&place);
            self.addresses.stop_waiting(place);
        }
    }

    pub(crate) fn dial(&mut self, now: Time) {
        loop {
            if self.dialling.ready.is_empty()
                || self.dialling.patient >= self.settings.dials_at_once_max
                || self.dialling.links >= self.settings.links_max
            {
                return;
            }
            let earliest = self.dialling.last.map(|last| last.plus(self.settings.dial_gap));
            if let Some(earliest) = earliest.filter(|earliest| *earliest > now) {
                self.timers.set(Alarm::Dial, earliest);
                return;
            }
            let Some(number) = self.next_to_dial(now) else { return };
            self.start_dial(number, now);
        }
    }

    fn next_to_dial(&mut self, now: Time) -> Option<u32> {
        let held_max =
            (self.settings.links_max * self.settings.links_for_held_percent / 100).max(1);
        let gap = self.settings.held_dial_gap;
        let mut held_links = None;
        while let Some(place) = self.dialling.ready.first().copied() {
            if self.waits_for_address(place, now) {
                self.dialling.ready.remove(&place);
                continue;
            }
            // A repository may have been served since the relay was queued.
            let held_only = self.relay(place.relay).is_some_and(Relay::is_held_only);
            if place.rank != DialRank::HeldOnly || !held_only {
                return Some(place.relay);
            }
            let linked = |relay: &&Relay| relay.is_held_only() && !matches!(relay.link, Link::Down);
            // Counted once, however many are passed over.
            let held_links = *held_links.get_or_insert_with(|| {
                self.dialling.held_hosts.retain(|_, last| last.plus(gap) > now);
                self.relays.iter().flatten().filter(linked).count()
            });
            if held_links >= held_max {
                // One of them gives its place back, or a retry comes; look again then.
                self.timers.at_latest(Alarm::Dial, now.plus(LINK_TURN_RETRY));
                return None;
            }
            let host = self.relay(place.relay)?.url.host();
            let free_at = self.dialling.held_hosts.get(&host).map(|last| last.plus(gap));
            let crowded = self.dialling.held_hosts.len() >= HELD_HOSTS_MAX;
            match free_at.or(crowded.then(|| now.plus(gap))) {
                None => {
                    self.dialling.held_hosts.insert(host, now);
                    return Some(place.relay);
                }
                Some(free_at) => {
                    if let Some(relay) = self.relay_mut(place.relay) {
                        relay.not_before = free_at;
                    }
                    self.consider(place.relay, now);
                }
            }
        }
        None
    }

    fn start_dial(&mut self, number: u32, now: Time) {
        self.remove_from_dialling(number);
        self.addresses.link(number);
        let Some(relay) = self.relay_mut(number) else { return };
        relay.link = Link::Dialling { patient: true };
        relay.account.attempts += 1;
        let (url, place) = (relay.url.clone(), relay.place.clone());
        self.hosts.dialled(&place, now, &self.settings);
        self.consider_host(&place, now);
        self.dialling.patient += 1;
        self.dialling.links += 1;
        self.dialling.last = Some(now);
        let patience = now.plus(self.settings.dial_patience);
        self.timers.set(Alarm::Relay(number, Concern::DialPatience), patience);
        self.actions.push_back(Action::Connect(url));
    }

    pub(crate) fn lose_patience(&mut self, number: u32, now: Time) {
        let Some(relay) = self.relay_mut(number) else { return };
        if let Link::Dialling { patient } = &mut relay.link
            && *patient
        {
            *patient = false;
            self.dialling.ended(true);
            self.dial(now);
        }
    }

    /// Others wait, and here nothing is left to fetch: this one makes way.
    pub(crate) fn link_turn(&mut self, number: u32, now: Time) {
        let next = self.dialling.ready.first().map(|place| place.rank);
        let held_only = self.relay(number).is_some_and(Relay::is_held_only);
        let full = self.dialling.links >= self.settings.links_max;
        // A relay that would get the place: any, or one at the same address (S-50).
        let others = match next {
            Some(DialRank::HeldOnly) => held_only,
            Some(_) => full,
            None => false,
        };
        let at_address = match self.addresses.next_rank(number, self.settings.links_per_address_max)
        {
            Some(DialRank::HeldOnly) => held_only,
            Some(_) => true,
            None => false,
        };
        let link_turn = self.settings.link_turn;
        let Some(relay) = self.relay_mut(number) else { return };
        let session = relay.session().map_or(now, |session| session.since);
        // Nothing to fetch, or nothing that could be fetched now; in the end, whoever it is.
        let idle = !relay.has_questions()
            || relay.brake.history_until() > now
            || now.since(session) >= link_turn.saturating_mul(3);
        if !(others || at_address) || !idle || relay.bootstrap {
            self.timers.set(Alarm::Relay(number, Concern::LinkTurn), now.plus(LINK_TURN_RETRY));
            return;
        }
        relay.made_way = Some(now);
        let url = relay.url.clone();
        self.unlink(number, now);
        self.actions.push_back(Action::Hangup(url));
        self.remember(number);
        self.consider(number, now);
        self.dial(now);
    }
}

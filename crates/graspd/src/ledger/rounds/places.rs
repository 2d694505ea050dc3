//! What is to be looked at, place by place: each place keeps what is due there, owner by owner, how many
//! looks go on, and until when it wants to be left alone. Finding the next one costs no more than the
//! places that have something due.

use super::Check;
use grasp_core::{Domain, PubKey, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Debug, Default)]
pub(super) struct Places {
    known: BTreeMap<Domain, Place>,
    /// When each place with something to look at may be asked.
    ready: BTreeSet<(Time, Domain)>,
    at_once_max: usize,
}

#[derive(Debug, Default)]
struct Place {
    lanes: BTreeMap<PubKey, BTreeSet<(Time, Check)>>,
    /// When the first of each lane is due.
    firsts: BTreeSet<(Time, PubKey)>,
    running: usize,
    not_before: Time,
    /// Its moment in `ready`.
    ready: Option<Time>,
}

impl Places {
    pub(super) fn new(at_once_max: usize) -> Self {
        Self { at_once_max, ..Self::default() }
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.known.is_empty() && self.ready.is_empty()
    }

    pub(super) fn insert(&mut self, check: Check, due: Time) {
        let domain = check.url.domain();
        self.known.entry(domain.clone()).or_default().insert(check, due);
        self.reckon(&domain);
    }

    pub(super) fn remove(&mut self, check: &Check, due: Time) {
        let domain = check.url.domain();
        if let Some(place) = self.known.get_mut(&domain) {
            place.remove(check, due);
        }
        self.reckon(&domain);
    }

    /// The first that is due where somebody may be asked, of those owners whose turn it may be.
    pub(super) fn first(&self, now: Time, may: impl Fn(&PubKey) -> bool) -> Option<(Time, &Check)> {
        let open = self.ready.iter().take_while(|(at, _)| *at <= now);
        open.filter_map(|(_, domain)| self.known.get(domain)).find_map(|place| {
            let mut due = place.firsts.iter().take_while(|(due, _)| *due <= now);
            let (_, owner) = due.find(|(_, owner)| may(owner))?;
            place.lanes.get(owner)?.first().map(|(due, check)| (*due, check))
        })
    }

    /// When something more is due, or a place may be asked again.
    pub(super) fn next_after(&self, now: Time) -> Option<Time> {
        self.ready.iter().map(|(at, _)| *at).find(|at| *at > now)
    }

    /// A look begins.
    pub(super) fn begin(&mut self, check: &Check, due: Time) {
        let domain = check.url.domain();
        if let Some(place) = self.known.get_mut(&domain) {
            place.remove(check, due);
            place.running += 1;
        }
        self.reckon(&domain);
    }

    /// A look ends; until `pause` there shall be no other.
    pub(super) fn end(&mut self, domain: &Domain, pause: Option<Time>) {
        if let Some(place) = self.known.get_mut(domain) {
            place.running = place.running.saturating_sub(1);
            place.not_before = place.not_before.max(pause.unwrap_or_default());
        }
        self.reckon(domain);
    }

    pub(super) fn set_back(&mut self, by: Duration) {
        let domains: Vec<Domain> = self.known.keys().cloned().collect();
        for domain in &domains {
            if let Some(place) = self.known.get_mut(domain) {
                place.not_before = super::earlier(place.not_before, by);
            }
            self.reckon(domain);
        }
    }

    /// Finds out when a place may be asked next.
    fn reckon(&mut self, domain: &Domain) {
        let Some(place) = self.known.get_mut(domain) else { return };
        if let Some(before) = place.ready.take() {
            self.ready.remove(&(before, domain.clone()));
        }
        let first = place.firsts.first().map(|(due, _)| (*due).max(place.not_before));
        if let Some(at) = first.filter(|_| place.running < self.at_once_max) {
            place.ready = Some(at);
            self.ready.insert((at, domain.clone()));
        }
        if first.is_none() && place.running == 0 {
            self.known.remove(domain);
        }
    }
}

impl Place {
    fn insert(&mut self, check: Check, due: Time) {
        self.change(check.repo.owner, |lane| lane.insert((due, check)));
    }

    fn remove(&mut self, check: &Check, due: Time) {
        self.change(check.repo.owner, |lane| lane.remove(&(due, check.clone())));
    }

    fn change(&mut self, owner: PubKey, change: impl FnOnce(&mut BTreeSet<(Time, Check)>) -> bool) {
        let lane = self.lanes.entry(owner).or_default();
        if let Some((before, _)) = lane.first() {
            self.firsts.remove(&(*before, owner));
        }
        change(lane);
        match lane.first() {
            Some((first, _)) => drop(self.firsts.insert((*first, owner))),
            None => drop(self.lanes.remove(&owner)),
        }
    }
}

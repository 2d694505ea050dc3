//! What is to be looked at, place by place: each place keeps what is due there, owner by owner, how many
//! looks go on, and until when it wants to be left alone. Owners take turns. Finding the next one costs
//! no more than the places that have something due, times the owners that have a look going on.

use super::Check;
use grasp_core::{Domain, PubKey, Time};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Places {
    known: BTreeMap<Domain, Place>,
    /// When each place with something to look at may be asked.
    ready: BTreeSet<(Time, Domain)>,
    at_once_max: usize,
}

#[derive(Debug, Default)]
struct Place {
    lanes: BTreeMap<PubKey, Lane>,
    /// When each lane has its turn.
    turns: BTreeSet<(Time, PubKey)>,
    running: usize,
    not_before: Time,
    /// Its moment in `ready`.
    ready: Option<Time>,
}

/// What one owner has there.
#[derive(Debug, Default)]
struct Lane {
    due: BTreeSet<(Time, Check)>,
    /// When its last look there began.
    begun: Time,
}

/// How far an owner is from having what it may have; the first goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Claim {
    /// It has nothing yet, so nobody goes before it.
    Best,
    Good,
    /// Only if nobody has a better one.
    Weak,
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

    /// The first that is due where somebody may be asked, of the owners with the best claim.
    pub(super) fn first(
        &self,
        now: Time,
        claim: impl Fn(&PubKey) -> Option<Claim>,
    ) -> Option<(Time, &Check)> {
        let open = self.ready.iter().take_while(|(at, _)| *at <= now);
        let lanes = open.filter_map(|(_, domain)| self.known.get(domain)).flat_map(|place| {
            let turns = place.turns.iter().take_while(|(at, _)| *at <= now);
            turns.filter_map(|(_, owner)| Some((claim(owner)?, place.lanes.get(owner)?)))
        });
        let mut best: Option<(Claim, &Lane)> = None;
        for (claim, lane) in lanes {
            if best.is_none_or(|(before, _)| claim < before) {
                best = Some((claim, lane));
            }
            if claim == Claim::Best {
                break;
            }
        }
        best?.1.due.first().map(|(due, check)| (*due, check))
    }

    /// When something more is due, or a place may be asked again.
    pub(super) fn next_after(&self, now: Time) -> Option<Time> {
        self.ready.iter().map(|(at, _)| *at).find(|at| *at > now)
    }

    /// A look begins.
    pub(super) fn begin(&mut self, check: &Check, due: Time, now: Time) {
        let domain = check.url.domain();
        if let Some(place) = self.known.get_mut(&domain) {
            place.change(check.repo.owner, |lane| {
                lane.due.remove(&(due, check.clone()));
                lane.begun = lane.begun.max(now);
            });
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

    /// Finds out when a place may be asked next.
    fn reckon(&mut self, domain: &Domain) {
        let Some(place) = self.known.get_mut(domain) else { return };
        if let Some(before) = place.ready.take() {
            self.ready.remove(&(before, domain.clone()));
        }
        let first = place.turns.first().map(|(at, _)| (*at).max(place.not_before));
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
        self.change(check.repo.owner, |lane| {
            lane.due.insert((due, check));
        });
    }

    fn remove(&mut self, check: &Check, due: Time) {
        self.change(check.repo.owner, |lane| {
            lane.due.remove(&(due, check.clone()));
        });
    }

    fn change(&mut self, owner: PubKey, change: impl FnOnce(&mut Lane)) {
        let lane = self.lanes.entry(owner).or_default();
        if let Some(before) = lane.turn() {
            self.turns.remove(&(before, owner));
        }
        change(lane);
        match lane.turn() {
            Some(turn) => drop(self.turns.insert((turn, owner))),
            None => drop(self.lanes.remove(&owner)),
        }
    }
}

impl Lane {
    /// When it has its turn: whoever had one waits for those who were due before that. So a thousand
    /// of one owner that are long due come by turns with the one of another.
    fn turn(&self) -> Option<Time> {
        self.due.first().map(|(due, _)| (*due).max(self.begun))
    }
}

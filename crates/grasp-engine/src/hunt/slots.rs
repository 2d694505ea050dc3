//! What may be fetched at a time over all domains, shared by owners: whoever waits for a slot waits
//! under its owner, and owners take turns. Invariant: an owner that has its share gets another slot
//! only if nobody waits who has not, and only if some stay free for those who may still come.

use super::HuntSettings;
use super::turns::Line;
use grasp_core::{Domain, PubKey};
use std::collections::{BTreeMap, BTreeSet};

/// So many shares make the whole. As much as one share stays free for owners who have none yet.
const SHARES: usize = 4;
/// After so many others, one that comes late goes before them, if none of those is being asked.
const OTHERS_FIRST: u32 = 4;

/// Who may wait for a slot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Waits {
    /// A family, for any of its sources that are free.
    Entry(u64),
    /// A domain, for the first in its queue.
    Domain(Domain),
}

#[derive(Debug)]
pub(super) struct Slots {
    max: usize,
    share: usize,
    spare: usize,
    used: usize,
    /// How many of them are used on domains that come late.
    used_late: usize,
    held: BTreeMap<PubKey, usize>,
    sound: Line<Waits>,
    /// For domains that failed or say nothing.
    late: Line<Waits>,
    standing: BTreeMap<Waits, Standing>,
    /// The domains among them.
    domains: BTreeMap<PubKey, BTreeSet<Domain>>,
    tickets: u64,
    others_first: u32,
}

#[derive(Debug, Clone, Copy)]
struct Standing {
    owner: PubKey,
    ticket: u64,
    late: bool,
}

impl Slots {
    pub(super) fn new(settings: &HuntSettings) -> Self {
        let max = (settings.concurrent_max as usize).max(1);
        Self {
            max,
            share: (max / SHARES).max(1),
            spare: max / SHARES,
            used: 0,
            used_late: 0,
            held: BTreeMap::new(),
            sound: Line::default(),
            late: Line::default(),
            standing: BTreeMap::new(),
            domains: BTreeMap::new(),
            tickets: 0,
            others_first: 0,
        }
    }

    pub(super) fn used(&self) -> usize {
        self.used
    }

    pub(super) fn has_share(&self, owner: &PubKey) -> bool {
        self.held(owner) >= self.share
    }

    /// It has its share, and what is left is for others.
    pub(super) fn is_held_back(&self, owner: &PubKey) -> bool {
        self.used + self.spare >= self.max && self.has_share(owner)
    }

    /// It holds what others could have, too.
    pub(super) fn has_more_than_its_share(&self, owner: &PubKey) -> bool {
        self.held(owner) > self.share
    }

    /// Slots that others could have, or that are used on domains that come late.
    pub(super) fn is_any_questionable(&self) -> bool {
        self.used_late > 0 || self.held.values().any(|held| *held > self.share)
    }

    /// May this owner start something, with nobody before it?
    pub(super) fn is_free(&self, owner: &PubKey) -> bool {
        self.used < self.max && !self.is_held_back(owner) && self.first().is_none()
    }

    /// True if somebody is held back from now on.
    pub(super) fn take(&mut self, owner: PubKey, late: bool) -> bool {
        self.used += 1;
        self.used_late += usize::from(late);
        let held = self.held.entry(owner).or_default();
        *held += 1;
        *held == self.share || self.used + self.spare == self.max
    }

    /// True if the owner has less than its share from now on.
    pub(super) fn give_back(&mut self, owner: &PubKey, late: bool) -> bool {
        self.used = self.used.saturating_sub(1);
        self.used_late = self.used_late.saturating_sub(usize::from(late));
        let Some(held) = self.held.get_mut(owner) else { return false };
        *held -= 1;
        let had_its_share = *held + 1 == self.share;
        if *held == 0 {
            self.held.remove(owner);
        }
        had_its_share
    }

    /// Waits from now on, in the place it has if that is still the right one.
    pub(super) fn join(&mut self, who: Waits, owner: PubKey, late: bool) {
        let right = |it: &Standing| it.owner == owner && it.late == late;
        if self.standing.get(&who).is_some_and(right) {
            return;
        }
        self.leave(&who);
        self.tickets += 1;
        let ticket = self.tickets;
        self.line(late).insert(owner, ticket, who.clone());
        if let Waits::Domain(domain) = &who {
            self.domains.entry(owner).or_default().insert(domain.clone());
        }
        self.standing.insert(who, Standing { owner, ticket, late });
    }

    pub(super) fn leave(&mut self, who: &Waits) {
        if let Some(Standing { owner, ticket, late }) = self.standing.remove(who) {
            self.line(late).remove(owner, ticket);
            if let Waits::Domain(domain) = who
                && let Some(domains) = self.domains.get_mut(&owner)
            {
                domains.remove(domain);
                if domains.is_empty() {
                    self.domains.remove(&owner);
                }
            }
        }
    }

    /// It had its turn, which its owner pays for.
    pub(super) fn charge(&mut self, owner: PubKey, late: bool) {
        self.tickets += 1;
        let stamp = self.tickets;
        self.line(late).charge(owner, stamp);
        self.others_first = if late { 0 } else { self.others_first.saturating_add(1) };
    }

    pub(super) fn is_waiting(&self, who: &Waits) -> bool {
        self.standing.contains_key(who)
    }

    pub(super) fn is_waiting_late(&self, who: &Waits) -> bool {
        self.standing.get(who).is_some_and(|standing| standing.late)
    }

    pub(super) fn is_anybody_waiting(&self) -> bool {
        !self.standing.is_empty()
    }

    /// Somebody waits who has not got its share: for a sound domain, or for any.
    pub(super) fn is_anybody_entitled(&self) -> (bool, bool) {
        let sound = self.entitled(&self.sound).is_some();
        (sound, sound || self.entitled(&self.late).is_some())
    }

    /// Whose turn it is, if there is a slot for it.
    pub(super) fn first(&self) -> Option<&Waits> {
        if self.used >= self.max {
            return None;
        }
        let (sound, late) = (self.entitled(&self.sound), self.entitled(&self.late));
        let late_first = self.used_late == 0 && self.others_first >= OTHERS_FIRST;
        let first = if late_first { late.or(sound) } else { sound.or(late) };
        if first.is_some() || self.used + self.spare >= self.max {
            return first;
        }
        self.sound.first(|_| false).or_else(|| self.late.first(|_| false))
    }

    /// Domains that wait under the name of somebody who has its share. They may have a better one.
    pub(super) fn domains_of_sharers(&self) -> impl Iterator<Item = &Domain> {
        let sharers = self.held.iter().filter(|(_, held)| **held >= self.share);
        sharers.filter_map(|(owner, _)| self.domains.get(owner)).flatten()
    }

    fn held(&self, owner: &PubKey) -> usize {
        self.held.get(owner).copied().unwrap_or(0)
    }

    fn entitled<'a>(&self, line: &'a Line<Waits>) -> Option<&'a Waits> {
        line.first(|owner| self.has_share(owner))
    }

    fn line(&mut self, late: bool) -> &mut Line<Waits> {
        if late { &mut self.late } else { &mut self.sound }
    }
}

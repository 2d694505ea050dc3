//! All domains that were asked lately. Any other is treated like a stranger, so it needs no record;
//! when there are too many, those that nothing binds are forgotten, least recently used first.
//! Invariant: no owner's domains fill the table so that others find no room.

use super::HuntSettings;
use super::neighbour::Neighbour;
use grasp_core::{Domain, PubKey, Time};
use std::collections::{BTreeMap, BTreeSet};

/// How many are looked at before one that can be forgotten counts as not found.
const LOOKED_AT_MAX: usize = 32;
/// So many parts of all records may one owner open.
const OWNER_PART: usize = 16;
/// The last quarter of the records is for owners that have opened fewer than this.
const FEW: usize = 8;

type ByUse = BTreeSet<(Time, Domain)>;

#[derive(Debug, Default)]
pub(super) struct Neighbours {
    by_domain: BTreeMap<Domain, Neighbour>,
    by_use: ByUse,
    by_owner: BTreeMap<PubKey, ByUse>,
}

/// Is there a record to be had?
enum Room {
    Free,
    /// If this one is forgotten.
    Instead(Domain),
    None,
}

impl Neighbours {
    pub(super) fn get(&self, domain: &Domain) -> Option<&Neighbour> {
        self.by_domain.get(domain)
    }

    pub(super) fn get_mut(&mut self, domain: &Domain) -> Option<&mut Neighbour> {
        self.by_domain.get_mut(domain)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Domain, &Neighbour)> {
        self.by_domain.iter()
    }

    /// The record of a domain that is about to be used. `None` if there is no room for another.
    pub(super) fn open(
        &mut self,
        domain: &Domain,
        owner: Option<PubKey>,
        settings: &HuntSettings,
        now: Time,
    ) -> Option<&mut Neighbour> {
        if !self.by_domain.contains_key(domain) {
            match self.room(owner.as_ref(), settings, now) {
                Room::Free => {}
                Room::Instead(oldest) => self.forget(&oldest),
                Room::None => return None,
            }
            let neighbour = Neighbour::new(domain, owner, settings, now);
            self.by_domain.insert(domain.clone(), neighbour);
        }
        self.note_use(domain, now);
        self.by_domain.get_mut(domain)
    }

    /// Nobody stands before a newcomer of this owner, and it may start.
    pub(super) fn is_free(
        &self,
        domain: &Domain,
        owner: &PubKey,
        settings: &HuntSettings,
        now: Time,
    ) -> bool {
        match self.get(domain) {
            Some(neighbour) => neighbour.is_free(settings, now),
            None => !matches!(self.room(Some(owner), settings, now), Room::None),
        }
    }

    pub(super) fn is_late(&self, domain: &Domain, now: Time) -> bool {
        self.get(domain).is_some_and(|neighbour| neighbour.is_late(now))
    }

    fn room(&self, owner: Option<&PubKey>, settings: &HuntSettings, now: Time) -> Room {
        let all = settings.domains_max;
        let of_owner = owner.and_then(|owner| self.by_owner.get(owner));
        let opened = of_owner.map_or(0, BTreeSet::len);
        let max = if opened < FEW { all } else { all - all / 4 };
        let among = match of_owner {
            Some(of_owner) if opened >= (all / OWNER_PART).max(FEW) => of_owner,
            _ if self.by_domain.len() < max => return Room::Free,
            _ => &self.by_use,
        };
        let forgettable = |domain: &Domain| {
            self.get(domain).is_some_and(|neighbour| neighbour.is_forgettable(settings, now))
        };
        let oldest = among.iter().take(LOOKED_AT_MAX).find(|(_, domain)| forgettable(domain));
        oldest.map_or(Room::None, |(_, domain)| Room::Instead(domain.clone()))
    }

    fn note_use(&mut self, domain: &Domain, now: Time) {
        let Some(neighbour) = self.by_domain.get_mut(domain) else { return };
        let (before, after) = ((neighbour.used, domain.clone()), (now, domain.clone()));
        neighbour.used = now;
        if let Some(owner) = neighbour.opened_by {
            let of_owner = self.by_owner.entry(owner).or_default();
            of_owner.remove(&before);
            of_owner.insert(after.clone());
        }
        self.by_use.remove(&before);
        self.by_use.insert(after);
    }

    fn forget(&mut self, domain: &Domain) {
        let Some(neighbour) = self.by_domain.remove(domain) else { return };
        let used = (neighbour.used, domain.clone());
        self.by_use.remove(&used);
        if let Some(owner) = neighbour.opened_by
            && let Some(of_owner) = self.by_owner.get_mut(&owner)
        {
            of_owner.remove(&used);
            if of_owner.is_empty() {
                self.by_owner.remove(&owner);
            }
        }
    }
}

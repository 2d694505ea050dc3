//! All domains that have a past. A domain without one is treated like any stranger, so it needs no
//! record; when there are too many, those that nothing binds are forgotten, least recently used first.

use super::HuntSettings;
use super::neighbour::Neighbour;
use grasp_core::{Domain, Time};
use std::collections::{BTreeMap, BTreeSet};

/// How many are looked at before one that can be forgotten counts as not found.
const LOOKED_AT_MAX: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Neighbours {
    by_domain: BTreeMap<Domain, Neighbour>,
    by_use: BTreeSet<(Time, Domain)>,
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
        settings: &HuntSettings,
        now: Time,
    ) -> Option<&mut Neighbour> {
        if !self.by_domain.contains_key(domain) {
            if !self.has_room(settings, now) {
                return None;
            }
            if self.by_domain.len() >= settings.domains_max {
                self.forget_one(settings, now);
            }
            self.by_use.insert((now, domain.clone()));
            self.by_domain.insert(domain.clone(), Neighbour::new(domain, settings, now));
        }
        let neighbour = self.by_domain.get_mut(domain)?;
        if neighbour.used < now {
            self.by_use.remove(&(neighbour.used, domain.clone()));
            self.by_use.insert((now, domain.clone()));
            neighbour.used = now;
        }
        Some(neighbour)
    }

    pub(super) fn is_free(&self, domain: &Domain, settings: &HuntSettings, now: Time) -> bool {
        match self.get(domain) {
            Some(neighbour) => neighbour.is_free(settings, now),
            None => self.has_room(settings, now),
        }
    }

    pub(super) fn is_failing(&self, domain: &Domain) -> bool {
        self.get(domain).is_some_and(|neighbour| neighbour.failing)
    }

    fn has_room(&self, settings: &HuntSettings, now: Time) -> bool {
        self.by_domain.len() < settings.domains_max || self.forgettable(settings, now).is_some()
    }

    fn forget_one(&mut self, settings: &HuntSettings, now: Time) {
        let Some(oldest) = self.forgettable(settings, now).cloned() else { return };
        self.by_domain.remove(&oldest.1);
        self.by_use.remove(&oldest);
    }

    fn forgettable(&self, settings: &HuntSettings, now: Time) -> Option<&(Time, Domain)> {
        let idle = |domain: &Domain| {
            self.get(domain).is_some_and(|neighbour| neighbour.is_forgettable(settings, now))
        };
        self.by_use.iter().take(LOOKED_AT_MAX).find(|(_, domain)| idle(domain))
    }
}

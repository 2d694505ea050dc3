//! A family's places in the queues of domains that cannot be asked right now. Invariant: it stands in
//! line only where it could start at once if its turn came.

use super::asking::Needs;
use super::entry::Entry;
use super::machine::Hunt;
use super::queue::Class;
use grasp_core::{Domain, Time};

impl Hunt {
    /// A place in the queue of every domain that is busy and could be asked for something. Whoever
    /// only waits for a slot needs none.
    pub(super) fn take_places(&mut self, number: u64, needs: &Needs, now: Time) {
        let Some(entry) = self.entries.get(&number).filter(|_| !needs.is_empty()) else { return };
        // Without a record there is no queue; the next attempt is then all there is.
        let is_busy = |domain: &Domain| {
            self.neighbours.get(domain).is_some_and(|it| !it.is_free(&self.settings, now))
        };
        let domains = entry.sources.iter().map(|source| &source.domain);
        let new = domains.filter(|domain| !entry.places.contains(*domain) && is_busy(domain));
        let new = new.filter(|domain| self.class_on(entry, domain, needs, now).is_some());
        let new: Vec<Domain> = new.cloned().collect();
        let Some(entry) = self.entries.get_mut(&number) else { return };
        for domain in new {
            let class = match entry.tried_on.contains(&domain) {
                true => Class::Later,
                false => Class::First,
            };
            if let Some(neighbour) = self.neighbours.get_mut(&domain) {
                neighbour.queue.join(number, entry.family.owner, class, now);
                entry.places.insert(domain);
            }
        }
    }

    /// From now on it may be picked wherever it has a place and something to ask for. Elsewhere its
    /// places are kept.
    pub(super) fn stand_in_line(&mut self, number: u64, now: Time) {
        let some = |entry: &&Entry| !entry.places.is_empty();
        let Some(entry) = self.entries.get(&number).filter(some) else { return };
        let needs = self.needs(number, now);
        for domain in &entry.places {
            let ready = self.class_on(entry, domain, &needs, now);
            if let Some(neighbour) = self.neighbours.get_mut(domain)
                && neighbour.queue.set_ready(number, ready)
            {
                self.stirred.insert(domain.clone());
            }
        }
    }

    /// Gives up places on domains that have nothing untried to offer.
    pub(super) fn leave_useless_places(&mut self, number: u64, now: Time) {
        let Some(entry) = self.entries.get(&number) else { return };
        let useless = entry.places.iter().filter(|domain| !entry.has_untried(domain, now));
        for domain in &useless.cloned().collect::<Vec<Domain>>() {
            self.leave_place(number, domain);
        }
    }

    pub(super) fn leave_place(&mut self, number: u64, domain: &Domain) {
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.places.remove(domain);
        }
        if let Some(neighbour) = self.neighbours.get_mut(domain) {
            neighbour.queue.leave(number);
            // Its alarm may have rung for nobody else.
            self.stirred.insert(domain.clone());
        }
    }
}

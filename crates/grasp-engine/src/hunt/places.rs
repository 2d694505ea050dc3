//! A family's places in the queues of domains. Invariant: it stands in line only where it could start
//! at once if its turn came.

use super::machine::Hunt;
use super::queue::Class;
use grasp_core::{Domain, Time};

impl Hunt {
    /// A place in the queue of every domain that has something untried.
    pub(super) fn take_places(&mut self, number: u64, except: Option<&Domain>, now: Time) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        for source in entry.sources.iter().filter(|source| source.is_untried(now)) {
            let domain = &source.domain;
            if except == Some(domain) || entry.places.contains(domain) {
                continue;
            }
            // Without a record there is no queue; the next attempt is then all there is.
            if let Some(neighbour) = self.neighbours.open(domain, &self.settings, now) {
                let class = match entry.tried_on.contains(domain) {
                    true => Class::Later,
                    false => Class::First,
                };
                neighbour.queue.join(number, entry.family.owner, class, now);
                entry.places.insert(domain.clone());
            }
        }
    }

    /// From now on it may be picked wherever it has a place, as a hedge only on other domains.
    pub(super) fn stand_in_line(&mut self, number: u64, now: Time) {
        let Some(entry) = self.entries.get(&number) else { return };
        let elder = entry.running.first().and_then(|job| self.jobs.get(job));
        let except = elder.map(|job| &job.domain);
        debug_assert!(
            elder.is_none_or(|elder| elder.started.plus(self.settings.hedge_after) <= now)
        );
        for domain in entry.places.iter().filter(|domain| Some(*domain) != except) {
            if let Some(neighbour) = self.neighbours.get_mut(domain)
                && neighbour.queue.set_ready(number, true)
            {
                self.stirred.insert(domain.clone());
            }
        }
    }

    /// It is busy. Its places are kept.
    pub(super) fn leave_line(&mut self, number: u64) {
        let Some(entry) = self.entries.get(&number) else { return };
        for domain in &entry.places {
            if let Some(neighbour) = self.neighbours.get_mut(domain) {
                neighbour.queue.set_ready(number, false);
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

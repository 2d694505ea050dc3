//! An attempt: look what is lacking, then ask one source after the other until nothing is. A look
//! may come while something is fetched: what nobody is asked for yet does not wait for that. What
//! only throttled domains can answer waits in their queues.

use super::alarm::Alarm;
use super::entry::{Look, Purpose};
use super::machine::Hunt;
use super::slots::Waits;
use super::{FamilyId, FamilyStanding, HuntAction, HuntNews, Lack};
use grasp_core::Time;
use std::collections::BTreeSet;

impl Hunt {
    /// Meanwhile its turn on a domain may come, for what it is known to lack.
    pub(super) fn look(&mut self, number: u64, purpose: Purpose) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        entry.look = Some(Look { purpose, heard: false, found: BTreeSet::new() });
        if purpose == Purpose::Attempt {
            (entry.next, entry.again) = (None, None);
            self.timers.clear(Alarm::Next(number));
        }
        self.actions.push_back(HuntAction::Look { family: entry.family.clone() });
    }

    pub(super) fn looked(&mut self, family: &FamilyId, lack: Lack, now: Time) {
        let Some(number) = self.numbers.get(family).copied() else { return };
        let Some(entry) = self.entries.get_mut(&number) else { return };
        let Some(look) = entry.look.take() else { return };
        entry.held = lack.held;
        entry.proposed = lack.proposed;
        entry.standing = lack.standing;
        if self.proven.contains(&family.owner) {
            entry.standing = entry.standing.max(FamilyStanding::KnownOwner);
        }
        entry.wants = lack.wants.difference(&look.found).copied().collect();
        if entry.wants.is_empty() {
            match (look.heard, look.found.is_empty()) {
                (true, _) => self.look_later(number, now),
                (false, true) => self.complete(number, now),
                (false, false) => self.verify(number, now),
            }
            return;
        }
        let anew = look.purpose == Purpose::Attempt || entry.is_due(now);
        entry.set_sources(lack.sources, anew, &self.settings);
        for job in entry.running.clone().iter().filter_map(|job| self.jobs.get(job)) {
            if let Some(source) = entry.source_mut(&job.url) {
                source.ask(&job.wants);
            }
        }
        if anew {
            (entry.attempts, entry.ever_attempted) = (entry.attempts.saturating_add(1), true);
            (entry.next, entry.told) = (None, false);
            self.timers.clear(Alarm::Next(number));
            self.totals.attempts += 1;
            let sources = entry.sources.iter().filter(|source| source.is_untried(now)).count();
            let (family, wants) = (entry.family.clone(), entry.wants.len());
            self.tell(HuntNews::Attempt { family, wants, sources });
        }
        self.drop_needless_job(number);
        self.go_on(number, now);
        if let Some(again) = self.entries.get_mut(&number).and_then(|entry| entry.again.take()) {
            self.bring_forward(number, again.max(now));
        }
    }

    /// Nothing is lacking, but an event came that the answer may not know yet.
    fn look_later(&mut self, number: u64, now: Time) {
        self.stop(number);
        let Some(entry) = self.entries.get_mut(&number) else { return };
        let at = entry.again.take().unwrap_or(now).max(now);
        entry.next = Some(at);
        self.timers.set(Alarm::Next(number), at);
    }

    fn complete(&mut self, number: u64, now: Time) {
        self.stop(number);
        self.timers.clear(Alarm::Next(number));
        let Some(entry) = self.entries.remove(&number) else { return };
        self.numbers.remove(&entry.family);
        if entry.ever_attempted {
            let missing_for = now.since(entry.since);
            self.tell(HuntNews::Complete { family: entry.family, missing_for });
        }
    }

    /// Everything seems to be here.
    fn verify(&mut self, number: u64, now: Time) {
        self.stop(number);
        let Some(entry) = self.entries.get(&number) else { return };
        let due = entry.is_due(now) || entry.again.is_some_and(|again| again <= now);
        self.look(number, if due { Purpose::Attempt } else { Purpose::Verify });
    }

    /// There is nothing to ask for.
    fn stop(&mut self, number: u64) {
        self.cancel_running(number);
        self.set_hedge(number, None);
        self.slots.leave(&Waits::Entry(number));
        if let Some(entry) = self.entries.get(&number) {
            for domain in entry.places.clone() {
                self.leave_place(number, &domain);
            }
        }
    }

    /// Something about what is being asked for it has changed.
    pub(super) fn carry_on(&mut self, number: u64, now: Time) {
        let Some(entry) = self.entries.get(&number) else { return };
        if entry.look.is_some() {
            // What is answered will say how to go on. Until then its places are good.
            self.stand_in_line(number, now);
        } else if entry.wants.is_empty() {
            self.verify(number, now);
        } else if entry.running.is_empty() && entry.is_due(now) {
            self.look(number, Purpose::Attempt);
            self.stand_in_line(number, now);
        } else {
            self.go_on(number, now);
        }
    }

    /// The next sources at once, or a place where it waits for them.
    fn go_on(&mut self, number: u64, now: Time) {
        if !self.entries.contains_key(&number) {
            return;
        }
        let who = Waits::Entry(number);
        let (needs, room_at) = loop {
            self.conclude(number, now);
            let room_at = self.make_room_in_family(number, now);
            let needs = self.needs(number, now);
            match self.free_source(number, &needs, now) {
                None => self.slots.leave(&who),
                Some(question) if self.has_bytes(now) && self.slots.is_free(question.claim) => {
                    if self.start(number, question, now) {
                        continue;
                    }
                }
                Some(question) => self.slots.join(who.clone(), question.claim),
            }
            break (needs, room_at);
        };
        self.set_hedge(number, needs.hedge_at.into_iter().chain(room_at).min());
        self.leave_useless_places(number, now);
        self.take_places(number, &needs, now);
        self.stand_in_line(number, now);
        if !needs.is_empty() || needs.proposals_wait {
            self.rest(number, now);
        }
    }

    /// Some of what it needs cannot be asked for now, so there will be another attempt.
    fn rest(&mut self, number: u64, now: Time) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        // A try from a queue does not put off the next attempt.
        let next = match entry.next {
            Some(next) => next,
            None => now.plus(entry.widen_gap(&self.settings)),
        };
        entry.next = Some(next);
        self.timers.set(Alarm::Next(number), next);
        if !entry.running.is_empty() {
            return;
        }
        entry.sources.iter_mut().for_each(|source| source.forget_details());
        let waits = !entry.places.is_empty() || self.slots.is_waiting(&Waits::Entry(number));
        if !waits && !entry.told {
            entry.told = true;
            let (family, wants, attempts) =
                (entry.family.clone(), entry.wants.len(), entry.attempts);
            self.tell(HuntNews::Incomplete { family, wants, attempts, next });
        }
    }
}

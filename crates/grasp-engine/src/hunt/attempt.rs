//! An attempt: look what is lacking, ask one source after the other, and a second one at the same
//! time if the first is slow (S-37). What only throttled domains can answer waits in their queues.
//! Invariant: in one attempt no source is asked twice.

use super::alarm::Alarm;
use super::entry::{Candidate, Entry, Look, Purpose};
use super::jobs::Running;
use super::machine::Hunt;
use super::{FamilyId, HuntAction, HuntNews, Job, Lack};
use grasp_core::{Domain, Time};
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
        entry.wants = lack.wants.difference(&look.found).copied().collect();
        if entry.wants.is_empty() {
            match (look.heard, look.found.is_empty()) {
                (true, _) => self.look_later(number, now),
                (false, true) => self.complete(number),
                (false, false) => self.verify(number, now),
            }
            return;
        }
        let anew = look.purpose == Purpose::Attempt || entry.next.is_some_and(|next| next <= now);
        entry.set_sources(lack.sources, anew, &self.settings);
        for job in entry.running.clone().iter().filter_map(|job| self.jobs.get(job)) {
            if let Some(source) = entry.source_mut(&job.url) {
                source.tried = true;
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
        self.leave_useless_places(number, now);
        if self.entries.get(&number).is_some_and(Entry::is_resting) {
            self.advance(number, now);
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

    fn complete(&mut self, number: u64) {
        self.stop(number);
        self.timers.clear(Alarm::Next(number));
        let Some(entry) = self.entries.remove(&number) else { return };
        self.numbers.remove(&entry.family);
        if entry.ever_attempted {
            self.tell(HuntNews::Complete { family: entry.family });
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
        self.timers.clear(Alarm::Hedge(number));
        if let Some(entry) = self.entries.get(&number) {
            for domain in entry.places.clone() {
                self.leave_place(number, &domain);
            }
        }
    }

    /// One of its jobs is over, one way or another.
    pub(super) fn carry_on(&mut self, number: u64, now: Time) {
        let Some(entry) = self.entries.get(&number) else { return };
        let elder = entry.running.first().and_then(|job| self.jobs.get(job));
        match (&entry.look, elder) {
            (None, _) if entry.wants.is_empty() => self.verify(number, now),
            (None, None) if entry.is_due(now) => {
                self.look(number, Purpose::Attempt);
                self.stand_in_line(number, now);
            }
            (None, None) => self.advance(number, now),
            (_, Some(elder)) => {
                let at = elder.started.plus(self.settings.hedge_after);
                match at <= now {
                    true => self.hedge(number, now),
                    false => self.timers.set(Alarm::Hedge(number), at),
                }
            }
            // What is answered will say how to go on. Until then its places are good.
            (Some(_), None) => self.stand_in_line(number, now),
        }
    }

    /// The next source at once, or a rest. Nothing is being fetched.
    fn advance(&mut self, number: u64, now: Time) {
        match self.free_source(number, None, now) {
            Some(index) => self.start(number, index, now),
            None => self.rest(number, now),
        }
    }

    /// Waits for its turn on the domains that are left, and for the next attempt, whichever is first.
    fn rest(&mut self, number: u64, now: Time) {
        self.timers.clear(Alarm::Hedge(number));
        let Some(entry) = self.entries.get_mut(&number) else { return };
        // A try from a queue does not put off the next attempt.
        let mut next = match entry.next {
            Some(next) => next,
            None => now.plus(entry.widen_gap(&self.settings)),
        };
        if let Some(again) = entry.again.take() {
            next = next.min(again.max(now));
        }
        entry.next = Some(next);
        self.timers.set(Alarm::Next(number), next);
        self.take_places(number, None, now);
        let Some(entry) = self.entries.get_mut(&number) else { return };
        if entry.places.is_empty() && !entry.told {
            entry.told = true;
            let (family, wants, attempts) =
                (entry.family.clone(), entry.wants.len(), entry.attempts);
            self.tell(HuntNews::Incomplete { family, wants, attempts, next });
        }
        self.stand_in_line(number, now);
    }

    /// The source that is being asked takes long: one more, on another domain.
    pub(super) fn hedge(&mut self, number: u64, now: Time) {
        let Some(entry) = self.entries.get(&number) else { return };
        let [elder] = entry.running.as_slice() else { return };
        let Some(elsewhere) = self.jobs.get(elder).map(|job| job.domain.clone()) else { return };
        match self.free_source(number, Some(&elsewhere), now) {
            Some(index) => self.start(number, index, now),
            None => {
                self.take_places(number, Some(&elsewhere), now);
                self.stand_in_line(number, now);
            }
        }
    }

    /// The first source that may be asked right now without passing anybody who waits. Those whose
    /// last fetch failed come last.
    fn free_source(&mut self, number: u64, except: Option<&Domain>, now: Time) -> Option<usize> {
        self.pass_over_known(number, now);
        if !self.has_room(now) || !self.turns.is_empty() {
            return None;
        }
        let entry = self.entries.get(&number)?;
        let free = |source: &Candidate| {
            source.is_untried(now)
                && except != Some(&source.domain)
                && self.neighbours.is_free(&source.domain, &self.settings, now)
        };
        let failing = |source: &Candidate| self.neighbours.is_failing(&source.domain);
        let sources = || entry.sources.iter().enumerate().filter(|(_, source)| free(source));
        let sound = sources().find(|(_, source)| !failing(source));
        sound.or_else(|| sources().next()).map(|(index, _)| index)
    }

    /// Sources that lately said they have nothing of this count as tried.
    fn pass_over_known(&mut self, number: u64, now: Time) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        for source in entry.sources.iter_mut().filter(|source| !source.tried) {
            source.tried = !self.absent.is_worth_asking(source, &entry.wants, now);
        }
    }

    /// Its turn on a domain has come.
    pub(super) fn start_from_queue(&mut self, number: u64, domain: &Domain, now: Time) {
        self.pass_over_known(number, now);
        let untried = self.entries.get(&number).and_then(|entry| {
            let on = |source: &Candidate| source.domain == *domain;
            entry.sources.iter().position(|source| on(source) && source.is_untried(now))
        });
        match untried {
            Some(index) => self.start(number, index, now),
            None => self.leave_place(number, domain),
        }
    }

    fn start(&mut self, number: u64, index: usize, now: Time) {
        let settings = &self.settings;
        let Some(entry) = self.entries.get_mut(&number) else { return };
        let Some(source) = entry.sources.get_mut(index) else { return };
        let Some(neighbour) = self.neighbours.open(&source.domain, settings, now) else { return };
        let left = neighbour.budget.left(now).min(self.budget.left(now));
        let bytes_max = left.min(settings.fetch_bytes_max);
        neighbour.budget.reserve(bytes_max);
        self.budget.reserve(bytes_max);
        neighbour.note_request(settings, now);
        neighbour.running += 1;
        neighbour.queue.leave_served(number);
        self.totals.requests += 1;
        self.totals.running += 1;

        (source.tried, source.asked, source.said) = (true, Some(now), "being asked".into());
        let (url, domain) = (source.url.clone(), source.domain.clone());
        let wants = self.absent.worth_asking(source, &entry.wants, now);
        self.next_job += 1;
        let job = Job(self.next_job);
        entry.places.remove(&domain);
        entry.tried_on.insert(domain.clone());
        entry.running.push(job);
        let hedge_at = now.plus(settings.hedge_after);
        match entry.running.len() {
            1 => self.timers.set(Alarm::Hedge(number), hedge_at),
            _ => self.timers.clear(Alarm::Hedge(number)),
        }
        let family = entry.family.clone();
        self.jobs.insert(job, Running::new(number, url.clone(), domain, bytes_max, now));
        self.actions.push_back(HuntAction::Fetch { job, family, url, wants, bytes_max });
        self.leave_line(number);
    }
}

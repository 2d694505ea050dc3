//! Whom a family asks for what: every object that is wanted has one job that was asked for it, and a
//! second one on another domain when the first takes long (S-37). Invariant: in one attempt no
//! source is asked twice for the same object.

use super::alarm::Alarm;
use super::candidate::Candidate;
use super::entry::Entry;
use super::jobs::Running;
use super::machine::Hunt;
use super::slots::Waits;
use super::{HuntAction, Job};
use grasp_core::{Domain, Oid, Time};
use std::collections::BTreeSet;

/// Of one family at a time.
const JOBS_MAX: usize = 4;

/// What a family could ask somebody for right now.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// Nobody is asked for these.
    bare: BTreeSet<Oid>,
    /// On this domain somebody was asked for these, alone, and takes long.
    slow: Vec<(Domain, BTreeSet<Oid>)>,
    /// When the next of those who are asked alone takes long.
    pub(super) hedge_at: Option<Time>,
}

/// What to ask which source for.
#[derive(Debug)]
pub(super) struct Question {
    index: usize,
    wants: BTreeSet<Oid>,
    /// The domain failed, or says nothing.
    pub(super) late: bool,
}

impl Needs {
    pub(super) fn is_empty(&self) -> bool {
        self.bare.is_empty() && self.slow.is_empty()
    }

    fn slow_beside(&self, domain: &Domain) -> impl Iterator<Item = &BTreeSet<Oid>> {
        self.slow.iter().filter(move |(slow, _)| slow != domain).map(|(_, wants)| wants)
    }
}

impl Hunt {
    pub(super) fn needs(&self, number: u64, now: Time) -> Needs {
        let mut needs = Needs::default();
        let Some(entry) = self.entries.get(&number) else { return needs };
        let running = || entry.running.iter().filter_map(|job| self.jobs.get(job));
        let mut alone: Vec<BTreeSet<Oid>> = running().map(|_| BTreeSet::new()).collect();
        for oid in &entry.wants {
            let mut asked = running().zip(&mut alone).filter(|(job, _)| job.wants.contains(oid));
            match (asked.next(), asked.next()) {
                (None, _) => drop(needs.bare.insert(*oid)),
                (Some((_, alone)), None) => drop(alone.insert(*oid)),
                (Some(_), Some(_)) => {}
            }
        }
        for (job, alone) in running().zip(alone).filter(|(_, alone)| !alone.is_empty()) {
            let at = job.started.plus(self.settings.hedge_after);
            match at <= now {
                true => needs.slow.push((job.domain.clone(), alone)),
                false => needs.hedge_at = Some(needs.hedge_at.map_or(at, |it| it.min(at))),
            }
        }
        if entry.running.len() >= JOBS_MAX {
            needs.slow.clear();
            needs.bare.clear();
        }
        needs
    }

    /// What a source can be asked for: what nobody else is, else what takes long elsewhere.
    fn question(&self, source: &Candidate, needs: &Needs, now: Time) -> BTreeSet<Oid> {
        let left = |wants| source.questions(wants, self.absent.at(&source.url, now), now);
        let bare: BTreeSet<Oid> = left(&needs.bare).collect();
        match bare.is_empty() {
            true => needs.slow_beside(&source.domain).flat_map(left).collect(),
            false => bare,
        }
    }

    /// Can something be asked for on this domain?
    pub(super) fn can_ask(&self, entry: &Entry, domain: &Domain, needs: &Needs, now: Time) -> bool {
        let sources = entry.sources.iter();
        let mut sources = sources.filter(|it| it.domain == *domain && it.is_untried(now));
        sources.any(|source| {
            let mut wants = [&needs.bare].into_iter().chain(needs.slow_beside(domain));
            let absent = || self.absent.at(&source.url, now);
            wants.any(|wants| source.questions(wants, absent(), now).next().is_some())
        })
    }

    /// The first source that may be asked right now without passing anybody who waits for its
    /// domain. Those that failed or say nothing come last.
    pub(super) fn free_source(&self, number: u64, needs: &Needs, now: Time) -> Option<Question> {
        let entry = self.entries.get(&number).filter(|_| !needs.is_empty())?;
        let mut last = None;
        for (index, source) in entry.sources.iter().enumerate() {
            let (domain, owner) = (&source.domain, &entry.family.owner);
            let late = self.neighbours.is_late(domain, now);
            if (late && last.is_some())
                || !source.is_untried(now)
                || !self.neighbours.is_free(domain, owner, &self.settings, now)
            {
                continue;
            }
            let wants = self.question(source, needs, now);
            match (wants.is_empty(), late) {
                (true, _) => {}
                (false, false) => return Some(Question { index, wants, late }),
                (false, true) => last = Some(Question { index, wants, late }),
            }
        }
        last
    }

    /// The first source on a domain whose turn has come.
    fn source_on(&self, number: u64, domain: &Domain, now: Time) -> Option<Question> {
        let needs = self.needs(number, now);
        let mut sources = self.entries.get(&number)?.sources.iter().enumerate();
        let late = self.neighbours.is_late(domain, now);
        sources.find_map(|(index, source)| {
            let wants = match source.domain == *domain && source.is_untried(now) {
                true => self.question(source, &needs, now),
                false => return None,
            };
            Some(Question { index, wants, late }).filter(|it| !it.wants.is_empty())
        })
    }

    /// Sources that have nothing left to be asked for are done with.
    pub(super) fn conclude(&mut self, number: u64, now: Time) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        for source in &mut entry.sources {
            let is_absent = self.absent.at(&source.url, now);
            source.conclude(&entry.wants, is_absent, now);
        }
    }

    /// Its owner's turn has come: any source that is free.
    pub(super) fn start_in_turn(&mut self, number: u64, now: Time) {
        let who = Waits::Entry(number);
        let Some(owner) = self.entries.get(&number).map(|entry| entry.family.owner) else {
            return self.slots.leave(&who);
        };
        self.conclude(number, now);
        let question = self.free_source(number, &self.needs(number, now), now);
        if let Some(question) = question {
            let late = question.late;
            if late && !self.slots.is_waiting_late(&who) {
                // The sound ones are busy by now, and it has no place there yet.
                self.slots.join(who, owner, late);
                return self.carry_on(number, now);
            }
            if self.start(number, question, now) {
                self.slots.charge(owner, late);
            }
        }
        self.slots.leave(&who);
        self.carry_on(number, now);
    }

    /// Its turn on a domain has come. True if something was started.
    pub(super) fn start_from_queue(&mut self, number: u64, domain: &Domain, now: Time) -> bool {
        self.conclude(number, now);
        let question = self.source_on(number, domain, now);
        let started = question.is_some_and(|question| self.start(number, question, now));
        if !started {
            self.leave_place(number, domain);
        }
        self.carry_on(number, now);
        started
    }

    /// True if it did.
    pub(super) fn start(&mut self, number: u64, question: Question, now: Time) -> bool {
        let settings = &self.settings;
        let Question { index, wants, late } = question;
        let Some(entry) = self.entries.get_mut(&number) else { return false };
        let Some(source) = entry.sources.get_mut(index) else { return false };
        let owner = entry.family.owner;
        let opened = self.neighbours.open(&source.domain, Some(owner), settings, now);
        let Some(neighbour) = opened else { return false };
        let left = neighbour.budget.left(now).min(self.budget.left(now));
        let bytes_max = left.min(settings.fetch_bytes_max);
        neighbour.budget.reserve(bytes_max);
        self.budget.reserve(bytes_max);
        self.next_job += 1;
        let job = Job(self.next_job);
        neighbour.note_request(settings, now);
        neighbour.begin(job, now);
        neighbour.queue.leave_served(number);
        self.stirred.insert(source.domain.clone());
        self.totals.requests += 1;

        source.ask(&wants);
        (source.asked, source.said) = (Some(now), "being asked".into());
        let (url, domain) = (source.url.clone(), source.domain.clone());
        entry.places.remove(&domain);
        entry.tried_on.insert(domain.clone());
        entry.running.push(job);
        let family = entry.family.clone();
        if self.slots.take(owner, late) {
            self.stirred.extend(self.slots.domains_of_sharers().cloned());
        }
        self.jobs_changed = true;
        let running = Running {
            entry: number,
            owner,
            url: url.clone(),
            domain,
            wants: wants.clone(),
            started: now,
            received: 0,
            reserved: bytes_max,
            cancelled: false,
            late,
        };
        self.jobs.insert(job, running);
        self.actions.push_back(HuntAction::Fetch { job, family, url, wants, bytes_max });
        true
    }

    /// New wants need a job, and there are too many: one that nobody needs any more gives way, or
    /// else a second opinion.
    pub(super) fn drop_needless_job(&mut self, number: u64) {
        let Some(entry) = self.entries.get(&number) else { return };
        let running = || entry.running.iter().filter_map(|job| Some((*job, self.jobs.get(job)?)));
        let is_asked = |oid: &Oid| running().any(|(_, it)| it.wants.contains(oid));
        if entry.running.len() < JOBS_MAX || entry.wants.iter().all(is_asked) {
            return;
        }
        let useless = |it: &Running| it.wants.is_disjoint(&entry.wants);
        let is_second = |job: Job, it: &Running| {
            let others = || running().filter(|(other, _)| *other != job);
            let mut wanted = it.wants.intersection(&entry.wants);
            wanted.all(|oid| others().any(|(_, other)| other.wants.contains(oid)))
        };
        let first_useless = running().find(|(_, it)| useless(it));
        let last_second = || running().rfind(|(job, it)| is_second(*job, it));
        if let Some((job, _)) = first_useless.or_else(last_second) {
            self.cancel(job, "not needed any more");
        }
    }

    /// A look, or another source, when the time comes.
    pub(super) fn set_hedge(&mut self, number: u64, at: Option<Time>) {
        match at {
            Some(at) => self.timers.set(Alarm::Hedge(number), at),
            None => self.timers.clear(Alarm::Hedge(number)),
        }
    }
}

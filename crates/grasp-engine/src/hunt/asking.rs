//! Whom a family asks for what: every object that is wanted has one job that was asked for it, and a
//! second one on another domain when the first takes long (S-37). Invariant: in one attempt no
//! source is asked twice for the same object.

use super::alarm::Alarm;
use super::candidate::Candidate;
use super::entry::Entry;
use super::jobs::Running;
use super::machine::Hunt;
use super::pack_pace::PackPace;
use super::proposals::PROPOSAL_FETCH_MAX;
use super::slot_class::SlotClass;
use super::slots::{SlotClaim, Waits};
use super::{HuntAction, Job};
use grasp_core::{Domain, Oid, Time};
use std::collections::BTreeSet;

/// Of one family at a time.
pub(super) const JOBS_MAX: usize = 4;
/// Of those for what strangers propose, while a state lacks something.
const PROPOSALS_BESIDE_STATES_MAX: usize = 1;

/// What a family could ask for right now.
#[derive(Debug, Default)]
pub(super) struct Needs {
    /// Nobody is asked for these.
    bare: BTreeSet<Oid>,
    /// On this domain somebody was asked for these, alone, and takes long.
    slow: Vec<(Domain, BTreeSet<Oid>)>,
    /// When the next of those who are asked alone takes long.
    pub(super) hedge_at: Option<Time>,
    /// No more may be asked for what strangers propose.
    no_proposals: bool,
    /// Something of that waits.
    pub(super) proposals_wait: bool,
}

/// What to ask which source for.
#[derive(Debug)]
pub(super) struct Question {
    index: usize,
    wants: BTreeSet<Oid>,
    pub(super) claim: SlotClaim,
}

/// How many at a time may fetch what strangers propose.
pub(super) fn proposals_max(entry: &Entry) -> usize {
    if entry.lacks_of_states() { PROPOSALS_BESIDE_STATES_MAX } else { JOBS_MAX }
}

/// Does a state name any of these? `None` if there are none.
fn any_of_states(mut oids: impl Iterator<Item = Oid>, entry: &Entry) -> Option<bool> {
    let is_of_state = |oid: Oid| !entry.proposed.contains(&oid);
    let first = oids.next()?;
    Some(is_of_state(first) || oids.any(is_of_state))
}

impl Needs {
    pub(super) fn of(bare: BTreeSet<Oid>) -> Self {
        Self { bare, ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.bare.is_empty() && self.slow.is_empty()
    }

    /// None of these, and no stranger's address.
    fn leave_out(&mut self, proposed: &BTreeSet<Oid>) {
        let is_left = |oid: &Oid| !proposed.contains(oid);
        let count = self.bare.len();
        self.bare.retain(is_left);
        (self.no_proposals, self.proposals_wait) = (true, self.bare.len() < count);
        self.slow.iter_mut().for_each(|(_, wants)| wants.retain(is_left));
        self.slow.retain(|(_, wants)| !wants.is_empty());
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
        let is_proposal = |it: &&Running| it.claim.class == SlotClass::Proposal;
        if running().filter(is_proposal).count() >= proposals_max(entry) {
            needs.leave_out(&entry.proposed);
        }
        if entry.running.len() >= JOBS_MAX {
            needs.slow.clear();
            needs.bare.clear();
        }
        needs
    }

    /// What a source can be asked for: what no other is, else what takes long elsewhere.
    fn question(&self, source: &Candidate, needs: &Needs, now: Time) -> BTreeSet<Oid> {
        let left = |wants| source.questions(wants, self.absent.at(&source.url, now), now);
        let bare: BTreeSet<Oid> = left(&needs.bare).collect();
        match bare.is_empty() {
            true => needs.slow_beside(&source.domain).flat_map(left).collect(),
            false => bare,
        }
    }

    /// The slot that a question to this source would need, if there is one. A question is about
    /// states if it is about anything that a state names, but not to a stranger's own address.
    pub(super) fn class_at(
        &self,
        entry: &Entry,
        source: &Candidate,
        needs: &Needs,
        now: Time,
    ) -> Option<SlotClass> {
        let left = |wants| source.questions(wants, self.absent.at(&source.url, now), now);
        let slow = || needs.slow_beside(&source.domain).flat_map(left);
        let of_states =
            any_of_states(left(&needs.bare), entry).or_else(|| any_of_states(slow(), entry))?;
        let class = match of_states && !source.proposed {
            true => SlotClass::of_states(entry.standing),
            false => SlotClass::Proposal,
        };
        Some(class).filter(|it| !needs.no_proposals || *it != SlotClass::Proposal)
    }

    /// The slot that is needed to ask for something on this domain, states first.
    pub(super) fn class_on(
        &self,
        entry: &Entry,
        domain: &Domain,
        needs: &Needs,
        now: Time,
    ) -> Option<SlotClass> {
        let sources = entry.sources.iter();
        let sources = sources.filter(|it| it.domain == *domain && it.is_untried(now));
        let classes = sources.filter_map(|source| self.class_at(entry, source, needs, now));
        classes.min_by_key(|class| *class == SlotClass::Proposal)
    }

    /// The first source that may be asked right now without passing another family that waits for
    /// its domain. States come before what strangers propose; then those that failed or say nothing
    /// come last.
    pub(super) fn free_source(&self, number: u64, needs: &Needs, now: Time) -> Option<Question> {
        let entry = self.entries.get(&number).filter(|_| !needs.is_empty())?;
        let owner = entry.family.owner;
        let mut best: Option<((bool, bool), usize, SlotClaim)> = None;
        for (index, source) in entry.sources.iter().enumerate() {
            let domain = &source.domain;
            let late = self.neighbours.is_late(domain, now);
            if best.is_some_and(|(rank, ..)| rank <= (false, late))
                || !source.is_untried(now)
                || !self.neighbours.is_free(domain, &owner, &self.settings, now)
            {
                continue;
            }
            let Some(class) = self.class_at(entry, source, needs, now) else { continue };
            let rank = (class == SlotClass::Proposal, late);
            if best.is_none_or(|(other, ..)| rank < other) {
                best = Some((rank, index, SlotClaim { class, owner, late }));
            }
        }
        let (_, index, claim) = best?;
        let wants = self.question(entry.sources.get(index)?, needs, now);
        Some(Question { index, wants, claim })
    }

    /// The first source on a domain whose turn for such a slot has come.
    fn source_on(
        &self,
        number: u64,
        domain: &Domain,
        class: SlotClass,
        now: Time,
    ) -> Option<Question> {
        let needs = self.needs(number, now);
        let entry = self.entries.get(&number)?;
        let late = self.neighbours.is_late(domain, now);
        let claim = SlotClaim { class, owner: entry.family.owner, late };
        let is_it = |source: &Candidate| {
            source.domain == *domain
                && source.is_untried(now)
                && self.class_at(entry, source, &needs, now) == Some(class)
        };
        let (index, source) = entry.sources.iter().enumerate().find(|(_, it)| is_it(it))?;
        Some(Question { index, wants: self.question(source, &needs, now), claim })
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
        self.conclude(number, now);
        let question = self.free_source(number, &self.needs(number, now), now);
        if let Some(question) = question {
            let claim = question.claim;
            let waits = self.slots.claim_of(&who);
            if waits.is_none_or(|it| it.class != claim.class || claim.late && !it.late) {
                // What it waited for is busy or done by now, and it has no place for this yet.
                self.slots.join(who, claim);
                return self.carry_on(number, now);
            }
            if self.start(number, question, now) {
                self.slots.charge(claim);
            }
        }
        self.slots.leave(&who);
        self.carry_on(number, now);
    }

    /// Its turn on a domain has come. True if something was started.
    pub(super) fn start_from_queue(
        &mut self,
        number: u64,
        domain: &Domain,
        class: SlotClass,
        now: Time,
    ) -> bool {
        self.conclude(number, now);
        let question = self.source_on(number, domain, class, now);
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
        let Question { index, wants, claim } = question;
        let Some(entry) = self.entries.get_mut(&number) else { return false };
        let Some(source) = entry.sources.get_mut(index) else { return false };
        let opened = self.neighbours.open(&source.domain, Some(claim.owner), settings, now);
        let Some(neighbour) = opened else { return false };
        let left = neighbour.budget.left(now).min(self.budget.left(now));
        let bytes_max = left.min(source.bytes_left(now));
        neighbour.budget.reserve(bytes_max);
        self.budget.reserve(bytes_max);
        self.next_job += 1;
        let job = Job(self.next_job);
        neighbour.note_request(settings, now);
        neighbour.begin(job, now);
        neighbour.queue.leave_served(number, claim.class);
        self.stirred.insert(source.domain.clone());
        self.totals.requests += 1;

        source.ask(&wants);
        (source.asked, source.said) = (Some(now), "being asked".into());
        let (url, domain) = (source.url.clone(), source.domain.clone());
        entry.places.remove(&domain);
        entry.tried_on.insert(domain.clone());
        entry.running.push(job);
        let family = entry.family.clone();
        if self.slots.take(claim) {
            self.stirred.extend(self.slots.domains_of_sharers().cloned());
        }
        self.jobs_changed = true;
        let running = Running {
            entry: number,
            claim,
            url: url.clone(),
            domain,
            wants: wants.clone(),
            started: now,
            pace: PackPace::new(now),
            reserved: bytes_max,
            cancelled: false,
        };
        self.jobs.insert(job, running);
        if claim.class == SlotClass::Proposal {
            self.timers.set(Alarm::Overdue(job), now.plus(PROPOSAL_FETCH_MAX));
        }
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

//! Jobs while they run and when they end: what they bring, what they cost, and what their servers
//! say. Invariant: a job holds its slot and its bytes until it has ended, cancelled or not.

use super::alarm::Alarm;
use super::candidate::shortened;
use super::machine::Hunt;
use super::pack_pace::PackPace;
use super::slot_class::SlotClass;
use super::slots::{SlotClaim, Waits};
use super::{FamilyId, FamilyStanding, HuntAction, HuntNews, Job, JobEnd, Outcome};
use grasp_core::{CloneUrl, Domain, Oid, Time};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long what may never be asked, and our own address, are not looked at again.
const FORBIDDEN_FOR: Duration = Duration::from_secs(3600);
/// Owners remembered for a fetch that succeeded. Later ones are known once their repository is served.
const PROVEN_OWNERS_MAX: usize = 100_000;
/// The shortest pause. A server that says zero would be asked without end.
const PAUSE_MIN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Running {
    pub(super) entry: u64,
    /// The slot it holds. Late: its domain failed or said nothing when it was asked.
    pub(super) claim: SlotClaim,
    pub(super) url: CloneUrl,
    pub(super) domain: Domain,
    pub(super) wants: BTreeSet<Oid>,
    pub(super) started: Time,
    pub(super) pace: PackPace,
    /// Reserved and not yet paid.
    pub(super) reserved: u64,
    /// The entry goes on without it.
    pub(super) cancelled: bool,
}

impl Hunt {
    pub(super) fn wants_request(&mut self, job: Job) {
        let Some(running) = self.jobs.get(&job).filter(|job| !job.cancelled) else { return };
        let Some(neighbour) = self.neighbours.get_mut(&running.domain) else { return };
        if !neighbour.asking.contains(&job) {
            neighbour.asking.push_back(job);
            self.stirred.insert(running.domain.clone());
        }
    }

    pub(super) fn received(&mut self, job: Job, bytes: u64, pack_bytes: u64, now: Time) {
        let Some(running) = self.jobs.get_mut(&job) else { return };
        let entry = self.entries.get_mut(&running.entry);
        if let Some(source) = entry.and_then(|entry| entry.source_mut(&running.url)) {
            source.pay(bytes, now);
        }
        let reserved = running.reserved.min(bytes);
        running.reserved -= reserved;
        running.pace.add(pack_bytes, now);
        self.budget.pay(bytes, now);
        self.budget.give_back(reserved);
        if let Some(neighbour) = self.neighbours.get_mut(&running.domain) {
            neighbour.budget.pay(bytes, now);
            neighbour.budget.give_back(reserved);
            if pack_bytes > 0 {
                neighbour.hear(now);
            }
        }
        let waits = |class| Waits::Domain(running.domain.clone(), class);
        let claims = SlotClass::ALL.into_iter().map(|class| self.slots.claim_of(&waits(class)));
        if claims.flatten().any(|claim| claim.late) {
            self.stirred.insert(running.domain.clone());
        }
    }

    pub(super) fn ended(&mut self, job: Job, end: JobEnd, now: Time) {
        self.received(job, end.bytes, 0, now);
        let Some(running) = self.jobs.remove(&job) else { return };
        self.timers.clear(Alarm::Overdue(job));
        if self.slots.give_back(running.claim) {
            // It may be the better name now.
            self.stirred.extend(self.slots.domains_of_sharers().cloned());
        }
        self.leaving = self.leaving.saturating_sub(usize::from(running.cancelled));
        self.jobs_changed = true;
        self.totals.found += end.found.len() as u64;
        self.budget.give_back(running.reserved);
        if let Some(neighbour) = self.neighbours.get_mut(&running.domain) {
            neighbour.budget.give_back(running.reserved);
            neighbour.end(job);
        }
        self.stirred.insert(running.domain.clone());
        self.heed(&running.domain, &end.outcome, now);
        let until = running.started.plus(self.settings.absent_for);
        self.absent.remember(&running.url, &end.absent, until, now);
        let matters = !running.cancelled || !end.found.is_empty();
        if !end.found.is_empty() {
            self.prove_owner(running.entry, now);
        }
        self.note(job, &running, end, now);
        if matters {
            self.carry_on(running.entry, now);
        }
    }

    /// A fetch for this owner succeeded, so its new repositories no longer wait with those of
    /// unknown owners.
    fn prove_owner(&mut self, number: u64, now: Time) {
        let Some(family) = self.entries.get(&number).map(|it| it.family.clone()) else { return };
        let is_new = self.proven.len() < PROVEN_OWNERS_MAX && self.proven.insert(family.owner);
        if !is_new {
            return;
        }
        let of_owner = |it: &&FamilyId| it.owner == family.owner;
        let before = self.numbers.range(..&family).rev().take_while(|(it, _)| of_owner(it));
        let behind = self.numbers.range(&family..).take_while(|(it, _)| of_owner(it));
        let numbers: Vec<u64> = before.chain(behind).map(|(_, number)| *number).collect();
        for other in numbers {
            let Some(entry) = self.entries.get_mut(&other) else { continue };
            if entry.standing == FamilyStanding::UnknownOwner {
                entry.standing = FamilyStanding::KnownOwner;
                if other != number {
                    self.carry_on(other, now);
                }
            }
        }
    }

    /// What the end of a job says about its domain.
    fn heed(&mut self, domain: &Domain, outcome: &Outcome, now: Time) {
        let settings = &self.settings;
        let Some(neighbour) = self.neighbours.get_mut(domain) else { return };
        let longest = settings.slow_down_max.max(PAUSE_MIN);
        match outcome {
            Outcome::Answered | Outcome::Lacks(_) => {
                neighbour.failing = false;
                neighbour.hear(now);
            }
            Outcome::Failed(_) => neighbour.failing = true,
            Outcome::SlowDown { retry_after } => {
                let pause = retry_after.unwrap_or(settings.slow_down_for);
                let until = now.plus(pause.clamp(PAUSE_MIN, longest));
                neighbour.object(until, settings, now);
                let until = neighbour.paused_until;
                self.tell(HuntNews::SlowedDown { domain: domain.clone(), until });
            }
            Outcome::Crowded { until } => {
                neighbour.pause((*until).clamp(now.plus(PAUSE_MIN), now.plus(longest)));
            }
            // Of one repository that is all it says, and nothing of the others on this domain.
            Outcome::Unacceptable(_) | Outcome::TooLarge => {}
            Outcome::Forbidden(_) | Outcome::Ourselves | Outcome::Cancelled => {}
        }
    }

    /// What the end of a job says about its family.
    fn note(&mut self, job: Job, running: &Running, end: JobEnd, now: Time) {
        let Some(entry) = self.entries.get_mut(&running.entry) else { return };
        entry.running.retain(|other| *other != job);
        entry.wants.retain(|oid| !end.found.contains(oid));
        if let Some(look) = &mut entry.look {
            look.found.extend(end.found.iter().copied());
        }
        let Some(source) = entry.source_mut(&running.url) else { return };
        if running.cancelled && end.outcome == Outcome::Cancelled {
            return;
        }
        (source.found, source.absent) = (end.found.len(), end.absent.len());
        match &end.outcome {
            Outcome::Forbidden(_) | Outcome::Ourselves => {
                source.not_before = now.plus(FORBIDDEN_FOR);
            }
            Outcome::Unacceptable(_) | Outcome::TooLarge => {
                let failed = |oid: &&Oid| !end.found.contains(oid) && !end.absent.contains(oid);
                source.refuse(running.wants.iter().filter(failed).copied().collect(), now);
            }
            // It was not asked at all.
            Outcome::Crowded { .. } => source.take_back(&running.wants),
            _ => {}
        }
        let crowded = matches!(end.outcome, Outcome::Crowded { .. });
        let failure = end.outcome.failure();
        source.said = said(end);
        let why = source.said.to_string();
        if crowded {
            entry.tried_on.remove(&running.domain);
        }
        if let Some(failure) = failure {
            let url = running.url.clone();
            self.tell(HuntNews::FetchFailed { url, failure, why });
        }
    }

    pub(super) fn cancel_running(&mut self, number: u64) {
        let Some(entry) = self.entries.get(&number) else { return };
        for job in entry.running.clone() {
            self.cancel(job, "not needed any more");
        }
    }

    /// The entry goes on without this job, whose slot stays taken until it has ended.
    pub(super) fn cancel(&mut self, job: Job, why: &'static str) {
        let Some(running) = self.jobs.get_mut(&job).filter(|it| !it.cancelled) else { return };
        running.cancelled = true;
        self.leaving += 1;
        self.jobs_changed = true;
        if let Some(neighbour) = self.neighbours.get_mut(&running.domain) {
            neighbour.asking.retain(|asking| *asking != job);
        }
        if let Some(entry) = self.entries.get_mut(&running.entry) {
            entry.running.retain(|other| *other != job);
            if let Some(source) = entry.source_mut(&running.url) {
                source.said = why.into();
            }
        }
        self.actions.push_back(HuntAction::Cancel { job });
    }

    /// The domain wants to be left alone for long, so this job would only hold up others. Its
    /// source is asked another time.
    pub(super) fn put_off(&mut self, job: Job, now: Time) {
        let Some(running) = self.jobs.get(&job) else { return };
        let (number, url, wants) = (running.entry, running.url.clone(), running.wants.clone());
        self.cancel(job, "put off: it wants to be left alone");
        if let Some(source) = self.entries.get_mut(&number).and_then(|it| it.source_mut(&url)) {
            source.take_back(&wants);
        }
        self.carry_on(number, now);
    }
}

/// For people.
fn said(end: JobEnd) -> Cow<'static, str> {
    match end.outcome {
        Outcome::Answered if end.found.is_empty() => "answered, has nothing of this".into(),
        Outcome::Answered if end.absent.is_empty() => "answered".into(),
        Outcome::Answered => "answered, has a part of this".into(),
        Outcome::SlowDown { .. } => "asked us to slow down".into(),
        Outcome::Lacks(why) | Outcome::Failed(why) => shortened(why),
        Outcome::Unacceptable(why) | Outcome::Forbidden(why) => shortened(why),
        Outcome::Ourselves => "is this very server".into(),
        Outcome::Crowded { .. } => "not asked: its address has enough requests already".into(),
        Outcome::TooLarge => "sends more than we take at a time".into(),
        Outcome::Cancelled => "not needed any more".into(),
    }
}

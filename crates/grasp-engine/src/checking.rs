//! One check of how a relay stands for some repositories (S-30): first what their people signed for
//! them, then what was written about them. What we lack is fetched; a difference that stays is narrowed
//! down to the repositories it is about; and what the relay says it has it is asked for, a little of it.

use crate::groups::Layer;
use crate::question::{Question, Work};
use crate::relay::{Around, Relay};
use crate::session::{Negentropy, Session};
use crate::timers::Concern;
use crate::vocabulary::{Action, Doubt, Page, Reconciliation};
use crate::wanted::Repo;
use grasp_core::{Filter, Kind, Time};
use std::time::Duration;

/// Some repositories of one group, to be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) group: u32,
    pub(crate) members: Vec<u32>,
    half: Half,
    /// How often something was fetched because of this half.
    rounds: u8,
    /// One side lacked something.
    differs: bool,
    /// It did not give out what it had said it has.
    missed: bool,
}

/// What of a repository is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    /// Announcements and states.
    Signed,
    /// What refers to it.
    About,
}

/// After so many the difference is taken for one that stays.
const ROUNDS_MAX: u8 = 3;
/// Whoever lacked something may have it soon.
const RECHECK_FIRST: Duration = Duration::from_secs(60);
/// A relay that keeps so much of what it names is not believed; fewer may be chance.
const KEPT_MIN: usize = 20;
const KEPT_MAX: usize = 10_000;
/// How soon something is tried again that could not be found out.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// So few are not compared one by one only because all of them together cannot be.
const FEW: usize = 12;

impl Check {
    pub(crate) fn of(group: u32, members: Vec<u32>) -> Self {
        Self { group, members, half: Half::Signed, rounds: 0, differs: false, missed: false }
    }
}

impl Relay {
    /// The next check, if it is time for one.
    pub(crate) fn next_check(&self, now: Time) -> Option<Result<(), Time>> {
        let session = self.session()?;
        let busy = session.asked.values().any(|asked| asked.work.question.verifies());
        if session.checks.is_empty() || busy {
            return None;
        }
        let not_before = match session.negentropy {
            Negentropy::Yes => self.check_at,
            Negentropy::NotBefore(until, _) => self.check_at.max(until),
            Negentropy::No => return None,
        };
        Some(if not_before > now { Err(not_before) } else { Ok(()) })
    }

    pub(crate) fn take_check(&mut self, now: Time) -> Option<Work> {
        let gap = self.pace.as_ref().map_or(Duration::from_secs(1), |pace| pace.every());
        self.check_at = now.plus(gap * 2);
        let question = self.session_mut()?.checks.pop_front()?;
        Some(Work { batch: None, question })
    }

    pub(crate) fn check_filter(&self, check: &Check, around: &Around<'_>) -> Filter {
        let repos = check.members.iter().filter_map(|it| around.wanted.repo(*it));
        let (letter, kinds) = match check.half {
            Half::Signed => (b'd', Some([Kind::ANNOUNCEMENT, Kind::STATE].into())),
            Half::About => (b'a', None),
        };
        let value = |repo: &Repo| match check.half {
            Half::Signed => repo.id.identifier.to_string(),
            Half::About => repo.id.coordinate().to_string(),
        };
        let mut filter = Filter { kinds, ..Filter::default() };
        filter.tags.insert(letter, repos.map(value).collect());
        filter
    }

    /// Both sides are compared.
    pub(crate) fn handle_check(
        &mut self,
        mut check: Check,
        found: Reconciliation,
        around: &mut Around<'_>,
    ) {
        self.brake.answered();
        if self.has_stopped_comparing() {
            return self.check_failed(&check, around);
        }
        let Reconciliation { mut need, lacking, sample, .. } = found;
        check.differs |= lacking > 0;
        let ids_max = self.ids_max(around.settings);
        let Some(session) = self.session_mut() else { return };
        let question = match need.is_empty() {
            true if sample.is_empty() => return self.half_settled(check, around),
            true => Question::CheckSample(check, sample),
            false if check.rounds >= ROUNDS_MAX => return self.stays_different(check, around),
            false => {
                need.truncate(ids_max);
                Question::CheckIds(Check { rounds: check.rounds + 1, ..check }, need)
            }
        };
        session.checks.push_front(question);
    }

    /// What it named was asked for.
    pub(crate) fn handle_checked_ids(
        &mut self,
        check: Check,
        asked: usize,
        page: &Page,
        around: &mut Around<'_>,
    ) {
        if !self.may_believe(&check, asked, page, around) {
            return;
        }
        // What did not come, or found no room here, is lacked until it is asked for again.
        match page.missing.len() + page.no_room.len() < asked {
            false => self.stays_different(check, around),
            true => self.check_again(check),
        }
    }

    /// Some of what it says it has was asked for. Who does not give that out may say anything; but
    /// something may have been replaced meanwhile, so it is compared once more.
    pub(crate) fn handle_sample(
        &mut self,
        check: Check,
        asked: usize,
        page: &Page,
        around: &mut Around<'_>,
    ) {
        if !self.may_believe(&check, asked, page, around) {
            return;
        }
        let all = page.missing.len() >= asked;
        match (page.missing.is_empty(), check.missed) {
            (true, _) => self.half_settled(check, around),
            (false, false) => self.check_again(Check { missed: true, ..check }),
            (false, true) if all => self.cannot_tell(&check, Doubt::Keeps, around),
            (false, true) if check.members.len() > 1 => self.narrow(check),
            (false, true) => self.cannot_tell(&check, Doubt::Keeps, around),
        }
    }

    /// A question about events by their names was not answered, or refused. That is no reason to ask
    /// nothing else.
    pub(crate) fn handle_unanswered(
        &mut self,
        question: Question,
        doubt: Doubt,
        around: &mut Around<'_>,
    ) {
        match question {
            Question::CheckIds(check, _) => self.stays_different(check, around),
            Question::CheckSample(check, _) => self.cannot_tell(&check, doubt, around),
            _ => {}
        }
    }

    /// A comparison failed by itself: perhaps there is too much of it.
    pub(crate) fn handle_failed_check(&mut self, check: Check, around: &mut Around<'_>) {
        match check.members.len() > FEW {
            true => self.narrow(check),
            false => self.cannot_tell(&check, Doubt::Failed, around),
        }
    }

    /// The relay does not compare so many events at once.
    pub(crate) fn check_fewer(&mut self, check: Check, around: &mut Around<'_>) {
        match check.members.len() > 1 {
            true => self.narrow(check),
            false => self.cannot_tell(&check, Doubt::Failed, around),
        }
    }

    /// Events were asked for by name: does it make sense to go on after what came of it?
    fn may_believe(
        &mut self,
        check: &Check,
        asked: usize,
        page: &Page,
        around: &mut Around<'_>,
    ) -> bool {
        if self.has_stopped_comparing() {
            self.check_failed(check, around);
            return false;
        }
        let keeps_most = self.keeps_most(asked, page);
        if keeps_most {
            self.disbelieve(around);
        }
        !keeps_most
    }

    fn has_stopped_comparing(&self) -> bool {
        self.session().is_none_or(|session| session.negentropy == Negentropy::No)
    }

    /// Counts what came of what it named.
    fn keeps_most(&mut self, asked: usize, page: &Page) -> bool {
        let Some(session) = self.session_mut() else { return false };
        session.given += asked - page.missing.len().min(asked);
        let room = KEPT_MAX.saturating_sub(session.kept.len());
        session.kept.extend(page.missing.iter().take(room));
        session.kept.len() >= KEPT_MIN && session.given * 10 <= session.kept.len()
    }

    fn check_again(&mut self, check: Check) {
        if let Some(session) = self.session_mut() {
            session.checks.push_front(Question::Check(check));
        }
    }

    fn cannot_tell(&mut self, check: &Check, doubt: Doubt, around: &mut Around<'_>) {
        self.tell_doubt(&check.members, doubt, around);
        self.check_ended(&Check { differs: true, ..check.clone() }, around);
    }

    /// It keeps naming what it does not give out. About one repository that is all there is to say;
    /// of several, each half is looked at by itself.
    fn stays_different(&mut self, mut check: Check, around: &mut Around<'_>) {
        check.differs = true;
        match check.members.len() < 2 {
            true => self.half_settled(check, around),
            false => self.narrow(check),
        }
    }

    fn narrow(&mut self, mut check: Check) {
        let rest = check.members.split_off(check.members.len() / 2);
        let Some(session) = self.session_mut() else { return };
        for members in [rest, check.members] {
            session.checks.push_front(Question::Check(Check { members, rounds: 0, ..check }));
        }
    }

    fn half_settled(&mut self, check: Check, around: &mut Around<'_>) {
        if self.has_stopped_comparing() {
            return self.check_failed(&check, around);
        }
        if check.half == Half::Signed {
            let about = Check { half: Half::About, rounds: 0, missed: false, ..check };
            return self.check_again(about);
        }
        let repos = self.repo_ids(&check.members, around);
        around.act(Action::Stands { relay: self.url.clone(), repos });
        self.check_ended(&check, around);
    }

    /// It is known how these stand. Where somebody lacks something it is looked at again soon, and
    /// then ever less.
    fn check_ended(&mut self, check: &Check, around: &mut Around<'_>) {
        let (now, alarm) = (around.now, self.alarm(Concern::Verify));
        let goes_on = |it: &Session| it.checks_under_way().any(|it| it.group == check.group);
        let is_last = !self.session().is_some_and(goes_on);
        let Some(group) = self.group_mut(check.group) else { return };
        group.differs |= check.differs;
        if !is_last {
            return;
        }
        group.verified = now;
        let every = around.settings.verified_every().unwrap_or_default();
        match std::mem::take(&mut group.differs) {
            false => group.recheck_gap = Duration::ZERO,
            true => {
                let first = RECHECK_FIRST.min(every / 4);
                group.recheck_gap = (group.recheck_gap * 2).clamp(first, every.max(first));
                let at = now.plus(group.recheck_gap);
                group.is_due(at);
                around.timers.at_latest(alarm, at);
                around.act(Action::Remember(self.url.clone()));
            }
        }
    }

    /// It was not found out, and is tried again, with all that belongs to it.
    pub(crate) fn check_failed(&mut self, check: &Check, around: &mut Around<'_>) {
        let at = around.now.plus(AGAIN_AFTER);
        if let Some(session) = self.session_mut() {
            session.checks.retain(|it| it.check().is_none_or(|it| it.group != check.group));
        }
        if let Some(group) = self.group_mut(check.group) {
            group.differs = false;
            group.is_due(at);
            around.timers.at_latest(self.alarm(Concern::Verify), at);
        }
    }

    /// A comparison of the past showed a difference: how it stands is found out when that is over.
    pub(crate) fn compared(&mut self, question: &Question, differs: bool, now: Time) {
        if let Question::Compare(part, walk) = question
            && walk.left.since.is_none()
            && let Some(group) = self.group_mut(part.group)
            && (differs && group.layer == Layer::Repos)
        {
            group.is_due(now);
        }
    }
}

impl Question {
    pub(crate) fn check(&self) -> Option<&Check> {
        match self {
            Self::Check(check) | Self::CheckIds(check, _) | Self::CheckSample(check, _) => {
                Some(check)
            }
            _ => None,
        }
    }

    /// Does it only show how the relay stands?
    pub(crate) fn verifies(&self) -> bool {
        self.check().is_some() || matches!(self, Self::Probe(_))
    }

    /// Does it only show how the relay stands, by REQ? Nothing depends on its answer.
    pub(crate) fn verifies_by_request(&self) -> bool {
        self.verifies() && !self.compares()
    }

    /// Is it asked by NIP-77?
    pub(crate) fn compares(&self) -> bool {
        match self {
            Self::Compare(..) | Self::Check(_) => true,
            Self::Probe(probe) => probe.compares(),
            _ => false,
        }
    }
}

impl Session {
    /// Those that have not come to an end.
    pub(crate) fn checks_under_way(&self) -> impl Iterator<Item = &Check> {
        let asked = self.asked.values().map(|asked| &asked.work);
        let open = asked.chain(&self.after_auth).map(|work| &work.question);
        open.chain(&self.checks).filter_map(Question::check)
    }
}

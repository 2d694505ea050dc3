//! One check of how a relay stands for some repositories (S-30): first what their people signed for
//! them, then what was written about them. What we lack is fetched; a difference that stays is narrowed
//! down to the repositories it is about; and what the relay says it has it is asked for, a little of it.

use crate::groups::Layer;
use crate::history::{Question, Work, session_compares};
use crate::relay::{Around, Relay, Session};
use crate::timers::Concern;
use crate::vocabulary::{Action, Doubt, Page};
use crate::wanted::Repo;
use grasp_core::{EventId, Filter, Kind, Time};
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
}

/// What of a repository is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    /// Announcements and states.
    Signed,
    /// What refers to it.
    About,
}

/// What a comparison came to.
#[derive(Debug)]
pub(crate) struct Difference {
    pub(crate) need: Vec<EventId>,
    pub(crate) lacking: usize,
    pub(crate) sample: Vec<EventId>,
}

/// After so many the difference is taken for one that stays.
const ROUNDS_MAX: u8 = 3;
/// Whoever lacked something may have it soon.
const RECHECK_FIRST: Duration = Duration::from_secs(60);
/// A relay that keeps so much of what it names is not believed; fewer may be chance.
const KEPT_MIN: usize = 20;
const KEPT_MAX: usize = 10_000;

impl Check {
    pub(crate) fn of(group: u32, members: Vec<u32>) -> Self {
        Self { group, members, half: Half::Signed, rounds: 0, differs: false }
    }
}

impl Relay {
    /// The next check, if it is time for one.
    pub(crate) fn next_check(&self, now: Time) -> Option<Result<(), Time>> {
        let session = self.session()?;
        let busy = session.asked.values().any(|asked| asked.work.question.check().is_some());
        if session.checks.is_empty() || busy {
            return None;
        }
        Some(if self.check_at > now { Err(self.check_at) } else { Ok(()) })
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
            Half::Signed => (b'd', Some(vec![Kind::ANNOUNCEMENT, Kind::STATE])),
            Half::About => (b'a', None),
        };
        let value = |repo: &Repo| match check.half {
            Half::Signed => repo.id.identifier.to_string(),
            Half::About => repo.id.coordinate().to_string(),
        };
        let mut values: Vec<String> = repos.map(value).collect();
        values.sort_unstable();
        values.dedup();
        let mut filter = Filter { kinds, ..Filter::default() };
        filter.tags.insert(letter, values);
        filter
    }

    /// Both sides are compared.
    pub(crate) fn handle_check(
        &mut self,
        mut check: Check,
        found: Difference,
        around: &mut Around<'_>,
    ) {
        self.brake.answered();
        let Difference { mut need, lacking, sample } = found;
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
        let came = asked - page.missing.len().min(asked);
        let Some(session) = self.session_mut() else { return };
        session.given += came;
        let room = KEPT_MAX.saturating_sub(session.kept.len());
        session.kept.extend(page.missing.iter().take(room));
        if session.kept.len() >= KEPT_MIN && session.given * 10 <= session.kept.len() {
            return self.disbelieve(around);
        }
        match came {
            0 => self.stays_different(check, around),
            _ => session.checks.push_front(Question::Check(check)),
        }
    }

    /// Some of what it says it has was asked for. Who does not give that out may say anything.
    pub(crate) fn handle_sample(&mut self, check: Check, page: &Page, around: &mut Around<'_>) {
        if page.missing.is_empty() {
            return self.half_settled(check, around);
        }
        self.tell_doubt(&check.members, Doubt::Keeps, around);
        self.check_ended(&Check { differs: true, ..check }, around);
    }

    /// It keeps naming what it does not give out. About one repository that is all there is to say;
    /// of several, each half is looked at by itself.
    fn stays_different(&mut self, mut check: Check, around: &mut Around<'_>) {
        check.differs = true;
        if check.members.len() < 2 {
            return self.half_settled(check, around);
        }
        let rest = check.members.split_off(check.members.len() / 2);
        let Some(session) = self.session_mut() else { return };
        for members in [rest, check.members] {
            session.checks.push_front(Question::Check(Check { members, rounds: 0, ..check }));
        }
    }

    fn half_settled(&mut self, check: Check, around: &mut Around<'_>) {
        if !session_compares(self.session(), around.now) {
            return self.check_failed(&check);
        }
        if check.half == Half::Signed {
            let about = Check { half: Half::About, rounds: 0, ..check };
            if let Some(session) = self.session_mut() {
                session.checks.push_front(Question::Check(about));
            }
            return;
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
        if is_last {
            group.verified = now;
        }
        let every = around.settings.verified_every().unwrap_or_default();
        if check.differs && group.recheck.is_none() {
            group.recheck_gap = (group.recheck_gap * 2).clamp(RECHECK_FIRST.min(every / 4), every);
            let at = now.plus(group.recheck_gap);
            group.recheck = Some(at);
            around.timers.at_latest(alarm, at);
        } else if is_last && group.recheck.is_none() {
            group.recheck_gap = Duration::ZERO;
        }
    }

    /// It stays due.
    pub(crate) fn check_failed(&mut self, check: &Check) {
        if let Some(group) = self.group_mut(check.group) {
            group.verified = Time(0);
        }
    }

    /// A comparison of the past showed a difference: how it stands is found out when that is over.
    pub(crate) fn compared(&mut self, question: &Question, differs: bool) {
        if let Question::Compare(part, None) = question
            && let Some(group) = self.group_mut(part.group)
            && (differs && group.layer == Layer::Repos)
        {
            group.verified = Time(0);
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

    /// Is it asked by NIP-77?
    pub(crate) fn compares(&self) -> bool {
        matches!(self, Self::Compare(..) | Self::Check(_))
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

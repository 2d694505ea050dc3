//! What is known of how a relay stands is renewed before it is too old (S-30): group by group, by
//! comparison, after everything else and at half the pace. Where that cannot be, it is said why. A
//! difference that stays is narrowed down to the repositories it is about.

use crate::engine::Engine;
use crate::groups::{Group, Layer, Stage};
use crate::history::{Question, Work, session_compares};
use crate::relay::{Around, Link, Negentropy, Relay, Session};
use crate::timers::{Alarm, Concern};
use crate::vocabulary::{Action, Doubt, Page};
use crate::wanted::Wanted;
use crate::{Health, Settings};
use grasp_core::{EventId, Filter, RepoId, Time};
use std::time::Duration;

/// Some repositories of one group, to be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) group: u32,
    pub(crate) members: Vec<u32>,
    /// How often something was fetched because of it.
    rounds: u8,
}

/// After so many the difference is taken for one that stays.
const ROUNDS_MAX: u8 = 3;
/// Whoever lacked something may have it soon.
const RECHECK_FIRST: Duration = Duration::from_secs(60);
/// A relay that keeps so much of what it names is not believed; fewer may be chance.
const KEPT_MIN: usize = 20;
const KEPT_MAX: usize = 10_000;
/// How soon somebody is looked at again who could not be now.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Nothing is due.
const FAR: Time = Time(u64::MAX / 2);
/// Repositories told of at once.
const TOLD_MAX: usize = 200;

impl Settings {
    /// When something is due again; `None`: nobody cares.
    fn verified_every(&self) -> Option<Duration> {
        (!self.verdict_age_max.is_zero()).then(|| self.verdict_age_max / 4 * 3)
    }
}

impl Engine {
    /// Looks whether anything about this relay has to be found out, or told, anew.
    pub(crate) fn verify(&mut self, number: u32, now: Time) {
        self.with(number, now, |relay, around| {
            let Some(every) = around.settings.verified_every() else { return };
            if !relay.is_wanted() {
                return;
            }
            match relay.link {
                Link::Up(_) => relay.verify_linked(every, around),
                Link::Down => relay.verify_away(every, around),
                Link::Dialling { .. } => {}
            }
            let due = relay.next_due(every);
            let soon = now.plus(AGAIN_AFTER.min(every / 4));
            let again = if due > now { due } else { soon };
            around.timers.at_latest(relay.alarm(Concern::Verify), again);
        });
        self.pump(number, now);
    }
}

impl Relay {
    /// Something may have become due.
    pub(crate) fn verify_soon(&self, around: &mut Around<'_>) {
        if around.settings.verified_every().is_some() {
            around.timers.at_latest(self.alarm(Concern::Verify), around.now);
        }
    }

    /// The oldest that is known of it.
    pub(crate) fn oldest_verdict(&self) -> Time {
        let of_repos = self.groups.iter().filter(|group| group.layer == Layer::Repos);
        match self.link {
            Link::Up(_) => of_repos.map(|group| group.verified).min().unwrap_or(FAR),
            Link::Down | Link::Dialling { .. } => self.verified,
        }
    }

    /// When something of it is due, while it is linked or not.
    fn next_due(&self, every: Duration) -> Time {
        let of_repos = self.groups.iter().filter(|group| group.layer == Layer::Repos);
        match self.link {
            Link::Up(_) => of_repos.map(|group| group.due_at(every)).min().unwrap_or(FAR),
            Link::Down | Link::Dialling { .. } => self.verified.max(self.doubted).plus(every),
        }
    }

    fn verify_linked(&mut self, every: Duration, around: &mut Around<'_>) {
        let now = around.now;
        self.doubted = Time(0);
        let due: Vec<u32> = (0..)
            .zip(&self.groups)
            .filter(|(_, group)| group.layer == Layer::Repos && group.due_at(every) <= now)
            .map(|(number, _)| number)
            .collect();
        let known = |number: &u32| self.group(*number).is_some_and(|it| it.verified > Time(0));
        // What it could not do before it may do now; asked once.
        let asked = self.session().map_or(Time(0), |session| session.believed);
        if due.iter().any(known) && self.brake.history_until() <= now && asked.plus(every) <= now {
            self.believe_again(now);
        }
        match self.doubt(around) {
            // It passes soon, and what is known is no less true meanwhile.
            Some(Doubt::RateLimited { until }) if until > now => {
                around.timers.at_latest(self.alarm(Concern::Verify), until);
            }
            Some(doubt) => {
                for number in due {
                    let Some(group) = self.group_mut(number) else { continue };
                    (group.verified, group.recheck) = (now, None);
                    let members = group.members.clone();
                    self.tell_doubt(&members, doubt, around);
                }
                if let Some(session) = self.session_mut() {
                    session.checks.clear();
                }
            }
            None => due.into_iter().for_each(|number| self.check(number)),
        }
    }

    /// Nothing can be compared with who is not there. What is known stays until it is due.
    fn verify_away(&mut self, every: Duration, around: &mut Around<'_>) {
        let doubt = match self.health {
            Health::Healthy => return,
            Health::Degraded { first, .. } | Health::Dead { first, .. } => {
                Doubt::Unreachable { since: first }
            }
            Health::Banned { .. } => Doubt::Refused,
        };
        if self.verified.max(self.doubted).plus(every) <= around.now {
            self.doubted = around.now;
            // All of it is looked at anew as soon as it is back.
            self.verified = Time(0);
            let of_repos = self.groups.iter_mut().filter(|group| group.layer == Layer::Repos);
            of_repos.for_each(|group| group.verified = Time(0));
            let served = |it: &&u32| Relay::serves(**it, around.wanted);
            let members: Vec<u32> = self.repos.iter().filter(served).copied().collect();
            self.tell_doubt(&members, doubt, around);
        }
    }

    fn serves(repo: u32, wanted: &Wanted) -> bool {
        wanted.repo(repo).is_some_and(|it| it.level == Some(crate::Level::Full))
    }

    fn tell_doubt(&self, members: &[u32], doubt: Doubt, around: &mut Around<'_>) {
        let repo = |it: &u32| around.wanted.repo(*it).map(|repo| repo.id.clone());
        let repos: Vec<RepoId> = members.iter().filter_map(repo).collect();
        for some in repos.chunks(TOLD_MAX) {
            let (relay, repos) = (self.url.clone(), some.to_vec());
            around.act(Action::Doubt { relay, repos, doubt });
        }
    }

    /// Why it cannot be compared with just now, though it is linked.
    fn doubt(&self, around: &Around<'_>) -> Option<Doubt> {
        let session = self.session()?;
        match session.negentropy {
            _ if !around.settings.negentropy => Some(Doubt::TurnedOff),
            _ if self.brake.paused_until > around.now => Some(Doubt::Refused),
            _ if session_compares(Some(session), around.now) => None,
            // One comparison failed, and others are put off for a moment because of it.
            Negentropy::NotBefore(until, _) => Some(Doubt::RateLimited { until }),
            _ => Some(session.doubt.unwrap_or(Doubt::NoNegentropy)),
        }
    }

    fn believe_again(&mut self, now: Time) {
        let Some(session) = self.session_mut() else { return };
        if session.negentropy == Negentropy::No {
            session.believed = now;
            session.negentropy = Negentropy::Yes;
            session.doubt = None;
            session.kept.clear();
            session.given = 0;
        }
    }

    /// Puts a group that is confirmed in the queue; what is not is compared, or read, anyway.
    fn check(&mut self, number: u32) {
        let Some(group) = self.group(number) else { return };
        if group.stage != Stage::Confirmed || group.members.is_empty() {
            return;
        }
        let check = Check { group: number, members: group.members.clone(), rounds: 0 };
        let Some(session) = self.session_mut() else { return };
        let open = session.asked.values().filter_map(|asked| asked.work.question.check());
        if !open.chain(&session.checks).any(|it| it.group == number) {
            session.checks.push_back(check);
            if let Some(group) = self.group_mut(number) {
                group.recheck = None;
            }
        }
    }

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
        let check = self.session_mut()?.checks.pop_front()?;
        Some(Work { batch: None, question: Question::Check(check) })
    }

    /// Both sides are compared for some repositories.
    pub(crate) fn handle_check(
        &mut self,
        check: Check,
        mut need: Vec<EventId>,
        around: &mut Around<'_>,
    ) {
        self.brake.answered();
        if need.is_empty() {
            return;
        }
        if check.rounds >= ROUNDS_MAX {
            return self.narrow(check);
        }
        need.truncate(self.ids_max(around.settings));
        let check = Check { rounds: check.rounds + 1, ..check };
        if let Some(session) = self.session_mut() {
            let question = Question::CheckIds(check, need);
            session.pages.push_back(Work { batch: None, question });
        }
    }

    /// What it named was asked for.
    pub(crate) fn handle_checked_ids(
        &mut self,
        check: Check,
        asked: usize,
        page: &Page,
        around: &mut Around<'_>,
    ) {
        self.brake.answered();
        let came = asked - page.missing.len().min(asked);
        let Some(session) = self.session_mut() else { return };
        session.given += came;
        let room = KEPT_MAX.saturating_sub(session.kept.len());
        session.kept.extend(page.missing.iter().take(room));
        if session.kept.len() >= KEPT_MIN && session.given * 10 <= session.kept.len() {
            return self.disbelieve(around);
        }
        match came {
            0 => self.narrow(check),
            _ => session.checks.push_front(check),
        }
    }

    /// It keeps naming what it does not give out. About one repository that is all there is to say;
    /// of several, each half is looked at by itself.
    fn narrow(&mut self, check: Check) {
        let Check { group, mut members, .. } = check;
        if members.len() < 2 {
            return;
        }
        let rest = members.split_off(members.len() / 2);
        let Some(session) = self.session_mut() else { return };
        for members in [rest, members] {
            session.checks.push_front(Check { group, members, rounds: 0 });
        }
    }

    /// What it says it has is worth nothing.
    pub(crate) fn disbelieve(&mut self, around: &mut Around<'_>) {
        self.no_negentropy(around);
        if let Some(session) = self.session_mut() {
            session.doubt = Some(Doubt::Keeps);
            session.checks.clear();
        }
        for group in &mut self.groups {
            group.verified = Time(0);
        }
        self.verify_soon(around);
    }

    pub(crate) fn check_filter(&self, check: &Check, around: &Around<'_>) -> Filter {
        let coordinate =
            |it: &u32| around.wanted.repo(*it).map(|it| it.id.coordinate().to_string());
        let mut values: Vec<String> = check.members.iter().filter_map(coordinate).collect();
        values.sort_unstable();
        values.dedup();
        let mut filter = Filter::default();
        filter.tags.insert(b'a', values);
        filter
    }

    /// A comparison, of the past or for its own sake, told how both stand: so many we lack, so many
    /// they do.
    pub(crate) fn compared(
        &mut self,
        question: &Question,
        (ours, theirs): (usize, usize),
        around: &mut Around<'_>,
    ) {
        let (number, members) = match question {
            Question::Compare(part, None) if part.part == 1 => (part.group, None),
            Question::Check(check) => (check.group, Some(check.members.len())),
            _ => return,
        };
        let (now, alarm) = (around.now, self.alarm(Concern::Verify));
        let every = around.settings.verified_every();
        let Some(group) = self.group_mut(number).filter(|it| it.layer == Layer::Repos) else {
            return;
        };
        // What had to be fetched first is looked at again when it is here; a check sees to that itself.
        group.verified = if ours > 0 && members.is_none() { Time(0) } else { now };
        let differs = theirs > 0 || (ours > 0 && members.is_some());
        if let Some(every) = every.filter(|_| differs && group.recheck.is_none()) {
            group.recheck_gap = (group.recheck_gap * 2).clamp(RECHECK_FIRST.min(every / 4), every);
            let at = now.plus(group.recheck_gap);
            group.recheck = Some(at);
            around.timers.at_latest(alarm, at);
        } else if !differs && members.is_none_or(|members| members == group.members.len()) {
            (group.recheck, group.recheck_gap) = (None, Duration::ZERO);
        }
    }
}

impl Question {
    pub(crate) fn check(&self) -> Option<&Check> {
        match self {
            Self::Check(check) | Self::CheckIds(check, _) => Some(check),
            _ => None,
        }
    }

    /// Is it asked by NIP-77?
    pub(crate) fn compares(&self) -> bool {
        matches!(self, Self::Compare(..) | Self::Check(_))
    }
}

impl Group {
    fn due_at(&self, every: Duration) -> Time {
        let regular = self.verified.plus(every);
        self.recheck.map_or(regular, |recheck| recheck.min(regular))
    }
}

impl Session {
    /// Groups whose checks did not come to an end.
    pub(crate) fn unverified(&self) -> Vec<u32> {
        let asked = self.asked.values().filter_map(|asked| asked.work.question.check());
        let waiting = self.pages.iter().filter_map(|work| work.question.check());
        asked.chain(waiting).chain(&self.checks).map(|check| check.group).collect()
    }
}

impl Engine {
    /// Somebody asks for it by hand: what made this relay wait is forgotten, and everything is asked
    /// for anew.
    pub(crate) fn refresh(
        &mut self,
        relay: Option<&grasp_core::RelayUrl>,
        repo: Option<&RepoId>,
        now: Time,
    ) {
        let numbers: Vec<u32> = match (relay, repo) {
            (Some(relay), _) => self.numbers.get(relay).copied().into_iter().collect(),
            (None, Some(repo)) => {
                let number = self.wanted.number_of(repo);
                let known = number.and_then(|number| self.wanted.repo(number));
                known.map(|it| it.relays.clone()).unwrap_or_default()
            }
            (None, None) => self.numbers.values().copied().collect(),
        };
        for number in numbers {
            let Some(relay) = self.relay_mut(number) else { continue };
            relay.not_before = Time(0);
            relay.health = relay.health.tried_at(now);
            relay.brake.release();
            match relay.link {
                Link::Up(_) => {
                    relay.believe_again(now);
                    for group in &mut relay.groups {
                        group.verified = Time(0);
                    }
                    self.daily(number, now);
                    self.timers.at_latest(Alarm::Relay(number, Concern::Verify), now);
                }
                Link::Down | Link::Dialling { .. } => self.consider(number, now),
            }
        }
        self.dial(now);
    }
}

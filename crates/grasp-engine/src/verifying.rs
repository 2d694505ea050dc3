//! What is known of how a relay stands is renewed before it is too old (S-30): group by group, after
//! everything else and at half the pace; `checking` does it. Where that cannot be, it is said why.

use crate::checking::Check;
use crate::engine::Engine;
use crate::groups::{Group, Item, Layer, Stage};
use crate::question::Question;
use crate::relay::{Around, Link, Relay};
use crate::session::Negentropy;
use crate::timers::{Alarm, Concern};
use crate::vocabulary::{Action, Doubt, Purpose};
use crate::{Health, Settings};
use grasp_core::{RepoId, Time};
use std::time::Duration;

/// How soon somebody is looked at again who could not be now.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// Nothing is due.
const FAR: Time = Time(u64::MAX / 2);
/// Repositories told of at once.
const TOLD_MAX: usize = 200;

impl Settings {
    /// When something is due again; `None`: nobody cares.
    pub(crate) fn verified_every(&self) -> Option<Duration> {
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
            // It is away, and that was told.
            _ if self.doubted > Time(0) => Time(0),
            Link::Down | Link::Dialling { .. } => self.verified,
        }
    }

    /// When something of it is due, while it is linked or not.
    fn next_due(&self, every: Duration) -> Time {
        let of_repos = self.groups.iter().filter(|group| group.layer == Layer::Repos);
        match self.link {
            Link::Up(_) => of_repos.map(|group| group.due_at(every)).min().unwrap_or(FAR),
            Link::Down | Link::Dialling { .. } => {
                let told = of_repos.map(|group| group.verified).min().unwrap_or(self.verified);
                told.max(self.doubted).plus(every)
            }
        }
    }

    fn verify_linked(&mut self, every: Duration, around: &mut Around<'_>) {
        let now = around.now;
        // What was told of it while it was away is looked at anew.
        if std::mem::take(&mut self.doubted) > Time(0) {
            self.groups.iter_mut().for_each(|group| group.is_due(now));
        }
        let due: Vec<u32> = (0..)
            .zip(&self.groups)
            .filter(|(_, group)| group.layer == Layer::Repos && group.due_at(every) <= now)
            .map(|(number, _)| number)
            .collect();
        let known = |number: &u32| self.group(*number).is_some_and(|it| it.verified > Time(0));
        // What it could not do before it may do now; asked once.
        let asked = self.session().map_or(Time(0), |session| session.believed);
        let may_ask = self.brake.history_until() <= now && self.negentropy.doubt(now).is_none();
        if due.iter().any(known) && may_ask && asked.plus(every) <= now {
            self.believe_again(now);
        }
        match self.doubt(around) {
            // It passes soon, and what is known is no less true meanwhile.
            Some(Doubt::RateLimited { until }) if until > now => {
                around.timers.at_latest(self.alarm(Concern::Verify), until);
            }
            Some(doubt) => {
                let doubt = match doubt {
                    // The moment has passed; it is left alone all the same, until it is asked again.
                    Doubt::RateLimited { .. } => {
                        let asked = self.session().map_or(now, |session| session.believed.max(now));
                        Doubt::RateLimited { until: asked.plus(every) }
                    }
                    doubt => doubt,
                };
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
            None => due.into_iter().for_each(|number| self.check(number, around)),
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
        let now = around.now;
        let mut members = Vec::new();
        let of_repos = self.groups.iter_mut().filter(|group| group.layer == Layer::Repos);
        for group in of_repos.filter(|group| group.verified.plus(every) <= now) {
            group.verified = now;
            members.extend(&group.members);
        }
        let was_never_there = self.groups.iter().all(|group| group.layer != Layer::Repos);
        if was_never_there && self.verified.max(self.doubted).plus(every) <= now {
            members.extend(&self.repos);
        }
        if !members.is_empty() {
            self.doubted = now;
            self.tell_doubt(&members, doubt, around);
        }
    }

    pub(crate) fn tell_doubt(&self, members: &[u32], doubt: Doubt, around: &mut Around<'_>) {
        let repos = self.repo_ids(members, around);
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
            _ if session.compares_at(around.now) => None,
            // One comparison failed, and others are put off for a moment because of it.
            Negentropy::NotBefore(until, _) => Some(Doubt::RateLimited { until }),
            _ => Some(session.doubt.unwrap_or(Doubt::NoNegentropy)),
        }
    }

    fn believe_again(&mut self, now: Time) {
        let Some(session) = self.session_mut() else { return };
        // Its own list of NIPs says that it cannot.
        if session.negentropy == Negentropy::No && session.peer.nip77 != Some(false) {
            session.believed = now;
            session.negentropy = Negentropy::Yes;
            session.doubt = None;
            session.kept.clear();
            session.given = 0;
        }
    }

    /// Puts a group that is confirmed in the queue, or one that only lacks room here; what is neither is
    /// compared, or read, anyway.
    fn check(&mut self, number: u32, around: &Around<'_>) {
        let Some(group) = self.group(number) else { return };
        let members = self.wanted_of(&group.members, around);
        if members.is_empty()
            && let Some(group) = self.group_mut(number)
        {
            (group.verified, group.recheck) = (around.now, None);
            return;
        }
        let is_known =
            |group: &Group| group.stage == Stage::Confirmed || group.crowded_until.is_some();
        if !self.group(number).is_some_and(is_known) {
            return;
        }
        let Some(session) = self.session_mut() else { return };
        if !session.checks_under_way().any(|it| it.group == number) {
            session.checks.push_back(Question::Check(Check::of(number, members)));
            if let Some(group) = self.group_mut(number) {
                group.recheck = None;
            }
        }
    }

    /// Those that still name this relay.
    fn wanted_of(&self, members: &[u32], around: &Around<'_>) -> Vec<u32> {
        let wanted = |number: &&u32| {
            let item = Item { layer: Layer::Repos, number: **number };
            item.is_wanted_on(self.number, around.wanted)
        };
        members.iter().filter(wanted).copied().collect()
    }

    pub(crate) fn repo_ids(&self, members: &[u32], around: &Around<'_>) -> Vec<RepoId> {
        let repo = |it: &u32| around.wanted.repo(*it).map(|repo| repo.id.clone());
        self.wanted_of(members, around).iter().filter_map(repo).collect()
    }

    /// What it says it has is worth nothing.
    pub(crate) fn disbelieve(&mut self, around: &mut Around<'_>) {
        self.no_negentropy(around);
        if let Some(session) = self.session_mut() {
            session.doubt = Some(Doubt::Keeps);
            session.believed = around.now;
            session.checks.clear();
        }
        self.groups.iter_mut().for_each(|group| group.is_due(around.now));
        self.verify_soon(around);
    }
}

impl Group {
    fn due_at(&self, every: Duration) -> Time {
        let regular = self.verified.plus(every);
        self.recheck.map_or(regular, |recheck| recheck.min(regular))
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
            let place = relay.place.clone();
            self.hosts.may_be_dialled(&place, now);
            let Some(relay) = self.relay_mut(number) else { continue };
            match relay.link {
                Link::Up(_) => {
                    relay.negentropy.release();
                    relay.believe_again(now);
                    relay.groups.iter_mut().for_each(|group| group.is_due(now));
                    self.sync_anew(number, Purpose::ByHand, now);
                    self.timers.at_latest(Alarm::Relay(number, Concern::Verify), now);
                }
                Link::Down | Link::Dialling { .. } => self.consider(number, now),
            }
        }
        self.dial(now);
    }
}

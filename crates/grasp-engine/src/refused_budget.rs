//! What one relay may cost us in events that we refuse (S-47). A relay that exceeds its budget, or
//! whose events are almost all refused, is asked for announcements and states by the names of our
//! repositories instead of for all of them. A relay that goes on exceeding it is left alone until the
//! day of its budget ends.

use crate::engine::Engine;
use crate::groups::{Item, Layer, Stage};
use crate::health::Health;
use crate::relay::{Around, Relay};
use crate::timers::Concern;
use crate::vocabulary::{Action, JudgedEvents, News, Sub};
use grasp_core::{RelayUrl, Time};
use serde::{Deserialize, Serialize};
use std::time::Duration;

const MIB: u64 = 1 << 20;
/// Refused events that one relay may send in a day, and what accepted events add to that.
const REFUSED_BYTES_PER_DAY: u64 = 16 * MIB;
const REFUSED_BYTES_PER_REWARD: u64 = MIB;
const ACCEPTED_PER_REWARD: u64 = 100;
const REFUSED_BYTES_PER_DAY_MAX: u64 = 1 << 30;
/// After so many events at least one of a hundred has to be wanted here.
const JUDGED_MIN: u64 = 10_000;
const WANTED_ONE_OF: u64 = 100;
/// Refused bytes that may still come once the relay is asked by name: more than can be on their way.
const OVERRUN_BYTES_MAX: u64 = 1 << 20;
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Groups of layer 1: all announcements, all states.
const FIRST_LAYER_LEN: usize = 2;

/// What came from one relay and was refused. Outlives a restart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct RefusedBudget {
    /// Events that were new here and stored or held.
    pub accepted: u64,
    /// Events that were here already.
    pub known: u64,
    pub refused: u64,
    /// Since `day_began`.
    pub refused_bytes: u64,
    pub day_began: Time,
    /// Announcements and states are asked for by the names of our repositories.
    pub by_name: bool,
}

impl RefusedBudget {
    pub fn received(&self) -> u64 {
        self.accepted.saturating_add(self.known).saturating_add(self.refused)
    }

    /// Bytes of refused events that may come in one day.
    pub fn bytes_max(&self) -> u64 {
        let rewards = self.accepted / ACCEPTED_PER_REWARD;
        let bytes = rewards.saturating_mul(REFUSED_BYTES_PER_REWARD);
        bytes.saturating_add(REFUSED_BYTES_PER_DAY).min(REFUSED_BYTES_PER_DAY_MAX)
    }

    pub fn day_ends(&self) -> Time {
        self.day_began.plus(DAY)
    }

    pub fn is_spent(&self, now: Time) -> bool {
        now < self.day_ends() && self.refused_bytes >= self.bytes_max()
    }

    /// Is almost everything that comes from this relay refused?
    pub fn is_almost_all_refused(&self) -> bool {
        let wanted = self.accepted.saturating_add(self.known);
        self.received() >= JUDGED_MIN && wanted.saturating_mul(WANTED_ONE_OF) < self.received()
    }

    fn is_overrun(&self, now: Time) -> bool {
        now < self.day_ends() && self.refused_bytes > self.bytes_max() + OVERRUN_BYTES_MAX
    }

    fn add(&mut self, judged: &JudgedEvents, now: Time) {
        if now >= self.day_ends() {
            (self.day_began, self.refused_bytes) = (now, 0);
        }
        self.accepted = self.accepted.saturating_add(judged.accepted);
        self.known = self.known.saturating_add(judged.known);
        self.refused = self.refused.saturating_add(judged.refused);
        self.refused_bytes = self.refused_bytes.saturating_add(judged.refused_bytes);
    }

    #[must_use]
    pub(crate) fn with_times(mut self, translate: impl Fn(Time) -> Time) -> Self {
        self.day_began = translate(self.day_began);
        self
    }

    /// A day that began in the future was written by a clock that was wrong.
    #[must_use]
    pub(crate) fn clamped(mut self, now: Time) -> Self {
        self.day_began = self.day_began.min(now);
        self
    }
}

impl Engine {
    pub(crate) fn judged(&mut self, url: &RelayUrl, judged: &JudgedEvents, now: Time) {
        let Some(number) = self.numbers.get(url).copied() else { return };
        let overrun = self.with(number, now, |relay, around| {
            relay.budget.add(judged, now);
            relay.judge_budget(around);
            relay.session().is_some() && relay.budget.is_overrun(now)
        });
        if overrun == Some(true) {
            return self.leave_alone_today(number, now);
        }
        self.pump(number, now);
    }

    /// The day of a spent budget ended, or the relay may have become better.
    pub(crate) fn renew_budget(&mut self, number: u32, now: Time) {
        self.with(number, now, |relay, around| {
            relay.renew_first_layer(around);
            relay.hear_all(around);
        });
        self.pump(number, now);
    }

    /// Refused events still come although the relay is asked by name only.
    fn leave_alone_today(&mut self, number: u32, now: Time) {
        self.unlink(number, now);
        let Some(relay) = self.relay_mut(number) else { return };
        relay.health = Health::Banned { until: relay.budget.day_ends() };
        let url = relay.url.clone();
        self.actions.push_back(Action::Hangup(url));
        self.remember(number);
        self.consider(number, now);
        self.dial(now);
    }
}

impl Relay {
    fn judge_budget(&mut self, around: &mut Around<'_>) {
        let (spent, useless) =
            (self.budget.is_spent(around.now), self.budget.is_almost_all_refused());
        if self.budget.by_name || !(spent || useless) {
            return;
        }
        self.budget.by_name = true;
        let (relay, budget) = (self.url.clone(), self.budget);
        around.act(Action::Tell(News::AskedByName { relay: relay.clone(), budget, spent }));
        around.act(Action::Remember(relay));
        self.stop_first_layer(around);
        self.ask_by_name(around);
    }

    /// After a link came up, or groups were made anew.
    pub(crate) fn renew_first_layer(&mut self, around: &mut Around<'_>) {
        let stops = self.budget.is_spent(around.now) || self.budget.is_almost_all_refused();
        let stopped = std::mem::replace(&mut self.budget.by_name, stops);
        if stops {
            self.shelve_first_layer();
            self.ask_by_name(around);
        } else if stopped {
            for group in self.groups.iter_mut().take(FIRST_LAYER_LEN) {
                (group.shelved, group.given_up) = (false, false);
                group.stage = Stage::Missing;
            }
            self.requeue_missing();
        }
    }

    /// Neither the past nor the present of layer 1 is asked for.
    pub(crate) fn shelve_first_layer(&mut self) {
        if !self.budget.by_name {
            return;
        }
        for group in self.groups.iter_mut().take(FIRST_LAYER_LEN) {
            (group.shelved, group.given_up) = (true, true);
            group.stage = Stage::Missing;
        }
        self.requeue_missing();
    }

    /// Ends everything that is open at the relay about layer 1.
    fn stop_first_layer(&mut self, around: &mut Around<'_>) {
        self.shelve_first_layer();
        let is_first = |group: &u32| (*group as usize) < FIRST_LAYER_LEN;
        let Some(session) = self.session() else { return };
        let live = session.live.iter().filter(|(_, live)| live.is_first_layer());
        let live: Vec<Sub> = live.map(|(sub, _)| *sub).collect();
        let batches = session.batches.iter().filter(|(_, it)| it.groups.iter().any(is_first));
        let batches: Vec<u64> = batches.map(|(id, _)| *id).collect();
        for sub in live {
            self.lose_live(sub, around.now);
            around.act(Action::Close { relay: self.url.clone(), sub });
        }
        for batch in batches {
            self.cancel_batch(batch, around);
        }
    }

    fn cancel_batch(&mut self, batch: u64, around: &mut Around<'_>) {
        self.fail(Some(batch));
        let Some(session) = self.session() else { return };
        let asked = session.asked.iter().filter(|(_, asked)| asked.work.batch == Some(batch));
        let asked: Vec<Sub> = asked.map(|(sub, _)| *sub).collect();
        for sub in asked {
            self.end_asked(sub);
            around.act(Action::Close { relay: self.url.clone(), sub });
            self.one_less(Some(batch), around);
        }
        self.finish(batch, around);
    }

    /// Announcements and states of the names of our repositories, instead of all of them.
    fn ask_by_name(&mut self, around: &mut Around<'_>) {
        let ends = self.budget.day_ends();
        let next = if ends > around.now { ends } else { around.now.plus(DAY) };
        around.timers.set(self.alarm(Concern::Budget), next);
        let named = self.repos.iter().map(|repo| Item { layer: Layer::Named, number: *repo });
        self.staged.extend(named);
        let new = self.group_staged(around.wanted, around.settings);
        if self.session().is_some() {
            self.hear_new(&new, around);
        }
    }

    /// With the items by which a relay that is asked by name hears of new announcements and states.
    pub(crate) fn with_names(&self, items: Vec<Item>) -> Vec<Item> {
        if !self.budget.by_name {
            return items;
        }
        let is_repo = |item: &&Item| matches!(item.layer, Layer::Waiting | Layer::Repos);
        let named = items.iter().filter(is_repo).map(|it| Item { layer: Layer::Named, ..*it });
        let named: Vec<Item> = named.collect();
        named.into_iter().chain(items).collect()
    }
}

//! The daily sync of one relay as a whole (S-15): when it began, what it brought, and when it was over.
//! It is over when every group that it asked for anew is confirmed.

use crate::engine::Engine;
use crate::question::Work;
use crate::relay::{Around, Relay, millis};
use crate::timers::Concern;
use crate::vocabulary::{Action, News, Page, Purpose};
use grasp_core::Time;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A daily sync that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DailyRun {
    since: Time,
    stored: u64,
}

/// The last daily sync that came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct DailyResult {
    pub ended: Time,
    pub took_ms: u64,
    /// Events that were new here.
    pub stored: u64,
}

impl Engine {
    /// Everything is asked of this relay anew, once a day or because an operator ordered it.
    pub(crate) fn sync_anew(&mut self, number: u32, purpose: Purpose, now: Time) {
        let next = self.daily_moment(now);
        self.with(number, now, |relay, around| {
            relay.daily_at = Some(next);
            around.timers.set(relay.alarm(Concern::Daily), next);
            relay.forget_confirmed(purpose);
            relay.hope_for_more();
            relay.daily_run = None;
            if purpose == Purpose::Daily {
                relay.begin_daily(around);
            }
        });
        self.remember(number);
        self.pump(number, now);
    }
}

impl Relay {
    fn begin_daily(&mut self, around: &mut Around<'_>) {
        self.daily_run = Some(DailyRun { since: around.now, stored: 0 });
        let (relay, groups) = (self.url.clone(), self.groups.len());
        around.act(Action::Tell(News::DailyBegan { relay, groups }));
    }

    /// A question was answered: what it brought counts for the daily sync it belongs to.
    pub(crate) fn count_daily(&mut self, work: &Work, page: &Page) {
        let batches = self.session().map(|session| &session.batches);
        let batch = batches.and_then(|batches| batches.get(&work.batch?));
        let is_daily = batch.is_some_and(|batch| batch.errand.purpose == Purpose::Daily);
        if let Some(run) = self.daily_run.as_mut().filter(|_| is_daily) {
            run.stored = run.stored.saturating_add(u64::from(page.stored));
        }
    }

    /// After a batch was confirmed: was it the last of the daily sync?
    pub(crate) fn end_daily(&mut self, around: &mut Around<'_>) {
        let Some(run) = self.daily_run else { return };
        // What the relay refuses for good is not waited for.
        let mut asked = self.groups.iter().filter(|group| !group.shelved);
        if asked.any(|group| group.purpose == Purpose::Daily) {
            return;
        }
        let took = around.now.since(run.since);
        self.daily_run = None;
        self.daily_last =
            Some(DailyResult { ended: around.now, took_ms: millis(took), stored: run.stored });
        let relay = self.url.clone();
        around.act(Action::Tell(News::DailyEnded {
            relay: relay.clone(),
            took,
            stored: run.stored,
        }));
        around.act(Action::Remember(relay));
    }
}

impl DailyResult {
    pub fn took(&self) -> Duration {
        Duration::from_millis(self.took_ms)
    }
}

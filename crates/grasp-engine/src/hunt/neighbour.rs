//! One domain: what it was asked lately, what it said about that, and when it may be asked again
//! (S-35). Invariant: in no window are there more requests than its limit at that moment.

use super::budget::{Budget, worth_starting};
use super::checking::check_budget;
use super::queue::Queue;
use super::{HuntSettings, Job};
use grasp_core::{Domain, PubKey, Time};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// A domain that is asked and says nothing for so long comes after the others.
const QUIET_AFTER: Duration = Duration::from_secs(10);

/// The most requests per window that are sent to a domain, even if it publishes more.
const PUBLISHED_STARTS_MAX: u32 = 3_000;

/// When a fetch may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    Now,
    At(Time),
    /// Everything it may do at a time is being done.
    AfterAJob,
}

#[derive(Debug)]
pub(super) struct Neighbour {
    /// What the operator decided: at a time, and in a window.
    decided: Option<(u32, u32)>,
    /// For whom it was asked first. It counts as one of the domains of that owner.
    pub(super) opened_by: Option<PubKey>,
    /// Everything that has not ended.
    pub(super) jobs: BTreeSet<Job>,
    /// Those who only look how it stands.
    pub(super) checks: u32,
    /// When it was last heard, or began to be asked after a rest.
    heard_at: Time,
    /// Every request of the last window.
    requests: VecDeque<Time>,
    pub(super) requests_total: u64,
    pub(super) paused_until: Time,
    pub(super) grasp: bool,
    /// How many requests in a window it says it takes (S-56).
    pub(super) published: Option<u32>,
    /// Until then its published number does not count: it objected to that many.
    unpublished_until: Time,
    objected_until: Time,
    /// Its last job failed.
    pub(super) failing: bool,
    pub(super) budget: Budget,
    pub(super) check_budget: Budget,
    pub(super) queue: Queue,
    /// Running jobs that wait for leave to send another request.
    pub(super) asking: VecDeque<Job>,
    /// When its alarm rings, if it does.
    pub(super) wake_at: Option<Time>,
    pub(super) used: Time,
}

impl Neighbour {
    pub(super) fn new(
        domain: &Domain,
        opened_by: Option<PubKey>,
        settings: &HuntSettings,
        now: Time,
    ) -> Self {
        Self {
            decided: settings.overrides.get(domain).copied(),
            opened_by,
            jobs: BTreeSet::new(),
            checks: 0,
            heard_at: now,
            requests: VecDeque::new(),
            requests_total: 0,
            paused_until: Time(0),
            grasp: false,
            published: None,
            unpublished_until: Time(0),
            objected_until: Time(0),
            failing: false,
            budget: Budget::new(settings.domain_bytes_per_day_max),
            check_budget: check_budget(settings.domain_bytes_per_day_max),
            queue: Queue::default(),
            asking: VecDeque::new(),
            wake_at: None,
            used: now,
        }
    }

    /// At a time, and in a window.
    pub(super) fn limits(&self, settings: &HuntSettings, now: Time) -> (u32, u32) {
        if let Some(decided) = self.decided {
            return decided;
        }
        let usual = settings.domain_starts_max.max(1);
        let of_grasp = settings.grasp_starts_max.max(usual);
        let published = self.published.map(|starts| starts.clamp(1, PUBLISHED_STARTS_MAX));
        let starts = match published {
            _ if self.objected_until > now => usual,
            Some(starts) if self.unpublished_until > now => starts.min(of_grasp),
            Some(starts) => starts,
            None if self.grasp => of_grasp,
            None => usual,
        };
        (settings.domain_concurrent_max.max(1), starts)
    }

    /// When the next request may be sent, fetches that run included.
    pub(super) fn request_at(&self, settings: &HuntSettings, now: Time) -> Time {
        let (_, limit) = self.limits(settings, now);
        self.free_at(limit, settings, now).max(self.paused_until)
    }

    /// When there were fewer than so many requests within a window.
    pub(super) fn free_at(&self, limit: u32, settings: &HuntSettings, now: Time) -> Time {
        let nth_last = self.requests.len().checked_sub(limit.max(1) as usize);
        let window = nth_last.and_then(|at| self.requests.get(at));
        window.map_or(now, |at| at.plus(settings.window)).max(now)
    }

    /// When a fetch may start that has nobody before it.
    pub(super) fn opening(&self, settings: &HuntSettings, now: Time) -> Opening {
        let (concurrent, _) = self.limits(settings, now);
        if self.jobs.len() + self.checks as usize >= concurrent as usize {
            return Opening::AfterAJob;
        }
        let worth = worth_starting(settings.domain_bytes_per_day_max, settings.fetch_bytes_max);
        let Some(bytes_at) = self.budget.left_at(worth, now) else {
            return Opening::AfterAJob;
        };
        match self.request_at(settings, now).max(bytes_at) {
            at if at > now => Opening::At(at),
            _ => Opening::Now,
        }
    }

    /// Nobody stands before a newcomer, and it may start.
    pub(super) fn is_free(&self, settings: &HuntSettings, now: Time) -> bool {
        !self.queue.has_ready()
            && self.asking.is_empty()
            && self.opening(settings, now) == Opening::Now
    }

    pub(super) fn note_request(&mut self, settings: &HuntSettings, now: Time) {
        while self.requests.front().is_some_and(|at| at.plus(settings.window) <= now) {
            self.requests.pop_front();
        }
        self.requests.push_back(now);
        self.requests_total += 1;
    }

    pub(super) fn begin(&mut self, job: Job, now: Time) {
        if self.jobs.is_empty() {
            self.heard_at = now;
        }
        self.jobs.insert(job);
    }

    pub(super) fn end(&mut self, job: Job) {
        self.jobs.remove(&job);
        self.asking.retain(|asking| *asking != job);
    }

    /// Something came from it.
    pub(super) fn hear(&mut self, now: Time) {
        self.heard_at = self.heard_at.max(now);
    }

    /// Others are asked first: its last job failed, or those that run get nothing.
    pub(super) fn is_late(&self, now: Time) -> bool {
        let quiet = !self.jobs.is_empty() && self.heard_at.plus(QUIET_AFTER) <= now;
        self.failing || quiet
    }

    /// It was too much for this domain: less than it published for an hour, and like any other if
    /// that is too much as well. Requests that were under way at its first objection say nothing new.
    pub(super) fn object(&mut self, until: Time, settings: &HuntSettings, now: Time) {
        let (_, starts) = self.limits(settings, now);
        let lowered_until = now.plus(settings.objected_for);
        if starts > settings.grasp_starts_max {
            self.unpublished_until = lowered_until;
        } else if self.unpublished_until <= now || self.paused_until <= now {
            self.objected_until = lowered_until;
        }
        self.pause(until);
    }

    pub(super) fn pause(&mut self, until: Time) {
        self.paused_until = self.paused_until.max(until);
    }

    pub(super) fn in_window(&self, settings: &HuntSettings, now: Time) -> usize {
        self.requests.iter().filter(|at| at.plus(settings.window) > now).count()
    }

    /// Nothing is lost by forgetting it: a stranger would be treated the same.
    pub(super) fn is_forgettable(&self, settings: &HuntSettings, now: Time) -> bool {
        let idle = self.jobs.is_empty()
            && self.checks == 0
            && self.queue.is_empty()
            && self.asking.is_empty();
        let last = self.requests.back().map_or(Time(0), |at| at.plus(settings.window));
        let objected_until = self.objected_until.max(self.unpublished_until);
        let binding = last.max(self.paused_until).max(objected_until);
        let mut budgets = [&self.budget, &self.check_budget].into_iter();
        idle && binding <= now && budgets.all(|it| it.is_nearly_unused(now))
    }
}

//! One domain: what it was asked lately, what it said about that, and when it may be asked again
//! (S-35). Invariant: in no window are there more requests than its limit at that moment.

use super::budget::Budget;
use super::queue::Queue;
use super::{HuntSettings, Job};
use grasp_core::{Domain, Time};
use std::collections::VecDeque;

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
    pub(super) running: u32,
    /// Every request of the last window.
    requests: VecDeque<Time>,
    pub(super) requests_total: u64,
    pub(super) paused_until: Time,
    pub(super) grasp: bool,
    objected_until: Time,
    /// Its last job failed.
    pub(super) failing: bool,
    pub(super) budget: Budget,
    pub(super) queue: Queue,
    /// Running jobs that wait for leave to send another request.
    pub(super) asking: VecDeque<Job>,
    /// It stands among those that take turns.
    pub(super) in_turn: bool,
    /// When its alarm rings, if it does.
    pub(super) wake_at: Option<Time>,
    pub(super) used: Time,
}

impl Neighbour {
    pub(super) fn new(domain: &Domain, settings: &HuntSettings, now: Time) -> Self {
        Self {
            decided: settings.overrides.get(domain).copied(),
            running: 0,
            requests: VecDeque::new(),
            requests_total: 0,
            paused_until: Time(0),
            grasp: false,
            objected_until: Time(0),
            failing: false,
            budget: Budget::new(settings.domain_bytes_per_day_max),
            queue: Queue::default(),
            asking: VecDeque::new(),
            in_turn: false,
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
        let starts = match self.grasp && self.objected_until <= now {
            true => settings.grasp_starts_max.max(usual),
            false => usual,
        };
        (settings.domain_concurrent_max.max(1), starts)
    }

    /// When the next request may be sent, fetches that run included.
    pub(super) fn request_at(&self, settings: &HuntSettings, now: Time) -> Time {
        let (_, limit) = self.limits(settings, now);
        let nth_last = self.requests.len().checked_sub(limit.max(1) as usize);
        let window = nth_last.and_then(|at| self.requests.get(at));
        let window_at = window.map_or(now, |at| at.plus(settings.window));
        now.max(window_at).max(self.paused_until)
    }

    /// When a fetch may start that has nobody before it.
    pub(super) fn opening(&self, settings: &HuntSettings, now: Time) -> Opening {
        let (concurrent, _) = self.limits(settings, now);
        if self.running >= concurrent {
            return Opening::AfterAJob;
        }
        let Some(bytes_at) = self.budget.left_at(settings.bytes_worth_starting(), now) else {
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

    /// It was too much for this domain.
    pub(super) fn object(&mut self, until: Time, settings: &HuntSettings, now: Time) {
        self.pause(until);
        self.objected_until = now.plus(settings.objected_for);
    }

    pub(super) fn pause(&mut self, until: Time) {
        self.paused_until = self.paused_until.max(until);
    }

    pub(super) fn in_window(&self, settings: &HuntSettings, now: Time) -> usize {
        self.requests.iter().filter(|at| at.plus(settings.window) > now).count()
    }

    /// Nothing is lost by forgetting it: a stranger would be treated the same.
    pub(super) fn is_forgettable(&self, settings: &HuntSettings, now: Time) -> bool {
        let idle = self.running == 0 && self.queue.is_empty() && self.asking.is_empty();
        let last = self.requests.back().map_or(Time(0), |at| at.plus(settings.window));
        let binding = last.max(self.paused_until).max(self.objected_until);
        idle && !self.in_turn && binding <= now && self.budget.is_full(now)
    }
}

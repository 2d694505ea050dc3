//! Counts for itself what the hunt does to others, and complains: no domain above its slots or its
//! rate in any window, none asked while it is paused, no more than the bytes of the day.

use grasp_core::{Domain, Time};
use grasp_engine::hunt::{HuntAction, HuntInput, HuntSettings, Job, Outcome};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Watch {
    settings: HuntSettings,
    running: BTreeMap<Job, Domain>,
    waiting: BTreeSet<Job>,
    domains: BTreeMap<Domain, Watched>,
    bytes: Spent,
    /// The most at a time, over all domains.
    pub(crate) running_max: usize,
}

#[derive(Debug, Default)]
struct Watched {
    requests: VecDeque<Time>,
    running: u32,
    grasp: bool,
    published: Option<u32>,
    objected_until: Time,
    paused_until: Time,
    bytes: Spent,
}

/// Everything of the last 24 hours.
#[derive(Debug, Default)]
struct Spent {
    spent: VecDeque<(Time, u64)>,
    sum: u64,
}

impl Spent {
    fn spend(&mut self, bytes: u64, per_day: u64, now: Time) {
        let day = Duration::from_secs(86_400);
        while self.spent.front().is_some_and(|(at, _)| at.plus(day) <= now) {
            self.sum -= self.spent.pop_front().unwrap().1;
        }
        self.spent.push_back((now, bytes));
        self.sum += bytes;
        assert!(self.sum <= per_day, "{} instead of {per_day} bytes in a day", self.sum);
    }
}

impl Watch {
    pub(crate) fn new(settings: HuntSettings) -> Self {
        Self {
            settings,
            running: BTreeMap::new(),
            waiting: BTreeSet::new(),
            domains: BTreeMap::new(),
            bytes: Spent::default(),
            running_max: 0,
        }
    }

    pub(crate) fn hears(&mut self, input: &HuntInput, now: Time) {
        match input {
            HuntInput::Grasp(domain) => {
                self.domains.entry(domain.clone()).or_default().grasp = true;
            }
            HuntInput::GitLimits { domain, requests_per_minute } => {
                self.domains.entry(domain.clone()).or_default().published = *requests_per_minute;
            }
            HuntInput::WantsRequest { job } => drop(self.waiting.insert(*job)),
            HuntInput::Received { job, bytes, .. } => self.spend(*job, *bytes, now),
            HuntInput::Ended { job, end } => {
                self.spend(*job, end.bytes, now);
                self.waiting.remove(job);
                let Some(domain) = self.running.remove(job) else { return };
                let it = self.domains.get_mut(&domain).unwrap();
                it.running -= 1;
                let until = match &end.outcome {
                    Outcome::SlowDown { retry_after } => {
                        it.objected_until = now.plus(self.settings.objected_for);
                        let pause = retry_after.unwrap_or(self.settings.slow_down_for);
                        now.plus(pause.clamp(Duration::from_secs(1), self.settings.slow_down_max))
                    }
                    Outcome::Crowded { until } => {
                        (*until).min(now.plus(self.settings.slow_down_max))
                    }
                    _ => return,
                };
                it.paused_until = it.paused_until.max(until);
            }
            _ => {}
        }
    }

    pub(crate) fn sees(&mut self, action: &HuntAction, now: Time) {
        match action {
            HuntAction::Fetch { job, url, .. } => {
                let domain = url.domain();
                self.request(&domain, now);
                assert!(self.running.insert(*job, domain.clone()).is_none(), "{job:?} again");
                self.running_max = self.running_max.max(self.running.len());
                assert!(self.running.len() <= self.settings.concurrent_max as usize);
                let overriden = self.settings.overrides.get(&domain);
                let max = overriden.map_or(self.settings.domain_concurrent_max, |it| it.0);
                let it = self.domains.get_mut(&domain).unwrap();
                it.running += 1;
                assert!(it.running <= max, "{domain}: {} at a time", it.running);
            }
            HuntAction::MayRequest { job } => {
                assert!(self.waiting.remove(job), "{job:?} did not ask");
                let domain = self.running.get(job).unwrap().clone();
                self.request(&domain, now);
            }
            _ => {}
        }
    }

    fn request(&mut self, domain: &Domain, now: Time) {
        let settings = &self.settings;
        let it = self.domains.entry(domain.clone()).or_default();
        assert!(it.paused_until <= now, "{domain} is paused until {:?}", it.paused_until);
        it.requests.push_back(now);
        while it.requests.front().is_some_and(|at| at.plus(settings.window) <= now) {
            it.requests.pop_front();
        }
        let is_content = it.objected_until <= now;
        let usual = match it.published {
            Some(published) if is_content => published.min(3_000),
            Some(published) => published.min(settings.grasp_starts_max),
            None if it.grasp && is_content => settings.grasp_starts_max,
            None => settings.domain_starts_max,
        };
        let max = settings.overrides.get(domain).map_or(usual, |it| it.1);
        let count = it.requests.len();
        assert!(count <= max as usize, "{domain}: {count} requests in a window at {now:?}");
    }

    fn spend(&mut self, job: Job, bytes: u64, now: Time) {
        let Some(domain) = self.running.get(&job) else { return };
        self.bytes.spend(bytes, self.settings.bytes_per_day_max, now);
        let it = self.domains.get_mut(domain).unwrap();
        it.bytes.spend(bytes, self.settings.domain_bytes_per_day_max, now);
    }
}

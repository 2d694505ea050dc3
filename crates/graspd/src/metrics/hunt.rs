//! What is measured of the hunt for git data, under the names its design gave them (S-41). Strangers
//! choose which domains there are: only so many are told apart, the rest is counted as `other`.

use super::add;
use grasp_core::{Domain, Time};
use grasp_engine::hunt::FetchFailure;
use parking_lot::Mutex;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Domains that are named one by one.
pub const DOMAIN_LABELS_MAX: usize = 200;

const OTHER: &str = "other";

/// Where a fetch failed, when, and what was said. In wall time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LastFailure {
    pub at: Time,
    pub host: String,
    pub said: String,
}

fn fetch_failures(registry: &Registry) -> Result<IntCounterVec> {
    let opts = Opts::new("ngit_sync_fetch_failures_total", "Fetches of git data that failed.");
    let counters = add(registry, IntCounterVec::new(opts, &["reason"])?)?;
    // From zero, so that the first already shows as a rise.
    for failure in FetchFailure::ALL {
        counters.with_label_values(&[failure.name()]);
    }
    Ok(counters)
}

#[derive(Debug)]
pub struct HuntMetrics {
    queue: IntGauge,
    pub attempts: IntCounter,
    found: IntCounter,
    passes: IntCounter,
    in_flight: IntGaugeVec,
    requests: IntCounterVec,
    failures: IntCounterVec,
    /// The last failure of each kind, for reports.
    last_failures: Mutex<BTreeMap<FetchFailure, LastFailure>>,
    named: Mutex<BTreeSet<Domain>>,
}

impl HuntMetrics {
    pub(super) fn new(registry: &Registry) -> Result<Self> {
        let counter = |name: &str, help: &str| add(registry, IntCounter::new(name, help)?);
        Ok(Self {
            queue: add(
                registry,
                IntGauge::new("purgatory_sync_queue_size", "Repositories that lack git data.")?,
            )?,
            attempts: counter("purgatory_sync_attempts_total", "Attempts to find git data.")?,
            found: counter(
                "purgatory_sync_oids_fetched_total",
                "Objects that were missing and found on another server.",
            )?,
            passes: counter(
                "ngit_purgatory_git_fetch_passes_total",
                "Fetches of missing git data that were begun, each from one server.",
            )?,
            in_flight: add(
                registry,
                IntGaugeVec::new(
                    Opts::new("purgatory_domain_in_flight", "Fetches under way."),
                    &["domain"],
                )?,
            )?,
            requests: add(
                registry,
                IntCounterVec::new(
                    Opts::new("purgatory_domain_requests_total", "Requests to a git server."),
                    &["domain"],
                )?,
            )?,
            failures: fetch_failures(registry)?,
            last_failures: Mutex::default(),
            named: Mutex::default(),
        })
    }

    /// A fetch from this host failed.
    pub fn failed(&self, failure: FetchFailure, host: &str, said: &str, at: Time) {
        self.failures.with_label_values(&[failure.name()]).inc();
        let last = LastFailure { at, host: host.to_owned(), said: said.to_owned() };
        self.last_failures.lock().insert(failure, last);
    }

    /// Each kind of failure that occurred: how often, and the last one.
    pub fn failures(&self) -> Vec<(FetchFailure, u64, LastFailure)> {
        let last = self.last_failures.lock();
        let count =
            |failure: &FetchFailure| self.failures.with_label_values(&[failure.name()]).get();
        last.iter().map(|(failure, last)| (*failure, count(failure), last.clone())).collect()
    }

    pub fn queue(&self, families: usize) {
        self.queue.set(i64::try_from(families).unwrap_or(i64::MAX));
    }

    pub fn found(&self, objects: usize) {
        self.found.inc_by(u64::try_from(objects).unwrap_or(u64::MAX));
    }

    /// A fetch begins, with its first request.
    pub fn started(&self, domain: &Domain) {
        self.passes.inc();
        self.in_flight.with_label_values(&[self.label(domain)]).inc();
        self.requested(domain);
    }

    pub fn requested(&self, domain: &Domain) {
        self.requests.with_label_values(&[self.label(domain)]).inc();
    }

    pub fn ended(&self, domain: &Domain) {
        self.in_flight.with_label_values(&[self.label(domain)]).dec();
    }

    fn label<'a>(&self, domain: &'a Domain) -> &'a str {
        let mut named = self.named.lock();
        if named.len() < DOMAIN_LABELS_MAX {
            named.insert(domain.clone());
        }
        if named.contains(domain) { domain.as_str() } else { OTHER }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::{Encoder, TextEncoder};

    #[test]
    fn s41_the_hunt_is_measured_under_its_own_names_and_few_domains_are_told_apart() {
        let registry = Registry::new();
        let metrics = HuntMetrics::new(&registry).unwrap();
        metrics.queue(3);
        metrics.attempts.inc();
        metrics.found(2);
        for n in 0..DOMAIN_LABELS_MAX + 5 {
            metrics.started(&format!("{n}.example").parse().unwrap());
        }
        let first: Domain = "0.example".parse().unwrap();
        metrics.requested(&first);
        metrics.ended(&first);
        let mut page = Vec::new();
        TextEncoder::new().encode(&registry.gather(), &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        for line in [
            "purgatory_sync_queue_size 3",
            "purgatory_sync_attempts_total 1",
            "purgatory_sync_oids_fetched_total 2",
            "purgatory_domain_in_flight{domain=\"0.example:443\"} 0",
            "purgatory_domain_requests_total{domain=\"0.example:443\"} 2",
            "purgatory_domain_in_flight{domain=\"other\"} 5",
            "ngit_purgatory_git_fetch_passes_total 205",
        ] {
            assert!(page.lines().any(|found| found == line), "no {line} in {page}");
        }
    }
}

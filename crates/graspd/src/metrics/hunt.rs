//! What is measured of the hunt for git data, under the names its design gave them (S-41). Strangers
//! choose which domains there are: only so many are told apart, the rest is counted as `other`.

use super::add;
use grasp_core::Domain;
use parking_lot::Mutex;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, Result};
use std::collections::BTreeSet;

/// Domains that are named one by one.
pub const DOMAIN_LABELS_MAX: usize = 200;

const OTHER: &str = "other";

#[derive(Debug)]
pub struct HuntMetrics {
    queue: IntGauge,
    pub attempts: IntCounter,
    found: IntCounter,
    passes: IntCounter,
    in_flight: IntGaugeVec,
    requests: IntCounterVec,
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
            named: Mutex::default(),
        })
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

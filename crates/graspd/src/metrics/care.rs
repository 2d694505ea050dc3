//! What is cleared away: the data of owners who left, and what the operator has blacklisted.

use super::add;
use prometheus::{IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry, Result};

#[derive(Debug)]
pub struct CareMetrics {
    runs: IntCounter,
    deleted: IntCounterVec,
    deleted_last: IntGaugeVec,
    blacklisted: IntCounterVec,
}

const REPOSITORY: &[&str] = &["repository"];
const AT_START: &[&str] = &["startup", "success"];

impl CareMetrics {
    pub(super) fn new(registry: &Registry) -> Result<Self> {
        let counters = |name: &str, help: &str, labels: &[&str]| {
            add(registry, IntCounterVec::new(Opts::new(name, help), labels)?)
        };
        let last = Opts::new(
            "ngit_holding_cleanup_last_run_deleted",
            "Removed repositories whose data was given up the last time.",
        );
        let metrics = Self {
            runs: add(
                registry,
                IntCounter::new(
                    "ngit_holding_cleanup_runs_total",
                    "Times removed repositories were looked through for those whose time is over.",
                )?,
            )?,
            deleted: counters(
                "ngit_holding_cleanup_deleted_total",
                "Removed repositories whose data was given up.",
                &["type"],
            )?,
            deleted_last: add(registry, IntGaugeVec::new(last, &["type"])?)?,
            blacklisted: counters(
                "ngit_blacklist_deletions_total",
                "Announcements that are no longer served because of the blacklist.",
                &["phase", "result"],
            )?,
        };
        metrics.deleted.with_label_values(REPOSITORY);
        metrics.deleted_last.with_label_values(REPOSITORY);
        metrics.blacklisted.with_label_values(AT_START);
        Ok(metrics)
    }

    pub fn cleaned(&self, repositories: usize) {
        self.runs.inc();
        let deleted = self.deleted.with_label_values(REPOSITORY);
        deleted.inc_by(u64::try_from(repositories).unwrap_or(u64::MAX));
        let last = self.deleted_last.with_label_values(REPOSITORY);
        last.set(i64::try_from(repositories).unwrap_or(i64::MAX));
    }

    /// At a start.
    pub fn blacklisted(&self, announcements: usize) {
        let blacklisted = self.blacklisted.with_label_values(AT_START);
        blacklisted.inc_by(u64::try_from(announcements).unwrap_or(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::{Encoder, TextEncoder};

    #[test]
    fn what_is_cleared_away_is_counted_and_so_is_the_last_time() {
        let registry = Registry::new();
        let metrics = CareMetrics::new(&registry).unwrap();
        metrics.cleaned(3);
        metrics.cleaned(1);
        metrics.blacklisted(2);
        let mut page = Vec::new();
        TextEncoder::new().encode(&registry.gather(), &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        for line in [
            "ngit_holding_cleanup_runs_total 2",
            "ngit_holding_cleanup_deleted_total{type=\"repository\"} 4",
            "ngit_holding_cleanup_last_run_deleted{type=\"repository\"} 1",
            "ngit_blacklist_deletions_total{phase=\"startup\",result=\"success\"} 2",
        ] {
            assert!(page.lines().any(|found| found == line), "no {line} in {page}");
        }
    }
}

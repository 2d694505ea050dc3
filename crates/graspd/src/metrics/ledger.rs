//! What is measured of the ledger: how others stand, and how it is kept up.

use super::add;
use crate::report::{Ledger, Verdict};
use prometheus::{IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, Result};

#[derive(Debug)]
pub struct LedgerMetrics {
    verdicts: IntGaugeVec,
    oldest: IntGauge,
    age_max: IntGauge,
    checks: IntCounterVec,
}

const VERDICTS: [Verdict; 4] =
    [Verdict::Equal, Verdict::WeLack, Verdict::TheyLack, Verdict::Unverifiable];

impl LedgerMetrics {
    pub(super) fn new(registry: &Registry) -> Result<Self> {
        let gauge = |name: &str, help: &str| add(registry, IntGauge::new(name, help)?);
        let verdicts = Opts::new(
            "ngit_sync_verdicts",
            "Repositories at other addresses, by how they stand there.",
        );
        let checks = Opts::new(
            "ngit_sync_ledger_checks_total",
            "Looks at how a repository stands at another address.",
        );
        let metrics = Self {
            verdicts: add(registry, IntGaugeVec::new(verdicts, &["verdict"])?)?,
            oldest: gauge("ngit_sync_verdict_oldest_seconds", "Age of the oldest verdict.")?,
            age_max: gauge(
                "ngit_sync_verdict_age_max_seconds",
                "Age beyond which a verdict says nothing any more.",
            )?,
            checks: add(registry, IntCounterVec::new(checks, &["side", "result"])?)?,
        };
        // From zero, so that the first already shows as a rise.
        for verdict in VERDICTS {
            metrics.verdicts.with_label_values(&[label(verdict)]);
            for side in ["events", "refs"] {
                metrics.checks.with_label_values(&[side, label(verdict)]);
            }
        }
        Ok(metrics)
    }

    pub fn tell(&self, ledger: &Ledger) {
        let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let Ledger { equal, we_lack, they_lack, unverifiable, oldest_secs, age_max_secs, .. } =
            *ledger;
        for (verdict, count) in VERDICTS.into_iter().zip([equal, we_lack, they_lack, unverifiable])
        {
            self.verdicts.with_label_values(&[label(verdict)]).set(number(count));
        }
        self.oldest.set(number(oldest_secs));
        self.age_max.set(number(age_max_secs));
    }

    /// `side` is `events` or `refs`.
    pub fn checked(&self, side: &'static str, verdict: Verdict) {
        self.checks.with_label_values(&[side, label(verdict)]).inc();
    }
}

fn label(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Equal => "equal",
        Verdict::WeLack => "we_lack",
        Verdict::TheyLack => "they_lack",
        Verdict::Unverifiable => "unverifiable",
        Verdict::Checking => "checking",
    }
}

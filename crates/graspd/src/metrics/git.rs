//! What moved over git, and how pushes fared. Labels come from closed sets, but for the few busiest
//! repositories, which the operator asked to be named.

use super::add;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGaugeVec, Opts, Registry, Result};
use std::time::Duration;

const SECONDS: [f64; 8] = [0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

#[derive(Debug)]
pub struct GitMetrics {
    operations: IntCounterVec,
    seconds: HistogramVec,
    bytes: IntCounterVec,
    pushes_judged: IntCounterVec,
    busiest: IntGaugeVec,
}

/// What a git client came for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Clone,
    Fetch,
    Push,
}

impl Operation {
    fn label(self) -> &'static str {
        match self {
            Self::Clone => "clone",
            Self::Fetch => "fetch",
            Self::Push => "push",
        }
    }
}

/// As seen from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    In,
    Out,
}

impl Direction {
    fn label(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
        }
    }
}

/// What the rules said about a push before its pack was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Authorization {
    Allowed,
    Unchanged,
    Refused,
}

impl Authorization {
    fn label(self) -> &'static str {
        match self {
            Self::Allowed => "allowed",
            Self::Unchanged => "unchanged",
            Self::Refused => "refused",
        }
    }
}

impl GitMetrics {
    pub(super) fn new(registry: &Registry) -> Result<Self> {
        let counters = |name: &str, help: &str, labels: &[&str]| {
            add(registry, IntCounterVec::new(Opts::new(name, help), labels)?)
        };
        let seconds = HistogramOpts::new(
            "ngit_git_operation_duration_seconds",
            "How long git clones, fetches and pushes took.",
        );
        let busiest = Opts::new(
            "ngit_git_top_repos_bytes",
            "Bytes moved for the busiest repositories since the start.",
        );
        Ok(Self {
            operations: counters(
                "ngit_git_operations_total",
                "Git clones, fetches and pushes.",
                &["operation", "status"],
            )?,
            seconds: add(
                registry,
                HistogramVec::new(seconds.buckets(SECONDS.into()), &["operation"])?,
            )?,
            bytes: counters(
                "ngit_git_bytes_total",
                "Bytes of git requests and answers.",
                &["direction"],
            )?,
            pushes_judged: counters(
                "ngit_git_push_authorization_total",
                "What the rules said about pushes.",
                &["result"],
            )?,
            busiest: add(registry, IntGaugeVec::new(busiest, &["repo"])?)?,
        })
    }

    pub fn done(&self, operation: Operation, is_fine: bool, took: Duration) {
        let (operation, status) = (operation.label(), if is_fine { "success" } else { "error" });
        self.operations.with_label_values(&[operation, status]).inc();
        self.seconds.with_label_values(&[operation]).observe(took.as_secs_f64());
    }

    pub fn moved(&self, direction: Direction, bytes: u64) {
        self.bytes.with_label_values(&[direction.label()]).inc_by(bytes);
    }

    pub fn push_judged(&self, result: Authorization) {
        self.pushes_judged.with_label_values(&[result.label()]).inc();
    }

    /// These and no others.
    pub(super) fn name_busiest(&self, busiest: &[(String, u64)]) {
        self.busiest.reset();
        for (repo, bytes) in busiest {
            let gauge = self.busiest.with_label_values(&[repo.as_str()]);
            gauge.set(i64::try_from(*bytes).unwrap_or(i64::MAX));
        }
    }
}

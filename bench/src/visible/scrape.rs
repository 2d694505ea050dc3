//! What the server counts, read as anybody's monitoring would read it.

use crate::git::http::Question;
use anyhow::{Context, Result, ensure};
use std::ops::Sub;
use std::time::{Duration, Instant};
use tokio::time::sleep;

const CHECKS: &str = "ngit_sync_ledger_checks_total";
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Looks at one repository at another place, by what they compared.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Checks {
    pub(super) refs: f64,
    pub(super) events: f64,
    /// Of either: nothing could be said afterwards.
    pub(super) in_vain: f64,
}

impl Checks {
    pub(super) async fn at(address: &str) -> Result<Self> {
        let page = Question::get(address, "/metrics", "").answer().await?;
        Self::parse(&String::from_utf8_lossy(&page))
    }

    fn parse(page: &str) -> Result<Self> {
        let mut checks = Self::default();
        for line in page.lines().filter_map(|line| line.strip_prefix(CHECKS)) {
            let (labels, count) = line.rsplit_once(' ').context("a metric has a value")?;
            let count: f64 = count.parse()?;
            if labels.contains("result=\"unverifiable\"") {
                checks.in_vain += count;
            } else if labels.contains("side=\"refs\"") {
                checks.refs += count;
            } else {
                checks.events += count;
            }
        }
        Ok(checks)
    }

    /// Waits until there are as many as somebody wants.
    pub(super) async fn reach(
        address: &str,
        enough: impl Fn(&Self) -> bool,
        patience: Duration,
    ) -> Result<Self> {
        let started = Instant::now();
        loop {
            let now = Self::at(address).await?;
            if enough(&now) {
                return Ok(now);
            }
            ensure!(started.elapsed() < patience, "there are not enough looks at others: {now:?}");
            sleep(LOOK_EVERY).await;
        }
    }

    /// Waits until none has ended for so long.
    pub(super) async fn settle(
        address: &str,
        quiet: Duration,
        patience: Duration,
    ) -> Result<Checks> {
        let started = Instant::now();
        let (mut seen, mut since) = (Self::at(address).await?, started);
        while since.elapsed() < quiet {
            ensure!(started.elapsed() < patience, "looks at others do not end: {seen:?}");
            sleep(LOOK_EVERY).await;
            let now = Self::at(address).await?;
            if now != seen {
                (seen, since) = (now, Instant::now());
            }
        }
        Ok(seen)
    }
}

impl Sub for Checks {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            refs: self.refs - before.refs,
            events: self.events - before.events,
            in_vain: self.in_vain - before.in_vain,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_counted_by_what_was_looked_at() {
        let page = "# TYPE ngit_sync_ledger_checks_total counter\n\
                    ngit_sync_ledger_checks_total{result=\"equal\",side=\"refs\"} 40\n\
                    ngit_sync_ledger_checks_total{result=\"unverifiable\",side=\"refs\"} 2\n\
                    ngit_sync_ledger_checks_total{result=\"they_lack\",side=\"events\"} 7\n\
                    ngit_uptime_seconds 5\n";
        let checks = Checks::parse(page).unwrap();
        assert_eq!(checks, Checks { refs: 40.0, events: 7.0, in_vain: 2.0 });
        let later = Checks { refs: 48.0, ..checks };
        assert_eq!(later - checks, Checks { refs: 8.0, ..Checks::default() });
    }
}

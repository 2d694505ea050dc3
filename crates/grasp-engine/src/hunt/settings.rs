//! Every number the hunt decides by, with its default. Durations are real ones; tests drive the
//! clock instead of changing them.

use grasp_core::Domain;
use std::collections::BTreeMap;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HuntSettings {
    /// A user's event: a push should follow (S-32).
    pub delay_direct: Duration,
    /// A synced one: bursts batch up.
    pub delay_synced: Duration,
    /// The first gap between attempts, doubled each time (S-33).
    pub retry_first: Duration,
    /// The longest gap while something is held.
    pub retry_max: Duration,
    /// The longest gap for what is only wanted.
    pub wanted_retry_max: Duration,
    /// A second source is asked when the first takes longer than this (S-37).
    pub hedge_after: Duration,
    /// Per domain (S-35).
    pub domain_concurrent_max: u32,
    pub domain_starts_max: u32,
    /// For a domain that says it is a GRASP server, until it objects.
    pub grasp_starts_max: u32,
    /// The sliding window in which starts are counted.
    pub window: Duration,
    /// How long a domain that objected is treated like any other.
    pub objected_for: Duration,
    /// When a domain that objected does not say how long it wants to be left alone.
    pub slow_down_for: Duration,
    pub slow_down_max: Duration,
    /// Per domain: how many at a time, how many starts in a window.
    pub overrides: BTreeMap<Domain, (u32, u32)>,
    /// Over all domains.
    pub concurrent_max: u32,
    /// In any 24 hours: what one source may send for one family, one domain, all domains.
    pub fetch_bytes_max: u64,
    pub domain_bytes_per_day_max: u64,
    pub bytes_per_day_max: u64,
    /// An entry that waits this long for its second try counts like one that had none.
    pub aged_after: Duration,
    /// How long what a URL did not have is remembered; less than `retry_first`.
    pub absent_for: Duration,
    pub sources_max: usize,
    pub families_max: usize,
    pub domains_max: usize,
}

impl Default for HuntSettings {
    fn default() -> Self {
        Self {
            delay_direct: 3 * MINUTE,
            delay_synced: Duration::from_millis(500),
            retry_first: 20 * SECOND,
            retry_max: 2 * MINUTE,
            wanted_retry_max: HOUR,
            hedge_after: 30 * SECOND,
            domain_concurrent_max: 5,
            domain_starts_max: 30,
            grasp_starts_max: 300,
            window: MINUTE,
            objected_for: HOUR,
            slow_down_for: MINUTE,
            slow_down_max: HOUR,
            overrides: BTreeMap::new(),
            concurrent_max: 20,
            fetch_bytes_max: 2 << 30,
            domain_bytes_per_day_max: 50 << 30,
            bytes_per_day_max: 200 << 30,
            aged_after: 10 * MINUTE,
            absent_for: 15 * SECOND,
            sources_max: 40,
            families_max: 100_000,
            domains_max: 10_000,
        }
    }
}

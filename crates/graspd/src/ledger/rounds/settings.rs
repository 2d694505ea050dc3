//! What limits the looks at mirrors.

use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundSettings {
    /// No verdict should become older than this.
    pub age_max: Duration,
    /// Looks at a time: in all, and at one place.
    pub at_once_max: usize,
    pub at_once_per_domain_max: usize,
    /// After something new is served mirrors are given this long to follow.
    pub lag: Duration,
    /// However often something new is served, between two looks for that is at least this time.
    pub early_gap: Duration,
    pub entries_max: usize,
    /// What the looks of one owner may receive in a day.
    pub bytes_per_owner: u64,
}

impl Default for RoundSettings {
    fn default() -> Self {
        Self {
            age_max: Duration::from_secs(86_400),
            at_once_max: 8,
            at_once_per_domain_max: 2,
            lag: Duration::from_secs(30),
            early_gap: Duration::from_secs(600),
            entries_max: 200_000,
            bytes_per_owner: 1 << 30,
        }
    }
}

//! How reliable other relays are (S-30): what one reconciliation showed for one repository, and
//! what follows from it. Pure bookkeeping; nobody is asked anything here. A verdict is derived from
//! its counts and never kept beside them, so the two cannot disagree.

mod shelf;
mod warner;

pub use shelf::{
    ROWS_MAX, Row, attribute, count, forget_relay, forget_repo, of, of_relay, of_repo, set,
};
pub use warner::{LackWarner, Unsaid};

use grasp_core::Time;
use grasp_engine::Account;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What both sides had of one repository when they were last compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// `None`: this relay cannot be compared with, so nothing is known.
    pub counts: Option<Counts>,
    pub at: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// They and we have these.
    pub both: u64,
    /// We serve these, and they should have them.
    pub they_lack: u64,
    /// They had these before we did; known once they are fetched and belong to a repository.
    pub we_lack: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Neither lacked anything.
    Complete,
    /// They lack something, whatever else we may lack ourselves.
    Behind,
    /// They have all that we have, and more.
    Ahead,
    /// Without NIP-77 nobody can tell.
    Unverifiable,
}

impl Standing {
    pub fn from_counts(counts: Counts, at: Time) -> Self {
        Self { counts: Some(counts), at }
    }

    pub fn unverifiable(at: Time) -> Self {
        Self { counts: None, at }
    }

    /// As of then.
    pub fn verdict(&self) -> Verdict {
        match self.counts {
            None => Verdict::Unverifiable,
            Some(Counts { they_lack: 1.., .. }) => Verdict::Behind,
            Some(Counts { we_lack: 1.., .. }) => Verdict::Ahead,
            Some(_) => Verdict::Complete,
        }
    }

    /// As of now: nothing, once it is too long ago.
    pub fn verdict_at(&self, now: Time, age_max: Duration) -> Option<Verdict> {
        (now.since(self.at) <= age_max).then(|| self.verdict())
    }

    pub fn coverage_permille(&self) -> Option<u16> {
        self.counts.map(|counts| counts.coverage_permille())
    }
}

impl Counts {
    /// How much of what we serve they have. Rounded down: a thousand means all of it. Where there is
    /// nothing to have, nothing is missing.
    pub fn coverage_permille(&self) -> u16 {
        let ours = u128::from(self.both) + u128::from(self.they_lack);
        let permille = (u128::from(self.both) * 1000).checked_div(ours).unwrap_or(1000);
        u16::try_from(permille).unwrap_or(1000)
    }

    /// Over several repositories, for a relay as a whole.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            both: self.both.saturating_add(other.both),
            they_lack: self.they_lack.saturating_add(other.they_lack),
            we_lack: self.we_lack.saturating_add(other.we_lack),
        }
    }
}

/// How much of the time in which we wanted a link there was one. Our own downtime is no part of
/// either number. `None` until there is something to tell.
pub fn uptime_percent(account: &Account) -> Option<f64> {
    if account.wanted_ms == 0 {
        return None;
    }
    let connected_ms = account.connected_ms.min(account.wanted_ms);
    Some(connected_ms as f64 * 100.0 / account.wanted_ms as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(both: u64, they_lack: u64, we_lack: u64) -> Standing {
        Standing::from_counts(Counts { both, they_lack, we_lack }, Time::from_secs(1_000))
    }

    #[test]
    fn s30_a_verdict_follows_from_what_either_side_lacks() {
        for (both, they_lack, we_lack, verdict, permille) in [
            (10, 0, 0, Verdict::Complete, 1000),
            (0, 0, 0, Verdict::Complete, 1000),
            (9, 1, 0, Verdict::Behind, 900),
            (9, 1, 5, Verdict::Behind, 900),
            (0, 7, 0, Verdict::Behind, 0),
            (10, 0, 3, Verdict::Ahead, 1000),
            (999_999, 1, 0, Verdict::Behind, 999),
            (u64::MAX, u64::MAX, u64::MAX, Verdict::Behind, 500),
        ] {
            let standing = standing(both, they_lack, we_lack);
            assert_eq!(standing.verdict(), verdict, "{standing:?}");
            assert_eq!(standing.coverage_permille(), Some(permille), "{standing:?}");
        }
    }

    #[test]
    fn s30_without_a_comparison_nothing_is_claimed() {
        let standing = Standing::unverifiable(Time::from_secs(1_000));
        assert_eq!(standing.verdict(), Verdict::Unverifiable);
        assert_eq!(standing.coverage_permille(), None);
    }

    #[test]
    fn s30_a_verdict_is_good_for_a_day() {
        let standing = standing(9, 1, 0);
        let day = Duration::from_secs(86_400);
        let later = |secs: u64| Time::from_secs(1_000 + secs);
        assert_eq!(standing.verdict_at(later(0), day), Some(Verdict::Behind));
        assert_eq!(standing.verdict_at(later(86_400), day), Some(Verdict::Behind));
        assert_eq!(standing.verdict_at(later(86_401), day), None);
        assert_eq!(standing.verdict_at(Time(0), day), Some(Verdict::Behind), "a clock set back");
    }

    #[test]
    fn s30_uptime_is_the_share_of_the_time_in_which_the_link_was_wanted() {
        let account =
            |connected_ms, wanted_ms| Account { connected_ms, wanted_ms, ..Account::default() };
        assert_eq!(uptime_percent(&account(0, 0)), None);
        assert_eq!(uptime_percent(&account(0, 500)), Some(0.0));
        assert_eq!(uptime_percent(&account(999, 1_000)), Some(99.9));
        assert_eq!(uptime_percent(&account(1_000, 1_000)), Some(100.0));
        assert_eq!(uptime_percent(&account(1_001, 1_000)), Some(100.0));
    }

    #[test]
    fn s30_a_relay_as_a_whole_is_the_sum_of_its_repositories() {
        let one = Counts { both: 6, they_lack: 2, we_lack: 0 };
        let sum = one.plus(&Counts { both: 1, they_lack: 1, we_lack: u64::MAX }).plus(&one);
        assert_eq!(sum, Counts { both: 13, they_lack: 5, we_lack: u64::MAX });
        assert_eq!(sum.coverage_permille(), 722);
    }
}

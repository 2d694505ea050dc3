//! What the hunt may want to be woken for.

use super::Job;
use grasp_core::Domain;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Alarm {
    /// An entry's next attempt.
    Next(u64),
    /// One of its sources takes long; another is asked as well, or instead.
    Hedge(u64),
    /// A domain on which somebody waits may be asked again, or one of its jobs takes too long.
    Domain(Domain),
    /// The bytes of the day suffice for another fetch.
    Bytes,
    /// A slow job gives its slot to one that waits.
    Slow,
    /// A fetch for strangers has taken as long as it may.
    Overdue(Job),
}

impl Alarm {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Next(_) => "a family is looked for again",
            Self::Hedge(_) => "a slow source gets company",
            Self::Domain(_) => "a domain may be asked again",
            Self::Bytes => "there are bytes for another fetch",
            Self::Slow => "a slow fetch gives way to those who wait",
            Self::Overdue(_) => "a fetch of a pull request has had its time",
        }
    }
}

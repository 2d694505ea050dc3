//! One repository at one address, as it was last seen: what a comparison showed, or why there could be
//! none. A verdict is derived from that and never kept beside it, so the two cannot disagree.

use crate::report::{Giving, Verdict};
use grasp_core::{CloneUrl, RelayUrl, RepoId, Time};
use grasp_engine::Doubt;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Where another copy is: the events at a relay, the refs at a git server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Peer {
    Relay(RelayUrl),
    Git(CloneUrl),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    pub peer: Peer,
    pub repo: RepoId,
    pub look: Look,
}

/// What the last look showed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Look {
    pub seen: Seen,
    pub at: Time,
    /// Since when its verdict is this one.
    pub since: Time,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seen {
    Events(Counts),
    Refs(RefCounts),
    Nothing(Why),
}

/// Clocks are corrected by less than this all the time.
pub(super) const AHEAD_MAX: Duration = Duration::from_secs(60);

/// What both sides had of one repository's events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    /// They and we have these.
    pub both: u64,
    /// We serve these, and they should have them.
    pub they_lack: u64,
    /// They name these and we do not have them.
    pub we_lack: u64,
    /// So many of them they gave us, and there was no room here.
    #[serde(default)]
    pub no_room: u64,
    /// Of what we served then.
    #[serde(default)]
    pub fingerprint: Fingerprint,
}

/// Ids summed up, in whatever order they come: the same sum is the same set, but for wonders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fingerprint(pub u128);

/// Their refs and the state in force.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RefCounts {
    pub equal: u64,
    pub they_lack: u64,
    pub we_lack: u64,
    pub unsigned: u64,
    /// Signed here, but theirs belong to no state that is known here: they may be ahead.
    #[serde(default)]
    pub unknown: u64,
    /// Of those that are equal.
    #[serde(default)]
    pub objects: Giving,
    /// The first few of what they lack, by name, and of what we lack.
    #[serde(default)]
    pub names: Vec<String>,
}

/// Why nothing could be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    NoNegentropy,
    /// Not asked: comparing is turned off here.
    TurnedOff,
    Unreachable {
        since: Time,
    },
    /// It names events that it does not give out.
    Keeps,
    /// It gave out events that it had hidden from a comparison.
    Hides,
    /// A comparison did not come to its end.
    Failed,
    /// It does not want our questions.
    Refused,
    RateLimited {
        until: Time,
    },
    /// No such repository, or it is not shown to us.
    NotFound,
    /// More refs than are read.
    TooLarge,
    /// An address nobody may be sent to.
    Forbidden,
    /// It answers, but not as a git server does.
    Unclear,
}

impl From<Doubt> for Why {
    fn from(doubt: Doubt) -> Self {
        match doubt {
            Doubt::NoNegentropy => Self::NoNegentropy,
            Doubt::TurnedOff => Self::TurnedOff,
            Doubt::Unreachable { since } => Self::Unreachable { since },
            Doubt::Keeps => Self::Keeps,
            Doubt::Hides => Self::Hides,
            Doubt::Failed => Self::Failed,
            Doubt::Refused => Self::Refused,
            Doubt::RateLimited { until } => Self::RateLimited { until },
        }
    }
}

impl Peer {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Relay(url) => url.as_str(),
            Self::Git(url) => url.as_str(),
        }
    }
}

impl Seen {
    pub fn verdict(&self) -> Verdict {
        match self {
            Self::Events(Counts { we_lack: 1.., .. })
            | Self::Refs(RefCounts { we_lack: 1.., .. }) => Verdict::WeLack,
            Self::Events(Counts { they_lack: 1.., .. })
            | Self::Refs(
                RefCounts { they_lack: 1.., .. } | RefCounts { objects: Giving::Lacking, .. },
            ) => Verdict::TheyLack,
            Self::Refs(RefCounts { unknown: 1.., .. }) => Verdict::Unverifiable,
            Self::Events(_) | Self::Refs(_) => Verdict::Equal,
            Self::Nothing(_) => Verdict::Unverifiable,
        }
    }
}

impl Look {
    /// A first one.
    pub fn new(seen: Seen, at: Time) -> Self {
        Self { seen, at, since: at }
    }

    /// The same verdict as before goes on since then. What is not to be reached was not before either.
    #[must_use]
    pub fn after(mut self, before: Option<&Self>) -> Self {
        if let Some(before) = before.filter(|it| it.seen.verdict() == self.seen.verdict()) {
            self.since = before.since;
        }
        if let (Seen::Nothing(Why::Unreachable { since }), Some(before)) = (&mut self.seen, before)
            && let Seen::Nothing(Why::Unreachable { since: earlier }) = before.seen
        {
            *since = earlier.min(*since);
        }
        self
    }

    /// As of now: too long ago is unverifiable.
    pub fn verdict_at(&self, now: Time, age_max: Duration) -> Verdict {
        match self.is_old(now, age_max) {
            true => Verdict::Unverifiable,
            false => self.seen.verdict(),
        }
    }

    pub fn is_old(&self, now: Time, age_max: Duration) -> bool {
        now.since(self.at) > age_max || self.is_ahead(now)
    }

    /// It was written by a clock that was wrong: nobody knows how old it is.
    pub fn is_ahead(&self, now: Time) -> bool {
        self.at > now.plus(AHEAD_MAX)
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
            no_room: self.no_room.saturating_add(other.no_room),
            fingerprint: self.fingerprint.plus(other.fingerprint),
        }
    }
}

mod fingerprint {
    use super::Fingerprint;
    use grasp_core::EventId;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
    use std::fmt;

    impl Fingerprint {
        pub fn add(&mut self, id: &EventId) {
            // The end of an id: its beginning can be chosen by whoever spends some work on it.
            let end = id.as_bytes().last_chunk::<16>().copied().unwrap_or_default();
            self.0 = self.0.wrapping_add(u128::from_be_bytes(end));
        }

        #[must_use]
        pub fn plus(self, other: Self) -> Self {
            Self(self.0.wrapping_add(other.0))
        }
    }

    impl fmt::Display for Fingerprint {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "{:032x}", self.0)
        }
    }

    impl Serialize for Fingerprint {
        fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            to.collect_str(self)
        }
    }

    impl<'de> Deserialize<'de> for Fingerprint {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            let text = String::deserialize(from)?;
            u128::from_str_radix(&text, 16).map(Self).map_err(de::Error::custom)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(both: u64, they_lack: u64, we_lack: u64) -> Counts {
        Counts { both, they_lack, we_lack, no_room: 0, fingerprint: Fingerprint(7) }
    }

    #[test]
    fn s30_a_verdict_follows_from_what_either_side_lacks() {
        for (both, they_lack, we_lack, verdict, permille) in [
            (10, 0, 0, Verdict::Equal, 1000),
            (0, 0, 0, Verdict::Equal, 1000),
            (9, 1, 0, Verdict::TheyLack, 900),
            (9, 1, 5, Verdict::WeLack, 900),
            (0, 7, 0, Verdict::TheyLack, 0),
            (10, 0, 3, Verdict::WeLack, 1000),
            (999_999, 1, 0, Verdict::TheyLack, 999),
            (u64::MAX, u64::MAX, u64::MAX, Verdict::WeLack, 500),
        ] {
            let counts = events(both, they_lack, we_lack);
            assert_eq!(Seen::Events(counts).verdict(), verdict, "{counts:?}");
            assert_eq!(counts.coverage_permille(), permille, "{counts:?}");
        }
        let unsigned = RefCounts { equal: 3, unsigned: 2, ..RefCounts::default() };
        assert_eq!(
            Seen::Refs(unsigned).verdict(),
            Verdict::Equal,
            "what nobody signed lacks nowhere"
        );
        for (objects, they_lack, we_lack, verdict) in [
            (Giving::Given, 0, 0, Verdict::Equal),
            (Giving::Unknown, 0, 0, Verdict::Equal),
            (Giving::Lacking, 0, 0, Verdict::TheyLack),
            (Giving::Given, 1, 0, Verdict::TheyLack),
            (Giving::Lacking, 0, 1, Verdict::WeLack),
        ] {
            let refs = RefCounts { equal: 3, they_lack, we_lack, objects, ..RefCounts::default() };
            assert_eq!(Seen::Refs(refs).verdict(), verdict, "{objects:?}");
        }
        assert_eq!(Seen::Nothing(Why::NoNegentropy).verdict(), Verdict::Unverifiable);
    }

    #[test]
    fn s30_a_verdict_is_good_for_a_day() {
        let look = Look::new(Seen::Events(events(9, 1, 0)), Time::from_secs(1_000));
        let day = Duration::from_secs(86_400);
        let later = |secs: u64| Time::from_secs(1_000 + secs);
        assert_eq!(look.verdict_at(later(0), day), Verdict::TheyLack);
        assert_eq!(look.verdict_at(later(86_400), day), Verdict::TheyLack);
        assert_eq!(look.verdict_at(later(86_401), day), Verdict::Unverifiable);
        let before = |secs: u64| Time::from_secs(1_000 - secs);
        assert_eq!(look.verdict_at(before(60), day), Verdict::TheyLack, "a clock set right");
        let wrong = look.verdict_at(before(61), day);
        assert_eq!(wrong, Verdict::Unverifiable, "written by a clock that was ahead");
    }

    #[test]
    fn s43_a_verdict_that_stays_the_same_keeps_its_beginning() {
        let look = |seen, secs| Look::new(seen, Time::from_secs(secs));
        let first = look(Seen::Events(events(9, 1, 0)), 10);
        let more = look(Seen::Events(events(8, 2, 0)), 20).after(Some(&first));
        assert_eq!((more.at, more.since), (Time::from_secs(20), Time::from_secs(10)));
        let equal = look(Seen::Events(events(10, 0, 0)), 30).after(Some(&more));
        assert_eq!(equal.since, Time::from_secs(30));
        let gone = |secs| Seen::Nothing(Why::Unreachable { since: Time::from_secs(secs) });
        let away = look(gone(35), 40).after(Some(&equal));
        let still = look(gone(50), 50).after(Some(&away));
        assert_eq!(still.seen, gone(35), "it was away all the time");
        assert_eq!(still.since, Time::from_secs(40));
    }

    #[test]
    fn s30_a_relay_as_a_whole_is_the_sum_of_its_repositories() {
        let sum = events(6, 2, 0).plus(&events(1, 1, u64::MAX)).plus(&events(6, 2, 0));
        assert_eq!((sum.both, sum.they_lack, sum.we_lack), (13, 5, u64::MAX));
        assert_eq!(sum.coverage_permille(), 722);
    }

    #[test]
    fn s30_a_fingerprint_does_not_care_for_the_order_and_survives_writing() {
        let ids: Vec<_> = (1..5).map(|n| grasp_core::EventId::from_bytes([n; 32])).collect();
        let sum = |ids: &mut dyn Iterator<Item = &grasp_core::EventId>| {
            ids.fold(Fingerprint::default(), |mut sum, id| {
                sum.add(id);
                sum
            })
        };
        let all = sum(&mut ids.iter());
        assert_eq!(all, sum(&mut ids.iter().rev()));
        assert_ne!(all, sum(&mut ids.iter().skip(1)));
        assert_eq!(all.to_string(), "0a".repeat(16));
        let written = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Fingerprint>(&written).unwrap(), all);
    }
}

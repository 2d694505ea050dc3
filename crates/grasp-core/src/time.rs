//! The two times of this system: a relay's own clock in milliseconds, and the seconds a stranger
//! writes into an event. They are different types so that neither is mistaken for the other. A
//! server's own clock is read in two ways, steady and wall; `WallOffset` is the distance.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Milliseconds since 1970, as told by the server's own clock.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Time(pub u64);

impl Time {
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1000))
    }

    pub const fn timestamp(self) -> Timestamp {
        Timestamp(self.0 / 1000)
    }

    pub const fn since(self, earlier: Time) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    pub fn plus(self, wait: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// How far the wall clock is ahead of the steady clock, in milliseconds. Schedulers run on steady
/// time, which no one sets; records and `created_at` are in wall time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WallOffset(pub i64);

impl WallOffset {
    pub fn between(wall: Time, steady: Time) -> Self {
        let (wall, steady) = (i128::from(wall.0), i128::from(steady.0));
        Self(i64::try_from(wall - steady).unwrap_or_default())
    }

    pub fn to_wall(self, steady: Time) -> Time {
        shift(steady, self.0)
    }

    pub fn to_steady(self, wall: Time) -> Time {
        shift(wall, self.0.saturating_neg())
    }

    /// How far the wall clock was set between the two, forward or back.
    pub fn step_from(self, before: Self) -> Duration {
        Duration::from_millis(self.0.abs_diff(before.0))
    }
}

/// The smallest value stands for never and the largest for always; neither is a moment.
fn shift(at: Time, by_ms: i64) -> Time {
    match at {
        Time(0 | u64::MAX) => at,
        Time(ms) => Time(ms.saturating_add_signed(by_ms)),
    }
}

/// Seconds since 1970, as claimed by the author of an event.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub u64);

impl Timestamp {
    pub const fn plus_secs(self, secs: u64) -> Timestamp {
        Timestamp(self.0.saturating_add(secs))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wall_offset_translates_both_ways_and_leaves_never_and_always_alone() {
        let offset = WallOffset::between(Time(1_000), Time(5_000));
        assert_eq!(offset.to_wall(Time(5_500)), Time(1_500));
        assert_eq!(offset.to_steady(Time(1_500)), Time(5_500));
        assert_eq!(offset.to_steady(Time(0)), Time(0));
        assert_eq!(offset.to_wall(Time(u64::MAX)), Time(u64::MAX));
        assert_eq!(WallOffset(-3).step_from(WallOffset(4)), Duration::from_millis(7));
    }
}

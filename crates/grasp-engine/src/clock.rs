//! The engine runs on steady time. Filters and records carry wall time, so it is told how far the
//! wall clock is ahead. What was asked for while the wall clock was wrong may have begun at the
//! wrong moment; after a step everything is therefore compared anew, like once a day.

use crate::engine::Engine;
use crate::relay::{Around, millis};
use crate::timers::Alarm;
use crate::vocabulary::Purpose;
use grasp_core::{Time, Timestamp, WallOffset};
use std::time::Duration;

/// Less than this is well within what every catch-up reaches back.
const STEP_MIN: Duration = Duration::from_secs(5 * 60);
/// A clock that is set again and again causes fewer and fewer comparisons.
const GAP_MIN: Duration = Duration::from_secs(2);
const GAP_MAX: Duration = Duration::from_secs(15 * 60);
/// After so long without a step the gap is small again.
const GAP_FORGOTTEN_AFTER: Duration = Duration::from_secs(3_600);

/// More than this is not asked for twice because a clock was set.
const STEP_ALLOWED_MS_MAX: u64 = 24 * 3_600_000;

#[derive(Debug, Default)]
pub(crate) struct WallClock {
    pub(crate) offset: WallOffset,
    /// As it was when everything was last compared because of it.
    compared: WallOffset,
    compared_at: Option<Time>,
    /// How long the next comparison waits for, after the last one.
    gap: Duration,
}

impl Around<'_> {
    /// The `since` of a filter for what was created after this moment, and so much before it. Of a
    /// wall clock that was set forward it is unknown when it was right, so both are allowed for.
    pub(crate) fn since(&self, at: Time, overlap: Duration) -> Timestamp {
        let ahead_ms = u64::try_from(self.wall.0).unwrap_or(0).min(STEP_ALLOWED_MS_MAX);
        let back_ms = ahead_ms.saturating_add(millis(overlap));
        Time(self.wall.to_wall(at).0.saturating_sub(back_ms)).timestamp()
    }

    /// A question that waited since before the clock was set back must not begin in the future.
    pub(crate) fn past_since(&self, since: Option<Timestamp>) -> Option<Timestamp> {
        since.map(|since| since.min(self.since(self.now, self.settings.rotation_overlap)))
    }
}

impl Engine {
    pub(crate) fn set_wall_clock(&mut self, offset: WallOffset, now: Time) {
        self.wall.offset = offset;
        if offset.step_from(self.wall.compared) >= STEP_MIN {
            let rested = self.wall.compared_at.map(|at| at.plus(self.wall.gap));
            self.timers.set(Alarm::ClockStep, rested.unwrap_or(now).max(now));
        }
    }

    /// Asks every linked relay for everything; the others are asked when they are linked.
    pub(crate) fn compare_after_step(&mut self, now: Time) {
        let calm = self.wall.compared_at.is_none_or(|at| now.since(at) >= GAP_FORGOTTEN_AFTER);
        let longer = self.wall.gap.saturating_mul(2).min(GAP_MAX);
        self.wall = WallClock {
            offset: self.wall.offset,
            compared: self.wall.offset,
            compared_at: Some(now),
            gap: if calm { GAP_MIN } else { longer },
        };
        let numbers: Vec<u32> = self.numbers.values().copied().collect();
        for number in numbers {
            let Some(relay) = self.relay_mut(number) else { continue };
            // What is known of how it stands carries a time of the old clock.
            relay.groups.iter_mut().for_each(|group| group.is_due(now));
            match relay.session() {
                Some(_) => self.sync_anew(number, Purpose::Daily, now),
                None => relay.last_alive = None,
            }
            self.with(number, now, |relay, around| relay.verify_soon(around));
        }
    }
}

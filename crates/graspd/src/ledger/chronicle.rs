//! What is remembered of one relay over time: quarter hours of the last day, each with how much of the
//! wanted time there was a link, and how many events came from it, late or not. Pure; bounded.

use crate::report::Slot;
use grasp_core::Time;
use grasp_engine::Account;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// A day of quarter hours.
pub const SLOTS: usize = 96;
const SLOT_MS: u64 = 15 * 60 * 1_000;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Chronicle {
    pub counts: Received,
    /// The quarter hour that is running, counted from 1970, and what was measured in it.
    slot: u64,
    connected_ms: u64,
    wanted_ms: u64,
    /// Those before it, the latest first.
    past: VecDeque<Option<u16>>,
    /// What the account said when it was last looked at.
    #[serde(skip)]
    seen: Option<(u64, u64)>,
}

/// What came from a relay and was new here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Received {
    pub events: u64,
    /// Seen late although the relay was live, and those seen only by the daily sync.
    pub gaps: u64,
    pub gaps_sustained: u64,
}

impl Received {
    pub fn add(&mut self, more: &Self) {
        self.events = self.events.saturating_add(more.events);
        self.gaps = self.gaps.saturating_add(more.gaps);
        self.gaps_sustained = self.gaps_sustained.saturating_add(more.gaps_sustained);
    }
}

impl Chronicle {
    /// Takes in what the account has grown by since the last time. True if a quarter hour ended.
    pub fn measure(&mut self, account: &Account, now: Time) -> bool {
        let (connected, wanted) = (account.connected_ms, account.wanted_ms);
        // Looked at often, so nearly all of it belongs to the quarter hour before.
        if let Some((connected_before, wanted_before)) = self.seen.replace((connected, wanted)) {
            self.connected_ms += connected.saturating_sub(connected_before);
            self.wanted_ms += wanted.saturating_sub(wanted_before);
        }
        self.turn(now.0 / SLOT_MS)
    }

    /// Moves on to this quarter hour; those in which nobody looked are empty.
    fn turn(&mut self, slot: u64) -> bool {
        if slot <= self.slot {
            return false;
        }
        let started = self.slot > 0;
        if started {
            let ended = permille(self.connected_ms, self.wanted_ms);
            self.past.push_front(ended);
            let unseen = usize::try_from(slot - self.slot - 1).unwrap_or(SLOTS).min(SLOTS);
            (0..unseen).for_each(|_| self.past.push_front(None));
            self.past.truncate(SLOTS - 1);
        }
        (self.slot, self.connected_ms, self.wanted_ms) = (slot, 0, 0);
        started
    }

    /// The last day, the latest first.
    pub fn timeline(&self, now: Time) -> Vec<Slot> {
        let mut shown = self.clone();
        shown.turn(now.0 / SLOT_MS);
        let running = permille(shown.connected_ms, shown.wanted_ms);
        let all = std::iter::once(running).chain(shown.past.iter().copied());
        let start = |back: usize| {
            let back = u64::try_from(back).unwrap_or(u64::MAX);
            Time(shown.slot.saturating_sub(back).saturating_mul(SLOT_MS))
        };
        all.enumerate().map(|(back, up)| Slot { at: start(back), up_permille: up }).collect()
    }
}

fn permille(connected_ms: u64, wanted_ms: u64) -> Option<u16> {
    let up = (connected_ms.min(wanted_ms).saturating_mul(1_000)).checked_div(wanted_ms)?;
    u16::try_from(up).ok()
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

    fn account(connected_ms: u64, wanted_ms: u64) -> Account {
        Account { connected_ms, wanted_ms, ..Account::default() }
    }

    fn minute(number: u64) -> Time {
        Time::from_secs(1_700_000_100 / 900 * 900 + number * 60)
    }

    #[test]
    fn s30_uptime_is_the_share_of_the_time_in_which_the_link_was_wanted() {
        assert_eq!(uptime_percent(&account(0, 0)), None);
        assert_eq!(uptime_percent(&account(0, 500)), Some(0.0));
        assert_eq!(uptime_percent(&account(999, 1_000)), Some(99.9));
        assert_eq!(uptime_percent(&account(1_001, 1_000)), Some(100.0));
    }

    #[test]
    fn s30_each_quarter_hour_shows_how_much_of_it_there_was_a_link() {
        let mut chronicle = Chronicle::default();
        let (mut connected, mut wanted) = (5_000, 9_000);
        let mut turns = 0;
        for number in 0..60 {
            let turned = chronicle.measure(&account(connected, wanted), minute(number));
            turns += usize::from(turned);
            wanted += 60_000;
            // Down in the second quarter, and in half of the third.
            connected +=
                if (15..30).contains(&number) || (30..37).contains(&number) { 0 } else { 60_000 };
        }
        assert_eq!(turns, 3);
        let shown: Vec<Option<u16>> =
            chronicle.timeline(minute(59)).iter().map(|slot| slot.up_permille).collect();
        assert_eq!(shown, [Some(1_000), Some(533), Some(0), Some(1_000)]);
        assert_eq!(chronicle.timeline(minute(59))[1].at, minute(30));
        let later = chronicle.timeline(minute(90));
        assert_eq!(later[0].up_permille, None, "nobody looked");
        assert_eq!(later.len(), 7);
    }

    #[test]
    fn s30_a_restart_keeps_the_day_and_counts_no_downtime_of_ours() {
        let mut chronicle = Chronicle::default();
        for number in 0..=15 {
            chronicle.measure(&account(number * 60_000, number * 60_000), minute(number));
        }
        let written = serde_json::to_string(&chronicle).unwrap();
        let mut again: Chronicle = serde_json::from_str(&written).unwrap();
        again.measure(&account(900_000, 900_000), minute(16));
        again.measure(&account(900_000, 960_000), minute(17));
        let shown = again.timeline(minute(17));
        assert_eq!(shown.len(), 2);
        assert_eq!(shown[0].up_permille, Some(0), "only what was measured since");
        assert_eq!(shown[1].up_permille, Some(1_000));
    }

    #[test]
    fn s30_no_more_than_a_day_is_kept_whatever_the_clock_does() {
        let mut chronicle = Chronicle::default();
        for number in 0..5_000 {
            chronicle.measure(&account(number * 60_000, number * 60_000), minute(number));
        }
        assert_eq!(chronicle.timeline(minute(4_999)).len(), SLOTS);
        chronicle.measure(&account(0, 0), Time(0));
        chronicle.measure(&account(0, 0), Time(u64::MAX));
        assert_eq!(chronicle.past.len(), SLOTS - 1);
        assert!(serde_json::to_string(&chronicle).unwrap().len() < 1_000);
    }
}

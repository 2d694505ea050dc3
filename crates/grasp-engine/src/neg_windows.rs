//! How a filter with more events than the relay compares at once is compared in windows of
//! `created_at` (S-44). The walk goes from the newest window to the oldest. A refused window is
//! halved; after a small window the next one is larger. Every window is accepted, halved or given up.

use grasp_core::Timestamp;

/// Some of a filter's events by `created_at`; both ends belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TimeWindow {
    pub(crate) since: Option<Timestamp>,
    pub(crate) until: Option<Timestamp>,
}

impl TimeWindow {
    pub(crate) const ALL: Self = Self { since: None, until: None };
}

/// What of one filter is still to be compared, and how much of it at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WindowWalk {
    /// What is left.
    pub(crate) left: TimeWindow,
    /// When the walk began; the newest window reaches back from here and has no upper end.
    start: Timestamp,
    /// The length of the next window; `None`: all that is left.
    secs: Option<u64>,
    /// The most events of one window that the relay compared or is said to compare; 0: unknown.
    events_max: u64,
    /// Windows compared so far.
    windows: u32,
}

/// Few events are older than this; a first window is half of the time since then.
const EARLIEST: Timestamp = Timestamp(1_577_836_800);
/// Windows with fewer events than this grow, even after a refusal.
const FEW_EVENTS: u64 = 16;
/// A limit that the relay names is believed up to this.
const LIMIT_HINT_MAX: u64 = 1_000_000;
/// One window is at most so many times as long as the one before.
const GROWTH_MAX: u64 = 16;
/// Windows of one comparison; what is left then is read page by page.
const WINDOWS_MAX: u32 = 10_000;

impl WindowWalk {
    /// Everything, or everything since a moment, in windows of so many seconds.
    pub(crate) fn new(since: Option<Timestamp>, start: Timestamp, secs: Option<u64>) -> Self {
        let left = TimeWindow { since, until: None };
        Self { left, start, secs: secs.map(|secs| secs.max(1)), events_max: 0, windows: 0 }
    }

    /// The window that is compared next.
    pub(crate) fn window(&self) -> TimeWindow {
        let top = self.left.until.unwrap_or(self.start);
        let since = self.secs.and_then(|secs| top.0.checked_sub(secs - 1)).map(Timestamp);
        TimeWindow { since: since.max(self.left.since), until: self.left.until }
    }

    /// The length of the next window if it holds the newest events of a filter, and not all of them.
    pub(crate) fn newest_secs(&self) -> Option<u64> {
        let is_newest = self.left == TimeWindow::ALL && self.window().since.is_some();
        self.secs.filter(|_| is_newest)
    }

    /// The relay compared the window and has so many events in it. `None`: nothing is left.
    pub(crate) fn accepted(mut self, events: usize) -> Option<Self> {
        let window = self.window();
        if window.since == self.left.since {
            return None;
        }
        let since = window.since?;
        self.left.until = Some(Timestamp(since.0.checked_sub(1)?));
        let events = u64::try_from(events).unwrap_or(u64::MAX);
        self.events_max = self.events_max.max(events);
        let most = self.events_max.max(FEW_EVENTS);
        let growth = (most / events.max(1).saturating_mul(2)).clamp(1, GROWTH_MAX);
        self.secs = self.secs.map(|secs| secs.saturating_mul(growth));
        self.windows += 1;
        Some(self)
    }

    /// The relay refused to compare so many events. `None`: it cannot be asked for fewer.
    pub(crate) fn refused(mut self, limit: Option<u64>) -> Option<Self> {
        let TimeWindow { since, until } = self.window();
        let top = until.unwrap_or(self.start);
        let bottom = since.unwrap_or(EARLIEST.min(Timestamp(top.0 / 2)));
        let secs = top.0.saturating_sub(bottom.0).div_ceil(2);
        if secs == 0 || self.windows >= WINDOWS_MAX {
            return None;
        }
        self.secs = Some(secs);
        // A limit that the relay names is a hint: what was refused since then says more.
        let hint = limit.map_or(LIMIT_HINT_MAX, |limit| limit.clamp(1, LIMIT_HINT_MAX));
        self.events_max = match self.events_max {
            0 => limit.map_or(0, |_| hint),
            known => (known / 2).clamp(1, hint),
        };
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000;

    /// A relay that compares at most `limit(question)` events at once. Returns the events that were
    /// compared, the windows that were accepted and those that were refused.
    fn walk(
        times: &[u64],
        first: WindowWalk,
        hint: Option<u64>,
        limit: impl Fn(usize) -> usize,
    ) -> (usize, usize, usize) {
        let (mut compared, mut accepted, mut refused) = (0, 0, 0);
        let mut next = Some(first);
        while let Some(walk) = next {
            assert!(accepted + refused < 20_000, "never ends");
            let TimeWindow { since, until } = walk.window();
            let inside = |at: &&u64| {
                since.is_none_or(|since| **at >= since.0) && until.is_none_or(|it| **at <= it.0)
            };
            let events = times.iter().filter(inside).count();
            next = if events > limit(accepted + refused) {
                refused += 1;
                walk.refused(hint)
            } else {
                accepted += 1;
                compared += events;
                walk.accepted(events)
            };
        }
        (compared, accepted, refused)
    }

    fn everything() -> WindowWalk {
        WindowWalk::new(None, Timestamp(NOW), None)
    }

    /// Dense lately, sparse before, and a burst in between.
    fn uneven() -> Vec<u64> {
        let lately = (0..5_000).map(|n| NOW - n * 60);
        let burst = (0..3_000).map(|n| NOW - 40_000_000 - n / 4);
        let before = (0..2_000).map(|n| NOW - 1_000_000 - n * 90_000);
        lately.chain(burst).chain(before).chain([0, 5, NOW + 600]).collect()
    }

    #[test]
    fn s44_windows_cover_every_event_once_whatever_the_limit_and_the_hint() {
        let times = uneven();
        for limit in [20, 100, 1_000, 9_000, 100_000] {
            for hint in [None, Some(limit as u64), Some(0), Some(u64::MAX)] {
                let (compared, accepted, refused) = walk(&times, everything(), hint, |_| limit);
                assert_eq!(compared, times.len(), "limit {limit}, hint {hint:?}");
                let least = times.len().div_ceil(limit);
                assert!(accepted <= 8 * least + 40, "{accepted} windows, {least} would do");
                assert!(refused <= 3 * accepted + 40, "{refused} of {accepted} refused");
            }
        }
    }

    #[test]
    fn s44_evenly_spread_events_are_compared_in_few_windows() {
        let times: Vec<u64> = (0..100_000).map(|n| NOW - n * 300).collect();
        let (compared, accepted, refused) = walk(&times, everything(), None, |_| 1_000);
        assert_eq!(compared, times.len());
        assert!(accepted <= 210 && refused <= 30, "{accepted} accepted, {refused} refused");
    }

    #[test]
    fn s44_a_limit_that_changes_between_windows_costs_refusals_and_no_event() {
        let times = uneven();
        for limit in [
            |asked: usize| if asked.is_multiple_of(2) { 500 } else { 50 },
            |asked: usize| 2_000 / (asked + 1) + 20,
            |asked: usize| if asked < 20 { 20 } else { 5_000 },
        ] {
            let (compared, accepted, refused) = walk(&times, everything(), None, limit);
            assert_eq!(compared, times.len());
            assert!(accepted < 1_500 && refused < 4_000, "{accepted}, {refused}");
        }
    }

    #[test]
    fn s44_a_second_that_is_too_full_is_given_up() {
        let mut next = Some(everything());
        let mut refused = 0;
        while let Some(walk) = next {
            next = walk.refused(None);
            refused += 1;
        }
        assert!(refused < 40, "{refused} refusals");
    }

    #[test]
    fn s44_a_window_that_is_remembered_is_used_at_once() {
        let times: Vec<u64> = (0..5_000).map(|n| NOW - n * 60).collect();
        let first = WindowWalk::new(None, Timestamp(NOW), Some(900 * 60));
        assert_eq!(first.window().since, Some(Timestamp(NOW - 900 * 60 + 1)));
        assert_eq!(first.newest_secs(), Some(900 * 60));
        let (compared, _, refused) = walk(&times, first, None, |_| 1_000);
        assert_eq!((compared, refused), (5_000, 0));
    }

    #[test]
    fn s44_a_walk_from_a_moment_on_stays_within_it() {
        let since = Timestamp(NOW - 900);
        let walk = WindowWalk::new(Some(since), Timestamp(NOW), Some(100_000));
        assert_eq!(walk.window(), TimeWindow { since: Some(since), until: None });
        assert_eq!(walk.accepted(3), None);
        assert_eq!(walk.newest_secs(), None);
        let half = walk.refused(None).unwrap();
        assert_eq!(half.window().since, Some(Timestamp(NOW - 449)));
        assert_eq!(half.accepted(3).unwrap().left.since, Some(since));
    }
}

//! Moments to be woken at. Each alarm has one time: setting it again moves it.

use grasp_core::Time;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Alarm {
    /// The batch window closes.
    Window,
    /// Relays nobody wants are looked for.
    Cleanup,
    /// The next dial may start.
    Dial,
    /// The wall clock was set; everything is compared anew.
    ClockStep,
    /// Something about one relay.
    Relay(u32, Concern),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Concern {
    /// It may be dialled again.
    Retry,
    /// A dial that takes long gives its place to others.
    DialPatience,
    /// The link has held long enough to count as recovery.
    Stable,
    Daily,
    /// Something may be asked again.
    Ask,
    /// What is not heard live is asked for.
    Rotate,
    /// Ids that did not come are asked for again.
    Missing,
    /// Groups for whose events there was no room are asked for again.
    Room,
    /// The day of its budget for refused events ends.
    Budget,
    /// What is known of how it stands is due.
    Verify,
    /// Others wait for this link's place.
    LinkTurn,
    /// A history that shows no progress lets others go first.
    HistoryTurn,
    Remember,
}

impl Alarm {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Window => "the batch window closes",
            Self::Cleanup => "relays nobody wants are looked for",
            Self::Dial => "the next dial may start",
            Self::ClockStep => "everything is compared after a clock step",
            Self::Relay(_, Concern::Retry) => "a relay may be dialled again",
            Self::Relay(_, Concern::DialPatience) => "a slow dial gives its place to others",
            Self::Relay(_, Concern::Stable) => "a link has held long enough",
            Self::Relay(_, Concern::Daily) => "a daily sync is due",
            Self::Relay(_, Concern::Ask) => "a relay may be asked again",
            Self::Relay(_, Concern::Rotate) => "what is not heard live is asked for",
            Self::Relay(_, Concern::Missing) => "missing events are asked for again",
            Self::Relay(_, Concern::Budget) => "the budget for refused events is given anew",
            Self::Relay(_, Concern::Room) => "events without room are asked for again",
            Self::Relay(_, Concern::Verify) => "how a relay stands is due",
            Self::Relay(_, Concern::LinkTurn) => "others wait for this link's place",
            Self::Relay(_, Concern::HistoryTurn) => "a slow history lets others go first",
            Self::Relay(_, Concern::Remember) => "a relay's record is due",
        }
    }
}

#[derive(Debug)]
pub(crate) struct Timers<A = Alarm> {
    queue: BTreeSet<(Time, A)>,
    at: BTreeMap<A, Time>,
}

impl<A> Default for Timers<A> {
    fn default() -> Self {
        Self { queue: BTreeSet::new(), at: BTreeMap::new() }
    }
}

impl<A: Ord + Clone> Timers<A> {
    pub(crate) fn set(&mut self, alarm: A, at: Time) {
        self.clear(alarm.clone());
        self.queue.insert((at, alarm.clone()));
        self.at.insert(alarm, at);
    }

    /// Sets it unless it already rings sooner.
    pub(crate) fn at_latest(&mut self, alarm: A, at: Time) {
        if self.at.get(&alarm).is_none_or(|set| *set > at) {
            self.set(alarm, at);
        }
    }

    pub(crate) fn clear(&mut self, alarm: A) {
        if let Some(at) = self.at.remove(&alarm) {
            self.queue.remove(&(at, alarm));
        }
    }

    pub(crate) fn next(&self) -> Option<(Time, A)> {
        self.queue.first().cloned()
    }

    /// The next alarm that has rung by `now`.
    pub(crate) fn rung(&mut self, now: Time) -> Option<A> {
        let rung = self.next().filter(|(at, _)| *at <= now)?;
        self.queue.remove(&rung);
        self.at.remove(&rung.1);
        Some(rung.1)
    }
}

impl Timers {
    pub(crate) fn is_set(&self, alarm: Alarm) -> bool {
        self.at.contains_key(&alarm)
    }

    pub(crate) fn clear_relay(&mut self, relay: u32) {
        use Concern::*;
        for concern in [
            Retry,
            DialPatience,
            Stable,
            Daily,
            Ask,
            Rotate,
            Missing,
            Verify,
            LinkTurn,
            HistoryTurn,
            Remember,
        ] {
            self.clear(Alarm::Relay(relay, concern));
        }
    }
}

//! What is remembered of a relay's NIP-77 across links and restarts: whether the relay speaks it
//! (S-61), whether its answers are believed (S-45), and how much it compares at a time (S-44).

use crate::groups::{Layer, Part};
use crate::question::Asked;
use crate::relay::{Around, Relay};
use crate::session::Negentropy;
use crate::vocabulary::Doubt;
use grasp_core::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3_600);
const WEEK: Duration = Duration::from_secs(7 * 24 * 3_600);
/// A relay that was never seen to speak NIP-77 answers its first NEG-OPEN within this, or does not
/// speak it.
const FIRST_ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// How long the comparisons of a relay that hid events are not believed.
pub(crate) const IGNORED_FOR: Duration = DAY;
/// A window that grew beyond this is none any more.
const WINDOW_SECS_MAX: u64 = 50 * 365 * 24 * 3_600;

/// In wall time where it is a part of a record.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct NegMemory {
    /// The relay has answered a NEG-OPEN as NIP-77 says.
    pub speaks: bool,
    /// The relay does not speak NIP-77; it is tried again then.
    pub denied_until: Option<Time>,
    /// The relay hid events from comparisons; they are not believed until then.
    pub ignored_until: Option<Time>,
    /// Seconds of `created_at` that the relay compares at a time, for each filter of each layer.
    pub windows: BTreeMap<u8, u64>,
}

/// How a relay showed that it does not speak NIP-77.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NegDenial {
    /// In words that say so.
    Told,
    /// By silence, by a word about something else, or by its list of NIPs.
    Assumed,
}

impl NegDenial {
    /// How long it is remembered.
    fn lasts(self) -> Duration {
        match self {
            Self::Told => WEEK,
            Self::Assumed => DAY,
        }
    }
}

impl NegMemory {
    pub(crate) fn with_times(mut self, translate: impl Fn(Time) -> Time) -> Self {
        for at in [&mut self.denied_until, &mut self.ignored_until] {
            *at = at.map(&translate);
        }
        self
    }

    /// Moments too far away were written by a clock that was wrong, and keys that do not exist by
    /// another version.
    pub(crate) fn clamped(mut self, now: Time) -> Self {
        self.denied_until = self.denied_until.map(|at| at.min(now.plus(WEEK)));
        self.ignored_until = self.ignored_until.map(|at| at.min(now.plus(IGNORED_FOR)));
        self.windows.retain(|key, secs| *key < KEYS_MAX && *secs > 0);
        self
    }

    /// Why the relay is not compared with now.
    pub(crate) fn doubt(&self, now: Time) -> Option<Doubt> {
        let later = |at: Option<Time>| at.is_some_and(|at| at > now);
        if later(self.ignored_until) {
            return Some(Doubt::Hides);
        }
        later(self.denied_until).then_some(Doubt::NoNegentropy)
    }

    fn deny(&mut self, denial: NegDenial, now: Time) {
        let until = now.plus(denial.lasts());
        self.denied_until = Some(self.denied_until.map_or(until, |at| at.max(until)));
        self.speaks = false;
    }

    /// The relay answered as NIP-77 says.
    fn answered(&mut self) -> bool {
        self.denied_until = None;
        !std::mem::replace(&mut self.speaks, true)
    }

    /// Forgets every reason for not comparing with this relay.
    pub(crate) fn release(&mut self) {
        (self.denied_until, self.ignored_until) = (None, None);
    }

    /// Larger windows are tried; a relay may compare more by now.
    pub(crate) fn hope_for_more(&mut self) {
        self.windows.values_mut().for_each(|secs| *secs = secs.saturating_mul(2));
        self.windows.retain(|_, secs| *secs <= WINDOW_SECS_MAX);
    }
}

/// Layers times filters of one.
const KEYS_MAX: u8 = 40;

fn key(layer: Layer, part: u8) -> u8 {
    let layer = match layer {
        Layer::Announcements => 0,
        Layer::States => 1,
        Layer::Waiting | Layer::Named => 2,
        Layer::Repos => 3,
        Layer::Roots => 4,
    };
    layer * 8 + part
}

impl Relay {
    /// A new link: is the relay compared with? A list of NIPs without NIP-77 says no.
    pub(crate) fn start_comparing(&mut self, around: &Around<'_>) {
        let listed = self.session().and_then(|session| session.peer.nip77);
        if listed == Some(false) {
            self.negentropy.deny(NegDenial::Assumed, around.now);
        }
        let Some(doubt) = self.negentropy.doubt(around.now) else { return };
        if let Some(session) = self.session_mut() {
            session.negentropy = Negentropy::No;
            session.doubt = Some(doubt);
        }
    }

    /// The relay showed that it does not speak NIP-77.
    pub(crate) fn deny_negentropy(&mut self, denial: NegDenial, around: &mut Around<'_>) {
        self.negentropy.deny(denial, around.now);
        self.no_negentropy(around);
        self.remember_negentropy(around);
    }

    pub(crate) fn negentropy_answered(&mut self, around: &mut Around<'_>) {
        if self.negentropy.answered() {
            self.remember_negentropy(around);
        }
    }

    /// How many comparisons may be open at once: one until the relay has shown that it compares.
    pub(crate) fn comparisons_max(&self, around: &Around<'_>) -> usize {
        let learned = self.session().map_or(u32::MAX, |session| session.compare_max);
        match self.negentropy.speaks {
            true => around.settings.negentropy_at_once_max.min(learned) as usize,
            false => 1,
        }
    }

    /// Has the relay answered everything but NEG-OPENs? Then a NOTICE that it sends is about these.
    pub(crate) fn awaits_comparisons_alone(&self) -> bool {
        let Some(session) = self.session().filter(|_| !self.negentropy.speaks) else {
            return false;
        };
        let compares = |asked: &Asked| asked.work.question.compares();
        session.live.values().all(|live| live.open) && session.asked.values().all(compares)
    }

    /// Within which time the relay has to answer the next NEG-OPEN, if that is not as usual.
    pub(crate) fn first_answer_within(&self) -> Option<Duration> {
        let is_listed = self.session().is_some_and(|it| it.peer.nip77 == Some(true));
        (!self.negentropy.speaks && !is_listed).then_some(FIRST_ANSWER_WITHIN)
    }

    /// The length of the window that the relay compared last time.
    pub(crate) fn learned_window(&self, part: Part) -> Option<u64> {
        let layer = self.group(part.group)?.layer;
        self.negentropy.windows.get(&key(layer, part.part)).copied()
    }

    /// The newest events of a filter were compared in a window of this length.
    pub(crate) fn learn_window(&mut self, part: Part, secs: u64, around: &mut Around<'_>) {
        let Some(layer) = self.group(part.group).map(|group| group.layer) else { return };
        let before = self.negentropy.windows.insert(key(layer, part.part), secs);
        if before != Some(secs) {
            self.remember_negentropy(around);
        }
    }

    pub(crate) fn remember_negentropy(&self, around: &mut Around<'_>) {
        around.act(crate::vocabulary::Action::Remember(self.url.clone()));
    }
}

//! Counts what came of a relay's events, and tells the engine in time (S-47).

use super::Link;
use crate::sync::offer::Fate;
use grasp_engine::{Input, JudgedEvents};

/// The engine is told after so many refused bytes, or events of any kind, and at every report.
const TOLD_AFTER_BYTES: u64 = 64 << 10;
const TOLD_AFTER_EVENTS: u64 = 100;
/// Refused bytes of which the engine was told and has not decided yet; beyond that nothing is read.
const UNDECIDED_BYTES_MAX: u64 = 128 << 10;

impl Link<'_> {
    pub(super) async fn count_judged(&mut self, fate: Fate, bytes: usize) {
        match fate {
            Fate::New => self.judged.accepted += 1,
            Fate::Known => self.judged.known += 1,
            Fate::Refused => {
                self.judged.refused += 1;
                self.judged.refused_bytes += u64::try_from(bytes).unwrap_or(0);
            }
            // Neither wanted nor refused; the limits for these are elsewhere.
            Fate::NoRoom | Fate::Failed | Fate::Forged => return,
        }
        let JudgedEvents { accepted, known, refused, refused_bytes } = self.judged;
        let events = accepted + known + refused;
        if refused_bytes >= TOLD_AFTER_BYTES || events >= TOLD_AFTER_EVENTS {
            self.tell_judged().await;
        }
    }

    /// A relay is read no faster than the engine can decide about what it costs.
    pub(super) fn is_decided(&self) -> bool {
        self.undecided_bytes <= UNDECIDED_BYTES_MAX
    }

    pub(super) async fn tell_judged(&mut self) {
        let judged = std::mem::take(&mut self.judged);
        if judged != JudgedEvents::default() {
            self.undecided_bytes += judged.refused_bytes;
            let relay = self.line.relay.clone();
            self.line.say(Input::Judged { relay, judged }).await;
        }
    }
}

//! What relays answer, and who may be asked next (S-24).

use crate::engine::Engine;
use crate::history::Start;
use crate::neg_memory::NegDenial;
use crate::refusal::{Refusal, denies_negentropy};
use crate::relay::Relay;
use crate::session::{Auth, Session};
use crate::timers::{Alarm, Concern};
use crate::vocabulary::{End, Sub};
use grasp_core::{RelayUrl, Time};
use std::time::Duration;

/// However much progress it makes, while others wait.
const TURN_MAX: Duration = Duration::from_secs(30);

impl Engine {
    pub(crate) fn ended(&mut self, url: &RelayUrl, sub: Sub, end: End, now: Time) {
        let Some(number) = self.numbers.get(url).copied() else { return };
        self.with(number, now, |relay, around| {
            let is_live = relay.session().is_some_and(|session| session.live.contains_key(&sub));
            if is_live {
                return relay.live_ended(sub, &end, around);
            }
            let Some(work) = relay.end_asked(sub) else { return };
            relay.question_ended(work, end, around);
            relay.repack_if_wanted(around);
            let squeezed = relay.session_mut().map(|it| std::mem::take(&mut it.squeezed));
            if squeezed == Some(true) {
                relay.hear_all(around);
            }
        });
        self.progressed(number, now);
        self.pump(number, now);
    }

    pub(crate) fn notice(&mut self, url: &RelayUrl, text: &str, now: Time) {
        let Some(number) = self.numbers.get(url).copied() else { return };
        self.with(number, now, |relay, around| match Refusal::of(text) {
            Refusal::RateLimit => relay.slow_down(around),
            Refusal::TooManyAtOnce | Refusal::AuthRequired | Refusal::TooManyEvents => {}
            _ if denies_negentropy(text) => relay.comparisons_denied(NegDenial::Told, around),
            _ if relay.awaits_comparisons_alone() => {
                relay.comparisons_denied(NegDenial::Assumed, around);
            }
            _ => {}
        });
        self.pump(number, now);
    }

    pub(crate) fn authenticated(&mut self, url: &RelayUrl, ok: bool, now: Time) {
        let Some(number) = self.numbers.get(url).copied() else { return };
        self.with(number, now, |relay, around| {
            let Some(session) = relay.session_mut().filter(|it| it.auth == Auth::Asked) else {
                return;
            };
            session.auth = Auth::Done;
            let waiting = std::mem::take(&mut session.after_auth);
            waiting.into_iter().for_each(|work| relay.ask_again(work));
            match ok {
                true => relay.hear_all(around),
                false => relay.pause("it does not know us", around),
            }
        });
        self.pump(number, now);
    }

    /// Asks this relay as much as it may be asked now.
    pub(crate) fn pump(&mut self, number: u32, now: Time) {
        self.pump_one(number, now);
        self.serve_waiting(now);
    }

    /// Whoever waits for a turn gets it, if there is one.
    pub(crate) fn serve_waiting(&mut self, now: Time) {
        while let Some(next) = self.turns.next() {
            self.pump_one(next, now);
        }
    }

    pub(crate) fn pump_one(&mut self, number: u32, now: Time) {
        loop {
            let asks = self.relay(number).is_some_and(Relay::has_questions);
            if !asks {
                break;
            }
            let had_turn = self.turns.has(number);
            if !self.turns.take(number) {
                return;
            }
            if !had_turn && let Some(session) = self.relay_mut(number).and_then(Relay::session_mut)
            {
                session.turn_since = now;
            }
            let alarm = Alarm::Relay(number, Concern::HistoryTurn);
            if !self.timers.is_set(alarm) {
                self.timers.set(alarm, now.plus(self.settings.turn_without_progress));
            }
            match self.with(number, now, |relay, around| relay.start_one(around)) {
                Some(Start::Started) => {}
                Some(Start::Wait(until)) => {
                    self.timers.at_latest(Alarm::Relay(number, Concern::Ask), until);
                    break;
                }
                // Nothing could be begun with this turn, so it is nobody's.
                Some(Start::Idle) | None if !had_turn => {
                    self.give_turn_back(number);
                    break;
                }
                Some(Start::Idle) | None => break,
            }
        }
        let waiting = self.relay(number).and_then(Relay::session);
        if waiting.is_none_or(|session| session.asked.is_empty()) {
            self.give_turn_back(number);
        }
    }

    pub(crate) fn progressed(&mut self, number: u32, now: Time) {
        let enough = self.settings.turn_events_max;
        let (enough_bytes, session) =
            (self.settings.turn_bytes_max, self.relay(number).and_then(Relay::session));
        let waited_for = self.turns.is_waited_for();
        let over = |it: &Session| {
            it.turn_events > enough
                || it.turn_bytes > enough_bytes
                || (waited_for && now >= it.turn_since.plus(TURN_MAX))
        };
        if session.is_some_and(over) {
            self.turn_over(number, now);
        } else if self.turns.has(number) {
            let silent = now.plus(self.settings.turn_without_progress);
            self.timers.set(Alarm::Relay(number, Concern::HistoryTurn), silent);
        }
    }

    /// Whoever shows no progress, or had much, lets the next one go first.
    pub(crate) fn turn_over(&mut self, number: u32, now: Time) {
        if let Some(session) = self.relay_mut(number).and_then(Relay::session_mut) {
            session.turn_events = 0;
            session.turn_bytes = 0;
        }
        self.give_turn_back(number);
        self.serve_waiting(now);
        self.pump(number, now);
    }

    pub(crate) fn give_turn_back(&mut self, number: u32) {
        self.timers.clear(Alarm::Relay(number, Concern::HistoryTurn));
        self.turns.give_back(number);
    }
}

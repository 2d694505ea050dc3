//! What a relay says to us, and what of it we take.

use super::{Link, Step, name, number};
use crate::sync::offer::{Fate, Way, offer};
use grasp_core::Event;
use grasp_core::policy::{Origin, RefusalClass, precheck};
use grasp_engine::{End, Hint, Input, Intake, Loss, Purpose, Sub, end_of_neg_err};
use grasp_relay::client::{self, RelayMessage};
use grasp_relay::reply;
use grasp_store::SourceKind;
use std::time::Duration;
use tokio_tungstenite::tungstenite::Message;

/// Messages that are none; other software has other ideas, so some are forgiven.
const UNREADABLE_MAX: u32 = 100;
/// Frames that belong to nothing we asked: what is still on its way after a CLOSE, and no more.
const USELESS_BYTES_MAX: usize = 64 << 20;
const USELESS_FORGIVEN_AFTER: Duration = Duration::from_secs(3_600);
/// A NOTICE concerns the driver, whom all links share.
const NOTICE_COSTS: usize = 64 << 10;

impl Link<'_> {
    pub(super) async fn hear(&mut self, frame: Message) -> Step {
        self.heard_at = self.line.now();
        self.pinged = false;
        let Message::Text(text) = frame else { return Ok(()) };
        let bytes = text.len();
        match RelayMessage::parse(&text) {
            Ok(RelayMessage::Event { sub, event }) => {
                let Some(sub) = number(sub.as_str()) else { return self.stray() };
                if self.comparisons.contains_key(&sub) {
                    return self.stray();
                }
                self.event(sub, event, bytes).await
            }
            Ok(RelayMessage::Eose { sub, hint }) => {
                let asked =
                    |sub: &Sub| self.reception.is_open(*sub) && !self.comparisons.contains_key(sub);
                let Some(sub) = number(sub.as_str()).filter(asked) else {
                    return self.useless(bytes);
                };
                self.eose(sub, hint).await
            }
            Ok(RelayMessage::Closed { sub, text }) => {
                let known = number(sub.as_str());
                let Some(sub) = known.filter(|sub| self.reception.is_open(*sub)) else {
                    return self.useless(bytes);
                };
                self.end(sub, End::Closed(text)).await;
                Ok(())
            }
            Ok(RelayMessage::Notice(text)) => {
                self.useless(NOTICE_COSTS)?;
                let relay = self.line.relay.clone();
                self.line.say(Input::Notice { relay, text }).await;
                Ok(())
            }
            Ok(RelayMessage::Ok { id, ok, .. }) => {
                if self.auth.sent != Some(id) {
                    return self.useless(bytes);
                }
                self.auth.sent = None;
                self.auth.answered_by = None;
                self.authenticated(ok).await;
                Ok(())
            }
            Ok(RelayMessage::Auth(challenge)) => self.challenged(challenge, bytes),
            Ok(RelayMessage::NegMsg { sub, message }) => {
                let known = number(sub.as_str());
                match known.filter(|sub| self.comparisons.contains_key(sub)) {
                    Some(sub) => self.neg_msg(sub, message, bytes),
                    None => self.useless(bytes),
                }
            }
            Ok(RelayMessage::NegErr { sub, text, limit }) => {
                let known = number(sub.as_str());
                let Some(sub) = known.filter(|sub| self.comparisons.contains_key(sub)) else {
                    return self.useless(bytes);
                };
                self.end(sub, end_of_neg_err(text, limit)).await;
                Ok(())
            }
            Ok(RelayMessage::Other) => self.useless(bytes),
            Err(_) => self.stray(),
        }
    }

    /// One is enough; it may be sent before we need it.
    fn challenged(&mut self, challenge: String, bytes: usize) -> Step {
        self.useless(bytes)?;
        match self.auth.wanted_by.take() {
            Some(_) => self.authenticate(&challenge),
            None => {
                self.auth.challenge = Some(challenge);
                Ok(())
            }
        }
    }

    fn neg_msg(&mut self, sub: Sub, message: Vec<u8>, bytes: usize) -> Step {
        let waits = self.comparisons.get(&sub).is_some_and(|it| !it.is_at_work());
        let Some(comparison) = self.comparisons.get_mut(&sub).filter(|_| waits) else {
            return self.useless(bytes);
        };
        self.reception.progresses(sub, self.heard_at);
        self.reception.has_answered(sub);
        let node = &self.line.ground.node;
        comparison.answer(node, sub, message, &self.turned_away, &self.compared);
        Ok(())
    }

    /// What nobody asked for costs the relay of its budget, which is given anew every hour.
    fn useless(&mut self, bytes: usize) -> Step {
        if self.heard_at >= self.useless_since.plus(USELESS_FORGIVEN_AFTER) {
            (self.useless_since, self.useless_bytes) = (self.heard_at, 0);
        }
        self.useless_bytes += bytes;
        match self.useless_bytes > USELESS_BYTES_MAX {
            true => Err(Loss::Misbehaved("it does not stop sending what nobody asked for".into())),
            false => Ok(()),
        }
    }

    fn stray(&mut self) -> Step {
        self.unreadable += 1;
        match self.unreadable > UNREADABLE_MAX {
            true => Err(Loss::Misbehaved("it sends messages that are none".into())),
            false => Ok(()),
        }
    }

    async fn event(&mut self, sub: Sub, event: Box<Event>, bytes: usize) -> Step {
        let (now, node) = (self.heard_at, &self.line.ground.node);
        let wall = node.clock.wall();
        match self.reception.event(sub, &event, bytes, now) {
            Intake::Take { past } => {
                let limits = &node.limits.relay;
                let fits =
                    bytes <= limits.event_bytes_max + 256 && event.tags.len() <= limits.tags_max;
                // What can never be welcome is remembered, so it goes through the door once.
                let judged = precheck(&event, &node.rules, wall.timestamp(), Origin::Sync);
                let welcome = match &judged {
                    Ok(()) => true,
                    Err(reason) => reason.class() == RefusalClass::Forever,
                };
                if !fits || !welcome {
                    let too_large = || "larger than this server takes".to_owned();
                    let reason = judged.err().map_or_else(too_large, |it| it.to_string());
                    self.log(&self.rejected(event.id, event.kind, reason));
                    self.turned_away.add(event.id, now);
                    self.count_judged(Fate::Refused, bytes).await;
                    return self.settled(sub, past, now).await;
                }
                let source = self.source(sub, past);
                self.on_their_way += 1;
                self.bytes_on_their_way += bytes;
                let errand = self.errands.get(&sub).copied();
                let way = Way { sub, source, bytes, past, errand };
                let offer = offer(event, &self.line.relay, way, &self.verdicts, wall);
                node.ingest.offer(self.line.generation, offer).await;
                Ok(())
            }
            Intake::Stray => self.useless(bytes),
            Intake::Flood => {
                let report = self.reception.floods(sub);
                self.close(sub)?;
                if let Some(report) = report {
                    self.report(sub, report).await;
                }
                Ok(())
            }
            Intake::Enough => Err(Loss::Misbehaved("it sends events nobody asked for".into())),
        }
    }

    fn source(&self, sub: Sub, past: bool) -> SourceKind {
        match self.errands.get(&sub).map(|errand| errand.purpose) {
            Some(Purpose::Backfill | Purpose::ByHand) => SourceKind::Backfill,
            Some(Purpose::Daily) => SourceKind::Daily,
            None if past => SourceKind::Backfill,
            None => SourceKind::Live,
        }
    }

    async fn eose(&mut self, sub: Sub, hint: Option<reply::Hint>) -> Step {
        let hint = hint.map(|hint| match hint {
            reply::Hint::Finish => Hint::Finish,
            reply::Hint::More => Hint::More,
        });
        if self.errands.contains_key(&sub) && self.reception.is_open(sub) {
            self.say(client::close(&name(sub)))?;
        }
        if let Some(report) = self.reception.eose(sub, hint, self.heard_at) {
            self.report(sub, report).await;
        }
        Ok(())
    }
}

//! What became of what a relay said: stored or not, compared, reported to the engine.

use super::{Link, Step, name};
use crate::sync::compare::{Compared, Progress};
use crate::sync::offer::{Fate, Verdict};
use grasp_core::{Time, Timestamp};
use grasp_engine::{End, Input, Loss, Report, Sub};
use grasp_relay::client;
use grasp_store::SourceKind;

/// An event younger than this may just be coming by both ways at once; one that was made this
/// shortly before a link broke may have been on its way.
const GAP_AGE_SECS: u64 = 60;
const GAP_BEFORE_LOSS_SECS: u64 = 3;

impl Link<'_> {
    pub(super) async fn judged(&mut self, verdict: &Verdict) -> Step {
        self.on_their_way = self.on_their_way.saturating_sub(1);
        self.bytes_on_their_way = self.bytes_on_their_way.saturating_sub(verdict.bytes);
        match verdict.fate {
            Fate::New => self.stored(verdict),
            Fate::Forged if self.reception.forged(verdict.sub, &verdict.id) => {
                return Err(Loss::Misbehaved("it sends forged events".into()));
            }
            // Asked for again later; what was heard live comes again with the next link.
            Fate::Failed if verdict.errand.is_none() => return Err(Loss::Crowded),
            Fate::Failed => {
                self.close(verdict.sub)?;
                self.end_own(verdict.sub).await;
                return Ok(());
            }
            // Also one that is known to be out of date.
            Fate::Refused | Fate::Known if verdict.errand.is_some() => {
                self.turned_away.add(verdict.id, self.heard_at);
            }
            Fate::Refused | Fate::Known | Fate::Forged => {}
        }
        self.settled(verdict.sub, verdict.past, self.line.now()).await
    }

    pub(super) async fn settled(&mut self, sub: Sub, past: bool, now: Time) -> Step {
        if let Some(report) = self.reception.judged(sub, past, now) {
            self.report(sub, report).await;
        }
        Ok(())
    }

    /// Counted by where it came from; what should have come before is a gap (S-28).
    fn stored(&self, verdict: &Verdict) {
        let (relay, id, kind) = (&self.line.relay, verdict.id, verdict.kind);
        let metrics = &self.line.ground.node.metrics.sync;
        metrics.event(verdict.source);
        let gap = self.should_have_come_before(verdict);
        self.line.ground.history.received(relay, verdict.source, gap);
        match verdict.source {
            SourceKind::Direct | SourceKind::Live => tracing::debug!(%relay, %id, %kind, "live"),
            SourceKind::Backfill if gap => {
                metrics.gap(relay);
                tracing::warn!(%relay, %id, %kind, "missed while it was live, found in history");
            }
            SourceKind::Daily if gap => {
                metrics.gap(relay);
                tracing::error!(%relay, %id, %kind, "missed for long, found by the daily sync");
            }
            SourceKind::Backfill | SourceKind::Daily => {
                tracing::debug!(%relay, %id, %kind, "history");
            }
        }
    }

    /// It was made while all of this was heard live, here or on the link before this one.
    fn should_have_come_before(&self, verdict: &Verdict) -> bool {
        let heard = |since: Timestamp, until: Timestamp| {
            verdict.created_at > since && verdict.created_at < until
        };
        let less = |time: Time, secs: u64| Timestamp(time.timestamp().0.saturating_sub(secs));
        match verdict.errand {
            Some(errand) => errand
                .live_since
                .is_some_and(|since| heard(since, less(self.heard_at, GAP_AGE_SECS))),
            // Only what was confirmed is heard from a moment in the past on.
            None => self
                .line
                .before
                .is_some_and(|(from, to)| heard(from.timestamp(), less(to, GAP_BEFORE_LOSS_SECS))),
        }
    }

    pub(super) async fn compared(&mut self, step: Compared) -> Step {
        let Compared { sub, progress } = step;
        let now = self.line.now();
        self.reception.progresses(sub, now);
        let Some(comparison) = self.comparisons.get_mut(&sub) else { return Ok(()) };
        match progress {
            Progress::Open(side, message) => {
                comparison.resume(side);
                let frame = client::neg_open(&name(sub), comparison.filter(), &message);
                self.say(frame)
            }
            Progress::Next(side, message) => {
                comparison.resume(side);
                self.say(client::neg_msg(&name(sub), &message))
            }
            Progress::Done(difference, mut shown) => {
                let lacking = match comparison.is_check() {
                    true => shown.lacking(),
                    false => difference.have.len(),
                };
                let sample = std::mem::take(&mut shown.sample);
                self.found.add(shown, now);
                self.say(client::neg_close(&name(sub)))?;
                let need = difference.need;
                self.end(sub, End::Reconciled { need, lacking, sample }).await;
                Ok(())
            }
            Progress::Failed(why) => {
                self.say(client::neg_close(&name(sub)))?;
                self.end(sub, End::NegentropyFailed(why)).await;
                Ok(())
            }
        }
    }

    /// We could not take what it brought.
    async fn end_own(&mut self, sub: Sub) {
        self.reception.closes(sub);
        let end = End::Closed("error: our own store could not take an event".into());
        self.report(sub, Report::Ended(end)).await;
    }

    pub(super) async fn end(&mut self, sub: Sub, end: End) {
        if let Some(report) = self.reception.ends(sub, end) {
            self.report(sub, report).await;
        }
    }

    pub(super) async fn report(&mut self, sub: Sub, report: Report) {
        let relay = self.line.relay.clone();
        let input = match report {
            Report::Listening(page) => Input::Listening { relay, sub, page },
            Report::Ended(end) => {
                self.errands.remove(&sub);
                self.comparisons.remove(&sub);
                Input::Ended { relay, sub, end }
            }
        };
        self.line.say(input).await;
    }
}

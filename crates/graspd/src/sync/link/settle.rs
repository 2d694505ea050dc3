//! What became of what a relay said: stored or not, compared, reported to the engine.

use super::{Link, Step, name};
use crate::log_table::LogLine;
use crate::metrics::GapKind;
use crate::sync::compare::{Compared, Difference, Progress};
use crate::sync::offer::{Fate, Verdict};
use grasp_core::{EventId, Kind, Time, Timestamp};
use grasp_engine::{End, Input, Loss, Reconciliation, Report, Sub};
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
        if verdict.fate == Fate::Refused {
            self.log(&self.rejected(verdict.id, verdict.kind, verdict.refusal.clone()));
        }
        self.count_judged(verdict.fate, verdict.bytes).await;
        match verdict.fate {
            Fate::New => {
                self.stored(verdict);
                if verdict.past {
                    let event = (verdict.created_at, verdict.id);
                    self.reception.found_fresh(verdict.sub, event);
                }
            }
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
            Fate::NoRoom => self.found_no_room(verdict).await,
            Fate::Refused | Fate::Known | Fate::Forged => {}
        }
        self.settled(verdict.sub, verdict.past, self.line.now()).await
    }

    /// The relay has it, we lack it: nothing that brought it may be confirmed.
    async fn found_no_room(&mut self, verdict: &Verdict) {
        let (sub, id) = (verdict.sub, verdict.id);
        self.turned_away.add_without_room(id, self.heard_at);
        match verdict.past {
            true => self.reception.found_no_room(sub, id),
            false => {
                let relay = self.line.relay.clone();
                self.line.say(Input::NoRoom { relay, sub, id }).await;
            }
        }
    }

    pub(super) async fn settled(&mut self, sub: Sub, past: bool, now: Time) -> Step {
        if let Some(report) = self.reception.judged(sub, past, now) {
            self.report(sub, report).await;
        }
        Ok(())
    }

    /// Counted by where it came from; what should have come before is a gap (S-28).
    fn stored(&mut self, verdict: &Verdict) {
        if verdict.past {
            self.reception.stored(verdict.sub);
        }
        let (relay, id, kind) = (self.line.relay.clone(), verdict.id, verdict.kind);
        let metrics = &self.line.ground.node.metrics.sync;
        metrics.event(verdict.source);
        let gap = self.should_have_come_before(verdict);
        self.line.ground.history.received(&relay, verdict.source, gap);
        let line = match verdict.source {
            SourceKind::Direct | SourceKind::Live => LogLine::EventLive { relay, id, kind },
            SourceKind::Backfill if gap => {
                metrics.gap(&relay, GapKind::Late);
                LogLine::Gap { relay, id, kind }
            }
            SourceKind::Daily if gap => {
                metrics.gap(&relay, GapKind::Sustained);
                LogLine::SustainedGap { relay, id, kind }
            }
            SourceKind::Backfill | SourceKind::Daily => LogLine::EventHistory { relay, id, kind },
        };
        self.log(&line);
    }

    pub(super) fn log(&self, line: &LogLine) {
        self.line.ground.node.log.write(line, self.heard_at);
    }

    pub(super) fn rejected(&self, id: EventId, kind: Kind, reason: String) -> LogLine {
        LogLine::EventRejected { relay: self.line.relay.clone(), id, kind, reason }
    }

    /// It was made while all of this was heard live, here or on the link before this one.
    fn should_have_come_before(&self, verdict: &Verdict) -> bool {
        let heard = |since: Timestamp, until: Timestamp| {
            verdict.created_at > since && verdict.created_at < until
        };
        let offset = self.line.ground.node.clock.offset();
        let less = |time: Time, secs: u64| {
            Timestamp(offset.to_wall(time).timestamp().0.saturating_sub(secs))
        };
        match verdict.errand {
            // Only what was confirmed is asked for from a moment in the past on.
            Some(errand) if errand.catches_up => self
                .line
                .before
                .is_some_and(|(from, to)| heard(less(from, 0), less(to, GAP_BEFORE_LOSS_SECS))),
            Some(errand) => errand
                .live_since
                .is_some_and(|since| heard(since, less(self.heard_at, GAP_AGE_SECS))),
            None => false,
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
                self.found.add(shown, self.line.ground.node.clock.wall());
                self.say(client::neg_close(&name(sub)))?;
                let Difference { need, lacks, theirs, .. } = difference;
                let found = Reconciliation { need, lacking, lacks, sample, theirs };
                self.end(sub, End::Reconciled(found)).await;
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
        self.tell_judged().await;
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

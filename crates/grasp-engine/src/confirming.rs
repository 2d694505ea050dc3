//! The end of a batch: confirmed as a whole, or back to where it began (S-2, S-20).

use crate::groups::{Behind, Stage};
use crate::question::{Aim, Question, Work};
use crate::relay::{Around, Relay};
use crate::vocabulary::{Action, News, Purpose, Sub};
use std::time::Duration;

impl Relay {
    pub(crate) fn add_questions(&mut self, batch: Option<u64>, questions: Vec<Question>) {
        let Some(session) = self.session_mut() else { return };
        // A batch that failed or was dropped asks nothing further.
        let Some(found) = batch.and_then(|id| session.batches.get_mut(&id)) else { return };
        if found.failed {
            return;
        }
        found.outstanding += questions.len();
        for question in questions {
            session.enqueue(Work { batch, question });
        }
    }

    /// One question of a batch is answered; these follow from it.
    pub(crate) fn goes_on(
        &mut self,
        batch: Option<u64>,
        questions: Vec<Question>,
        around: &mut Around<'_>,
    ) {
        self.add_questions(batch, questions);
        self.one_less(batch, around);
    }

    pub(crate) fn one_less(&mut self, batch: Option<u64>, around: &mut Around<'_>) {
        let Some(id) = batch else { return };
        let Some(session) = self.session_mut() else { return };
        let Some(found) = session.batches.get_mut(&id) else { return };
        found.outstanding = found.outstanding.saturating_sub(1);
        self.finish(id, around);
    }

    /// If nothing of it is outstanding any more.
    pub(crate) fn finish(&mut self, id: u64, around: &mut Around<'_>) {
        let Some(session) = self.session_mut() else { return };
        if session.batches.get(&id).is_none_or(|batch| batch.outstanding > 0) {
            return;
        }
        let Some(batch) = session.batches.remove(&id) else { return };
        let confirmed = !(batch.failed || batch.unfinished || batch.crowded);
        let (relay, took) = (self.url.clone(), around.now.since(batch.started));
        around.act(Action::Tell(News::BatchEnded { relay, batch: id, confirmed, took }));
        for number in &batch.groups {
            let Some(group) = self.group_mut(*number) else { continue };
            match (batch.aim, !confirmed) {
                (Aim::Confirm, false) => {
                    group.stage = Stage::Confirmed;
                    group.room_wait = Duration::ZERO;
                    if group.behind.batches == 0 && group.behind.since <= batch.started {
                        group.behind = Behind::default();
                    }
                    group.covered = batch.started;
                    group.purpose = Purpose::Backfill;
                }
                (Aim::Confirm, true) => {
                    group.stage = Stage::Missing;
                    if batch.crowded {
                        self.wait_for_room(*number, around);
                    } else if !group.shelved {
                        self.missing.push_back(*number);
                    }
                }
                // One that failed is not current: it will be asked for in turn.
                (Aim::CatchUp, failed) => {
                    if let Some(since) = group.behind.answered(!failed) {
                        group.covered = since;
                    }
                }
            }
        }
        if confirmed {
            self.probe_batch(&batch, around);
        }
        self.end_daily(around);
        self.schedule_rotation(around);
        self.repack_if_wanted(around);
        self.verify_soon(around);
    }

    /// It will not be answered, and the relay is not to blame for it.
    pub(crate) fn give_up(&mut self, work: &Work, around: &mut Around<'_>) {
        self.fail(work.batch);
        self.one_less(work.batch, around);
    }

    /// A question failed: its batch begins again later, and what it still had to ask is dropped.
    pub(crate) fn handle_failure(&mut self, work: &Work, around: &mut Around<'_>) {
        if let Question::Owed(owed) = &work.question {
            let again = owed.iter().map(|(id, attempts)| (*id, attempts + 1)).collect();
            self.owe(again, around);
        }
        if let Some(check) = work.question.check() {
            self.check_failed(check, around);
        }
        self.brake.unanswered(around.now, around.settings);
        self.fail(work.batch);
        self.one_less(work.batch, around);
    }

    pub(crate) fn fail(&mut self, batch: Option<u64>) {
        let Some(session) = self.session_mut() else { return };
        let Some(found) = batch.and_then(|id| session.batches.get_mut(&id)) else { return };
        found.failed = true;
        let before = session.queued();
        session.pages.retain(|work| work.batch != batch);
        session.comparisons.retain(|work| work.batch != batch);
        session.rounds.retain(|work| work.batch != batch);
        let dropped = before - session.queued();
        if let Some(found) = batch.and_then(|id| session.batches.get_mut(&id)) {
            found.outstanding = found.outstanding.saturating_sub(dropped);
        }
    }

    /// A question was refused for a reason that will pass: it is asked again, as it was.
    pub(crate) fn ask_again(&mut self, work: Work) {
        let Some(session) = self.session_mut() else { return };
        let alive = work.batch.is_none_or(|id| session.batches.contains_key(&id));
        if alive {
            session.put_back(work);
        }
    }

    /// The same in smaller requests, because the relay takes fewer filters at once.
    pub(crate) fn ask_in_smaller_parts(&mut self, work: Work, around: &mut Around<'_>) {
        let Question::Pages(asks) = work.question else { return self.ask_again(work) };
        let questions = self.packed(asks, around);
        self.add_questions(work.batch, questions);
        self.one_less(work.batch, around);
    }

    /// Everything begun goes back to where it was before; nothing of it is open at the relay.
    pub(crate) fn give_up_batches(&mut self) {
        let Some(session) = self.session_mut() else { return };
        session.pages.retain(|work| work.batch.is_none());
        session.comparisons.clear();
        session.rounds.clear();
        session.batches.clear();
        for group in &mut self.groups {
            group.behind.given_up();
            if group.stage == Stage::Pending {
                group.stage = Stage::Missing;
            }
        }
        self.requeue_missing();
    }

    pub(crate) fn end_asked(&mut self, sub: Sub) -> Option<Work> {
        self.session_mut()?.asked.remove(&sub).map(|asked| asked.work)
    }
}

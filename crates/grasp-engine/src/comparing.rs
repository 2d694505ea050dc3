//! What a comparison showed (S-18), and how to go on where NIP-77 is not to be had.

use crate::groups::Part;
use crate::neg_windows::{TimeWindow, WindowWalk};
use crate::pages::Paging;
use crate::question::{Ask, Method, Question, Work};
use crate::relay::{Around, Relay};
use crate::session::{Negentropy, Session};
use crate::vocabulary::{Action, Doubt, News, Reconciliation};
use grasp_core::{Time, Timestamp};
use std::time::Duration;

/// How long NIP-77 is left alone after it failed, each time.
const NEGENTROPY_WAITS: [Duration; 4] = [
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(2 * 3600),
];

/// The reason that is kept for a relay that does not know NIP-77.
const NOT_SPOKEN: &str = "it does not speak NIP-77";

impl Relay {
    /// A comparison is through.
    pub(crate) fn handle_difference(
        &mut self,
        work: &Work,
        found: Reconciliation,
        around: &mut Around<'_>,
    ) {
        self.brake.answered();
        let Reconciliation { mut need, theirs, .. } = found;
        let (window, rest) = self.window_compared(&work.question, theirs, around);
        let settings = around.settings;
        // The rest is found by the next comparison; the batch is not confirmed before that.
        let queued = self.session().map_or(0, Session::ids_queued);
        let room = settings.needed_ids_max.saturating_sub(queued);
        if need.len() > room {
            need.truncate(room);
            let batches = self.session_mut().map(|session| &mut session.batches);
            if let Some(batch) = batches.and_then(|all| all.get_mut(&work.batch?)) {
                batch.unfinished = true;
            }
        }
        let chunks = need.chunks(self.ids_max(settings));
        let named = chunks.map(|ids| Question::Ids(ids.to_vec(), window));
        let questions = named.chain(rest).collect();
        self.goes_on(work.batch, questions, around);
    }

    /// The window that was compared, and the question about what is left after it (S-44).
    fn window_compared(
        &mut self,
        question: &Question,
        theirs: usize,
        around: &mut Around<'_>,
    ) -> (TimeWindow, Option<Question>) {
        let Question::Compare(part, walk) = *question else { return (TimeWindow::ALL, None) };
        if let Some(secs) = walk.newest_secs() {
            self.learn_window(part, secs, around);
        }
        (walk.window(), walk.accepted(theirs).map(|rest| Question::Compare(part, rest)))
    }

    /// The relay does not compare so many events at once: it is asked for fewer (S-44). That is no
    /// reason to wait, or to ask more slowly.
    pub(crate) fn compare_less(&mut self, work: Work, limit: Option<u64>, around: &mut Around<'_>) {
        self.brake.answered();
        match work.question {
            Question::Check(check) => self.check_fewer(check, around),
            // So full a second shows nothing.
            Question::Probe(_) => {}
            Question::Compare(part, walk) => match walk.refused(limit) {
                Some(walk) => {
                    self.ask_again(Work { question: Question::Compare(part, walk), ..work });
                }
                None => {
                    self.negentropy_failed(around.now);
                    self.handle_no_comparison(work, around);
                }
            },
            _ => self.handle_failure(&work, around),
        }
    }

    /// A comparison of everything, or of everything since a moment.
    pub(crate) fn comparison(
        &self,
        part: Part,
        since: Option<Timestamp>,
        around: &Around<'_>,
    ) -> Question {
        let start = around.wall.to_wall(around.now).timestamp();
        Question::Compare(part, WindowWalk::new(since, start, self.learned_window(part)))
    }

    /// NIP-77 is not to be had here, for now or at all: everything that was to be compared is read
    /// page by page instead.
    pub(crate) fn handle_no_comparison(&mut self, work: Work, around: &mut Around<'_>) {
        if let Some(check) = work.question.check() {
            self.check_failed(check, around);
        }
        // Put back, so that it is counted with the others that wait.
        if let Some(session) = self.session_mut() {
            session.comparisons.push_front(work);
        }
        self.comparisons_become_pages(around);
    }

    pub(crate) fn negentropy_failed(&mut self, now: Time) {
        let Some(session) = self.session_mut() else { return };
        let failures = match session.negentropy {
            Negentropy::NotBefore(_, failures) => failures,
            _ => 0,
        };
        let at = usize::try_from(failures).unwrap_or(usize::MAX).min(NEGENTROPY_WAITS.len() - 1);
        let wait = NEGENTROPY_WAITS.get(at).copied().unwrap_or(Duration::from_secs(60));
        session.negentropy = Negentropy::NotBefore(now.plus(wait), failures + 1);
    }

    /// For the session, and told once for the relay, until it compares again.
    pub(crate) fn no_negentropy(&mut self, around: &mut Around<'_>) {
        let relay = self.url.clone();
        let Some(session) = self.session_mut() else { return };
        if session.negentropy != Negentropy::No {
            session.negentropy = Negentropy::No;
            session.doubt.get_or_insert(Doubt::NoNegentropy);
            let known = self.fallback.as_deref() == Some(NOT_SPOKEN);
            self.fallback = Some(NOT_SPOKEN.to_owned());
            if !known {
                around.act(Action::Tell(News::NoNegentropy { relay }));
            }
            self.verify_soon(around);
        }
    }

    pub(crate) fn stop_comparing(&mut self, batch: Option<u64>, around: &mut Around<'_>) {
        self.disbelieve(around);
        self.comparisons_become_pages(around);
        let found = self.session().and_then(|session| session.batches.get(&batch?));
        let parts = self.parts_of(found.map_or(&[], |batch| &batch.groups));
        let questions = self.packed(parts.into_iter().map(Ask::of).collect(), around);
        self.add_questions(batch, questions);
    }

    /// The filters that ask for the past of these groups.
    pub(crate) fn parts_of(&self, groups: &[u32]) -> Vec<Part> {
        let parts = |number: &u32| {
            let (group, parts) = (*number, self.group(*number).map_or(0, |it| it.layer.parts()));
            (0..parts).map(move |part| Part { group, part })
        };
        groups.iter().flat_map(parts).collect()
    }

    /// All comparisons that wait become pages.
    pub(crate) fn comparisons_become_pages(&mut self, around: &mut Around<'_>) {
        let Some(session) = self.session_mut() else { return };
        let waiting: Vec<Work> = session.comparisons.drain(..).collect();
        let mut batches: Vec<Option<u64>> = waiting.iter().map(|work| work.batch).collect();
        batches.sort_unstable();
        batches.dedup();
        for batch in batches {
            let of_batch = waiting.iter().filter(|work| work.batch == batch);
            let mut asks = Vec::new();
            for work in of_batch {
                if let Question::Compare(part, walk) = work.question {
                    let TimeWindow { since, until } = walk.left;
                    let paging = Paging { until, ..Paging::default() };
                    asks.push(Ask { since, paging, ..Ask::of(part) });
                }
            }
            let before = asks.len();
            let questions = self.packed(asks, around);
            if let Some(session) = self.session_mut()
                && let Some(found) = batch.and_then(|id| session.batches.get_mut(&id))
            {
                found.method = Method::Pages;
                found.outstanding -= before.min(found.outstanding);
            }
            self.add_questions(batch, questions);
            // A batch that had failed asks nothing more, so this may have been its end.
            if let Some(id) = batch {
                self.finish(id, around);
            }
        }
    }
}

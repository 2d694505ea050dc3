//! What a question brought: where its next page starts (S-19), which ids did not come and are asked
//! for again, and what to do about a relay that does not come to an end.

use crate::Settings;
use crate::pages::Next;
use crate::question::{Ask, Question, Work};
use crate::relay::{Around, Relay};
use crate::session::Limit;
use crate::timers::Concern;
use crate::vocabulary::{Action, Hint, News, Page};
use grasp_core::{EventId, Timestamp};

/// Of one link: seconds that alone held more than any question may bring.
const FLOODS_MAX: u32 = 10;
/// No relay gives out less than this at a time, so a smaller page is whole if any is.
const WHOLE_ANYWAY: u32 = 89;
/// What one relay may owe us before we stop keeping count.
const OWED_MAX: usize = 10_000;

impl Relay {
    /// A question ended well.
    pub(crate) fn handle_page(&mut self, work: Work, page: &Page, around: &mut Around<'_>) {
        self.brake.answered();
        self.count_turn(page);
        self.note_no_room(&work, page);
        match work.question {
            Question::Pages(asks) => {
                let more = self.next_pages(&asks, page, around);
                let questions = self.packed(more, around);
                self.goes_on(work.batch, questions, around);
            }
            Question::Ids(ids, _) => self.ids_came(work.batch, ids.len(), page, around),
            Question::Owed(owed) => {
                let still_owed = || page.missing.iter().chain(&page.no_room);
                if still_owed().count() < owed.len() {
                    self.owed_wait = around.settings.missing_retry_min;
                }
                let attempts = |id: &EventId| owed.iter().find(|(owed, _)| owed == id);
                let again: Vec<(EventId, u32)> =
                    still_owed().filter_map(attempts).map(|(id, n)| (*id, n + 1)).collect();
                self.owe(again, around);
            }
            Question::CheckIds(check, ids) => {
                self.handle_checked_ids(check, ids.len(), page, around);
            }
            Question::CheckSample(check, ids) => {
                self.handle_sample(check, ids.len(), page, around);
            }
            Question::Probe(probe) => self.handle_probed(&probe, page),
            Question::Check(_) => {}
            Question::Compare(..) => self.goes_on(work.batch, Vec::new(), around),
        }
    }

    /// More came than one question may bring. It goes on from the oldest that came; what the relay
    /// did not come to is asked for again.
    pub(crate) fn handle_flood(&mut self, work: &Work, page: &Page, around: &mut Around<'_>) {
        let Question::Pages(asks) = &work.question else {
            return self.handle_failure(work, around);
        };
        self.note_no_room(work, page);
        let limit = self.limit_told();
        let mut more = Vec::new();
        let (mut moved, mut stepped) = (false, false);
        for (at, ask) in asks.iter().enumerate() {
            let tally = page.tallies.get(at).copied().unwrap_or_default();
            match ask.paging.next(&tally, Some(Hint::More)) {
                Next::Page(paging)
                    if paging.until < ask.paging.until || ask.paging.until.is_none() =>
                {
                    moved = true;
                    more.push(Ask { paging, ..*ask }.unmixed(&tally, page, limit));
                }
                Next::StepOver(paging, second) => {
                    moved = true;
                    stepped = true;
                    self.tell_full_second(second, around);
                    more.push(Ask { paging, ..*ask });
                }
                // The relay did not come to it, or it did not get on.
                Next::Done | Next::Page(_) => more.push(*ask),
            }
        }
        more.retain(|ask| !ask.is_over());
        let floods = self.session_mut().map_or(0, |session| {
            session.floods += u32::from(stepped);
            session.floods
        });
        // One second with more events than any question may bring, or no end at all.
        if !moved || floods > FLOODS_MAX {
            self.handle_failure(work, around);
            return self.pause("it sends events without end", around);
        }
        self.count_turn(page);
        let questions = self.packed(more, around);
        self.goes_on(work.batch, questions, around);
    }

    /// More events in one second than the relay gives out at once.
    fn tell_full_second(&mut self, second: Timestamp, around: &mut Around<'_>) {
        self.full_seconds = self.full_seconds.saturating_add(1);
        let relay = self.url.clone();
        around.act(Action::Tell(News::SecondTooFull { relay, second }));
    }

    pub(crate) fn count_turn(&mut self, page: &Page) {
        let received: u32 = page.tallies.iter().map(|tally| tally.received).sum();
        if let Some(session) = self.session_mut() {
            session.turn_events = session.turn_events.saturating_add(received);
            session.turn_bytes = session.turn_bytes.saturating_add(page.bytes);
        }
    }

    pub(crate) fn next_pages(
        &mut self,
        asks: &[Ask],
        page: &Page,
        around: &mut Around<'_>,
    ) -> Vec<Ask> {
        let limit = self.limit_told();
        let mut more = Vec::new();
        for (at, ask) in asks.iter().enumerate() {
            let tally = page.tallies.get(at).copied().unwrap_or_default();
            let next = ask.paging.next(&tally, page.hint);
            if self.is_whole(ask, tally.received, page.hint, next) {
                continue;
            }
            match next {
                Next::Done => {}
                Next::Page(paging) => {
                    more.push(Ask { paging, ..*ask }.unmixed(&tally, page, limit));
                }
                Next::StepOver(paging, second) => {
                    self.tell_full_second(second, around);
                    more.push(Ask { paging, ..*ask }.unmixed(&tally, page, limit));
                }
            }
        }
        more.retain(|ask| !ask.is_over());
        more
    }

    fn limit_told(&self) -> Option<u32> {
        self.session().and_then(|session| session.peer.limit_default)
    }

    /// A first page well below what the relay says it gives out at a time is all there is, if the
    /// relay has been found to mean what it says.
    pub(crate) fn is_whole(
        &mut self,
        ask: &Ask,
        received: u32,
        hint: Option<Hint>,
        next: Next,
    ) -> bool {
        let Some(session) = self.session_mut() else { return false };
        let Some(told) = session.peer.limit_default else { return false };
        let below = |count: u32| u64::from(count) * 10 < u64::from(told) * 9;
        match (ask.paging.until, next) {
            (None, _) => {
                let proved = match session.limit {
                    Limit::Proved(whole) => received <= whole.max(WHOLE_ANYWAY),
                    Limit::Unproved | Limit::Refuted => false,
                };
                return proved && below(received) && hint != Some(Hint::More);
            }
            (Some(_), Next::Done) if below(ask.paging.largest) => {
                session.limit = match session.limit {
                    Limit::Unproved => Limit::Proved(ask.paging.largest),
                    Limit::Proved(whole) => Limit::Proved(whole.max(ask.paging.largest)),
                    Limit::Refuted => Limit::Refuted,
                };
            }
            // It had more, though it gave less than it says.
            (Some(until), Next::Page(paging))
                if below(ask.paging.largest) && paging.until < Some(until) && received > 1 =>
            {
                session.limit = Limit::Refuted;
            }
            _ => {}
        }
        false
    }

    pub(crate) fn ids_came(
        &mut self,
        batch: Option<u64>,
        asked: usize,
        page: &Page,
        around: &mut Around<'_>,
    ) {
        let came = asked - page.missing.len().min(asked);
        let batches = self.session_mut().map(|session| &mut session.batches);
        let found = batches.and_then(|all| all.get_mut(&batch?));
        if let Some(found) = found
            && found.names_what_it_keeps(asked, came)
        {
            if !std::mem::replace(&mut found.reread, true) {
                self.stop_comparing(batch, around);
            }
            return self.goes_on(batch, Vec::new(), around);
        }
        self.owe(page.missing.iter().map(|id| (*id, 1)).collect(), around);
        self.goes_on(batch, Vec::new(), around);
    }

    /// How many ids fit into one request.
    pub(crate) fn ids_max(&self, settings: &Settings) -> usize {
        let fit = self.request_bytes_max(settings).saturating_sub(64) / 67;
        settings.ids_per_request_max.min(fit).max(1)
    }

    pub(crate) fn owe(&mut self, ids: Vec<(EventId, u32)>, around: &mut Around<'_>) {
        let settings = around.settings;
        for (id, attempts) in ids {
            let room = attempts < settings.id_attempts_max && self.owed.len() < OWED_MAX;
            if room && !self.owed.iter().any(|(owed, _)| *owed == id) {
                self.owed.push_back((id, attempts));
            }
        }
        let alarm = self.alarm(Concern::Missing);
        if !self.owed.is_empty() && !around.timers.is_set(alarm) {
            let wait = self.owed_wait.max(settings.missing_retry_min);
            around.timers.set(alarm, around.now.plus(wait));
            self.owed_wait = (wait * 2).min(settings.missing_retry_max);
        }
    }

    /// Asks again for what did not come; one such question at a time.
    pub(crate) fn ask_for_owed(&mut self, around: &mut Around<'_>) {
        let ids_max = self.ids_max(around.settings).min(self.owed.len());
        let Some(session) = self.session() else { return };
        let is_owed = |work: &Work| matches!(work.question, Question::Owed(_));
        let busy = session.pages.iter().any(is_owed)
            || session.asked.values().any(|asked| is_owed(&asked.work));
        if ids_max == 0 || busy {
            return;
        }
        let owed: Vec<(EventId, u32)> = self.owed.drain(..ids_max).collect();
        if let Some(session) = self.session_mut() {
            session.enqueue(Work { batch: None, question: Question::Owed(owed) });
        }
        if !self.owed.is_empty() {
            self.owe(Vec::new(), around);
        }
    }
}

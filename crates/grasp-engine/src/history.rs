//! The past of what is wanted: batches of groups, each confirmed as a whole once all its questions
//! ended well (S-2, S-20). Compared first where much of it should be known already (S-18), else
//! read page by page (S-19). A question that fails takes its batch back to the beginning.

use crate::Settings;
use crate::groups::{Layer, Part, Stage};
use crate::live::before;
use crate::pages::{Next, Paging};
use crate::relay::{Around, Limit, Negentropy, Relay, Session};
use crate::timers::Concern;
use crate::vocabulary::{Action, Errand, Hint, News, Page, Purpose, Sub, Tally};
use grasp_core::{EventId, Filter, Time, Timestamp};
use std::time::Duration;

/// Some groups on their way to being confirmed, or to being current again.
#[derive(Debug)]
pub(crate) struct Batch {
    groups: Vec<u32>,
    aim: Aim,
    errand: Errand,
    /// Questions that have not ended yet, asked or not.
    outstanding: usize,
    failed: bool,
    /// There is more than could be asked for at once.
    unfinished: bool,
    started: Time,
    method: Method,
}

/// How a batch is asked for (S-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Negentropy,
    Pages,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aim {
    Confirm,
    /// Confirmed before, and something may have been missed since.
    CatchUp,
}

/// A question to be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Work {
    /// `None`: nobody waits for it.
    pub(crate) batch: Option<u64>,
    pub(crate) question: Question,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Question {
    Compare(Part),
    Pages(Vec<Ask>),
    Ids(Vec<EventId>),
    /// Ids that did not come before, with the number of attempts.
    Owed(Vec<(EventId, u32)>),
}

/// One filter and where its next page starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) part: Part,
    pub(crate) paging: Paging,
    pub(crate) since: Option<Timestamp>,
    /// Not together with others: its pages are its own.
    pub(crate) alone: bool,
}

/// No relay gives out less than this at a time to one filter.
const LIMIT_MIN: u32 = 50;

impl Ask {
    pub(crate) fn of(part: Part) -> Self {
        Self { part, paging: Paging::default(), since: None, alone: false }
    }

    /// Where events belong to several filters, the oldest of one may have come for another, and a
    /// page that starts there would skip something. A filter that may be cut off starts again by
    /// itself.
    pub(crate) fn unmixed(self, came: &Tally, page: &Page) -> Self {
        match page.mixed && !self.alone && came.received >= LIMIT_MIN {
            true => Self { paging: Paging::default(), alone: true, ..self },
            false => self,
        }
    }

    /// Nothing is left before the moment it should start from.
    pub(crate) fn is_over(&self) -> bool {
        matches!((self.since, self.paging.until), (Some(since), Some(until)) if until < since)
    }
}

/// A question that is open at the relay.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) work: Work,
}

/// When something missed is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Haste {
    Now,
    /// After everything else.
    InTurn,
}

/// What came of trying to ask something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    Started,
    /// Not before then.
    Wait(Time),
    /// Nothing to ask, or no place: an answer will change that.
    Idle,
}

/// Of one link: half a million events that no page divides.
const FLOODS_MAX: u32 = 10;
/// Batches under way on one relay.
const BATCHES_MAX: usize = 8;
/// What one relay may owe us before we stop keeping count.
const OWED_MAX: usize = 10_000;
/// How long NIP-77 is left alone after it failed, each time.
const NEGENTROPY_WAITS: [Duration; 4] = [
    Duration::from_secs(60),
    Duration::from_secs(5 * 60),
    Duration::from_secs(30 * 60),
    Duration::from_secs(2 * 3600),
];

impl Relay {
    /// Is there anything of the past to ask for?
    pub(crate) fn has_questions(&self) -> bool {
        let Some(session) = self.session() else { return false };
        !session.pages.is_empty()
            || !session.comparisons.is_empty()
            || !session.rounds.is_empty()
            || (!self.missing.is_empty() && session.confirming() < BATCHES_MAX)
    }

    /// Asks the next question, if it is time and there is a place.
    pub(crate) fn start_one(&mut self, around: &mut Around<'_>) -> Start {
        if self.session().is_none() {
            return Start::Idle;
        }
        let blocked_until = self.brake.history_until();
        if blocked_until > around.now {
            return Start::Wait(blocked_until);
        }
        let Some(kind) = self.next_kind(around) else { return Start::Idle };
        if let Some(Err(free_at)) = self.pace.as_mut().map(|pace| pace.take(around.now)) {
            return Start::Wait(free_at);
        }
        let Some(session) = self.session_mut() else { return Start::Idle };
        let work = match kind {
            Kind::Page => session.pages.pop_front(),
            Kind::Comparison => session.comparisons.pop_front(),
            Kind::Round => session.rounds.pop_front(),
        };
        if let Some(work) = work {
            self.ask(work, around);
        }
        Start::Started
    }

    /// Which queue may go on; begins another batch if neither can.
    fn next_kind(&mut self, around: &mut Around<'_>) -> Option<Kind> {
        loop {
            let room = self.room(around).all as usize;
            let session = self.session()?;
            if session.live.len() + session.asked.len() >= room {
                return None;
            }
            let comparing = session.comparing();
            let paging = session.asked.len() - comparing;
            let may_page = paging < around.settings.pages_at_once_max as usize;
            let may_compare = comparing < around.settings.negentropy_at_once_max as usize;
            // What is begun waits in a queue with what is new, so neither keeps the other waiting.
            let few = session.pages.len() + session.comparisons.len() < BATCHES_MAX;
            if few && may_page && may_compare && self.begin_batch(around) {
                continue;
            }
            let session = self.session()?;
            if may_page && !session.pages.is_empty() {
                return Some(Kind::Page);
            }
            if may_compare && !session.comparisons.is_empty() {
                return Some(Kind::Comparison);
            }
            return (may_page && !session.rounds.is_empty()).then_some(Kind::Round);
        }
    }

    /// The subtraction's other half: some groups that are neither pending nor confirmed.
    fn begin_batch(&mut self, around: &mut Around<'_>) -> bool {
        let now = around.now;
        let filters_max = self.filters_max(around.settings);
        let Some(session) = self.session() else { return false };
        let full = session.confirming() >= BATCHES_MAX || session.repack_wanted;
        let Some(first) = self.missing.front().filter(|_| !full).copied() else { return false };
        let Some(head) = self.group(first).filter(|group| group.stage == Stage::Missing) else {
            self.missing.pop_front();
            return true;
        };
        let (reconcile, purpose) = (head.reconcile, head.purpose);
        // Announcements before states before anything else: what comes later depends on them.
        let first_layers = session
            .batches
            .values()
            .any(|batch| batch.aim == Aim::Confirm && batch.groups.iter().any(|group| *group < 2));
        if first_layers {
            return false;
        }
        let alone = head.layer <= Layer::States;
        let mut groups = Vec::new();
        let mut filters = 0;
        while let Some(number) = self.missing.front().copied() {
            let Some(group) = self.group(number) else { break };
            let parts = usize::from(group.layer.parts());
            let fits = groups.is_empty() || (filters + parts <= filters_max && !alone);
            let alike = group.reconcile == reconcile
                && group.purpose == purpose
                && (group.layer <= Layer::States) == alone;
            if !fits || !alike {
                break;
            }
            filters += parts;
            groups.push(number);
            self.missing.pop_front();
        }
        let compare =
            reconcile && around.settings.negentropy && session_compares(self.session(), around.now);
        let live_since = self.live_since(&groups);
        let errand = Errand { purpose, live_since };
        let parts: Vec<Part> = groups
            .iter()
            .flat_map(|number| {
                let parts = self.group(*number).map_or(0, |group| group.layer.parts());
                (0..parts).map(|part| Part { group: *number, part })
            })
            .collect();
        for number in &groups {
            if let Some(group) = self.group_mut(*number) {
                group.stage = Stage::Pending;
                group.asked_at = now;
            }
        }
        let method = if compare { Method::Negentropy } else { Method::Pages };
        let batch = Batch {
            groups,
            aim: Aim::Confirm,
            errand,
            outstanding: 0,
            failed: false,
            unfinished: false,
            started: now,
            method,
        };
        let questions: Vec<Question> = match method {
            Method::Negentropy => parts.into_iter().map(Question::Compare).collect(),
            Method::Pages => self.packed(parts.into_iter().map(Ask::of).collect(), around),
        };
        self.add_batch(batch, questions);
        true
    }

    /// Pages of what happened while we were away.
    pub(crate) fn catch_up(&mut self, asks: Vec<Ask>, haste: Haste, around: &mut Around<'_>) {
        let mut groups: Vec<u32> = asks.iter().map(|ask| ask.part.group).collect();
        groups.dedup();
        let errand = Errand { purpose: Purpose::Backfill, live_since: None };
        let batch = Batch {
            groups,
            aim: Aim::CatchUp,
            errand,
            outstanding: 0,
            failed: false,
            unfinished: false,
            started: around.now,
            method: Method::Pages,
        };
        let questions = self.packed(asks, around);
        self.add_batch(batch, questions);
        if let Some(session) = self.session_mut()
            && haste == Haste::InTurn
        {
            let id = Some(session.next_batch);
            let (rounds, pages) = session.pages.drain(..).partition(|work| work.batch == id);
            session.pages = pages;
            session.rounds.extend::<std::collections::VecDeque<Work>>(rounds);
        }
    }

    /// Asks for what is confirmed and not heard (S-11): a few groups, overlapping with last time.
    pub(crate) fn rotate(&mut self, around: &mut Around<'_>) {
        let overlap = around.settings.rotation_overlap;
        let busy = self
            .session()
            .is_some_and(|session| session.batches.values().any(|batch| batch.aim == Aim::CatchUp));
        if busy {
            return;
        }
        let mut asks = Vec::new();
        for number in self.uncovered().collect::<Vec<u32>>() {
            let Some(group) = self.group_mut(number) else { continue };
            let since = Some(before(group.covered, overlap));
            let live = group.layer.live();
            asks.extend(live.map(|part| Ask {
                part: Part { group: number, part },
                paging: Paging::default(),
                since,
                alone: false,
            }));
        }
        // Each request is confirmed by itself, so that a long round keeps what it got.
        for question in self.packed(asks, around) {
            let Question::Pages(asks) = question else { continue };
            self.catch_up(asks, Haste::InTurn, around);
        }
    }

    fn live_since(&self, groups: &[u32]) -> Option<Timestamp> {
        let since = groups.iter().map(|number| self.group(*number)?.live_since);
        since.collect::<Option<Vec<Timestamp>>>()?.into_iter().max()
    }

    /// Several filters share a request, as many as the relay takes.
    fn packed(&self, asks: Vec<Ask>, around: &Around<'_>) -> Vec<Question> {
        let (filters_max, bytes_max) =
            (self.filters_max(around.settings), self.request_bytes_max(around.settings));
        let mut questions = Vec::new();
        let mut request: Vec<Ask> = Vec::new();
        let mut bytes = 0;
        for ask in asks {
            let group = self.group(ask.part.group);
            let each = group.map_or(0, |group| group.filter_bytes(around.wanted));
            let apart = ask.alone || request.last().is_some_and(|last| last.alone);
            let full = request.len() == filters_max || bytes + each > bytes_max || apart;
            if !request.is_empty() && full {
                questions.push(Question::Pages(std::mem::take(&mut request)));
                bytes = 0;
            }
            request.push(ask);
            bytes += each;
        }
        if !request.is_empty() {
            questions.push(Question::Pages(request));
        }
        questions
    }

    fn add_batch(&mut self, mut batch: Batch, questions: Vec<Question>) {
        let Some(session) = self.session_mut() else { return };
        session.next_batch += 1;
        let id = session.next_batch;
        batch.outstanding = questions.len();
        session.batches.insert(id, batch);
        for question in questions {
            session.enqueue(Work { batch: Some(id), question });
        }
    }

    fn ask(&mut self, work: Work, around: &mut Around<'_>) {
        let sub = around.sub();
        let relay = self.url.clone();
        let Some(session) = self.session() else { return };
        let errand = work.batch.and_then(|id| session.batches.get(&id)).map(|batch| batch.errand);
        let errand = errand.unwrap_or(Errand { purpose: Purpose::Backfill, live_since: None });
        let named = |ids: Vec<EventId>| Filter { ids: Some(sorted(ids)), ..Filter::default() };
        let action = match &work.question {
            Question::Compare(part) => {
                let Some(group) = self.group(part.group) else { return };
                let filter = group.filter(part.part, around.wanted);
                Action::Reconcile { relay, sub, filter, errand }
            }
            Question::Pages(asks) => {
                let filters: Vec<Filter> =
                    asks.iter().filter_map(|ask| self.page_filter(ask, around)).collect();
                Action::Request { relay, sub, filters: filters.into(), errand }
            }
            Question::Ids(ids) => {
                Action::Request { relay, sub, filters: [named(ids.clone())].into(), errand }
            }
            Question::Owed(owed) => {
                let ids = owed.iter().map(|(id, _)| *id).collect();
                Action::Request { relay, sub, filters: [named(ids)].into(), errand }
            }
        };
        if let Some(session) = self.session_mut() {
            session.asked.insert(sub, Asked { work });
        }
        around.act(action);
    }

    fn page_filter(&self, ask: &Ask, around: &Around<'_>) -> Option<Filter> {
        let mut filter = self.group(ask.part.group)?.filter(ask.part.part, around.wanted);
        filter.since = ask.since;
        filter.until = ask.paging.until;
        Some(filter)
    }

    /// A question ended well.
    pub(crate) fn handle_page(&mut self, work: Work, page: &Page, around: &mut Around<'_>) {
        self.brake.answered();
        self.count_turn(page);
        match work.question {
            Question::Pages(asks) => {
                let more = self.next_pages(&asks, page, around);
                let questions = self.packed(more, around);
                self.goes_on(work.batch, questions, around);
            }
            Question::Ids(ids) => self.ids_came(work.batch, ids.len(), page, around),
            Question::Owed(owed) => {
                let came = owed.len() - page.missing.len().min(owed.len());
                if came > 0 {
                    self.owed_wait = around.settings.missing_retry_min;
                }
                let attempts = |id: &EventId| owed.iter().find(|(owed, _)| owed == id);
                let again: Vec<(EventId, u32)> =
                    page.missing.iter().filter_map(attempts).map(|(id, n)| (*id, n + 1)).collect();
                self.owe(again, around);
            }
            Question::Compare(_) => self.goes_on(work.batch, Vec::new(), around),
        }
    }

    /// More came than one question may bring. It goes on from the oldest that came; what the relay
    /// did not come to is asked for again.
    pub(crate) fn handle_flood(&mut self, work: Work, page: &Page, around: &mut Around<'_>) {
        let Question::Pages(asks) = &work.question else {
            return self.handle_failure(&work, around);
        };
        let mut more = Vec::new();
        let mut moved = false;
        for (at, ask) in asks.iter().enumerate() {
            let tally = page.tallies.get(at).copied().unwrap_or_default();
            match ask.paging.next(&tally, Some(Hint::More)) {
                Next::Page(paging)
                    if paging.until < ask.paging.until || ask.paging.until.is_none() =>
                {
                    moved = true;
                    more.push(Ask { paging, ..*ask }.unmixed(&tally, page));
                }
                // The relay did not come to it, or it did not get on.
                Next::Done | Next::Page(_) | Next::StepOver(..) => more.push(*ask),
            }
        }
        more.retain(|ask| !ask.is_over());
        let floods = self.session_mut().map_or(0, |session| {
            session.floods += 1;
            session.floods
        });
        // One second with more events than any question may bring, or no end at all.
        if !moved || floods > FLOODS_MAX {
            self.handle_failure(&work, around);
            return self.pause("it sends events without end", around);
        }
        self.count_turn(page);
        let questions = self.packed(more, around);
        self.goes_on(work.batch, questions, around);
    }

    fn count_turn(&mut self, page: &Page) {
        let received: u32 = page.tallies.iter().map(|tally| tally.received).sum();
        if let Some(session) = self.session_mut() {
            session.turn_events = session.turn_events.saturating_add(received);
            session.turn_bytes = session.turn_bytes.saturating_add(page.bytes);
        }
    }

    fn next_pages(&mut self, asks: &[Ask], page: &Page, around: &mut Around<'_>) -> Vec<Ask> {
        let mut more = Vec::new();
        for (at, ask) in asks.iter().enumerate() {
            let tally = page.tallies.get(at).copied().unwrap_or_default();
            let next = ask.paging.next(&tally, page.hint);
            if self.is_whole(ask, tally.received, page.hint, next) {
                continue;
            }
            match next {
                Next::Done => {}
                Next::Page(paging) => more.push(Ask { paging, ..*ask }.unmixed(&tally, page)),
                Next::StepOver(paging, second) => {
                    let relay = self.url.clone();
                    around.act(Action::Tell(News::SecondTooFull { relay, second }));
                    more.push(Ask { paging, ..*ask }.unmixed(&tally, page));
                }
            }
        }
        more.retain(|ask| !ask.is_over());
        more
    }

    /// A first page well below what the relay says it gives out at a time is all there is, if the
    /// relay has been found to mean what it says.
    fn is_whole(&mut self, ask: &Ask, received: u32, hint: Option<Hint>, next: Next) -> bool {
        let Some(session) = self.session_mut() else { return false };
        let Some(told) = session.peer.limit_default else { return false };
        let below = |count: u32| u64::from(count) * 10 < u64::from(told) * 9;
        match (ask.paging.until, next) {
            (None, _) => {
                return session.limit == Limit::Proved
                    && below(received)
                    && hint != Some(Hint::More);
            }
            (Some(_), Next::Done)
                if below(ask.paging.largest) && session.limit == Limit::Unproved =>
            {
                session.limit = Limit::Proved;
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

    fn ids_came(&mut self, batch: Option<u64>, asked: usize, page: &Page, around: &mut Around<'_>) {
        let came = asked - page.missing.len().min(asked);
        // It named events that it does not give out: what it says it has is worth nothing.
        if asked >= 20 && came * 10 <= asked {
            let batches = self.session_mut().map(|session| &mut session.batches);
            let found = batches.and_then(|all| all.get_mut(&batch?));
            let first = found.is_some_and(|found| {
                std::mem::replace(&mut found.method, Method::Pages) == Method::Negentropy
            });
            if first {
                self.stop_comparing(batch, around);
            }
            return self.goes_on(batch, Vec::new(), around);
        }
        self.owe(page.missing.iter().map(|id| (*id, 1)).collect(), around);
        self.goes_on(batch, Vec::new(), around);
    }

    /// How many ids fit into one request.
    fn ids_max(&self, settings: &Settings) -> usize {
        let fit = self.request_bytes_max(settings).saturating_sub(64) / 67;
        settings.ids_per_request_max.min(fit).max(1)
    }

    fn owe(&mut self, ids: Vec<(EventId, u32)>, around: &mut Around<'_>) {
        let settings = around.settings;
        for (id, attempts) in ids {
            let known = self.owed.iter().any(|(owed, _)| *owed == id);
            if attempts < settings.id_attempts_max && self.owed.len() < OWED_MAX && !known {
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

    /// A comparison is through.
    pub(crate) fn handle_difference(
        &mut self,
        work: &Work,
        mut need: Vec<EventId>,
        around: &mut Around<'_>,
    ) {
        self.brake.answered();
        let settings = around.settings;
        // The rest is found by the next comparison; the batch is not confirmed before that.
        if need.len() > settings.needed_ids_max {
            need.truncate(settings.needed_ids_max);
            let batches = self.session_mut().map(|session| &mut session.batches);
            if let Some(batch) = batches.and_then(|all| all.get_mut(&work.batch?)) {
                batch.unfinished = true;
            }
        }
        let chunks = need.chunks(self.ids_max(settings));
        let questions = chunks.map(|ids| Question::Ids(ids.to_vec())).collect();
        self.goes_on(work.batch, questions, around);
    }

    /// NIP-77 is not to be had here, for now or at all: everything that was to be compared is read
    /// page by page instead.
    pub(crate) fn handle_no_comparison(&mut self, work: Work, around: &mut Around<'_>) {
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

    /// Remembered for the session, and told once.
    pub(crate) fn no_negentropy(&mut self, around: &mut Around<'_>) {
        let relay = self.url.clone();
        let Some(session) = self.session_mut() else { return };
        if session.negentropy != Negentropy::No {
            session.negentropy = Negentropy::No;
            around.act(Action::Tell(News::NoNegentropy { relay }));
        }
    }

    fn stop_comparing(&mut self, batch: Option<u64>, around: &mut Around<'_>) {
        self.no_negentropy(around);
        self.comparisons_become_pages(around);
        let parts: Vec<Part> = self
            .session()
            .and_then(|session| session.batches.get(&batch?))
            .map(|batch| batch.groups.clone())
            .unwrap_or_default()
            .into_iter()
            .flat_map(|number| {
                let parts = self.group(number).map_or(0, |group| group.layer.parts());
                (0..parts).map(move |part| Part { group: number, part })
            })
            .collect();
        let questions = self.packed(parts.into_iter().map(Ask::of).collect(), around);
        self.add_questions(batch, questions);
    }

    /// All comparisons that wait become pages.
    pub(crate) fn comparisons_become_pages(&mut self, around: &mut Around<'_>) {
        let Some(session) = self.session_mut() else { return };
        let waiting: Vec<Work> = session.comparisons.drain(..).collect();
        let mut batches: Vec<Option<u64>> = waiting.iter().map(|work| work.batch).collect();
        batches.dedup();
        for batch in batches {
            let of_batch = waiting.iter().filter(|work| work.batch == batch);
            let mut asks = Vec::new();
            for work in of_batch {
                if let Question::Compare(part) = work.question {
                    asks.push(Ask::of(part));
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
        }
    }

    fn add_questions(&mut self, batch: Option<u64>, questions: Vec<Question>) {
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
    fn goes_on(&mut self, batch: Option<u64>, questions: Vec<Question>, around: &mut Around<'_>) {
        self.add_questions(batch, questions);
        self.one_less(batch, around);
    }

    fn one_less(&mut self, batch: Option<u64>, around: &mut Around<'_>) {
        let Some(id) = batch else { return };
        let Some(session) = self.session_mut() else { return };
        let Some(found) = session.batches.get_mut(&id) else { return };
        found.outstanding = found.outstanding.saturating_sub(1);
        if found.outstanding > 0 {
            return;
        }
        let Some(batch) = session.batches.remove(&id) else { return };
        for number in &batch.groups {
            let Some(group) = self.group_mut(*number) else { continue };
            match (batch.aim, batch.failed || batch.unfinished) {
                (Aim::Confirm, false) => {
                    group.stage = Stage::Confirmed;
                    group.covered = batch.started;
                    group.purpose = Purpose::Backfill;
                }
                (Aim::Confirm, true) => {
                    group.stage = Stage::Missing;
                    self.missing.push_back(*number);
                }
                (Aim::CatchUp, false) => {
                    group.catching_up = false;
                    group.covered = batch.started;
                }
                // Not current: it will be asked for in turn.
                (Aim::CatchUp, true) => {}
            }
        }
        self.schedule_rotation(around);
        self.repack_if_wanted(around);
    }

    /// A question failed: its batch begins again later, and what it still had to ask is dropped.
    pub(crate) fn handle_failure(&mut self, work: &Work, around: &mut Around<'_>) {
        if let Question::Owed(owed) = &work.question {
            let again = owed.iter().map(|(id, attempts)| (*id, attempts + 1)).collect();
            self.owe(again, around);
        }
        self.brake.unanswered(around.now, around.settings);
        self.fail(work.batch);
        self.one_less(work.batch, around);
    }

    fn fail(&mut self, batch: Option<u64>) {
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
        for group in self.groups.iter_mut().filter(|group| group.stage == Stage::Pending) {
            group.stage = Stage::Missing;
        }
        self.requeue_missing();
    }

    pub(crate) fn end_asked(&mut self, sub: Sub) -> Option<Work> {
        self.session_mut()?.asked.remove(&sub).map(|asked| asked.work)
    }
}

enum Kind {
    Page,
    Comparison,
    Round,
}

fn session_compares(session: Option<&Session>, now: Time) -> bool {
    session.is_some_and(|session| match session.negentropy {
        Negentropy::Yes => true,
        Negentropy::No => false,
        Negentropy::NotBefore(until, _) => until <= now,
    })
}

fn sorted(mut ids: Vec<EventId>) -> Vec<EventId> {
    ids.sort_unstable();
    ids.dedup();
    ids
}

impl Session {
    fn comparing(&self) -> usize {
        let compares = |asked: &&Asked| matches!(asked.work.question, Question::Compare(_));
        self.asked.values().filter(compares).count()
    }

    fn confirming(&self) -> usize {
        self.batches.values().filter(|batch| batch.aim == Aim::Confirm).count()
    }

    fn queued(&self) -> usize {
        self.pages.len() + self.comparisons.len() + self.rounds.len()
    }

    /// What this session still had to ask for by name because it had not come.
    pub(crate) fn owed(&self) -> Vec<(EventId, u32)> {
        let asked = self.asked.values().map(|asked| &asked.work);
        let owed = asked.chain(&self.pages).filter_map(|work| match &work.question {
            Question::Owed(owed) => Some(owed.clone()),
            _ => None,
        });
        owed.flatten().collect()
    }

    fn enqueue(&mut self, work: Work) {
        match work.question {
            Question::Compare(_) => self.comparisons.push_back(work),
            // What finishes something begun goes before what begins something.
            Question::Ids(_) => self.pages.push_front(work),
            _ => self.pages.push_back(work),
        }
    }

    fn put_back(&mut self, work: Work) {
        match work.question {
            Question::Compare(_) => self.comparisons.push_front(work),
            _ => self.pages.push_front(work),
        }
    }
}

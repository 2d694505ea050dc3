//! The past of what is wanted: batches of groups, each confirmed as a whole once all its questions
//! ended well (S-2, S-20). Compared first where much of it should be known already (S-18), else
//! read page by page (S-19). A question that fails takes its batch back to the beginning.

use crate::groups::{Layer, Part, Stage};
use crate::neg_windows::TimeWindow;
use crate::pages::Paging;
use crate::question::{Aim, Ask, Asked, Batch, Method, Question, Work};
use crate::relay::{Around, Relay};
use crate::session::Session;
use crate::vocabulary::{Action, Errand, News};
use grasp_core::{EventId, Filter, Time, Timestamp};
use std::time::Duration;

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

/// Batches under way on one relay.
const BATCHES_MAX: usize = 64;
/// While open subscriptions are about to be packed anew nothing begins, but not for ever.
const REPACK_PATIENCE: Duration = Duration::from_secs(60);
/// One of so many questions may be about how the relay stands.
const CHECK_EVERY: u64 = 16;
/// Fewer than this wait to be asked: something else may begin.
const FEW_QUESTIONS: usize = 8;

impl Relay {
    /// Is there anything of the past to ask for?
    pub(crate) fn has_questions(&self) -> bool {
        let Some(session) = self.session() else { return false };
        !session.pages.is_empty()
            || !session.comparisons.is_empty()
            || !session.rounds.is_empty()
            || self.next_check(Time(u64::MAX)).is_some()
            || (!self.missing.is_empty() && session.confirming() < BATCHES_MAX)
    }

    /// Asks the next question, if it is time and there is a place.
    pub(crate) fn start_one(&mut self, around: &mut Around<'_>) -> Start {
        if self.session().is_none() {
            return Start::Idle;
        }
        self.repack_if_wanted(around);
        let blocked_until = self.brake.history_until();
        if blocked_until > around.now {
            return Start::Wait(blocked_until);
        }
        let Some(kind) = self.next_kind(around) else {
            return match self.next_check(around.now) {
                Some(Err(until)) => Start::Wait(until),
                _ => Start::Idle,
            };
        };
        if let Some(Err(free_at)) = self.pace.as_mut().map(|pace| pace.take(around.now)) {
            return Start::Wait(free_at);
        }
        let Some(session) = self.session_mut() else { return Start::Idle };
        session.starts += 1;
        let work = match kind {
            Kind::Page => session.pages.pop_front(),
            Kind::Comparison => session.comparisons.pop_front(),
            Kind::Round => session.rounds.pop_front(),
            Kind::Check => self.take_check(around.now),
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
            // What was found to be missing is fetched before more of it is looked for.
            let settings = around.settings;
            let fetched = session.ids_queued()
                < settings.ids_per_request_max * settings.pages_at_once_max as usize;
            let may_compare = fetched && comparing < self.comparisons_max(around);
            // What is begun waits in a queue with what is new, so neither keeps the other waiting.
            let few = session.pages.len() + session.comparisons.len() < FEW_QUESTIONS;
            if (few || session.starts % 2 == 1) && may_page && self.begin_batch(around) {
                continue;
            }
            let check = may_compare && may_page && self.next_check(around.now) == Some(Ok(()));
            let session = self.session()?;
            // Nor would it ever be known how somebody stands who is always asked for something.
            if check && session.starts % CHECK_EVERY == CHECK_EVERY - 1 {
                return Some(Kind::Check);
            }
            // What is asked for in turn would wait for ever behind a large history.
            if may_page && !session.rounds.is_empty() && session.starts % 4 == 3 {
                return Some(Kind::Round);
            }
            if may_page && !session.pages.is_empty() {
                return Some(Kind::Page);
            }
            if may_compare && !session.comparisons.is_empty() {
                return Some(Kind::Comparison);
            }
            if may_page && !session.rounds.is_empty() {
                return Some(Kind::Round);
            }
            return check.then_some(Kind::Check);
        }
    }

    /// The subtraction's other half: some groups that are neither pending nor confirmed.
    fn begin_batch(&mut self, around: &mut Around<'_>) -> bool {
        let now = around.now;
        let filters_max = self.filters_max(around.settings);
        let Some(session) = self.session() else { return false };
        let repacks = session.repack_since.is_some_and(|since| now < since.plus(REPACK_PATIENCE));
        let full = session.confirming() >= BATCHES_MAX || repacks;
        let Some(first) = self.missing.front().filter(|_| !full).copied() else { return false };
        let Some(head) = self.group(first).filter(|group| group.stage == Stage::Missing) else {
            self.missing.pop_front();
            return true;
        };
        let (reconcile, purpose) = (head.reconcile, head.purpose);
        // Announcements before states before anything else: what comes later depends on them. But
        // a relay that does not come to an end with them is asked for the rest all the same.
        let patience = around.settings.turn_without_progress;
        let first_layers = session.batches.values().any(|batch| {
            batch.aim == Aim::Confirm
                && batch.groups.iter().any(|group| *group < 2)
                && now < batch.started.plus(patience)
        });
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
        let compare = reconcile && self.compares(around);
        let live_since = self.live_since(&groups);
        let errand = Errand { purpose, live_since, catches_up: false };
        let parts = self.parts_of(&groups);
        for number in &groups {
            if let Some(group) = self.group_mut(*number) {
                group.stage = Stage::Pending;
                group.asked_at = now;
            }
        }
        let method = if compare { Method::Negentropy } else { Method::Pages };
        let batch = Batch::new(groups, Aim::Confirm, method, errand, now);
        let questions: Vec<Question> = match method {
            Method::Negentropy => {
                parts.into_iter().map(|part| self.comparison(part, None, around)).collect()
            }
            Method::Pages => self.packed(parts.into_iter().map(Ask::of).collect(), around),
        };
        let count = batch.groups.len();
        if let Some(id) = self.add_batch(batch, questions) {
            let (relay, groups) = (self.url.clone(), count);
            let news = News::BatchBegan { relay, batch: id, groups, compares: compare };
            around.act(Action::Tell(news));
        }
        true
    }

    /// Asks for what happened while we were away. Most of the window is known, so a relay with NIP-77
    /// compares it instead of sending it again (S-52).
    pub(crate) fn catch_up(&mut self, asks: Vec<Ask>, haste: Haste, around: &mut Around<'_>) {
        let mut groups: Vec<u32> = asks.iter().map(|ask| ask.part.group).collect();
        groups.sort_unstable();
        groups.dedup();
        let catches_up = haste == Haste::Now;
        let errand = Errand { catches_up, ..Errand::BACKFILL };
        let batch = Batch::new(groups, Aim::CatchUp, Method::Pages, errand, around.now);
        for number in &batch.groups {
            if let Some(group) = self.group_mut(*number) {
                group.behind.asked(haste == Haste::Now, around.now);
            }
        }
        let questions = if haste == Haste::Now && self.compares(around) {
            asks.iter().map(|ask| self.comparison(ask.part, ask.since, around)).collect()
        } else {
            self.packed(asks, around)
        };
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
            let since = Some(around.since(group.covered, overlap));
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

    fn compares(&self, around: &Around<'_>) -> bool {
        let may = |session: &Session| session.compares_at(around.now);
        around.settings.negentropy && self.session().is_some_and(may)
    }

    pub(crate) fn live_since(&self, groups: &[u32]) -> Option<Timestamp> {
        let since = groups.iter().map(|number| self.group(*number)?.live_since);
        since.collect::<Option<Vec<Timestamp>>>()?.into_iter().max()
    }

    /// Several filters share a request, as many as the relay takes.
    pub(crate) fn packed(&self, asks: Vec<Ask>, around: &Around<'_>) -> Vec<Question> {
        let (filters_max, bytes_max) =
            (self.filters_max(around.settings), self.request_bytes_max(around.settings));
        let mut questions = Vec::new();
        let mut request: Vec<Ask> = Vec::new();
        let (mut bytes, mut last_long) = (0, false);
        for ask in asks {
            let group = self.group(ask.part.group);
            let each = group.map_or(0, |group| group.filter_bytes(around.wanted));
            // A value that is refused spoils only requests of its like.
            let long = group.is_some_and(|group| group.long);
            let apart =
                long != last_long || ask.alone || request.last().is_some_and(|last| last.alone);
            let full = request.len() == filters_max || bytes + each > bytes_max || apart;
            if !request.is_empty() && full {
                questions.push(Question::Pages(std::mem::take(&mut request)));
                bytes = 0;
            }
            request.push(ask);
            last_long = long;
            bytes += each;
        }
        if !request.is_empty() {
            questions.push(Question::Pages(request));
        }
        questions
    }

    /// The batch's number on this link.
    pub(crate) fn add_batch(&mut self, mut batch: Batch, questions: Vec<Question>) -> Option<u64> {
        let session = self.session_mut()?;
        session.next_batch += 1;
        let id = session.next_batch;
        batch.outstanding = questions.len();
        session.batches.insert(id, batch);
        for question in questions {
            session.enqueue(Work { batch: Some(id), question });
        }
        Some(id)
    }

    pub(crate) fn ask(&mut self, work: Work, around: &mut Around<'_>) {
        let sub = around.sub();
        let relay = self.url.clone();
        let Some(session) = self.session() else { return };
        let errand = work.batch.and_then(|id| session.batches.get(&id)).map(|batch| batch.errand);
        let errand = errand.unwrap_or(Errand::BACKFILL);
        let named = |ids: Vec<EventId>| Filter { ids: Some(ids.into()), ..Filter::default() };
        let action = match &work.question {
            Question::Compare(part, walk) => {
                let Some(group) = self.group(part.group) else { return };
                let TimeWindow { since, until } = walk.window();
                let filter = group.filter(part.part, around.wanted);
                let filter = Filter { since: around.past_since(since), until, ..filter };
                let (standing, answer_within) = (Vec::new(), self.first_answer_within());
                Action::Reconcile { relay, sub, filter, errand, standing, answer_within }
            }
            Question::Pages(asks) => {
                let filters: Vec<Filter> =
                    asks.iter().filter_map(|ask| self.page_filter(ask, around)).collect();
                Action::Request { relay, sub, filters: filters.into(), errand }
            }
            Question::Check(check) => {
                let filter = self.check_filter(check, around);
                let standing = self.repo_ids(&check.members, around);
                let answer_within = self.first_answer_within();
                Action::Reconcile { relay, sub, filter, errand, standing, answer_within }
            }
            Question::CheckIds(check, ids) | Question::CheckSample(check, ids) => {
                let live_since = self.live_since(&[check.group]);
                let errand = Errand { live_since, ..Errand::BACKFILL };
                Action::Request { relay, sub, filters: [named(ids.clone())].into(), errand }
            }
            Question::Probe(probe) => {
                let Some(action) = self.probe_action(probe, sub, around) else { return };
                action
            }
            Question::Ids(ids, TimeWindow { since, until }) => {
                let filter = Filter { since: *since, until: *until, ..named(ids.clone()) };
                Action::Request { relay, sub, filters: [filter].into(), errand }
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

    pub(crate) fn page_filter(&self, ask: &Ask, around: &Around<'_>) -> Option<Filter> {
        let mut filter = self.group(ask.part.group)?.filter(ask.part.part, around.wanted);
        filter.since = around.past_since(ask.since);
        filter.until = ask.paging.until;
        Some(filter)
    }
}

enum Kind {
    Page,
    Comparison,
    Round,
    Check,
}

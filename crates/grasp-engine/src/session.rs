//! A link while it is up: what is open there, what is still to be asked, and what it showed itself
//! to be. All of it ends with the connection.

use crate::live::Live;
use crate::question::{Aim, Asked, Batch, Question, Work};
use crate::vocabulary::{Doubt, Peer, Sub};
use grasp_core::{EventId, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Everything that ends with the connection.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) since: Time,
    pub(crate) peer: Peer,
    pub(crate) live: BTreeMap<Sub, Live>,
    pub(crate) asked: BTreeMap<Sub, Asked>,
    pub(crate) batches: BTreeMap<u64, Batch>,
    pub(crate) next_batch: u64,
    /// Pages and ids still to be asked for by batches that have begun.
    pub(crate) pages: VecDeque<Work>,
    /// Comparisons still to be made by batches that have begun.
    pub(crate) comparisons: VecDeque<Work>,
    /// What is not heard live and asked for in turn; goes last.
    pub(crate) rounds: VecDeque<Work>,
    /// Questions that only show how it stands; after all else.
    pub(crate) checks: VecDeque<Question>,
    /// What checks named: how much of it came, and what did not.
    pub(crate) given: usize,
    pub(crate) kept: BTreeSet<EventId>,
    /// Probes that brought old events which no comparison had named (S-45).
    pub(crate) unnamed: u32,
    /// When it was given another chance to compare.
    pub(crate) believed: Time,
    /// Why it is not compared with, if it is not.
    pub(crate) doubt: Option<Doubt>,
    /// Does the relay give out as much at a time as it says?
    pub(crate) limit: Limit,
    pub(crate) negentropy: Negentropy,
    pub(crate) auth: Auth,
    /// To be asked again once we are known.
    pub(crate) after_auth: Vec<Work>,
    /// Live filters are to be packed anew as soon as nothing is pending.
    pub(crate) repack_since: Option<Time>,
    /// Comparisons it takes at once.
    pub(crate) compare_max: u32,
    /// When its turn began.
    pub(crate) turn_since: Time,
    pub(crate) told_rotating: bool,
    /// Questions that brought more than any may.
    pub(crate) floods: u32,
    /// Questions asked; going on, beginning and rotation take turns by it.
    pub(crate) starts: u64,
    /// A live subscription would be allowed as soon as a question ends.
    pub(crate) squeezed: bool,
    /// What the current turn has brought.
    pub(crate) turn_events: u32,
    pub(crate) turn_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Negentropy {
    Yes,
    /// Not in this session.
    No,
    /// It failed so often; not before then.
    NotBefore(Time, u32),
}

/// What a relay says about its page size is believed once a page showed it to be true.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limit {
    Unproved,
    /// A page of this size was all there was.
    Proved(u32),
    Refuted,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Auth {
    Untried,
    Asked,
    Done,
}

impl Session {
    pub(crate) fn new(peer: Peer, now: Time) -> Self {
        Self {
            since: now,
            peer,
            live: BTreeMap::new(),
            asked: BTreeMap::new(),
            batches: BTreeMap::new(),
            next_batch: 0,
            pages: VecDeque::new(),
            comparisons: VecDeque::new(),
            rounds: VecDeque::new(),
            checks: VecDeque::new(),
            given: 0,
            kept: BTreeSet::new(),
            unnamed: 0,
            believed: Time(0),
            doubt: None,
            limit: Limit::Unproved,
            negentropy: Negentropy::Yes,
            auth: Auth::Untried,
            after_auth: Vec::new(),
            repack_since: None,
            compare_max: u32::MAX,
            turn_since: now,
            told_rotating: false,
            floods: 0,
            starts: 0,
            squeezed: false,
            turn_events: 0,
            turn_bytes: 0,
        }
    }

    pub(crate) fn comparing(&self) -> usize {
        let compares = |asked: &&Asked| asked.work.question.compares();
        self.asked.values().filter(compares).count()
    }

    /// May it be compared with?
    pub(crate) fn compares_at(&self, now: Time) -> bool {
        match self.negentropy {
            Negentropy::Yes => true,
            Negentropy::No => false,
            Negentropy::NotBefore(until, _) => until <= now,
        }
    }

    pub(crate) fn confirming(&self) -> usize {
        self.batches.values().filter(|batch| batch.aim == Aim::Confirm).count()
    }

    pub(crate) fn queued(&self) -> usize {
        self.pages.len() + self.comparisons.len() + self.rounds.len()
    }

    /// What this session still had to ask for by name because it had not come.
    pub(crate) fn owed(&self) -> Vec<(EventId, u32)> {
        let asked = self.asked.values().map(|asked| &asked.work);
        let waiting = self.pages.iter().chain(&self.after_auth);
        let owed = asked.chain(waiting).filter_map(|work| match &work.question {
            Question::Owed(owed) => Some(owed.clone()),
            _ => None,
        });
        owed.flatten().collect()
    }

    /// Ids that wait to be asked for by name.
    pub(crate) fn ids_queued(&self) -> usize {
        let ids = |work: &Work| match &work.question {
            Question::Ids(ids, _) => ids.len(),
            _ => 0,
        };
        self.pages.iter().map(ids).sum()
    }

    pub(crate) fn enqueue(&mut self, work: Work) {
        match work.question {
            Question::Compare(..) => self.comparisons.push_back(work),
            // What finishes something begun goes before what begins something.
            Question::Ids(..) => self.pages.push_front(work),
            _ => self.pages.push_back(work),
        }
    }

    pub(crate) fn put_back(&mut self, work: Work) {
        match work.question {
            Question::Compare(..) => self.comparisons.push_front(work),
            _ if work.question.verifies() => self.checks.push_front(work.question),
            _ => self.pages.push_front(work),
        }
    }
}

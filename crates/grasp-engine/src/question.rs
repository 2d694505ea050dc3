//! What a relay is asked about the past, and for which groups.

use crate::checking::Check;
use crate::groups::Part;
use crate::neg_windows::{TimeWindow, WindowWalk};
use crate::pages::Paging;
use crate::probing::Probe;
use crate::vocabulary::{Errand, Hint, Page, Tally};
use grasp_core::{EventId, Time, Timestamp};

/// Some groups on their way to being confirmed, or to being current again.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) groups: Vec<u32>,
    pub(crate) aim: Aim,
    pub(crate) errand: Errand,
    /// Questions that have not ended yet, asked or not.
    pub(crate) outstanding: usize,
    pub(crate) failed: bool,
    /// There is more than could be asked for at once.
    pub(crate) unfinished: bool,
    /// There was no room here for some of what came.
    pub(crate) crowded: bool,
    pub(crate) started: Time,
    pub(crate) method: Method,
    /// Events that a comparison named and that were asked for, and those of them that came.
    pub(crate) named: usize,
    pub(crate) given: usize,
    /// It named events that it did not give out, so everything is read instead.
    pub(crate) reread: bool,
}

impl Batch {
    pub(crate) fn new(
        groups: Vec<u32>,
        aim: Aim,
        method: Method,
        errand: Errand,
        now: Time,
    ) -> Self {
        Self {
            groups,
            aim,
            errand,
            outstanding: 0,
            failed: false,
            unfinished: false,
            crowded: false,
            started: now,
            method,
            named: 0,
            given: 0,
            reread: false,
        }
    }

    /// Does it name events that it does not give out? Then what it says it has is worth nothing.
    /// Counted over the batch, however few are asked for at a time.
    pub(crate) fn names_what_it_keeps(&mut self, asked: usize, came: usize) -> bool {
        self.named += asked;
        self.given += came;
        self.named >= NAMED_MIN && self.given * 10 <= self.named
    }
}

/// Fewer than this may be missing by chance.
const NAMED_MIN: usize = 20;

/// How a batch is asked for (S-2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Negentropy,
    Pages,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aim {
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
    /// Everything, or everything since a moment, in windows where that is too much.
    Compare(Part, WindowWalk),
    Pages(Vec<Ask>),
    /// What a comparison of this window named; nothing outside of it is believed.
    Ids(Vec<EventId>, TimeWindow),
    /// Ids that did not come before, with the number of attempts.
    Owed(Vec<(EventId, u32)>),
    /// How both sides stand for some repositories, and what that showed us to lack.
    Check(Check),
    CheckIds(Check, Vec<EventId>),
    /// Some of what it says it has.
    CheckSample(Check, Vec<EventId>),
    /// Does it hide events from comparisons?
    Probe(Probe),
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
    pub(crate) fn unmixed(self, came: &Tally, page: &Page, limit: Option<u32>) -> Self {
        let least = limit.map_or(LIMIT_MIN, |limit| LIMIT_MIN.min(limit / 10 * 9));
        // The hint is about all filters of a request together.
        let few = limit.is_some_and(|limit| limit >= LIMIT_MIN && came.received < limit / 10 * 9);
        let cut = came.received >= least || (page.hint == Some(Hint::More) && !few);
        match page.mixed && !self.alone && cut {
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

//! Questions to the store, cut into short steps. A step runs on a reader thread with a fresh
//! snapshot and returns what to send and, perhaps, the errand to go on with; nothing waits inside.

use crate::neg_pool::{NegLease, NegPool, NegSet, NoItems};
use grasp_core::{EventId, Filter, Timestamp};
use grasp_relay::neg::{IdSet, NegError};
use grasp_relay::reply::{self, Hint};
use grasp_relay::{IpKey, Limits, Reconciler, SubId};
use grasp_store::{Budget, Cursor, EventStore, Progress, Space, StoreError, Want};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// One step of a query: about this many index entries or bytes.
const PAGE: Budget = Budget { steps: 20_000, bytes: 256 << 10 };
/// Index-only steps are lighter.
const INDEX_PAGE: Budget = Budget { steps: 100_000, bytes: usize::MAX };

#[derive(Debug)]
pub struct Errand {
    pub sub: SubId,
    /// What waiting for its turn costs in memory.
    pub bytes: usize,
    cursor: Cursor,
    spent: Duration,
    task: Task,
}

/// Names are separate for each purpose: a count may be called like a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    Query,
    Count,
    Reconcile,
}

#[derive(Debug)]
enum Task {
    Query { hint: bool },
    Count { found: u64 },
    NegOpen(Box<Opening>),
    NegMsg { reconciling: Box<Reconciling>, message: Vec<u8> },
}

/// A reconciliation whose events are being read.
#[derive(Debug)]
struct Opening {
    filter: Filter,
    serial_max: u64,
    message: Vec<u8>,
    items: Vec<(Timestamp, EventId)>,
    lease: NegLease,
    /// What another session has read already.
    found: Option<Arc<NegSet>>,
}

/// A reconciliation between two messages, with the set that it may share with others.
#[derive(Debug)]
pub struct Reconciling {
    reconciler: Reconciler,
    _set: Arc<NegSet>,
}

/// What came of a step.
#[derive(Debug)]
pub struct Step {
    pub purpose: Purpose,
    pub sub: SubId,
    pub frames: Vec<String>,
    pub then: Then,
}

#[derive(Debug)]
pub enum Then {
    Again(Errand),
    /// The stored part is through, or the count was given.
    Done,
    /// Ended with CLOSED: the subscription is over.
    Closed,
    /// Waiting for the client's next NEG-MSG.
    Reconciling(Box<Reconciling>),
    /// Ended with NEG-ERR.
    NegEnded,
}

/// Why a step could not be taken.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    NoRoom(#[from] NoItems),
}

/// What all errands share.
#[derive(Debug)]
pub struct Desk {
    pub limits: Arc<Limits>,
    pub query_time_max: Duration,
    pub neg_items: Arc<NegPool>,
}

/// A NEG-OPEN, and the address it came from if that has limits.
#[derive(Debug)]
pub struct NegAsked {
    pub sub: SubId,
    pub filter: Filter,
    pub message: Vec<u8>,
    pub address: Option<IpKey>,
}

impl Opening {
    /// All events are read. The client's first message, and the session that answers it.
    fn open(self, desk: &Desk) -> (Vec<u8>, Result<Reconciling, NegError>) {
        let Limits { neg_items_max, neg_frame_bytes, neg_rounds_max, .. } = *desk.limits;
        let Self { filter, serial_max, message, items, lease, found } = self;
        let set = match found {
            Some(set) => Ok(set),
            None => IdSet::collect(items, neg_items_max)
                .map(|set| desk.neg_items.share(filter, serial_max, set, lease)),
        };
        (message, set.and_then(|set| Reconciling::new(set, neg_frame_bytes, neg_rounds_max)))
    }
}

impl Reconciling {
    pub fn new(set: Arc<NegSet>, frame_bytes: usize, rounds_max: u32) -> Result<Self, NegError> {
        let reconciler = Reconciler::new(set.set.clone(), frame_bytes, rounds_max)?;
        Ok(Self { reconciler, _set: set })
    }
}

impl Errand {
    /// The stored part of a REQ, up to the serial at which its live part began.
    pub fn query(sub: SubId, filters: Arc<[Filter]>, serial_max: u64, now: Timestamp) -> Self {
        // A live-only filter says nothing about what is older, so neither does the hint.
        let hint = filters.iter().all(|filter| filter.limit != Some(0));
        Self::walk(sub, filters, Want::Bodies, Task::Query { hint }, serial_max, now)
    }

    pub fn count(sub: SubId, filters: Vec<Filter>, serial_max: u64, now: Timestamp) -> Self {
        let unlimited = filters.into_iter().map(|f| Filter { limit: None, ..f }).collect();
        Self::walk(sub, unlimited, Want::Positions, Task::Count { found: 0 }, serial_max, now)
    }

    pub fn neg_open(asked: NegAsked, serial_max: u64, now: Timestamp, desk: &Desk) -> Self {
        let NegAsked { sub, filter, message, address } = asked;
        let lease = desk.neg_items.lease(address);
        let found = desk.neg_items.find(&filter, serial_max);
        let items = Vec::new();
        let task = Task::NegOpen(Box::new(Opening {
            filter: filter.clone(),
            serial_max,
            message,
            items,
            lease,
            found,
        }));
        Self::walk(sub, [filter].into(), Want::Positions, task, serial_max, now)
    }

    pub fn neg_msg(sub: SubId, reconciling: Box<Reconciling>, message: Vec<u8>) -> Self {
        let task = Task::NegMsg { reconciling, message };
        Self::walk(sub, [].into(), Want::Positions, task, 0, Timestamp(0))
    }

    fn walk(
        sub: SubId,
        filters: Arc<[Filter]>,
        want: Want,
        task: Task,
        serial_max: u64,
        now: Timestamp,
    ) -> Self {
        let message = match &task {
            Task::NegOpen(opening) => opening.message.len(),
            Task::NegMsg { message, .. } => message.len(),
            Task::Query { .. } | Task::Count { .. } => 0,
        };
        let bytes = filters.iter().map(Filter::retained_bytes).sum::<usize>() + message;
        let cursor = Cursor::new(filters, want, serial_max, now);
        Self { sub, cursor, bytes, spent: Duration::ZERO, task }
    }

    pub fn purpose(&self) -> Purpose {
        match self.task {
            Task::Query { .. } => Purpose::Query,
            Task::Count { .. } => Purpose::Count,
            Task::NegOpen(_) | Task::NegMsg { .. } => Purpose::Reconcile,
        }
    }

    /// Runs one step; never longer than a page takes.
    pub fn step(mut self, store: &dyn EventStore, desk: &Desk) -> Step {
        let started = Instant::now();
        let mut frames = Vec::new();
        let progress = self.advance(store, desk.limits.neg_items_max, &mut frames);
        self.spent += started.elapsed();
        let (purpose, sub) = (self.purpose(), self.sub.clone());
        let then = match progress {
            Err(Trouble::NoRoom(why)) => self.refuse(&mut frames, &format!("blocked: {why}")),
            Err(Trouble::Store(error)) => {
                tracing::error!(%error, "a query failed");
                self.refuse(&mut frames, "error: the store could not be read; try again later")
            }
            Ok(Progress::Paused) if self.spent > desk.query_time_max => {
                let why = "error: the query took too long; ask for less, for example with since";
                self.refuse(&mut frames, why)
            }
            Ok(Progress::Paused) => Then::Again(self),
            Ok(Progress::Done) => self.finish(&mut frames, desk),
        };
        Step { purpose, sub, frames, then }
    }

    fn advance(
        &mut self,
        store: &dyn EventStore,
        items_max: usize,
        frames: &mut Vec<String>,
    ) -> Result<Progress, Trouble> {
        let (sub, cursor) = (&self.sub, &mut self.cursor);
        Ok(match &mut self.task {
            Task::NegMsg { .. } => Progress::Done,
            Task::Query { .. } => {
                let mut sink = |hit: grasp_store::Hit<'_>| frames.push(reply::event(sub, hit.json));
                store.read()?.advance(Space::Served, cursor, &mut { PAGE }, &mut sink)?
            }
            Task::Count { found } => {
                let mut sink = |_: grasp_store::Hit<'_>| *found += 1;
                store.read()?.advance(Space::Served, cursor, &mut { INDEX_PAGE }, &mut sink)?
            }
            Task::NegOpen(opening) if opening.found.is_some() => Progress::Done,
            Task::NegOpen(opening) => {
                let Opening { items, lease, .. } = &mut **opening;
                let before = items.len();
                let mut sink = |hit: grasp_store::Hit<'_>| {
                    items.push((hit.position.created_at(), hit.position.id()));
                };
                let progress =
                    store.read()?.advance(Space::Served, cursor, &mut { INDEX_PAGE }, &mut sink)?;
                // One past the limit is enough to know that there are too many.
                let enough = items.len() > items_max;
                lease.grow(items.len() - before)?;
                if enough { Progress::Done } else { progress }
            }
        })
    }

    fn finish(self, frames: &mut Vec<String>, desk: &Desk) -> Then {
        match self.task {
            Task::Query { hint } => {
                let more = self.cursor.has_more().filter(|_| hint);
                let hint = more.map(|more| if more { Hint::More } else { Hint::Finish });
                frames.push(reply::eose(&self.sub, hint));
                Then::Done
            }
            Task::Count { found } => {
                frames.push(reply::count(&self.sub, found));
                Then::Done
            }
            Task::NegOpen(opening) => {
                let (message, opened) = opening.open(desk);
                match opened {
                    Ok(reconciling) => answer(&self.sub, Box::new(reconciling), &message, frames),
                    Err(error) => neg_failed(&self.sub, &error, frames),
                }
            }
            Task::NegMsg { reconciling, message } => {
                answer(&self.sub, reconciling, &message, frames)
            }
        }
    }

    fn refuse(&self, frames: &mut Vec<String>, why: &str) -> Then {
        match self.task {
            Task::Query { .. } | Task::Count { .. } => {
                frames.push(reply::closed(&self.sub, why));
                Then::Closed
            }
            Task::NegOpen(_) | Task::NegMsg { .. } => {
                frames.push(reply::neg_err(&self.sub, why));
                Then::NegEnded
            }
        }
    }
}

fn answer(
    sub: &SubId,
    mut reconciling: Box<Reconciling>,
    message: &[u8],
    frames: &mut Vec<String>,
) -> Then {
    match reconciling.reconciler.answer(message) {
        Ok(reply) => {
            frames.push(reply::neg_msg(sub, &reply));
            Then::Reconciling(reconciling)
        }
        Err(error) => neg_failed(sub, &error, frames),
    }
}

fn neg_failed(sub: &SubId, error: &NegError, frames: &mut Vec<String>) -> Then {
    frames.push(reply::neg_err(sub, &error.to_string()));
    Then::NegEnded
}

//! Questions to the store, cut into short steps. A step runs on a reader thread with a fresh
//! snapshot and returns what to send and, perhaps, the errand to go on with; nothing waits inside.

use grasp_core::{EventId, Filter, Timestamp};
use grasp_relay::neg::{IdSet, NegError};
use grasp_relay::reply::{self, Hint};
use grasp_relay::{Limits, Reconciler, SubId};
use grasp_store::{Budget, Cursor, EventStore, Progress, Space, StoreError, Want};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
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
    NegOpen { items: Vec<(Timestamp, EventId)>, share: Share, message: Vec<u8> },
    NegMsg { reconciling: Box<Reconciling>, message: Vec<u8> },
}

/// A reconciliation between two messages, with its share of the memory all of them may use.
#[derive(Debug)]
pub struct Reconciling {
    reconciler: Reconciler,
    _share: Share,
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
    #[error("no room for more items")]
    NoRoom,
}

/// What all errands share.
#[derive(Debug)]
pub struct Desk {
    pub limits: Arc<Limits>,
    pub query_time_max: Duration,
    pub neg_items: Arc<Pool>,
}

/// Items that all reconciliations together may keep in memory.
#[derive(Debug)]
pub struct Pool {
    left: AtomicUsize,
}

/// A part of the pool, given back when dropped.
#[derive(Debug)]
struct Share {
    pool: Arc<Pool>,
    taken: usize,
}

impl Pool {
    pub fn of(items: usize) -> Arc<Self> {
        Arc::new(Self { left: AtomicUsize::new(items) })
    }
}

impl Share {
    fn grow(&mut self, by: usize) -> bool {
        let take = |left: usize| left.checked_sub(by);
        let taken = self.pool.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        self.taken += if taken { by } else { 0 };
        taken
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.pool.left.fetch_add(self.taken, Ordering::Relaxed);
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

    pub fn neg_open(
        sub: SubId,
        filter: Filter,
        message: Vec<u8>,
        serial_max: u64,
        now: Timestamp,
        desk: &Desk,
    ) -> Self {
        let share = Share { pool: Arc::clone(&desk.neg_items), taken: 0 };
        let task = Task::NegOpen { items: Vec::new(), share, message };
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
            Task::NegOpen { message, .. } | Task::NegMsg { message, .. } => message.len(),
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
            Task::NegOpen { .. } | Task::NegMsg { .. } => Purpose::Reconcile,
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
            Err(Trouble::NoRoom) => {
                let why = "blocked: too many events are being reconciled; try again in a minute";
                self.refuse(&mut frames, why)
            }
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
            Task::NegOpen { items, share, .. } => {
                let before = items.len();
                let mut sink = |hit: grasp_store::Hit<'_>| {
                    items.push((hit.position.created_at(), hit.position.id()));
                };
                let progress =
                    store.read()?.advance(Space::Served, cursor, &mut { INDEX_PAGE }, &mut sink)?;
                // One past the limit is enough to know that there are too many.
                let enough = items.len() > items_max;
                if !share.grow(items.len() - before) {
                    return Err(Trouble::NoRoom);
                }
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
            Task::NegOpen { items, share, message } => {
                let Limits { neg_items_max, neg_frame_bytes, neg_rounds_max, .. } = *desk.limits;
                let opened = IdSet::collect(items, neg_items_max)
                    .and_then(|set| Reconciler::new(set, neg_frame_bytes, neg_rounds_max));
                match opened {
                    Ok(reconciler) => {
                        let reconciling = Box::new(Reconciling { reconciler, _share: share });
                        answer(&self.sub, reconciling, &message, frames)
                    }
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
            Task::NegOpen { .. } | Task::NegMsg { .. } => {
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

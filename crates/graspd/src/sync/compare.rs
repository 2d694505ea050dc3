//! Our side of a reconciliation (NIP-77): over what we really have, held and refused included
//! (S-18). The work is done on reader threads; the link only passes messages.

use super::standing::{Shown, TurnedAway};
use crate::clock::ClockReading;
use crate::ingest::{inventory, unknown};
use crate::node::Node;
use grasp_core::policy::Rules;
use grasp_core::{EventId, Filter, RepoId, Time, Timestamp};
use grasp_engine::{Reconciliation, Sub};
use grasp_relay::neg::{IdSet, Initiator, Step};
use grasp_store::{EventStore, Space, StoreError};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use tokio::sync::mpsc;

/// One reconciliation.
#[derive(Debug)]
pub(super) struct Comparison {
    filter: Filter,
    /// How these stand by it is to be found out.
    standing: Arc<[RepoId]>,
    /// Away while it works on a message.
    side: Option<Box<Side>>,
}

/// Our half of it, between two messages.
#[derive(Debug)]
pub(super) struct Side {
    initiator: Initiator,
    /// What we had when it began, if that is what it is about.
    ours: HashSet<EventId>,
    /// So many events of ours are compared.
    items: usize,
    /// What they have and we do not, so far; and the reverse.
    need: Vec<EventId>,
    have: Vec<EventId>,
    bytes: usize,
    /// Messages since the last one that brought something.
    idle: u32,
}

/// What came of a step.
#[derive(Debug)]
pub(super) struct Compared {
    pub(super) sub: Sub,
    pub(super) progress: Progress,
}

#[derive(Debug)]
pub(super) enum Progress {
    Open(Box<Side>, Vec<u8>),
    Next(Box<Side>, Vec<u8>),
    Done(Difference, Shown),
    Failed(String),
}

/// Where both sides differ.
#[derive(Debug, Default)]
pub(super) struct Difference {
    /// What they have and we neither have nor refused.
    pub(super) need: Vec<EventId>,
    /// What we have and they do not.
    pub(super) have: Vec<EventId>,
    /// Some of it.
    pub(super) lacks: Vec<(Timestamp, EventId)>,
    /// So many they say they have.
    pub(super) theirs: usize,
    /// So many of what we need came before and found no room here.
    pub(super) without_room: usize,
}

const ITEMS_MAX: usize = 1_000_000;
const NEEDED_MAX: usize = 500_000;
const BYTES_MAX: usize = 64 << 20;
const IDLE_MAX: u32 = 64;
const FRAME_BYTES_MAX: usize = 60_000;
const FRAME_BYTES_MIN: usize = 4_096;

impl Comparison {
    pub(super) fn new(filter: Filter, standing: Vec<RepoId>) -> Self {
        Self { filter, standing: standing.into(), side: None }
    }

    /// Is it only about how somebody stands?
    pub(super) fn is_check(&self) -> bool {
        !self.standing.is_empty()
    }

    /// A message is hex and some words around it.
    pub(super) fn frame_bytes(message_bytes_max: Option<u32>) -> usize {
        let told = message_bytes_max.map_or(usize::MAX, |max| max as usize);
        (told.saturating_sub(2_048) / 2).clamp(FRAME_BYTES_MIN, FRAME_BYTES_MAX)
    }

    pub(super) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// We have the word, not they.
    pub(super) fn is_at_work(&self) -> bool {
        self.side.is_none()
    }

    pub(super) fn resume(&mut self, side: Box<Side>) {
        self.side = Some(side);
    }

    /// Collects what we have; the first message follows.
    pub(super) fn prepare(&self, node: &Node, sub: Sub, frame_bytes: usize, reply: &Reply) {
        let (filter, now) = (self.filter.clone(), node.clock.wall().timestamp());
        let (reply, is_check) = (reply.clone(), self.is_check());
        let work = move |store: &dyn EventStore| {
            let progress = match Side::begin(store, (&filter, is_check), now, frame_bytes) {
                Ok((side, message)) => Progress::Open(side, message),
                Err(why) => Progress::Failed(why),
            };
            // The link may have ended meanwhile.
            let _ = reply.send(Compared { sub, progress });
        };
        drop(node.explorers.ask(work));
    }

    /// Works on an answer. A second one before the first is through is not in the protocol. What was
    /// turned away before is not lacking.
    pub(super) fn answer(
        &mut self,
        node: &Node,
        sub: Sub,
        message: Vec<u8>,
        turned_away: &TurnedAway,
        reply: &Reply,
    ) {
        let Some(side) = self.side.take() else { return };
        let ClockReading { now, wall } = node.clock.read();
        let matter = Matter {
            filter: self.filter.clone(),
            standing: Arc::clone(&self.standing),
            unwanted: if self.is_check() { turned_away.unwanted(now) } else { BTreeSet::new() },
            without_room: turned_away.without_room(now),
            rules: Arc::clone(&node.rules),
            now: wall,
        };
        let reply = reply.clone();
        let work = move |store: &dyn EventStore| {
            let progress = side.answer(store, &matter, &message);
            let _ = reply.send(Compared { sub, progress });
        };
        drop(node.explorers.ask(work));
    }
}

/// What a comparison is about, for those who work on it.
struct Matter {
    filter: Filter,
    standing: Arc<[RepoId]>,
    unwanted: BTreeSet<EventId>,
    without_room: BTreeSet<EventId>,
    rules: Arc<Rules>,
    now: Time,
}

impl Matter {
    fn settle(
        &self,
        store: &dyn EventStore,
        (ours, items): (&HashSet<EventId>, usize),
        (need, have): (Vec<EventId>, Vec<EventId>),
    ) -> Result<(Difference, Shown), StoreError> {
        let theirs = (items + need.len()).saturating_sub(have.len());
        let lacks = created_at_of(store, &have)?;
        let mut need = unknown(store, need)?;
        need.retain(|id| !self.unwanted.contains(id));
        let without_room = need.iter().filter(|id| self.without_room.contains(id)).count();
        let difference = Difference { need, have, lacks, theirs, without_room };
        if self.standing.is_empty() {
            return Ok((difference, Shown::default()));
        }
        let about = (&self.filter, &*self.standing);
        let shown = Shown::by((store, &self.rules), about, (ours, &difference), self.now)?;
        Ok((difference, shown))
    }
}

impl Side {
    fn begin(
        store: &dyn EventStore,
        (filter, is_check): (&Filter, bool),
        now: Timestamp,
        frame_bytes: usize,
    ) -> Result<(Box<Self>, Vec<u8>), String> {
        let items = inventory(store, filter, now, ITEMS_MAX).map_err(|it| it.to_string())?;
        let ours =
            if is_check { items.iter().map(|(_, id)| *id).collect() } else { HashSet::new() };
        let count = items.len();
        let set = IdSet::collect(items, ITEMS_MAX).map_err(|it| it.to_string())?;
        let mut initiator = Initiator::new(set, frame_bytes).map_err(|it| it.to_string())?;
        let message = initiator.initiate().map_err(|it| it.to_string())?;
        let (need, have) = (Vec::new(), Vec::new());
        let side = Self { initiator, ours, items: count, need, have, bytes: 0, idle: 0 };
        Ok((Box::new(side), message))
    }

    fn answer(
        mut self: Box<Self>,
        store: &dyn EventStore,
        matter: &Matter,
        message: &[u8],
    ) -> Progress {
        self.bytes += message.len();
        let found = self.need.len() + self.have.len();
        match self.initiator.handle_answer(message) {
            Err(error) => Progress::Failed(error.to_string()),
            Ok(Step::Send(next)) => {
                let difference = self.initiator.take_difference();
                self.need.extend(difference.need);
                self.have.extend(difference.have);
                let headway = self.need.len() + self.have.len() > found;
                self.idle = if headway { 0 } else { self.idle + 1 };
                let endless = self.idle > IDLE_MAX
                    || self.bytes > BYTES_MAX
                    || self.need.len() > NEEDED_MAX
                    || self.have.len() > ITEMS_MAX;
                match endless {
                    true => Progress::Failed("it does not come to an end".into()),
                    false => Progress::Next(self, next),
                }
            }
            Ok(Step::Done(last)) => {
                self.need.extend(last.need);
                self.have.extend(last.have);
                let ours = (&self.ours, self.items);
                match matter.settle(store, ours, (self.need, self.have)) {
                    Ok((difference, shown)) => Progress::Done(difference, shown),
                    Err(error) => Progress::Failed(error.to_string()),
                }
            }
        }
    }
}

/// Some of these that are served here, spread over all of them, with their times.
fn created_at_of(
    store: &dyn EventStore,
    ids: &[EventId],
) -> Result<Vec<(Timestamp, EventId)>, StoreError> {
    let snapshot = store.read()?;
    let step = ids.len().div_ceil(Reconciliation::LACKS_MAX).max(1);
    let mut found = Vec::new();
    for id in ids.iter().step_by(step) {
        if let Some(stored) = snapshot.get(Space::Served, id)? {
            found.push((stored.event.created_at, *id));
        }
    }
    Ok(found)
}

type Reply = mpsc::UnboundedSender<Compared>;

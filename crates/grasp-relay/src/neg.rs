//! NIP-77: finding out which events two sides do not share. Works on ids and times alone; where
//! they come from, and what is done about the difference, is decided elsewhere. No answer is longer
//! than a frame, and a client that makes no headway is stopped.

use grasp_core::{EventId, Timestamp};
use negentropy::{Bound, Error, Id, Item, Negentropy, NegentropyStorageBase};
use std::sync::Arc;

/// A set of events by time and id. Cheap to clone: sessions over the same set share it.
#[derive(Debug, Clone, Default)]
pub struct IdSet(Arc<Vec<Item>>);

/// A reconciliation that cannot go on; the text follows a NEG-ERR prefix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NegError {
    #[error("blocked: more than {0} events match; narrow the filter, for example by time")]
    TooManyItems(usize),
    #[error("blocked: {0} rounds without headway; start again with NEG-OPEN")]
    TooManyRounds(u32),
    #[error("invalid: the message is not negentropy protocol version 1: {0}")]
    Protocol(String),
}

impl From<Error> for NegError {
    fn from(error: Error) -> Self {
        Self::Protocol(error.to_string())
    }
}

impl IdSet {
    /// In any order; a set beyond `items_max` is refused before it is kept.
    pub fn collect(
        items: impl IntoIterator<Item = (Timestamp, EventId)>,
        items_max: usize,
    ) -> Result<Self, NegError> {
        let items = items.into_iter().map(|(created_at, id)| {
            Item::with_timestamp_and_id(created_at.0, Id::from_byte_array(*id.as_bytes()))
        });
        let mut items: Vec<Item> = items.take(items_max.saturating_add(1)).collect();
        if items.len() > items_max {
            return Err(NegError::TooManyItems(items_max));
        }
        items.sort_unstable();
        items.dedup();
        Ok(Self(Arc::new(items)))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl NegentropyStorageBase for IdSet {
    fn size(&self) -> Result<usize, Error> {
        Ok(self.0.len())
    }

    fn get_item(&self, at: usize) -> Result<Option<Item>, Error> {
        Ok(self.0.get(at).copied())
    }

    fn iterate(
        &self,
        begin: usize,
        end: usize,
        each: &mut dyn FnMut(Item, usize) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        let items = self.0.get(begin..end).ok_or(Error::BadRange)?;
        for (item, at) in items.iter().zip(begin..) {
            if !each(*item, at)? {
                break;
            }
        }
        Ok(())
    }

    fn find_lower_bound(&self, first: usize, last: usize, bound: &Bound) -> usize {
        let items = self.0.get(first..last).unwrap_or_default();
        first + items.partition_point(|item| *item < bound.item)
    }
}

/// Our side of one reconciliation that a client started.
#[derive(Debug)]
pub struct Reconciler {
    negentropy: Negentropy<'static, IdSet>,
    set: IdSet,
    rounds_max: u32,
    /// Rounds since the settled part last grew.
    stalled: u32,
    /// How many of our items the client has declared settled.
    settled: usize,
}

impl Reconciler {
    /// Frames shorter than negentropy can use are stretched to its minimum.
    pub fn new(set: IdSet, frame_bytes: usize, rounds_max: u32) -> Result<Self, NegError> {
        let negentropy = Negentropy::owned(set.clone(), frame(frame_bytes))?;
        Ok(Self { negentropy, set, rounds_max, stalled: 0, settled: 0 })
    }

    pub fn items(&self) -> usize {
        self.set.len()
    }

    /// A large difference takes as many frames as it takes: only rounds that do not move past
    /// another of our items are counted, and the tree is but a few rounds deep.
    pub fn answer(&mut self, message: &[u8]) -> Result<Vec<u8>, NegError> {
        let settled = settled_bound(message)
            .map_or(0, |bound| self.set.find_lower_bound(0, self.set.len(), &bound));
        if settled > self.settled {
            self.settled = settled;
            self.stalled = 0;
        }
        if self.stalled >= self.rounds_max {
            return Err(NegError::TooManyRounds(self.rounds_max));
        }
        self.stalled += 1;
        Ok(self.negentropy.reconcile(message)?)
    }
}

/// Another server's reconciler, asked by us.
#[derive(Debug)]
pub struct Initiator {
    negentropy: Negentropy<'static, IdSet>,
    have: Vec<Id>,
    need: Vec<Id>,
}

/// What to do after an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Send(Vec<u8>),
    Done(Difference),
}

/// Sorted, each id once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Difference {
    /// What only we have.
    pub have: Vec<EventId>,
    /// What only they have.
    pub need: Vec<EventId>,
}

impl Initiator {
    pub fn new(set: IdSet, frame_bytes: usize) -> Result<Self, NegError> {
        let negentropy = Negentropy::owned(set, frame(frame_bytes))?;
        Ok(Self { negentropy, have: Vec::new(), need: Vec::new() })
    }

    /// The message of NEG-OPEN; asked for once.
    pub fn initiate(&mut self) -> Result<Vec<u8>, NegError> {
        Ok(self.negentropy.initiate()?)
    }

    pub fn handle_answer(&mut self, message: &[u8]) -> Result<Step, NegError> {
        let next = self.negentropy.reconcile_with_ids(message, &mut self.have, &mut self.need)?;
        Ok(match next {
            Some(message) => Step::Send(message),
            None => {
                Step::Done(Difference { have: taken(&mut self.have), need: taken(&mut self.need) })
            }
        })
    }

    /// Differences found so far, handed over so that a long reconciliation needs little memory.
    pub fn take_difference(&mut self) -> Difference {
        Difference { have: taken(&mut self.have), need: taken(&mut self.need) }
    }
}

fn taken(ids: &mut Vec<Id>) -> Vec<EventId> {
    let ids = std::mem::take(ids);
    let mut ids: Vec<EventId> =
        ids.into_iter().map(|id| EventId::from_bytes(id.to_bytes())).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

fn frame(bytes: usize) -> u64 {
    u64::try_from(bytes.max(4096)).unwrap_or(u64::MAX)
}

/// A message that starts with a skipped range says: below this bound we agree.
fn settled_bound(message: &[u8]) -> Option<Bound> {
    let mut rest = message.get(1..)?;
    let timestamp = match var_int(&mut rest)? {
        0 => u64::MAX,
        shifted => shifted - 1,
    };
    let len = usize::try_from(var_int(&mut rest)?).ok()?;
    let prefix = rest.get(..len)?;
    let bound = Bound::with_timestamp_and_id(timestamp, prefix).ok()?;
    rest = rest.get(len..)?;
    (var_int(&mut rest)? == 0).then_some(bound)
}

/// Most significant group first, the high bit meaning that more follows.
fn var_int(bytes: &mut &[u8]) -> Option<u64> {
    let mut value: u64 = 0;
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value = value.checked_mul(128)? | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
}

#[cfg(test)]
mod tests;

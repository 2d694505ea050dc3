//! Events on disk. Blocking, without opinions: it keeps, replaces, buries and finds; whether an
//! event is welcome is decided elsewhere. Invariant: what `write` returned `Ok` for is on the disk.

mod counters;
mod keys;
mod lmdb;
mod merge;
mod notes;
mod plan;
mod query;
mod record;
mod space;
mod tombstones;
mod view;
mod write;

pub use keys::Position;
pub use lmdb::{LmdbStore, Options, in_memory};
pub use notes::{Note, Shelf};
pub use query::{Budget, Cursor, Hit, Progress, Want};
pub use record::{Provenance, SourceKind, StoredEvent};
pub use space::Space;

use grasp_core::policy::Erased;
use grasp_core::terms::Term;
use grasp_core::{Coordinate, Event, EventId, Kind, PubKey, Timestamp, VerifiedEvent};
use std::ops::RangeInclusive;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("the event store is full: {used} of {budget} bytes are in use")]
    Full { used: u64, budget: u64 },
    #[error("the event store could not be opened at {path}: {why}")]
    Open { path: String, why: String },
    #[error("the event store has format {found}, this program reads format {known}")]
    Format { found: u32, known: u32 },
    #[error("a stored record is damaged: {0}")]
    Damaged(&'static str),
    #[error("event store: {0}")]
    Engine(#[from] heed::Error),
}

pub type Result<T> = std::result::Result<T, StoreError>;

/// What became of an event that was handed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Put {
    Stored {
        serial: u64,
        /// The version this one took the place of.
        replaced: Option<EventId>,
    },
    Duplicate,
    /// A version that wins is already here.
    Superseded,
}

/// What can be told of a stored event without parsing it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    pub author: PubKey,
    pub kind: Kind,
}

/// How much of the disk budget is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub used_bytes: u64,
    pub budget_bytes: u64,
    pub map_bytes: u64,
}

impl Usage {
    /// Writes stop here; what remains lets deletions and housekeeping go on.
    pub const FULL_PERCENT: u64 = 95;

    pub fn is_full(&self) -> bool {
        self.used_bytes >= self.budget_bytes / 100 * Self::FULL_PERCENT
    }

    /// Not even requests to delete fit any more.
    pub fn is_overfull(&self) -> bool {
        self.used_bytes >= self.budget_bytes
    }
}

/// An event store. One writer at a time, any number of snapshots beside it.
pub trait EventStore: Send + Sync + std::fmt::Debug {
    /// A consistent view of what is committed. Keep it briefly: it pins old pages.
    fn read(&self) -> Result<Box<dyn Snapshot + '_>>;

    /// Runs `work` in one durable transaction. `work` may run more than once, each time from the
    /// committed state, so it must rebuild whatever it collects.
    fn write(&self, work: &mut dyn FnMut(&mut dyn Transaction) -> Result<()>) -> Result<()>;

    fn usage(&self) -> Result<Usage>;
}

pub trait Snapshot {
    fn contains(&self, space: Space, id: &EventId) -> Result<bool>;
    fn get(&self, space: Space, id: &EventId) -> Result<Option<StoredEvent>>;
    /// The current version of a replaceable or addressable event.
    fn current(&self, space: Space, of: &Coordinate) -> Result<Option<StoredEvent>>;
    /// The newest events carrying a term, newest first.
    fn newest(&self, space: Space, term: &Term, count_max: usize) -> Result<Vec<StoredEvent>>;
    fn has_term(&self, space: Space, term: &Term) -> Result<bool>;
    /// Who wrote this event and what it is, without reading the event itself.
    fn header(&self, space: Space, id: &EventId) -> Result<Option<Header>>;
    /// The version that is current, by its place alone.
    fn current_position(&self, space: Space, of: &Coordinate) -> Result<Option<Position>>;
    /// The authors of the newest events carrying a term, newest first.
    fn authors(&self, space: Space, term: &Term, count_max: usize) -> Result<Vec<PubKey>>;
    fn has_author(&self, space: Space, author: &PubKey) -> Result<bool>;
    /// Has this author written anything of a kind that is not among these few?
    fn has_author_beyond(&self, space: Space, author: &PubKey, kinds: &[Kind]) -> Result<bool>;
    /// An author's newest events of one kind, newest first.
    fn by_author(
        &self,
        space: Space,
        author: &PubKey,
        kind: Kind,
        count_max: usize,
    ) -> Result<Vec<StoredEvent>>;
    /// How many events an author has there, counting no further than `count_max`.
    fn authored(&self, space: Space, author: &PubKey, count_max: usize) -> Result<usize>;
    /// What its author's earlier requests say about this event.
    fn erased(&self, event: &Event) -> Result<Erased>;
    /// How many tombstones an author has, counting no further than `count_max`.
    fn burials_by(&self, author: &PubKey, count_max: usize) -> Result<usize>;
    fn events_in(&self, space: Space) -> Result<u64>;
    fn bytes_in(&self, space: Space) -> Result<u64>;
    fn events_of_kind(&self, space: Space, kind: Kind) -> Result<u64>;
    /// The serial of the newest committed event; serials only grow.
    fn last_serial(&self) -> Result<u64>;
    /// Is there anything for the two sweeps of [`Transaction`] to remove?
    fn needs_sweep(&self, now: Timestamp) -> Result<bool>;
    fn note(&self, shelf: Shelf, key: &[u8]) -> Result<Option<Vec<u8>>>;
    /// The notes whose key starts with `prefix`, in order of their keys.
    fn notes(&self, shelf: Shelf, prefix: &[u8], count_max: usize) -> Result<Vec<Note>>;
    /// The notes whose key comes after `key`, in order, whatever they begin with.
    fn notes_after(&self, shelf: Shelf, key: &[u8], count_max: usize) -> Result<Vec<Note>>;
    /// Moves a query forward until it ends or `budget` is spent; see [`Cursor`].
    fn advance(
        &self,
        space: Space,
        cursor: &mut Cursor,
        budget: &mut Budget,
        sink: &mut dyn FnMut(Hit<'_>),
    ) -> Result<Progress>;
    /// Goes through events in the order in which they were stored and shows those of some kinds to
    /// `sink`; of others it reads only the header. After `rows_max` rows it stops and returns the
    /// serial to go on with.
    fn walk(
        &self,
        space: Space,
        serials: RangeInclusive<u64>,
        kinds: &[Kind],
        rows_max: usize,
        sink: &mut dyn FnMut(StoredEvent),
    ) -> Result<Option<u64>>;
}

/// Sees what a sweep removed, and where it was.
pub type Gone<'a> = dyn FnMut(Space, &StoredEvent) + 'a;

pub trait Transaction: Snapshot {
    /// Stores an event, replacing the version it beats (but not in [`Space::History`]). Refused when
    /// the budget is spent; requests to delete make room, so they may use the last of it.
    fn put(&mut self, space: Space, event: &VerifiedEvent, from: &Provenance) -> Result<Put>;
    fn remove(&mut self, space: Space, id: &EventId) -> Result<Option<StoredEvent>>;
    /// From now on this id by this author is deleted, known here or not.
    fn bury_event(&mut self, id: &EventId, author: &PubKey, at: Timestamp) -> Result<()>;
    /// Versions up to `at` are deleted; an older request never moves the line back.
    fn bury_coordinate(&mut self, of: &Coordinate, at: Timestamp) -> Result<()>;
    /// Everything this author signed up to `at` is gone and stays away (NIP-62).
    fn bury_author(&mut self, author: &PubKey, at: Timestamp) -> Result<()>;
    /// Removes up to `count_max` events of authors who vanished, and shows each to `gone`.
    fn sweep_vanished(&mut self, count_max: usize, gone: &mut Gone<'_>) -> Result<usize>;
    /// Removes up to `count_max` events that expired by `now`, and shows each to `gone`.
    fn sweep_expired(
        &mut self,
        now: Timestamp,
        count_max: usize,
        gone: &mut Gone<'_>,
    ) -> Result<usize>;
    /// Writes a note, in place of the one with the same key.
    fn put_note(&mut self, shelf: Shelf, key: &[u8], value: &[u8]) -> Result<()>;
    fn remove_note(&mut self, shelf: Shelf, key: &[u8]) -> Result<bool>;
}

//! Events, a store that can be closed and opened again, and verbs for both. Events are unsigned:
//! the store never verifies.

use bytes::Bytes;
use grasp_core::id::Signature;
use grasp_core::{Coordinate, Event, EventId, Filter, Kind, PubKey, Tag};
use grasp_core::{Time, Timestamp, VerifiedEvent};
use grasp_store::{
    Budget, Cursor, EventStore, LmdbStore, Options, Progress, Provenance, Put, Result, Space,
    Transaction, Want, in_memory,
};
use tempfile::TempDir;

pub(crate) const NOW: Timestamp = Timestamp(1_000_000);

pub(crate) fn who(name: char) -> PubKey {
    PubKey::from_bytes([name as u8; 32])
}

/// An event whose id is all one byte, so that a test can say which of two is lower.
pub(crate) fn event(kind: u16, author: char, at: u64, id: u8) -> Event {
    Event {
        id: EventId::from_bytes([id; 32]),
        pubkey: who(author),
        created_at: Timestamp(at),
        kind: Kind(kind),
        tags: Vec::new(),
        content: String::new(),
        sig: Signature::from_bytes([0; 64]),
    }
}

/// One of many alike, told apart by number.
pub(crate) fn numbered(kind: u16, author: char, at: u64, number: u64) -> Event {
    let mut it = event(kind, author, at, 0);
    it.content = number.to_string();
    it.id = it.hash();
    it
}

pub(crate) trait Draft {
    fn tag(self, words: &[&str]) -> Self;
    fn d(self, identifier: &str) -> Self;
    fn verified(&self) -> VerifiedEvent;
}

impl Draft for Event {
    fn tag(mut self, words: &[&str]) -> Self {
        self.tags.push(Tag(words.iter().map(|word| (*word).to_owned()).collect()));
        self
    }

    fn d(self, identifier: &str) -> Self {
        self.tag(&["d", identifier])
    }

    fn verified(&self) -> VerifiedEvent {
        VerifiedEvent::from_stored(Bytes::from(self.to_json())).unwrap()
    }
}

pub(crate) fn address(kind: u16, author: char, identifier: &str) -> Coordinate {
    Coordinate { kind: Kind(kind), pubkey: who(author), identifier: identifier.to_owned() }
}

pub(crate) fn temporary() -> LmdbStore {
    in_memory(&Options { map_bytes: 8 << 20, ..Options::default() }).unwrap()
}

/// A store on disk that outlives its process, so to speak.
pub(crate) struct Disk {
    directory: TempDir,
    options: Options,
}

impl Disk {
    pub(crate) fn new() -> Self {
        let options = Options { map_bytes: 8 << 20, ..Options::default() };
        Self { directory: tempfile::tempdir().unwrap(), options }
    }

    pub(crate) fn path(&self) -> &std::path::Path {
        self.directory.path()
    }

    /// Only one at a time: drop the last one first.
    pub(crate) fn open(&self) -> LmdbStore {
        LmdbStore::open(self.path(), &self.options).unwrap()
    }
}

/// Short words for what tests do all the time.
pub(crate) trait Verbs {
    fn change(&self, work: impl FnMut(&mut dyn Transaction) -> Result<()>);
    fn put_in(&self, space: Space, event: &Event) -> Put;
    fn has_in(&self, space: Space, event: &Event) -> bool;
    fn find_at(&self, space: Space, filter: Filter, now: Timestamp) -> Vec<EventId>;

    fn put(&self, event: &Event) -> Put {
        self.put_in(Space::Served, event)
    }

    fn put_all<'e>(&self, events: impl IntoIterator<Item = &'e Event>) {
        let events: Vec<VerifiedEvent> = events.into_iter().map(Draft::verified).collect();
        self.change(|txn| {
            for event in &events {
                txn.put(Space::Served, event, &received())?;
            }
            Ok(())
        });
    }

    fn remove(&self, event: &Event) -> bool {
        let mut gone = false;
        self.change(|txn| {
            gone = txn.remove(Space::Served, &event.id)?.is_some();
            Ok(())
        });
        gone
    }

    fn has(&self, event: &Event) -> bool {
        self.has_in(Space::Served, event)
    }

    fn find(&self, filter: Filter) -> Vec<EventId> {
        self.find_at(Space::Served, filter, NOW)
    }
}

impl Verbs for LmdbStore {
    fn change(&self, mut work: impl FnMut(&mut dyn Transaction) -> Result<()>) {
        self.write(&mut work).unwrap();
    }

    fn put_in(&self, space: Space, event: &Event) -> Put {
        let event = event.verified();
        let mut put = Put::Duplicate;
        self.change(|txn| {
            put = txn.put(space, &event, &received())?;
            Ok(())
        });
        put
    }

    fn has_in(&self, space: Space, event: &Event) -> bool {
        self.read().unwrap().contains(space, &event.id).unwrap()
    }

    fn find_at(&self, space: Space, filter: Filter, now: Timestamp) -> Vec<EventId> {
        let snapshot = self.read().unwrap();
        let mut cursor = Cursor::new([filter].into(), Want::Positions, u64::MAX, now);
        let mut ids = Vec::new();
        let mut sink = |hit: grasp_store::Hit<'_>| ids.push(hit.position.id());
        let progress = snapshot.advance(space, &mut cursor, &mut boundless(), &mut sink).unwrap();
        assert_eq!(progress, Progress::Done);
        ids
    }
}

pub(crate) fn received() -> Provenance {
    Provenance::direct(Time(1))
}

pub(crate) fn boundless() -> Budget {
    Budget { steps: u64::MAX, bytes: usize::MAX }
}

pub(crate) fn ids<'e>(events: impl IntoIterator<Item = &'e Event>) -> Vec<EventId> {
    events.into_iter().map(|event| event.id).collect()
}

/// Every order of these things.
pub(crate) fn permutations<T: Clone>(of: &[T]) -> Vec<Vec<T>> {
    let Some((first, rest)) = of.split_first() else { return vec![vec![]] };
    let mut all = Vec::new();
    for tail in permutations(rest) {
        for at in 0..=tail.len() {
            let mut order = tail.clone();
            order.insert(at, first.clone());
            all.push(order);
        }
    }
    all
}

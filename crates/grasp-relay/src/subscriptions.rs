//! Who wants to hear of an event. Each filter is filed under its rarest field, so that an event is
//! compared with the filters it could meet and not with all of them. The index holds hashes only:
//! a chance meeting costs one comparison, never a wrong answer.

use crate::SubId;
use grasp_core::{Event, Filter};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

/// A connection's number, given by the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnId(pub u64);

/// The live subscriptions of all connections.
#[derive(Debug, Default)]
pub struct Subscriptions {
    by_name: BTreeMap<ConnId, BTreeMap<SubId, Slot>>,
    slots: Vec<Option<Subscription>>,
    free: Vec<Slot>,
    by_key: HashMap<u64, Bucket>,
    hasher: RandomState,
}

type Slot = u32;

#[derive(Debug)]
struct Subscription {
    conn: ConnId,
    sub: SubId,
    filters: Arc<[Filter]>,
}

/// Where a filter is filed, or where an event looks.
#[derive(Hash)]
enum Key<'a> {
    Id(&'a [u8; 32]),
    Tag(u8, &'a str),
    Author(&'a [u8; 32]),
    Kind(u16),
    Everything,
}

/// Most keys belong to one subscription, which then costs no allocation.
#[derive(Debug)]
enum Bucket {
    One(Slot),
    Many(BTreeSet<Slot>),
}

impl Subscriptions {
    /// A subscription of that name, if there is one, is replaced.
    pub fn insert(&mut self, conn: ConnId, sub: SubId, filters: Arc<[Filter]>) {
        self.remove(conn, &sub);
        let Some(slot) = self.free_slot() else { return };
        for hash in hashes(&self.hasher, &filters) {
            match self.by_key.get_mut(&hash) {
                Some(bucket) => bucket.insert(slot),
                None => drop(self.by_key.insert(hash, Bucket::One(slot))),
            }
        }
        self.by_name.entry(conn).or_default().insert(sub.clone(), slot);
        if let Some(place) = self.place(slot) {
            *place = Some(Subscription { conn, sub, filters });
        }
    }

    /// Returns whether there was such a subscription.
    pub fn remove(&mut self, conn: ConnId, sub: &SubId) -> bool {
        let Some(names) = self.by_name.get_mut(&conn) else { return false };
        let Some(slot) = names.remove(sub) else { return false };
        if names.is_empty() {
            self.by_name.remove(&conn);
        }
        self.clear(slot);
        true
    }

    pub fn remove_connection(&mut self, conn: ConnId) {
        for slot in self.by_name.remove(&conn).unwrap_or_default().into_values() {
            self.clear(slot);
        }
    }

    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Every subscription with a filter that matches, each once.
    pub fn matching(&self, event: &Event) -> Vec<(ConnId, SubId)> {
        let reached = self.candidates(event).into_iter().filter_map(|slot| {
            let found = self.slots.get(usize::try_from(slot).ok()?)?.as_ref()?;
            let wanted = found.filters.iter().any(|filter| filter.matches(event));
            wanted.then(|| (found.conn, found.sub.clone()))
        });
        reached.collect()
    }

    fn candidates(&self, event: &Event) -> Vec<Slot> {
        let mut slots = Vec::new();
        let mut look = |key: Key<'_>| {
            if let Some(bucket) = self.by_key.get(&self.hasher.hash_one(key)) {
                bucket.append_to(&mut slots);
            }
        };
        look(Key::Id(event.id.as_bytes()));
        for tag in &event.tags {
            if let (Some(letter), Some(value)) = (tag.letter(), tag.value()) {
                look(Key::Tag(letter, value));
            }
        }
        look(Key::Author(event.pubkey.as_bytes()));
        look(Key::Kind(event.kind.0));
        look(Key::Everything);
        slots.sort_unstable();
        slots.dedup();
        slots
    }

    fn free_slot(&mut self) -> Option<Slot> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        let slot = Slot::try_from(self.slots.len()).ok()?;
        self.slots.push(None);
        Some(slot)
    }

    fn place(&mut self, slot: Slot) -> Option<&mut Option<Subscription>> {
        self.slots.get_mut(usize::try_from(slot).ok()?)
    }

    fn clear(&mut self, slot: Slot) {
        let Some(gone) = self.place(slot).and_then(Option::take) else { return };
        self.free.push(slot);
        for hash in hashes(&self.hasher, &gone.filters) {
            let empty = self.by_key.get_mut(&hash).is_some_and(|bucket| bucket.remove(slot));
            if empty {
                self.by_key.remove(&hash);
            }
        }
        // After a great crowd has left, its empty places are given back.
        if self.by_key.capacity() > 1024 && self.by_key.len() < self.by_key.capacity() / 8 {
            self.by_key.shrink_to(self.by_key.len() * 2);
        }
    }
}

/// The keys of a subscription; the same filters always yield the same ones, so none are kept.
fn hashes<'a>(hasher: &'a RandomState, filters: &'a [Filter]) -> impl Iterator<Item = u64> + 'a {
    let keys = filters.iter().filter(|filter| !filter.is_void()).flat_map(keys);
    keys.map(|key| hasher.hash_one(key))
}

fn keys(filter: &Filter) -> Box<dyn Iterator<Item = Key<'_>> + '_> {
    if let Some(ids) = &filter.ids {
        return Box::new(ids.iter().map(|id| Key::Id(id.as_bytes())));
    }
    // Of several letters any one will do; the shortest list makes the fewest keys.
    if let Some((letter, values)) = filter.tags.iter().min_by_key(|(_, values)| values.len()) {
        return Box::new(values.iter().map(|value| Key::Tag(*letter, value)));
    }
    if let Some(authors) = &filter.authors {
        return Box::new(authors.iter().map(|author| Key::Author(author.as_bytes())));
    }
    if let Some(kinds) = &filter.kinds {
        return Box::new(kinds.iter().map(|kind| Key::Kind(kind.0)));
    }
    Box::new(std::iter::once(Key::Everything))
}

impl Bucket {
    fn insert(&mut self, slot: Slot) {
        match self {
            Self::One(only) if *only == slot => {}
            Self::One(other) => *self = Self::Many(BTreeSet::from([*other, slot])),
            Self::Many(slots) => {
                slots.insert(slot);
            }
        }
    }

    /// Returns true if nothing is left.
    fn remove(&mut self, slot: Slot) -> bool {
        match self {
            Self::One(only) => *only == slot,
            Self::Many(slots) => {
                slots.remove(&slot);
                slots.is_empty()
            }
        }
    }

    fn append_to(&self, out: &mut Vec<Slot>) {
        match self {
            Self::One(slot) => out.push(*slot),
            Self::Many(slots) => out.extend(slots.iter()),
        }
    }
}

#[cfg(test)]
mod tests;

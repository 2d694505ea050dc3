//! A relay's events in memory: replaces as NIP-01 says, answers filters newest first. It trusts
//! what it is given; who may put something here is decided elsewhere.

use grasp_core::{Coordinate, Event, EventId, Filter, Kind, Timestamp};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, Default)]
pub(crate) struct Shelf {
    events: BTreeMap<EventId, Arc<Event>>,
    by_kind: BTreeMap<Kind, BTreeSet<EventId>>,
    by_tag: BTreeMap<u8, BTreeMap<String, BTreeSet<EventId>>>,
    current: BTreeMap<Coordinate, EventId>,
}

impl Shelf {
    pub(crate) fn has(&self, id: &EventId) -> bool {
        self.events.contains_key(id)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Event>> {
        self.events.values()
    }

    pub(crate) fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &Arc<Event>> {
        let ids = self.by_kind.get(&kind).into_iter().flatten();
        ids.filter_map(|id| self.events.get(id))
    }

    pub(crate) fn at(&self, coordinate: &Coordinate) -> Option<&Arc<Event>> {
        self.current.get(coordinate).and_then(|id| self.events.get(id))
    }

    /// Is there something that this would not replace?
    pub(crate) fn outranks(&self, event: &Event) -> bool {
        let current = event.coordinate().and_then(|at| self.at(&at).cloned());
        current.is_some_and(|current| !event.rank().beats(&current.rank()))
    }

    /// True: it is new here, and on the shelf now.
    pub(crate) fn put(&mut self, event: &Arc<Event>) -> bool {
        if self.has(&event.id) || self.outranks(event) {
            return false;
        }
        if let Some(at) = event.coordinate()
            && let Some(old) = self.current.insert(at, event.id)
        {
            self.remove(&old);
        }
        self.by_kind.entry(event.kind).or_default().insert(event.id);
        for (letter, value) in queryable(event) {
            let values = self.by_tag.entry(letter).or_default();
            values.entry(value.to_owned()).or_default().insert(event.id);
        }
        self.events.insert(event.id, event.clone());
        true
    }

    pub(crate) fn remove(&mut self, id: &EventId) {
        let Some(event) = self.events.remove(id) else { return };
        if let Some(ids) = self.by_kind.get_mut(&event.kind) {
            ids.remove(id);
        }
        for (letter, value) in queryable(&event) {
            let values = self.by_tag.get_mut(&letter);
            if let Some(ids) = values.and_then(|values| values.get_mut(value)) {
                ids.remove(id);
            }
        }
        if let Some(at) = event.coordinate()
            && self.current.get(&at) == Some(id)
        {
            self.current.remove(&at);
        }
    }

    /// All that match, newest first; `limit` is up to the caller.
    pub(crate) fn matching(&self, filter: &Filter) -> Vec<Arc<Event>> {
        let fit = |id: &EventId| self.events.get(id).filter(|event| filter.matches(event));
        let mut found: Vec<Arc<Event>> = if let Some(ids) = &filter.ids {
            ids.iter().filter_map(fit).cloned().collect()
        } else if let Some((letter, values)) = filter.tags.first_key_value() {
            let index = self.by_tag.get(letter);
            let listed = values.iter().filter_map(|value| index.and_then(|it| it.get(value)));
            let ids: BTreeSet<EventId> = listed.flatten().copied().collect();
            ids.iter().filter_map(fit).cloned().collect()
        } else if let Some(kinds) = &filter.kinds {
            let ids = kinds.iter().filter_map(|kind| self.by_kind.get(kind)).flatten();
            ids.filter_map(fit).cloned().collect()
        } else {
            self.events.values().filter(|event| filter.matches(event)).cloned().collect()
        };
        found.sort_by_key(|event| (Reverse(event.created_at), event.id));
        found
    }

    /// How many events of one second there are.
    pub(crate) fn seconds(&self) -> BTreeMap<Timestamp, u32> {
        let mut seconds = BTreeMap::new();
        for event in self.events.values() {
            *seconds.entry(event.created_at).or_default() += 1;
        }
        seconds
    }
}

fn queryable(event: &Event) -> impl Iterator<Item = (u8, &str)> {
    event.tags.iter().filter_map(|tag| Some((tag.letter()?, tag.value()?)))
}

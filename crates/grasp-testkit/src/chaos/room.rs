//! What all connections share: the events, who listens to what, and what was seen. One lock holds
//! it together, so that nothing falls between what is stored and what is live.

use super::guest::Out;
use super::invention::{forged, unrelated};
use super::{Seen, Tricks};
use crate::Random;
use crate::behaviour::{Answers, Behaviour};
use grasp_core::{Event, EventId, Filter, Timestamp, VerifiedEvent};
use grasp_relay::SubId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::AbortHandle;

#[derive(Debug)]
pub(super) struct Room {
    pub(super) url: String,
    pub(super) tricks: Tricks,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    behaviour: Behaviour,
    events: Vec<VerifiedEvent>,
    guests: BTreeMap<u64, Guest>,
    visits: Vec<AbortHandle>,
    seen: Seen,
    random: Random,
    serial: u64,
}

/// One connection, as the others need to know it.
#[derive(Debug)]
struct Guest {
    out: UnboundedSender<Out>,
    open: BTreeMap<SubId, Vec<Filter>>,
    reconciling: BTreeSet<SubId>,
}

/// What is stored for a question.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) events: Vec<VerifiedEvent>,
    /// A limit cut it short.
    pub(super) more: bool,
}

/// How much of its limits a connection uses, without one subscription.
#[derive(Debug)]
pub(super) struct Usage {
    pub(super) subscriptions: usize,
    pub(super) retained_bytes: usize,
}

impl Room {
    pub(super) fn new(url: String, behaviour: Behaviour, tricks: Tricks, seed: u64) -> Self {
        let state = State {
            behaviour,
            events: Vec::new(),
            guests: BTreeMap::new(),
            visits: Vec::new(),
            seen: Seen::default(),
            random: Random::seeded(seed),
            serial: 0,
        };
        Self { url, tricks, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panicked")
    }

    pub(super) fn behaviour(&self) -> Behaviour {
        self.state().behaviour.clone()
    }

    pub(super) fn becomes(&self, behaviour: Behaviour) {
        self.state().behaviour = behaviour;
    }

    pub(super) fn seen(&self) -> Seen {
        self.state().seen.clone()
    }

    pub(super) fn notes<T>(&self, what: impl FnOnce(&mut Seen) -> T) -> T {
        what(&mut self.state().seen)
    }

    pub(super) fn chance<T>(&self, of: impl FnOnce(&mut Random) -> T) -> T {
        of(&mut self.state().random)
    }

    /// A number that was not used before.
    pub(super) fn serial(&self) -> u64 {
        self.state().next_serial()
    }

    pub(super) fn remembers(&self, visit: AbortHandle) {
        let mut state = self.state();
        state.visits.retain(|visit| !visit.is_finished());
        state.visits.push(visit);
    }

    pub(super) fn drops_everyone(&self) {
        self.state().visits.drain(..).for_each(|visit| visit.abort());
    }

    pub(super) fn says(&self, text: &str) {
        for guest in self.state().guests.values() {
            let _ = guest.out.send(Out::text(text));
        }
    }

    pub(super) fn enters(&self, out: UnboundedSender<Out>) -> u64 {
        let mut state = self.state();
        let id = state.next_serial();
        let (open, reconciling) = (BTreeMap::new(), BTreeSet::new());
        state.guests.insert(id, Guest { out, open, reconciling });
        let open = u64::try_from(state.guests.len()).unwrap_or(u64::MAX);
        let seen = &mut state.seen;
        seen.connections += 1;
        seen.connections_open = open;
        seen.connections_most = seen.connections_most.max(open);
        id
    }

    pub(super) fn leaves(&self, guest: u64) {
        let mut state = self.state();
        state.guests.remove(&guest);
        state.seen.connections_open = u64::try_from(state.guests.len()).unwrap_or(u64::MAX);
    }

    pub(super) fn usage_without(&self, guest: u64, sub: &SubId) -> Usage {
        let state = self.state();
        let Some(guest) = state.guests.get(&guest) else {
            return Usage { subscriptions: 0, retained_bytes: 0 };
        };
        let others = guest.open.iter().filter(|(other, _)| *other != sub);
        let retained_bytes = others.flat_map(|(_, filters)| filters).map(bytes).sum();
        let own = guest.open.contains_key(sub) || guest.reconciling.contains(sub);
        let subscriptions = guest.count() - usize::from(own);
        Usage { subscriptions, retained_bytes }
    }

    /// From here on the guest hears what matches; what is stored is returned.
    pub(super) fn opens(&self, guest: u64, sub: &SubId, filters: &[Filter]) -> Found {
        let mut state = self.state();
        let state = &mut *state;
        if let Some(guest) = state.guests.get_mut(&guest) {
            guest.open.insert(sub.clone(), filters.to_vec());
            state.seen.has_open(guest.count());
        }
        state.found(filters)
    }

    pub(super) fn reconciles(&self, guest: u64, sub: &SubId) {
        let mut state = self.state();
        let state = &mut *state;
        if let Some(guest) = state.guests.get_mut(&guest) {
            guest.reconciling.insert(sub.clone());
            state.seen.has_open(guest.count());
        }
    }

    pub(super) fn closes(&self, guest: u64, sub: &SubId) {
        if let Some(guest) = self.state().guests.get_mut(&guest) {
            guest.open.remove(sub);
        }
    }

    pub(super) fn ends_reconciling(&self, guest: u64, sub: &SubId) {
        if let Some(guest) = self.state().guests.get_mut(&guest) {
            guest.reconciling.remove(sub);
        }
    }

    pub(super) fn holds(&self, id: &EventId) -> bool {
        self.state().events.iter().any(|event| event.id == *id)
    }

    pub(super) fn holds_count(&self) -> usize {
        self.state().events.len()
    }

    pub(super) fn count(&self, filters: &[Filter]) -> usize {
        let matches = |event: &&VerifiedEvent| filters.iter().any(|filter| filter.matches(event));
        self.state().events.iter().filter(matches).count()
    }

    pub(super) fn times_and_ids(&self, filter: &Filter) -> Vec<(Timestamp, EventId)> {
        let state = self.state();
        let matching = state.events.iter().filter(|event| filter.matches(event));
        matching.map(|event| (event.created_at, event.id)).collect()
    }

    /// False if it was here before, or something newer is in its place.
    pub(super) fn keeps(&self, event: VerifiedEvent) -> bool {
        let mut state = self.state();
        if state.events.iter().any(|held| held.id == event.id) {
            return false;
        }
        if let Some(place) = event.coordinate() {
            let rival = |held: &VerifiedEvent| {
                held.pubkey == event.pubkey && held.coordinate().as_ref() == Some(&place)
            };
            if let Some(at) = state.events.iter().position(rival) {
                if !event.rank().beats(&state.events[at].rank()) {
                    return false;
                }
                state.events.swap_remove(at);
            }
        }
        state.tells_live(&event);
        state.events.push(event);
        true
    }
}

impl State {
    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Newest first, the lowest id first within a second; each event once.
    fn found(&self, filters: &[Filter]) -> Found {
        let mut found = Found::default();
        let page_max = usize::try_from(self.behaviour.limits.page_max).unwrap_or(usize::MAX);
        for filter in filters {
            let mut page: Vec<&VerifiedEvent> =
                self.events.iter().filter(|event| filter.matches(event)).collect();
            page.sort_unstable_by_key(|event| order(event));
            let limit = filter.limit.and_then(|limit| usize::try_from(limit).ok());
            let len = limit.unwrap_or(usize::MAX).min(page_max);
            found.more |= page.len() > len;
            found.events.extend(page.into_iter().take(len).cloned());
        }
        found.events.sort_unstable_by_key(|event| order(event));
        found.events.dedup_by_key(|event| event.id);
        found
    }

    fn tells_live(&mut self, event: &VerifiedEvent) {
        let answers = self.behaviour.answers;
        for guest in self.guests.values() {
            for (sub, filters) in &guest.open {
                if !filters.iter().any(|filter| filter.matches(event)) {
                    continue;
                }
                self.serial += 1;
                let told: Event = match answers {
                    Answers::Silent => continue,
                    Answers::Forged => forged(event, self.serial),
                    Answers::Wrong => unrelated(self.serial),
                    _ => event.event().clone(),
                };
                self.seen.events_sent += 1;
                let _ = guest.out.send(Out::event(sub, &told));
            }
        }
    }
}

impl Guest {
    fn count(&self) -> usize {
        self.open.len() + self.reconciling.len()
    }
}

impl Seen {
    fn has_open(&mut self, subscriptions: usize) {
        let open = u64::try_from(subscriptions).unwrap_or(u64::MAX);
        self.subscriptions_most = self.subscriptions_most.max(open);
    }
}

fn order(event: &Event) -> (std::cmp::Reverse<Timestamp>, EventId) {
    (std::cmp::Reverse(event.created_at), event.id)
}

/// As a relay counts them that keeps the filter as text.
pub(super) fn bytes(filter: &Filter) -> usize {
    serde_json::to_string(filter).map_or(0, |text| text.len())
}

//! Events from other relays that were refused only because something is not here yet, kept whole for
//! a short while in case it comes (S-29). In memory alone: what is lost here is fetched again.

use super::refused::Counts;
use crate::metrics::Refused;
use grasp_core::nip34::References;
use grasp_core::{Coordinate, EventId, Kind, RepoId, Time, VerifiedEvent};
use grasp_store::Provenance;
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug)]
pub struct SecondChance {
    whole_for: Duration,
    /// How long the ids of refused announcements and states are remembered.
    pub(super) ids_for: Duration,
    kept: Mutex<Kept>,
}

/// How many events are kept, by what they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sizes {
    pub announcements: usize,
    pub states: usize,
    pub related: usize,
}

impl Sizes {
    pub(super) fn add(&mut self, kind: Kind) {
        *match kind {
            Kind::ANNOUNCEMENT => &mut self.announcements,
            Kind::STATE => &mut self.states,
            _ => &mut self.related,
        } += 1;
    }
}

impl From<Sizes> for Refused {
    fn from(sizes: Sizes) -> Self {
        let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        Self {
            announcements: number(sizes.announcements),
            states: number(sizes.states),
            others: number(sizes.related),
        }
    }
}

/// An event that may still be welcome.
#[derive(Debug, Clone)]
pub(super) struct Orphan {
    pub(super) event: Arc<VerifiedEvent>,
    pub(super) from: Provenance,
}

/// Whose refused events may be judged differently, and how many of those were known by id.
pub(super) type Revived = BTreeMap<RepoId, Counts>;

/// A repository may be revived twice; what was forgotten the first time counts as well.
pub(super) fn revive(all: &mut Revived, more: Revived) {
    for (repo, counts) in more {
        all.entry(repo).or_default().add(&counts);
    }
}

/// What is here now and was not before.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    pub(super) events: Vec<Arc<VerifiedEvent>>,
    /// Those whose announcements and states may be judged differently now.
    pub(super) revived: Revived,
}

/// Repositories cannot push threads out, nor the other way round.
#[derive(Debug, Default)]
struct Kept {
    repositories: Pile,
    related: Pile,
    /// Told to nobody yet.
    expired: Sizes,
}

/// Bounds of a pile; beyond them the oldest go.
const EVENTS_MAX: usize = 1_024;
const BYTES_MAX: usize = 8 << 20;
const EVENT_BYTES_MAX: usize = 128 << 10;
/// Events judged again because of one that came, and because of many that came together.
const PER_ARRIVAL_MAX: usize = 512;
const AT_ONCE_MAX: usize = 4_096;

impl SecondChance {
    pub const WHOLE_FOR: Duration = Duration::from_secs(120);
    pub const IDS_FOR: Duration = Duration::from_secs(7 * 86_400);

    pub fn new(whole_for: Duration, ids_for: Duration) -> Self {
        Self { whole_for, ids_for, kept: Mutex::default() }
    }

    /// What was kept for as long as may be since this was last asked, and nothing came.
    pub fn take_expired(&self) -> Sizes {
        std::mem::take(&mut self.kept.lock().expired)
    }

    pub fn sizes(&self) -> Sizes {
        let kept = self.kept.lock();
        let all = kept.repositories.entries.values().chain(kept.related.entries.values());
        let mut sizes = Sizes::default();
        all.for_each(|it| sizes.add(it.event.kind));
        sizes
    }

    pub(super) fn keep(&self, orphan: Orphan, now: Time) {
        let mut kept = self.kept.lock();
        kept.drop_old(now, self.whole_for);
        if self.whole_for > now.since(orphan.from.received) {
            kept.pile(orphan.event.kind).keep(orphan);
        }
    }

    pub(super) fn drop_old(&self, now: Time) {
        self.kept.lock().drop_old(now, self.whole_for);
    }

    /// Takes out what should be judged again, announcements before states before everything else.
    pub(super) fn take(&self, came: &Arrivals, now: Time, count_max: usize) -> Vec<Orphan> {
        let mut kept = self.kept.lock();
        kept.drop_old(now, self.whole_for);
        let mut taken = Vec::new();
        for repo in came.revived.keys() {
            taken.extend(kept.repositories.take(&Key::Of(repo.clone()), count_max - taken.len()));
        }
        for event in &came.events {
            if kept.related.entries.is_empty() {
                break;
            }
            for key in Key::reached_by(event) {
                taken.extend(kept.related.take(&key, count_max - taken.len()));
            }
        }
        taken.sort_by_key(|it| (rank(it.event.kind), it.event.created_at, it.event.id));
        taken
    }
}

impl Default for SecondChance {
    fn default() -> Self {
        Self::new(Self::WHOLE_FOR, Self::IDS_FOR)
    }
}

impl Arrivals {
    /// How many events these may cause to be judged again, all in all.
    pub(super) fn reach(&self) -> usize {
        let arrivals = self.events.len().max(self.revived.len());
        arrivals.saturating_mul(PER_ARRIVAL_MAX).min(AT_ONCE_MAX)
    }
}

const fn rank(kind: Kind) -> u8 {
    match kind {
        Kind::ANNOUNCEMENT => 0,
        Kind::STATE => 1,
        _ => 2,
    }
}

impl Kept {
    fn pile(&mut self, kind: Kind) -> &mut Pile {
        match kind {
            Kind::ANNOUNCEMENT | Kind::STATE => &mut self.repositories,
            _ => &mut self.related,
        }
    }

    fn drop_old(&mut self, now: Time, whole_for: Duration) {
        for pile in [&mut self.repositories, &mut self.related] {
            let gone = pile.drop_old(|it| now.since(it.from.received) >= whole_for);
            gone.iter().for_each(|it| self.expired.add(it.event.kind));
        }
    }
}

/// What an event is found by.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// An announcement or state of this author and identifier.
    Of(RepoId),
    /// It refers to that.
    ToEvent(EventId),
    ToAddress(Coordinate),
    /// It is that: somebody may refer to it.
    Event(EventId),
    Address(Coordinate),
}

impl Key {
    fn of(event: &VerifiedEvent) -> Vec<Self> {
        if matches!(event.kind, Kind::ANNOUNCEMENT | Kind::STATE) {
            let identifier = event.d().parse().ok();
            let repo = identifier.map(|identifier| RepoId { owner: event.pubkey, identifier });
            return repo.map(Self::Of).into_iter().collect();
        }
        let references = References::of(event);
        let mut keys = vec![Self::Event(event.id)];
        keys.extend(event.coordinate().map(Self::Address));
        keys.extend(references.ids.into_iter().map(Self::ToEvent));
        keys.extend(references.coordinates.into_iter().map(Self::ToAddress));
        keys
    }

    /// What an arrival can anchor: whatever refers to it, and whatever it refers to.
    fn reached_by(event: &VerifiedEvent) -> Vec<Self> {
        let references = References::of(event);
        let mut keys = vec![Self::ToEvent(event.id)];
        keys.extend(event.coordinate().map(Self::ToAddress));
        keys.extend(references.ids.into_iter().map(Self::Event));
        keys.extend(references.coordinates.into_iter().map(Self::Address));
        keys
    }
}

/// When it came, and a number that tells it from others of that moment.
type Place = (Time, u64);

/// Events in the order they came, found by their keys.
#[derive(Debug, Default)]
struct Pile {
    entries: BTreeMap<Place, Orphan>,
    by_key: BTreeMap<Key, BTreeSet<Place>>,
    ids: BTreeSet<EventId>,
    bytes: usize,
    last: u64,
}

impl Pile {
    fn keep(&mut self, orphan: Orphan) {
        let bytes = orphan.event.json().len();
        if bytes > EVENT_BYTES_MAX || !self.ids.insert(orphan.event.id) {
            return;
        }
        self.last += 1;
        self.bytes += bytes;
        let place = (orphan.from.received, self.last);
        for key in Key::of(&orphan.event) {
            self.by_key.entry(key).or_default().insert(place);
        }
        self.entries.insert(place, orphan);
        while self.entries.len() > EVENTS_MAX || self.bytes > BYTES_MAX {
            let Some((oldest, _)) = self.entries.first_key_value() else { break };
            self.remove(*oldest);
        }
    }

    fn take(&mut self, key: &Key, count_max: usize) -> Vec<Orphan> {
        let places = self.by_key.get(key).into_iter().flatten().copied();
        let places: Vec<Place> = places.take(count_max).collect();
        places.into_iter().filter_map(|place| self.remove(place)).collect()
    }

    fn drop_old(&mut self, is_old: impl Fn(&Orphan) -> bool) -> Vec<Orphan> {
        let mut gone = Vec::new();
        while let Some((oldest, _)) = self.entries.first_key_value().filter(|(_, it)| is_old(it)) {
            gone.extend(self.remove(*oldest));
        }
        gone
    }

    fn remove(&mut self, place: Place) -> Option<Orphan> {
        let orphan = self.entries.remove(&place)?;
        self.bytes -= orphan.event.json().len();
        self.ids.remove(&orphan.event.id);
        for key in Key::of(&orphan.event) {
            let Some(places) = self.by_key.get_mut(&key) else { continue };
            places.remove(&place);
            if places.is_empty() {
                self.by_key.remove(&key);
            }
        }
        Some(orphan)
    }
}

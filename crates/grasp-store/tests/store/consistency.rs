//! After any mixture of changes every index list, counter and lookup agrees with the events.

use crate::world::{Disk, Draft, NOW, Verbs, event, who};
use grasp_core::terms::{Term, terms};
use grasp_core::{EventId, Filter, Kind, PubKey, Time, Timestamp, VerifiedEvent};
use grasp_store::{
    EventStore, LmdbStore, Position, Provenance, Put, Result, Snapshot, SourceKind, Space,
    Transaction,
};
use grasp_testkit::Random;
use std::collections::{BTreeMap, BTreeSet};

const KINDS: &[u16] = &[0, 1, 5, 62, 1059, 1617, 10317, 30617, 30618];
const AUTHORS: &[char] = &['a', 'b', 'c', 'd'];

#[test]
fn indexes_and_counters_agree_with_the_events_after_any_mixture_of_changes() {
    for seed in 0..6 {
        let mut random = Random::seeded(seed);
        let disk = Disk::new();
        let mut model = Model::default();
        for _ in 0..4 {
            let store = disk.open();
            for _ in 0..15 {
                change(&store, &mut model, &mut random);
            }
            model.check(&store);
            drop(store);
            model.check(&disk.open());
        }
        assert!(model.ever.len() > 300, "{}", model.ever.len());
    }
}

type Shelf = BTreeMap<Position, (VerifiedEvent, Provenance)>;

#[derive(Default)]
struct Model {
    shelves: [Shelf; 3],
    /// Every event that was offered, so that what is gone can be looked for.
    ever: Vec<VerifiedEvent>,
}

fn change(store: &LmdbStore, model: &mut Model, random: &mut Random) {
    match random.below(8) {
        0..5 => put_some(store, model, random),
        5 => remove_some(store, model, random),
        6 => sweep_expired(store, model, random),
        _ => vanish(store, model, random),
    }
}

fn put_some(store: &LmdbStore, model: &mut Model, random: &mut Random) {
    let offered: Vec<_> =
        (0..20).map(|_| (random.index(3), some_event(random), some_provenance(random))).collect();
    let mut results = Vec::new();
    store.change(|txn| {
        results.clear();
        for (shelf, event, from) in &offered {
            results.push(txn.put(Space::ALL[*shelf], event, from)?);
        }
        Ok(())
    });
    for ((shelf, event, from), put) in offered.into_iter().zip(results) {
        let expected = model.put(shelf, &event, from);
        let got = match put {
            Put::Stored { replaced, .. } => Some(replaced),
            Put::Duplicate | Put::Superseded => None,
        };
        assert_eq!(got, expected, "{event:?}");
        model.ever.push(event);
    }
}

fn some_event(random: &mut Random) -> VerifiedEvent {
    let (kind, author) = (*random.pick(KINDS), *random.pick(AUTHORS));
    let mut it = event(kind, author, random.below(50), 0);
    it = it.d(["x", "x:y", ""][random.index(3)]);
    for _ in 0..random.below(4) {
        let letter = *random.pick(&["p", "P", "e", "t"]);
        it = it.tag(&[letter, &who(*random.pick(AUTHORS)).to_hex()]);
    }
    if kind == 30617 {
        it = it.tag(&["maintainers", &who(*random.pick(AUTHORS)).to_hex()]);
    }
    if random.one_in(5) {
        it = it.tag(&["expiration", &random.below(100).to_string()]);
    }
    it.content = "x".repeat(random.index(300));
    it.id = EventId::from_bytes(random.bytes32());
    it.verified()
}

fn some_provenance(random: &mut Random) -> Provenance {
    let relay = random.one_in(2).then(|| format!("wss://{}", "r".repeat(random.index(60))));
    Provenance { source: SourceKind::Live, relay, received: Time(random.below(9)), released: None }
}

fn remove_some(store: &LmdbStore, model: &mut Model, random: &mut Random) {
    for (space, shelf) in Space::ALL.into_iter().zip(&mut model.shelves) {
        let gone: Vec<Position> = shelf.keys().copied().filter(|_| random.one_in(6)).collect();
        store.change(|txn| {
            for position in &gone {
                assert!(txn.remove(space, &position.id())?.is_some());
                assert!(txn.remove(space, &position.id())?.is_none());
            }
            Ok(())
        });
        gone.iter().for_each(|position| drop(shelf.remove(position)));
    }
}

fn sweep_expired(store: &LmdbStore, model: &mut Model, random: &mut Random) {
    let now = Timestamp(random.below(100));
    sweep(store, now, |txn| txn.sweep_expired(now, 3, &mut |_, _| {}));
    for shelf in &mut model.shelves {
        shelf.retain(|_, (event, _)| event.expiration().is_none_or(|at| at > now));
    }
}

/// In small steps until nothing is left to do.
fn sweep(
    store: &LmdbStore,
    now: Timestamp,
    mut step: impl FnMut(&mut dyn Transaction) -> Result<usize>,
) {
    let needed = || store.read().unwrap().needs_sweep(now).unwrap();
    for _ in 0..1_000 {
        if !needed() {
            return;
        }
        store.change(|txn| step(txn).map(|_| ()));
    }
    panic!("a sweep without end");
}

fn vanish(store: &LmdbStore, model: &mut Model, random: &mut Random) {
    let (author, until) = (*random.pick(AUTHORS), random.below(25));
    store.change(|txn| txn.bury_author(&who(author), Timestamp(until)));
    sweep(store, Timestamp(0), |txn| {
        txn.sweep_expired(Timestamp(0), 100, &mut |_, _| {})?;
        let gone = txn.sweep_vanished(4, &mut |_, _| {})?;
        assert!(gone <= 4, "{gone}");
        Ok(gone)
    });
    let key = who(author);
    let is_gone = |event: &VerifiedEvent| {
        let wrapped = event.kind == Kind::GIFT_WRAP
            && event.tags.iter().any(|tag| tag.0 == ["p".to_owned(), key.to_hex()]);
        let own = event.pubkey == key && event.kind != Kind::VANISH;
        event.created_at.0 <= until && (own || wrapped)
    };
    for shelf in &mut model.shelves {
        shelf.retain(|_, (event, _)| !is_gone(event) && event.expiration() != Some(Timestamp(0)));
    }
}

impl Model {
    /// What it took the place of, or nothing if it was not stored.
    fn put(
        &mut self,
        shelf: usize,
        event: &VerifiedEvent,
        from: Provenance,
    ) -> Option<Option<EventId>> {
        let shelf = &mut self.shelves[shelf];
        let position = Position::new(event.created_at, &event.id);
        let address = event.coordinate();
        let rival = shelf.iter().find(|(_, (e, _))| address.is_some() && e.coordinate() == address);
        let rival = rival.map(|(position, _)| *position);
        if shelf.contains_key(&position) || rival.is_some_and(|rival| rival <= position) {
            return None;
        }
        rival.map(|rival| shelf.remove(&rival));
        shelf.insert(position, (event.clone(), from));
        Some(rival.map(|rival| rival.id()))
    }

    fn check(&self, store: &LmdbStore) {
        let snapshot = store.read().unwrap();
        for (space, shelf) in Space::ALL.into_iter().zip(&self.shelves) {
            check_counters(&*snapshot, space, shelf);
            check_lookups(&*snapshot, space, shelf, &self.ever);
            check_lists(store, space, shelf, &self.ever);
        }
    }
}

fn check_counters(snapshot: &dyn Snapshot, space: Space, shelf: &Shelf) {
    const HEADER: usize = 101;
    let relay = |from: &Provenance| from.relay.as_ref().map_or(0, String::len);
    let bytes: usize =
        shelf.values().map(|(event, from)| HEADER + relay(from) + event.json().len()).sum();
    assert_eq!(snapshot.events_in(space).unwrap(), shelf.len() as u64);
    assert_eq!(snapshot.bytes_in(space).unwrap(), bytes as u64);
    for kind in KINDS.iter().copied().map(Kind) {
        let count = shelf.values().filter(|(event, _)| event.kind == kind).count();
        assert_eq!(snapshot.events_of_kind(space, kind).unwrap(), count as u64, "{kind}");
    }
}

fn check_lookups(snapshot: &dyn Snapshot, space: Space, shelf: &Shelf, ever: &[VerifiedEvent]) {
    for event in ever {
        let kept = shelf.get(&Position::new(event.created_at, &event.id));
        let found = snapshot.get(space, &event.id).unwrap();
        assert_eq!(snapshot.contains(space, &event.id).unwrap(), kept.is_some());
        let header = snapshot.header(space, &event.id).unwrap();
        let header = header.map(|header| (header.author, header.kind));
        assert_eq!(header, kept.map(|(event, _)| (event.pubkey, event.kind)));
        let found = found.map(|found| (found.event.json().clone(), found.provenance));
        assert_eq!(found, kept.map(|(event, from)| (event.json().clone(), from.clone())));
        if let Some(address) = event.coordinate() {
            let current = shelf.values().find(|(e, _)| e.coordinate().as_ref() == Some(&address));
            let found = snapshot.current(space, &address).unwrap();
            let current = current.map(|(event, _)| event.id);
            assert_eq!(found.map(|found| found.event.id), current);
            let position = snapshot.current_position(space, &address).unwrap();
            assert_eq!(position.map(|position| position.id()), current);
        }
    }
    for author in AUTHORS.iter().copied().map(who) {
        let own = || shelf.values().filter(|(event, _)| event.pubkey == author);
        let kinds: BTreeSet<Kind> = own().map(|(event, _)| event.kind).collect();
        assert_eq!(snapshot.has_author(space, &author).unwrap(), !kinds.is_empty());
        for kind in KINDS.iter().copied().map(Kind) {
            let found = snapshot.by_author(space, &author, kind, usize::MAX).unwrap();
            let found: Vec<EventId> = found.iter().map(|found| found.event.id).collect();
            let of_kind = own().filter(|(event, _)| event.kind == kind);
            assert_eq!(found, of_kind.map(|(event, _)| event.id).collect::<Vec<_>>());
            let others: Vec<Kind> = kinds.iter().copied().filter(|other| *other != kind).collect();
            let beyond = snapshot.has_author_beyond(space, &author, &others).unwrap();
            assert_eq!(beyond, kinds.contains(&kind), "{kind} beyond {others:?}");
        }
    }
}

/// Every list that any event, past or present, was ever in.
fn check_lists(store: &LmdbStore, space: Space, shelf: &Shelf, ever: &[VerifiedEvent]) {
    let snapshot = store.read().unwrap();
    let all: BTreeSet<Term> = ever.iter().flat_map(|event| terms(event)).collect();
    let mut expected: BTreeMap<Term, Vec<EventId>> = BTreeMap::new();
    for (event, _) in shelf.values() {
        for term in terms(event) {
            expected.entry(term).or_default().push(event.id);
        }
    }
    for term in &all {
        let found = snapshot.newest(space, term, usize::MAX).unwrap();
        let authors: Vec<PubKey> = found.iter().map(|found| found.event.pubkey).collect();
        assert_eq!(snapshot.authors(space, term, usize::MAX).unwrap(), authors);
        let found: Vec<EventId> = found.iter().map(|found| found.event.id).collect();
        assert_eq!(found, expected.get(term).cloned().unwrap_or_default());
        assert_eq!(snapshot.has_term(space, term).unwrap(), expected.contains_key(term));
    }
    let matching = |want: &dyn Fn(&VerifiedEvent) -> bool| -> Vec<EventId> {
        let visible = |event: &VerifiedEvent| event.expiration().is_none_or(|at| at > NOW);
        let events = shelf.values().map(|(event, _)| event);
        events.filter(|event| visible(event) && want(event)).map(|event| event.id).collect()
    };
    let find = |filter: Filter| store.find_at(space, filter, NOW);
    assert_eq!(find(Filter::default()), matching(&|_| true));
    for kind in KINDS.iter().copied().map(Kind) {
        let filter = Filter { kinds: Some([kind].into()), ..Filter::default() };
        assert_eq!(find(filter), matching(&|event| event.kind == kind));
    }
    for author in AUTHORS.iter().copied().map(who) {
        let filter = Filter { authors: Some([author].into()), ..Filter::default() };
        assert_eq!(find(filter), matching(&|event| event.pubkey == author));
    }
}

//! The store against a list and a loop: whatever filter is asked, both give the same answer, for
//! whole events (REQ), for counts (COUNT) and for positions (NEG), in the same order.

use bytes::Bytes;
use grasp_core::{Event, Filter, Kind, PubKey, Time, Timestamp, VerifiedEvent};
use grasp_store::{
    Budget, Cursor, EventStore, LmdbStore, Options, Position, Progress, Provenance, Put, Space,
    Want, in_memory,
};
use grasp_testkit::{Draft, Random};
use std::collections::BTreeMap;

const EVENTS: usize = 20_000;
const FILTERS: usize = 10_000;
const NOW: Timestamp = Timestamp(1_000_000);
const LETTERS: &[u8] = b"aAbBcCdDeEfFgGhHiIjJkKlLmMnNoOpPqQrRsStTuUvVwWxXyYzZ";
const KINDS: &[u16] = &[0, 1, 7, 1111, 1617, 1618, 1621, 10317, 30617, 30618, 31_000];

#[test]
fn ten_thousand_random_filters_give_what_a_naive_scan_gives() {
    let mut random = Random::seeded(0x5eed);
    let store = in_memory(&Options { map_bytes: 1 << 20, ..Options::default() }).unwrap();
    let mut model = Model::default();
    while model.offered < EVENTS {
        fill(&store, &mut model, &mut random, 500);
    }
    remove_some(&store, &mut model, &mut random);
    let order = model.in_order();
    assert!(order.len() > EVENTS / 2, "{} events left to search", order.len());

    let mut found = 0;
    for round in 0..FILTERS {
        let filters: Vec<Filter> =
            (0..1 + random.below(3) / 2).map(|_| filter(&mut random, &order)).collect();
        let expected = naive(&order, &filters);
        let (got, more) = bodies(&store, &filters, &mut random);
        assert_eq!(got, expected.ids, "REQ round {round}: {filters:?}");
        assert_eq!(more, expected.cut, "NIP-67 hint, round {round}: {filters:?}");

        let unlimited: Vec<Filter> =
            filters.into_iter().map(|f| Filter { limit: None, ..f }).collect();
        let all = naive(&order, &unlimited).ids;
        assert_eq!(positions(&store, &unlimited), all, "NEG/COUNT {round}: {unlimited:?}");
        found += all.len();
    }
    assert!(found > FILTERS, "the filters were too narrow to show anything: {found}");
}

#[derive(Default)]
struct Model {
    offered: usize,
    events: BTreeMap<Position, VerifiedEvent>,
}

impl Model {
    /// NIP-01 replacement, the slow way.
    fn put(&mut self, event: &VerifiedEvent) -> bool {
        self.offered += 1;
        let rivals: Vec<Position> = match event.coordinate() {
            None => vec![],
            Some(own) => {
                let near = |e: &VerifiedEvent| e.kind == own.kind && e.pubkey == own.pubkey;
                let same = |e: &VerifiedEvent| near(e) && e.coordinate().as_ref() == Some(&own);
                self.events.iter().filter(|(_, e)| same(e)).map(|(p, _)| *p).collect()
            }
        };
        let wins = rivals.iter().all(|p| event.rank().beats(&self.events[p].rank()));
        if wins {
            self.events.retain(|p, _| !rivals.contains(p));
            self.events.insert(position(event), event.clone());
        }
        wins
    }

    fn in_order(&self) -> Vec<&VerifiedEvent> {
        self.events.values().collect()
    }
}

fn position(event: &Event) -> Position {
    Position::new(event.created_at, &event.id)
}

fn fill(store: &LmdbStore, model: &mut Model, random: &mut Random, count: usize) {
    let events: Vec<VerifiedEvent> = (0..count).map(|_| event(random)).collect();
    let mut stored = vec![];
    store
        .write(&mut |txn| {
            stored.clear();
            for event in &events {
                let put = txn.put(Space::Served, event, &Provenance::direct(Time(1)))?;
                stored.push(matches!(put, Put::Stored { .. }));
            }
            Ok(())
        })
        .unwrap();
    for (event, stored) in events.iter().zip(stored) {
        assert_eq!(model.put(event), stored, "{:?}", event.event());
    }
}

fn remove_some(store: &LmdbStore, model: &mut Model, random: &mut Random) {
    let gone: Vec<Position> = model.events.keys().copied().filter(|_| random.one_in(20)).collect();
    store
        .write(&mut |txn| {
            for position in &gone {
                assert!(txn.remove(Space::Served, &position.id())?.is_some());
            }
            Ok(())
        })
        .unwrap();
    model.events.retain(|position, _| !gone.contains(position));
}

/// Unsigned on purpose: the store does not verify, and twenty thousand signatures are slow.
fn event(random: &mut Random) -> VerifiedEvent {
    let mut draft = Draft::new(Kind(*random.pick(KINDS)), random.below(4_000));
    if draft.kind.is_addressable() {
        draft = draft.tag(&["d", &format!("repo:{}", random.below(400))]);
    }
    for _ in 0..random.below(6) {
        let letter = char::from(*random.pick(LETTERS)).to_string();
        draft = draft.tag(&[&letter, &format!("value{}", random.below(12)), "ignored"]);
    }
    match random.below(12) {
        0 => draft = draft.tag(&["expiration", "999999"]),
        1 => draft = draft.tag(&["expiration", "1000001"]),
        2 => draft = draft.tag(&["e"]).tag(&["long-name", "value1"]).tag(&[]),
        _ => {}
    }
    let mut event = Event {
        id: random.bytes32().into_id(),
        pubkey: author(random),
        created_at: draft.created_at,
        kind: draft.kind,
        tags: draft.tags,
        content: String::new(),
        sig: grasp_core::id::Signature::from_bytes([0; 64]),
    };
    if random.one_in(50) {
        event.content = "\u{1}\"\\ü🦀".repeat(200);
    }
    VerifiedEvent::from_stored(Bytes::from(event.to_json())).unwrap()
}

trait IntoId {
    fn into_id(self) -> grasp_core::EventId;
}

impl IntoId for [u8; 32] {
    fn into_id(self) -> grasp_core::EventId {
        grasp_core::EventId::from_bytes(self)
    }
}

fn author(random: &mut Random) -> PubKey {
    PubKey::from_bytes([u8::try_from(random.below(30)).unwrap(); 32])
}

fn filter(random: &mut Random, order: &[&VerifiedEvent]) -> Filter {
    let mut filter = Filter::default();
    if random.one_in(10) {
        let some = (0..random.below(5)).map(|_| random.pick(order).id).collect();
        filter.ids = Some(sorted(some));
    }
    if random.one_in(3) {
        filter.authors = Some(sorted((0..random.below(4)).map(|_| author(random)).collect()));
    }
    if random.one_in(2) {
        let kinds = (0..random.below(4)).map(|_| Kind(*random.pick(KINDS))).collect();
        filter.kinds = Some(sorted(kinds));
    }
    for _ in 0..random.below(3) {
        let values = (0..random.below(9)).map(|_| format!("value{}", random.below(13)));
        let values = sorted(values.collect());
        filter.tags.insert(*random.pick(LETTERS), values);
    }
    if random.one_in(3) {
        filter.since = Some(Timestamp(random.below(4_000)));
    }
    if random.one_in(3) {
        filter.until = Some(Timestamp(random.below(4_200)));
    }
    if random.one_in(2) {
        filter.limit = Some(random.below(40));
    }
    filter
}

fn sorted<T: Ord>(mut list: Vec<T>) -> Vec<T> {
    list.sort();
    list.dedup();
    list
}

struct Expected {
    ids: Vec<grasp_core::EventId>,
    cut: bool,
}

fn naive(order: &[&VerifiedEvent], filters: &[Filter]) -> Expected {
    let mut left: Vec<u64> = filters.iter().map(|f| f.limit.unwrap_or(u64::MAX)).collect();
    let mut expected = Expected { ids: vec![], cut: false };
    for event in order {
        if event.expiration().is_some_and(|at| at <= NOW) {
            continue;
        }
        let mut wanted = false;
        for (filter, left) in filters.iter().zip(&mut left) {
            // `limit: 0` asks for no stored events, so it cannot be cut short either.
            if filter.limit == Some(0) || filter.is_void() || !filter.matches(event) {
                continue;
            }
            expected.cut |= *left == 0;
            wanted |= *left > 0;
            *left = left.saturating_sub(1);
        }
        if wanted {
            expected.ids.push(event.id);
        }
    }
    expected
}

/// Reads in pages of random size, each in a snapshot of its own.
fn bodies(
    store: &LmdbStore,
    filters: &[Filter],
    random: &mut Random,
) -> (Vec<grasp_core::EventId>, bool) {
    let mut cursor = Cursor::new(filters.to_vec(), Want::Bodies, u64::MAX, NOW);
    let mut ids = vec![];
    loop {
        let mut budget = Budget { steps: 1 + random.below(5_000), bytes: 100_000 };
        let mut sink = |hit: grasp_store::Hit<'_>| {
            let event = Event::from_json(hit.json).unwrap();
            assert_eq!((event.id, event.kind), (hit.position.id(), hit.kind));
            ids.push(event.id);
        };
        let snapshot = store.read().unwrap();
        let progress =
            snapshot.advance(Space::Served, &mut cursor, &mut budget, &mut sink).unwrap();
        if progress == Progress::Done {
            return (ids, cursor.has_more());
        }
    }
}

fn positions(store: &LmdbStore, filters: &[Filter]) -> Vec<grasp_core::EventId> {
    let mut cursor = Cursor::new(filters.to_vec(), Want::Positions, u64::MAX, NOW);
    let mut ids = vec![];
    let mut budget = Budget { steps: u64::MAX, bytes: usize::MAX };
    let snapshot = store.read().unwrap();
    let progress = snapshot
        .advance(Space::Served, &mut cursor, &mut budget, &mut |hit| {
            assert!(hit.json.is_empty());
            ids.push(hit.position.id());
        })
        .unwrap();
    assert_eq!(progress, Progress::Done);
    ids
}

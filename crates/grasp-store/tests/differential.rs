//! The store against a list and a loop: whatever filter is asked, both give the same answer, for
//! whole events (REQ), for counts (COUNT) and for positions (NEG), in the same order.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use bytes::Bytes;
use grasp_core::{Coordinate, Event, Filter, Kind, PubKey, Time, Timestamp, VerifiedEvent};
use grasp_store::{
    Budget, Cursor, EventStore, Hit, LmdbStore, Options, Position, Progress, Provenance, Put,
    Space, Want, in_memory,
};
use grasp_testkit::{Draft, Random};
use std::collections::{BTreeMap, BTreeSet};

const EVENTS: usize = 20_000;
const FILTERS: usize = 10_000;
/// Each asks its share of the questions, all of them at once.
const WORKERS: usize = 4;
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
    let order = model.rows();
    assert!(order.len() > EVENTS / 2, "{} events left to search", order.len());

    let ask = &|worker| ask(&store, &order, &mut Random::seeded(worker), FILTERS / WORKERS);
    let found: usize = std::thread::scope(|scope| {
        let workers: Vec<_> =
            (0..WORKERS as u64).map(|worker| scope.spawn(move || ask(worker))).collect();
        workers.into_iter().map(|worker| worker.join().unwrap()).sum()
    });
    assert!(found > FILTERS, "the filters were too narrow to show anything: {found}");
}

/// Asks one random question after another; returns how many events they were about.
fn ask(store: &LmdbStore, order: &[Row<'_>], random: &mut Random, rounds: usize) -> usize {
    let mut found = 0;
    for _ in 0..rounds {
        let filters: Vec<Filter> =
            (0..1 + random.below(3) / 2).map(|_| filter(random, order)).collect();
        let expected = naive(order, &filters);
        check_bodies(store, &filters, &expected, random);

        let unlimited: Vec<Filter> =
            filters.into_iter().map(|f| Filter { limit: None, ..f }).collect();
        let all: Vec<Position> = expected.all.iter().map(|row| row.position).collect();
        assert_eq!(positions(store, &unlimited), all, "NEG/COUNT {unlimited:?}");
        found += all.len();
    }
    found
}

#[derive(Default)]
struct Model {
    offered: usize,
    events: BTreeMap<Position, VerifiedEvent>,
    current: BTreeMap<Coordinate, Position>,
}

impl Model {
    /// NIP-01 replacement in its own words: later wins, in one second the lower id.
    fn put(&mut self, event: &VerifiedEvent) -> bool {
        self.offered += 1;
        let own = position(event);
        if let Some(coordinate) = event.coordinate() {
            let rival = self.current.get(&coordinate).copied();
            if rival.is_some_and(|rival| rival <= own) {
                return false;
            }
            if let Some(rival) = rival {
                self.events.remove(&rival);
            }
            self.current.insert(coordinate, own);
        }
        self.events.insert(own, event.clone());
        true
    }

    fn rows(&self) -> Vec<Row<'_>> {
        self.events.values().map(Row::new).collect()
    }
}

/// An event laid out for a quick scan. Every letter has a set of the values this event gives it.
struct Row<'e> {
    event: &'e VerifiedEvent,
    position: Position,
    values: [u16; 128],
    expired: bool,
}

impl<'e> Row<'e> {
    fn new(event: &'e VerifiedEvent) -> Self {
        let mut values = [0; 128];
        for tag in &event.tags {
            if let [letter, value, ..] = tag.0.as_slice()
                && let [letter] = letter.as_bytes()
            {
                values[usize::from(*letter)] |= value_bit(value);
            }
        }
        let expired = event.tags.iter().any(|tag| tag.0 == ["expiration", "999999"]);
        Self { event, position: position(event), values, expired }
    }

    fn matches(&self, filter: &Wanted<'_>) -> bool {
        let Wanted { filter, tags } = filter;
        let at = self.event.created_at;
        filter.since.is_none_or(|since| since <= at)
            && filter.until.is_none_or(|until| until >= at)
            && filter.kinds.as_ref().is_none_or(|kinds| kinds.contains(&self.event.kind))
            && filter.authors.as_ref().is_none_or(|authors| authors.contains(&self.event.pubkey))
            && filter.ids.as_ref().is_none_or(|ids| ids.contains(&self.event.id))
            && tags.iter().all(|(letter, wanted)| self.values[*letter] & wanted != 0)
    }
}

/// `value0` to `value12` each have a bit; every other value has none and is never asked for.
fn value_bit(value: &str) -> u16 {
    let number = value.strip_prefix("value").and_then(|number| number.parse::<u32>().ok());
    number.map_or(0, |number| 1 << number)
}

struct Wanted<'f> {
    filter: &'f Filter,
    tags: Vec<(usize, u16)>,
}

impl<'f> Wanted<'f> {
    fn new(filter: &'f Filter) -> Self {
        let bits = |values: &[String]| values.iter().fold(0, |bits, v| bits | value_bit(v));
        let tags = filter.tags.iter();
        let tags = tags.map(|(letter, values)| (usize::from(*letter), bits(values))).collect();
        Self { filter, tags }
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
    let all = model.events.keys().copied();
    let gone: BTreeSet<Position> = all.filter(|_| random.one_in(20)).collect();
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

fn filter(random: &mut Random, order: &[Row<'_>]) -> Filter {
    let mut filter = Filter::default();
    if random.one_in(10) {
        let some = (0..random.below(5)).map(|_| random.pick(order).event.id).collect();
        filter.ids = Some(some);
    }
    if random.one_in(3) {
        filter.authors = Some((0..random.below(4)).map(|_| author(random)).collect());
    }
    if random.one_in(2) {
        let kinds = (0..random.below(4)).map(|_| Kind(*random.pick(KINDS))).collect();
        filter.kinds = Some(kinds);
    }
    for _ in 0..random.below(3) {
        let values = (0..random.below(9)).map(|_| format!("value{}", random.below(13)));
        let values = values.collect();
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

struct Expected<'r, 'e> {
    /// What REQ owes, limits honoured.
    limited: Vec<&'r Row<'e>>,
    /// What COUNT and NEG owe: everything.
    all: Vec<&'r Row<'e>>,
    /// Some filter's limit left something out.
    cut: bool,
    /// Every filter found as many as its limit allows.
    satisfied: bool,
}

/// One pass over every event with every filter.
fn naive<'r, 'e>(order: &'r [Row<'e>], filters: &[Filter]) -> Expected<'r, 'e> {
    let mut left: Vec<u64> = filters.iter().map(|f| f.limit.unwrap_or(u64::MAX)).collect();
    let wanted: Vec<Wanted<'_>> = filters.iter().map(Wanted::new).collect();
    let mut expected = Expected { limited: vec![], all: vec![], cut: false, satisfied: false };
    for row in order.iter().filter(|row| !row.expired) {
        let (mut matched, mut in_limit) = (false, false);
        for (filter, left) in wanted.iter().zip(&mut left) {
            if !row.matches(filter) {
                continue;
            }
            matched = true;
            // `limit: 0` asks for no stored events, so it cannot be cut short either.
            expected.cut |= *left == 0 && filter.filter.limit != Some(0);
            in_limit |= *left > 0;
            *left = left.saturating_sub(1);
        }
        expected.all.extend(matched.then_some(row));
        expected.limited.extend(in_limit.then_some(row));
    }
    expected.satisfied = left.iter().all(|left| *left == 0);
    expected
}

/// Reads in pages of random size, each in a snapshot of its own, or all at once.
fn check_bodies(
    store: &LmdbStore,
    filters: &[Filter],
    expected: &Expected<'_, '_>,
    random: &mut Random,
) {
    let mut cursor = Cursor::new(filters.into(), Want::Bodies, u64::MAX, NOW);
    let mut left = expected.limited.iter();
    let at_once = random.one_in(2);
    loop {
        let mut budget = match at_once {
            true => Budget { steps: u64::MAX, bytes: usize::MAX },
            false => Budget { steps: 1 + random.below(5_000), bytes: 100_000 },
        };
        let mut sink = |hit: Hit<'_>| {
            let row = left.next().unwrap_or_else(|| panic!("too much is found: {filters:?}"));
            assert_eq!(hit.position, row.position, "REQ {filters:?}");
            assert_eq!((hit.kind, hit.json), (row.event.kind, row.event.json().as_ref()));
        };
        let snapshot = store.read().unwrap();
        let progress =
            snapshot.advance(Space::Served, &mut cursor, &mut budget, &mut sink).unwrap();
        if progress == Progress::Done {
            break;
        }
    }
    assert_eq!(left.len(), 0, "not found: {filters:?}");
    // NIP-67: nobody need look for more once every limit is met and the page is full.
    match cursor.has_more() {
        Some(more) => assert_eq!(more, expected.cut, "{filters:?}"),
        None => assert!(expected.satisfied && !at_once, "{filters:?}"),
    }
}

fn positions(store: &LmdbStore, filters: &[Filter]) -> Vec<Position> {
    let mut cursor = Cursor::new(filters.into(), Want::Positions, u64::MAX, NOW);
    let mut found = vec![];
    let mut budget = Budget { steps: u64::MAX, bytes: usize::MAX };
    let snapshot = store.read().unwrap();
    let progress = snapshot
        .advance(Space::Served, &mut cursor, &mut budget, &mut |hit| {
            assert!(hit.json.is_empty());
            found.push(hit.position);
        })
        .unwrap();
    assert_eq!(progress, Progress::Done);
    found
}

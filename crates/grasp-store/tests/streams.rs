//! Filters that would need a million index lists are answered from a coarser plan, and rightly.

use bytes::Bytes;
use grasp_core::{
    Event, EventId, Filter, Kind, PubKey, SortedList, Time, Timestamp, VerifiedEvent,
};
use grasp_store::{
    Budget, Cursor, EventStore, LmdbStore, Options, Progress, Provenance, Space, Want, in_memory,
};
use grasp_testkit::Random;

fn filled(random: &mut Random) -> (LmdbStore, Vec<VerifiedEvent>) {
    let store = in_memory(&Options::default()).expect("a store");
    let event = |n: u64, random: &mut Random| {
        let event = Event {
            id: EventId::from_bytes(random.bytes32()),
            pubkey: PubKey::from_bytes([u8::try_from(n % 40).unwrap_or(0); 32]),
            created_at: Timestamp(n / 3),
            kind: Kind(u16::try_from(20 + n % 700).unwrap_or(0)),
            tags: vec![],
            content: String::new(),
            sig: grasp_core::id::Signature::from_bytes([0; 64]),
        };
        VerifiedEvent::from_stored(Bytes::from(event.to_json())).expect("our own JSON")
    };
    let events: Vec<VerifiedEvent> = (0..2_000).map(|n| event(n, random)).collect();
    store
        .write(&mut |txn| {
            for event in &events {
                txn.put(Space::Served, event, &Provenance::direct(Time(1)))?;
            }
            Ok(())
        })
        .expect("a commit");
    (store, events)
}

fn found(store: &LmdbStore, filter: Filter) -> Vec<EventId> {
    let mut cursor = Cursor::new([filter].into(), Want::Positions, u64::MAX, Timestamp(0));
    let mut ids = vec![];
    let mut budget = Budget { steps: u64::MAX, bytes: usize::MAX };
    let snapshot = store.read().expect("a snapshot");
    let progress = snapshot
        .advance(Space::Served, &mut cursor, &mut budget, &mut |hit| ids.push(hit.position.id()))
        .expect("an answer");
    assert_eq!(progress, Progress::Done);
    ids
}

fn expected(events: &[VerifiedEvent], filter: &Filter) -> Vec<EventId> {
    let mut hits: Vec<&VerifiedEvent> = events.iter().filter(|e| filter.matches(e)).collect();
    hits.sort_by_key(|event| (std::cmp::Reverse(event.created_at), event.id));
    hits.into_iter().map(|event| event.id).collect()
}

#[test]
fn authors_times_kinds_beyond_all_bounds_cost_no_more_than_a_scan() {
    let mut random = Random::seeded(7);
    let (store, events) = filled(&mut random);
    let many_kinds: SortedList<Kind> = (100..60_000).map(Kind).collect();
    let few_authors: SortedList<PubKey> = (0..7).map(|n| PubKey::from_bytes([n; 32])).collect();
    let mut many_authors: Vec<PubKey> =
        (0..30_000).map(|_| PubKey::from_bytes(random.bytes32())).collect();
    many_authors.extend(few_authors.iter().copied());
    let many_authors = SortedList::from(many_authors);
    for (authors, kinds) in [
        (Some(few_authors.clone()), Some(many_kinds.clone())),
        (Some(many_authors.clone()), Some(many_kinds.clone())),
        (Some(many_authors), None),
        (None, Some(many_kinds)),
        (Some(few_authors), None),
    ] {
        let filter = Filter { authors, kinds, ..Filter::default() };
        let want = expected(&events, &filter);
        assert!(!want.is_empty());
        assert_eq!(found(&store, filter), want);
    }
}

#[test]
fn a_query_that_has_all_it_asked_for_does_not_go_on_to_look_for_more() {
    let (store, events) = filled(&mut Random::seeded(8));
    let newest = events.iter().max_by_key(|event| event.created_at).expect("events");
    let filter = Filter { limit: Some(1), until: Some(newest.created_at), ..Filter::default() };
    let rare = Filter { kinds: Some((0..60_000).map(Kind).collect()), ..filter };
    let mut cursor = Cursor::new([rare].into(), Want::Positions, u64::MAX, Timestamp(0));
    let mut hits = 0;
    let snapshot = store.read().expect("a snapshot");
    let mut budget = Budget { steps: 1, bytes: usize::MAX };
    let progress = snapshot
        .advance(Space::Served, &mut cursor, &mut budget, &mut |_| hits += 1)
        .expect("an answer");
    assert_eq!((progress, hits, cursor.has_more()), (Progress::Done, 1, None));
}

use crate::world::{Draft, Verbs, boundless, event, numbered, received, temporary, who};
use grasp_core::{Event, Filter, Kind, Timestamp};
use grasp_store::{Cursor, EventStore, LmdbStore, Options, Space, StoreError, Want, in_memory};
use std::sync::atomic::{AtomicBool, Ordering};

/// More large events than one mebibyte can hold.
const PLENTY: u64 = 1_000;

fn large(author: char, number: u64) -> Event {
    let mut it = numbered(1, author, number, number);
    it.content = format!("{number:09}").repeat(300);
    it.id = it.hash();
    it
}

#[test]
fn the_map_grows_from_almost_nothing_while_others_read() {
    let store = in_memory(&Options { map_bytes: 64 << 10, ..Options::default() }).unwrap();
    let before = store.usage().unwrap().map_bytes;
    let events: Vec<Event> = (0..1_500).map(|n| large('a', n)).collect();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut seen = 0;
                while !done.load(Ordering::Relaxed) {
                    seen = read_whole(&store, seen);
                }
                assert_eq!(read_whole(&store, seen), events.len());
            });
        }
        for batch in events.chunks(50) {
            store.put_all(batch);
        }
        done.store(true, Ordering::Relaxed);
    });
    let after = store.usage().unwrap().map_bytes;
    assert!(before <= 128 << 10 && after >= 4 << 20, "grew from {before} to {after} bytes");
}

/// One snapshot never contradicts itself, and a later one never has less.
fn read_whole(store: &LmdbStore, seen: usize) -> usize {
    let snapshot = store.read().unwrap();
    let mut cursor =
        Cursor::new([Filter::default()].into(), Want::Bodies, u64::MAX, Timestamp(1_000_000));
    let mut found = 0;
    let mut sink = |hit: grasp_store::Hit<'_>| {
        assert!(hit.json.len() > 2_700);
        found += 1;
    };
    snapshot.advance(Space::Served, &mut cursor, &mut boundless(), &mut sink).unwrap();
    assert_eq!(u64::try_from(found).unwrap(), snapshot.events_in(Space::Served).unwrap());
    assert!(found >= seen);
    found
}

#[test]
fn one_transaction_may_need_many_times_the_map() {
    let store = in_memory(&Options { map_bytes: 64 << 10, ..Options::default() }).unwrap();
    let events: Vec<Event> = (0..500).map(|n| large('a', n)).collect();
    store.put_all(&events);
    assert_eq!(store.read().unwrap().events_in(Space::Served).unwrap(), 500);
    assert_eq!(store.read().unwrap().last_serial().unwrap(), 500, "no attempt left a trace");
}

/// A store of one mebibyte, filled until it refuses.
fn full_store() -> (LmdbStore, Vec<Event>) {
    let store = in_memory(&Options { budget_bytes: 1 << 20, ..Options::default() }).unwrap();
    let mut stored = Vec::new();
    for number in 0..PLENTY {
        let next = large('a', number);
        match try_put(&store, &next) {
            Ok(()) => stored.push(next),
            Err(StoreError::Full { used, budget }) => {
                assert_eq!(budget, 1 << 20);
                assert!(used >= budget / 100 * 95 && used < budget, "{used}");
                return (store, stored);
            }
            Err(other) => panic!("{other}"),
        }
    }
    panic!("{PLENTY} events fit into one mebibyte")
}

fn try_put(store: &LmdbStore, event: &Event) -> grasp_store::Result<()> {
    store.write(&mut |txn| txn.put(Space::Served, &event.verified(), &received()).map(|_| ()))
}

#[test]
fn a_full_store_refuses_events_and_still_takes_requests_to_delete() {
    let (store, stored) = full_store();
    assert!(store.usage().unwrap().is_full());
    assert!(stored.len() > 100, "{}", stored.len());
    for space in Space::ALL {
        let refused = store.write(&mut |txn| {
            txn.put(space, &event(1, 'z', 1, 1).verified(), &received()).map(|_| ())
        });
        assert!(matches!(refused, Err(StoreError::Full { .. })), "{space:?}");
    }
    for (kind, id) in [(5, 1), (62, 2)] {
        try_put(&store, &event(kind, 'a', 9, id)).unwrap();
    }
    store.change(|txn| txn.bury_event(&stored[0].id, &who('a'), Timestamp(9)));
    assert!(stored.iter().all(|event| store.has(event)), "nothing was lost");
    let told = StoreError::Full { used: 5, budget: 7 }.to_string();
    assert_eq!(told, "the event store is full: 5 of 7 bytes are in use");
}

#[test]
fn requests_to_delete_may_use_the_last_of_the_budget_and_no_more() {
    let (store, stored) = full_store();
    let request = |number| {
        let mut request = large('a', number);
        request.kind = Kind::DELETION;
        request.id = request.hash();
        request
    };
    let refused = (0..PLENTY).map(|n| try_put(&store, &request(n))).find_map(Result::err);
    assert!(matches!(refused, Some(StoreError::Full { used, budget }) if used >= budget));
    let usage = store.usage().unwrap();
    assert!(usage.is_overfull() && usage.used_bytes < usage.budget_bytes * 11 / 10, "{usage:?}");
    for event in &stored {
        assert!(store.remove(event), "removal never needs room");
    }
    try_put(&store, &large('b', 1)).unwrap();
}

#[test]
fn room_that_was_made_can_be_used_again() {
    let (store, stored) = full_store();
    let (gone, kept) = stored.split_at(stored.len() / 2);
    for event in gone {
        assert!(store.remove(event));
    }
    assert!(!store.usage().unwrap().is_full());
    let mut again = 0;
    while again < PLENTY && try_put(&store, &large('b', again)).is_ok() {
        again += 1;
    }
    let (again, gone) = (usize::try_from(again).unwrap(), gone.len());
    assert!(again.abs_diff(gone) < gone / 4, "{gone} went, {again} came");
    assert!(kept.iter().all(|event| store.has(event)));
}

#[test]
fn a_refused_event_does_not_take_its_neighbours_along() {
    let (store, stored) = full_store();
    let request = event(5, 'a', 9, 1).verified();
    let mut refused = 0;
    store.change(|txn| {
        refused = 0;
        if txn.put(Space::Served, &large('b', 1).verified(), &received()).is_err() {
            refused += 1;
        }
        txn.put(Space::Served, &request, &received())?;
        txn.remove(Space::Served, &stored[0].id).map(|_| ())
    });
    assert_eq!(refused, 1);
    assert!(store.has(&request) && !store.has(&stored[0]));
}

#[test]
fn an_empty_store_uses_almost_nothing() {
    let usage = temporary().usage().unwrap();
    assert!(usage.used_bytes < 64 << 10 && !usage.is_full(), "{usage:?}");
}

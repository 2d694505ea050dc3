use crate::world::{Draft, Verbs, boundless, event, ids, numbered, received, temporary};
use grasp_core::{Event, Filter, Timestamp};
use grasp_store::{Cursor, EventStore, Options, Snapshot, Space, StoreError, Want, in_memory};
use std::sync::Barrier;

fn everything(snapshot: &dyn Snapshot) -> usize {
    let mut cursor = Cursor::new([Filter::default()].into(), Want::Bodies, u64::MAX, Timestamp(0));
    let mut found = 0;
    let mut sink = |_: grasp_store::Hit<'_>| found += 1;
    snapshot.advance(Space::Served, &mut cursor, &mut boundless(), &mut sink).unwrap();
    found
}

#[test]
fn a_snapshot_stays_as_it_was_while_a_writer_commits() {
    let store = temporary();
    let first = event(1, 'a', 5, 1);
    let second = event(1, 'a', 6, 2);
    store.put_all([&first]);
    let old = store.read().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            store.put_all([&second]);
            store.remove(&first);
        });
    });
    assert!(old.contains(Space::Served, &first.id).unwrap());
    assert!(!old.contains(Space::Served, &second.id).unwrap());
    assert_eq!((everything(&*old), old.last_serial().unwrap()), (1, 1));
    drop(old);
    assert_eq!(store.find(Filter::default()), ids([&second]));
}

#[test]
fn a_writer_sees_its_own_changes_and_others_see_them_after_the_commit() {
    let store = temporary();
    let note = event(1, 'a', 5, 1).verified();
    store.change(|txn| {
        txn.put(Space::Served, &note, &received())?;
        assert!(txn.contains(Space::Served, &note.id)?);
        let outside = std::thread::scope(|scope| scope.spawn(|| store.has(&note)).join().unwrap());
        assert!(!outside);
        Ok(())
    });
    assert!(store.has(&note));
}

#[test]
fn two_hundred_threads_read_at_once() {
    const THREADS: usize = 200;
    let store = temporary();
    let events: Vec<Event> = (0..200).map(|n| numbered(1, 'a', n, n)).collect();
    store.put_all(&events);
    let all_open = Barrier::new(THREADS);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let snapshot = store.read().unwrap();
                all_open.wait();
                assert_eq!(everything(&*snapshot), events.len());
            });
        }
    });
}

#[test]
fn one_reader_too_many_is_an_error_and_the_next_one_is_welcome_again() {
    let store = in_memory(&Options { readers_max: 3, ..Options::default() }).unwrap();
    let mut open: Vec<_> = (0..3).map(|_| store.read().unwrap()).collect();
    assert!(matches!(store.read(), Err(StoreError::Engine(_))));
    open.pop();
    assert!(store.read().is_ok());
}

#[test]
fn writers_take_turns_and_none_is_lost() {
    let store = temporary();
    std::thread::scope(|scope| {
        for writer in 0..4_u64 {
            let store = &store;
            scope.spawn(move || {
                for n in 0..10 {
                    store.put_all([&numbered(1, 'a', n, writer * 100 + n)]);
                }
            });
        }
    });
    let snapshot = store.read().unwrap();
    assert_eq!(everything(&*snapshot), 40);
    assert_eq!(snapshot.last_serial().unwrap(), 40);
}

#[test]
fn a_map_that_must_grow_waits_for_open_snapshots_and_then_grows() {
    let store = in_memory(&Options { map_bytes: 64 << 10, ..Options::default() }).unwrap();
    let (opened, tried) = (Barrier::new(2), Barrier::new(2));
    let mut told = false;
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let snapshot = store.read().unwrap();
            opened.wait();
            tried.wait();
            assert_eq!(everything(&*snapshot), 0, "the writer is not done, whatever it tried");
        });
        opened.wait();
        store.change(|txn| {
            if !std::mem::replace(&mut told, true) {
                tried.wait();
            }
            for n in 0..500 {
                txn.put(Space::Served, &numbered(1, 'a', n, n).verified(), &received())?;
            }
            Ok(())
        });
    });
    assert_eq!(everything(&*store.read().unwrap()), 500);
}

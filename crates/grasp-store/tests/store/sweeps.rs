use crate::world::{Disk, Draft, NOW, Verbs, event, ids, numbered, received, temporary, who};
use grasp_core::{Event, Filter, Timestamp};
use grasp_store::{EventStore, LmdbStore, Space};

fn expiring(at: u64, id: u8) -> Event {
    event(1, 'a', 5, id).tag(&["expiration", &at.to_string()])
}

fn sweep_expired(store: &LmdbStore, now: Timestamp, count_max: usize) -> usize {
    let mut gone = 0;
    store.change(|txn| {
        gone = txn.sweep_expired(now, count_max, &mut |_, _| {})?;
        Ok(())
    });
    gone
}

fn sweep_vanished(store: &LmdbStore, count_max: usize) -> usize {
    let mut gone = 0;
    store.change(|txn| {
        gone = txn.sweep_vanished(count_max, &mut |_, _| {})?;
        Ok(())
    });
    gone
}

/// Far more steps than any of these sweeps takes.
const STEPS_MAX: usize = 1_000;

fn needs_sweep(store: &LmdbStore, now: Timestamp) -> bool {
    store.read().unwrap().needs_sweep(now).unwrap()
}

#[test]
fn an_expired_event_is_hidden_at_once_and_removed_by_the_sweep() {
    let store = temporary();
    let (over, ends_now, stays) = (expiring(10, 1), expiring(20, 2), expiring(21, 3));
    let forever = event(1, 'a', 5, 4);
    store.put_all([&over, &ends_now, &stays, &forever]);
    let found = |now| store.find_at(Space::Served, Filter::default(), Timestamp(now));
    assert_eq!(found(9), ids([&over, &ends_now, &stays, &forever]));
    assert_eq!(found(20), ids([&stays, &forever]), "its last second is over when it begins");
    assert!(store.has(&over), "hidden is not removed");

    assert!(!needs_sweep(&store, Timestamp(9)));
    assert!(needs_sweep(&store, Timestamp(20)));
    assert_eq!(sweep_expired(&store, Timestamp(20), 100), 2);
    assert!(!store.has(&over) && !store.has(&ends_now));
    assert!(store.has(&stays) && store.has(&forever));
    assert!(!needs_sweep(&store, Timestamp(20)));
}

#[test]
fn an_expiration_that_is_no_number_never_comes() {
    let store = temporary();
    for (text, id) in ["soon", "", "-1", "1.5", "99999999999999999999"].iter().zip(1..) {
        let odd = event(1, 'a', 5, id).tag(&["expiration", text]);
        store.put_all([&odd]);
        assert_eq!(
            store.find_at(Space::Served, Filter::default(), Timestamp(u64::MAX)).len(),
            usize::from(id)
        );
    }
    assert!(!needs_sweep(&store, Timestamp(u64::MAX)));
}

#[test]
fn an_event_that_expires_at_the_end_of_time_is_swept_like_any_other() {
    let store = temporary();
    let last = expiring(u64::MAX, 1);
    store.put_all([&last]);
    assert_eq!(store.find(Filter::default()), ids([&last]));
    assert!(store.remove(&last));
    assert!(!needs_sweep(&store, Timestamp(u64::MAX)), "its entry went with it");
}

#[test]
fn expired_events_go_oldest_expiry_first_in_chunks_and_from_every_space() {
    let store = temporary();
    for (space, base) in Space::ALL.into_iter().zip([0, 50, 100]) {
        for id in 1..=10 {
            store.put_in(space, &expiring(u64::from(id), base + id));
        }
    }
    let mut chunks = Vec::new();
    while needs_sweep(&store, NOW) && chunks.len() < STEPS_MAX {
        chunks.push(sweep_expired(&store, NOW, 7));
    }
    assert_eq!(chunks, [7, 7, 7, 7, 2]);
    for space in Space::ALL {
        assert_eq!(store.read().unwrap().events_in(space).unwrap(), 0);
    }
}

/// Ten notes of the author, five wraps for them, five mentions of them, one wrap for another.
fn a_life(store: &LmdbStore) -> (Vec<Event>, Vec<Event>) {
    let to = |name: char| who(name).to_hex();
    let notes = (0..10).map(|n| numbered(1, 'a', n, n));
    let wraps = (0..5).map(|n| numbered(1059, 'x', n, 100 + n).tag(&["p", &to('a')]));
    let mentions = (0..5).map(|n| numbered(1, 'b', n, 200 + n).tag(&["p", &to('a')]));
    let goes: Vec<Event> = notes.chain(wraps).collect();
    let mut stays: Vec<Event> = mentions.collect();
    stays.push(numbered(1059, 'x', 1, 300).tag(&["p", &to('b')]));
    stays.push(numbered(1, 'a', 51, 301));
    stays.push(numbered(1059, 'x', 51, 302).tag(&["p", &to('a')]));
    stays.push(numbered(62, 'a', 50, 303));
    store.put_all(goes.iter().chain(&stays));
    (goes, stays)
}

#[test]
fn a_vanished_author_takes_their_events_and_the_gift_wraps_sent_to_them() {
    let store = temporary();
    let (goes, stays) = a_life(&store);
    store.change(|txn| txn.bury_author(&who('a'), Timestamp(50)));
    assert!(needs_sweep(&store, NOW));
    assert_eq!(sweep_vanished(&store, 1_000), goes.len());
    assert!(goes.iter().all(|event| !store.has(event)));
    assert!(stays.iter().all(|event| store.has(event)));
    assert!(!needs_sweep(&store, NOW));
    assert_eq!(sweep_vanished(&store, 1_000), 0);
}

#[test]
fn a_sweep_of_any_size_removes_no_more_than_it_may_and_ends() {
    for chunk in 1..=17 {
        let store = temporary();
        let (goes, stays) = a_life(&store);
        store.change(|txn| txn.bury_author(&who('a'), Timestamp(50)));
        let mut gone = 0;
        for _ in 0..STEPS_MAX {
            let step = sweep_vanished(&store, chunk);
            assert!(step <= chunk, "{step} removed at once, {chunk} allowed");
            gone += step;
            if !needs_sweep(&store, NOW) {
                break;
            }
        }
        assert!(!needs_sweep(&store, NOW), "in chunks of {chunk}");
        assert_eq!(gone, goes.len(), "in chunks of {chunk}");
        assert!(stays.iter().all(|event| store.has(event)), "in chunks of {chunk}");
    }
}

#[test]
fn many_newer_mentions_do_not_shield_an_old_gift_wrap() {
    let store = temporary();
    let to = who('a').to_hex();
    let wrap = numbered(1059, 'x', 1, 0).tag(&["p", &to]);
    let mentions: Vec<Event> =
        (0..30).map(|n| numbered(1, 'b', 10 + n, n).tag(&["p", &to])).collect();
    store.put_all(mentions.iter().chain([&wrap]));
    store.change(|txn| txn.bury_author(&who('a'), Timestamp(50)));
    for _ in 0..STEPS_MAX {
        if needs_sweep(&store, NOW) {
            sweep_vanished(&store, 10);
        }
    }
    assert!(!needs_sweep(&store, NOW));
    assert!(!store.has(&wrap));
    assert!(mentions.iter().all(|event| store.has(event)));
}

#[test]
fn an_interrupted_sweep_goes_on_after_a_restart() {
    let disk = Disk::new();
    let (goes, stays) = a_life(&disk.open());
    let mut steps = 0;
    disk.open().change(|txn| txn.bury_author(&who('a'), Timestamp(50)));
    while steps < 100 && needs_sweep(&disk.open(), NOW) {
        sweep_vanished(&disk.open(), 4);
        steps += 1;
    }
    assert!((4..100).contains(&steps), "{steps}");
    let store = disk.open();
    assert!(goes.iter().all(|event| !store.has(event)));
    assert!(stays.iter().all(|event| store.has(event)));
    assert_eq!(
        store.read().unwrap().erased(&goes[0]).unwrap().vanished_until,
        Some(Timestamp(50)),
        "the sweep is over, the request is not"
    );
}

#[test]
fn several_authors_vanish_from_every_space() {
    let store = temporary();
    for (space, n) in Space::ALL.into_iter().zip(0..) {
        for author in ['a', 'b', 'c'] {
            store.put_in(space, &numbered(1, author, 1, n));
        }
    }
    store.change(|txn| {
        txn.bury_author(&who('a'), Timestamp(9))?;
        txn.bury_author(&who('c'), Timestamp(9))
    });
    assert_eq!(sweep_vanished(&store, 5), 5);
    assert_eq!(sweep_vanished(&store, 5), 5);
    for space in Space::ALL {
        let snapshot = store.read().unwrap();
        assert_eq!(snapshot.events_in(space).unwrap(), 1);
        assert!(snapshot.has_author(space, &who('b')).unwrap());
        assert!(!snapshot.has_author(space, &who('a')).unwrap());
    }
}

#[test]
fn a_later_request_to_vanish_reaches_further() {
    let store = temporary();
    let (first, second) = (numbered(1, 'a', 5, 1), numbered(1, 'a', 15, 2));
    store.put_all([&first, &second]);
    store.change(|txn| txn.bury_author(&who('a'), Timestamp(10)));
    assert_eq!(sweep_vanished(&store, 10), 1);
    assert!(store.has(&second));
    store.change(|txn| txn.bury_author(&who('a'), Timestamp(20)));
    assert_eq!(sweep_vanished(&store, 10), 1);
    assert!(!store.has(&second));
}

#[test]
fn sweeping_and_putting_share_one_transaction() {
    let store = temporary();
    store.put_all([&expiring(10, 1)]);
    let fresh = event(1, 'a', 5, 2).verified();
    store.change(|txn| {
        assert_eq!(txn.sweep_expired(NOW, 10, &mut |_, _| {})?, 1);
        txn.put(Space::Served, &fresh, &received())?;
        assert_eq!(txn.events_in(Space::Served)?, 1);
        Ok(())
    });
    assert!(store.has(&fresh));
}

use crate::world::{Disk, Draft, Verbs, address, event, ids, numbered, who};
use grasp_core::{Event, Filter, Kind, Time, Timestamp};
use grasp_store::{EventStore, LmdbStore, Options, Provenance, Put, SourceKind, Space, StoreError};

#[test]
fn what_was_written_is_there_after_a_restart() {
    let disk = Disk::new();
    let announced = event(30617, 'a', 5, 1).d("acme");
    let note = event(1, 'b', 6, 2).tag(&["t", "x"]);
    disk.open().put_all([&announced, &note]);
    disk.open().change(|txn| txn.bury_author(&who('c'), Timestamp(7)));

    let store = disk.open();
    assert_eq!(store.find(Filter::default()), ids([&note, &announced]));
    let tags = [(b't', ["x".to_owned()].into())].into();
    assert_eq!(store.find(Filter { tags, ..Filter::default() }), ids([&note]));
    let snapshot = store.read().unwrap();
    let current = snapshot.current(Space::Served, &address(30617, 'a', "acme")).unwrap().unwrap();
    assert_eq!(current.event.event(), &announced);
    assert_eq!(current.event.json(), announced.to_json().as_bytes());
    let erased = snapshot.erased(&event(1, 'c', 1, 1)).unwrap();
    assert_eq!(erased.vanished_until, Some(Timestamp(7)));
}

#[test]
fn a_store_that_grew_opens_with_the_small_map_it_was_asked_for() {
    let disk = tempfile::tempdir().unwrap();
    let tiny = Options { map_bytes: 64 << 10, ..Options::default() };
    let events: Vec<Event> = (0..800).map(|n| numbered(1, 'a', n, n)).collect();
    LmdbStore::open(disk.path(), &tiny).unwrap().put_all(&events);
    for _ in 0..2 {
        let store = LmdbStore::open(disk.path(), &tiny).unwrap();
        assert_eq!(store.find(Filter::default()).len(), 800);
        assert_eq!(store.put(&events[0]), Put::Duplicate);
    }
}

#[test]
fn serials_only_grow_whatever_is_removed_and_however_often_the_store_is_opened() {
    let disk = Disk::new();
    let mut last = 0;
    for round in 0..6 {
        let store = disk.open();
        assert_eq!(store.read().unwrap().last_serial().unwrap(), last);
        for space in Space::ALL {
            let it = event(1, 'a', 5, round);
            let Put::Stored { serial, .. } = store.put_in(space, &it) else { panic!("not stored") };
            assert!(serial > last, "{serial} after {last}");
            last = serial;
            store.change(|txn| {
                assert!(txn.remove(space, &it.id)?.is_some());
                Ok(())
            });
        }
        assert_eq!(store.read().unwrap().last_serial().unwrap(), last);
    }
}

#[test]
fn an_abandoned_transaction_uses_up_no_serial_that_was_seen() {
    let disk = Disk::new();
    let store = disk.open();
    let abandoned = store.write(&mut |txn| {
        txn.put(Space::Served, &event(1, 'a', 5, 1).verified(), &crate::world::received())?;
        Err(StoreError::Damaged("no"))
    });
    assert!(abandoned.is_err());
    assert_eq!(store.put(&event(1, 'a', 5, 2)), Put::Stored { serial: 1, replaced: None });
}

#[test]
fn provenance_comes_back_as_it_was_given() {
    let disk = Disk::new();
    let relay = |url: &str| Some(url.to_owned());
    let stories = [
        Provenance::direct(Time(0)),
        Provenance {
            source: SourceKind::Live,
            relay: relay("wss://relay.example/ü"),
            received: Time(1_700_000_000_123),
            released: None,
        },
        Provenance {
            source: SourceKind::Backfill,
            relay: relay(&format!("wss://{}", "x".repeat(2_000))),
            received: Time(u64::MAX),
            released: Some(Time(0)),
        },
        Provenance {
            source: SourceKind::Daily,
            relay: relay("w"),
            received: Time(7),
            released: Some(Time(1_700_000_000_999)),
        },
    ];
    let store = disk.open();
    for (story, id) in stories.iter().zip(1..) {
        let it = event(1, 'a', 5, id).verified();
        store.change(|txn| txn.put(Space::Held, &it, story).map(|_| ()));
    }
    drop(store);
    let store = disk.open();
    let snapshot = store.read().unwrap();
    for (story, id) in stories.iter().zip(1..) {
        let it = event(1, 'a', 5, id);
        let found = snapshot.get(Space::Held, &it.id).unwrap().unwrap();
        assert_eq!(&found.provenance, story);
        assert_eq!(found.event.event(), &it);
        assert_eq!(found.serial, u64::from(id));
    }
}

#[test]
fn a_relay_name_too_long_to_keep_costs_the_name_and_not_the_event() {
    let disk = Disk::new();
    let store = disk.open();
    for (name, id) in
        [("x".repeat(100_000), 1), ("ü".repeat(40_000), 2), (format!("x{}", "ü".repeat(2_000)), 3)]
    {
        let it = event(1, 'a', 5, id);
        let mut from = Provenance::direct(Time(3));
        from.relay = Some(name.clone());
        store.change(|txn| txn.put(Space::Served, &it.verified(), &from).map(|_| ()));
        let found = store.read().unwrap().get(Space::Served, &it.id).unwrap().unwrap();
        assert_eq!(found.event.event(), &it);
        assert!(found.provenance.relay.is_none_or(|kept| name.starts_with(&kept)));
        assert!(store.remove(&it));
    }
    assert_eq!(store.read().unwrap().bytes_in(Space::Served).unwrap(), 0);
}

#[test]
fn a_store_of_a_later_format_is_left_alone() {
    let disk = Disk::new();
    let note = event(1, 'a', 5, 1);
    disk.open().put_all([&note]);
    for format in [2, 7, u32::MAX, 0] {
        set_format(disk.path(), format);
        let refused = LmdbStore::open(disk.path(), &Options::default());
        match refused {
            Err(StoreError::Format { found, known: 1 }) => assert_eq!(found, format),
            other => panic!("format {format}: {other:?}"),
        }
    }
    set_format(disk.path(), 1);
    assert!(disk.open().has(&note));
}

#[expect(unsafe_code, reason = "nobody else has this temporary file open")]
fn set_format(path: &std::path::Path, format: u32) {
    use heed::types::Bytes;
    let env = unsafe { heed::EnvOpenOptions::new().max_dbs(20).open(path) }.unwrap();
    let mut txn = env.write_txn().unwrap();
    let meta: heed::Database<Bytes, Bytes> =
        env.open_database(&txn, Some("meta")).unwrap().unwrap();
    meta.put(&mut txn, b"format", &format.to_be_bytes()).unwrap();
    txn.commit().unwrap();
}

#[test]
fn a_place_that_is_no_directory_is_named_in_the_complaint() {
    let disk = Disk::new();
    let missing = disk.path().join("not/there");
    match LmdbStore::open(&missing, &Options::default()) {
        Err(StoreError::Open { path, .. }) => assert_eq!(path, missing.display().to_string()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn extreme_times_and_kinds_survive() {
    let disk = Disk::new();
    let corners = [
        event(65_535, 'a', u64::MAX, 1),
        event(65_535, 'a', u64::MAX - 1, 2),
        event(1, 'a', 1, 3),
        event(0, 'a', 0, 4),
    ];
    disk.open().put_all(&corners);
    let store = disk.open();
    assert_eq!(store.find(Filter::default()), ids(&corners));
    let top = Filter { since: Some(Timestamp(u64::MAX)), ..Filter::default() };
    assert_eq!(store.find(top), ids(&corners[..1]));
    let bottom = Filter { until: Some(Timestamp(0)), ..Filter::default() };
    assert_eq!(store.find(bottom), ids(&corners[3..]));
    let by_author = Filter { authors: Some([who('a')].into()), ..Filter::default() };
    assert_eq!(store.find(by_author), ids(&corners), "the first and the last kind included");
    let snapshot = store.read().unwrap();
    let beyond = |kinds: &[Kind]| snapshot.has_author_beyond(Space::Served, &who('a'), kinds);
    assert!(beyond(&[Kind(0), Kind(1)]).unwrap());
    assert!(!beyond(&[Kind(65_535), Kind(0), Kind(1)]).unwrap());
}

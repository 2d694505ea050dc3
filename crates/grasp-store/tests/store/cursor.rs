use crate::world::{Draft, NOW, Verbs, event, ids, numbered, received, temporary};
use grasp_core::{Event, EventId, Filter, Kind};
use grasp_store::{Budget, Cursor, EventStore, LmdbStore, Progress, Put, Space, Want};
use grasp_testkit::Random;

fn cursor(filters: &[Filter], serial_max: u64) -> Cursor {
    Cursor::new(filters.to_vec(), Want::Bodies, serial_max, NOW)
}

/// Goes on until the query ends; returns what was found and how many calls it took.
fn drain(
    store: &LmdbStore,
    cursor: &mut Cursor,
    mut page: impl FnMut() -> Budget,
) -> (Vec<EventId>, usize) {
    let mut found = Vec::new();
    for calls in 1.. {
        let snapshot = store.read().unwrap();
        let mut sink = |hit: grasp_store::Hit<'_>| found.push(hit.position.id());
        let progress = snapshot.advance(Space::Served, cursor, &mut page(), &mut sink).unwrap();
        if progress == Progress::Done {
            return (found, calls);
        }
    }
    unreachable!()
}

fn whole(store: &LmdbStore, cursor: &mut Cursor) -> Vec<EventId> {
    drain(store, cursor, crate::world::boundless).0
}

fn limited(limit: u64) -> Filter {
    Filter { limit: Some(limit), ..Filter::default() }
}

#[test]
fn what_is_committed_after_the_line_belongs_to_the_live_stream() {
    let store = temporary();
    let stored = event(1, 'a', 5, 1);
    store.put_all([&stored]);
    let line = store.read().unwrap().last_serial().unwrap();
    let live = [event(1, 'a', 9, 2), event(1, 'a', 1, 3)];
    store.put_all(&live);
    assert_eq!(whole(&store, &mut cursor(&[Filter::default()], line)), ids([&stored]));
    let by_id = Filter { ids: Some(ids([&stored, &live[0], &live[1]])), ..Filter::default() };
    assert_eq!(whole(&store, &mut cursor(&[by_id], line)), ids([&stored]));
    assert_eq!(whole(&store, &mut cursor(&[Filter::default()], 0)), []);
}

#[test]
fn live_events_neither_fill_a_limit_nor_count_as_more() {
    let store = temporary();
    let stored = [event(1, 'a', 5, 1), event(1, 'a', 4, 2)];
    store.put_all(&stored);
    let line = store.read().unwrap().last_serial().unwrap();
    store.put_all(&[event(1, 'a', 9, 3), event(1, 'a', 3, 4)]);
    let mut two = cursor(&[limited(2)], line);
    assert_eq!(whole(&store, &mut two), ids(&stored));
    assert!(!two.has_more(), "the older one was committed after the line");
    let mut one = cursor(&[limited(1)], line);
    assert_eq!(whole(&store, &mut one), ids(&stored[..1]));
    assert!(one.has_more());
}

#[test]
fn a_replaced_version_is_missed_by_a_line_drawn_before_and_found_by_one_drawn_after() {
    let store = temporary();
    store.put_all([&event(30617, 'a', 5, 1).d("acme")]);
    let line = store.read().unwrap().last_serial().unwrap();
    let newer = event(30617, 'a', 6, 2).d("acme");
    let Put::Stored { serial, .. } = store.put(&newer) else { panic!("not stored") };
    assert_eq!(whole(&store, &mut cursor(&[Filter::default()], line)), []);
    assert_eq!(whole(&store, &mut cursor(&[Filter::default()], serial)), ids([&newer]));
}

fn crowd(store: &LmdbStore) -> Vec<Event> {
    let mut events: Vec<Event> = (0..300)
        .map(|n| {
            let author = ['a', 'b', 'c'][usize::try_from(n % 3).unwrap()];
            let it = numbered([1, 1621, 7][usize::try_from(n % 2).unwrap()], author, n / 4, n);
            it.tag(&["t", &(n % 5).to_string()]).tag(&["p", &(n % 7).to_string()])
        })
        .collect();
    store.put_all(&events);
    events.sort_by_key(|event| (std::cmp::Reverse(event.created_at), event.id));
    events
}

#[test]
fn a_query_in_many_small_steps_finds_what_one_long_step_finds() {
    let store = temporary();
    crowd(&store);
    let tagged = |letter: u8, values: &[&str]| {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        Filter { tags: [(letter, values)].into(), ..Filter::default() }
    };
    let kinds = Filter { kinds: Some(vec![Kind(1)]), ..Filter::default() };
    let authors = Filter { authors: Some(vec![crate::world::who('a')]), ..limited(40) };
    let questions = [
        vec![Filter::default()],
        vec![limited(7)],
        vec![tagged(b't', &["1", "3"]), tagged(b'p', &["2"])],
        vec![kinds.clone(), authors.clone(), limited(3)],
        vec![Filter { kinds: kinds.kinds, ..tagged(b'p', &["0", "1", "2", "3", "4", "5"]) }],
        vec![Filter {
            tags: [(b't', vec!["1".into()]), (b'p', vec!["1".into()])].into(),
            ..authors
        }],
    ];
    let mut random = Random::seeded(7);
    for filters in &questions {
        let mut at_once = cursor(filters, u64::MAX);
        let expected = whole(&store, &mut at_once);
        assert!(!expected.is_empty());
        for steps in [1, 2, 3, 50] {
            for bytes in [1, 400, usize::MAX] {
                let mut paged = cursor(filters, u64::MAX);
                let (found, calls) = drain(&store, &mut paged, || Budget { steps, bytes });
                assert_eq!(found, expected, "{steps} steps, {bytes} bytes: {filters:?}");
                assert_eq!(paged.has_more(), at_once.has_more());
                assert!(steps > 3 || calls > 1);
            }
        }
        let mut paged = cursor(filters, u64::MAX);
        let page = || Budget { steps: random.below(30), bytes: usize::MAX };
        assert_eq!(drain(&store, &mut paged, page).0, expected);
    }
}

#[test]
fn a_budget_is_spent_on_what_was_looked_at() {
    let store = temporary();
    crowd(&store);
    let mut query = cursor(&[Filter::default()], u64::MAX);
    let mut budget = Budget { steps: 10, bytes: usize::MAX };
    let mut found = 0;
    let snapshot = store.read().unwrap();
    let progress =
        snapshot.advance(Space::Served, &mut query, &mut budget, &mut |_| found += 1).unwrap();
    assert_eq!((progress, found, budget.steps), (Progress::Paused, 10, 0));
}

#[test]
fn a_pause_survives_changes_on_both_sides_of_it() {
    let store = temporary();
    let events = crowd(&store);
    let line = store.read().unwrap().last_serial().unwrap();
    let mut query = cursor(&[Filter::default()], line);
    let mut found = Vec::new();
    let snapshot = store.read().unwrap();
    let mut budget = Budget { steps: 100, bytes: usize::MAX };
    let mut sink = |hit: grasp_store::Hit<'_>| found.push(hit.position.id());
    assert_eq!(
        snapshot.advance(Space::Served, &mut query, &mut budget, &mut sink).unwrap(),
        Progress::Paused
    );
    drop(snapshot);
    let (before, at, after) = (&events[50], &events[99], &events[150]);
    for gone in [before, at, after] {
        assert!(store.remove(gone));
    }
    store.put_all([&numbered(1, 'z', 1, 9_999), &numbered(1, 'z', 74, 9_998)]);
    found.extend(whole(&store, &mut query));
    let mut expected = ids(&events);
    expected.retain(|id| *id != after.id);
    assert_eq!(found, expected, "each once, and only what was there all the while");
}

#[test]
fn limit_zero_and_void_filters_find_nothing_and_hide_nothing() {
    let store = temporary();
    store.put_all(&[event(1, 'a', 5, 1)]);
    for filters in [
        vec![],
        vec![limited(0)],
        vec![Filter { kinds: Some(vec![]), ..Filter::default() }],
        vec![limited(0), Filter { ids: Some(vec![]), ..Filter::default() }],
    ] {
        let mut query = cursor(&filters, u64::MAX);
        assert_eq!(whole(&store, &mut query), []);
        assert!(!query.has_more());
    }
    let both = [limited(0), limited(1)];
    assert_eq!(whole(&store, &mut cursor(&both, u64::MAX)).len(), 1);
}

#[test]
fn bodies_are_the_stored_bytes_and_positions_carry_none() {
    let store = temporary();
    let mut note = event(1, 'a', 5, 1).tag(&["x", "\u{1}\"\\ü🦀\u{2028}"]);
    note.content = "\u{7f}\0\n".to_owned();
    let note = note.verified();
    let mut serial = 0;
    store.change(|txn| {
        if let Put::Stored { serial: new, .. } = txn.put(Space::Served, &note, &received())? {
            serial = new;
        }
        Ok(())
    });
    for (want, body) in [(Want::Bodies, note.json().as_ref()), (Want::Positions, b"".as_slice())] {
        let mut query = Cursor::new(vec![Filter::default()], want, u64::MAX, NOW);
        let snapshot = store.read().unwrap();
        let mut budget = crate::world::boundless();
        let mut sink = |hit: grasp_store::Hit<'_>| {
            assert_eq!((hit.json, hit.serial, hit.kind), (body, serial, note.kind));
        };
        snapshot.advance(Space::Served, &mut query, &mut budget, &mut sink).unwrap();
    }
}

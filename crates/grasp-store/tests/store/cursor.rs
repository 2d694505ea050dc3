use crate::world::{Draft, NOW, Verbs, event, ids, numbered, received, temporary, who};
use grasp_core::{Event, EventId, Filter, Kind, PubKey};
use grasp_store::{Budget, Cursor, EventStore, LmdbStore, Progress, Put, Space, Want};
use grasp_testkit::Random;

fn cursor(filters: &[Filter], serial_max: u64) -> Cursor {
    Cursor::new(filters.into(), Want::Bodies, serial_max, NOW)
}

/// Goes on until the query ends; returns what was found and how many calls it took.
fn drain(
    store: &LmdbStore,
    cursor: &mut Cursor,
    mut page: impl FnMut() -> Budget,
) -> (Vec<EventId>, usize) {
    let mut found = Vec::new();
    for calls in 1..10_000 {
        let snapshot = store.read().unwrap();
        let mut sink = |hit: grasp_store::Hit<'_>| found.push(hit.position.id());
        let progress = snapshot.advance(Space::Served, cursor, &mut page(), &mut sink).unwrap();
        if progress == Progress::Done {
            return (found, calls);
        }
    }
    panic!("a query without end")
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
    let by_id =
        Filter { ids: Some(ids([&stored, &live[0], &live[1]]).into()), ..Filter::default() };
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
    assert_eq!(two.has_more(), Some(false), "the older one was committed after the line");
    let mut one = cursor(&[limited(1)], line);
    assert_eq!(whole(&store, &mut one), ids(&stored[..1]));
    assert_eq!(one.has_more(), Some(true));
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
    let kinds = Filter { kinds: Some([Kind(1)].into()), ..Filter::default() };
    let authors = Filter { authors: Some([who('a')].into()), ..limited(40) };
    let questions = [
        vec![Filter::default()],
        vec![limited(7)],
        vec![tagged(b't', &["1", "3"]), tagged(b'p', &["2"])],
        vec![kinds.clone(), authors.clone(), limited(3)],
        vec![Filter { kinds: kinds.kinds, ..tagged(b'p', &["0", "1", "2", "3", "4", "5"]) }],
        vec![Filter {
            tags: [(b't', ["1".into()].into()), (b'p', ["1".into()].into())].into(),
            ..authors
        }],
    ];
    let mut random = Random::seeded(7);
    for filters in &questions {
        let mut at_once = cursor(filters, u64::MAX);
        let expected = whole(&store, &mut at_once);
        assert!(!expected.is_empty() && at_once.has_more().is_some());
        for steps in [1, 2, 3, 50] {
            for bytes in [1, 400, usize::MAX] {
                let mut paged = cursor(filters, u64::MAX);
                let (found, calls) = drain(&store, &mut paged, || Budget { steps, bytes });
                assert_eq!(found, expected, "{steps} steps, {bytes} bytes: {filters:?}");
                assert!(paged.has_more().is_none_or(|more| Some(more) == at_once.has_more()));
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
fn a_query_that_has_all_it_asked_for_does_not_go_on_to_see_whether_there_is_more() {
    let store = temporary();
    crowd(&store);
    let mut query = cursor(&[limited(10)], u64::MAX);
    let (found, calls) = drain(&store, &mut query, || Budget { steps: 10, bytes: usize::MAX });
    assert_eq!((found.len(), calls, query.has_more()), (10, 1, None));
}

#[test]
fn a_filter_too_wide_for_one_index_is_answered_all_the_same() {
    let store = temporary();
    let events = crowd(&store);
    let mut random = Random::seeded(8);
    let mut keys: Vec<PubKey> = (0..400)
        .map(|_| PubKey::from_bytes(random.bytes32()))
        .chain([who('a'), who('c')])
        .collect();
    keys.sort();
    let kinds = Some((0..400).map(Kind).collect());
    let mut values: Vec<String> = (0..25_000).map(|n| (n + 3).to_string()).collect();
    values.sort();
    let narrow = |authors| Filter { authors: Some(authors), ..Filter::default() };
    let by_tag = Filter { tags: [(b'p', values.into())].into(), ..Filter::default() };
    for wide in [
        Filter { kinds, ..narrow(keys.clone().into()) },
        by_tag.clone(),
        Filter { kinds: Some([Kind(1)].into()), ..by_tag.clone() },
        Filter { tags: by_tag.tags, ..narrow(keys.into()) },
    ] {
        let expected = events.iter().filter(|event| wide.matches(event));
        let expected: Vec<EventId> = expected.map(|event| event.id).collect();
        assert!(!expected.is_empty() && expected.len() < events.len());
        assert_eq!(whole(&store, &mut cursor(std::slice::from_ref(&wide), u64::MAX)), expected);
        let page = || Budget { steps: 40, bytes: usize::MAX };
        assert_eq!(drain(&store, &mut cursor(&[wide], u64::MAX), page).0, expected);
    }
}

#[test]
fn limit_zero_and_void_filters_find_nothing_and_hide_nothing() {
    let store = temporary();
    store.put_all(&[event(1, 'a', 5, 1)]);
    for filters in [
        vec![],
        vec![limited(0)],
        vec![Filter { kinds: Some([].into()), ..Filter::default() }],
        vec![limited(0), Filter { ids: Some([].into()), ..Filter::default() }],
    ] {
        let mut query = cursor(&filters, u64::MAX);
        assert_eq!(whole(&store, &mut query), []);
        assert_eq!(query.has_more(), Some(false));
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
        let mut query = Cursor::new([Filter::default()].into(), want, u64::MAX, NOW);
        let snapshot = store.read().unwrap();
        let mut budget = crate::world::boundless();
        let mut sink = |hit: grasp_store::Hit<'_>| {
            assert_eq!((hit.json, hit.serial, hit.kind), (body, serial, note.kind));
        };
        snapshot.advance(Space::Served, &mut query, &mut budget, &mut sink).unwrap();
    }
}

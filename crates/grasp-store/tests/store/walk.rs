use crate::world::{Draft, Verbs, event, numbered, temporary};
use grasp_core::Kind;
use grasp_store::{EventStore, LmdbStore, Space, StoredEvent};
use std::ops::RangeInclusive;

/// Serials found, and where to go on.
fn walk(
    store: &LmdbStore,
    space: Space,
    serials: RangeInclusive<u64>,
    kinds: &[u16],
    rows_max: usize,
) -> (Vec<u64>, Option<u64>) {
    let kinds: Vec<Kind> = kinds.iter().copied().map(Kind).collect();
    let mut found = Vec::new();
    let mut sink = |it: StoredEvent| found.push(it.serial);
    let snapshot = store.read().unwrap();
    let next = snapshot.walk(space, serials, &kinds, rows_max, &mut sink).unwrap();
    (found, next)
}

#[test]
fn a_walk_is_in_the_order_of_storing_whatever_the_events_say() {
    let store = temporary();
    for (number, at) in [(1, 50), (2, 10), (3, 90), (4, 20)] {
        store.put_in(Space::Served, &numbered(1, 'a', at, number));
    }
    let all = 1..=u64::MAX;
    assert_eq!(walk(&store, Space::Served, all, &[1], 10), (vec![1, 2, 3, 4], None));
    assert_eq!(walk(&store, Space::Served, 2..=3, &[1], 10), (vec![2, 3], None));
    assert_eq!(walk(&store, Space::Served, 0..=0, &[1], 10), (vec![], None));
    #[expect(clippy::reversed_empty_ranges, reason = "what is asked for when nothing is new")]
    let nothing = 5..=4;
    assert_eq!(walk(&store, Space::Served, nothing, &[1], 10), (vec![], None));
}

#[test]
fn a_walk_stops_after_so_many_rows_and_goes_on_from_there() {
    let store = temporary();
    for number in 1..=7 {
        let kind = if number % 3 == 0 { 30_617 } else { 1 };
        store.put_in(Space::Served, &numbered(kind, 'a', number, number).d(&number.to_string()));
    }
    let all = || 1..=u64::MAX;
    assert_eq!(walk(&store, Space::Served, all(), &[30_617], 4), (vec![3], Some(5)));
    assert_eq!(walk(&store, Space::Served, 5..=u64::MAX, &[30_617], 4), (vec![6], None));
    assert_eq!(walk(&store, Space::Served, all(), &[30_617], 7), (vec![3, 6], None));
    assert_eq!(walk(&store, Space::Served, all(), &[], 3), (vec![], Some(4)));
}

#[test]
fn spaces_share_their_numbers_and_what_went_is_not_met() {
    let store = temporary();
    let (first, second) = (event(30_617, 'a', 1, 1).d("acme"), event(30_617, 'a', 2, 2).d("acme"));
    store.put_in(Space::Held, &first);
    store.put_in(Space::Served, &first);
    store.put_in(Space::Served, &second);
    let kinds = [30_617];
    assert_eq!(walk(&store, Space::Held, 1..=9, &kinds, 9).0, [1]);
    assert_eq!(walk(&store, Space::Served, 1..=9, &kinds, 9).0, [3], "2 was replaced");
}

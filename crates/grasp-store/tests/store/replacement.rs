use crate::world::{Draft, Verbs, address, event, ids, permutations, temporary, who};
use grasp_core::{Event, Filter, Kind};
use grasp_store::{EventStore, LmdbStore, Put, Space};

fn current(store: &LmdbStore, kind: u16, identifier: &str) -> Option<Event> {
    let of = address(kind, 'a', identifier);
    let found = store.read().unwrap().current(Space::Served, &of).unwrap();
    found.map(|found| found.event.event().clone())
}

#[test]
fn whatever_order_versions_arrive_in_the_latest_with_the_lowest_id_stays() {
    for kind in [0, 3, 10_000, 10317, 19_999, 30_000, 30617, 30618, 39_999] {
        let versions = [(7, 5), (7, 2), (7, 9), (6, 1)];
        let versions = versions.map(|(at, id)| event(kind, 'a', at, id).d("acme"));
        let identifier = if Kind(kind).is_addressable() { "acme" } else { "" };
        for order in permutations(&versions) {
            let store = temporary();
            store.put_all(&order);
            assert_eq!(current(&store, kind, identifier), Some(versions[1].clone()), "{kind}");
            assert_eq!(store.find(Filter::default()), ids([&versions[1]]), "{order:?}");
        }
    }
}

#[test]
fn a_put_tells_what_became_of_the_event() {
    let store = temporary();
    let older = event(30617, 'a', 5, 3).d("acme");
    let newer = event(30617, 'a', 6, 9).d("acme");
    let tie_lost = event(30617, 'a', 6, 10).d("acme");
    let tie_won = event(30617, 'a', 6, 8).d("acme");
    assert_eq!(store.put(&older), Put::Stored { serial: 1, replaced: None });
    assert_eq!(store.put(&newer), Put::Stored { serial: 2, replaced: Some(older.id) });
    assert_eq!(store.put(&newer), Put::Duplicate);
    assert_eq!(store.put(&older), Put::Superseded);
    assert_eq!(store.put(&tie_lost), Put::Superseded);
    assert_eq!(store.put(&tie_won), Put::Stored { serial: 3, replaced: Some(newer.id) });
}

#[test]
fn events_of_other_kinds_never_replace_each_other() {
    let store = temporary();
    for kind in [1, 5, 62, 1059, 1617, 1618, 1621, 40_000, 65_535] {
        let first = event(kind, 'a', 5, 1).d("acme");
        let second = event(kind, 'a', 6, 2).d("acme");
        store.put_all([&first, &second]);
        assert!(store.has(&first) && store.has(&second), "{kind}");
        assert!(store.remove(&first) && store.remove(&second));
    }
}

#[test]
fn long_identifiers_with_a_common_beginning_are_different_addresses() {
    let store = temporary();
    let prefix = "x".repeat(2_000);
    let names = ["", "a", "b", "aa"].map(|end| format!("{prefix}{end}"));
    let versions: Vec<Event> =
        names.iter().zip(1..).map(|(d, id)| event(30617, 'a', 5, id).d(d)).collect();
    store.put_all(&versions);
    for (name, version) in names.iter().zip(&versions) {
        assert_eq!(current(&store, 30617, name).as_ref(), Some(version));
        let tags = [(b'd', [name.clone()].into())].into();
        assert_eq!(store.find(Filter { tags, ..Filter::default() }), ids([version]));
    }
    let newer = event(30617, 'a', 6, 9).d(&names[1]);
    assert!(matches!(store.put(&newer), Put::Stored { replaced: Some(_), .. }));
    assert!(!store.has(&versions[1]) && store.has(&versions[0]) && store.has(&versions[3]));
}

#[test]
fn colons_in_an_identifier_do_not_move_the_borders_of_an_address() {
    let store = temporary();
    let names = ["a", "a:b", "a:b:c", ":", "::", ":a"];
    let versions: Vec<Event> =
        names.iter().zip(1..).map(|(d, id)| event(30617, 'a', 5, id).d(d)).collect();
    store.put_all(&versions);
    for (name, version) in names.iter().zip(&versions) {
        let parsed = address(30617, 'a', name).to_string().parse().unwrap();
        let found = store.read().unwrap().current(Space::Served, &parsed).unwrap().unwrap();
        assert_eq!(found.event.event(), version);
    }
}

#[test]
fn an_addressable_event_without_d_is_the_one_with_an_empty_d() {
    let bare = event(30617, 'a', 5, 1);
    let empty = event(30617, 'a', 6, 2).d("");
    let valueless = event(30617, 'a', 7, 3).tag(&["d"]);
    let named = event(30617, 'a', 1, 4).d("x");
    for order in permutations(&[bare, empty, valueless.clone(), named.clone()]) {
        let store = temporary();
        store.put_all(&order);
        assert_eq!(store.find(Filter::default()), ids([&valueless, &named]));
        assert_eq!(current(&store, 30617, ""), Some(valueless.clone()));
    }
}

#[test]
fn only_the_first_d_tag_counts() {
    let store = temporary();
    let two = event(30617, 'a', 5, 1).d("x").d("y");
    let y = event(30617, 'a', 9, 2).d("y");
    store.put_all([&two, &y]);
    assert!(store.has(&two) && store.has(&y));
    assert_eq!(current(&store, 30617, "y"), Some(y));
}

#[test]
fn another_author_or_kind_is_another_address() {
    let store = temporary();
    let versions = [
        event(30617, 'a', 5, 1).d("acme"),
        event(30617, 'b', 6, 2).d("acme"),
        event(30618, 'a', 7, 3).d("acme"),
    ];
    store.put_all(&versions);
    assert!(versions.iter().all(|version| store.has(version)));
    let snapshot = store.read().unwrap();
    for kind in [30617, 30618] {
        let own = snapshot.by_author(Space::Served, &who('a'), Kind(kind), 9).unwrap();
        assert_eq!(own.len(), 1, "{kind}");
    }
}

#[test]
fn when_the_current_version_is_removed_an_older_one_may_come_back() {
    let store = temporary();
    let older = event(30617, 'a', 5, 1).d("acme");
    let newer = event(30617, 'a', 6, 2).d("acme");
    store.put_all([&newer]);
    assert_eq!(store.put(&older), Put::Superseded);
    assert!(store.remove(&newer));
    assert_eq!(current(&store, 30617, "acme"), None);
    assert!(matches!(store.put(&older), Put::Stored { replaced: None, .. }));
}

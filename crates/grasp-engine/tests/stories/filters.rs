//! Section 2, the shape of what is asked: three layers, a hundred values, stable groups.

use super::kit::*;
use grasp_core::{Filter, Kind};
use grasp_engine::{Peer, Settings};
use grasp_testkit::world::Bench;
use grasp_testkit::world::names::{event_id, repo};
use std::collections::BTreeSet;

fn tagged(letter: u8, value: &str) -> Filter {
    let mut filter = Filter { limit: Some(0), ..Filter::default() };
    filter.tags.insert(letter, [value.to_owned()].into());
    filter
}

fn of_kind(kind: Kind) -> Filter {
    Filter { kinds: Some([kind].into()), ..Filter::default() }
}

// ---- S-7 layer 1

#[test]
fn s7_all_announcements_and_states_of_the_relay_are_heard() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    let live = net.live_filters("one");
    for kind in [Kind::ANNOUNCEMENT, Kind::STATE] {
        assert!(live.contains(&Filter { limit: Some(0), ..of_kind(kind) }), "{live:?}");
    }
}

#[test]
fn s7_layer_one_is_opened_once_per_connection() {
    let mut net = settled(&[("one", "acme")]);
    let layer_one = |net: &Bench| {
        let first = |filters: &[Filter]| filters.iter().all(|it| it.tags.is_empty());
        net.listens("one").into_iter().filter(|it| first(&it.1)).collect::<Vec<_>>()
    };
    let before = layer_one(&net);
    for n in 1..=10 {
        net.announce(&format!("lib{n}"), &["one"]);
        net.root(n, "acme");
        net.elapse(6 * SECOND);
        let asked = drained(&mut net, "one");
        assert!(asked.iter().all(|it| !it.tags.is_empty()), "no history of layer 1 either");
    }
    assert_eq!(layer_one(&net), before);
}

#[test]
fn s7_announcements_come_before_states_and_these_before_everything_else() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.root(1, "acme");
    net.connect("one");
    let first = reconcile(&mut net, "one");
    assert_eq!(first.filter, of_kind(Kind::ANNOUNCEMENT));
    net.reconciled("one", first.sub, vec![]);
    let second = reconcile(&mut net, "one");
    assert_eq!(second.filter, of_kind(Kind::STATE));
    assert_eq!(net.requests("one").len(), 0, "nothing overtakes them");
    net.reconciled("one", second.sub, vec![]);
    assert!(about(&history(&mut net, "one"), "acme"));
}

#[test]
fn s7_a_layer_one_that_fails_does_not_keep_the_rest_waiting_for_ever() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    let first = reconcile(&mut net, "one");
    net.ends("one", first.sub, grasp_engine::End::NegentropyFailed("internal error".to_owned()));
    let again = request(&mut net, "one");
    net.closed("one", again.sub, "error: internal");
    let asked = drained(&mut net, "one");
    assert!(about(&asked, "acme"));
    assert!(asked.contains(&of_kind(Kind::ANNOUNCEMENT)), "it is asked for again too");
}

// ---- S-8 layers 2 and 3

#[test]
fn s8_whatever_refers_to_a_repository_is_heard_under_three_letters() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    let live: Vec<Filter> =
        net.live_filters("one").into_iter().filter(|it| !it.tags.is_empty()).collect();
    let acme = repo("acme").coordinate().to_string();
    let expected: Vec<Filter> = b"aAq".iter().map(|letter| tagged(*letter, &acme)).collect();
    assert_eq!(live, expected, "any kind, one letter each");
}

#[test]
fn s8_whatever_refers_to_a_root_is_heard_under_three_letters() {
    let mut net = settled(&[("one", "acme")]);
    let before = net.live_filters("one").len();
    net.root(1, "acme");
    net.elapse(5 * SECOND);
    let root = event_id(1).to_hex();
    let expected: Vec<Filter> = b"eEq".iter().map(|letter| tagged(*letter, &root)).collect();
    assert_eq!(net.live_filters("one")[before..], expected);
}

#[test]
fn s8_the_past_is_asked_for_under_the_same_letters() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.root(1, "acme");
    net.connect("one");
    let asked = drained(&mut net, "one");
    let (acme, root) = (repo("acme").coordinate().to_string(), event_id(1).to_hex());
    for (letters, value) in [(b"aAq", &acme), (b"eEq", &root)] {
        for letter in letters {
            let wanted = Filter { limit: None, ..tagged(*letter, value) };
            assert_eq!(asked.iter().filter(|it| **it == wanted).count(), 1, "{wanted:?}");
        }
    }
    let by_layer: Vec<&Filter> =
        asked.iter().filter(|it| it.tags.keys().any(|it| b"aAqeE".contains(it))).collect();
    assert_eq!(by_layer.len(), 6, "and under no other: {by_layer:?}");
}

// ---- S-9 groups

#[test]
fn s9_at_most_a_hundred_values_share_a_filter() {
    let mut net = following(Settings::default(), &named(250), "one");
    for n in 0..250 {
        net.root(n, "repo0");
    }
    net.elapse(6 * SECOND);
    net.connect_with("one", allowing(500));
    let live = net.live_filters("one");
    for (letter, count) in [(b'a', 250), (b'A', 250), (b'e', 250), (b'E', 250), (b'q', 500)] {
        let lists: Vec<usize> =
            live.iter().filter_map(|it| it.tags.get(&letter)).map(|list| list.len()).collect();
        assert!(lists.iter().all(|len| *len <= 100), "{lists:?}");
        assert_eq!(lists.iter().sum::<usize>(), count);
        assert_eq!(values(&live, letter).len(), count, "each value once");
    }
}

#[test]
fn s9_open_groups_stay_open_when_items_are_added() {
    let mut net = following(Settings::default(), &named(150), "one");
    net.connect("one");
    net.settle("one");
    let before = net.listens("one");
    net.closes("one");
    net.announce("aaaa-sorts-first", &["one"]);
    net.root(1, "repo7");
    net.elapse(6 * SECOND);
    net.settle("one");
    assert_eq!(net.closes("one"), []);
    let after = net.listens("one");
    assert!(before.iter().all(|it| after.contains(it)), "as they were");
    assert!(hears(&net, "one", "aaaa-sorts-first") && hears_root(&net, "one", 1));
}

#[test]
fn s9_the_same_wants_make_the_same_groups() {
    let told = || {
        let mut net = following(Settings::default(), &named(230), "one");
        (0..120).for_each(|n| net.root(n, "repo3"));
        net.elapse(6 * SECOND);
        net.connect("one");
        net
    };
    let filters = told().live_filters("one");
    assert_eq!(filters, told().live_filters("one"));
    for filter in &filters {
        for list in filter.tags.values() {
            assert!(list.is_sorted(), "{list:?}");
        }
    }
}

#[test]
fn s9_a_request_never_exceeds_its_bytes() {
    // The watch weighs every request; here the names are as long as they get, and need escapes.
    let names: Vec<String> = (0..300).map(|n| format!("{n:03}{}", "\"".repeat(248))).collect();
    for bytes in [None, Some(128 << 10), Some(16 << 10), Some(4 << 10)] {
        let mut net = following(Settings::default(), &names, "one");
        let peer = Peer { message_bytes_max: bytes, ..allowing(500) };
        net.connect_with("one", peer);
        net.settle("one");
        let seen = view(&net, "one");
        assert_eq!((seen.missing, seen.pending), (0, 0), "{bytes:?}");
        let heard: BTreeSet<&String> =
            names.iter().filter(|name| hears(&net, "one", name)).collect();
        assert_eq!(heard.len(), 300, "{bytes:?}");
    }
}

#[test]
fn s9_ids_by_name_do_not_exceed_the_bytes_either() {
    let mut net = Bench::tracking([("one", "acme")]);
    let peer = Peer { message_bytes_max: Some(8 << 10), ..Peer::default() };
    net.connect_with("one", peer);
    let first = reconcile(&mut net, "one");
    // 300 ids are 20 KB.
    net.reconciled("one", first.sub, ids(0..300));
    let mut asked = BTreeSet::new();
    for _ in 0..20 {
        for request in net.requests("one") {
            asked.extend(request.filters[0].ids.as_deref().unwrap().iter().copied());
            net.completes("one", request.sub, grasp_testkit::world::empty_page(1));
        }
        net.elapse(SECOND);
    }
    assert_eq!(asked.len(), 300, "in smaller requests, all of them");
}

#[test]
fn s9_a_relay_that_takes_less_on_its_next_link_is_asked_in_smaller_requests() {
    // The first time it did not say what it takes; the watch weighs what it is asked later.
    let mut net = following(Settings::default(), &named(200), "one");
    net.connect_with("one", allowing(500));
    net.settle("one");
    net.fails("one");
    let peer = Peer { message_bytes_max: Some(4 << 10), ..allowing(500) };
    net.connect_with("one", peer);
    net.settle("one");
    assert!(named(200).iter().all(|name| hears(&net, "one", name)));
}

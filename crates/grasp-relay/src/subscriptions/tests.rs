use super::*;
use grasp_core::id::Signature;
use grasp_core::{EventId, Kind, PubKey, Tag, Timestamp};
use proptest::prelude::*;

fn sub(text: &str) -> SubId {
    SubId::parse(text).unwrap()
}

fn event(id: u8, author: u8, kind: u16, tags: &[(&str, &str)]) -> Event {
    let tag = |(name, value): &(&str, &str)| Tag(vec![name.to_string(), value.to_string()]);
    Event {
        id: EventId::from_bytes([id; 32]),
        pubkey: PubKey::from_bytes([author; 32]),
        created_at: Timestamp(u64::from(id)),
        kind: Kind(kind),
        tags: tags.iter().map(tag).collect(),
        content: String::new(),
        sig: Signature::from_bytes([0; 64]),
    }
}

fn filters(json: &str) -> Arc<[Filter]> {
    serde_json::from_str::<Vec<Filter>>(json).unwrap().into()
}

#[test]
fn a_subscription_with_several_matching_filters_hears_once() {
    let mut all = Subscriptions::default();
    all.insert(ConnId(1), sub("a"), filters(r##"[{"kinds":[1]},{},{"#t":["x"]}]"##));
    let tagged = event(1, 1, 1, &[("t", "x"), ("t", "x")]);
    assert_eq!(all.matching(&tagged), [(ConnId(1), sub("a"))]);
}

#[test]
fn names_belong_to_their_connection_and_a_new_one_replaces_the_old() {
    let mut all = Subscriptions::default();
    all.insert(ConnId(1), sub("a"), filters(r#"[{"kinds":[1]}]"#));
    all.insert(ConnId(2), sub("a"), filters(r#"[{"kinds":[1]}]"#));
    all.insert(ConnId(1), sub("a"), filters(r#"[{"kinds":[2]}]"#));
    assert_eq!(all.matching(&event(1, 1, 1, &[])), [(ConnId(2), sub("a"))]);
    assert_eq!(all.matching(&event(1, 1, 2, &[])), [(ConnId(1), sub("a"))]);
    assert!(!all.remove(ConnId(3), &sub("a")));
    assert!(all.remove(ConnId(2), &sub("a")));
    assert!(!all.remove(ConnId(2), &sub("a")));
    assert!(all.matching(&event(1, 1, 1, &[])).is_empty());
}

#[test]
fn nothing_stays_behind_when_everybody_leaves() {
    let mut all = Subscriptions::default();
    for conn in 0..50 {
        all.insert(ConnId(conn), sub("a"), filters(r##"[{"#t":["x","y","z"]},{"kinds":[1]}]"##));
        all.insert(ConnId(conn), sub("b"), filters(r#"[{"kinds":[]},{}]"#));
    }
    assert_eq!(all.len(), 100);
    for conn in 0..50 {
        all.remove_connection(ConnId(conn));
    }
    assert!(all.is_empty() && all.by_key.is_empty() && all.by_name.is_empty());
    all.insert(ConnId(1), sub("a"), filters("[{}]"));
    assert_eq!(all.slots.len(), 100, "freed places are used again");
}

#[test]
fn an_event_is_compared_only_with_filters_it_could_meet() {
    let mut all = Subscriptions::default();
    for conn in 0..1_000 {
        let mine = format!(r##"[{{"#a":["repo{conn}"],"kinds":[1621]}}]"##);
        all.insert(ConnId(conn), sub("a"), filters(&mine));
    }
    let reached = event(1, 1, 1621, &[("a", "repo7"), ("a", "repo8")]);
    assert_eq!(all.candidates(&reached).len(), 2);
    assert_eq!(all.matching(&reached).len(), 2);
}

fn some_filter() -> impl Strategy<Value = Filter> {
    let ids = prop::option::weighted(0.2, prop::collection::btree_set(0u8..6, 0..3));
    let authors = prop::option::weighted(0.3, prop::collection::btree_set(0u8..4, 0..3));
    let kinds = prop::option::weighted(0.4, prop::collection::btree_set(0u16..4, 0..3));
    let letters = prop::sample::select(vec![b't', b'T', b'e']);
    let values = prop::collection::btree_set("[xyz]", 0..3);
    let tags = prop::collection::btree_map(letters, values, 0..3);
    let time = || prop::option::weighted(0.2, 0u64..6);
    (ids, authors, kinds, tags, time(), time()).prop_map(|(ids, authors, kinds, tags, s, u)| {
        Filter {
            ids: ids.map(|s| s.into_iter().map(|b| EventId::from_bytes([b; 32])).collect()),
            authors: authors.map(|s| s.into_iter().map(|b| PubKey::from_bytes([b; 32])).collect()),
            kinds: kinds.map(|s| s.into_iter().map(Kind).collect()),
            tags: tags.into_iter().map(|(l, v)| (l, v.into_iter().collect())).collect(),
            since: s.map(Timestamp),
            until: u.map(Timestamp),
            limit: None,
        }
    })
}

fn some_event() -> impl Strategy<Value = Event> {
    let name = prop::sample::select(vec!["t", "T", "e", "tt", "-"]);
    let tags = prop::collection::vec((name, "[xyz]"), 0..5);
    (0u8..6, 0u8..4, 0u16..4, tags).prop_map(|(id, author, kind, tags)| {
        let tags: Vec<(&str, &str)> = tags.iter().map(|(n, v)| (*n, v.as_str())).collect();
        event(id, author, kind, &tags)
    })
}

#[derive(Debug, Clone)]
enum Step {
    Insert(u64, &'static str, Vec<Filter>),
    Remove(u64, &'static str),
    Leave(u64),
}

fn some_step() -> impl Strategy<Value = Step> {
    let name = || prop::sample::select(vec!["a", "b", "c"]);
    prop_oneof![
        6 => (0u64..4, name(), prop::collection::vec(some_filter(), 0..4))
            .prop_map(|(conn, name, filters)| Step::Insert(conn, name, filters)),
        2 => (0u64..4, name()).prop_map(|(conn, name)| Step::Remove(conn, name)),
        1 => (0u64..4).prop_map(Step::Leave),
    ]
}

proptest! {
    #[test]
    fn the_index_answers_as_a_scan_over_all_filters_would(
        steps in prop::collection::vec(some_step(), 0..30),
        events in prop::collection::vec(some_event(), 1..20),
    ) {
        let mut index = Subscriptions::default();
        let mut naive: BTreeMap<(ConnId, SubId), Vec<Filter>> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Insert(conn, name, filters) => {
                    index.insert(ConnId(conn), sub(name), filters.clone().into());
                    naive.insert((ConnId(conn), sub(name)), filters);
                }
                Step::Remove(conn, name) => {
                    let removed = index.remove(ConnId(conn), &sub(name));
                    prop_assert_eq!(removed, naive.remove(&(ConnId(conn), sub(name))).is_some());
                }
                Step::Leave(conn) => {
                    index.remove_connection(ConnId(conn));
                    naive.retain(|(of, _), _| *of != ConnId(conn));
                }
            }
        }
        prop_assert_eq!(index.len(), naive.len());
        for event in events {
            let mut found = index.matching(&event);
            found.sort();
            let matches = |filters: &Vec<Filter>| filters.iter().any(|f| f.matches(&event));
            let scan = naive.iter().filter(|(_, f)| matches(f)).map(|(name, _)| name.clone());
            prop_assert_eq!(found, scan.collect::<Vec<_>>());
        }
    }
}

//! What a relay may cost us in events that we refuse.

use super::kit::*;
use grasp_core::{Filter, Time};
use grasp_engine::{Health, Input, JudgedEvents, News, Record, RefusedBudget, RelayTrouble};
use grasp_testkit::world::Bench;
use grasp_testkit::world::names::relay;

const MIB: u64 = 1 << 20;

fn judges(net: &mut Bench, name: &str, judged: JudgedEvents) {
    net.input(Input::Judged { relay: relay(name), judged });
}

fn refuses(net: &mut Bench, name: &str, bytes: u64) {
    let judged = JudgedEvents { refused: 1, refused_bytes: bytes, ..JudgedEvents::default() };
    judges(net, name, judged);
}

fn is_asked_by_name(net: &Bench, name: &str) -> bool {
    let live = net.live_filters(name);
    let by_name =
        |it: &Filter| it.tags.get(&b'd').is_some_and(|it| it.iter().any(|d| *d == "acme"));
    live.iter().any(by_name) && !live.iter().any(|it| it.tags.is_empty())
}

fn reads_everything(net: &mut Bench, name: &str) -> bool {
    drained(net, name).iter().any(|it| it.tags.is_empty() && it.ids.is_none())
}

#[test]
fn s47_sixteen_mebibytes_of_refused_events_end_the_questions_for_everything_for_a_day() {
    let mut net = settled(&[("one", "acme"), ("two", "acme")]);
    refuses(&mut net, "one", 16 * MIB - 1);
    assert!(hears_layer_one(&net, "one") && !is_asked_by_name(&net, "one"));
    refuses(&mut net, "one", 1);
    assert!(is_asked_by_name(&net, "one"));
    assert!(hears(&net, "one", "acme"), "what refers to our repositories still comes");
    assert!(hears_layer_one(&net, "two"), "nothing changes for the other relay");
    let troubles = net.engine.relay_troubles(10, net.now);
    let [(troubled, RelayTrouble::RefusedEvents { bytes, .. })] = troubles.as_slice() else {
        panic!("{troubles:?}");
    };
    assert_eq!((troubled, *bytes), (&relay("one"), 16 * MIB));
    net.settle("one");
    drained(&mut net, "one");
    net.input(Input::Refresh { relay: Some(relay("one")), repo: None });
    assert!(!reads_everything(&mut net, "one"), "a full sync does not ask for everything either");
    net.elapse(DAY);
    assert!(hears_layer_one(&net, "one"));
    assert!(reads_everything(&mut net, "one"), "its past was not read to the end");
    assert!(net.engine.relay_troubles(10, net.now).is_empty());
}

#[test]
fn s47_a_flood_whose_pages_move_back_ends_at_the_budget() {
    let mut net = following(pages_only(), &["acme".to_owned()], "one");
    net.connect("one");
    let everything = request(&mut net, "one");
    assert!(everything.filters.iter().all(|it| it.tags.is_empty()), "{everything:?}");
    refuses(&mut net, "one", 16 * MIB);
    net.settle("one");
    assert!(is_asked_by_name(&net, "one"));
    assert!(!reads_everything(&mut net, "one"), "no page of it follows");
    assert_eq!(view(&net, "one").missing, 2, "layer 1 is not confirmed");
    assert!(view(&net, "one").settled, "and it is not waited for");
}

#[test]
fn s47_a_hundred_accepted_events_add_a_mebibyte_up_to_a_gibibyte() {
    let budget = |accepted| RefusedBudget { accepted, ..RefusedBudget::default() }.bytes_max();
    assert_eq!([0, 99, 100, 250].map(budget), [16, 16, 17, 18].map(|mib| mib * MIB));
    assert_eq!(budget(u64::MAX), 1 << 30);
    let mut net = settled(&[("one", "acme")]);
    judges(&mut net, "one", JudgedEvents { accepted: 1_000, ..JudgedEvents::default() });
    refuses(&mut net, "one", 26 * MIB - 1);
    assert!(!is_asked_by_name(&net, "one"));
    refuses(&mut net, "one", 1);
    assert!(is_asked_by_name(&net, "one"));
}

#[test]
fn s47_a_relay_below_one_percent_after_ten_thousand_events_is_asked_by_name() {
    for (accepted, known, refused, by_name) in
        [(99, 0, 9_900, false), (99, 0, 9_901, true), (0, 100, 9_900, false), (0, 99, 9_901, true)]
    {
        let mut net = settled(&[("one", "acme")]);
        let refused_bytes = refused * 400;
        judges(&mut net, "one", JudgedEvents { accepted, known, refused, refused_bytes });
        assert_eq!(is_asked_by_name(&net, "one"), by_name, "{accepted} {known} {refused}");
        net.elapse(DAY + MINUTE);
        assert_eq!(is_asked_by_name(&net, "one"), by_name, "the next day changes nothing");
    }
}

#[test]
fn s47_a_repository_that_is_announced_later_is_asked_for_by_name_too() {
    let mut net = settled(&[("one", "acme")]);
    refuses(&mut net, "one", 16 * MIB);
    net.announce("later", &["one"]);
    net.elapse(6 * SECOND);
    let live = net.live_filters("one");
    assert!(
        live.iter().any(|it| it.tags.get(&b'd').is_some_and(|it| it.iter().any(|d| *d == "later")))
    );
}

#[test]
fn s47_a_relay_that_floods_also_when_asked_by_name_is_left_alone_until_its_day_ends() {
    let mut net = settled(&[("one", "acme")]);
    refuses(&mut net, "one", 16 * MIB);
    refuses(&mut net, "one", MIB);
    assert!(view(&net, "one").connected);
    refuses(&mut net, "one", 1);
    assert!(!view(&net, "one").connected);
    assert!(matches!(view(&net, "one").health, Health::Banned { .. }));
    assert!(!net.engine.relay_troubles(10, net.now).is_empty());
    net.elapse(DAY + MINUTE);
    net.connect("one");
    assert!(hears_layer_one(&net, "one"), "a new day, a new budget");
}

#[test]
fn s47_the_budget_survives_a_restart_and_records_of_older_versions_are_read() {
    let mut net = settled(&[("one", "acme")]);
    refuses(&mut net, "one", 16 * MIB);
    net.restart_after(MINUTE);
    net.connect("one");
    assert!(is_asked_by_name(&net, "one"), "a restart gives no new budget");
    net.settle("one");
    assert!(!reads_everything(&mut net, "one"));
    net.restart_after(DAY);
    net.connect("one");
    assert!(hears_layer_one(&net, "one"));
    let mut old = serde_json::to_value(Record::default()).unwrap();
    old.as_object_mut().unwrap().remove("budget").unwrap();
    let read: Record = serde_json::from_value(old).unwrap();
    assert_eq!(read.budget, RefusedBudget { day_began: Time(0), ..RefusedBudget::default() });
}

#[test]
fn s47_it_is_told_once_that_a_relay_is_asked_by_name() {
    let mut net = settled(&[("one", "acme")]);
    for _ in 0..3 {
        refuses(&mut net, "one", 16 * MIB - 100);
    }
    let told = |news: &&News| matches!(news, News::AskedByName { spent: true, .. });
    assert_eq!(net.news().iter().filter(told).count(), 1);
}

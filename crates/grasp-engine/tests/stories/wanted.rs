//! Section 1: what we want, what is under way, what is confirmed, and the one subtraction.

use super::kit::*;
use grasp_core::{Filter, Kind};
use grasp_engine::{Action, End, Engine, Input, Settings};
use grasp_testkit::world::names::{event_id, relay, repo};
use grasp_testkit::world::{Bench, START, empty_page};

// ---- S-1 wanted

#[test]
fn s1_every_relay_an_announcement_lists_is_followed() {
    let mut net = Bench::tracking([("one", "acme"), ("two", "acme")]);
    for name in ["one", "two"] {
        net.connect(name);
        net.settle(name);
        assert!(hears(&net, name, "acme"), "{name}");
        assert_eq!(view(&net, name).missing + view(&net, name).pending, 0, "{name}");
    }
}

#[test]
fn s1_a_replaced_announcement_replaces_its_relay_list() {
    let mut net = settled(&[("one", "acme"), ("two", "acme")]);

    net.announce("acme", &["two", "three"]);
    net.elapse(10 * SECOND);
    assert!(net.is_dialled("three"), "the new one is dialled");
    net.elapse(MINUTE);
    assert_eq!(net.hangups("one"), 1, "the old one is not wanted any more");
    assert!(net.is_connected("two") && hears(&net, "two", "acme"));
}

#[test]
fn s1_a_relay_that_lost_one_of_its_repositories_is_not_asked_about_it_again() {
    let mut net = settled(&[("one", "acme"), ("one", "lib"), ("two", "acme")]);
    net.root(1, "acme");
    net.elapse(6 * SECOND);
    net.settle("one");

    net.announce("acme", &["two"]);
    net.elapse(6 * SECOND);
    net.fails("one");
    net.connect("one");
    assert!(hears(&net, "one", "lib"));
    assert!(!about(&net.live_filters("one"), "acme"), "acme does not list it any more");
    assert!(!about_root(&net.live_filters("one"), 1), "nor is its root wanted there");
}

#[test]
fn s1_a_root_that_names_several_repositories_belongs_to_all() {
    let mut net = settled(&[("one", "acme"), ("two", "lib"), ("three", "other")]);
    net.root_of(1, &["acme", "lib"]);
    net.elapse(5 * SECOND);
    for name in ["one", "two"] {
        assert!(hears_root(&net, name, 1), "{name} hears it");
        assert!(about_root(&history(&mut net, name), 1), "{name} is asked for its past");
    }
    assert!(!hears_root(&net, "three", 1));
    assert!(history(&mut net, "three").is_empty());
}

#[test]
fn s1_a_root_of_two_repositories_on_one_relay_is_asked_for_once() {
    let mut net = settled(&[("one", "acme"), ("one", "lib")]);
    net.root_of(1, &["acme", "lib"]);
    net.elapse(5 * SECOND);
    let asked = history(&mut net, "one");
    assert_eq!(asked.len(), 3, "#e, #E and #q, once each: {asked:?}");
}

#[test]
fn s1_a_root_belongs_to_a_repository_that_came_after_it_too() {
    let mut net = settled(&[("one", "acme")]);
    net.root_of(1, &["acme", "lib"]);
    net.elapse(6 * SECOND);
    net.settle("one");

    net.announce("lib", &["two"]);
    // The feed tells the roots of a repository that is new.
    let repos = vec![repo("acme"), repo("lib")];
    net.input(Input::Root { id: event_id(1), repos, serial: 2 });
    net.elapse(5 * SECOND);
    net.connect("two");
    assert!(hears_root(&net, "two", 1));
}

#[test]
fn s1_of_a_repository_that_waits_only_states_are_asked_for_by_name() {
    let mut net = Bench::new(Settings::default());
    net.announce_held("acme", &["one"]);
    net.root(1, "acme");
    net.replayed();
    net.connect("one");
    assert_eq!(net.live_filters("one").len(), 2, "layer 1 and nothing else");
    let asked = drained(&mut net, "one");
    let by_name: Vec<&Filter> = asked.iter().filter(|it| !it.tags.is_empty()).collect();
    let mut states = Filter { kinds: Some([Kind::STATE].into()), ..Filter::default() };
    states.tags.insert(b'd', ["acme".to_owned()].into());
    assert_eq!(by_name, [&states], "30618 by #d only, no layer 2 or 3");
}

#[test]
fn s1_a_promoted_repository_is_followed_in_full_on_every_relay() {
    let mut net = Bench::new(Settings::default());
    net.announce_held("acme", &["one", "two"]);
    net.root(1, "acme");
    net.replayed();
    for name in ["one", "two"] {
        net.connect(name);
        net.settle(name);
        assert!(!hears(&net, name, "acme"), "{name}: it waits for git data");
    }

    net.announce("acme", &["one", "two"]);
    net.elapse(5 * SECOND);
    for name in ["one", "two"] {
        assert!(hears(&net, name, "acme"), "{name}: layer 2");
        assert!(hears_root(&net, name, 1), "{name}: layer 3");
        let asked = drained(&mut net, name);
        assert!(about(&asked, "acme") && about_root(&asked, 1), "{name}: its past");
    }
}

#[test]
fn s1_a_newly_listed_relay_gets_the_old_roots_too() {
    let mut net = settled(&[("one", "acme"), ("two", "lib")]);
    net.root(1, "acme");
    net.elapse(6 * SECOND);
    net.settle("one");

    net.announce("acme", &["one", "two", "three"]);
    net.elapse(5 * SECOND);
    assert!(hears(&net, "two", "acme") && hears_root(&net, "two", 1), "already linked");
    let asked = drained(&mut net, "two");
    assert!(about(&asked, "acme") && about_root(&asked, 1));
    net.connect("three");
    assert!(hears(&net, "three", "acme") && hears_root(&net, "three", 1), "linked later");
    let asked = drained(&mut net, "three");
    assert!(about(&asked, "acme") && about_root(&asked, 1));
}

#[test]
fn s1_a_repository_that_went_and_came_back_is_asked_for_again() {
    let mut net = settled(&[("one", "acme"), ("one", "lib")]);
    net.root(1, "acme");
    net.elapse(6 * SECOND);
    net.settle("one");

    // Whatever came about it in between was refused.
    net.withdraw("acme");
    net.elapse(10 * MINUTE);
    net.announce("acme", &["one"]);
    net.input(Input::Root { id: event_id(1), repos: vec![repo("acme")], serial: 3 });
    net.elapse(5 * SECOND);
    let asked = drained(&mut net, "one");
    assert!(about(&asked, "acme"), "its past is asked for");
    assert!(about_root(&asked, 1), "and that of its roots");
    assert!(hears(&net, "one", "acme") && hears_root(&net, "one", 1));
}

#[test]
fn s1_the_first_twenty_relays_of_an_announcement_are_followed() {
    let names: Vec<String> = (0..25).map(|n| format!("r{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut net = Bench::new(Settings::default());
    net.announce("acme", &names);
    net.replayed();
    net.elapse(MINUTE);
    let dialled: Vec<bool> = names.iter().map(|name| net.dials_of(name) > 0).collect();
    assert_eq!(dialled.iter().filter(|it| **it).count(), 20);
    assert!(dialled[..20].iter().all(|it| *it), "the first ones");
}

// ---- S-2 pending

#[test]
fn s2_a_batch_confirms_when_all_its_subscriptions_have_ended_well() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    layer_one_confirmed(&mut net, "one");
    assert_eq!((view(&net, "one").confirmed, view(&net, "one").pending), (2, 1));

    let open = net.reconciles("one");
    let (last, rest) = open.split_last().unwrap();
    assert!(!rest.is_empty(), "one subscription for each filter");
    for asked in rest {
        net.reconciled("one", asked.sub, vec![]);
    }
    assert_eq!((view(&net, "one").confirmed, view(&net, "one").pending), (2, 1));
    net.reconciled("one", last.sub, vec![]);
    assert_eq!((view(&net, "one").confirmed, view(&net, "one").pending), (3, 0));
}

#[test]
fn s2_what_follows_from_a_comparison_belongs_to_its_batch() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    let first = reconcile(&mut net, "one");
    net.reconciled("one", first.sub, ids(0..3));
    assert_eq!(view(&net, "one").confirmed, 0, "the events themselves are still to come");
    let asked = request(&mut net, "one");
    assert_eq!(asked.filters[0].ids, Some(ids(0..3).into()));
    net.completes("one", asked.sub, empty_page(1));
    assert_eq!(view(&net, "one").confirmed, 1);
}

#[test]
fn s2_batches_confirm_independently_of_each_other() {
    let settings = Settings { values_per_filter_max: 1, ..pages_only() };
    let mut net = following(settings, &named(4), "one");
    net.connect("one");
    for _ in 0..2 {
        let first = request(&mut net, "one");
        net.completes("one", first.sub, empty_page(1));
    }
    let open = net.requests("one");
    assert!(open.len() >= 2, "several batches are under way");
    let before = view(&net, "one");
    net.ends("one", open[0].sub, End::Silent);
    net.completes("one", open[1].sub, empty_page(open[1].filters.len()));
    let after = view(&net, "one");
    assert!(after.confirmed > before.confirmed, "the second is confirmed");
    assert!(after.missing > before.missing, "the first is to be asked for again");
    assert_eq!(after.confirmed + after.missing + after.pending, 6);
}

// ---- S-3 confirmed

#[test]
fn s3_a_long_lived_link_does_not_refetch_its_whole_life() {
    let mut net = settled(&[("one", "acme")]);
    answers_for(&mut net, &["one"], 10 * HOUR);
    let lost_at = net.now;
    net.fails("one");
    net.connect("one");
    let since = Some(lost_at.timestamp().0 - RESUME_SECS);
    for filter in drained(&mut net, "one") {
        assert_eq!(filter.since.map(|it| it.0), since, "{filter:?}");
    }
}

#[test]
fn s3_what_is_known_of_a_relay_can_be_seen() {
    let mut net = settled(&[("one", "acme")]);
    let seen = view(&net, "one");
    assert!(seen.connected && !seen.bootstrap);
    assert_eq!((seen.repositories, seen.confirmed, seen.pending, seen.missing), (1, 3, 0, 0));
    assert_eq!(seen.last_alive, Some(net.now));
    let lost_at = net.now;
    net.fails("one");
    net.elapse(SECOND);
    let seen = view(&net, "one");
    assert!(!seen.connected);
    assert_eq!(seen.last_alive, Some(lost_at), "until then nothing was missed");
    assert_eq!(seen.confirmed, 3);
}

// ---- S-4 one decision point

#[test]
fn s4_what_is_confirmed_and_heard_is_not_asked_for_again() {
    let mut net = settled(&[("one", "acme"), ("one", "lib")]);
    net.root(1, "acme");
    net.elapse(6 * SECOND);
    net.settle("one");
    let listens = net.listens("one");
    history(&mut net, "one");
    net.elapse(20 * HOUR);
    assert_eq!(history(&mut net, "one"), []);
    assert_eq!(net.listens("one"), listens);
}

#[test]
fn s4_an_announcement_told_again_changes_nothing() {
    let mut net = settled(&[("one", "acme")]);
    let listens = net.listens("one");
    net.announce("acme", &["one"]);
    net.root(1, "acme");
    net.elapse(10 * SECOND);
    net.settle("one");
    net.root(1, "acme");
    net.announce("acme", &["one"]);
    history(&mut net, "one");
    let with_root = net.listens("one");
    net.elapse(MINUTE);
    assert_eq!(history(&mut net, "one"), []);
    assert_eq!(net.listens("one"), with_root);
    assert!(listens.iter().all(|it| with_root.contains(it)));
}

#[test]
fn s4_a_relay_that_is_away_gets_its_share_when_it_comes_back() {
    let mut net = settled(&[("one", "acme"), ("two", "acme")]);
    net.fails("one");
    net.elapse(4 * SECOND);
    net.root(1, "acme");
    net.announce("lib", &["one"]);
    net.elapse(6 * SECOND);
    assert!(about_root(&history(&mut net, "two"), 1), "who is there is asked at once");
    assert_eq!(history(&mut net, "one"), []);
    net.connect("one");
    assert!(hears_root(&net, "one", 1) && hears(&net, "one", "lib"));
    let asked = drained(&mut net, "one");
    assert!(about_root(&asked, 1) && about(&asked, "lib"));
    let full: Vec<Filter> = asked.into_iter().filter(|it| it.since.is_none()).collect();
    assert!(!about(&full, "acme"), "of what was confirmed only the gap is asked for");
}

#[test]
fn s4_one_new_root_among_many_costs_one_question() {
    let mut engine = Engine::new(pages_only(), 1);
    let one = relay("one");
    let relays = vec![one.clone()];
    let level = grasp_engine::Level::Full;
    engine.handle(Input::Announced { repo: repo("acme"), relays, level, serial: 1 }, START);
    for n in 0..50_000 {
        let repos = vec![repo("acme")];
        engine.handle(Input::Root { id: event_id(n), repos, serial: n + 2 }, START);
    }
    engine.handle(Input::Replayed, START);
    engine.handle(Input::Connected { relay: one, peer: allowing(500), address: None }, START);
    while engine.poll_action().is_some() {}

    let repos = vec![repo("acme")];
    engine.handle(Input::Root { id: event_id(60_000), repos, serial: 60_000 }, START);
    let window = START.plus(5 * SECOND);
    while engine.next_deadline().is_some_and(|(at, _)| at <= window) {
        let at = engine.next_deadline().map_or(window, |(at, _)| at);
        engine.handle_deadline(at);
    }
    let mut actions = 0;
    while let Some(action) = engine.poll_action() {
        // News are no questions.
        actions += usize::from(!matches!(action, Action::Tell(_)));
    }
    assert!(actions < 20, "{actions} actions");
}

// ---- S-5 self-subscription

#[test]
fn s5_nothing_is_done_before_the_past_has_been_told() {
    let mut net = Bench::new(Settings::default());
    net.announce("acme", &["one"]);
    net.root(1, "acme");
    net.elapse(HOUR);
    assert!(net.dials().is_empty());
    net.replayed();
    assert_eq!(net.dials_of("one"), 1, "then it is planned at once, without the window");
}

#[test]
fn s5_an_empty_store_is_told_like_any_other() {
    let mut net = Bench::new(Settings::default());
    net.replayed();
    net.elapse(HOUR);
    assert!(net.dials().is_empty());
    net.announce("acme", &["one"]);
    net.elapse(5 * SECOND);
    assert_eq!(net.dials_of("one"), 1);
}

#[test]
fn s5_a_restart_is_told_like_a_start() {
    let mut net = settled(&[("one", "acme"), ("one", "lib")]);
    net.root(1, "acme");
    net.elapse(6 * SECOND);
    net.settle("one");
    // Long enough to be fresh again.
    net.restart_after(HOUR);
    net.connect("one");
    let again = drained(&mut net, "one");
    let mut first = Bench::new(Settings::default());
    first.announce("acme", &["one"]);
    first.announce("lib", &["one"]);
    first.root(1, "acme");
    first.replayed();
    first.connect("one");
    assert_eq!(again, drained(&mut first, "one"));
    assert_eq!(net.live_filters("one"), first.live_filters("one"));
}

// ---- S-6 batch window

#[test]
fn s6_the_first_event_opens_a_window_and_later_ones_do_not_extend_it() {
    let mut net = settled(&[("one", "acme")]);
    net.root(1, "acme");
    net.elapse(4 * SECOND);
    net.root(2, "acme");
    net.elapse(SECOND - std::time::Duration::from_millis(1));
    assert!(!hears_root(&net, "one", 1));
    assert_eq!(history(&mut net, "one"), []);

    net.elapse(std::time::Duration::from_millis(1));
    let asked = request(&mut net, "one");
    assert!(about_root(&asked.filters, 1) && about_root(&asked.filters, 2), "both at once");
    assert!(hears_root(&net, "one", 1) && hears_root(&net, "one", 2));
}

#[test]
fn s6_what_comes_after_the_window_has_its_own() {
    let mut net = settled(&[("one", "acme")]);
    net.root(1, "acme");
    net.elapse(5 * SECOND);
    let first = request(&mut net, "one");
    net.completes("one", first.sub, empty_page(first.filters.len()));
    net.root(2, "acme");
    net.elapse(5 * SECOND - std::time::Duration::from_millis(1));
    assert_eq!(history(&mut net, "one"), []);
    net.elapse(std::time::Duration::from_millis(1));
    let second = request(&mut net, "one");
    assert!(about_root(&second.filters, 2) && !about_root(&second.filters, 1));
}

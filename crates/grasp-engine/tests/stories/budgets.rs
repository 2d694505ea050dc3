//! Section 2, budgets (S-11): one ledger for each connection, live first, the rest in rotation.

use super::kit::*;
use grasp_core::{Filter, Time, Timestamp};
use grasp_engine::{End, News, Settings};
use grasp_testkit::world::names::{relay, repo};
use grasp_testkit::world::{Bench, empty_page};
use std::collections::BTreeMap;

/// Many small groups on one relay.
fn crowded(repos: usize, subscriptions: u32) -> Bench {
    let mut net = following(tiny_filters(), &named(repos), "one");
    (0..5).for_each(|n| net.root(n, "repo0"));
    net.elapse(6 * SECOND);
    net.connect_with("one", allowing(subscriptions));
    net
}

fn all_confirmed(net: &Bench, groups: usize) {
    let seen = view(net, "one");
    assert_eq!((seen.missing, seen.pending, seen.confirmed), (0, 0, groups), "{seen}");
}

// ---- the ledger

#[test]
fn s11_the_ledger_is_never_exceeded_whatever_it_allows() {
    // The watch counts every subscription; here the history also has to come to an end.
    for allowed in [1, 2, 3, 5, 20, 500] {
        let mut net = crowded(12, allowed);
        answers_for(&mut net, &["one"], 10 * MINUTE);
        all_confirmed(&net, 2 + 12 + 5);
        net.announce("late", &["one"]);
        net.root(100, "repo1");
        answers_for(&mut net, &["one"], 10 * MINUTE);
        all_confirmed(&net, 2 + 13 + 6);
    }
}

#[test]
fn s11_a_relay_that_does_not_say_is_given_twenty() {
    let mut net = following(tiny_filters(), &named(100), "one");
    net.connect("one");
    let mut most = 0;
    for _ in 0..600 {
        most = most.max(net.open_count("one"));
        net.answers_all("one");
        net.elapse(SECOND);
    }
    assert!((15..=20).contains(&most), "{most}");
    all_confirmed(&net, 102);
}

#[test]
fn s11_live_goes_first_and_one_place_is_left_for_history() {
    let net = crowded(20, 5);
    assert_eq!(net.listens("one").len(), 4);
    assert_eq!(net.open_count("one"), 5);
    assert!(hears_layer_one(&net, "one"), "layer 1 before all");
}

#[test]
fn s11_a_place_is_free_only_when_the_relay_has_answered() {
    let mut net = crowded(20, 5);
    history(&mut net, "one");
    net.elapse(10 * MINUTE);
    assert_eq!(history(&mut net, "one"), [], "the relay still has the question");
    assert_eq!(net.open_count("one"), 5);
    net.answers_all("one");
    assert_eq!(history(&mut net, "one").len(), 1);
}

#[test]
fn s11_what_is_new_is_heard_as_soon_as_a_question_makes_room() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect_with("one", allowing(4));
    layer_one_confirmed(&mut net, "one");
    assert_eq!(net.open_count("one"), 4, "two live, two of history");
    net.announce("lib", &["one"]);
    net.elapse(6 * SECOND);
    for _ in 0..10 {
        net.answers_all("one");
        net.elapse(SECOND);
    }
    assert!(hears(&net, "one", "lib"), "a place for it has long been free");
}

#[test]
fn s11_a_relay_that_allows_less_than_we_assumed_is_still_asked_for_its_past() {
    let mut net = following(tiny_filters(), &named(40), "one");
    net.connect("one");
    let rules = Rules { open_max: 10, ..Rules::default() };
    Played::by(rules).plays(&mut net, "one", HOUR);
    all_confirmed(&net, 42);
    assert!(net.open_count("one") <= 10);
    assert!(hears_layer_one(&net, "one"));
}

#[test]
fn s11_what_a_relay_allows_is_learnt_and_kept() {
    let mut net = following(tiny_filters(), &named(40), "one");
    net.connect("one");
    let rules = Rules { open_max: 10, ..Rules::default() };
    let mut first = Played::by(rules.clone());
    first.plays(&mut net, "one", HOUR);
    assert!(first.refused > 0);
    net.fails("one");
    net.connect("one");
    let mut second = Played::by(rules);
    second.plays(&mut net, "one", 2 * HOUR);
    assert_eq!(second.refused, 0, "not learnt again by annoying it");
}

#[test]
fn s11_comparisons_and_pages_share_the_ledger_and_have_bounds_of_their_own() {
    let mut net = crowded(30, 500);
    for _ in 0..50 {
        let compared = net.reconciles("one").len();
        assert!(compared <= 4, "{compared} comparisons at once");
        net.answers_all("one");
        net.elapse(SECOND);
    }
    let settings = Settings { negentropy: false, ..tiny_filters() };
    let mut net = following(settings, &named(60), "one");
    net.connect_with("one", allowing(500));
    for _ in 0..50 {
        let live = net.listens("one").len();
        assert!(net.open_count("one") - live <= 5, "questions at once");
        net.answers_all("one");
        net.elapse(SECOND);
    }
}

// ---- several filters share a request

#[test]
fn s11_a_filter_count_refusal_halves_the_request_down_to_what_is_taken() {
    for filters_max in [5, 3, 2, 1] {
        let mut net = following(tiny_filters(), &named(15), "one");
        net.connect_with("one", allowing(500));
        let mut played = Played::by(Rules { filters_max, ..Rules::default() });
        played.plays(&mut net, "one", 30 * MINUTE);
        all_confirmed(&net, 17);
        assert!(named(15).iter().all(|name| hears(&net, "one", name)), "{filters_max}");
        let steps: Vec<usize> = [10, 5, 2, 1].into_iter().filter(|n| *n > filters_max).collect();
        let largest = |sizes: &[usize]| sizes.iter().copied().max().unwrap();
        assert_eq!(largest(&played.sizes), 10);
        assert!(played.sizes.iter().all(|size| *size <= 10));
        for step in steps {
            assert!(played.sizes.contains(&step), "{filters_max}: {step} was tried");
        }
        let paused = |news: &News| matches!(news, News::Paused { .. });
        assert!(!net.news().iter().any(paused), "{filters_max}");
    }
}

#[test]
fn s11_a_relay_that_takes_not_even_one_filter_is_left_alone_for_a_day() {
    let mut net = following(tiny_filters(), &named(3), "one");
    net.connect("one");
    let mut played = Played::by(Rules { filters_max: 0, ..Rules::default() });
    played.plays(&mut net, "one", HOUR);
    assert!(net.news().iter().any(|news| matches!(news, News::Paused { .. })));
    let before = played.sizes.len();
    played.plays(&mut net, "one", 22 * HOUR);
    assert_eq!(played.sizes.len(), before, "nothing is asked for a day");
    assert!(net.is_connected("one"));
}

#[test]
fn s11_a_refusal_of_a_request_in_the_old_size_does_not_halve_again() {
    let mut net = following(tiny_filters(), &named(12), "one");
    net.connect_with("one", allowing(500));
    let old: Vec<_> = net.listens("one").into_iter().filter(|it| it.1.len() == 10).collect();
    assert!(old.len() >= 3);
    let before = net.listens("one");
    for (sub, _) in old {
        net.closed("one", sub, "max filter count exceeded");
    }
    let new = net.listens("one").into_iter().filter(|it| !before.contains(it));
    let largest = new.map(|it| it.1.len()).max();
    assert_eq!(largest, Some(5), "ten were too many; five have not been refused yet");
}

// ---- rotation

/// When each repository was asked about, and from when on, while it is answered for so long.
fn asked_in_turn(net: &mut Bench, time: std::time::Duration) -> BTreeMap<String, Vec<Turn>> {
    let mut turns: BTreeMap<String, Vec<Turn>> = BTreeMap::new();
    let end = net.now.plus(time);
    while net.now < end {
        for asked in net.requests("one") {
            let filters = asked.filters.iter().filter(|it| it.tags.contains_key(&b'a'));
            for filter in filters {
                let name = filter.tags[&b'a'][0].clone();
                turns.entry(name).or_default().push((asked.at, filter.since));
            }
        }
        net.answers_all("one");
        net.elapse(SECOND);
    }
    turns
}

type Turn = (Time, Option<Timestamp>);

#[test]
fn s11_what_cannot_be_heard_is_asked_for_in_turn_with_overlap() {
    let settings = Settings { negentropy: false, ..tiny_filters() };
    for allowed in [1, 2, 3, 5] {
        let mut net = following(settings.clone(), &named(20), "one");
        net.connect_with("one", allowing(allowed));
        let turns = asked_in_turn(&mut net, 2 * HOUR);
        for name in named(20) {
            let turns = &turns[&repo(&name).coordinate().to_string()];
            assert_eq!(turns[0].1, None, "its whole past first");
            if hears(&net, "one", &name) {
                continue;
            }
            assert!(turns.len() >= 20, "{allowed}: {name} is asked for {} times", turns.len());
            for pair in turns.windows(2) {
                let ((before, _), (at, since)) = (pair[0], pair[1]);
                let since = since.unwrap();
                assert!(since.0 + 15 * 60 <= before.timestamp().0 + 1, "15 minutes of overlap");
                assert!(at.since(before) <= 7 * MINUTE, "every five minutes");
            }
        }
    }
}

#[test]
fn s11_a_question_in_rotation_that_fails_leaves_no_hole() {
    let mut net = crowded(10, 2);
    answers_for(&mut net, &["one"], 10 * MINUTE);
    let name = repo("repo4").coordinate().to_string();
    let asks = |filter: &Filter| filter.tags.get(&b'a').is_some_and(|it| it.contains(&name));
    // The last time it was asked about and answered.
    let mut answered = net.now;
    let mut failures = 0;
    for _ in 0..(2 * 3600) {
        for asked in net.requests("one") {
            let count = asked.filters.len();
            if !asked.filters.iter().any(asks) {
                net.completes("one", asked.sub, empty_page(count));
                continue;
            }
            let since = asked.filters.iter().find(|it| asks(it)).unwrap().since.unwrap();
            assert!(since <= answered.timestamp(), "from {since}, answered at {answered:?}");
            match failures < 3 {
                true => net.ends("one", asked.sub, End::Silent),
                false => {
                    answered = asked.at;
                    net.completes("one", asked.sub, empty_page(count));
                }
            }
            failures += 1;
        }
        net.elapse(SECOND);
    }
    assert!(failures > 6, "{failures}");
}

#[test]
fn s11_rotation_is_told_once_and_shown() {
    let mut net = crowded(20, 3);
    answers_for(&mut net, &["one"], HOUR);
    let told: Vec<News> =
        net.news().into_iter().filter(|it| matches!(it, News::Rotating { .. })).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].relay(), &relay("one"));
    assert!(view(&net, "one").in_rotation > 0);

    let mut net = crowded(20, 500);
    answers_for(&mut net, &["one"], HOUR);
    assert_eq!(view(&net, "one").in_rotation, 0, "nothing is, where everything fits");
    assert!(!net.news().iter().any(|it| matches!(it, News::Rotating { .. })));
}

#[test]
fn s11_packing_comes_before_rotation() {
    // Forty roots that came one by one need two dozen requests as they are, and one when packed.
    let mut net = settled(&[("one", "acme")]);
    for n in 1..=40 {
        net.root(n, "acme");
        net.elapse(5 * SECOND);
        answers_for(&mut net, &["one"], 2 * SECOND);
    }
    assert!((1..=40).all(|n| hears_root(&net, "one", n)));
    assert_eq!(view(&net, "one").in_rotation, 0);
}

#[test]
fn s11_layer_one_that_cannot_be_heard_is_asked_for_in_turn() {
    let mut net = settled(&[("one", "acme")]);
    for _ in 0..2 {
        let first = |filters: &[Filter]| filters.iter().all(|it| it.tags.is_empty());
        let (sub, _) = net.listens("one").into_iter().find(|it| first(&it.1)).unwrap();
        net.closed("one", sub, "");
        net.elapse(66 * SECOND);
        net.answers_all("one");
    }
    history(&mut net, "one");
    let mut asked = Vec::new();
    for _ in 0..(11 * 60) {
        asked.extend(history(&mut net, "one"));
        net.answers_all("one");
        net.elapse(SECOND);
    }
    let in_turn = asked.iter().filter(|it| it.tags.is_empty() && it.since.is_some()).count();
    assert!(in_turn >= 4, "announcements and states, twice: {asked:?}");
}

#[test]
fn s11_whatever_fails_in_rotation_every_filter_goes_on_from_where_it_was_answered() {
    // Ten filters share a request, so the three of one repository are often in two of them.
    let settings = Settings { negentropy: false, ..tiny_filters() };
    let mut net = following(settings, &named(11), "one");
    net.connect_with("one", allowing(1));
    let mut answered: BTreeMap<(u8, String), Time> = BTreeMap::new();
    let mut random = grasp_testkit::Random::seeded(7);
    for _ in 0..(12 * 3600) {
        for asked in net.requests("one") {
            let fails = net.now.since(grasp_testkit::world::START) > HOUR && random.one_in(3);
            for filter in asked.filters.iter() {
                let Some((letter, values)) = filter.tags.first_key_value() else { continue };
                let key = (*letter, values[0].clone());
                if let Some(since) = filter.since {
                    let before = answered[&key].timestamp();
                    assert!(since <= before, "{filter:?}: answered up to {before}");
                }
                if !fails {
                    answered.insert(key, asked.at);
                }
            }
            match fails {
                true => net.ends("one", asked.sub, End::Silent),
                false => net.completes("one", asked.sub, empty_page(asked.filters.len())),
            }
        }
        net.elapse(SECOND);
    }
    assert_eq!(view(&net, "one").missing + view(&net, "one").pending, 0);
}

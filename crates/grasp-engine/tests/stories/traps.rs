//! Traps others fell into, rows 1 to 12, as far as the engine decides about them.

use super::kit::*;
use grasp_core::{Filter, Time, Timestamp};
use grasp_engine::{End, Settings, Sub, Wait};
use grasp_testkit::world::names::relay;
use grasp_testkit::world::{Bench, empty_page, full_page};

/// A new root's question and live subscription are open on a relay that is otherwise settled.
fn asking() -> Bench {
    let mut net = settled(&[("one", "acme")]);
    net.root(1, "acme");
    net.elapse(5 * SECOND);
    net.news();
    net
}

fn live_of_root(net: &Bench) -> Sub {
    net.listens("one").into_iter().find(|it| about_root(&it.1, 1)).unwrap().0
}

fn live_bytes(net: &Bench) -> usize {
    let size = |filter: &Filter| serde_json::to_string(filter).unwrap().len();
    net.live_filters("one").iter().map(size).sum()
}

#[test]
fn trap_1_hundreds_of_comparisons_are_made_four_at_a_time_within_one_ledger() {
    let mut net = following(tiny_filters(), &named(150), "one");
    net.connect("one");
    for _ in 0..900 {
        let open = net.open_count("one") - net.listens("one").len();
        assert!(net.reconciles("one").len() <= 4 && open <= 9);
        net.answers_all("one");
        net.elapse(SECOND);
    }
    assert_eq!(view(&net, "one").confirmed, 152);
}

#[test]
fn trap_1_two_places_are_kept_in_reserve() {
    let mut net = following(tiny_filters(), &named(150), "one");
    net.connect_with("one", allowing(20));
    let mut most = 0;
    for _ in 0..300 {
        most = most.max(net.open_count("one"));
        net.answers_all("one");
        net.elapse(SECOND);
    }
    assert!(most <= 18, "of twenty places {most} were taken");
}

#[test]
fn trap_1_at_least_one_place_is_left_for_questions() {
    for allowed in [2, 3, 5, 10, 20, 50] {
        let mut net = following(tiny_filters(), &named(200), "one");
        net.connect_with("one", allowing(allowed));
        let live = u32::try_from(net.listens("one").len()).unwrap();
        assert!(live >= 1 && live < allowed, "{live} live of {allowed}");
        assert_eq!(net.requests("one").len() + net.reconciles("one").len(), 1);
    }
}

#[test]
fn trap_2_our_impatience_frees_no_place_while_the_relay_has_the_question() {
    let mut net = following(Settings { negentropy: false, ..tiny_filters() }, &named(50), "one");
    net.connect_with("one", allowing(3));
    history(&mut net, "one");
    let open = net.open_count("one");
    net.elapse(HOUR);
    assert_eq!(net.open_count("one"), open);
    assert_eq!(history(&mut net, "one"), [], "only its end frees the place");
}

#[test]
fn trap_2_a_silent_question_records_a_pause_before_the_place_is_used_again() {
    let mut net = following(Settings { negentropy: false, ..tiny_filters() }, &named(50), "one");
    net.connect_with("one", allowing(3));
    let asked = request(&mut net, "one");
    net.ends("one", asked.sub, End::Silent);
    assert_eq!(
        view(&net, "one").waits,
        Some(Wait::Unanswered { until: net.now.plus(65 * SECOND) })
    );
    net.elapse(64 * SECOND);
    assert_eq!(history(&mut net, "one"), []);
    net.elapse(2 * SECOND);
    assert!(!history(&mut net, "one").is_empty());
}

#[test]
fn trap_3_an_answer_in_the_same_instant_finds_its_question() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    for (sub, filters) in net.listens("one") {
        net.listening("one", sub, empty_page(filters.len()));
    }
    let mut answered = 0;
    while view(&net, "one").confirmed < 3 {
        let now = net.now;
        for asked in net.reconciles("one") {
            net.reconciled("one", asked.sub, vec![]);
            answered += 1;
        }
        assert!(answered < 20);
        assert_eq!(net.now, now, "no time passes in between");
    }
    assert_eq!(view(&net, "one").last_alive, Some(net.now));
}

#[test]
fn trap_4_requests_are_bounded_in_filters_and_bytes_and_their_values_sorted() {
    let mut net = following(Settings::default(), &named(1_200), "one");
    for n in 0..1_500 {
        net.root(n, "repo1");
    }
    net.elapse(6 * SECOND);
    net.connect_with("one", allowing(500));
    let listens = net.listens("one");
    for (_, filters) in &listens {
        let bytes: usize = filters.iter().map(|it| serde_json::to_string(it).unwrap().len()).sum();
        assert!(filters.len() <= 10 && bytes <= 96 << 10, "{} filters, {bytes}", filters.len());
        assert!(filters.iter().flat_map(|it| it.tags.values()).all(|it| it.is_sorted()));
    }
    assert!(listens.len() < 30, "and well filled: {}", listens.len());
}

#[test]
fn trap_5_one_more_repository_does_not_subscribe_everything_anew() {
    let mut net = following(Settings::default(), &named(1_000), "one");
    net.connect_with("one", allowing(500));
    net.settle("one");
    let before = net.listens("one");
    net.closes("one");
    net.announce("one-more", &["one"]);
    net.elapse(5 * SECOND);
    let new: Vec<_> = net.listens("one").into_iter().filter(|it| !before.contains(it)).collect();
    assert_eq!(net.closes("one"), []);
    assert_eq!(new.len(), 1);
    assert_eq!(new[0].1.len(), 3, "three small filters");
}

#[test]
fn trap_5_when_the_new_subscription_is_refused_the_old_ones_stay() {
    let mut net = settled(&[("one", "acme")]);
    let before = net.listens("one");
    net.root(1, "acme");
    net.elapse(5 * SECOND);
    net.closed("one", live_of_root(&net), "error: too many concurrent REQs");
    assert_eq!(net.listens("one"), before);
}

#[test]
fn trap_6_numbers_in_a_filter_count_refusal_are_not_believed() {
    for text in ["error: invalid number of filters: 1", "max filter count is 5000"] {
        let mut net = following(tiny_filters(), &named(12), "one");
        net.connect_with("one", allowing(500));
        let (sub, _) = net.listens("one").into_iter().find(|it| it.1.len() == 10).unwrap();
        net.closed("one", sub, text);
        net.settle("one");
        let largest = net.listens("one").iter().map(|it| it.1.len()).max();
        assert_eq!(net.remembered("one").unwrap().learned.filters_per_request_max, Some(5));
        assert!(largest.is_some_and(|it| it <= 10));
        assert_eq!(view(&net, "one").waits, None, "{text}");
        assert!(named(12).iter().all(|name| hears(&net, "one", name)));
    }
}

#[test]
fn trap_6_ten_five_two_one_and_then_a_day() {
    let mut net = following(Settings { negentropy: false, ..tiny_filters() }, &named(12), "one");
    net.connect_with("one", allowing(500));
    let mut largest = vec![10];
    for _ in 0..200 {
        for (sub, filters) in net.listens("one") {
            if filters.len() > 1 {
                net.closed("one", sub, "invalid number of filters");
            }
            let learned = net.engine.record(&relay("one"), net.now).unwrap().learned;
            let now = learned.filters_per_request_max.unwrap_or(10);
            if largest.last() != Some(&now) {
                largest.push(now);
            }
        }
    }
    assert_eq!(largest, [10, 5, 2, 1]);
    assert_eq!(view(&net, "one").waits, None);
    let (sub, filters) = net.listens("one")[0].clone();
    assert_eq!(filters.len(), 1);
    net.closed("one", sub, "invalid number of filters");
    assert_eq!(view(&net, "one").waits, Some(Wait::Pause { until: net.now.plus(DAY) }));
}

#[test]
fn trap_7_a_relay_that_holds_too_many_bytes_is_not_asked_the_same_for_ever() {
    let mut net = settled(&[("one", "acme")]);
    for n in 1..=8 {
        net.root(n, "acme");
        net.elapse(6 * SECOND);
        net.settle("one");
    }
    let cap = live_bytes(&net);
    let mut refused = 0;
    for n in 9..=12 {
        net.root(n, "acme");
        net.elapse(5 * SECOND);
        for _ in 0..600 {
            if live_bytes(&net) > cap {
                refused += 1;
                let newest = net.listens("one").pop().unwrap().0;
                net.closed("one", newest, "active subscriptions exceed max size 1048576 bytes");
            }
            net.answers_all("one");
            net.elapse(SECOND);
        }
    }
    assert!(refused <= 2, "learnt once: {refused}");
    assert!(live_bytes(&net) <= cap);
}

#[test]
fn trap_7_history_refused_for_bytes_gets_room_by_hearing_less() {
    let mut net = settled(&[("one", "acme")]);
    for n in 1..=8 {
        net.root(n, "acme");
        net.elapse(6 * SECOND);
        net.settle("one");
    }
    let full = live_bytes(&net);
    // Live alone fits, but no question beside it does.
    net.root(9, "acme");
    net.elapse(5 * SECOND);
    for _ in 0..(6 * 3600) {
        for asked in net.requests("one") {
            match live_bytes(&net) > full / 2 {
                true => {
                    net.closed("one", asked.sub, "active subscriptions exceed max size 9 bytes");
                }
                false => net.completes("one", asked.sub, empty_page(asked.filters.len())),
            }
        }
        net.elapse(SECOND);
    }
    let seen = view(&net, "one");
    assert_eq!((seen.missing, seen.pending), (0, 0), "{seen}");
    assert!(hears_layer_one(&net, "one"));
}

#[test]
fn trap_8_events_are_counted_before_anything_is_dropped_and_no_limit_is_sent() {
    let mut net = following(pages_only(), &named(1), "one");
    net.connect("one");
    let first = request(&mut net, "one");
    assert!(first.filters.iter().all(|it| it.limit.is_none()));
    // All known already: the tally is of what came, not of what was new.
    net.completes("one", first.sub, full_page(1, 500, Timestamp(9_000)));
    let second = request(&mut net, "one");
    assert_eq!(second.filters[0].until, Some(Timestamp(9_000)), "inclusive");
}

#[test]
fn trap_8_what_a_session_learnt_about_pages_is_not_carried_into_the_next() {
    let peer = || grasp_engine::Peer { limit_default: Some(500), ..Default::default() };
    let mut net = following(pages_only(), &named(1), "one");
    net.connect_with("one", peer());
    let first = request(&mut net, "one");
    net.completes("one", first.sub, full_page(1, 100, Timestamp(9_000)));
    let second = request(&mut net, "one");
    net.completes("one", second.sub, full_page(1, 1, Timestamp(9_000)));
    net.fails("one");
    net.elapse(HOUR);
    net.connect_with("one", peer());
    net.requests("one");
    net.elapse(SECOND);
    net.answers_all("one");
    let states = request(&mut net, "one");
    net.completes("one", states.sub, full_page(1, 100, Timestamp(9_000)));
    let more = net.requests("one");
    assert!(more.iter().any(|it| it.filters[0].until == Some(Timestamp(9_000))), "verified anew");
}

#[test]
fn trap_9_background_questions_do_not_come_in_bursts_and_live_is_not_held_back() {
    let mut net = following(tiny_filters(), &named(200), "one");
    net.connect_with("one", allowing(500));
    assert!(named(200).iter().all(|name| hears(&net, "one", name)));
    let mut starts: Vec<Time> = Vec::new();
    for _ in 0..120 {
        for _ in 0..50 {
            starts.extend(net.requests("one").iter().map(|it| it.at));
            starts.extend(net.reconciles("one").iter().map(|it| it.at));
            net.answers_all("one");
        }
        net.elapse(SECOND);
    }
    let first = starts[0];
    for (n, at) in (0..).zip(&starts) {
        let earned = 30 + at.since(first).as_secs();
        assert!(n < earned, "{n} starts after {:?}", at.since(first));
    }
}

#[test]
fn trap_10_too_many_queries_is_not_answered_by_the_same_queries() {
    let mut net = following(Settings { negentropy: false, ..tiny_filters() }, &named(60), "one");
    net.connect_with("one", allowing(500));
    net.says_slow_down("one");
    for asked in net.requests("one") {
        net.closed("one", asked.sub, "error: too many queries");
    }
    net.elapse(64 * SECOND);
    assert_eq!(history(&mut net, "one"), [], "what waits is kept back here");
    net.elapse(2 * SECOND);
    let mut starts = 0;
    for _ in 0..100 {
        starts += net.requests("one").len();
        net.answers_all("one");
    }
    assert!(starts <= 2, "gently afterwards: {starts} at once");
    net.elapse(10 * SECOND);
    assert_eq!(net.reconciles("one").len(), 0);
}

#[test]
fn trap_10_after_a_rate_limit_there_are_no_comparisons_in_this_session() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    net.says_slow_down("one");
    let open = net.reconciles("one");
    for asked in open {
        net.ends("one", asked.sub, End::NegentropyFailed("rate-limited: slow down".to_owned()));
    }
    net.elapse(66 * SECOND);
    for _ in 0..30 {
        assert_eq!(net.reconciles("one").len(), 0);
        net.answers_all("one");
        net.elapse(SECOND);
    }
    assert_eq!(view(&net, "one").confirmed, 3);
}

#[test]
fn trap_11_a_relay_that_never_stops_complaining_is_still_asked_in_the_end() {
    let mut net = asking();
    let asked = request(&mut net, "one");
    net.closed("one", asked.sub, "rate-limited: slow down");
    let mut asked_again = false;
    for _ in 0..64 {
        net.elapse(SECOND);
        net.says_slow_down("one");
        asked_again |= !history(&mut net, "one").is_empty();
    }
    assert!(!asked_again);
    net.elapse(3 * SECOND);
    assert!(!history(&mut net, "one").is_empty(), "the deadline did not move");
}

#[test]
fn trap_12_unfinished_questions_have_a_backoff_of_their_own() {
    let mut net = asking();
    let mut waits = Vec::new();
    let mut last = net.now;
    for end in [End::Silent, End::Closed("error: x".to_owned()), End::Silent] {
        let asked = request(&mut net, "one");
        waits.push(asked.at.since(last).as_secs());
        last = asked.at;
        net.ends("one", asked.sub, end);
        assert!(!matches!(view(&net, "one").waits, Some(Wait::Cooldown { .. })), "no cooldown");
        while net.engine.relay_view(&relay("one"), net.now).unwrap().waits.is_some() {
            net.elapse(SECOND);
        }
        net.elapse(SECOND);
    }
    assert_eq!(waits[0], 0);
    assert!((65..70).contains(&waits[1]) && (130..135).contains(&waits[2]), "{waits:?}");
}

#[test]
fn trap_12_an_answer_ends_the_backoff() {
    let mut net = asking();
    for _ in 0..4 {
        let asked = request(&mut net, "one");
        net.ends("one", asked.sub, End::Silent);
        while history_waits(&net) {
            net.elapse(SECOND);
        }
        net.elapse(SECOND);
    }
    let asked = request(&mut net, "one");
    net.completes("one", asked.sub, empty_page(3));
    net.root(2, "acme");
    net.elapse(5 * SECOND);
    let asked = request(&mut net, "one");
    net.ends("one", asked.sub, End::Silent);
    assert_eq!(
        view(&net, "one").waits,
        Some(Wait::Unanswered { until: net.now.plus(65 * SECOND) })
    );
}

fn history_waits(net: &Bench) -> bool {
    view(net, "one").waits.is_some()
}

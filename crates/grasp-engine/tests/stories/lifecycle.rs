//! Section 3: connecting, coming back, the daily sync, removal, and live before history.

use super::kit::*;
use grasp_core::{Filter, RelayUrl, Time, Timestamp};
use grasp_engine::{Engine, Health, Loss, News, Peer, Purpose, Settings, Sub};
use grasp_testkit::world::names::relay;
use grasp_testkit::world::{Bench, START, empty_page, full_page};
use std::collections::BTreeSet;
use std::time::Duration;

// ---- S-12

#[test]
fn s12_disconnected_connecting_connected_disconnected() {
    let mut net = Bench::tracking([("one", "acme")]);
    assert!(net.is_dialled("one") && !view(&net, "one").connected);
    net.connect("one");
    assert!(view(&net, "one").connected);
    assert!(net.news().contains(&News::Connected { relay: relay("one") }));
    net.fails("one");
    assert!(!view(&net, "one").connected);
    net.elapse(5 * SECOND);
    assert!(net.is_dialled("one"), "and again");
}

#[test]
fn s12_an_end_told_twice_counts_once() {
    let mut net = settled(&[("one", "acme")]);
    net.fails("one");
    net.fails("one");
    assert_eq!(view(&net, "one").health.failures(), 1);
}

#[test]
fn s12_what_an_ended_link_still_says_is_ignored() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    let (old, _) = net.listens("one")[0].clone();
    let question = reconcile(&mut net, "one");
    net.fails("one");
    net.reconciled("one", question.sub, ids(0..5));
    net.listening("one", old, empty_page(2));
    net.closed("one", old, "blocked: go away");
    net.connect("one");
    net.reconciled("one", question.sub, ids(0..5));
    assert_eq!(view(&net, "one").confirmed, 0);
    assert_eq!(view(&net, "one").waits, None);
    assert_eq!(net.requests("one").len(), 0);
}

// ---- S-13

#[test]
fn s13_a_fresh_link_is_asked_for_everything_without_since() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.root(1, "acme");
    net.connect("one");
    for filter in net.live_filters("one") {
        assert_eq!((filter.since, filter.limit), (None, Some(0)), "{filter:?}");
    }
    let asked = drained(&mut net, "one");
    assert!(about(&asked, "acme") && about_root(&asked, 1));
    for filter in asked {
        assert_eq!((filter.since, filter.until, filter.limit), (None, None, None), "{filter:?}");
    }
}

/// Everything confirmed, then gone for so long; returns when it was lost.
fn away(for_ms: u64) -> (Bench, Time) {
    let mut net = settled(&[("one", "acme")]);
    net.root(1, "acme");
    net.elapse(6 * SECOND);
    net.settle("one");
    history(&mut net, "one");
    let lost_at = net.now;
    net.fails("one");
    // Dialled after five seconds; it answers when the time has come.
    net.elapse(Duration::from_millis(for_ms));
    (net, lost_at)
}

#[test]
fn s13_a_short_absence_resumes_where_it_ended() {
    for away_ms in [5_000, 60_000, 14 * 60_000, 15 * 60_000 - 1] {
        let (mut net, lost_at) = away(away_ms);
        net.connect("one");
        let since = Some(Timestamp(lost_at.timestamp().0 - RESUME_SECS));
        let live = net.live_filters("one");
        assert!(hears_layer_one(&net, "one"));
        assert!(hears(&net, "one", "acme") && hears_root(&net, "one", 1));
        assert!(live.iter().all(|it| (it.since, it.limit) == (since, None)), "{live:?}");
        assert_eq!(drained(&mut net, "one"), [], "no history is needed");
        assert_eq!(view(&net, "one").confirmed, 4);
    }
}

#[test]
fn s13_fifteen_minutes_away_is_as_if_never_connected() {
    for away_ms in [15 * 60_000, 20 * 60_000, 3 * 3_600_000] {
        let (mut net, _) = away(away_ms);
        net.connect("one");
        assert_eq!(view(&net, "one").confirmed, 0, "confirmed is cleared");
        let live = net.live_filters("one");
        assert!(live.iter().all(|it| (it.since, it.limit) == (None, Some(0))), "{live:?}");
        assert_eq!(net.reconciles("one").len(), 1, "compared again");
        let asked = drained(&mut net, "one");
        assert!(about(&asked, "acme") && about_root(&asked, 1));
    }
}

#[test]
fn s13_what_is_new_is_asked_for_in_full_after_a_short_absence() {
    let (mut net, _) = away(5_000);
    net.root(2, "acme");
    net.connect("one");
    net.elapse(5 * SECOND);
    let asked = drained(&mut net, "one");
    assert!(about_root(&asked, 2) && !about_root(&asked, 1));
    assert!(asked.iter().all(|it| it.since.is_none()));
}

#[test]
fn s13_more_than_a_page_while_away_is_read_to_its_end() {
    let (mut net, lost_at) = away(60_000);
    net.connect("one");
    history(&mut net, "one");
    let since = Some(Timestamp(lost_at.timestamp().0 - RESUME_SECS));
    let oldest = Timestamp(lost_at.timestamp().0 + 10);
    let (sub, filters) = net.listens("one")[0].clone();
    net.listening("one", sub, full_page(filters.len(), 500, oldest));
    let asked = request(&mut net, "one");
    assert_eq!(asked.filters.len(), filters.len());
    for filter in asked.filters.iter() {
        assert_eq!((filter.since, filter.until), (since, Some(oldest)), "the rest of it");
    }
}

#[test]
fn s13_an_absence_that_was_not_made_up_for_counts_from_its_beginning() {
    let (mut net, lost_at) = away(60_000);
    net.connect("one");
    // Gone again before anything was told.
    net.elapse(MINUTE);
    net.fails("one");
    net.elapse(MINUTE);
    net.connect("one");
    let since = Some(Timestamp(lost_at.timestamp().0 - RESUME_SECS));
    assert!(net.live_filters("one").iter().all(|it| it.since == since));
}

#[test]
fn s13_a_catch_up_that_was_cut_off_is_made_up_for_too() {
    let (mut net, lost_at) = away(60_000);
    net.connect("one");
    for (sub, filters) in net.listens("one") {
        net.listening("one", sub, full_page(filters.len(), 500, net.now.timestamp()));
    }
    assert!(!history(&mut net, "one").is_empty());
    net.elapse(MINUTE);
    net.fails("one");
    net.elapse(10 * SECOND);
    net.connect("one");
    let since = Some(Timestamp(lost_at.timestamp().0 - RESUME_SECS));
    let live = net.live_filters("one");
    assert!(live.iter().all(|it| it.since == since), "{live:?}");
}

#[test]
fn s13_a_relay_that_was_cut_off_before_it_told_anything_is_asked_for_everything() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    net.elapse(SECOND);
    net.fails("one");
    net.connect("one");
    assert!(net.live_filters("one").iter().all(|it| it.since.is_none()));
    assert!(about(&drained(&mut net, "one"), "acme"));
}

// ---- S-14

#[test]
fn s14_on_disconnect_pending_is_dropped_and_the_failure_recorded() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    layer_one_confirmed(&mut net, "one");
    assert_eq!(view(&net, "one").pending, 1);
    net.fails("one");
    let seen = view(&net, "one");
    assert_eq!((seen.pending, seen.missing, seen.confirmed), (0, 1, 2));
    assert_eq!((seen.health.failures(), seen.account.failures), (1, 1));
    assert!(matches!(seen.health, Health::Degraded { .. }));
}

#[test]
fn s14_nothing_is_cleared_on_reconnect() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    layer_one_confirmed(&mut net, "one");
    for (sub, filters) in net.listens("one") {
        net.listening("one", sub, empty_page(filters.len()));
    }
    net.fails("one");
    net.connect("one");
    assert_eq!(view(&net, "one").confirmed, 2, "layer 1 stays confirmed");
    let asked = drained(&mut net, "one");
    assert!(about(&asked, "acme"), "what was pending is asked for again");
    assert!(asked.iter().all(|it| !it.tags.is_empty()), "and layer 1 is not");
    assert_eq!(view(&net, "one").health.failures(), 1, "a handshake is no recovery");
}

// ---- S-15

/// Lives on until everything is asked for anew; returns how long that took.
fn daily_of(net: &mut Bench, name: &str) -> Duration {
    let start = net.now;
    history(net, name);
    while net.reconciles(name).is_empty() {
        assert!(net.now.since(start) < 26 * HOUR, "no daily sync");
        net.answers_all(name);
        net.elapse(10 * SECOND);
    }
    net.now.since(start)
}

#[test]
fn s15_once_a_day_everything_is_asked_for_anew_and_live_stays_open() {
    let mut net = settled(&[("one", "acme")]);
    let listens = net.listens("one");
    let connected_at = START;
    history(&mut net, "one");
    let mut asked = Vec::new();
    while asked.is_empty() {
        net.elapse(10 * SECOND);
        asked = net.reconciles("one");
    }
    let after = net.now.since(connected_at);
    assert!((23 * HOUR..=25 * HOUR + 10 * SECOND).contains(&after), "{after:?}");
    assert_eq!(asked[0].errand.purpose, Purpose::Daily);
    assert_eq!(view(&net, "one").confirmed, 0, "confirmed is dropped");
    assert_eq!(net.listens("one"), listens, "live goes on");
    net.reconciled("one", asked[0].sub, vec![]);
    let all = drained(&mut net, "one");
    assert!(about(&all, "acme") && all.iter().all(|it| it.since.is_none()));
    assert_eq!(view(&net, "one").confirmed, 3);

    let again = daily_of(&mut net, "one");
    assert!((22 * HOUR..=25 * HOUR).contains(&again), "and the next day again: {again:?}");
}

#[test]
fn s15_what_was_asked_before_confirms_nothing_after() {
    let mut net = settled(&[("one", "acme")]);
    net.elapse(22 * HOUR);
    net.root(1, "acme");
    net.elapse(5 * SECOND);
    let pending = request(&mut net, "one");
    let mut first = net.reconciles("one");
    while first.is_empty() {
        net.elapse(MINUTE);
        first = net.reconciles("one");
    }
    assert_eq!(view(&net, "one").pending, 1, "only the first question of the new day");
    net.completes("one", pending.sub, empty_page(pending.filters.len()));
    assert_eq!(view(&net, "one").confirmed, 0);
    net.reconciled("one", first[0].sub, vec![]);
    assert!(about_root(&drained(&mut net, "one"), 1), "it is asked for again");
}

#[test]
fn s15_relays_have_their_daily_sync_at_different_times() {
    let mut net = Bench::new(Settings::default());
    let names: Vec<String> = (0..20).map(|n| format!("r{n}")).collect();
    let list: Vec<&str> = names.iter().map(String::as_str).collect();
    net.announce("acme", &list);
    net.replayed();
    for name in &list {
        net.connect(name);
    }
    let moments: BTreeSet<Time> =
        list.iter().map(|name| view(&net, name).daily_at.unwrap()).collect();
    assert_eq!(moments.len(), 20, "never all at once");
    let (first, last) = (moments.first().unwrap(), moments.last().unwrap());
    assert!(last.since(*first) > HOUR, "spread over the two hours");
    assert!(first.since(START) >= 23 * HOUR && last.since(net.now) <= 25 * HOUR);
}

#[test]
fn s15_a_relay_that_comes_back_after_its_moment_is_asked_once_not_twice() {
    let mut net = settled(&[("one", "acme")]);
    net.fails("one");
    net.elapse(30 * HOUR);
    while !net.is_dialled("one") {
        net.elapse(MINUTE);
    }
    net.connect("one");
    let asked = drained(&mut net, "one");
    let first_layer = |filter: &&Filter| filter.tags.is_empty();
    assert_eq!(asked.iter().filter(first_layer).count(), 2, "announcements and states: {asked:?}");
}

#[test]
fn s15_a_short_absence_does_not_skip_the_day() {
    let mut net = settled(&[("one", "acme")]);
    let daily_at = view(&net, "one").daily_at.unwrap();
    net.elapse(daily_at.since(net.now) - MINUTE);
    history(&mut net, "one");
    net.fails("one");
    net.elapse(5 * MINUTE);
    net.connect("one");
    net.elapse(SECOND);
    let asked = drained(&mut net, "one");
    assert!(about(&asked, "acme"), "it is made up for");
    assert!(view(&net, "one").daily_at.unwrap() > net.now);
}

// ---- S-16

#[test]
fn s16_a_relay_with_nothing_wanted_is_hung_up_and_forgotten() {
    let mut net = settled(&[("one", "acme"), ("two", "lib")]);
    assert!(net.remembered("one").is_some());
    net.withdraw("acme");
    net.elapse(61 * SECOND);
    assert_eq!(net.hangups("one"), 1);
    assert!(net.remembered("one").is_none());
    assert_eq!(net.engine.relay_view(&relay("one"), net.now), None);
    assert!(net.is_connected("two"));
    net.elapse(DAY);
    assert_eq!(net.dials_of("one"), 1, "never dialled again");
}

#[test]
fn s16_removal_looks_at_what_is_wanted_not_at_what_is_confirmed() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    net.elapse(10 * MINUTE);
    assert_eq!(net.hangups("one"), 0, "nothing is confirmed yet, and all of it is wanted");
}

#[test]
fn s16_a_relay_wanted_again_within_the_minute_stays() {
    let mut net = settled(&[("one", "acme")]);
    let listens = net.listens("one").len();
    net.withdraw("acme");
    net.announce("lib", &["one"]);
    net.elapse(5 * MINUTE);
    assert_eq!(net.hangups("one"), 0);
    assert!(net.listens("one").len() >= listens);
    assert!(hears(&net, "one", "lib"));
}

fn bootstrapped(relays: &[&RelayUrl], settings: Settings) -> Bench {
    let mut net = Bench::new(settings.clone());
    let engine = Engine::new(settings, 1);
    net.engine = relays.iter().fold(engine, |engine, it| engine.with_bootstrap(it, START));
    net
}

#[test]
fn s16_the_bootstrap_relay_stays_whatever_is_wanted() {
    let mut net = bootstrapped(&[&relay("boot")], Settings::default());
    net.replayed();
    net.connect("boot");
    assert!(hears_layer_one(&net, "boot"), "layer 1 alone makes a cold start useful");
    let asked = drained(&mut net, "boot");
    assert_eq!(asked.len(), 2, "announcements and states: {asked:?}");
    net.announce("acme", &["boot"]);
    net.elapse(6 * SECOND);
    net.withdraw("acme");
    net.elapse(HOUR);
    assert_eq!(net.hangups("boot"), 0);
    assert!(view(&net, "boot").bootstrap);
    net.fails("boot");
    net.connect("boot");
}

#[test]
fn s16_the_place_of_a_removed_relay_goes_to_one_that_waits() {
    let mut net = Bench::new(Settings { links_max: 1, ..Settings::default() });
    net.announce("acme", &["one"]);
    net.replayed();
    net.connect("one");
    net.settle("one");
    net.announce("lib", &["two"]);
    net.withdraw("acme");
    net.elapse(61 * SECOND);
    assert_eq!(net.hangups("one"), 1);
    net.elapse(10 * SECOND);
    assert_eq!(net.dials_of("two"), 1, "a link is free");
}

// ---- S-17

#[test]
fn s17_on_connect_live_opens_before_any_history() {
    let mut net = following(Settings::default(), &named(150), "one");
    net.connect("one");
    let live: BTreeSet<Sub> = net.listens("one").into_iter().map(|it| it.0).collect();
    assert!(named(150).iter().all(|name| hears(&net, "one", name)), "all of it");
    let first_question = reconcile(&mut net, "one").sub;
    assert!(live.iter().all(|sub| *sub < first_question));
}

#[test]
fn s17_what_is_new_is_heard_before_its_past_is_asked_for() {
    let mut net = settled(&[("one", "acme")]);
    net.root(1, "acme");
    net.elapse(5 * SECOND);
    let live = net.listens("one").into_iter().map(|it| it.0).max().unwrap();
    let asked = request(&mut net, "one");
    assert!(hears_root(&net, "one", 1) && live < asked.sub);
}

#[test]
fn s17_a_slow_history_delays_no_live() {
    let mut net = Bench::tracking([("slow", "acme"), ("fast", "acme")]);
    net.connect("slow");
    net.connect("fast");
    net.settle("fast");
    // The slow one never answers a question.
    net.announce("lib", &["slow", "fast"]);
    net.root(1, "acme");
    net.elapse(5 * SECOND);
    for name in ["slow", "fast"] {
        assert!(hears(&net, name, "lib") && hears_root(&net, name, 1), "{name}");
    }
}

#[test]
fn s17_live_is_not_paced() {
    let mut net = following(tiny_filters(), &named(120), "one");
    net.connect_with("one", allowing(500));
    assert!(named(120).iter().all(|name| hears(&net, "one", name)), "in the same instant");
}

/// While the past of a root is read, its live subscription breaks off and is opened again.
fn breaks_off_during_history(text: &str) {
    let mut net = settled(&[("one", "acme")]);
    net.root(1, "acme");
    net.elapse(5 * SECOND);
    let (sub, filters) = net.listens("one").into_iter().find(|it| about_root(&it.1, 1)).unwrap();
    net.listening("one", sub, empty_page(filters.len()));
    let first = request(&mut net, "one");
    net.completes("one", first.sub, full_page(3, 500, secs_ago(&net, 1_000)));
    let second = request(&mut net, "one");
    let lost_at = net.now.timestamp();
    net.closed("one", sub, text);
    net.elapse(66 * SECOND);
    net.completes("one", second.sub, empty_page(second.filters.len()));
    // Whatever was published in that minute must be asked for by somebody.
    let mut covered = false;
    for _ in 0..(20 * 60) {
        let live = net.live_filters("one");
        let asked = history(&mut net, "one");
        covered |= live.iter().chain(&asked).any(|filter| {
            let from_before = filter.since.is_none_or(|since| since <= lost_at);
            let to_now = filter.until.is_none_or(|until| until.0 > lost_at.0 + 66);
            let stored = filter.limit.is_none();
            about_root(std::slice::from_ref(filter), 1) && from_before && to_now && stored
        });
        net.answers_all("one");
        net.elapse(SECOND);
    }
    assert!(covered, "{text}: nobody asks for what happened in between");
}

#[test]
fn s17_a_live_subscription_that_breaks_off_during_history_leaves_no_gap() {
    breaks_off_during_history("error: shutting down idle subscription");
}

#[test]
fn s17_nor_does_one_that_was_refused_for_its_rate() {
    breaks_off_during_history("rate-limited: slow down");
}

#[test]
fn s17_a_peer_that_says_nothing_about_itself_is_served_the_same() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect_with("one", Peer::default());
    assert!(hears(&net, "one", "acme"));
    net.lose("one", Loss::TooSlow);
    assert_eq!(view(&net, "one").health.failures(), 1);
}

#[test]
fn s17_a_live_subscription_that_is_never_told_is_asked_for_in_turn() {
    // Some relays send no EOSE when the limit is zero; nobody knows whether they listen.
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    let mut asked: Vec<Filter> = Vec::new();
    for _ in 0..(20 * 60) {
        for it in net.reconciles("one") {
            net.reconciled("one", it.sub, vec![]);
        }
        for it in net.requests("one") {
            asked.extend(it.filters.iter().cloned());
            net.completes("one", it.sub, empty_page(it.filters.len()));
        }
        net.elapse(SECOND);
    }
    let in_turn: Vec<Filter> = asked.into_iter().filter(|it| it.since.is_some()).collect();
    assert!(about(&in_turn, "acme"));
    assert!(in_turn.iter().any(|it| it.tags.is_empty()), "layer 1 too");
}

#[test]
fn s13_what_is_in_rotation_is_resumed_too() {
    let mut net = following(tiny_filters(), &named(10), "one");
    net.connect_with("one", allowing(2));
    answers_for(&mut net, &["one"], 10 * MINUTE);
    net.fails("one");
    net.elapse(5 * MINUTE);
    net.connect_with("one", allowing(2));
    let back_at = net.now;
    let mut asked = Vec::new();
    for _ in 0..(12 * 60) {
        asked.extend(history(&mut net, "one"));
        net.answers_all("one");
        net.elapse(SECOND);
    }
    for name in named(10) {
        let first = asked.iter().find(|it| about(std::slice::from_ref(it), &name));
        let since = first.and_then(|it| it.since).unwrap();
        assert!(since.0 + 5 * 60 <= back_at.timestamp().0, "{name} from before the absence");
    }
}

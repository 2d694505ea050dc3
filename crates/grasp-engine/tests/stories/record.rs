//! What outlives a restart: how a relay is, what it allows, and what was confirmed there.

use super::kit::*;
use grasp_core::{Filter, Time, Timestamp};
use grasp_engine::{Health, Input, Learned, Level, Page, Record, Settings};
use grasp_testkit::world::names::{event_id, relay, repo};
use grasp_testkit::world::{Bench, START, empty_page};

/// A repository with a root, confirmed on two relays, and written down.
fn known() -> Bench {
    let mut net = settled(&[("one", "acme"), ("two", "acme")]);
    net.root(1, "acme");
    net.elapse(6 * SECOND);
    net.settle("one");
    net.settle("two");
    net.elapse(MINUTE);
    net
}

fn last_alive(net: &Bench, name: &str) -> Time {
    net.remembered(name).unwrap().last_alive.unwrap()
}

/// All that is asked about other than from where it was left.
fn in_full(net: &mut Bench, on: &str) -> Vec<Filter> {
    drained(net, on).into_iter().filter(|it| it.since.is_none()).collect()
}

#[test]
fn s13_a_restart_within_fifteen_minutes_resumes() {
    let mut net = known();
    let alive = last_alive(&net, "one");
    net.restart_after(10 * MINUTE);
    net.connect("one");
    let since = Some(Timestamp(alive.timestamp().0 - RESUME_SECS));
    let live = net.live_filters("one");
    assert!(hears_layer_one(&net, "one"));
    assert!(hears(&net, "one", "acme") && hears_root(&net, "one", 1));
    let asked = drained(&mut net, "one");
    assert_eq!(asked.len(), live.len(), "what was confirmed is not fetched again");
    assert!(asked.iter().all(|it| it.since == since && it.limit.is_none()), "{asked:?}");
}

#[test]
fn s13_a_restart_after_fifteen_minutes_is_fresh() {
    let mut net = known();
    net.restart_after(16 * MINUTE);
    net.connect("one");
    assert!(net.live_filters("one").iter().all(|it| it.since.is_none()));
    let asked = drained(&mut net, "one");
    assert!(about(&asked, "acme") && about_root(&asked, 1));
}

#[test]
fn s13_the_time_away_counts_from_when_it_was_last_alive_not_from_the_restart() {
    let mut net = known();
    net.fails("one");
    let alive = last_alive(&net, "one");
    net.elapse(10 * MINUTE);
    assert_eq!(last_alive(&net, "one"), alive);
    net.restart_after(6 * MINUTE);
    net.connect("one");
    assert!(net.live_filters("one").iter().all(|it| it.since.is_none()), "sixteen minutes");
}

#[test]
fn s3_last_alive_is_refreshed_while_the_link_lives() {
    let mut net = known();
    net.elapse(5 * HOUR);
    assert!(net.now.since(last_alive(&net, "one")) <= MINUTE + SECOND);
    net.restart_after(5 * MINUTE);
    net.connect("one");
    assert_eq!(in_full(&mut net, "one"), []);
}

#[test]
fn s13_what_came_after_the_last_record_is_fetched_in_full() {
    let mut net = known();
    // Nobody had time to write down that these are wanted, or confirmed.
    let before = net.remembered("one").cloned().unwrap();
    net.root(2, "acme");
    net.announce("lib", &["one"]);
    net.elapse(6 * SECOND);
    net.settle("one");
    net.recall("one", before);
    net.restart_after(MINUTE);
    net.connect("one");
    let asked = in_full(&mut net, "one");
    assert!(about_root(&asked, 2) && about(&asked, "lib"));
    assert!(!about_root(&asked, 1) && !about(&asked, "acme"));
}

#[test]
fn s13_what_was_wanted_but_not_confirmed_is_fetched_after_the_restart() {
    let mut net = known();
    net.root(2, "acme");
    net.elapse(6 * SECOND);
    assert!(about_root(&history(&mut net, "one"), 2));
    // It is never answered, and the record is written again meanwhile.
    net.elapse(2 * MINUTE);
    net.restart_after(MINUTE);
    net.connect("one");
    let asked = in_full(&mut net, "one");
    assert!(about_root(&asked, 2));
    assert!(!about_root(&asked, 1));
}

#[test]
fn s1_a_newly_listed_relay_gets_the_old_roots_across_a_restart() {
    let mut net = known();
    net.announce("lib", &["three"]);
    net.elapse(6 * SECOND);
    net.connect("three");
    net.settle("three");
    net.elapse(MINUTE);
    // Listed just before the end.
    net.announce("acme", &["one", "two", "three"]);
    net.restart_after(MINUTE);
    net.connect("three");
    assert!(hears(&net, "three", "acme") && hears_root(&net, "three", 1));
    let asked = in_full(&mut net, "three");
    assert!(about(&asked, "acme") && about_root(&asked, 1), "{asked:?}");
    assert!(!about(&asked, "lib"));
}

#[test]
fn s1_the_same_when_the_record_was_written_after_it_was_listed() {
    let mut net = known();
    net.announce("lib", &["three"]);
    net.elapse(6 * SECOND);
    net.connect("three");
    net.settle("three");
    net.announce("acme", &["one", "two", "three"]);
    net.elapse(3 * MINUTE);
    net.restart_after(MINUTE);
    net.connect("three");
    let asked = in_full(&mut net, "three");
    assert!(about(&asked, "acme") && about_root(&asked, 1), "{asked:?}");
}

#[test]
fn s1_a_relay_listed_while_it_was_away_gets_everything_after_a_restart() {
    let mut net = known();
    net.announce("lib", &["three"]);
    net.elapse(6 * SECOND);
    net.connect("three");
    net.settle("three");
    net.fails("three");
    net.announce("acme", &["one", "two", "three"]);
    net.elapse(3 * SECOND);
    net.restart_after(MINUTE);
    net.connect("three");
    let asked = in_full(&mut net, "three");
    assert!(about(&asked, "acme") && about_root(&asked, 1), "{asked:?}");
}

#[test]
fn s1_a_promotion_just_before_the_end_is_not_lost() {
    let mut net = Bench::new(Settings::default());
    net.announce_held("acme", &["one"]);
    net.root(1, "acme");
    net.replayed();
    net.connect("one");
    net.settle("one");
    net.elapse(MINUTE);
    net.announce("acme", &["one"]);
    net.restart_after(MINUTE);
    net.connect("one");
    let asked = in_full(&mut net, "one");
    assert!(about(&asked, "acme") && about_root(&asked, 1), "{asked:?}");
}

#[test]
fn s20_a_crash_during_the_first_sync_confirms_nothing() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    let first = reconcile(&mut net, "one");
    net.reconciled("one", first.sub, vec![]);
    net.elapse(2 * MINUTE);
    net.restart_after(MINUTE);
    net.connect("one");
    let asked = in_full(&mut net, "one");
    assert!(about(&asked, "acme"));
}

#[test]
fn s20_a_second_crash_before_anything_was_told_loses_nothing() {
    let mut net = known();
    let alive = last_alive(&net, "one");
    net.restart_after(4 * MINUTE);
    net.connect("one");
    net.elapse(2 * MINUTE);
    net.restart_after(4 * MINUTE);
    net.connect("one");
    let since = Timestamp(alive.timestamp().0 - RESUME_SECS);
    for filter in net.live_filters("one") {
        assert!(filter.since.is_none_or(|it| it <= since), "{filter:?}");
    }
}

/// Has everything but one event, which it names and never gives out.
fn holds_back(net: &mut Bench, time: std::time::Duration) -> Vec<Filter> {
    let mut seen = Vec::new();
    let end = net.now.plus(time);
    while net.now < end {
        for asked in net.requests("one") {
            let named = asked.filters[0].ids.clone().map(Vec::from).unwrap_or_default();
            let missing: Vec<_> = named.into_iter().filter(|id| *id == event_id(3)).collect();
            let page = Page { missing, ..empty_page(asked.filters.len()) };
            seen.extend(asked.filters.iter().cloned());
            net.completes("one", asked.sub, page);
        }
        for asked in net.reconciles("one") {
            seen.push(asked.filter.clone());
            net.reconciled("one", asked.sub, vec![]);
        }
        for (sub, filters) in net.listens("one") {
            net.listening("one", sub, empty_page(filters.len()));
        }
        net.elapse(SECOND);
    }
    seen
}

#[test]
fn s18_ids_that_are_owed_are_not_forgotten_by_a_restart() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    let first = reconcile(&mut net, "one");
    net.reconciled("one", first.sub, ids(0..10));
    holds_back(&mut net, 3 * MINUTE);
    assert_eq!(view(&net, "one").missing + view(&net, "one").pending, 0);
    net.restart_after(MINUTE);
    net.connect("one");
    let asked = holds_back(&mut net, 20 * MINUTE);
    let named = |it: &Filter| it.ids.as_ref().is_some_and(|it| it.contains(&event_id(3)));
    let compared = |it: &Filter| it.tags.is_empty() && it.ids.is_none() && it.since.is_none();
    assert!(asked.iter().any(|it| named(it) || compared(it)), "by name, or by comparing anew");
}

// ---- how a relay is

#[test]
fn s22_a_restart_does_not_forget_that_a_relay_is_dead() {
    let mut net = Bench::tracking([("one", "acme")]);
    let dead = Health::Dead { failures: 40, first: START, next_try: net.now.plus(20 * HOUR) };
    net.lose("one", grasp_engine::Loss::HungUp);
    net.recall("one", Record { health: dead, ..Record::default() });
    let before = net.dials().len();
    net.restart_after(SECOND);
    net.elapse(19 * HOUR);
    assert_eq!(net.dials().len(), before, "nor hammer it");
    net.elapse(HOUR);
    assert_eq!(net.dials().len(), before + 1);
}

#[test]
fn s22_a_failure_is_written_down_at_once() {
    let mut net = Bench::tracking([("one", "acme")]);
    for failures in 1..=4 {
        while !net.is_dialled("one") {
            net.elapse(SECOND);
        }
        net.fails("one");
        assert_eq!(net.remembered("one").unwrap().health.failures(), failures);
    }
    let next_try = net.remembered("one").unwrap().health.next_try();
    net.restart_after(SECOND);
    net.elapse(next_try.since(net.now) - SECOND);
    assert!(!net.is_dialled("one"));
    net.elapse(SECOND);
    assert!(net.is_dialled("one"));
}

#[test]
fn s23_a_cooldown_and_a_pause_outlive_a_restart() {
    for (text, wait) in [("rate-limited: slow down", 65), ("blocked: go away", 24 * 3600)] {
        let mut net = known();
        net.root(2, "acme");
        net.elapse(6 * SECOND);
        let asked = request(&mut net, "one");
        net.closed("one", asked.sub, text);
        let until = net.now.plus(std::time::Duration::from_secs(wait));
        net.restart_after(10 * SECOND);
        net.connect("one");
        assert_eq!(net.listens("one"), [], "{text}");
        net.elapse(until.since(net.now) - SECOND);
        assert_eq!((net.listens("one"), history(&mut net, "one")), (vec![], vec![]), "{text}");
        net.elapse(2 * SECOND);
        assert!(hears_layer_one(&net, "one"), "{text}");
    }
}

#[test]
fn s11_limits_a_relay_showed_outlive_a_restart() {
    let mut net = following(tiny_filters(), &named(15), "one");
    net.connect_with("one", allowing(500));
    let rules = Rules { filters_max: 2, ..Rules::default() };
    Played::by(rules).plays(&mut net, "one", 10 * MINUTE);
    let learned = net.remembered("one").unwrap().learned;
    assert_eq!(learned, Learned { filters_per_request_max: Some(2), ..Learned::default() });
    net.restart_after(HOUR);
    net.connect_with("one", allowing(500));
    assert!(net.listens("one").iter().all(|it| it.1.len() <= 2));
}

#[test]
fn s15_the_daily_moment_outlives_a_restart() {
    let mut net = known();
    let daily_at = view(&net, "one").daily_at;
    assert!(daily_at.is_some());
    net.elapse(10 * HOUR);
    net.restart_after(MINUTE);
    net.connect("one");
    assert_eq!(view(&net, "one").daily_at, daily_at, "a restart a day must not mean none");
}

#[test]
fn s30_attempts_failures_and_uptime_are_kept() {
    let mut net = known();
    net.elapse(HOUR);
    net.fails("one");
    let record = net.remembered("one").unwrap().clone();
    assert_eq!((record.account.attempts, record.account.failures), (1, 1));
    assert!(record.account.connected_ms >= 3_600_000);
    net.restart_after(MINUTE);
    net.connect("one");
    let account = view(&net, "one").account;
    assert_eq!((account.attempts, account.failures), (2, 1));
    assert!(account.connected_ms >= 3_600_000);
    assert_eq!(account.known_since, record.account.known_since);
}

#[test]
fn a_record_of_an_older_version_opens() {
    let record: Record = serde_json::from_str("{}").unwrap();
    assert_eq!(record, Record::default());
    let net = known();
    let record = net.remembered("one").unwrap();
    let text = serde_json::to_string(record).unwrap();
    assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), *record);
}

#[test]
fn a_record_of_a_relay_nobody_wants_is_forgotten() {
    let mut net = Bench::new(Settings::default());
    net.recall("old", Record { last_alive: Some(START), ..Record::default() });
    net.replayed();
    net.elapse(2 * MINUTE);
    assert_eq!(net.dials().len(), 0);
    assert!(net.remembered("old").is_none());
}

#[test]
fn a_record_from_the_future_does_no_harm() {
    let later = START.plus(DAY);
    let mut net = Bench::new(Settings::default());
    net.recall("one", Record { last_alive: Some(later), ..Record::default() });
    let relays = vec![relay("one")];
    let level = Level::Full;
    net.input(Input::Announced { repo: repo("acme"), relays, level, serial: 5 });
    net.replayed();
    net.connect("one");
    let now = net.now.timestamp();
    for filter in net.live_filters("one") {
        assert!(filter.since.is_none_or(|since| since < now), "deaf until then: {filter:?}");
    }
    assert!(about(&in_full(&mut net, "one"), "acme"), "it was never confirmed");
}

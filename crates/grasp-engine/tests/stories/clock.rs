//! A wall clock that is set while the engine runs. Waits and absences are measured by the engine's own
//! clock; only what it asks for and writes down follows the wall clock.

use super::kit::*;
use grasp_core::{Filter, Kind, Time, Timestamp, WallOffset};
use grasp_engine::Health;
use grasp_testkit::world::Bench;

const DAY_MS: i64 = 24 * 3_600_000;

#[test]
fn a_clock_that_is_set_by_a_day_postpones_no_dial() {
    for ahead_ms in [DAY_MS, -DAY_MS, 400 * DAY_MS, -400 * DAY_MS] {
        let mut net = Bench::tracking([("one", "acme")]);
        net.fails("one");
        let failed_at = net.now;
        net.set_wall_ahead(ahead_ms);
        net.elapse(6 * SECOND);
        let dialled: Vec<u64> =
            net.dials().iter().map(|(at, _)| at.since(failed_at).as_secs()).collect();
        assert_eq!(dialled.last(), Some(&5), "after its back-off: {ahead_ms}");
    }
}

#[test]
fn three_failures_and_a_clock_set_forward_make_no_relay_dead() {
    let mut net = Bench::tracking([("one", "acme")]);
    for _ in 0..3 {
        while !net.is_dialled("one") {
            net.elapse(SECOND);
        }
        net.fails("one");
        net.set_wall_ahead(400 * DAY_MS);
    }
    assert!(matches!(view(&net, "one").health, Health::Degraded { failures: 3, .. }));
}

#[test]
fn three_failures_and_a_clock_set_forward_between_two_runs_make_no_relay_dead() {
    let mut net = Bench::tracking([("one", "acme")]);
    for _ in 0..2 {
        while !net.is_dialled("one") {
            net.elapse(SECOND);
        }
        net.fails("one");
    }
    net.restart_after(30 * DAY);
    while !net.is_dialled("one") {
        net.elapse(SECOND);
    }
    net.fails("one");
    assert!(matches!(view(&net, "one").health, Health::Degraded { failures: 3, .. }));
}

#[test]
fn a_back_off_written_by_a_clock_that_was_ahead_is_as_long_as_it_was() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.fails("one");
    net.now = Time(net.now.0 - DAY_MS.unsigned_abs());
    net.restart_after(SECOND);
    let started_at = net.now;
    while !net.is_dialled("one") {
        net.elapse(SECOND);
    }
    assert!(net.now.since(started_at) <= 5 * SECOND, "{:?}", net.now.since(started_at));
}

#[test]
fn after_a_clock_was_set_everything_is_compared_once_and_not_too_often() {
    let mut net = settled(&[("one", "acme")]);
    net.set_wall_ahead(60_000);
    assert_eq!(drained(&mut net, "one"), [], "a correction is no step");
    net.set_wall_ahead(DAY_MS);
    let asked = drained(&mut net, "one");
    assert!(about(&asked, "acme") && asked.iter().all(|it| it.since.is_none()), "{asked:?}");
    let is_first_layer = |it: &&Filter| it.kinds == Some(vec![Kind::ANNOUNCEMENT].into());
    let mut compared = 0;
    for minute in 0..60 {
        net.set_wall_ahead(if minute % 2 == 0 { 0 } else { DAY_MS });
        for _ in 0..60 {
            net.elapse(SECOND);
            let asked = history(&mut net, "one");
            compared += asked.iter().filter(is_first_layer).count();
            net.answers_all("one");
        }
    }
    assert!((5..=12).contains(&compared), "ever less often: {compared}");
}

#[test]
fn a_relay_that_was_away_while_the_clock_was_set_is_asked_for_everything() {
    let mut net = settled(&[("one", "acme")]);
    net.fails("one");
    net.set_wall_ahead(-DAY_MS);
    net.connect("one");
    let asked = drained(&mut net, "one");
    assert!(about(&asked, "acme") && asked.iter().all(|it| it.since.is_none()), "{asked:?}");
}

/// Where the gap of a short absence begins if the wall clock was set before it.
fn gap_begins_before_loss(ahead_ms: i64) -> i64 {
    let mut net = settled(&[("one", "acme")]);
    net.set_wall_ahead(ahead_ms);
    net.settle("one");
    history(&mut net, "one");
    let lost_at = net.now;
    net.fails("one");
    net.elapse(10 * SECOND);
    net.connect("one");
    assert!(net.live_filters("one").iter().all(|it| it.since.is_none()));
    let gap: Vec<Filter> = gap(&mut net, "one");
    let first: Timestamp = gap.iter().filter_map(|it| it.since).max().unwrap();
    lost_at.timestamp().0.cast_signed() - first.0.cast_signed()
}

#[test]
fn a_gap_is_asked_for_in_wall_time_and_never_later_than_either_clock_says() {
    let resume = RESUME_SECS.cast_signed();
    assert_eq!(gap_begins_before_loss(0), resume);
    assert_eq!(gap_begins_before_loss(-DAY_MS), 24 * 3_600 + resume);
    assert_eq!(gap_begins_before_loss(DAY_MS), resume, "the old time may have been right");
    assert_eq!(gap_begins_before_loss(400 * DAY_MS), resume - 399 * 24 * 3_600);
}

#[test]
fn a_record_is_written_in_wall_time_and_read_by_the_clock_of_the_next_run() {
    let mut net = settled(&[("one", "acme")]);
    net.set_wall_ahead(-DAY_MS);
    net.settle("one");
    net.elapse(2 * MINUTE);
    let wall = WallOffset(-DAY_MS).to_wall(net.now);
    let alive = net.remembered("one").unwrap().last_alive.unwrap();
    assert!(alive <= wall && wall.since(alive) < 2 * MINUTE, "{alive:?} {wall:?}");
    // The next run starts with the wall clock of now.
    net.now = wall;
    net.restart_after(MINUTE);
    net.connect("one");
    assert_eq!(view(&net, "one").confirmed, 3, "a short absence");
}

#[test]
fn a_record_from_the_future_is_of_no_use() {
    let mut net = settled(&[("one", "acme")]);
    net.elapse(2 * MINUTE);
    net.now = Time(net.now.0 - DAY_MS.unsigned_abs());
    net.restart_after(MINUTE);
    net.connect("one");
    assert_eq!(view(&net, "one").confirmed, 0, "everything is asked for anew");
}

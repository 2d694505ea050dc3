//! A clock that is set back.

use crate::kit::*;
use grasp_engine::hunt::HuntSettings;
use std::time::Duration;

#[test]
fn a_clock_set_back_by_an_hour_stops_nothing() {
    let mut net = Net::new(HuntSettings { domain_starts_max: 2, ..HuntSettings::default() });
    net.server("one", &[1]);
    net.server("two", &[]).manner = slow_down(Some(5 * MINUTE));
    for n in 1..4 {
        net.misses(&format!("repo{n}"), &[n], &["one", "two"]);
    }
    net.elapse_to(2_000);
    assert!(net.is_complete("repo1"));
    net.server("one", &[1, 2, 3]);
    net.set_clock_back(HOUR);
    let at = net.now;
    net.elapse(57 * SECOND);
    assert_eq!(net.watch.running_max, 3);
    let asked = net.fetches.len();
    net.elapse(10 * SECOND);
    assert!(net.fetches.len() > asked, "the window is over when its minute is");
    net.elapse(4 * MINUTE);
    assert!(net.is_complete("repo2") && net.is_complete("repo3"));
    let paused = net.hunt.domains(net.now)[1].paused_until;
    assert!(paused.is_none_or(|until| until <= at.plus(10 * MINUTE)), "{paused:?}");
}

#[test]
fn what_is_due_in_a_minute_is_due_in_a_minute() {
    let mut net = Net::new(HuntSettings::default());
    net.server("one", &[]).latency = Duration::ZERO;
    net.misses("acme", &[1], &["one"]);
    net.elapse_to(500);
    assert_eq!(net.look_times().len(), 1);
    net.elapse_to(10_500);
    net.set_clock_back(20 * MINUTE);
    net.elapse(9_999 * Duration::from_millis(1));
    assert_eq!(net.look_times().len(), 1);
    net.elapse(Duration::from_millis(1));
    assert_eq!(net.look_times().len(), 2);
}

#[test]
fn a_clock_that_is_corrected_by_a_moment_changes_nothing() {
    let mut net = Net::new(HuntSettings::default());
    net.server("one", &[]).latency = Duration::ZERO;
    net.misses("acme", &[1], &["one"]);
    net.elapse_to(10_000);
    net.hunt.handle_deadline(net.now);
    let before = format!("{:?}", net.hunt);
    net.now = grasp_core::Time(net.now.0 - 900);
    net.hunt.handle_deadline(net.now);
    assert_eq!(format!("{:?}", net.hunt), before);
    net.elapse_to(21_000);
    assert_eq!(net.look_times(), [500, 20_500]);
}

//! What operators are told: link states, batches, failures, daily syncs, and what is not followed.

use super::kit::*;
use grasp_engine::{End, Input, Level, News, NotFollowed, Page, Purpose, Settings, Wait};
use grasp_testkit::world::names::{relay, repo};
use grasp_testkit::world::{Bench, empty_page};

fn count(net: &mut Bench, is_it: impl Fn(&News) -> bool) -> usize {
    net.news().iter().filter(|news| is_it(news)).count()
}

#[test]
fn s12_a_relay_that_is_being_dialled_is_told_from_one_that_is_not_connected() {
    let mut net = following(Settings::default(), &named(1), "one");
    assert!(view(&net, "one").connecting && !view(&net, "one").connected);
    assert_eq!(net.engine.sync_figures().dialling, 1);
    net.connect("one");
    assert!(view(&net, "one").connected && !view(&net, "one").connecting);
    net.fails("one");
    assert!(!view(&net, "one").connected && !view(&net, "one").connecting);
    assert_eq!(net.engine.sync_figures().dialling, 0);
}

#[test]
fn s2_a_batch_has_one_number_in_the_news_and_in_the_view() {
    let mut net = following(Settings::default(), &named(1), "one");
    net.connect("one");
    let shown = view(&net, "one").batches;
    assert_eq!(shown.len(), 1);
    assert!(shown[0].compares && shown[0].outstanding == 1 && shown[0].groups == 1);
    let id = shown[0].id;
    let began = |it: &News| matches!(it, News::BatchBegan { batch, .. } if *batch == id);
    assert_eq!(count(&mut net, began), 1);
    net.settle("one");
    let ended =
        |it: &News| matches!(it, News::BatchEnded { batch, confirmed: true, .. } if *batch == id);
    assert_eq!(count(&mut net, ended), 1);
    assert!(view(&net, "one").batches.is_empty());
}

#[test]
fn s19_why_a_comparison_failed_is_told_once_for_each_relay_and_reason_until_it_changes() {
    let mut net = following(Settings::default(), &named(1), "one");
    net.connect("one");
    let fails = |net: &mut Bench, why: &str| {
        let open = reconcile(net, "one");
        net.news();
        net.ends("one", open.sub, End::NegentropyFailed(why.to_owned()));
        let told = net.news();
        let told = told.into_iter().find_map(|it| match it {
            News::ComparisonFailed { why, is_new, .. } => Some((why, is_new)),
            _ => None,
        });
        assert_eq!(view(net, "one").comparison_failure.as_deref(), Some(why));
        drained(net, "one");
        // Long enough away that everything is compared anew.
        net.fails("one");
        net.elapse(20 * MINUTE);
        net.connect("one");
        told
    };
    let (first, other) = ("error: internal", "error: broken");
    assert_eq!(fails(&mut net, first), Some((first.to_owned(), true)));
    assert_eq!(fails(&mut net, first), Some((first.to_owned(), false)), "the same reason");
    assert_eq!(fails(&mut net, other), Some((other.to_owned(), true)), "another one");
    let open = reconcile(&mut net, "one");
    net.reconciled("one", open.sub, vec![]);
    assert_eq!(view(&net, "one").comparison_failure, None);
    drained(&mut net, "one");
    net.fails("one");
    net.elapse(20 * MINUTE);
    net.connect("one");
    assert_eq!(fails(&mut net, other), Some((other.to_owned(), true)), "it worked meanwhile");
}

#[test]
fn s13_a_stale_reconnect_is_told_with_the_length_of_the_absence() {
    let mut net = settled(&[("one", "acme")]);
    net.fails("one");
    net.elapse(5 * MINUTE);
    net.connect("one");
    let stale = |it: &News| matches!(it, News::Stale { .. });
    assert_eq!(count(&mut net, stale), 0, "a short absence");
    net.settle("one");
    net.fails("one");
    net.elapse(30 * MINUTE);
    net.connect("one");
    let away = net.news().into_iter().find_map(|it| match it {
        News::Stale { away, .. } => Some(away),
        _ => None,
    });
    assert_eq!(away, Some(30 * MINUTE));
}

#[test]
fn s15_a_daily_sync_is_told_when_it_begins_and_ends_with_its_length_and_what_it_brought() {
    let mut net = settled(&[("one", "acme")]);
    assert_eq!(view(&net, "one").daily_last, None);
    net.news();
    let mut asked = Vec::new();
    while asked.is_empty() {
        net.elapse(10 * SECOND);
        asked = net.reconciles("one");
    }
    let began = |it: &News| matches!(it, News::DailyBegan { groups: 3, .. });
    assert_eq!(count(&mut net, began), 1);
    assert!(view(&net, "one").daily_running);
    assert_eq!(net.engine.sync_figures().daily_running, 1);
    net.reconciled("one", asked[0].sub, ids(1..4));
    net.elapse(SECOND);
    let by_name = request(&mut net, "one");
    net.completes("one", by_name.sub, Page { stored: 2, ..empty_page(1) });
    drained(&mut net, "one");
    let last = view(&net, "one").daily_last.unwrap();
    assert_eq!(last.stored, 2, "what was new here");
    assert!(last.took() >= SECOND && last.took() < MINUTE, "{last:?}");
    let ended = |it: &News| matches!(it, News::DailyEnded { stored: 2, .. });
    assert_eq!(count(&mut net, ended), 1);
    let figures = net.engine.sync_figures();
    assert_eq!((figures.daily_running, figures.daily_last), (0, Some(last)));
    assert_eq!(figures.daily_next, view(&net, "one").daily_at);

    net.restart_after(MINUTE);
    assert_eq!(view(&net, "one").daily_last, Some(last), "a restart keeps it");
}

#[test]
fn s28_a_sync_by_hand_is_a_purpose_of_its_own_and_no_daily_sync() {
    let mut net = settled(&[("one", "acme")]);
    net.news();
    net.input(Input::Refresh { relay: Some(relay("one")), repo: None });
    let asked = net.reconciles("one");
    assert!(asked.iter().any(|it| it.errand.purpose == Purpose::ByHand));
    assert!(asked.iter().all(|it| it.errand.purpose != Purpose::Daily));
    net.reconciled("one", asked[0].sub, vec![]);
    drained(&mut net, "one");
    let daily = |it: &News| matches!(it, News::DailyBegan { .. } | News::DailyEnded { .. });
    assert_eq!(count(&mut net, daily), 0);
    assert_eq!(view(&net, "one").daily_last, None);
}

#[test]
fn s20_a_subscription_that_fails_is_told_with_its_reason() {
    let mut net = following(pages_only(), &named(1), "one");
    net.connect("one");
    let first = request(&mut net, "one");
    net.news();
    net.closed("one", first.sub, "error: the index is damaged");
    let why = net.news().into_iter().find_map(|it| match it {
        News::SubscriptionFailed { why, batch: Some(_), .. } => Some(why),
        _ => None,
    });
    assert_eq!(why.as_deref(), Some("error: the index is damaged"));
}

#[test]
fn s16_a_relay_that_no_repository_names_any_more_is_told_when_it_is_hung_up() {
    let mut net = settled(&[("one", "acme")]);
    net.withdraw("acme");
    net.news();
    net.elapse(2 * MINUTE);
    assert_eq!(count(&mut net, |it| matches!(it, News::Unwanted { .. })), 1);
}

#[test]
fn s22_the_last_failure_outlives_a_restart_and_death_is_told_with_its_length() {
    let mut net = following(Settings::default(), &named(1), "one");
    let started = net.now;
    net.fails("one");
    let failed_at = net.now;
    assert_eq!(view(&net, "one").last_failure, Some(failed_at));
    net.restart_after(SECOND);
    assert_eq!(view(&net, "one").last_failure, Some(failed_at));
    net.news();
    let failed_for = loop {
        net.elapse(MINUTE);
        if view(&net, "one").connecting {
            net.fails("one");
        }
        let dead = net.news().into_iter().find_map(|it| match it {
            News::Dead { failed_for, .. } => Some(failed_for),
            _ => None,
        });
        if let Some(failed_for) = dead {
            break failed_for;
        }
        assert!(net.now.since(started) < 3 * DAY, "it never died");
    };
    assert!(failed_for >= DAY && failed_for < DAY + 2 * HOUR, "{failed_for:?}");
}

#[test]
fn s11_repositories_in_rotation_and_relays_beyond_the_limit_are_counted() {
    let repos = named(4);
    let mut net = following(tiny_filters(), &repos, "one");
    net.connect_with("one", allowing(3));
    net.settle("one");
    let in_rotation = view(&net, "one").repositories_in_rotation;
    assert!(in_rotation > 0, "so few subscriptions do not cover everything");
    assert_eq!(net.engine.sync_figures().repositories_in_rotation, in_rotation);

    let names: Vec<String> = (0..25).map(|n| format!("r{n}")).collect();
    let relays = names.iter().map(|name| relay(name)).collect();
    net.input(Input::Announced { repo: repo("many"), relays, level: Level::Full, serial: 99 });
    assert_eq!(net.engine.sync_figures().relays_not_followed, 5);
    let views = net.engine.relay_views_after("", usize::MAX, net.now);
    let why = Wait::NotFollowed { why: NotFollowed::Announcement };
    assert_eq!(views.iter().filter(|it| it.waits.as_ref() == Some(&why)).count(), 5);
}

#[test]
fn s10_a_consolidation_is_told_with_the_number_of_filters_before_and_after() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect_with("one", allowing(500));
    net.settle("one");
    net.news();
    for n in 1..=22 {
        net.root(n, "acme");
        net.elapse(5 * SECOND);
        answers_for(&mut net, &["one"], 2 * SECOND);
    }
    let told = net.news().into_iter().find_map(|it| match it {
        News::Consolidated { filters_before, filters_after, .. } => {
            Some((filters_before, filters_after))
        }
        _ => None,
    });
    let (before, after) = told.unwrap();
    assert!(before > 60 && after < before / 2, "{before} became {after}");
}

//! Traps others fell into, rows 13 to 50, as far as the engine decides about them.

use super::kit::*;
use grasp_core::Timestamp;
use grasp_engine::{End, Health, Input, Loss, News, Page, Settings, Sub, Tally, Wait};
use grasp_testkit::world::names::{event_id, relay};
use grasp_testkit::world::{Bench, empty_page};

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

#[test]
fn trap_13_a_relay_that_blocks_us_is_left_alone_a_day_and_tried_once_more() {
    let mut net = asking();
    let asked = request(&mut net, "one");
    net.closed("one", asked.sub, "blocked: not welcome");
    net.elapse(DAY - SECOND);
    assert!(net.is_connected("one"), "the link is kept");
    assert_eq!(history(&mut net, "one"), []);
    net.elapse(2 * SECOND);
    let again = net.requests("one");
    let compared = net.reconciles("one");
    assert!(!again.is_empty() || !compared.is_empty(), "a probe");
    for sub in again.iter().map(|it| it.sub).chain(compared.iter().map(|it| it.sub)) {
        net.closed("one", sub, "blocked: not welcome");
    }
    let Some(Wait::Pause { until }) = view(&net, "one").waits else { panic!("not paused") };
    assert!(until.since(net.now) > DAY - MINUTE, "and another day");
    net.elapse(23 * HOUR);
    assert_eq!(history(&mut net, "one"), []);
}

#[test]
fn trap_14_an_unexplained_end_of_live_is_repaired_exactly_once() {
    let mut net = asking();
    net.settle("one");
    let mut opened = Vec::new();
    for _ in 0..(3 * 3600) {
        if hears_root(&net, "one", 1) {
            let live = live_of_root(&net);
            opened.push(net.now);
            net.closed("one", live, "");
        }
        net.answers_all("one");
        net.elapse(SECOND);
    }
    assert_eq!(opened.len(), 2, "once before, once after");
    assert!(opened[1].since(opened[0]) >= 65 * SECOND);
}

#[test]
fn trap_15_auth_is_answered_once_and_only_for_what_we_asked() {
    let mut net = asking();
    net.closed("one", Sub(999_999), "auth-required: for something of somebody else");
    assert_eq!(net.authentications("one"), 0, "that id is not ours");
    let asked = request(&mut net, "one");
    net.closed("one", asked.sub, "auth-required: please");
    net.authenticated("one", true);
    let again = request(&mut net, "one");
    net.closed("one", again.sub, "auth-required: please");
    assert_eq!(net.authentications("one"), 1);
    assert!(matches!(view(&net, "one").waits, Some(Wait::Pause { .. })));
}

#[test]
fn trap_15_a_verdict_on_an_answer_we_never_gave_is_ignored() {
    let mut net = asking();
    net.authenticated("one", false);
    assert_eq!(view(&net, "one").waits, None);
    net.authenticated("one", true);
    assert_eq!(net.requests("one").len(), 1);
}

#[test]
fn trap_16_an_invalid_filter_pauses_even_within_a_group() {
    let mut net = following(tiny_filters(), &named(8), "one");
    net.connect_with("one", allowing(500));
    let (sub, filters) = net.listens("one").into_iter().find(|it| it.1.len() > 5).unwrap();
    assert!(filters.len() > 1);
    net.closed("one", sub, "unsupported: invalid filters");
    assert_eq!(view(&net, "one").waits, Some(Wait::Pause { until: net.now.plus(DAY) }));
    assert_eq!(view(&net, "one").health, Health::Healthy);
}

#[test]
fn trap_19_ids_that_did_not_come_are_owed_three_hundred_at_a_time_and_one_question_at_once() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    let first = reconcile(&mut net, "one");
    net.reconciled("one", first.sub, ids(0..1_000));
    // Four in five come.
    let mut owed = 0;
    for _ in 0..10 {
        for asked in net.requests("one") {
            let named = asked.filters[0].ids.clone().map(Vec::from).unwrap();
            let missing: Vec<_> = named.iter().copied().skip(named.len() * 4 / 5).collect();
            owed += missing.len();
            let received = u32::try_from(named.len() - missing.len()).unwrap();
            let tallies = vec![Tally { received, oldest: Some(Timestamp(9_000)) }];
            net.completes("one", asked.sub, Page { tallies, missing, ..Page::default() });
        }
        net.elapse(SECOND);
    }
    assert_eq!(owed, 200);
    net.settle("one");
    history(&mut net, "one");

    let mut net2 = Bench::tracking([("one", "acme")]);
    net2.connect("one");
    let first = reconcile(&mut net2, "one");
    net2.reconciled("one", first.sub, ids(0..2_000));
    let mut asked_in_vain = 0;
    for _ in 0..(3 * 3600) {
        let open = net2.requests("one");
        let named: Vec<_> = open.iter().filter(|it| it.filters[0].ids.is_some()).collect();
        if asked_in_vain >= 2_000 {
            assert!(named.len() <= 1, "one at a time");
        }
        for asked in &open {
            let Some(named) = asked.filters[0].ids.clone().map(Vec::from) else {
                net2.completes("one", asked.sub, empty_page(asked.filters.len()));
                continue;
            };
            assert!(named.len() <= 300);
            asked_in_vain += named.len();
            // One in five comes, so it is not taken for a liar.
            let missing = named[named.len() / 5..].to_vec();
            net2.completes("one", asked.sub, Page { missing, ..empty_page(1) });
        }
        for asked in net2.reconciles("one") {
            net2.reconciled("one", asked.sub, vec![]);
        }
        net2.elapse(SECOND);
    }
    assert!(asked_in_vain > 3_000, "they are asked for again: {asked_in_vain}");
}

#[test]
fn trap_21_no_eose_no_confirmation_and_the_whole_batch_again() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    layer_one_confirmed(&mut net, "one");
    let open = net.reconciles("one");
    net.reconciled("one", open[0].sub, vec![event_id(1)]);
    let by_name = request(&mut net, "one");
    for asked in &open[1..] {
        net.reconciled("one", asked.sub, vec![]);
    }
    net.ends("one", by_name.sub, End::Silent);
    assert_eq!((view(&net, "one").confirmed, view(&net, "one").missing), (2, 1));
    net.elapse(66 * SECOND);
    let again = net.reconciles("one").len() + net.requests("one").len();
    assert!(again >= 1);
    net.settle("one");
    assert_eq!(view(&net, "one").confirmed, 3);
}

#[test]
fn trap_22_a_history_that_never_ends_does_not_keep_other_relays_from_being_heard() {
    let names: Vec<String> = (0..40).map(|n| format!("r{n}")).collect();
    let mut net = Bench::new(Settings { turns_max: 8, ..Settings::default() });
    for name in &names {
        net.announce(&format!("on-{name}"), &[name.as_str()]);
    }
    net.replayed();
    for name in &names {
        net.connect(name);
        assert!(hears_layer_one(&net, name), "{name} is heard at once");
    }
    // The first twenty never answer anything.
    let good: Vec<&str> = names.iter().skip(20).map(String::as_str).collect();
    answers_for(&mut net, &good, 3 * MINUTE);
    for name in good {
        assert_eq!(view(&net, name).confirmed, 3, "{name}");
    }
}

#[test]
fn trap_23_nothing_of_an_ended_session_is_replayed() {
    let mut net = asking();
    let old: Vec<Sub> = net.listens("one").into_iter().map(|it| it.0).collect();
    let pending = request(&mut net, "one");
    net.fails("one");
    net.connect("one");
    let new: Vec<Sub> = net.listens("one").into_iter().map(|it| it.0).collect();
    assert!(new.iter().all(|sub| !old.contains(sub)));
    let before = view(&net, "one").confirmed;
    // What the old session still says.
    net.input(Input::Ended {
        relay: relay("one"),
        sub: pending.sub,
        end: End::Complete(empty_page(3)),
    });
    net.input(Input::Ended { relay: relay("one"), sub: old[0], end: End::Closed("x".to_owned()) });
    assert_eq!(view(&net, "one").confirmed, before);
    assert_eq!(net.listens("one").len(), new.len());
}

#[test]
fn trap_24_short_absences_cause_no_full_sync_however_many() {
    let mut net = settled(&[("one", "acme")]);
    history(&mut net, "one");
    for _ in 0..20 {
        let lost_at = net.now;
        net.fails("one");
        net.connect("one");
        let since = Some(Timestamp(lost_at.timestamp().0 - RESUME_SECS));
        let asked = drained(&mut net, "one");
        assert!(!asked.is_empty() && asked.iter().all(|it| it.since == since), "{asked:?}");
        // Long enough to count as recovered.
        net.elapse(6 * MINUTE);
    }
}

#[test]
fn trap_25_an_address_that_can_never_be_right_is_tried_after_half_a_day() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.lose("one", Loss::Forbidden("not a public address".to_owned()));
    net.elapse(12 * HOUR - SECOND);
    assert_eq!(net.dials_of("one"), 1);
    net.elapse(2 * SECOND);
    assert_eq!(net.dials_of("one"), 2);
}

#[test]
fn trap_25_a_relay_that_lies_is_left_alone_for_a_day() {
    let mut net = settled(&[("one", "acme")]);
    net.lose("one", Loss::Misbehaved("forged events".to_owned()));
    net.elapse(DAY - SECOND);
    assert_eq!(net.dials_of("one"), 1);
    net.elapse(2 * SECOND);
    assert_eq!(net.dials_of("one"), 2);
    assert!(net.news().iter().any(|it| matches!(it, News::Failed { .. })));
}

#[test]
fn trap_25_a_flapping_relay_is_not_hammered() {
    let mut net = Bench::tracking([("one", "acme")]);
    let mut dials = Vec::new();
    for _ in 0..(6 * 3600) {
        if net.is_dialled("one") {
            dials.push(net.now);
            net.connect("one");
            net.elapse(MINUTE);
            net.fails("one");
        }
        net.elapse(SECOND);
    }
    assert!(dials.len() <= 16, "{} dials in six hours", dials.len());
}

#[test]
fn trap_26_relays_of_old_announcements_are_let_go_before_they_are_dialled() {
    let mut net = Bench::new(Settings::default());
    net.announce("acme", &["one", "two", "three"]);
    net.replayed();
    assert_eq!(net.dials().len(), 1);
    let first = net.dials()[0].1.clone();
    let name = ["one", "two", "three"].into_iter().find(|it| relay(it) == first).unwrap();
    net.announce("acme", &[name]);
    net.elapse(10 * MINUTE);
    assert_eq!(net.dials().len(), 1, "{:?}", net.dials());
}

#[test]
fn trap_26_a_held_announcement_that_expired_lets_its_relays_go() {
    let mut net = Bench::new(Settings::default());
    net.announce_held("waits", &["one"]);
    net.replayed();
    net.connect("one");
    net.settle("one");
    net.withdraw("waits");
    net.elapse(61 * SECOND);
    assert_eq!(net.hangups("one"), 1);
    assert!(net.remembered("one").is_none());
}

#[test]
fn trap_26_roots_stay_wanted_where_another_repository_wants_them() {
    let mut net = settled(&[("one", "acme"), ("one", "lib")]);
    net.root_of(1, &["acme", "lib"]);
    net.elapse(6 * SECOND);
    net.settle("one");
    net.withdraw("acme");
    net.elapse(6 * SECOND);
    net.fails("one");
    net.connect("one");
    assert!(hears_root(&net, "one", 1), "lib still wants it");
    assert!(hears(&net, "one", "lib"));
}

#[test]
fn trap_27_promotion_upgrades_what_is_asked() {
    let mut net = Bench::new(Settings::default());
    net.announce_held("acme", &["one"]);
    net.replayed();
    net.connect("one");
    net.settle("one");
    // Away while it happens.
    net.fails("one");
    net.announce("acme", &["one"]);
    net.root(1, "acme");
    net.connect("one");
    net.elapse(5 * SECOND);
    assert!(hears(&net, "one", "acme") && hears_root(&net, "one", 1));
    let asked = drained(&mut net, "one");
    assert!(about(&asked, "acme") && about_root(&asked, 1));
}

#[test]
fn trap_27_a_repository_held_again_is_not_followed_as_if_it_were_served() {
    let mut net = settled(&[("one", "acme")]);
    net.announce_held("acme", &["one"]);
    net.elapse(6 * SECOND);
    net.fails("one");
    net.connect("one");
    assert!(!about(&net.live_filters("one"), "acme"), "no layer 2 while it waits");
    assert_eq!(net.engine.totals().repositories, 1);
}

#[test]
fn trap_50_ourselves_under_another_name_are_never_dialled_again() {
    let mut net = Bench::tracking([("me", "acme"), ("other", "acme")]);
    net.connect("other");
    net.lose("me", Loss::Ourselves);
    assert_eq!(view(&net, "me").waits, Some(Wait::Ourselves));
    net.announce("lib", &["me", "other"]);
    net.root(1, "acme");
    answers_for(&mut net, &["other"], 10 * MINUTE);
    net.elapse(3 * DAY);
    assert_eq!(net.dials_of("me"), 1);
    assert!(hears(&net, "other", "lib"));
}

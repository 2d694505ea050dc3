//! Section 2, consolidation (S-10): many small live filters become few, and nothing is missed.

use super::kit::*;
use grasp_core::{Filter, Timestamp};
use grasp_engine::{End, Page, Peer, Settings, Sub};
use grasp_testkit::world::{Bench, empty_page, full_page};

/// One repository and so many roots that came one by one, each a group of three filters.
fn grown(roots: u64) -> Bench {
    grown_on(roots, allowing(500))
}

fn grown_on(roots: u64, peer: Peer) -> Bench {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect_with("one", peer);
    net.settle("one");
    for n in 1..=roots {
        adds(&mut net, n);
        answers_for(&mut net, &["one"], 2 * SECOND);
    }
    net.closes("one");
    history(&mut net, "one");
    net
}

fn adds(net: &mut Bench, n: u64) {
    net.root(n, "acme");
    net.elapse(5 * SECOND);
}

fn layer_one(net: &Bench) -> Vec<Sub> {
    let first = |filters: &[Filter]| filters.iter().all(|it| it.tags.is_empty());
    net.listens("one").into_iter().filter(|it| first(&it.1)).map(|it| it.0).collect()
}

/// Live filters of layers 2 and 3.
fn others(net: &Bench) -> Vec<Filter> {
    net.live_filters("one").into_iter().filter(|it| !it.tags.is_empty()).collect()
}

#[test]
fn s10_up_to_seventy_filters_stay_as_they_are() {
    let mut net = grown(21);
    assert_eq!(net.live_filters("one").len(), 2 + 3 + 63);
    assert_eq!(net.closes("one"), []);
}

#[test]
fn s10_above_seventy_they_are_packed_anew_and_layer_one_stays_open() {
    let mut net = grown(21);
    let first = layer_one(&net);
    let before = net.listens("one").len();
    adds(&mut net, 22);
    assert_eq!(net.closes("one").len(), before - 1, "all but layer 1");
    assert_eq!(layer_one(&net), first, "which never loses coverage");
    assert!(net.live_filters("one").len() <= 2 + 3 + 3 + 3);
    assert!(hears(&net, "one", "acme"));
    assert!((1..=22).all(|n| hears_root(&net, "one", n)));
}

#[test]
fn s10_what_was_heard_is_heard_from_fifteen_minutes_back() {
    let mut net = grown(21);
    net.elapse(3 * HOUR);
    adds(&mut net, 22);
    let since = secs_ago(&net, RESUME_SECS);
    let (new, old): (Vec<Filter>, Vec<Filter>) =
        others(&net).into_iter().partition(|it| about_root(std::slice::from_ref(it), 22));
    assert_eq!((new.len(), old.len()), (3, 6));
    for filter in old.iter().chain(&new) {
        assert_eq!((filter.since, filter.limit), (None, Some(0)), "its past is asked for apart");
    }
    let asked = gap(&mut net, "one");
    assert_eq!(asked.len(), old.len(), "{asked:?}");
    assert!(asked.iter().all(|it| (it.since, it.limit) == (Some(since), None)), "{asked:?}");
}

#[test]
fn s10_confirmed_state_is_kept_and_the_new_items_are_asked_for_in_full() {
    let mut net = grown(21);
    adds(&mut net, 22);
    let asked = drained(&mut net, "one").into_iter().filter(|it| it.since.is_none());
    let asked: Vec<Filter> = asked.collect();
    assert_eq!(asked.len(), 3, "the new root alone: {asked:?}");
    assert!(about_root(&asked, 22));
    let seen = view(&net, "one");
    assert_eq!((seen.missing, seen.pending), (0, 0));
}

#[test]
fn s10_it_waits_for_pending_batches_as_data() {
    let mut net = grown(20);
    adds(&mut net, 21);
    let pending = request(&mut net, "one");
    adds(&mut net, 22);
    net.elapse(50 * SECOND);
    assert_eq!(net.closes("one"), [], "nothing is closed under a question");
    assert_eq!(history(&mut net, "one"), []);

    net.completes("one", pending.sub, empty_page(pending.filters.len()));
    assert_eq!(net.closes("one").len(), 23, "and then at once, what was heard meanwhile too");
    assert!((1..=22).all(|n| hears_root(&net, "one", n)));
    assert!(about_root(&drained(&mut net, "one"), 22));
}

#[test]
fn s10_a_batch_that_fails_does_not_hold_it_up() {
    let mut net = grown(20);
    adds(&mut net, 21);
    let pending = request(&mut net, "one");
    adds(&mut net, 22);
    net.ends("one", pending.sub, End::Silent);
    answers_for(&mut net, &["one"], 5 * MINUTE);
    assert!(!net.closes("one").is_empty());
    assert!((1..=22).all(|n| hears_root(&net, "one", n)));
    let seen = view(&net, "one");
    assert_eq!((seen.missing, seen.pending), (0, 0));
}

#[test]
fn s10_what_was_published_during_the_swap_comes_even_if_it_is_more_than_a_page() {
    let peer = Peer { subscriptions_max: Some(500), ..without_nip77() };
    let mut net = grown_on(21, peer);
    let told: Vec<Sub> = net.listens("one").into_iter().map(|it| it.0).collect();
    adds(&mut net, 22);
    history(&mut net, "one");
    let since = secs_ago(&net, RESUME_SECS);
    let packed = net.listens("one").into_iter().find(|it| !told.contains(&it.0)).unwrap();
    let oldest = Timestamp(since.0 + 60);
    net.listening("one", packed.0, empty_page(packed.1.len()));
    let resumed = net.requests("one").into_iter().find(|it| it.filters[0].since == Some(since));
    let resumed = resumed.unwrap();
    net.completes("one", resumed.sub, full_page(resumed.filters.len(), 500, oldest));
    let asked = history(&mut net, "one");
    for filter in resumed.filters.iter() {
        let rest = Filter { until: Some(oldest), ..filter.clone() };
        assert!(asked.contains(&rest), "the older half: {rest:?}");
    }
}

#[test]
fn s10_a_repository_that_waits_does_not_drag_the_others_back() {
    let mut net = Bench::new(Settings::default());
    net.announce("acme", &["one"]);
    net.announce_held("waits", &["one"]);
    net.replayed();
    net.connect_with("one", allowing(500));
    net.settle("one");
    net.elapse(5 * HOUR);
    for n in 1..=21 {
        adds(&mut net, n);
        answers_for(&mut net, &["one"], 2 * SECOND);
    }
    adds(&mut net, 22);
    let since = Some(secs_ago(&net, RESUME_SECS));
    let resumed = gap(&mut net, "one");
    assert!(!resumed.is_empty());
    for filter in resumed {
        assert_eq!(filter.since, since, "now - 15 min, not when the waiting one was confirmed");
    }
}

#[test]
fn s10_what_packing_would_not_make_fewer_is_left_alone() {
    let mut net = following(tiny_filters(), &named(23), "one");
    net.connect_with("one", allowing(500));
    net.settle("one");
    assert_eq!(net.live_filters("one").len(), 2 + 69);
    net.closes("one");
    net.announce("another", &["one"]);
    net.elapse(6 * SECOND);
    net.settle("one");
    assert_eq!(net.closes("one"), [], "each filter is full already");
    assert!(hears(&net, "one", "another"));
}

#[test]
fn s10_a_link_lost_while_it_waits_loses_nothing() {
    let mut net = grown(20);
    adds(&mut net, 21);
    adds(&mut net, 22);
    net.fails("one");
    net.connect_with("one", allowing(500));
    net.settle("one");
    assert!((1..=22).all(|n| hears_root(&net, "one", n)));
    let seen = view(&net, "one");
    assert_eq!((seen.missing, seen.pending), (0, 0));
}

#[test]
fn s10_a_live_subscription_refused_during_the_swap_is_covered_all_the_same() {
    let mut net = grown(21);
    let told: Vec<Sub> = net.listens("one").into_iter().map(|it| it.0).collect();
    adds(&mut net, 22);
    let swapped_at = net.now;
    let packed = net.listens("one").into_iter().find(|it| !told.contains(&it.0)).unwrap();
    net.closed("one", packed.0, "error: internal");
    let asked = {
        let mut asked = Vec::new();
        for _ in 0..(10 * 60) {
            asked.extend(net.live_filters("one"));
            net.answers_all("one");
            net.elapse(SECOND);
            asked.extend(history(&mut net, "one"));
        }
        asked
    };
    let covers = |filter: &Filter| {
        filter.since.is_some_and(|since| since <= swapped_at.timestamp())
            && about_root(std::slice::from_ref(filter), 7)
    };
    assert!(asked.iter().any(covers), "from before the swap");
    assert!(hears_root(&net, "one", 7), "and heard again");
}

#[test]
fn s10_it_waits_for_a_question_by_name_too_and_not_for_ever() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect_with("one", allowing(500));
    let first = reconcile(&mut net, "one");
    net.reconciled("one", first.sub, ids(0..10));
    let by_name = request(&mut net, "one");
    net.completes("one", by_name.sub, Page { missing: ids(3..4), ..empty_page(1) });
    // Nothing is left to ask but the one that is owed, and that one is open for long.
    let mut owed = None;
    for n in 1..=21 {
        adds(&mut net, n);
        for _ in 0..2 {
            for asked in net.requests("one") {
                match asked.filters[0].ids.is_some() && n > 8 {
                    true => owed = Some(asked.sub),
                    false => {
                        let missing = asked.filters[0].ids.clone().unwrap_or_default();
                        let page =
                            Page { missing: missing.to_vec(), ..empty_page(asked.filters.len()) };
                        net.completes("one", asked.sub, page);
                    }
                }
            }
            for asked in net.reconciles("one") {
                net.reconciled("one", asked.sub, vec![]);
            }
            for (sub, filters) in net.listens("one") {
                net.listening("one", sub, empty_page(filters.len()));
            }
            net.elapse(20 * SECOND);
        }
    }
    let owed = owed.expect("it is asked for again");
    adds(&mut net, 22);
    net.completes("one", owed, empty_page(1));
    net.elapse(SECOND);
    assert!((1..=22).all(|n| hears_root(&net, "one", n)), "as soon as it is answered");
    assert!(about_root(&history(&mut net, "one"), 22));
}

#[test]
fn s10_a_daily_sync_that_comes_while_it_waits_is_not_held_up() {
    let mut net = grown(20);
    adds(&mut net, 21);
    let pending = request(&mut net, "one");
    adds(&mut net, 22);
    let daily_at = view(&net, "one").daily_at.unwrap();
    net.elapse(daily_at.since(net.now) + SECOND);
    net.completes("one", pending.sub, empty_page(pending.filters.len()));
    let asked = drained(&mut net, "one");
    assert!(about(&asked, "acme") && about_root(&asked, 1) && about_root(&asked, 22));
    assert!((1..=22).all(|n| hears_root(&net, "one", n)));
    let seen = view(&net, "one");
    assert_eq!((seen.missing, seen.pending), (0, 0));
}

//! Section 6, S-30: what is known of how a relay stands is renewed before it is too old, or it is
//! said why it cannot be.

use super::kit::*;
use grasp_core::{EventId, Filter};
use grasp_engine::{Doubt, End, Input, Page, Settings, Tally};
use grasp_testkit::world::names::{relay, repo};
use grasp_testkit::world::{Bench, Compared};
use std::collections::BTreeSet;
use std::time::Duration;

/// Linked, confirmed and just compared.
fn known(names: &[&str]) -> Bench {
    let mut net = Bench::verifying(Settings::default(), 1);
    for name in names {
        net.announce(name, &["one"]);
    }
    net.replayed();
    net.connect("one");
    net.settle("one");
    history(&mut net, "one");
    assert_eq!(BTreeSet::from_iter(net.standings("one")).len(), names.len(), "each is known");
    net
}

/// The next comparison, and how long it took to come.
fn next_check(net: &mut Bench, within: Duration) -> (Compared, Duration) {
    let start = net.now;
    loop {
        let mut asked = net.reconciles("one");
        if let Some(check) = asked.pop() {
            assert!(asked.is_empty(), "one at a time");
            return (check, net.now.since(start));
        }
        assert!(net.now.since(start) < within, "no comparison");
        net.elapse(10 * SECOND);
    }
}

/// The second half of a check: what was written about repositories, once nothing differs in what
/// was signed for them.
fn next_about(net: &mut Bench, within: Duration) -> (Compared, Duration) {
    let (signed, before) = next_check(net, within);
    assert_eq!(signed.filter.tags.keys().collect::<Vec<_>>(), [&b'd']);
    net.reconciled("one", signed.sub, vec![]);
    let (about, after) = next_check(net, MINUTE);
    assert_eq!(names_of(&about.filter), names_of(&signed.filter));
    assert_eq!(about.filter.tags.keys().collect::<Vec<_>>(), [&b'a']);
    (about, before + after)
}

fn names_of(filter: &Filter) -> BTreeSet<String> {
    let values = filter.tags.values().flatten();
    values.map(|value| value.rsplit(':').next().unwrap().to_owned()).collect()
}

/// Nothing of what was asked for by name came.
fn keeps(net: &mut Bench, within: Duration) -> Vec<EventId> {
    let start = net.now;
    loop {
        if let Some(asked) = net.requests("one").pop() {
            let missing = Vec::from(asked.filters[0].ids.clone().unwrap());
            let page = Page {
                tallies: vec![Tally::default()],
                missing: missing.clone(),
                ..Page::default()
            };
            net.completes("one", asked.sub, page);
            return missing;
        }
        assert!(net.now.since(start) < within, "nothing is asked for");
        net.elapse(SECOND);
    }
}

#[test]
fn s30_a_verdict_is_renewed_at_three_quarters_of_its_age_by_one_question() {
    let mut net = known(&["acme", "lib"]);
    net.elapse(17 * HOUR + 30 * MINUTE);
    assert!(net.reconciles("one").is_empty(), "not before it is due");
    let (check, _) = next_about(&mut net, HOUR);
    assert_eq!(names_of(&check.filter), ["acme", "lib"].map(str::to_owned).into());
    assert_eq!(view(&net, "one").confirmed, 3, "nothing is taken back for it");
    assert!(net.standings("one").is_empty(), "not before all of it was compared");
    net.reconciled("one", check.sub, vec![]);
    assert_eq!(net.standings("one"), [repo("acme"), repo("lib")]);
    net.elapse(HOUR);
    assert!(net.reconciles("one").is_empty(), "once is enough");
}

#[test]
fn s30_what_a_relay_says_it_has_it_is_asked_for() {
    let mut net = known(&["acme", "lib"]);
    let (check, _) = next_check(&mut net, 19 * HOUR);
    net.reconciled_saying("one", check.sub, ids(1..3));
    net.elapse(2 * SECOND);
    let asked = request(&mut net, "one");
    assert_eq!(*asked.filters[0].ids.clone().unwrap(), ids(1..3));
    net.completes("one", asked.sub, grasp_testkit::world::empty_page(1));
    let (check, _) = next_check(&mut net, MINUTE);
    net.reconciled_saying("one", check.sub, ids(3..6));
    assert!(net.standings("one").is_empty(), "nothing is said before it has answered");
    assert_eq!(keeps(&mut net, MINUTE), ids(3..6));
    assert!(net.doubts("one").is_empty(), "something may have been replaced meanwhile");
    let (check, _) = next_check(&mut net, MINUTE);
    net.reconciled_saying("one", check.sub, ids(3..6));
    assert_eq!(keeps(&mut net, MINUTE), ids(3..6));
    assert!(net.standings("one").is_empty());
    let told: Vec<_> = net.doubts("one").into_iter().map(|(_, repo, why)| (repo, why)).collect();
    assert_eq!(told, [(repo("acme"), Doubt::Keeps), (repo("lib"), Doubt::Keeps)]);
    let (check, after) = next_about(&mut net, HOUR);
    assert!(after <= 2 * MINUTE, "it is asked again soon: {after:?}");
    net.reconciled("one", check.sub, vec![]);
    assert_eq!(net.standings("one").len(), 2);
}

#[test]
fn s30_what_was_replaced_while_it_was_asked_for_is_held_against_nobody() {
    let mut net = known(&["acme"]);
    let (check, _) = next_check(&mut net, 19 * HOUR);
    net.reconciled_saying("one", check.sub, ids(1..3));
    keeps(&mut net, MINUTE);
    let (check, _) = next_check(&mut net, MINUTE);
    net.reconciled("one", check.sub, vec![]);
    let (check, _) = next_check(&mut net, MINUTE);
    assert!(check.filter.tags.contains_key(&b'a'), "it goes on");
    net.reconciled("one", check.sub, vec![]);
    assert_eq!(net.standings("one"), [repo("acme")]);
    assert!(net.doubts("one").is_empty());
}

#[test]
fn s30_a_relay_that_does_not_answer_about_names_is_asked_everything_else_all_the_same() {
    for end in [End::Silent, End::Closed("blocked: filters need kinds".to_owned())] {
        let mut net = known(&["acme"]);
        let (check, _) = next_check(&mut net, 19 * HOUR);
        net.reconciled_saying("one", check.sub, ids(1..3));
        net.elapse(2 * SECOND);
        let asked = request(&mut net, "one");
        net.ends("one", asked.sub, end.clone());
        assert_eq!(net.doubts("one").len(), 1, "{end:?}");
        net.announce("lib", &["one"]);
        net.elapse(20 * SECOND);
        let pages = net.requests("one").len() + net.reconciles("one").len();
        assert!(pages > 0, "neither left alone nor paused: {end:?}");
    }
}

#[test]
fn s30_a_comparison_that_fails_holds_up_no_other() {
    let mut net = Bench::verifying(tiny_filters(), 1);
    for name in named(3) {
        net.announce(&name, &["one"]);
    }
    net.replayed();
    net.connect("one");
    net.settle("one");
    history(&mut net, "one");
    net.standings("one");
    let bad = BTreeSet::from_iter(named(1));
    let end = net.now.plus(40 * HOUR);
    let (mut failed, mut stood) = (0, BTreeSet::new());
    while net.now < end {
        for check in net.reconciles("one") {
            match names_of(&check.filter) == bad {
                true => {
                    failed += 1;
                    let text = "error: the index is damaged".to_owned();
                    net.ends("one", check.sub, End::NegentropyFailed(text));
                }
                false => net.reconciled("one", check.sub, vec![]),
            }
        }
        for asked in net.requests("one") {
            net.completes("one", asked.sub, grasp_testkit::world::empty_page(asked.filters.len()));
        }
        stood.extend(net.standings("one"));
        net.elapse(5 * SECOND);
    }
    assert_eq!(stood.len(), 2, "the others are known");
    assert!((2..30).contains(&failed), "it is tried again, ever less often: {failed}");
    assert!(net.doubts("one").iter().all(|(_, _, doubt)| *doubt == Doubt::Failed));
}

#[test]
fn s30_a_link_that_breaks_while_something_is_due_takes_no_other_verdict_with_it() {
    let mut net = known(&["acme"]);
    net.elapse(HOUR);
    net.announce("lib", &["one"]);
    net.elapse(SECOND);
    net.fails("one");
    let end = net.now.plus(HOUR);
    while net.now < end {
        net.elapse(MINUTE);
        if net.is_dialled("one") {
            net.fails("one");
        }
    }
    let told: BTreeSet<_> = net.doubts("one").into_iter().map(|(_, repo, _)| repo).collect();
    assert!(!told.contains(&repo("acme")), "what is known of it is an hour old");
}

#[test]
fn s30_who_does_not_name_a_relay_any_more_is_not_looked_for_there() {
    let mut net = known(&["acme", "lib"]);
    net.announce("lib", &["two"]);
    let (check, _) = next_about(&mut net, 19 * HOUR);
    assert_eq!(names_of(&check.filter), ["acme".to_owned()].into());
    net.reconciled("one", check.sub, vec![]);
    assert_eq!(net.standings("one"), [repo("acme")]);
}

#[test]
fn s30_a_wall_clock_that_is_set_does_not_keep_a_verdict_fresh() {
    let mut net = known(&["acme"]);
    net.elapse(HOUR);
    assert_eq!(net.standings("one"), []);
    net.set_wall_ahead(-30 * 3_600_000);
    net.settle("one");
    assert!(net.standings("one").contains(&repo("acme")), "it is found out anew");
}

#[test]
fn s30_a_check_that_a_link_did_not_live_to_end_is_made_again() {
    let mut net = known(&["acme"]);
    let (check, _) = next_check(&mut net, 19 * HOUR);
    net.reconciled("one", check.sub, vec![]);
    net.fails("one");
    assert!(net.standings("one").is_empty());
    net.elapse(MINUTE);
    net.connect("one");
    let (check, after) = next_check(&mut net, HOUR);
    assert!(after < 5 * MINUTE, "{after:?}");
    assert_eq!(check.filter.tags.keys().collect::<Vec<_>>(), [&b'd'], "from its beginning");
}

#[test]
fn s30_who_lacked_something_is_compared_again_soon_and_then_ever_less() {
    let mut net = known(&["acme", "lib"]);
    let (check, _) = next_about(&mut net, 19 * HOUR);
    net.reconciled_lacking("one", check.sub, 3);
    let mut gaps = Vec::new();
    for _ in 0..4 {
        let (check, after) = next_check(&mut net, HOUR);
        gaps.push(after.as_secs() / 60);
        net.reconciled_lacking("one", check.sub, 1);
        let (check, _) = next_check(&mut net, MINUTE);
        net.reconciled("one", check.sub, vec![]);
    }
    assert_eq!(gaps, [1, 2, 4, 8], "in either half");
    let (check, _) = next_about(&mut net, HOUR);
    net.reconciled("one", check.sub, vec![]);
    net.elapse(2 * HOUR);
    assert!(net.reconciles("one").is_empty(), "all is well");
}

#[test]
fn s30_checks_come_one_at_a_time_at_half_the_pace_and_after_everything_else() {
    let mut net = Bench::verifying(tiny_filters(), 1);
    for name in named(12) {
        net.announce(&name, &["one"]);
    }
    net.replayed();
    net.connect("one");
    net.settle("one");
    history(&mut net, "one");
    let (mut times, mut samples, mut pages) = (Vec::new(), Vec::new(), Vec::new());
    while net.now.since(grasp_testkit::world::START) < 19 * HOUR {
        for check in net.reconciles("one") {
            times.push(check.at);
            net.reconciled_saying("one", check.sub, ids(1..2));
            if times.len() == 6 {
                net.announce("newcomer", &["one"]);
            }
        }
        for asked in net.requests("one") {
            let own = asked.filters[0].ids.is_some();
            if own {
                samples.push(asked.at);
            } else {
                pages.push((asked.at, times.len()));
            }
            net.completes("one", asked.sub, grasp_testkit::world::empty_page(asked.filters.len()));
        }
        for (sub, filters) in net.listens("one") {
            net.listening("one", sub, grasp_testkit::world::empty_page(filters.len()));
        }
        net.elapse(SECOND / 2);
    }
    assert!(
        (24..=26).contains(&times.len()),
        "both halves of each, perhaps the newcomer's: {}",
        times.len()
    );
    assert_eq!(samples.len(), times.len());
    let mut all: Vec<_> = times.iter().chain(&samples).collect();
    all.sort();
    assert!(all.windows(2).all(|pair| pair[1].since(*pair[0]) >= 2 * SECOND), "{all:?}");
    let begun = pages.iter().find(|(_, checks)| *checks >= 6).expect("the newcomer is asked for");
    assert!(begun.1 < 12, "it does not wait until all checks are through");
}

#[test]
fn s30_what_a_relay_names_and_keeps_is_narrowed_down_to_the_repository_it_is_about() {
    let mut net = known(&["a", "b", "c", "d"]);
    let guilty = repo("c").coordinate().to_string();
    let (mut compared, mut asked_for) = (Vec::new(), 0);
    let end = net.now.plus(19 * HOUR);
    while net.now < end {
        for check in net.reconciles("one") {
            compared.push(names_of(&check.filter).into_iter().collect::<String>());
            let named = check.filter.tags.get(&b'a');
            let concerned = named.is_some_and(|named| named.contains(&guilty));
            net.reconciled("one", check.sub, if concerned { ids(1..4) } else { vec![] });
        }
        for asked in net.requests("one") {
            asked_for += 1;
            let missing = Vec::from(asked.filters[0].ids.clone().unwrap());
            let page = Page { tallies: vec![Tally::default()], missing, ..Page::default() };
            net.completes("one", asked.sub, page);
        }
        net.elapse(SECOND);
    }
    assert_eq!(compared[..6], ["abcd", "abcd", "ab", "cd", "c", "d"]);
    assert!(compared.len() <= 42, "again after a minute, two, four and so on: {compared:?}");
    assert_eq!(asked_for * 2, compared.len(), "each time somebody names them");
    assert!(net.doubts("one").is_empty(), "a few may be missing by chance");
    let stood: BTreeSet<_> = net.standings("one").into_iter().collect();
    assert_eq!(stood.len(), 4, "what is to be had of each is known");
}

#[test]
fn s30_a_relay_that_keeps_most_of_what_it_names_is_not_believed_until_it_is_asked_again() {
    let mut net = known(&["acme", "lib"]);
    let (check, _) = next_about(&mut net, 19 * HOUR);
    net.reconciled("one", check.sub, ids(1..26));
    assert_eq!(keeps(&mut net, MINUTE).len(), 25);
    net.elapse(SECOND);
    let told: BTreeSet<_> = net
        .doubts("one")
        .into_iter()
        .map(|(_, repo, doubt)| {
            assert_eq!(doubt, Doubt::Keeps);
            repo
        })
        .collect();
    assert_eq!(told, BTreeSet::from([repo("acme"), repo("lib")]));
    let (_, after) = next_check_past_daily(&mut net);
    assert!(after <= 19 * HOUR, "{after:?}");
}

/// The next check that is not part of the daily sync.
fn next_check_past_daily(net: &mut Bench) -> (Compared, Duration) {
    let start = net.now;
    loop {
        assert!(net.now.since(start) < 40 * HOUR, "no comparison");
        for asked in net.requests("one") {
            net.completes("one", asked.sub, grasp_testkit::world::empty_page(asked.filters.len()));
        }
        if let Some(check) = net.reconciles("one").pop() {
            return (check, net.now.since(start));
        }
        net.elapse(10 * SECOND);
    }
}

#[test]
fn s30_without_nip_77_it_is_said_that_nobody_can_tell() {
    let mut net = Bench::verifying(Settings::default(), 1);
    net.announce("acme", &["one"]);
    net.announce_held("waits", &["one"]);
    net.replayed();
    net.connect("one");
    let first = net.reconciles("one").pop().unwrap();
    net.ends("one", first.sub, End::Silent);
    net.elapse(SECOND);
    let told: Vec<_> =
        net.doubts("one").into_iter().map(|(_, repo, doubt)| (repo, doubt)).collect();
    assert_eq!(told, [(repo("acme"), Doubt::NoNegentropy)]);
    net.settle("one");
    let (check, after) = next_check_past_daily(&mut net);
    assert!(after > 23 * HOUR, "silence is remembered for a day: {after:?}");
    assert!(after <= 37 * HOUR, "then it is tried again: {after:?}");
    assert_eq!(net.doubts("one").len(), 1, "said again when it was due");
    net.ends("one", check.sub, End::NoNegentropy);
    net.elapse(2 * SECOND);
    assert_eq!(net.doubts("one").len(), 1, "and again");
}

#[test]
fn s30_a_relay_that_is_away_keeps_its_verdict_until_that_is_due() {
    let mut net = known(&["acme"]);
    net.elapse(HOUR);
    net.fails("one");
    let since = net.now;
    while net.now.since(since) < 16 * HOUR {
        net.elapse(10 * MINUTE);
        if net.is_dialled("one") {
            net.fails("one");
        }
    }
    assert!(net.doubts("one").is_empty());
    while net.now.since(since) < 18 * HOUR {
        net.elapse(10 * MINUTE);
        if net.is_dialled("one") {
            net.fails("one");
        }
    }
    let told = net.doubts("one");
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].2, Doubt::Unreachable { since });
}

#[test]
fn s30_a_relay_that_was_never_reached_is_said_to_be_so_at_once() {
    let mut net = Bench::verifying(Settings::default(), 1);
    net.announce("acme", &["one"]);
    net.replayed();
    net.fails("one");
    net.elapse(SECOND);
    assert_eq!(net.doubts("one").len(), 1);
}

#[test]
fn s30_a_restart_does_not_forget_when_something_was_last_compared() {
    let mut net = known(&["acme"]);
    net.elapse(2 * HOUR);
    net.restart_after(5 * MINUTE);
    net.connect("one");
    net.settle("one");
    history(&mut net, "one");
    let (_, after) = next_check(&mut net, 17 * HOUR);
    assert!(after > 14 * HOUR, "{after:?}");
}

#[test]
fn s30_who_lacked_something_is_compared_again_soon_after_a_restart_too() {
    // When that is known, and when the next comparison is under way.
    for pause in [Duration::ZERO, MINUTE + 30 * SECOND] {
        let mut net = known(&["acme"]);
        let (check, _) = next_about(&mut net, 19 * HOUR);
        net.reconciled_lacking("one", check.sub, 3);
        net.standings("one");
        net.elapse(pause);
        net.restart_after(5 * MINUTE);
        net.fails("one");
        net.elapse(SECOND);
        assert!(net.doubts("one").is_empty(), "what is known is good for a day");
        net.restart_after(MINUTE);
        net.connect("one");
        net.settle("one");
        assert_eq!(net.standings("one").len(), 1, "{pause:?}");
        net.elapse(2 * MINUTE);
        assert!(!net.remembered("one").unwrap().recheck, "all is well");
    }
}

#[test]
fn s15_by_hand_everything_is_asked_anew_at_once_and_waits_are_forgotten() {
    let mut net = settled(&[("one", "acme"), ("two", "acme"), ("three", "lib")]);
    net.fails("two");
    for name in ["one", "two", "three"] {
        history(&mut net, name);
    }
    net.input(Input::Refresh { relay: None, repo: Some(repo("acme")) });
    net.elapse(SECOND);
    assert!(!net.reconciles("one").is_empty());
    assert!(net.is_dialled("two"), "however long it should have waited");
    assert!(net.reconciles("three").is_empty(), "that is another repository's");
    net.input(Input::Refresh { relay: Some(relay("three")), repo: None });
    assert!(!net.reconciles("three").is_empty());
}

#[test]
fn a_relay_is_settled_again_when_all_that_was_ordered_by_hand_was_asked_and_compared() {
    let mut net = known(&["acme"]);
    assert!(view(&net, "one").settled, "{:?}", view(&net, "one"));
    net.input(Input::Refresh { relay: None, repo: None });
    assert!(!view(&net, "one").settled, "it is known at once that there is something to do");
    net.settle("one");
    assert_eq!(net.standings("one").len(), 1, "it was compared");
    assert!(view(&net, "one").settled, "{:?}", view(&net, "one"));
    net.fails("one");
    assert!(!view(&net, "one").settled, "nothing is known of a relay that is away");
}

/// All that was asked for by name came, and this server had no room for any of it.
fn no_room_for_any(net: &mut Bench, within: Duration) -> Vec<EventId> {
    let start = net.now;
    loop {
        if let Some(asked) = net.requests("one").pop() {
            let no_room = Vec::from(asked.filters[0].ids.clone().unwrap());
            let received = u32::try_from(no_room.len()).unwrap();
            let tallies = vec![Tally { received, oldest: None }];
            let page = Page { tallies, no_room: no_room.clone(), ..Page::default() };
            net.completes("one", asked.sub, page);
            return no_room;
        }
        assert!(net.now.since(start) < within, "nothing is asked for");
        net.elapse(SECOND);
    }
}

#[test]
fn s30_events_without_room_confirm_nothing_and_are_asked_for_again() {
    let mut net = Bench::tracking([("one", "acme")]);
    net.connect("one");
    let first = reconcile(&mut net, "one");
    net.reconciled("one", first.sub, ids(0..3));
    assert_eq!(no_room_for_any(&mut net, MINUTE), ids(0..3));
    for _ in 0..20 {
        net.answers_all("one");
        net.elapse(SECOND);
    }
    let now = view(&net, "one");
    assert_eq!(now.confirmed, 2, "announcements are not confirmed");
    assert!(now.settled && now.no_room, "a sync by hand ends, and says why it is not complete");
    net.reconciles("one");
    let mut again = Vec::new();
    for _ in 0..60 {
        again.extend(net.reconciles("one"));
        if !again.is_empty() {
            break;
        }
        net.elapse(SECOND);
    }
    let again = again.pop().expect("it is asked for again within a minute");
    assert!(again.filter.tags.is_empty(), "the same comparison: {:?}", again.filter);
    net.reconciled("one", again.sub, vec![]);
    net.elapse(SECOND);
    assert_eq!(view(&net, "one").confirmed, 3);
}

#[test]
fn s30_a_relay_that_has_what_finds_no_room_here_stays_different() {
    let mut net = known(&["acme"]);
    let (check, _) = next_check(&mut net, 19 * HOUR);
    net.reconciled("one", check.sub, ids(0..2));
    no_room_for_any(&mut net, MINUTE);
    // All of it found no room: that is how it stands, and it is looked at again soon.
    let (about, _) = next_check(&mut net, MINUTE);
    assert!(about.filter.tags.contains_key(&b'a'), "{:?}", about.filter);
    net.reconciled("one", about.sub, vec![]);
    assert_eq!(net.standings("one"), [repo("acme")]);
    let (_, after) = next_check(&mut net, 10 * MINUTE);
    assert!(after <= 2 * MINUTE, "{after:?}");
}

#[test]
fn s30_a_live_event_without_room_is_asked_for_by_name_and_its_verdict_is_due() {
    let mut net = known(&["acme"]);
    net.elapse(2 * MINUTE);
    let id = ids(7..8)[0];
    let sub = net.listens("one").last().expect("it listens").0;
    net.input(Input::NoRoom { relay: relay("one"), sub, id });
    let asked = no_room_for_any(&mut net, MINUTE);
    assert_eq!(asked, [id]);
    assert_eq!(no_room_for_any(&mut net, 2 * MINUTE), [id], "and again");
}

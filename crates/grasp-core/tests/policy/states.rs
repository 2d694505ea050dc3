//! N 1.2, N 1.5 and P 2.3 with D 2: what becomes of a kind 30618.

use crate::world::*;
use grasp_core::event::Event;
use grasp_core::maintainers::Standing::{Held, Served};
use grasp_core::nip34::State;
use grasp_core::nip34::state::governing;
use grasp_core::policy::*;

fn about(text: &str) -> Facts {
    let about =
        StateFacts { announced: true, family: family(text), present: [].into(), unfit: None };
    Facts::new(About::State(about))
}

fn with_objects(text: &str) -> Facts {
    let about =
        StateFacts { announced: true, family: family(text), present: [oid()].into(), unfit: None };
    Facts::new(About::State(about))
}

fn main_at(value: &str) -> Event {
    states('a').tag(&["refs/heads/main", value])
}

#[test]
fn the_author_needs_a_say_in_some_view() {
    let state = main_at(OID);
    let unannounced = Facts::new(About::State(StateFacts::default()));
    check("P 2.3 step 2", &state, &unannounced, "no-announcement");
    check("P 2.3 step 3", &state, &about("b:"), "not-authorised");
    check("N 1.5 invited only", &state, &about("b: m=a"), "not-authorised");
    check("N 1.5 confirmed", &state, &about("b: M=b m=a; a: M=b"), "held-git-data");
    check("N 1.5 owner", &state, &about("a:"), "held-git-data");
    check("N 1.5 (a) an invitee's own view", &state, &about("b:; a: m=b"), "held-git-data");
    check("N 1.5 (b) two leads", &state, &about("a?: M=a M=b"), "not-authorised");
    check("N 1.4 resigned", &state, &about("a: m=a@1,2 M=b; b: M=b m=a"), "not-authorised");
    check("T 4 squatting the name", &state, &about("b:; c: m=b"), "not-authorised");
    let listed = |row: &str, text: &str, expected: &str| {
        check_under(row, &state, &about(text), &listed_rules(), expected);
    };
    listed("P 2.2 listed", "b: list=a", "held-git-data");
    listed("P 2.2 listed by a maintainer", "c: list=b; b: list=a", "held-git-data");
    listed("P 2.2 stranger", "b:", "not-authorised");
    let words = verdict(&state, &about("b:"), &rules(), Origin::Direct).answer();
    assert!(words.text.starts_with("restricted: author not authorized for this repository"));
    let words = verdict(&state, &unannounced, &rules(), Origin::Direct).answer();
    assert!(words.text.starts_with("invalid: no announcement exists for this repository"));
}

#[test]
fn it_waits_for_exactly_the_objects_it_names() {
    let other = "2222222222222222222222222222222222222222";
    let state = main_at(OID).tag(&["refs/tags/v1", other]).tag(&["refs/heads/dev", OID]);
    let held = verdict(&state, &with_objects("a:"), &rules(), Origin::Direct);
    let missing = vec![other.parse().unwrap()];
    assert_eq!(held, Verdict::Hold(Needs::GitData { missing }), "P 2.3 step 7");
    check("P 2.3 step 5", &main_at(OID), &with_objects("a:"), "accepted");
    check("P 2.3 step 5, releases a held one", &main_at(OID), &with_objects("a?:"), "accepted");
}

#[test]
fn a_state_that_names_no_object_is_served_and_governs_nothing() {
    let branch = "ref: refs/heads/main";
    for (row, state) in [
        ("D 2 none", states('a')),
        ("D 2 only HEAD", states('a').tag(&["HEAD", branch])),
        ("D 2 only symbolic", states('a').tag(&["refs/heads/x", branch])),
        ("D 2 only peeled", states('a').tag(&["refs/tags/v1^{}", OID])),
        ("P 2.3 nothing governed", states('a').tag(&["refs/notes/x", OID])),
    ] {
        check(row, &state, &about("a:"), "accepted");
        check(row, &state, &about("a?:"), "held-repository");
        assert!(!State::parse(&state).unwrap().names_objects(), "{row}");
    }
}

#[test]
fn what_git_cannot_have_is_held_and_never_reaches_git() {
    let zero = "0".repeat(40);
    let sha256 = "1".repeat(64);
    for value in ["abc123", "", "deadbeef", &OID.replace('1', "A"), &sha256, &zero, "-x", "HEAD"] {
        let state = main_at(value);
        check("N 1.2 non-hex", &state, &about("a:"), "held-unsatisfiable");
        assert!(State::parse(&state).unwrap().refs.is_empty(), "{value}");
    }
    check(
        "D 2 any one",
        &main_at(OID).tag(&["refs/tags/v1", "x"]),
        &with_objects("a:"),
        "held-unsatisfiable",
    );
    check("no value", &states('a').tag(&["refs/heads/x"]), &about("a:"), "held-unsatisfiable");
    for name in
        ["refs/heads/a..b", "refs/heads/x.lock", "refs/heads/", "refs/heads/a b", "refs/tags/@{u}"]
    {
        check(
            "P 2.3 ref name",
            &states('a').tag(&[name, OID]),
            &with_objects("a:"),
            "held-unsatisfiable",
        );
    }
    let inside = main_at(OID).tag(&["refs/heads/main/x", OID]).tag(&["refs/heads/main-x", OID]);
    check("trap 22 a name inside a name", &inside, &with_objects("a:"), "held-unsatisfiable");
    let beside = main_at(OID).tag(&["refs/heads/main-x", OID]).tag(&["refs/tags/main/x", OID]);
    check("trap 22 side by side is fine", &beside, &with_objects("a:"), "accepted");
}

#[test]
fn entries_are_read_as_written_once() {
    let other = "2222222222222222222222222222222222222222";
    let state = main_at(OID)
        .tag(&["refs/heads/main", other])
        .tag(&["refs/heads/dev", OID, other, "junk"])
        .tag(&["refs/tags/v1", other])
        .tag(&["refs/tags/v1^{}", OID])
        .tag(&["refs/heads/alias", "ref: refs/heads/main"])
        .tag(&["refs/heads/alias", OID])
        .tag(&["refs/nostr/x", OID]);
    let state = State::parse(&state).unwrap();
    let refs: Vec<String> = state.refs.iter().map(|(name, oid)| format!("{name} {oid}")).collect();
    let expected = [
        format!("refs/heads/dev {OID}"),
        format!("refs/heads/main {OID}"),
        format!("refs/tags/v1 {other}"),
    ];
    assert_eq!(refs, expected, "P 2.3 first wins, first value only, peeled and symbolic skipped");
    assert!(state.satisfiable && state.names_objects());
    assert_eq!(state.objects().len(), 2);
}

#[test]
fn head_points_to_a_branch_or_nowhere() {
    let head = |value: &str| State::parse(&states('a').tag(&["HEAD", value])).unwrap().head;
    for good in ["ref: refs/heads/main", "refs/heads/main"] {
        assert_eq!(head(good).unwrap().as_str(), "refs/heads/main", "N 1.2 {good}");
    }
    for bad in
        ["ref: refs/tags/v1", "main", OID, "ref: refs/heads/../x", "", "ref: ref: refs/heads/x"]
    {
        assert_eq!(head(bad), None, "N 1.2 {bad}");
    }
}

#[test]
fn one_author_has_one_state() {
    let state = main_at(OID);
    for standing in [Served, Held] {
        let current = Some(Current { rank: newer(&state), standing });
        let facts = Facts { current, ..with_objects("a:") };
        check("D 2 a newer one ends the older's authority", &state, &facts, "superseded");
        let current = Some(Current { rank: older(&state), standing });
        let facts = Facts { current, ..with_objects("a:") };
        check("P 2.3 replaces", &state, &facts, "accepted");
    }
}

#[test]
fn what_gave_up_waiting_does_not_come_back_by_sync() {
    let by = |state: &Event, facts: Facts, origin| {
        verdict(state, &Facts { expired: true, ..facts }, &rules(), origin).code()
    };
    let state = main_at(OID);
    assert_eq!(by(&state, about("a:"), Origin::Sync), "expired-in-purgatory", "P 2.3 step 6");
    assert_eq!(by(&main_at("x"), about("a:"), Origin::Sync), "expired-in-purgatory");
    assert_eq!(by(&state, about("a:"), Origin::Direct), "held-git-data");
    assert_eq!(by(&state, with_objects("a:"), Origin::Sync), "accepted", "its data came after all");
}

#[test]
fn a_state_needs_a_servable_identifier() {
    check("N 1.2", &event(30618, 'a'), &about("a:"), "bad-identifier");
    check("N 2", &event(30618, 'a').tag(&["d", "../x"]), &about("a:"), "bad-identifier");
}

#[test]
fn a_view_follows_the_preferred_state_of_its_members_only() {
    let parse = |event: &Event| (State::parse(event).unwrap(), event.rank());
    let at = |name: char, seconds: u64, id: u8| {
        let mut event = states(name).tag(&["refs/heads/main", OID]);
        event.created_at = grasp_core::Timestamp(seconds);
        event.id = grasp_core::EventId::from_bytes([id; 32]);
        parse(&event)
    };
    let mut empty = states('a');
    empty.created_at = grasp_core::Timestamp(9);
    let all = [at('a', 1, 1), at('b', 2, 9), at('b', 2, 3), at('z', 5, 1), parse(&empty)];
    let refs = || all.iter().map(|(state, rank)| (state, *rank));
    let members = |names: &str| names.chars().map(who).collect();
    let author = |names: &str| governing(refs(), &members(names)).map(|state| state.author);
    assert_eq!(author("ab"), Some(who('b')), "N 1.5 the latest by a member");
    assert_eq!(author("a"), Some(who('a')), "D 2 one that names no object never governs");
    assert_eq!(author("c"), None, "N 1.5 nobody's state, nobody's refs");
    let ties: Vec<_> = refs().filter(|(state, _)| state.author == who('b')).collect();
    let lower = ties.iter().min_by_key(|(_, rank)| rank.id).unwrap().0;
    assert!(std::ptr::eq(governing(ties.clone(), &members("b")).unwrap(), lower), "N 1.2 ties");
}

//! Who may move what. Each test is one sentence of the push rules.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use grasp_core::event::Rank;
use grasp_core::nip34::State;
use grasp_core::push::{
    Candidate, Command, Decision, Denial, Grant, Proposal, Scene, Target, authorise,
};
use grasp_core::{EventId, Oid, PubKey, RefName, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

fn oid(n: u8) -> Oid {
    Oid::from_bytes([n; 20])
}

fn id(n: u8) -> EventId {
    EventId::from_bytes([n; 32])
}

fn name(short: &str) -> RefName {
    format!("refs/{short}").parse().unwrap()
}

fn refs(entries: &[(&str, u8)]) -> BTreeMap<RefName, Oid> {
    entries.iter().map(|(short, n)| (name(short), oid(*n))).collect()
}

/// A state with this id, signed at this second.
fn state(n: u8, at: u64, entries: &[(&str, u8)]) -> Candidate {
    let state = State {
        author: PubKey::from_bytes([1; 32]),
        identifier: "acme".parse().unwrap(),
        refs: refs(entries),
        head: None,
        satisfiable: true,
    };
    Candidate { id: id(n), rank: Rank { created_at: Timestamp(at), id: id(n) }, state }
}

fn moves(short: &str, old: Option<u8>, new: Option<u8>) -> Command {
    let name = format!("refs/{short}");
    let target = Target::parse(&name);
    Command { name: name.into(), target, old: old.map(oid), new: new.map(oid) }
}

fn proposes(n: u8, new: Option<u8>) -> Command {
    moves(&format!("nostr/{}", id(n)), None, new)
}

fn by_state(n: u8) -> Decision {
    Decision::Allow(Grant { state: Some(id(n)), ..Grant::default() })
}

fn denied(commands: &[Command], scene: &Scene) -> Denial {
    match authorise(commands, scene) {
        Decision::Deny(denial) => denial,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_push_that_leads_exactly_to_a_waiting_state_is_allowed() {
    let scene = Scene { held: vec![state(9, 5, &[("heads/main", 1)])], ..Scene::default() };
    assert_eq!(authorise(&[moves("heads/main", None, Some(1))], &scene), by_state(9));
}

#[test]
fn nothing_is_allowed_without_a_signed_state() {
    let denial = denied(&[moves("heads/main", None, Some(1))], &Scene::default());
    assert_eq!(denial, Denial::NoState);
    assert!(denial.advice().contains("kind 30618"), "{}", denial.advice());
}

#[test]
fn a_push_of_one_branch_of_two_is_refused_and_the_difference_named() {
    let held = vec![state(9, 5, &[("heads/main", 1), ("heads/next", 2)])];
    let scene = Scene { held, ..Scene::default() };
    let denial = denied(&[moves("heads/main", None, Some(1))], &scene);
    assert!(denial.advice().contains("refs/heads/next would be absent"), "{}", denial.advice());
    let both = [moves("heads/main", None, Some(1)), moves("heads/next", None, Some(2))];
    assert_eq!(authorise(&both, &scene), by_state(9));
}

/// Refs here, what the state says, objects here besides, the commands; `None` if the push completes
/// the state, otherwise the ref that the refusal names.
type Completion<'a> = (
    &'a [(&'a str, u8)],
    &'a [(&'a str, u8)],
    &'a [u8],
    &'a [(&'a str, Option<u8>, Option<u8>)],
    Option<&'a str>,
);

#[test]
fn a_push_completes_a_state_whose_other_objects_are_here() {
    let main = ("heads/main", Some(1), Some(2));
    let table: [Completion<'_>; 12] = [
        // A local ref that the state no longer has is removed by the server.
        (&[("heads/main", 1), ("heads/old", 3)], &[("heads/main", 2)], &[], &[main], None),
        // A ref whose object is here is moved or created by the server.
        (
            &[("heads/main", 1), ("heads/next", 3)],
            &[("heads/main", 2), ("heads/next", 4), ("tags/v1", 5)],
            &[4, 5],
            &[main],
            None,
        ),
        // The push brings the object under another name.
        (&[("heads/main", 1)], &[("heads/main", 2), ("heads/next", 2)], &[], &[main], None),
        // A deletion is an update like any other.
        (
            &[("heads/main", 1), ("heads/old", 3)],
            &[("heads/main", 4)],
            &[4],
            &[("heads/old", Some(3), None)],
            None,
        ),
        // A command that asks for no change says nothing about its ref.
        (
            &[("heads/main", 1), ("heads/next", 3)],
            &[("heads/main", 2), ("heads/next", 4)],
            &[4],
            &[main, ("heads/next", Some(3), Some(3))],
            None,
        ),
        // An object of the state would still be missing.
        (
            &[("heads/main", 1)],
            &[("heads/main", 2), ("heads/next", 4)],
            &[],
            &[main],
            Some("heads/next"),
        ),
        (
            &[("heads/main", 1), ("heads/a", 3)],
            &[("heads/main", 2), ("tags/v1", 5)],
            &[4],
            &[main],
            Some("tags/v1"),
        ),
        // A ref that the push updates is signed with another value, here or not.
        (
            &[("heads/main", 1)],
            &[("heads/main", 2)],
            &[4],
            &[main, ("heads/extra", None, Some(4))],
            Some("heads/extra"),
        ),
        (&[("heads/main", 1)], &[("heads/main", 4)], &[4, 2], &[main], Some("heads/main")),
        (
            &[("heads/main", 1), ("heads/next", 3)],
            &[("heads/main", 2), ("heads/next", 3)],
            &[],
            &[main, ("heads/next", Some(3), None)],
            Some("heads/next"),
        ),
        // What is already so may not be signed otherwise: the answer would be false.
        (
            &[("heads/main", 1), ("heads/next", 3)],
            &[("heads/main", 2), ("heads/next", 4)],
            &[4],
            &[main, ("heads/next", None, Some(3))],
            Some("heads/next"),
        ),
        // An empty repository has no objects.
        (
            &[],
            &[("heads/main", 2), ("tags/v1", 5)],
            &[],
            &[("heads/main", None, Some(2))],
            Some("tags/v1"),
        ),
    ];
    for (row, (here, signed, present, commands, refused)) in table.into_iter().enumerate() {
        let scene = Scene {
            refs: refs(here),
            held: vec![state(9, 5, signed)],
            present: present.iter().copied().map(oid).collect::<BTreeSet<Oid>>(),
            ..Scene::default()
        };
        let commands: Vec<Command> =
            commands.iter().map(|(short, old, new)| moves(short, *old, *new)).collect();
        let decision = authorise(&commands, &scene);
        match refused {
            None => assert_eq!(decision, by_state(9), "row {row}"),
            Some(short) => {
                let Decision::Deny(Denial::Differs { differs: Some(differs), .. }) = decision
                else {
                    panic!("row {row}: {decision:?}")
                };
                assert_eq!(differs.name, name(short), "row {row}");
            }
        }
    }
}

#[test]
fn of_the_states_that_a_push_completes_the_newest_counts() {
    let held = vec![
        state(9, 5, &[("heads/main", 2), ("heads/next", 3)]),
        state(8, 6, &[("heads/main", 2)]),
    ];
    let refs = refs(&[("heads/main", 1), ("heads/next", 3)]);
    let scene = Scene { refs, held, ..Scene::default() };
    assert_eq!(authorise(&[moves("heads/main", Some(1), Some(2))], &scene), by_state(8));
}

#[test]
fn an_extra_branch_beside_a_matching_one_is_refused() {
    let scene = Scene { held: vec![state(9, 5, &[("heads/main", 1)])], ..Scene::default() };
    let extra = [moves("heads/main", None, Some(1)), moves("heads/evil", None, Some(1))];
    assert!(matches!(denied(&extra, &scene), Denial::Differs { .. }));
}

#[test]
fn deletions_updates_and_rewinds_need_no_more_than_the_state() {
    let held = vec![state(9, 5, &[("heads/main", 1)])];
    let scene = Scene {
        refs: refs(&[("heads/main", 2), ("heads/old", 3), ("tags/v1", 4)]),
        held,
        ..Scene::default()
    };
    let all = [
        moves("heads/old", Some(3), None),
        moves("heads/main", Some(2), Some(1)),
        moves("tags/v1", Some(4), None),
    ];
    assert_eq!(authorise(&all, &scene), by_state(9));
}

#[test]
fn what_is_already_so_succeeds_whatever_the_client_believed() {
    let scene = Scene { refs: refs(&[("heads/main", 1)]), ..Scene::default() };
    for command in [
        moves("heads/main", Some(1), Some(1)),
        moves("heads/main", None, Some(1)),
        moves("heads/main", Some(7), Some(1)),
        moves("heads/gone", None, None),
        moves("heads/gone", Some(3), None),
    ] {
        assert_eq!(
            authorise(std::slice::from_ref(&command), &scene),
            Decision::Unchanged,
            "{command:?}"
        );
    }
}

#[test]
fn a_ref_that_moved_since_the_client_looked_is_not_overwritten() {
    let held = vec![state(9, 5, &[("heads/main", 2)])];
    let scene = Scene { refs: refs(&[("heads/main", 1)]), held, ..Scene::default() };
    let stale = [moves("heads/main", Some(7), Some(2))];
    assert_eq!(denied(&stale, &scene), Denial::Stale(name("heads/main")));
}

#[test]
fn a_state_older_than_the_one_that_rules_cannot_take_it_back() {
    let scene = Scene {
        refs: refs(&[("heads/main", 2)]),
        held: vec![state(9, 5, &[("heads/main", 1)])],
        governing: Some(state(8, 6, &[("heads/main", 2)])),
        ..Scene::default()
    };
    let back = [moves("heads/main", Some(2), Some(1))];
    assert_eq!(denied(&back, &scene), Denial::Outdated { by: id(8) });
}

#[test]
fn of_two_states_of_one_second_the_lower_id_counts() {
    let rules = Some(state(8, 5, &[("heads/main", 2)]));
    let scene = |n| Scene {
        refs: refs(&[("heads/main", 2)]),
        held: vec![state(n, 5, &[("heads/main", 1)])],
        governing: rules.clone(),
        ..Scene::default()
    };
    let push = [moves("heads/main", Some(2), Some(1))];
    assert_eq!(authorise(&push, &scene(7)), by_state(7));
    assert_eq!(denied(&push, &scene(9)), Denial::SameSecond { lost: id(9), by: id(8) });
}

#[test]
fn a_push_for_a_state_refused_in_its_second_is_told_which_state_is_in_force() {
    let push = [moves("heads/main", Some(2), Some(1))];
    let lost = vec![state(9, 5, &[("heads/main", 1)])];
    let refs = refs(&[("heads/main", 2)]);
    let governing = Some(state(8, 5, &[("heads/main", 2)]));
    let scene = Scene { refs, governing, lost, ..Scene::default() };
    assert_eq!(denied(&push, &scene), Denial::SameSecond { lost: id(9), by: id(8) });
    let held = vec![state(8, 5, &[("heads/main", 3)])];
    let waits = Scene { held, governing: None, ..scene.clone() };
    assert_eq!(denied(&push, &waits), Denial::SameSecond { lost: id(9), by: id(8) });
    let later = Scene { governing: Some(state(7, 6, &[("heads/main", 2)])), ..scene.clone() };
    assert!(matches!(denied(&push, &later), Denial::NothingWaits { .. }), "another second");
    let other = [moves("heads/main", Some(2), Some(4))];
    assert!(matches!(denied(&other, &scene), Denial::NothingWaits { .. }), "another commit");
}

#[test]
fn the_state_that_rules_repairs_what_was_lost() {
    let governing = Some(state(8, 6, &[("heads/main", 2)]));
    let scene = Scene { governing, ..Scene::default() };
    assert_eq!(authorise(&[moves("heads/main", None, Some(2))], &scene), by_state(8));
}

#[test]
fn a_state_that_git_cannot_have_allows_nothing() {
    let mut candidate = state(9, 5, &[("heads/main", 1)]);
    candidate.state.satisfiable = false;
    let scene = Scene { held: vec![candidate], ..Scene::default() };
    assert!(matches!(authorise(&[moves("heads/main", None, Some(1))], &scene), Decision::Deny(_)));
}

#[test]
fn places_that_are_nobodys_are_refused_even_beside_a_good_push() {
    let scene = Scene { held: vec![state(9, 5, &[("heads/main", 1)])], ..Scene::default() };
    for place in ["refs/foo/x", "HEAD", "refs/nostr/123", "refs/internal/x", "refs/heads/a..b"] {
        let foreign = Command {
            target: Target::parse(place),
            name: place.into(),
            old: None,
            new: Some(oid(1)),
        };
        assert_eq!(foreign.target, None, "{place}");
        let denial = denied(&[moves("heads/main", None, Some(1)), foreign], &scene);
        assert_eq!(denial, Denial::ForeignRef(place.into()));
    }
}

#[test]
fn a_pull_requests_commits_may_come_before_it() {
    let unclaimed = BTreeMap::from([(id(3), oid(4))]);
    let grant = Grant { unclaimed, ..Grant::default() };
    assert_eq!(authorise(&[proposes(3, Some(4))], &Scene::default()), Decision::Allow(grant));
}

#[test]
fn once_the_pull_request_is_known_only_its_commit_is_taken() {
    let known = |it| Scene { known: BTreeMap::from([(id(3), it)]), ..Scene::default() };
    let scene = known(Proposal::Here(Some(oid(4))));
    let claimed = BTreeMap::from([(id(3), oid(4))]);
    let grant = Grant { claimed, ..Grant::default() };
    assert_eq!(authorise(&[proposes(3, Some(4))], &scene), Decision::Allow(grant));
    let wrong = denied(&[proposes(3, Some(5))], &scene);
    assert_eq!(wrong, Denial::WrongTip { id: id(3), expected: Some(oid(4)) });
    let denial = denied(&[proposes(3, Some(4))], &known(Proposal::Elsewhere));
    assert_eq!(denial, Denial::OtherRepository(id(3)));
    let denial = denied(&[proposes(3, Some(4))], &known(Proposal::NoPullRequest));
    assert_eq!(denial, Denial::NoPullRequest(id(3)));
}

#[test]
fn nobody_deletes_a_pull_request_by_pushing() {
    let proposals = BTreeMap::from([(id(3), oid(4))]);
    let scene = Scene { proposals, ..Scene::default() };
    assert_eq!(denied(&[proposes(3, None)], &scene), Denial::ProposalDeleted);
    assert_eq!(denied(&[proposes(5, None)], &scene), Denial::NoSuchProposal(id(5)));
    assert_eq!(authorise(&[proposes(3, Some(4))], &scene), Decision::Unchanged);
}

#[test]
fn what_nobody_signed_for_comes_alone() {
    let scene = Scene { held: vec![state(9, 5, &[("heads/main", 1)])], ..Scene::default() };
    let mixed = [moves("heads/main", None, Some(1)), proposes(3, Some(4))];
    assert_eq!(denied(&mixed, &scene), Denial::Mixed);
    let known = BTreeMap::from([(id(3), Proposal::Here(Some(oid(4))))]);
    let grant = Grant {
        state: Some(id(9)),
        claimed: BTreeMap::from([(id(3), oid(4))]),
        ..Grant::default()
    };
    assert_eq!(authorise(&mixed, &Scene { known, ..scene }), Decision::Allow(grant));
}

#[test]
fn every_refusal_says_what_to_do() {
    let differs = None;
    for denial in [
        Denial::ForeignRef("refs/x".into()),
        Denial::NoState,
        Denial::NothingWaits { differs: differs.clone() },
        Denial::Differs { state: id(1), differs },
        Denial::Outdated { by: id(1) },
        Denial::SameSecond { lost: id(2), by: id(1) },
        Denial::Stale(name("heads/main")),
        Denial::ProposalDeleted,
        Denial::NoSuchProposal(id(1)),
        Denial::WrongTip { id: id(1), expected: None },
        Denial::OtherRepository(id(1)),
        Denial::NoPullRequest(id(1)),
        Denial::Mixed,
    ] {
        let (reason, advice) = (denial.to_string(), denial.advice());
        assert!(reason.len() < 80 && !reason.contains('\n'), "{reason}");
        assert!(advice.len() > reason.len() / 2 && !advice.contains('\n'), "{advice}");
    }
}

//! The writer's desk over a real store: facts gathered, verdicts applied, nothing half done.

use super::admit::{Admission, Bounds, Candidate, Clerk, Effects, Purse};
use super::import;
use super::roles::RoleCache;
use super::withdraw_blacklisted;
use crate::clock::ClockReading;
use crate::repos::Repos;
use grasp_core::hold::Patience;
use grasp_core::maintainers::MaintainerRule;
use grasp_core::policy::Rules;
use grasp_core::proposal_share::ProposalLimits;
use grasp_core::service::{Authority, Service};
use grasp_core::{Kind, PubKey, Time, VerifiedEvent};
use grasp_git::Layout;
use grasp_store::{EventStore, LmdbStore, Options, Provenance, Space, in_memory};
use grasp_testkit::{Author, Draft};
use std::sync::Arc;
use std::time::{Duration, Instant};

const NOW: u64 = 1_000_000;

struct Desk {
    store: LmdbStore,
    rules: Rules,
    bounds: Bounds,
    roles: RoleCache,
    repos: Repos,
}

impl Desk {
    fn new() -> Self {
        Self::with_budget(Options::default().budget_bytes)
    }

    fn with_budget(budget_bytes: u64) -> Self {
        let rules = rules();
        let bounds = Bounds {
            held_events_max: 1_000,
            held_bytes_max: 64 << 20,
            held_per_key_max: 500,
            aside_events_max: 100,
            aside_bytes_max: 1 << 20,
            burials_per_author_max: 5,
            proposals: ProposalLimits::default(),
        };
        let store = in_memory(&Options { budget_bytes, ..Options::default() }).unwrap();
        // No repository has a directory here.
        let repos = Repos::new(Layout::new("/nonexistent/graspd".into()));
        Self { store, rules, bounds, roles: RoleCache::default(), repos }
    }

    fn admit(&mut self, event: &VerifiedEvent) -> Admission {
        let (event, from) = (Arc::new(event.clone()), Provenance::direct(Time(1)));
        let mut admission = None;
        let Self { store, rules, bounds, roles, repos } = self;
        store
            .write(&mut |txn| {
                let now = Time::from_secs(NOW);
                let at = ClockReading { now, wall: now };
                let purse = Purse { new_repository: &mut || Ok(()), hold: &mut || Ok(()) };
                let (effects, patience) = (&mut Effects::default(), Patience::default());
                let mut clerk = Clerk { rules, bounds, at, roles, repos, patience, effects, purse };
                admission =
                    Some(clerk.admit(txn, &Candidate { event: &event, from: &from, ip: None })?);
                Ok(())
            })
            .unwrap();
        admission.unwrap()
    }

    fn code(&mut self, event: &VerifiedEvent) -> &'static str {
        self.admit(event).code
    }

    fn imports(&mut self, event: &VerifiedEvent) -> bool {
        let mut stored = false;
        let from = Provenance::direct(Time(1));
        let work = &mut |txn: &mut dyn grasp_store::Transaction| {
            stored = import(txn, std::slice::from_ref(event), &from, &self.rules)? == 1;
            Ok(())
        };
        self.store.write(work).unwrap();
        stored
    }

    fn is_in(&self, space: Space, event: &VerifiedEvent) -> bool {
        self.store.read().unwrap().contains(space, &event.id).unwrap()
    }

    /// Imports large events until nothing more fits.
    fn fill(&mut self) {
        let padding = "x".repeat(60_000);
        for n in 0..10_000 {
            if self.store.usage().unwrap().is_full() {
                return;
            }
            let draft = Draft::new(Kind(1), NOW - 1).content(&format!("{n}{padding}"));
            self.imports(&Author::number(99).signs(draft));
        }
        panic!("the store never got full");
    }
}

pub(super) fn rules() -> Rules {
    Rules {
        service: Service::new(Authority::parse("git.example").unwrap(), vec![], ""),
        maintainer_rule: MaintainerRule::Confirmed,
        repository_whitelist: vec![],
        repository_blacklist: vec![],
        event_blacklist: [].into(),
        respect_deletions: true,
        relay_key: PubKey::from_bytes([9; 32]),
        created_at_ahead_secs_max: 900,
        grasp_lists_max: 10,
    }
}

fn announces(author: &Author, d: &str, at: u64) -> Draft {
    let clone = format!("https://git.example/{}/{d}.git", author.key.to_npub());
    Draft::new(Kind::ANNOUNCEMENT, at)
        .tag(&["d", d])
        .tag(&["clone", &clone])
        .tag(&["relays", "wss://git.example"])
}

fn coordinate(author: &Author, d: &str) -> String {
    format!("30617:{}:{d}", author.key)
}

fn about(author: &Author, kind: u16, tag: &[&str]) -> VerifiedEvent {
    author.signs(Draft::new(Kind(kind), NOW - 5).tag(tag))
}

fn deletes(author: &Author, at: u64, tag: &[&str]) -> VerifiedEvent {
    author.signs(Draft::new(Kind::DELETION, at).tag(tag))
}

#[test]
fn references_are_found_by_every_tag_that_makes_one_and_never_by_halves_of_two() {
    let (owner, other, guest) = (Author::number(1), Author::number(2), Author::number(3));
    let mut desk = Desk::new();
    assert!(desk.imports(&owner.signs(announces(&owner, "acme", NOW - 9))));
    assert!(desk.imports(&other.signs(announces(&other, "tool", NOW - 9))));
    let acme = coordinate(&owner, "acme");
    for tag in ["a", "A", "q"] {
        assert_eq!(desk.code(&about(&guest, 1111, &[tag, &acme])), "accepted", "P 2.5 {tag}");
    }
    let issue = about(&guest, 1621, &["a", &acme]);
    desk.admit(&issue);
    for tag in ["e", "E", "q"] {
        let reply = about(&guest, 1, &[tag, &issue.id.to_hex()]);
        assert_eq!(desk.code(&reply), "accepted", "P 2.5 {tag}");
    }
    let crossed = about(&guest, 1621, &["a", &coordinate(&owner, "tool")]);
    assert_eq!(desk.code(&crossed), "unrelated", "P 9 trap 27");
    let mentioned = about(&guest, 1621, &["p", &owner.key.to_hex()]);
    assert_eq!(desk.code(&mentioned), "unrelated", "P 2.5 a p tag never qualifies");
    let list = guest.signs(Draft::new(Kind(30_023), NOW - 4).tag(&["d", "post"]));
    let points = format!("30023:{}:post", guest.key);
    let quoting = guest.signs(Draft::new(Kind(1), NOW - 3).tag(&["a", &acme]).tag(&["q", &points]));
    assert_eq!(desk.code(&list), "unrelated");
    desk.admit(&quoting);
    assert_eq!(desk.code(&list), "accepted", "P 2.5 referred to by address");
}

#[test]
fn what_is_held_can_be_deleted_by_id_and_by_address() {
    let owner = Author::number(1);
    let mut desk = Desk::new();
    let announcement = owner.signs(announces(&owner, "acme", NOW - 9));
    assert_eq!(desk.code(&announcement), "held-git-data");
    let oid = "1".repeat(40);
    let state = |at| {
        let draft = Draft::new(Kind::STATE, at).tag(&["d", "acme"]);
        owner.signs(draft.tag(&["refs/heads/main", &oid]))
    };
    let pull = owner.signs(
        Draft::new(Kind::PULL_REQUEST, NOW - 7)
            .tag(&["a", &coordinate(&owner, "acme")])
            .tag(&["c", &oid]),
    );
    for held in [state(NOW - 8), pull] {
        assert!(desk.code(&held).starts_with("held-"));
        let request = deletes(&owner, NOW - 6, &["e", &held.id.to_hex()]);
        assert_eq!(desk.code(&request), "accepted");
        assert!(!desk.is_in(Space::Held, &held), "P 2.6 by e");
        assert_eq!(desk.code(&held), "deleted", "and it stays away");
    }
    let later = state(NOW - 5);
    assert!(desk.code(&later).starts_with("held-"));
    let address = format!("30618:{}:acme", owner.key);
    assert_eq!(desk.code(&deletes(&owner, NOW - 4, &["a", &address])), "accepted");
    assert!(!desk.is_in(Space::Held, &later), "P 2.6 by a");
    assert!(desk.is_in(Space::Held, &announcement), "nothing else went");
}

#[test]
fn a_state_without_objects_ends_no_state_that_waits() {
    let owner = Author::number(1);
    let mut desk = Desk::new();
    assert!(desk.imports(&owner.signs(announces(&owner, "acme", NOW - 9))));
    let names = Draft::new(Kind::STATE, NOW - 8).tag(&["d", "acme"]);
    let waits = owner.signs(names.tag(&["refs/heads/main", &"1".repeat(40)]));
    assert_eq!(desk.code(&waits), "held-git-data");
    let empty = owner.signs(Draft::new(Kind::STATE, NOW - 7).tag(&["d", "acme"]));
    assert_eq!(desk.code(&empty), "accepted");
    assert!(desk.is_in(Space::Held, &waits), "D 2: it goes on governing");
}

#[test]
fn who_leaves_takes_waiting_states_along_unless_another_owner_needs_them() {
    let (owner, other) = (Author::number(1), Author::number(2));
    for needed in [false, true] {
        let mut desk = Desk::new();
        assert!(desk.imports(&owner.signs(announces(&owner, "acme", NOW - 9))));
        if needed {
            assert_eq!(
                desk.code(&other.signs(announces(&other, "acme", NOW - 9))),
                "held-git-data"
            );
        }
        let draft = Draft::new(Kind::STATE, NOW - 8).tag(&["d", "acme"]);
        let state = owner.signs(draft.tag(&["refs/heads/main", &"1".repeat(40)]));
        assert_eq!(desk.code(&state), "held-git-data");
        let leaves = owner.signs(Draft::new(Kind::ANNOUNCEMENT, NOW - 5).tag(&["d", "acme"]));
        assert_eq!(desk.code(&leaves), "withdrawn");
        assert_eq!(desk.is_in(Space::Held, &state), needed, "P 2.1 row 6");
    }
}

#[test]
fn a_full_store_refuses_whole_and_still_deletes() {
    let owner = Author::number(1);
    let mut desk = Desk::with_budget(4 << 20);
    let served = owner.signs(announces(&owner, "acme", NOW - 9));
    assert!(desk.imports(&served));
    let waits = owner.signs(announces(&owner, "tool", NOW - 9));
    assert_eq!(desk.code(&waits), "held-git-data");
    desk.fill();
    let leaves = owner.signs(Draft::new(Kind::ANNOUNCEMENT, NOW - 5).tag(&["d", "acme"]));
    assert_eq!(desk.code(&leaves), "store-full");
    assert!(desk.is_in(Space::Served, &served), "nothing happened by halves");
    assert!(desk.is_in(Space::Held, &waits));
    let issue = about(&owner, 1621, &["a", &coordinate(&owner, "acme")]);
    assert_eq!(desk.code(&issue), "store-full");
    let request = deletes(&owner, NOW - 4, &["e", &served.id.to_hex()]);
    assert_eq!(desk.code(&request), "accepted", "deletions make room");
    assert!(!desk.is_in(Space::Served, &served));
}

#[test]
fn a_request_that_finds_no_room_goes_on_waiting() {
    let author = Author::number(1);
    let mut desk = Desk::new();
    let ids: Vec<String> = (0..9_u8).map(|n| format!("{n:02x}").repeat(32)).collect();
    let mut too_many = Draft::new(Kind::DELETION, NOW - 9);
    for id in &ids {
        too_many = too_many.tag(&["e", id]);
    }
    let request = author.signs(too_many);
    assert_eq!(desk.code(&request), "deferred");
    let list = author.signs(Draft::new(Kind::GRASP_LIST, NOW - 8));
    assert_eq!(desk.code(&list), "accepted");
    assert!(desk.is_in(Space::Aside, &request), "it names more than is remembered per author");
}

#[test]
fn an_import_obeys_only_what_is_meant_for_this_relay() {
    let (owner, guest) = (Author::number(1), Author::number(2));
    let mut desk = Desk::new();
    let issue = about(&guest, 1621, &["a", &coordinate(&owner, "acme")]);
    assert!(desk.imports(&issue));
    let elsewhere = Draft::new(Kind::VANISH, NOW).tag(&["relay", "wss://elsewhere.example"]);
    assert!(desk.imports(&guest.signs(elsewhere)));
    assert!(desk.is_in(Space::Served, &issue));
    let here = Draft::new(Kind::VANISH, NOW + 1).tag(&["relay", "wss://git.example"]);
    assert!(desk.imports(&guest.signs(here)));
    assert!(!desk.is_in(Space::Served, &issue));
    assert!(!desk.imports(&issue), "and it does not come back");
}

#[test]
fn what_is_blacklisted_later_stops_being_served_and_is_kept_aside() {
    let (bad, good) = (Author::number(1), Author::number(2));
    let mut desk = Desk::new();
    let (served, held) =
        (bad.signs(announces(&bad, "acme", NOW - 9)), bad.signs(announces(&bad, "tool", NOW - 9)));
    let other = good.signs(announces(&good, "acme", NOW - 9));
    assert!(desk.imports(&served) && desk.imports(&other));
    assert_eq!(desk.code(&held), "held-git-data");
    desk.rules.repository_blacklist = vec![bad.key.to_npub().parse().unwrap()];
    assert_eq!(withdraw_blacklisted(&desk.store, &desk.rules, Time(1)).unwrap(), 2);
    assert!(!desk.is_in(Space::Served, &served) && !desk.is_in(Space::Held, &held));
    assert!(desk.is_in(Space::Aside, &served) && desk.is_in(Space::Aside, &held));
    assert!(desk.is_in(Space::Served, &other));
    let issue = about(&good, 1621, &["a", &coordinate(&bad, "acme")]);
    assert_eq!(desk.code(&issue), "unrelated");
}

/// The bounds of a family, from a real store: a thousand announcements that list a hundred each.
#[test]
fn a_large_family_costs_lookups_and_is_parsed_once() {
    let people: Vec<Author> = (0..1_000).map(Author::number).collect();
    let mut desk = Desk::new();
    for (number, author) in people.iter().enumerate() {
        let mut draft = announces(author, "acme", NOW - 100);
        for next in 1..=100 {
            let other = &people[(number + next * 7) % people.len()];
            draft = draft.tag(&["m", &other.key.to_hex()]);
        }
        desk.imports(&author.signs(draft));
    }
    let state = |n: usize| {
        let draft = Draft::new(Kind::STATE, NOW - 50).tag(&["d", "acme"]);
        people[n].signs(draft.tag(&["refs/heads/main", &"1".repeat(40)]))
    };
    let mut one_more = |n: usize, roles: Option<RoleCache>| {
        desk.roles = roles.unwrap_or_else(|| std::mem::take(&mut desk.roles));
        let (event, started) = (state(n), Instant::now());
        assert_eq!(desk.code(&event), "held-git-data");
        started.elapsed()
    };
    let read_anew = (0..3).map(|n| one_more(n, Some(RoleCache::default()))).min().unwrap();
    let known = (3..8).map(|n| one_more(n, None)).min().unwrap();
    assert!(known * 3 < read_anew * 2, "{known:?}, and {read_anew:?} if nothing is known of them");
    let is_optimised = !cfg!(debug_assertions);
    assert!(!is_optimised || known < Duration::from_millis(25), "one more state took {known:?}");
}

//! What gave up waiting: looked for, but neither served nor held, and gone when its author says so.

use super::crash_tests::machine::{DOMAIN, Disk, Machine, git};
use super::crash_tests::scene::Scene;
use super::{Purpose, Question, Waits, WantedLimits, lacking, wanted};
use grasp_core::policy::PURGATORY;
use grasp_core::{EventId, Kind, Oid, RepoId, Time, VerifiedEvent};
use grasp_engine::hunt::FamilyId;
use grasp_store::{Provenance, Shelf, SourceKind, Space};
use grasp_testkit::{Author, Draft, Repository};
use std::collections::BTreeSet;

const THEN: u64 = 1_700_000_000;
const OID: &str = "1111111111111111111111111111111111111111";
const OTHER: &str = "2222222222222222222222222222222222222222";

fn acme() -> Repository {
    Repository::new(Author::number(1), "acme")
}

fn state(at: u64, oid: &str) -> VerifiedEvent {
    acme().state(&acme().owner, THEN + at, &[("refs/heads/main", oid)], None)
}

/// Announced, signed, and given up after half an hour.
fn given_up(machine: &mut Machine) -> VerifiedEvent {
    machine.publishes(&acme().announcement_listing(DOMAIN, THEN));
    let state = state(1, OID);
    assert!(machine.publishes(&state).text.starts_with(PURGATORY));
    machine.gives_up(&state);
    state
}

fn is_in(machine: &Machine, space: Space, id: &EventId) -> bool {
    machine.store.read().unwrap().contains(space, id).unwrap()
}

fn synced() -> Provenance {
    Provenance { source: SourceKind::Backfill, ..Provenance::direct(Time(1)) }
}

#[test]
fn s33_what_gave_up_is_neither_served_nor_held_and_no_relay_brings_it_back() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let state = given_up(&mut machine);
    assert!(is_in(&machine, Space::Wanted, &state.id));
    assert!(!is_in(&machine, Space::Held, &state.id) && !is_in(&machine, Space::Served, &state.id));
    let again = machine.is_offered(state.event().clone(), synced()).unwrap();
    assert!(!again.ok, "{again:?}");
    assert!(is_in(&machine, Space::Wanted, &state.id) && !is_in(&machine, Space::Held, &state.id));
    assert!(machine.publishes(&state).text.starts_with(PURGATORY), "its author may bring it again");
    assert!(!is_in(&machine, Space::Wanted, &state.id) && is_in(&machine, Space::Held, &state.id));
}

#[test]
fn s33_a_newer_state_or_a_deletion_ends_the_search() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let old = given_up(&mut machine);
    machine.publishes(&state(2, OTHER));
    assert!(!is_in(&machine, Space::Wanted, &old.id), "its author has said something newer");
    let newer = state(2, OTHER);
    machine.gives_up(&newer);
    assert!(is_in(&machine, Space::Wanted, &newer.id));
    let deletion = Draft::new(Kind::DELETION, THEN + 9).tag(&["e", &newer.id.to_hex()]);
    assert!(machine.publishes(&acme().owner.signs(deletion)).ok);
    assert!(!is_in(&machine, Space::Wanted, &newer.id));
    let notes = machine.store.read().unwrap().notes(Shelf::Wanted, &[], 10).unwrap();
    assert!(notes.is_empty(), "nothing is left of it");
}

#[test]
fn s33_after_a_week_only_the_id_is_remembered_and_after_another_nothing() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let state = given_up(&mut machine);
    let limits = WantedLimits::default();
    let long_ago = 5_u64.to_be_bytes();
    machine
        .store
        .write(&mut |txn| {
            txn.put_note(Shelf::Wanted, state.id.as_bytes(), &long_ago)?;
            wanted::prune(txn, Time(10 + 7 * 86_400_000), &limits)
        })
        .unwrap();
    assert!(!is_in(&machine, Space::Wanted, &state.id));
    assert!(!machine.is_offered(state.event().clone(), synced()).unwrap().ok);
}

#[test]
fn s33_a_full_list_takes_no_newcomer() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    machine.publishes(&acme().announcement_listing(DOMAIN, THEN));
    let state = state(1, OID);
    machine.publishes(&state);
    let full = WantedLimits { events_max: 0, ..WantedLimits::default() };
    let give_up = |txn: &mut dyn grasp_store::Transaction| {
        wanted::give_up(txn, &state.id, Time(1), &full, &mut super::admit::Effects::default())
    };
    machine.store.write(&mut |txn| give_up(txn)).unwrap();
    assert!(!is_in(&machine, Space::Wanted, &state.id) && !is_in(&machine, Space::Held, &state.id));
    assert!(!machine.is_offered(state.event().clone(), synced()).unwrap().ok, "but is remembered");
}

fn family(of: &Repository) -> FamilyId {
    FamilyId { owner: of.owner.key, identifier: of.identifier.parse().unwrap() }
}

fn look(machine: &Machine, family: &FamilyId) -> super::Lacking {
    let damaged = BTreeSet::new();
    let rules = machine.rules();
    let question = Question {
        rules: &rules,
        repos: &machine.host.repos,
        family,
        damaged: &damaged,
        urls_per_event_max: 20,
        turn: 0,
    };
    lacking(&*machine.store, &question).unwrap()
}

fn id(of: &Repository) -> RepoId {
    RepoId { owner: of.owner.key, identifier: of.identifier.parse().unwrap() }
}

#[test]
fn s36_what_a_family_lacks_is_read_off_the_store() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let announcement = Draft::new(Kind::ANNOUNCEMENT, THEN)
        .tag(&["d", "acme"])
        .tag(&["clone", &acme().clone_url(DOMAIN), "https://github.com/a/b.git"])
        .tag(&["clone", "https://grasp.one/npub1x/acme.git", "ssh://git.one/a.git"])
        .tag(&["relays", &format!("ws://{DOMAIN}")]);
    machine.publishes(&acme().owner.signs(announcement));
    let state = state(1, OID);
    machine.publishes(&state);
    let found = look(&machine, &family(&acme()));
    let urls: Vec<&str> = found.sources.iter().map(|it| it.url.as_str()).collect();
    assert_eq!(
        urls,
        ["https://grasp.one/npub1x/acme.git", "https://github.com/a/b.git"],
        "GRASP servers first, ourselves and other protocols never"
    );
    assert_eq!(found.events.len(), 1);
    assert_eq!((found.events[0].id, &found.events[0].to), (state.id, &id(&acme())));
    assert_eq!(found.events[0].standing, Waits::Held);
    assert!(found.is_held());
    assert_eq!(found.wants(), BTreeSet::from([OID.parse().unwrap()]));
    machine.gives_up(&state);
    let later = look(&machine, &family(&acme()));
    assert_eq!(later.events[0].standing, Waits::Wanted);
    assert!(!later.is_held() && later.wants() == found.wants());
}

#[test]
fn s32_a_family_goes_by_the_least_of_its_owners_and_strangers_are_apart() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let twin = Repository::new(Author::number(2), "acme");
    let stranger = Repository::new(Author::number(3), "acme");
    machine.publishes(&acme().announcement_naming(DOMAIN, THEN, &[&twin.owner]));
    machine.publishes(&twin.announcement_naming(DOMAIN, THEN, &[&acme().owner]));
    machine.publishes(&stranger.announcement_listing(DOMAIN, THEN));
    machine.publishes(&state(1, OID));
    let least = family(&acme()).min(family(&twin));
    let greater = family(&acme()).max(family(&twin));
    assert_eq!(look(&machine, &least).events.len(), 1);
    let other = look(&machine, &greater);
    assert!(other.is_gone && other.events.is_empty(), "it goes by another name");
    assert!(look(&machine, &family(&stranger)).events.is_empty());
}

/// Commits, one on top of the other, as a pack of all of them.
fn history() -> (Vec<u8>, Oid, Oid) {
    let scene = Scene::new();
    (scene.pack(&[scene.second], &[]), scene.first, scene.second)
}

fn proposal(by: u64, tip: &str) -> VerifiedEvent {
    let draft = Draft::new(Kind::PULL_REQUEST, THEN).tag(&["a", &acme().coordinate()]);
    Author::number(by).signs(draft.tag(&["c", tip]))
}

/// Served, with two commits on its branch.
fn served(machine: &mut Machine) -> (Oid, Oid) {
    let (pack, first, second) = history();
    machine.publishes(&acme().announcement_listing(DOMAIN, THEN));
    machine.publishes(&state(1, &second.to_hex()));
    assert!(machine.fetches(&id(&acme()), &pack, Purpose::State));
    assert!(is_in(machine, Space::Served, &state(1, &second.to_hex()).id));
    (first, second)
}

#[test]
fn s36_a_pull_request_whose_commit_came_by_another_way_is_served_also_after_it_gave_up() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    machine.publishes(&acme().announcement_listing(DOMAIN, THEN));
    let (pack, first, second) = history();
    let held = proposal(7, &first.to_hex());
    let late = proposal(8, &first.to_hex());
    machine.publishes(&state(1, &second.to_hex()));
    for request in [&held, &late] {
        machine.publishes(request);
    }
    machine.gives_up(&late);
    assert!(is_in(&machine, Space::Wanted, &late.id) && is_in(&machine, Space::Held, &held.id));
    // The merge brings their commit along.
    assert!(machine.fetches(&id(&acme()), &pack, Purpose::State));
    let found = look(&machine, &family(&acme()));
    assert!(found.events.is_empty(), "{found:?}");
    assert!(found.complete.contains(&late.id), "{found:?}");
    machine.completes(&found.complete);
    for request in [&held, &late] {
        assert!(is_in(&machine, Space::Served, &request.id));
    }
}

#[test]
fn what_is_here_and_is_something_else_is_never_looked_for() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let (_, second) = served(&mut machine);
    let directory = machine.host.layout.repository(&id(&acme()));
    let tree = git(&directory, &["rev-parse", &format!("{second}^{{tree}}")], b"");
    let tree = String::from_utf8(tree).unwrap().trim().to_owned();
    machine.publishes(&proposal(7, &tree));
    machine.publishes(&state(2, &tree));
    let found = look(&machine, &family(&acme()));
    assert!(found.events.is_empty() && found.complete.is_empty(), "{found:?}");
}

#[test]
fn what_nobody_waits_for_any_more_is_not_taken() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    machine.publishes(&acme().announcement_listing(DOMAIN, THEN));
    let (pack, _, second) = history();
    let waits = state(1, &second.to_hex());
    machine.publishes(&waits);
    let deletion = Draft::new(Kind::DELETION, THEN + 9).tag(&["e", &waits.id.to_hex()]);
    assert!(machine.publishes(&acme().owner.signs(deletion)).ok);
    assert!(!machine.fetches(&id(&acme()), &pack, Purpose::State));
    assert!(!machine.host.layout.repository(&id(&acme())).exists());
}

#[test]
fn s33_whoever_only_has_something_wanted_here_can_still_take_it_back() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    served(&mut machine);
    let request = proposal(7, OTHER);
    machine.publishes(&request);
    machine.gives_up(&request);
    let deletion = Draft::new(Kind::DELETION, THEN + 9).tag(&["e", &request.id.to_hex()]);
    assert!(machine.publishes(&Author::number(7).signs(deletion)).ok);
    assert!(!is_in(&machine, Space::Wanted, &request.id));
    let again = machine.is_offered(request.event().clone(), synced()).unwrap();
    assert!(!again.ok, "{again:?}");
}

#[test]
fn s37_strangers_cannot_push_the_owners_addresses_off_the_list() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    served(&mut machine);
    let github = "https://github.com/a/acme.git";
    let own = Draft::new(Kind::ANNOUNCEMENT, THEN + 1)
        .tag(&["d", "acme"])
        .tag(&["clone", &acme().clone_url(DOMAIN), github])
        .tag(&["relays", &format!("ws://{DOMAIN}")]);
    machine.publishes(&acme().owner.signs(own));
    machine.publishes(&state(2, OID));
    for stranger in 0..5 {
        let urls: Vec<String> =
            (0..20).map(|n| format!("https://x{n}.evil{stranger}.com/npub1x/acme.git")).collect();
        let mut tag = vec!["clone"];
        tag.extend(urls.iter().map(String::as_str));
        let draft = Draft::new(Kind::PULL_REQUEST, THEN)
            .tag(&["a", &acme().coordinate()])
            .tag(&["c", OTHER])
            .tag(&tag);
        machine.publishes(&Author::number(100 + stranger).signs(draft));
    }
    let found = look(&machine, &family(&acme()));
    assert_eq!(found.sources[0].url.as_str(), github);
    assert!(found.sources.len() <= 40, "{}", found.sources.len());
    let hosts: BTreeSet<String> = found
        .sources
        .iter()
        .skip(1)
        .map(|it| {
            it.url.as_str()[8..].split('/').next().unwrap().split_once('.').unwrap().1.to_owned()
        })
        .collect();
    assert_eq!(hosts.len(), 5, "and each of them gets a turn: {hosts:?}");
    for source in found.sources.iter().skip(1) {
        let only = BTreeSet::from([OTHER.parse().unwrap()]);
        assert_eq!(source.covers.as_ref(), Some(&only), "for what it proposes alone");
    }
}

//! What other relays offer and we refuse: remembered if that cannot change, kept for a while if it
//! can, and judged again when what it lacked is here.

use super::crash_tests::machine::{DOMAIN, Disk, Machine};
use super::plan::view_key;
use super::refused::{self, Counts, is_refused};
use super::second_chance::{Arrivals, Orphan};
use super::{SecondChance, Sizes, unknown};
use crate::clock::Clock;
use grasp_core::{Kind, Tag, Time, VerifiedEvent};
use grasp_store::{Provenance, Shelf, SourceKind, Space, Transaction};
use grasp_testkit::{Author, Draft, Repository};
use std::sync::Arc;
use std::time::Duration;

pub(super) const THEN: u64 = 1_700_000_000;
const MINUTE: u64 = 60_000;

pub(super) fn came(ms_ago: u64) -> Provenance {
    let received = Time(Clock::default().now().0 - ms_ago);
    let relay = Some("wss://other.example".to_owned());
    Provenance { source: SourceKind::Backfill, relay, received, released: None }
}

impl Machine {
    pub(super) fn is_synced(&mut self, event: &VerifiedEvent) -> bool {
        self.is_offered(event.event().clone(), came(0)).unwrap().ok
    }

    pub(super) fn has(&self, space: Space, event: &VerifiedEvent) -> bool {
        self.store.read().unwrap().contains(space, &event.id).unwrap()
    }

    pub(super) fn refuses(&self, event: &VerifiedEvent) -> bool {
        is_refused(&*self.store.read().unwrap(), &event.id).unwrap()
    }

    pub(super) fn counts(&self) -> Counts {
        refused::counts(&*self.store.read().unwrap()).unwrap()
    }
}

/// Two people who list each other; only the first asks us to host.
pub(super) struct Project {
    pub(super) acme: Repository,
    other: Author,
}

impl Project {
    pub(super) fn new() -> Self {
        Self { acme: Repository::new(Author::number(1), "acme"), other: Author::number(2) }
    }

    pub(super) fn announcement(&self) -> VerifiedEvent {
        self.acme.announcement_naming(DOMAIN, THEN, &[&self.other])
    }

    fn others_announcement(&self, at: u64) -> VerifiedEvent {
        let draft = Draft::new(Kind::ANNOUNCEMENT, at).tag(&["d", "acme"]);
        self.other.signs(draft.tag(&["maintainers", &self.acme.owner.key.to_hex()]))
    }

    pub(super) fn others_state(&self) -> VerifiedEvent {
        self.acme.state(&self.other, THEN, &[("refs/heads/main", &"1".repeat(40))], None)
    }

    pub(super) fn issue(&self) -> VerifiedEvent {
        self.acme.issue(&Author::number(3), THEN, "it is broken")
    }
}

fn reply(to: &VerifiedEvent, number: u64) -> VerifiedEvent {
    let draft = Draft::new(Kind(1111), THEN + number).tag(&["e", &to.id.to_hex()]);
    Author::number(4).signs(draft)
}

#[test]
fn s29_what_lacked_an_announcement_is_judged_again_when_it_comes() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let project = Project::new();
    let (state, announcement) = (project.others_state(), project.others_announcement(THEN));
    // In the wrong order: the state needs both announcements.
    assert!(!machine.is_synced(&state) && !machine.is_synced(&announcement));
    assert!(machine.refuses(&state) && machine.refuses(&announcement));
    let kept = Sizes { announcements: 1, states: 1, related: 0 };
    assert_eq!(machine.second_chance.sizes(), kept);
    assert!(machine.publishes(&project.announcement()).ok);
    for event in [&announcement, &state] {
        assert!(machine.has(Space::Held, event), "it waits with the repository");
        assert!(!machine.refuses(event));
    }
    assert_eq!(machine.second_chance.sizes(), Sizes::default());
    assert_eq!(machine.counts(), Counts::default());
}

#[test]
fn s29_people_who_come_to_have_a_say_one_by_another_are_all_heard() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let people: Vec<Author> = (1..=5).map(Author::number).collect();
    let announces = |n: usize| {
        let mut named = vec!["maintainers".to_owned()];
        named.extend(
            [n.wrapping_sub(1), n + 1]
                .iter()
                .filter_map(|n| people.get(*n))
                .map(|it| it.key.to_hex()),
        );
        let named: Vec<&str> = named.iter().map(String::as_str).collect();
        people[n].signs(Draft::new(Kind::ANNOUNCEMENT, THEN).tag(&["d", "acme"]).tag(&named))
    };
    let acme = Repository::new(Author::number(1), "acme");
    let state = acme.state(&people[4], THEN, &[("refs/heads/main", &"1".repeat(40))], None);
    let others: Vec<VerifiedEvent> = (1..5).rev().map(announces).chain([state]).collect();
    for event in &others {
        assert!(!machine.is_synced(event) && machine.refuses(event));
    }
    assert!(machine.is_synced(&acme.announcement_naming(DOMAIN, THEN, &[&people[1]])));
    for event in &others {
        assert!(machine.has(Space::Held, event) && !machine.refuses(event));
    }
}

#[test]
fn s29_a_version_that_comes_back_brings_its_people_back() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let project = Project::new();
    let from = Provenance::direct(Time(1));
    let listing = project.announcement();
    machine.store.write(&mut |txn| txn.put(Space::Served, &listing, &from).map(drop)).unwrap();
    let alone = project.acme.announcement_listing(DOMAIN, THEN + 1);
    assert!(machine.publishes(&alone).ok);
    let other = project.others_announcement(THEN);
    assert!(!machine.is_synced(&other) && machine.refuses(&other));
    let deletion = Draft::new(Kind::DELETION, THEN + 2).tag(&["e", &alone.id.to_hex()]);
    assert!(machine.publishes(&project.acme.owner.signs(deletion)).ok);
    assert!(machine.has(Space::Served, &listing));
    assert!(machine.has(Space::Served, &other) && !machine.refuses(&other));
}

#[test]
fn s29_what_is_no_longer_kept_whole_is_forgotten_so_that_it_is_fetched_again() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let project = Project::new();
    let (state, stranger) = (project.others_state(), Author::number(9));
    let elsewhere = project.acme.state(&stranger, THEN, &[], None);
    for event in [&state, &elsewhere] {
        machine.is_offered(event.event().clone(), came(3 * MINUTE)).unwrap();
    }
    assert_eq!(machine.second_chance.sizes(), Sizes::default(), "two minutes, not three");
    assert!(machine.refuses(&state) && machine.refuses(&elsewhere));
    assert!(machine.publishes(&project.announcement()).ok);
    assert!(!machine.refuses(&state) && !machine.has(Space::Held, &state));
    assert!(machine.refuses(&elsewhere), "a stranger has no say by it");
    let wanted = unknown(&*machine.store, vec![state.id, elsewhere.id]).unwrap();
    assert_eq!(wanted, [state.id]);
}

#[test]
fn s29_replies_that_come_before_their_thread_follow_it() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let project = Project::new();
    let issue = project.issue();
    let mut thread = vec![reply(&issue, 1)];
    for number in 2..6 {
        thread.push(reply(thread.last().unwrap(), number));
    }
    for event in thread.iter().rev() {
        assert!(!machine.is_synced(event));
        assert!(!machine.refuses(event), "it may be anchored by anything");
    }
    assert!(!machine.is_synced(&issue));
    assert_eq!(machine.second_chance.sizes().related, 6);
    assert!(machine.is_synced(&project.announcement()));
    for event in thread.iter().chain([&issue]) {
        assert!(machine.has(Space::Held, event), "it waits with the repository");
    }
    assert_eq!(machine.second_chance.sizes().related, 0);
}

#[test]
fn s29_an_event_is_also_anchored_by_what_refers_to_it() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let project = Project::new();
    assert!(machine.publishes(&project.announcement()).ok);
    let note = Author::number(5).signs(Draft::new(Kind(1), THEN).content("look"));
    assert!(!machine.is_synced(&note));
    let quote = project.acme.issue_draft(THEN, "see there").tag(&["q", &note.id.to_hex()]);
    assert!(machine.is_synced(&Author::number(3).signs(quote)));
    assert!(machine.has(Space::Held, &note));
}

#[test]
fn s29_a_client_is_never_remembered_and_clears_what_was() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let project = Project::new();
    assert!(!machine.publishes(&project.others_state()).ok);
    assert!(!machine.publishes(&reply(&project.issue(), 1)).ok);
    assert_eq!((machine.counts(), machine.second_chance.sizes()), Default::default());
    let protected = project.acme.issue_draft(THEN, "mine").tag(&["-"]);
    let protected = Author::number(3).signs(protected);
    assert!(machine.publishes(&project.announcement()).ok);
    assert!(!machine.is_synced(&protected) && machine.refuses(&protected));
    assert!(machine.publishes(&protected).ok, "the conversation saw to who may");
    assert!(!machine.refuses(&protected));
}

#[test]
fn s29_only_what_can_never_change_is_remembered_for_good() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let project = Project::new();
    let author = Author::number(6);
    let nameless = author.signs(Draft::new(Kind::ANNOUNCEMENT, THEN));
    let expired = author.signs(Draft::new(Kind(1), THEN).tag(&["expiration", "1700000001"]));
    let tipless = Draft::new(Kind::PULL_REQUEST, THEN).tag(&["a", &project.acme.coordinate()]);
    let tipless = author.signs(tipless);
    for lasting in [&nameless, &expired, &tipless] {
        assert!(!machine.is_synced(lasting));
        assert!(machine.refuses(lasting), "row 31: {:?}", lasting.kind);
    }
    let ahead = Clock::default().now().timestamp().plus_secs(86_400);
    let early = author.signs(Draft::new(Kind(1), ahead.0));
    let passing = author.signs(Draft::new(Kind(20_001), THEN));
    for event in [&early, &passing] {
        assert!(!machine.is_synced(event) && !machine.refuses(event));
    }
    assert_eq!(machine.counts(), Counts { announcements: 1, states: 0, others: 2 });
    assert_eq!(machine.second_chance.sizes(), Sizes::default());
}

#[test]
fn s29_what_was_deleted_is_remembered_once_it_is_offered_again() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let project = Project::new();
    assert!(machine.publishes(&project.announcement()).ok);
    let issue = project.issue();
    let deletion = Draft::new(Kind::DELETION, THEN + 1).tag(&["e", &issue.id.to_hex()]);
    assert!(machine.is_synced(&issue));
    assert!(machine.is_synced(&Author::number(3).signs(deletion)));
    assert_eq!(unknown(&*machine.store, vec![issue.id]).unwrap(), [issue.id]);
    assert!(!machine.is_synced(&issue));
    assert_eq!(unknown(&*machine.store, vec![issue.id]).unwrap(), []);
}

#[test]
fn s29_events_kept_whole_are_bounded_in_number_size_and_time() {
    let chances = SecondChance::new(Duration::from_secs(10), SecondChance::IDS_FOR);
    let anchor = Project::new().issue();
    let orphan = |number: u64, bytes: usize| {
        let mut event = reply(&anchor, 1).event().clone();
        event.content = "x".repeat(bytes);
        event.tags.push(Tag(vec!["n".into(), number.to_string()]));
        event.id = event.hash();
        let event = VerifiedEvent::from_stored(event.to_json().into()).unwrap();
        let from = Provenance { received: Time(number), ..came(0) };
        Orphan { event: Arc::new(event), from }
    };
    let keep = |from: u64, to: u64, bytes: usize| {
        (from..to).for_each(|n| chances.keep(orphan(n, bytes), Time(5_000)));
    };
    keep(0, 2_000, 10);
    assert_eq!(chances.sizes().related, 1_024);
    keep(0, 2_000, 10);
    assert_eq!(chances.sizes().related, 1_024, "those still kept are not kept twice");
    keep(2_000, 2_100, 100_000);
    assert!((80..84).contains(&chances.sizes().related), "{:?}", chances.sizes());
    keep(2_100, 2_101, 200_000);
    assert!(chances.sizes().related < 84, "too large for its place");
    let came = Arrivals { events: vec![Arc::new(anchor.clone())], ..Arrivals::default() };
    assert_eq!(chances.take(&came, Time(5_000), 5).len(), 5);
    let (kept, _) = (chances.sizes(), chances.take_expired());
    chances.drop_old(Time(12_100));
    assert_eq!(chances.sizes(), Sizes::default(), "ten seconds");
    assert_eq!((chances.take_expired(), chances.take_expired()), (kept, Sizes::default()));
}

#[test]
fn a_request_whose_author_never_came_is_kept_aside_for_a_week() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let request = |n: u64| {
        let target = format!("{n:02x}").repeat(32);
        Author::number(n).signs(Draft::new(Kind::DELETION, THEN).tag(&["e", &target]))
    };
    let (old, young) = (request(1), request(2));
    let day = 24 * 60 * MINUTE;
    for (event, ms_ago) in [(&old, 8 * day), (&young, 6 * day)] {
        assert!(machine.is_offered(event.event().clone(), came(ms_ago)).unwrap().ok);
        assert!(machine.has(Space::Aside, event));
    }
    // Two owners left long ago; the data of one of them is still here.
    let (gone, left) =
        (Repository::new(Author::number(3), "a"), Repository::new(Author::number(4), "b"));
    let [gone, left] = [gone, left].map(|it| it.announcement(THEN));
    let data = left.coordinate().unwrap().repo().unwrap();
    let leave = &mut |txn: &mut dyn Transaction| {
        txn.put(Space::Aside, &gone, &came(8 * day))?;
        txn.put(Space::Aside, &left, &came(8 * day))?;
        txn.put_note(Shelf::Parked, &view_key(&data), &u64::MAX.to_be_bytes())
    };
    machine.store.write(leave).unwrap();
    machine.sweeps();
    assert!(!machine.has(Space::Aside, &old) && machine.has(Space::Aside, &young));
    assert!(!machine.has(Space::Aside, &gone) && machine.has(Space::Aside, &left));
}

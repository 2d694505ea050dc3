//! N 1.7 and P 2.6 with D 2: requests to forget, and what they keep out.

use crate::world::*;
use grasp_core::Timestamp;
use grasp_core::event::Event;
use grasp_core::id::EventId;
use grasp_core::maintainers::Standing::Served;
use grasp_core::nip09::{Deletion, Vanish};
use grasp_core::policy::*;
use proptest::prelude::*;

fn id(n: u8) -> EventId {
    EventId::from_bytes([n; 32])
}

fn deletes(author: char) -> Event {
    event(5, author).tag(&["e", &id(1).to_hex()])
}

fn about(author_known: bool, targets: &[(u8, char)]) -> Facts {
    let targets = targets.iter().map(|(n, author)| (id(*n), who(*author))).collect();
    Facts::new(About::Deletion(DeletionFacts { author_known, targets }))
}

#[test]
fn a_deletion_counts_when_its_author_is_known() {
    let event = deletes('a');
    check("D 2 target here", &event, &about(true, &[(1, 'a')]), "accepted");
    check("D 2 target unknown", &event, &about(true, &[]), "accepted");
    check("D 2 stranger", &event, &about(false, &[]), "deferred");
    check("N 1.7 another's event", &event, &about(true, &[(1, 'b')]), "foreign-target");
    check(
        "N 1.7 one foreign spoils all",
        &event,
        &about(true, &[(1, 'a'), (2, 'b')]),
        "foreign-target",
    );
    let answer = verdict(&event, &about(false, &[]), &rules(), Origin::Direct).answer();
    assert!(answer.ok && answer.text == DEFERRED);
    let keeps = Rules { respect_deletions: false, ..rules() };
    check_under("N 1.7 disrespector stores", &event, &about(true, &[]), &keeps, "accepted");
}

#[test]
fn a_deletion_names_its_authors_own() {
    let own = coordinate('a');
    let event = deletes('a')
        .tag(&["a", &own])
        .tag(&["a", &coordinate('b')])
        .tag(&["a", "junk"])
        .tag(&["e", "junk"])
        .tag(&["k", "30617"]);
    let read = Deletion::parse(&event).unwrap();
    assert_eq!(read.ids, [id(1)].into());
    let kept: Vec<String> = read.coordinates.iter().map(ToString::to_string).collect();
    assert_eq!(kept, [own], "N 1.7 a foreign address is skipped");
    let foreign = crate::world::event(5, 'a').tag(&["a", &coordinate('b')]);
    check("nothing left", &foreign, &about(true, &[]), "no-target");
    let many = |n: usize| {
        (0..n).fold(crate::world::event(5, 'a'), |event, n| event.tag(&["e", &format!("{n:064x}")]))
    };
    check("N 1.7 2048", &many(2048), &about(true, &[]), "accepted");
    check("N 1.7 more than 2048", &many(2049), &about(true, &[]), "too-many-targets");
}

#[test]
fn a_deletion_reaches_just_what_it_may() {
    let request = Deletion::parse(&deletes('a').at(100).tag(&["a", &coordinate('a')])).unwrap();
    let check = |row: &str, event: Event, expected: bool| {
        assert_eq!(request.covers(&event), expected, "{row}");
    };
    let named = |kind, author| Event { id: id(1), ..event(kind, author) };
    check("P 2.6 own, by id", named(1, 'a'), true);
    check("P 2.6 by id, however new", named(1, 'a').at(200), true);
    check("T 4 another's, by id", named(1, 'b'), false);
    check("P 2.6 by address, up to then", announces('a').at(100), true);
    check("P 2.6 by address, later", announces('a').at(101), false);
    check("another identifier", event(30617, 'a').at(1).tag(&["d", "acm"]), false);
    check("another kind", states('a').at(1), false);
    check("another's address", announces('b').at(1), false);
    check("D 2 a deletion of a deletion", named(5, 'a'), false);
    check("a deletion of a vanishing", named(62, 'a'), false);
    check("not named", event(1, 'a'), false);
}

#[test]
fn vanishing_is_for_us_or_for_all() {
    let vanish = |relay: &str| event(62, 'a').tag(&["relay", relay]);
    let known = |author_known| Facts::new(About::Vanish { author_known });
    check("N 1.7 all", &vanish("ALL_RELAYS"), &known(true), "accepted");
    check("N 1.7 us", &vanish("wss://git.example/"), &known(true), "accepted");
    check("stranger", &vanish("ALL_RELAYS"), &known(false), "deferred");
    check("P 2.6 others", &vanish("wss://other.example"), &known(true), "other-relays");
    check("P 2.6 lookalike", &vanish("wss://git.example.evil"), &known(true), "other-relays");
    check("P 2.6 no relay", &event(62, 'a'), &known(true), "other-relays");
    let second = vanish("wss://other.example").tag(&["relay", "wss://git.example"]);
    check("any of several", &second, &known(true), "accepted");
    let read = Vanish::parse(&vanish("ALL_RELAYS").at(100), &rules().service).unwrap();
    let gift = |to| event(1059, 'b').at(100).tag(&["p", &who(to).to_hex()]);
    assert!(read.covers(&event(1, 'a').at(100)) && read.covers(&event(5, 'a').at(1)));
    assert!(!read.covers(&event(1, 'a').at(101)), "later ones stay");
    assert!(!read.covers(&event(1, 'b').at(1)) && !read.covers(&event(62, 'a').at(1)));
    assert!(read.covers(&gift('a')) && !read.covers(&gift('c')), "NIP-62 gift wraps");
}

#[test]
fn what_was_taken_back_stays_out() {
    let note = event(1, 'a').at(100);
    let repo = announces('a').at(100).asking_for_us();
    let erased = |erased| Facts { erased, ..anchored(Some(Served)) };
    let of_repo =
        |erased| Facts { erased, ..Facts::new(About::Announcement(AnnouncementFacts::default())) };
    let id = Erased { id: true, ..Default::default() };
    let until = |secs| Erased { coordinate_until: Some(Timestamp(secs)), ..Default::default() };
    let vanished = |secs| Erased { vanished_until: Some(Timestamp(secs)), ..Default::default() };
    check("P 2.6 re-published", &note, &erased(id), "deleted");
    check("N 1.7 address, up to then", &repo, &of_repo(until(100)), "deleted");
    check("N 1.7 address, later", &repo, &of_repo(until(99)), "held-git-data");
    check("no address, nothing to match", &note, &erased(until(200)), "accepted");
    check("N 1.7 vanished", &note, &erased(vanished(100)), "vanished");
    check("N 1.7 came back later", &note, &erased(vanished(99)), "accepted");
    let request = deletes('a').at(100);
    let on_request = |erased| Facts { erased, ..about(true, &[]) };
    check("D 2 a deletion of a deletion", &request, &on_request(id), "accepted");
    check("NIP-62 takes deletions too", &request, &on_request(vanished(100)), "vanished");
    let vanish = event(62, 'a').at(100).tag(&["relay", "ALL_RELAYS"]);
    let again = Facts { erased: vanished(100), ..Facts::new(About::Vanish { author_known: true }) };
    check("a vanishing is kept", &vanish, &again, "accepted");
    let keeps = Rules { respect_deletions: false, ..rules() };
    check_under("N 1.7 disrespector", &note, &erased(id), &keeps, "accepted");
    check_under("N 1.7 disrespector", &note, &erased(vanished(100)), &keeps, "accepted");
    let words = verdict(&note, &erased(id), &rules(), Origin::Direct).answer();
    assert!(!words.ok && words.text.starts_with("invalid: this event is deleted"), "N 9");
    let words = verdict(&note, &erased(vanished(100)), &rules(), Origin::Direct).answer();
    assert!(words.text.ends_with("this pubkey has requested to vanish"), "N 1.7");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nobody_ever_removes_what_another_wrote(
        kind in prop::sample::select(vec![1u16, 5, 62, 1059, 1618, 10317, 30617, 30618]),
        at in 0u64..3, request_at in 0u64..3, n in 0u8..3, d in "[ab]{0,2}",
    ) {
        let theirs = Event { id: id(n), ..event(kind, 'b').at(at).tag(&["d", &d]) };
        let address = format!("{kind}:{}:{d}", who('b').to_hex());
        let request = deletes('a').at(request_at).tag(&["e", &id(n).to_hex()]).tag(&["a", &address]);
        prop_assert!(!Deletion::parse(&request).unwrap().covers(&theirs));
        let vanish = Vanish { author: who('a'), at: Timestamp(request_at) };
        prop_assert!(!vanish.covers(&theirs));
    }
}

//! NIP-34 and NIP-09: no event makes a parser fall, and what comes out is typed and bounded.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use bolero::check;
use grasp_core::nip09::{Deletion, Vanish};
use grasp_core::nip34::{Announcement, PullRequest, References, Roles, State};
use grasp_core::service::{Authority, Service};
use grasp_core::terms::terms;
use grasp_core::{Coordinate, Event, Identifier, Oid, RefName};
use grasp_fuzz::{Tape, event, tapes};
use std::fmt::Display;
use std::str::FromStr;

/// A value that exists is one its own parser accepts.
fn assert_reads_back<T: FromStr + Display + PartialEq>(value: &T) {
    let text = value.to_string();
    assert!(text.parse().is_ok_and(|again: T| again == *value), "{text:?}");
}

fn for_each_event(iterations: usize, test: impl Fn(&Event) + std::panic::RefUnwindSafe) {
    check!().with_generator(tapes(1_000)).with_iterations(iterations).for_each(
        |bytes: &Vec<u8>| {
            test(&event(&mut Tape::new(bytes)));
        },
    );
}

#[test]
fn an_announcement_holds_a_servable_name_and_clean_urls() {
    let service = Service::new(Authority::parse("git.example").unwrap(), vec![], "");
    for_each_event(4_000, |event| {
        check_roles(event);
        let Ok(it) = Announcement::parse(event) else {
            assert!(event.d().parse::<Identifier>().is_err());
            return;
        };
        assert_reads_back(&it.repo.identifier);
        let name = it.repo.identifier.as_str();
        assert!(!name.is_empty() && name.len() <= 251 && name != "." && name != "..");
        assert!(!name.contains(['/', '\\', '\0', '\n']));
        for url in it.clone.iter().chain(&it.relays) {
            assert!(!url.is_empty() && !url.contains(char::is_control) && url.trim() == url);
        }
        assert_eq!(
            it.lists(&service),
            it.listing(&service).in_clone && it.listing(&service).in_relays
        );
    });
}

fn check_roles(event: &Event) {
    let roles = Roles::of(event);
    assert!(roles.active.len() <= Roles::LISTED_MAX && roles.leads.len() <= Roles::LISTED_MAX);
    assert!(roles.active.is_sorted() && roles.leads.is_sorted());
    assert!(!roles.active.contains(&event.pubkey));
}

#[test]
fn a_state_holds_only_refs_and_objects_that_git_could_hold() {
    for_each_event(6_000, |event| {
        let Ok(it) = State::parse(event) else { return };
        assert_reads_back(&it.identifier);
        for (name, oid) in &it.refs {
            assert_reads_back::<RefName>(name);
            assert_reads_back::<Oid>(oid);
            assert_ne!(oid.as_bytes(), &[0; 20]);
            assert!(event.tags.iter().any(|tag| tag.name() == name.as_str()));
        }
        it.head.iter().for_each(assert_reads_back);
        assert!(it.head.is_none_or(|head| head.is_branch()));
        assert!(it.satisfiable || it.refs.len() < event.tags.len() || it.refs.len() > 1);
    });
}

#[test]
fn references_are_exact_and_few() {
    for_each_event(4_000, |event| {
        let references = References::of(event);
        assert!(references.len() <= References::LEN_MAX);
        let written = |text: &str| event.tags.iter().any(|tag| tag.value() == Some(text));
        for id in &references.ids {
            assert!(written(&id.to_hex()));
        }
        for coordinate in &references.coordinates {
            assert_reads_back::<Coordinate>(coordinate);
            assert!(written(&coordinate.to_string()));
        }
        let Ok(request) = PullRequest::parse(event) else { return };
        request.tip.iter().for_each(assert_reads_back);
        assert!(request.targets.len() <= References::LEN_MAX);
        assert!(request.targets.iter().all(|repo| written(&repo.coordinate().to_string())));
        assert_eq!(request.references, references);
    });
}

#[test]
fn a_deletion_speaks_for_its_author_only() {
    let service = Service::new(Authority::parse("git.example").unwrap(), vec![], "");
    check!().with_generator(tapes(1_000)).with_iterations(4_000).for_each(|bytes: &Vec<u8>| {
        let mut tape = Tape::new(bytes);
        let (request, target) = (event(&mut tape), event(&mut tape));
        let vanish = Vanish::parse(&request, &service);
        assert!(vanish.is_err() || vanish.is_ok_and(|it| it.author == request.pubkey));
        let Ok(deletion) = Deletion::parse(&request) else { return };
        deletion.coordinates.iter().for_each(assert_reads_back);
        assert!(deletion.coordinates.iter().all(|of| of.pubkey == request.pubkey));
        if deletion.covers(&target) {
            assert_eq!(target.pubkey, request.pubkey);
            assert!(deletion.ids.contains(&target.id) || target.created_at <= request.created_at);
        }
    });
}

#[test]
fn terms_are_sorted_unique_and_no_more_than_the_event_has_words() {
    for_each_event(4_000, |event| {
        let terms = terms(event);
        assert!(terms.windows(2).all(|pair| pair[0] < pair[1]));
        let words: usize = event.tags.iter().map(|tag| tag.0.len()).sum();
        assert!(terms.len() <= words + 2, "{} terms for {words} words", terms.len());
    });
}

#[test]
fn names_are_parsed_or_refused_and_never_changed() {
    check!().with_generator(tapes(1_000)).with_iterations(8_000).for_each(|bytes: &Vec<u8>| {
        let mut tape = Tape::new(bytes);
        let text = tape.text();
        for text in [
            text.clone(),
            format!("refs/heads/{text}"),
            format!("30617:{}:{text}", "ab".repeat(32)),
        ] {
            assert!(text.parse::<RefName>().map_or(true, |name| name.as_str() == text));
            assert!(text.parse::<Identifier>().map_or(true, |name| name.as_str() == text));
            assert!(text.parse::<Coordinate>().map_or(true, |it| it.to_string() == text));
            assert!(text.parse::<Oid>().map_or(true, |oid| oid.to_hex() == text));
        }
    });
}

//! A fuzz target that only ever sees trifles passes for nothing. These counts say that the
//! generators reach what the targets are about.

use bolero::check;
use grasp_core::nip09::Deletion;
use grasp_core::nip34::{Announcement, PullRequest, References, State};
use grasp_core::{Event, Filter};
use grasp_fuzz::{Tape, broken, event, event_json, filter, message, tapes};
use grasp_relay::ClientMessage;
use std::cell::RefCell;
use std::collections::BTreeMap;

const ROUNDS: usize = 3_000;

/// How often something was seen.
#[derive(Default)]
struct Seen(RefCell<BTreeMap<&'static str, usize>>);

impl Seen {
    fn count(&self, what: &'static str, seen: bool) {
        *self.0.borrow_mut().entry(what).or_default() += usize::from(seen);
    }

    /// Each at least once in `n` rounds. Inputs are random, so this is far below what is usual.
    fn expect_one_in(&self, n: usize) {
        let seen = self.0.borrow();
        assert!(seen.values().all(|count| *count * n >= ROUNDS), "of {ROUNDS}: {seen:#?}");
    }
}

impl std::panic::RefUnwindSafe for Seen {}

#[test]
fn events_carry_what_nip_34_is_about() {
    let seen = Seen::default();
    check!().with_generator(tapes(1_000)).with_iterations(ROUNDS).for_each(|bytes: &Vec<u8>| {
        let mut tape = Tape::new(bytes);
        let it = event(&mut tape);
        seen.count("tape of 200 bytes", bytes.len() > 200);
        seen.count("five tags", it.tags.len() > 5);
        seen.count("announcement", Announcement::parse(&it).is_ok());
        seen.count("roles", Announcement::parse(&it).is_ok_and(|it| !it.roles.active.is_empty()));
        seen.count("state with refs", State::parse(&it).is_ok_and(|it| !it.refs.is_empty()));
        seen.count("state with head", State::parse(&it).is_ok_and(|it| it.head.is_some()));
        seen.count("request with tip", PullRequest::parse(&it).is_ok_and(|it| it.tip.is_some()));
        seen.count("coordinates", !References::of(&it).coordinates.is_empty());
        seen.count("ids", !References::of(&it).ids.is_empty());
        let deletion = Deletion::parse(&it);
        seen.count("deletion of an address", deletion.is_ok_and(|it| !it.coordinates.is_empty()));
        let json = event_json(&mut tape, &it);
        let json = broken(&mut tape, &json);
        let read = Event::from_json(json.as_bytes());
        seen.count("still an event after an accident", read.is_ok());
        seen.count("no event any more", read.is_err());
    });
    seen.expect_one_in(500);
}

#[test]
fn filters_match_some_events_and_miss_others() {
    let seen = Seen::default();
    check!().with_generator(tapes(1_000)).with_iterations(ROUNDS).for_each(|bytes: &Vec<u8>| {
        let mut tape = Tape::new(bytes);
        let filter = filter(&mut tape);
        let events: Vec<Event> = (0..4).map(|_| event(&mut tape)).collect();
        let hit = |filter: &Filter| events.iter().any(|event| filter.matches(event));
        seen.count("hit", hit(&filter) && filter != Filter::default());
        seen.count("miss", !hit(&filter));
        seen.count("hit by tag", !filter.tags.is_empty() && hit(&filter));
        seen.count("hit by author", filter.authors.is_some() && hit(&filter));
        seen.count("void", filter.is_void());
    });
    seen.expect_one_in(500);
}

#[test]
fn messages_are_of_every_sort() {
    let seen = Seen::default();
    check!().with_generator(tapes(1_000)).with_iterations(ROUNDS).for_each(|bytes: &Vec<u8>| {
        use ClientMessage as M;
        let text = message(&mut Tape::new(bytes));
        let parsed = ClientMessage::parse(&text);
        seen.count("malformed", parsed.is_err());
        seen.count("event", matches!(parsed, Ok(M::Event(_))));
        seen.count("auth", matches!(parsed, Ok(M::Auth(_))));
        seen.count("req", matches!(&parsed, Ok(M::Req { filters, .. }) if filters.len() > 1));
        seen.count("count", matches!(parsed, Ok(M::Count { .. })));
        seen.count("close", matches!(parsed, Ok(M::Close(_))));
        seen.count("neg-open", matches!(parsed, Ok(M::NegOpen { .. })));
        seen.count("neg-msg", matches!(parsed, Ok(M::NegMsg { .. })));
        seen.count("neg-close", matches!(parsed, Ok(M::NegClose(_))));
    });
    seen.expect_one_in(100);
}

//! Events that should not be: forged ones, ones nobody asked for, and ones made up to fit a
//! question. The same number makes the same event.

use crate::{Author, Draft};
use grasp_core::id::Signature;
use grasp_core::{Event, Filter, Kind, VerifiedEvent};

/// Far from everybody's numbers.
const LIARS: u64 = 6_660_000;
const LIARS_COUNT: u64 = 7;

/// A copy with the right id and the wrong content, or all right but for the signature.
pub(super) fn forged(event: &VerifiedEvent, number: u64) -> Event {
    let mut copy = event.event().clone();
    if number.is_multiple_of(2) {
        copy.content.push_str(" (not by me)");
    } else {
        let mut sig = *copy.sig.as_bytes();
        sig[40] ^= 1;
        copy.sig = Signature::from_bytes(sig);
    }
    copy
}

/// Well-made, and about nothing.
pub(super) fn unrelated(number: u64) -> Event {
    let draft = Draft::new(Kind(1), 1_600_000_000 + number);
    liar(number).signs_unchecked(draft.content(&format!("nobody asked for number {number}")))
}

/// Well-made, never seen before, and just what was asked for; `None` if that takes a certain id or
/// somebody else's key.
pub(super) fn fitting(filter: &Filter, number: u64, now: u64) -> Option<Event> {
    if filter.ids.is_some() || filter.authors.is_some() {
        return None;
    }
    let kind = filter.kinds.as_ref().map_or(Some(&Kind::ISSUE), |kinds| kinds.first())?;
    let until = filter.until.map_or(now, |until| until.0.min(now));
    let at = filter.since.map_or(until, |since| since.0.max(until));
    let mut draft = Draft::new(*kind, at).content(&format!("made up, number {number}"));
    for (letter, values) in &filter.tags {
        draft = draft.tag(&[&char::from(*letter).to_string(), values.first()?]);
    }
    if kind.is_addressable() && !filter.tags.contains_key(&b'd') {
        draft = draft.tag(&["d", &format!("made-up-{number}")]);
    }
    Some(liar(number).signs_unchecked(draft))
}

fn liar(number: u64) -> Author {
    Author::number(LIARS + number % LIARS_COUNT)
}

//! Filters over the same few values that events are made of, so that some of them match.

use crate::Tape;
use crate::events::{KINDS, value};
use grasp_core::id::{EventId, PubKey};
use grasp_core::{Filter, Kind, SortedList, Timestamp};

pub fn filter(tape: &mut Tape<'_>) -> Filter {
    let mut filter = Filter::default();
    if tape.one_in(4) {
        filter.ids = Some(list(tape, |tape| EventId::from_bytes(tape.key())));
    }
    if tape.one_in(3) {
        filter.authors = Some(list(tape, |tape| PubKey::from_bytes(tape.key())));
    }
    if tape.one_in(3) {
        filter.kinds = Some(list(tape, |tape| Kind(*tape.pick(KINDS))));
    }
    for _ in 0..[0, 0, 1, 1, 2, 3][tape.below(6)] {
        let letter = *tape.pick(b"addeEpPqtcmMo");
        let name = char::from(letter).to_string();
        filter.tags.insert(letter, list(tape, |tape| value(tape, &name)));
    }
    filter.since = tape.one_in(6).then(|| Timestamp(tape.number()));
    filter.until = tape.one_in(6).then(|| Timestamp(tape.number()));
    filter.limit = tape.one_in(2).then(|| tape.number());
    filter
}

fn list<T: Ord>(tape: &mut Tape<'_>, mut one: impl FnMut(&mut Tape<'_>) -> T) -> SortedList<T> {
    (0..[4, 3, 3, 2, 2, 1, 1, 0][tape.below(8)]).map(|_| one(tape)).collect()
}

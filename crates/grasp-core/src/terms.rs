//! What an event can be found by, besides id, time, author and kind. A term is hashed to a fixed
//! width, so that no value is too long for an index key; 128 bits make a chance meeting of two
//! values a thing that does not happen.

use crate::Kind;
use crate::event::Event;
use crate::id::{Coordinate, EventId, PubKey};
use crate::nip34::Roles;
use sha2::{Digest, Sha256};

/// Class byte and hash. Tag letters are their own class; the classes below 32 are ours and no
/// client filter can name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term(pub [u8; Term::LEN]);

impl Term {
    pub const LEN: usize = 17;
    const COORDINATE: u8 = 1;
    const LISTS: u8 = 2;
    const ANNOUNCES: u8 = 3;

    pub fn tag(letter: u8, value: &str) -> Self {
        Self::new(letter, &[value.as_bytes()])
    }

    /// Finds the events that share an address.
    pub fn coordinate(of: &Coordinate) -> Self {
        let kind = of.kind.0.to_be_bytes();
        Self::new(Self::COORDINATE, &[&kind, of.pubkey.as_bytes(), of.identifier.as_bytes()])
    }

    /// Finds the announcements of this identifier that actively list a key as maintainer.
    pub fn lists(key: &PubKey, identifier: &str) -> Self {
        Self::new(Self::LISTS, &[key.as_bytes(), identifier.as_bytes()])
    }

    /// Finds the announcements of an identifier, by whomever.
    pub fn announces(identifier: &str) -> Self {
        Self::new(Self::ANNOUNCES, &[identifier.as_bytes()])
    }

    fn new(class: u8, parts: &[&[u8]]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(part);
        }
        let mut term = [class; Self::LEN];
        for (to, from) in term.iter_mut().skip(1).zip(hash.finalize()) {
            *to = from;
        }
        Self(term)
    }
}

/// All terms of an event, sorted, each once.
pub fn terms(event: &Event) -> Vec<Term> {
    let tags = event.tags.iter().filter_map(|tag| Some(Term::tag(tag.letter()?, tag.value()?)));
    let mut terms: Vec<Term> = tags.collect();
    terms.extend(event.coordinate().as_ref().map(Term::coordinate));
    if event.kind == Kind::ANNOUNCEMENT {
        terms.push(Term::announces(event.d()));
        terms.extend(Roles::of(event).active.iter().map(|key| Term::lists(key, event.d())));
    }
    terms.sort_unstable();
    terms.dedup();
    terms
}

/// The terms under which other events point at this one.
pub fn pointing_at(id: &EventId, coordinate: Option<&Coordinate>) -> Vec<Term> {
    let id = id.to_hex();
    let mut terms: Vec<Term> = [b'e', b'E', b'q'].map(|letter| Term::tag(letter, &id)).to_vec();
    if let Some(coordinate) = coordinate {
        let text = coordinate.to_string();
        terms.extend([b'a', b'A', b'q'].map(|letter| Term::tag(letter, &text)));
    }
    terms
}

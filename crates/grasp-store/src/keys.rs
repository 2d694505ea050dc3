//! The shape of index keys. Every key ends in a position, (newest first, lowest id first), so any
//! index read forwards is in the order clients are owed, and any two indexes can be merged or
//! probed against each other without looking at an event.

use grasp_core::terms::Term;
use grasp_core::{EventId, Kind, PubKey, Timestamp};

/// Where an event stands in the order of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position([u8; Position::LEN]);

impl Position {
    pub const LEN: usize = 40;

    pub fn new(created_at: Timestamp, id: &EventId) -> Self {
        let mut bytes = [0; Self::LEN];
        let (time, rest) = bytes.split_at_mut(8);
        time.copy_from_slice(&(!created_at.0).to_be_bytes());
        rest.copy_from_slice(id.as_bytes());
        Self(bytes)
    }

    pub fn created_at(&self) -> Timestamp {
        let mut time = [0; 8];
        time.copy_from_slice(&self.0[..8]);
        Timestamp(!u64::from_be_bytes(time))
    }

    pub fn id(&self) -> EventId {
        let mut id = [0; 32];
        id.copy_from_slice(&self.0[8..]);
        EventId::from_bytes(id)
    }

    /// The position that ends a key of any index.
    pub(crate) fn at_end_of(key: &[u8]) -> Option<Self> {
        key.last_chunk().copied().map(Self)
    }

    pub(crate) fn as_bytes(&self) -> &[u8; Self::LEN] {
        &self.0
    }
}

// Classes below 16 and the ASCII letters belong to terms.
const TIME: u8 = 0x10;
const KIND: u8 = 0x11;
const AUTHOR: u8 = 0x12;
const EXPIRY: u8 = 0x13;

/// One list inside the index: all entries that share these leading bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct List(Vec<u8>);

impl List {
    pub(crate) fn time() -> Self {
        Self(vec![TIME])
    }

    pub(crate) fn kind(kind: Kind) -> Self {
        let [high, low] = kind.0.to_be_bytes();
        Self(vec![KIND, high, low])
    }

    /// All kinds of an author lie next to each other, so this one index serves both questions.
    pub(crate) fn author(author: &PubKey) -> Self {
        let mut bytes = Vec::with_capacity(35);
        bytes.push(AUTHOR);
        bytes.extend_from_slice(author.as_bytes());
        Self(bytes)
    }

    pub(crate) fn author_kind(author: &PubKey, kind: Kind) -> Self {
        let mut list = Self::author(author);
        list.0.extend_from_slice(&kind.0.to_be_bytes());
        list
    }

    pub(crate) fn term(term: &Term) -> Self {
        Self(term.0.to_vec())
    }

    /// Ordered by the moment of expiry; the position after it only makes the key unique.
    pub(crate) fn expiry(at: Timestamp) -> Self {
        let mut bytes = vec![EXPIRY];
        bytes.extend_from_slice(&at.0.to_be_bytes());
        Self(bytes)
    }

    pub(crate) fn expiries() -> Self {
        Self(vec![EXPIRY])
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn key(&self, position: &Position) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.0.len() + Position::LEN);
        key.extend_from_slice(&self.0);
        key.extend_from_slice(position.as_bytes());
        key
    }
}

/// Reads the kind that follows an author in a key of the author index.
pub(crate) fn kind_after_author(key: &[u8]) -> Option<Kind> {
    key.get(33..35).and_then(|kind| kind.try_into().ok()).map(u16::from_be_bytes).map(Kind)
}

/// Reads the moment out of a key of the expiry index.
pub(crate) fn expiry_of(key: &[u8]) -> Option<Timestamp> {
    key.get(1..9).and_then(|at| at.try_into().ok()).map(u64::from_be_bytes).map(Timestamp)
}

/// What every index entry says about its event, so that most questions end here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) serial: u64,
    pub(crate) kind: Kind,
    pub(crate) expires: bool,
}

impl Entry {
    const LEN: usize = 11;

    pub(crate) fn to_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        bytes[..8].copy_from_slice(&self.serial.to_be_bytes());
        bytes[8..10].copy_from_slice(&self.kind.0.to_be_bytes());
        bytes[10] = u8::from(self.expires);
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (serial, rest) = bytes.split_first_chunk()?;
        let (kind, rest) = rest.split_first_chunk()?;
        Some(Self {
            serial: u64::from_be_bytes(*serial),
            kind: Kind(u16::from_be_bytes(*kind)),
            expires: *rest.first()? != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_sort_newest_first_then_lowest_id() {
        let at = |time, byte| Position::new(Timestamp(time), &EventId::from_bytes([byte; 32]));
        let mut positions = [at(1, 1), at(2, 9), at(2, 3), at(u64::MAX, 5), at(0, 0)];
        positions.sort();
        assert_eq!(positions, [at(u64::MAX, 5), at(2, 3), at(2, 9), at(1, 1), at(0, 0)]);
        assert_eq!(at(7, 8).created_at(), Timestamp(7));
        assert_eq!(at(7, 8).id(), EventId::from_bytes([8; 32]));
    }
}

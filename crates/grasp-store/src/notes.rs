//! Small records beside the events: deadlines, intents, what a view follows. The store keeps them
//! in one transaction with the events and knows nothing of what they mean.

use crate::Result;
use crate::space::Table;
use heed::{RoTxn, RwTxn};
use std::ops::Bound;

/// Which kind of record; keys of different shelves never meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Shelf {
    /// event id -> how long it waits
    Holds = 1,
    /// moment + event id: the same, in order of time
    Deadlines = 2,
    /// number -> what a release had begun
    Intents = 3,
    /// repository -> which state its refs follow
    Views = 4,
    /// repository + event id + object id -> where an unclaimed upload lies
    Uploads = 5,
    /// event id -> when it gave up waiting
    Expired = 6,
    /// repository -> since when its data is kept for an owner who left
    Parked = 7,
    /// repository + pull request, if it is for one: objects are on their way there
    Copies = 8,
    /// ids of refused events, in four orders
    Refused = 9,
    /// address + repository -> what was seen there at the last look, in four orders, and counted
    Peers = 10,
    /// relay -> its health, what was confirmed there, what it allows
    Relays = 11,
    /// event id -> since when its objects are only wanted
    Wanted = 12,
    /// event id -> where it is counted while it waits, and the counters
    HeldRooms = 13,
    /// repository + pull request -> who brought it, if it may have a ref there; and the counters
    Claims = 14,
    /// what the wall clock last said
    Clock = 15,
    /// repository -> how far a fetch in steps has come
    FetchSteps = 16,
}

/// A key, without its shelf, and a value.
pub type Note = (Vec<u8>, Vec<u8>);

fn full_key(shelf: Shelf, key: &[u8]) -> Vec<u8> {
    let mut full = Vec::with_capacity(key.len() + 1);
    full.push(shelf as u8);
    full.extend_from_slice(key);
    full
}

pub(crate) fn get(table: &Table, txn: &RoTxn, shelf: Shelf, key: &[u8]) -> Result<Option<Vec<u8>>> {
    Ok(table.get(txn, &full_key(shelf, key))?.map(<[u8]>::to_vec))
}

pub(crate) fn list(
    table: &Table,
    txn: &RoTxn,
    shelf: Shelf,
    prefix: &[u8],
    count_max: usize,
) -> Result<Vec<Note>> {
    let rows = table.prefix_iter(txn, &full_key(shelf, prefix))?.take(count_max);
    rows.map(|row| Ok(row.map(bare)?)).collect()
}

pub(crate) fn after(
    table: &Table,
    txn: &RoTxn,
    shelf: Shelf,
    key: &[u8],
    count_max: usize,
) -> Result<Vec<Note>> {
    let (from, next_shelf) = (full_key(shelf, key), [shelf as u8 + 1]);
    let range = (Bound::Excluded(&from[..]), Bound::Excluded(&next_shelf[..]));
    let rows = table.range(txn, &range)?.take(count_max);
    rows.map(|row| Ok(row.map(bare)?)).collect()
}

fn bare((key, value): (&[u8], &[u8])) -> Note {
    (key.get(1..).unwrap_or_default().to_vec(), value.to_vec())
}

pub(crate) fn put(
    table: &Table,
    txn: &mut RwTxn,
    shelf: Shelf,
    key: &[u8],
    value: &[u8],
) -> Result<()> {
    Ok(table.put(txn, &full_key(shelf, key), value)?)
}

pub(crate) fn remove(table: &Table, txn: &mut RwTxn, shelf: Shelf, key: &[u8]) -> Result<bool> {
    Ok(table.delete(txn, &full_key(shelf, key))?)
}

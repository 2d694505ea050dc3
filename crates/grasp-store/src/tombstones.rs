//! Deletions that last (NIP-09, NIP-62). A tombstone names its target and its author, also when
//! the target was never seen, and its time only moves forward: arrival order changes nothing.

use crate::Result;
use crate::space::Table;
use grasp_core::policy::Erased;
use grasp_core::terms::Term;
use grasp_core::{Coordinate, Event, EventId, PubKey, Timestamp};
use heed::{RoTxn, RwTxn};

const EVENT: u8 = b'e';
const COORDINATE: u8 = b'a';
const AUTHOR: u8 = b'v';
/// Authors whose events are still being removed.
const VANISHING: u8 = b'w';

fn event_key(author: &PubKey, id: &EventId) -> Vec<u8> {
    [&[EVENT], author.as_bytes().as_slice(), id.as_bytes()].concat()
}

fn coordinate_key(of: &Coordinate) -> Vec<u8> {
    [&[COORDINATE], of.pubkey.as_bytes().as_slice(), &Term::coordinate(of).0].concat()
}

fn author_key(class: u8, author: &PubKey) -> Vec<u8> {
    [&[class], author.as_bytes().as_slice()].concat()
}

fn time_at(table: &Table, txn: &RoTxn, key: &[u8]) -> Result<Option<Timestamp>> {
    let bytes = table.get(txn, key)?;
    Ok(bytes.and_then(|b| b.try_into().ok()).map(u64::from_be_bytes).map(Timestamp))
}

/// Raises the time at `key`; never lowers it.
fn raise(table: &Table, txn: &mut RwTxn<'_>, key: &[u8], at: Timestamp) -> Result<()> {
    if time_at(table, txn, key)?.is_none_or(|known| known < at) {
        table.put(txn, key, &at.0.to_be_bytes())?;
    }
    Ok(())
}

/// What earlier requests say about this event; whether they reach it is for the rules to decide.
pub(crate) fn erased(table: &Table, txn: &RoTxn, event: &Event) -> Result<Erased> {
    let coordinate_until = match event.coordinate() {
        Some(coordinate) => time_at(table, txn, &coordinate_key(&coordinate))?,
        None => None,
    };
    Ok(Erased {
        id: time_at(table, txn, &event_key(&event.pubkey, &event.id))?.is_some(),
        coordinate_until,
        vanished_until: time_at(table, txn, &author_key(AUTHOR, &event.pubkey))?,
    })
}

pub(crate) fn burials_by(
    table: &Table,
    txn: &RoTxn,
    author: &PubKey,
    count_max: usize,
) -> Result<usize> {
    let mut count = 0;
    for class in [EVENT, COORDINATE] {
        let found = table.prefix_iter(txn, &author_key(class, author))?;
        count += found.take(count_max - count).count();
    }
    Ok(count)
}

pub(crate) fn bury_event(
    table: &Table,
    txn: &mut RwTxn<'_>,
    id: &EventId,
    author: &PubKey,
    at: Timestamp,
) -> Result<()> {
    raise(table, txn, &event_key(author, id), at)
}

pub(crate) fn bury_coordinate(
    table: &Table,
    txn: &mut RwTxn<'_>,
    of: &Coordinate,
    at: Timestamp,
) -> Result<()> {
    raise(table, txn, &coordinate_key(of), at)
}

pub(crate) fn bury_author(
    table: &Table,
    txn: &mut RwTxn<'_>,
    author: &PubKey,
    at: Timestamp,
) -> Result<()> {
    raise(table, txn, &author_key(AUTHOR, author), at)?;
    raise(table, txn, &author_key(VANISHING, author), at)
}

/// One author whose events are still to be removed, with the moment up to which.
pub(crate) fn vanishing(table: &Table, txn: &RoTxn) -> Result<Option<(PubKey, Timestamp)>> {
    let Some(row) = table.prefix_iter(txn, &[VANISHING])?.next() else { return Ok(None) };
    let (key, value) = row?;
    let author = key.get(1..).and_then(|key| key.try_into().ok()).map(PubKey::from_bytes);
    let until = value.try_into().ok().map(u64::from_be_bytes).map(Timestamp);
    Ok(author.zip(until))
}

pub(crate) fn vanished(table: &Table, txn: &mut RwTxn<'_>, author: &PubKey) -> Result<()> {
    table.delete(txn, &author_key(VANISHING, author))?;
    Ok(())
}

//! The deadlines of what waits, beside the events themselves: found by id and in order of time. A
//! row whose event has left is removed when its time comes.

use super::held_room;
use grasp_core::hold::Hold;
use grasp_core::{EventId, Time};
use grasp_store::{Result, Shelf, Snapshot, StoreError, Transaction};

pub(super) fn of(store: &dyn Snapshot, id: &EventId) -> Result<Option<Hold>> {
    let note = store.note(Shelf::Holds, id.as_bytes())?;
    note.map(|note| read(&note)).transpose()
}

pub(super) fn set(txn: &mut dyn Transaction, id: &EventId, hold: &Hold) -> Result<()> {
    remove_rows(txn, id)?;
    let note = serde_json::to_vec(hold).map_err(|_| StoreError::Damaged("unwritable hold"))?;
    txn.put_note(Shelf::Holds, id.as_bytes(), &note)?;
    txn.put_note(Shelf::Deadlines, &moment(hold.deadline, id), &[])
}

/// It waits no longer: its deadline goes, and its place in the table.
pub(super) fn end(txn: &mut dyn Transaction, id: &EventId) -> Result<()> {
    held_room::leave(txn, id)?;
    remove_rows(txn, id)
}

fn remove_rows(txn: &mut dyn Transaction, id: &EventId) -> Result<()> {
    if let Some(hold) = of(txn, id)? {
        txn.remove_note(Shelf::Deadlines, &moment(hold.deadline, id))?;
        txn.remove_note(Shelf::Holds, id.as_bytes())?;
    }
    Ok(())
}

/// Those whose time has come, earliest first.
pub(super) fn due(store: &dyn Snapshot, now: Time, count_max: usize) -> Result<Vec<EventId>> {
    let rows = store.notes(Shelf::Deadlines, &[], count_max)?;
    let moments = rows.iter().filter_map(|(key, _)| read_moment(key));
    Ok(moments.take_while(|(at, _)| *at <= now).map(|(_, id)| id).collect())
}

fn read(note: &[u8]) -> Result<Hold> {
    serde_json::from_slice(note).map_err(|_| StoreError::Damaged("unreadable hold"))
}

fn moment(deadline: Time, id: &EventId) -> Vec<u8> {
    [&deadline.0.to_be_bytes()[..], id.as_bytes()].concat()
}

fn read_moment(key: &[u8]) -> Option<(Time, EventId)> {
    let (time, id) = key.split_first_chunk::<8>()?;
    Some((Time(u64::from_be_bytes(*time)), EventId::from_bytes(id.try_into().ok()?)))
}

//! How far a fetch in steps has come (S-51): one row per repository names the last object that was
//! promoted. Everything behind it is in the repository, so the next fetch tells it as `have`.

use super::plan::view_key;
use grasp_core::{Oid, RepoId};
use grasp_store::{Result, Shelf, Snapshot, Transaction};

pub(super) fn last(store: &dyn Snapshot, repo: &RepoId) -> Result<Option<Oid>> {
    let note = store.note(Shelf::FetchSteps, &view_key(repo))?;
    Ok(note.and_then(|note| note.as_slice().try_into().ok()).map(Oid::from_bytes))
}

pub(super) fn put(txn: &mut dyn Transaction, repo: &RepoId, step: &Oid) -> Result<()> {
    txn.put_note(Shelf::FetchSteps, &view_key(repo), step.as_bytes())
}

/// What it was for is here.
pub(super) fn end(txn: &mut dyn Transaction, repo: &RepoId) -> Result<()> {
    txn.remove_note(Shelf::FetchSteps, &view_key(repo)).map(drop)
}

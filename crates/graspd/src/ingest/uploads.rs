//! Commits pushed for pull requests that nobody has published yet. They lie in a quarantine of
//! their own, never in the repository, and a row says where and until when.

use grasp_core::{EventId, Oid, RepoId, Time};
use grasp_store::{Result, Shelf, Snapshot, StoreError, Transaction};
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Upload {
    pub(super) event: EventId,
    pub(super) tip: Oid,
    pub(super) quarantine: String,
    pub(super) bytes: u64,
    /// Who brought it, as an opaque word; empty for nobody in particular.
    pub(super) from: String,
    pub(super) deadline: Time,
}

/// How much unclaimed data may lie here.
#[derive(Debug, Clone, Copy)]
pub struct UploadLimits {
    pub patience: Duration,
    pub bytes_per_ip_max: u64,
    pub bytes_per_repository_max: u64,
    pub bytes_max: u64,
    pub count_per_repository_max: usize,
}

fn prefix(repo: &RepoId) -> Vec<u8> {
    // No identifier contains a control character, so the zero ends it.
    [repo.owner.as_bytes(), repo.identifier.as_str().as_bytes(), &[0]].concat()
}

fn key(repo: &RepoId, event: &EventId, tip: &Oid) -> Vec<u8> {
    [&prefix(repo)[..], event.as_bytes(), tip.as_bytes()].concat()
}

fn read(note: &[u8]) -> Result<Upload> {
    serde_json::from_slice(note).map_err(|_| StoreError::Damaged("unreadable upload"))
}

pub(super) fn put(txn: &mut dyn Transaction, repo: &RepoId, upload: &Upload) -> Result<()> {
    let note = serde_json::to_vec(upload).map_err(|_| StoreError::Damaged("unwritable upload"))?;
    txn.put_note(Shelf::Uploads, &key(repo, &upload.event, &upload.tip), &note)
}

pub(super) fn find(
    store: &dyn Snapshot,
    repo: &RepoId,
    event: &EventId,
    tip: &Oid,
) -> Result<Option<Upload>> {
    store.note(Shelf::Uploads, &key(repo, event, tip))?.map(|note| read(&note)).transpose()
}

/// Forgets all that was uploaded for one event; returns where it lay.
pub(super) fn take(
    txn: &mut dyn Transaction,
    repo: &RepoId,
    event: &EventId,
) -> Result<Vec<String>> {
    let prefix = [&prefix(repo)[..], event.as_bytes()].concat();
    remove_all(txn, &prefix, |_| true)
}

/// Forgets everything uploaded to one repository.
pub(super) fn take_all(txn: &mut dyn Transaction, repo: &RepoId) -> Result<Vec<String>> {
    remove_all(txn, &prefix(repo), |_| true)
}

/// Forgets what was uploaded for one event with another commit than the one it names.
pub(super) fn take_others(
    txn: &mut dyn Transaction,
    repo: &RepoId,
    event: &EventId,
    tip: Option<Oid>,
) -> Result<Vec<String>> {
    let prefix = [&prefix(repo)[..], event.as_bytes()].concat();
    remove_all(txn, &prefix, |upload| Some(upload.tip) != tip)
}

/// Forgets what nobody claimed in time, unless `claimed` says its event waits here.
pub(super) fn take_expired(
    txn: &mut dyn Transaction,
    now: Time,
    claimed: impl Fn(&dyn Transaction, &EventId) -> Result<bool>,
) -> Result<Vec<String>> {
    let mut expired = Vec::new();
    for (key, note) in txn.notes(Shelf::Uploads, &[], usize::MAX)? {
        let upload = read(&note)?;
        if upload.deadline <= now && !claimed(txn, &upload.event)? {
            txn.remove_note(Shelf::Uploads, &key)?;
            expired.push(upload.quarantine);
        }
    }
    unused(txn, expired)
}

fn remove_all(
    txn: &mut dyn Transaction,
    prefix: &[u8],
    goes: impl Fn(&Upload) -> bool,
) -> Result<Vec<String>> {
    let mut gone = Vec::new();
    for (key, note) in txn.notes(Shelf::Uploads, prefix, usize::MAX)? {
        let upload = read(&note)?;
        if goes(&upload) {
            txn.remove_note(Shelf::Uploads, &key)?;
            gone.push(upload.quarantine);
        }
    }
    unused(txn, gone)
}

/// One push may have brought several tips: its quarantine goes with the last of them.
fn unused(txn: &dyn Transaction, mut quarantines: Vec<String>) -> Result<Vec<String>> {
    if quarantines.is_empty() {
        return Ok(quarantines);
    }
    let used = quarantines_of(txn)?;
    quarantines.retain(|name| !used.contains(name));
    quarantines.sort_unstable();
    quarantines.dedup();
    Ok(quarantines)
}

/// Where unclaimed uploads lie.
pub(super) fn quarantines_of(store: &dyn Snapshot) -> Result<Vec<String>> {
    let rows = store.notes(Shelf::Uploads, &[], usize::MAX)?;
    rows.iter().map(|(_, note)| Ok(read(note)?.quarantine)).collect()
}

/// Why there is no room for another upload.
pub(super) fn refusal(
    store: &dyn Snapshot,
    repo: &RepoId,
    from: &str,
    (rows, bytes): (usize, u64),
    limits: &UploadLimits,
) -> Result<Option<&'static str>> {
    let (mut total, mut of_repo, mut of_ip, mut count) = (bytes, bytes, bytes, rows);
    let own = prefix(repo);
    for (key, note) in store.notes(Shelf::Uploads, &[], usize::MAX)? {
        let upload = read(&note)?;
        total += upload.bytes;
        if key.starts_with(&own) {
            of_repo += upload.bytes;
            count += 1;
        }
        if !from.is_empty() && upload.from == from {
            of_ip += upload.bytes;
        }
    }
    Ok(if of_ip > limits.bytes_per_ip_max {
        Some("your address has too much waiting for pull requests that were not published")
    } else if of_repo > limits.bytes_per_repository_max || count > limits.count_per_repository_max {
        Some("this repository has too many unpublished pull requests waiting")
    } else if total > limits.bytes_max {
        Some("this server has too many unpublished pull requests waiting")
    } else {
        None
    })
}

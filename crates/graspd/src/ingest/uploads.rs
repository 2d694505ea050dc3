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
    /// By steady time; every start gives the full time again.
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

/// Unpublished pull requests of one repository that may come from one address.
const PER_ADDRESS_MAX: usize = 8;

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

/// After a start: nothing is given up because of a clock that was wrong.
pub(super) fn restart(txn: &mut dyn Transaction, deadline: Time) -> Result<()> {
    for (key, note) in txn.notes(Shelf::Uploads, &[], usize::MAX)? {
        let upload = Upload { deadline, ..read(&note)? };
        let note =
            serde_json::to_vec(&upload).map_err(|_| StoreError::Damaged("unwritable upload"))?;
        txn.put_note(Shelf::Uploads, &key, &note)?;
    }
    Ok(())
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
    let (mut total, mut of_repo, mut of_ip) = (bytes, bytes, bytes);
    let (mut count, mut count_of_ip) = (rows, rows);
    let own = prefix(repo);
    for (key, note) in store.notes(Shelf::Uploads, &[], usize::MAX)? {
        let upload = read(&note)?;
        let is_own = key.starts_with(&own);
        let is_theirs = !from.is_empty() && upload.from == from;
        total += upload.bytes;
        if is_own {
            of_repo += upload.bytes;
            count += 1;
        }
        if is_theirs {
            of_ip += upload.bytes;
        }
        count_of_ip += usize::from(is_own && is_theirs);
    }
    Ok(if !from.is_empty() && count_of_ip > PER_ADDRESS_MAX {
        Some(TOO_MANY)
    } else if of_ip > limits.bytes_per_ip_max {
        Some("your address has too much waiting for pull requests that were not published")
    } else if of_repo > limits.bytes_per_repository_max || count > limits.count_per_repository_max {
        Some("this repository has too many unpublished pull requests waiting")
    } else if total > limits.bytes_max {
        Some("this server has too many unpublished pull requests waiting")
    } else {
        None
    })
}

const TOO_MANY: &str =
    "one address may have 8 unpublished pull requests waiting in a repository, and yours has them";

#[cfg(test)]
mod tests {
    use super::*;
    use grasp_core::PubKey;
    use grasp_store::{EventStore, Options, in_memory};

    const LIMITS: UploadLimits = UploadLimits {
        patience: Duration::from_secs(1),
        bytes_per_ip_max: 1 << 20,
        bytes_per_repository_max: 1 << 20,
        bytes_max: 1 << 20,
        count_per_repository_max: 100,
    };

    fn repo(owner: u8) -> RepoId {
        RepoId { owner: PubKey::from_bytes([owner; 32]), identifier: "acme".parse().unwrap() }
    }

    #[test]
    fn one_address_gets_eight_of_the_places_for_unpublished_pull_requests_of_a_repository() {
        let store = in_memory(&Options::default()).unwrap();
        let refused = |repo: &RepoId, from: &str, rows: usize| {
            refusal(&*store.read().unwrap(), repo, from, (rows, 10), &LIMITS).unwrap()
        };
        for place in 0..100_u8 {
            let from = format!("203.0.113.{}", place / 8);
            assert_eq!(refused(&repo(1), &from, 1), None, "place {place}");
            let (event, tip) = (EventId::from_bytes([place; 32]), Oid::from_bytes([place; 20]));
            let (quarantine, deadline) = ("0".repeat(32), Time(1));
            let upload = Upload { event, tip, quarantine, bytes: 10, from: from.clone(), deadline };
            store.write(&mut |txn| put(txn, &repo(1), &upload)).unwrap();
            let full = place % 8 == 7;
            assert_eq!(refused(&repo(1), &from, 1).is_some_and(|why| why == TOO_MANY), full);
            assert_eq!(refused(&repo(2), &from, 8), None, "another repository has its own places");
            assert_eq!(refused(&repo(2), &from, 9), Some(TOO_MANY), "also with one push");
        }
        let late = refused(&repo(1), "203.0.113.99", 1);
        assert!(late.is_some_and(|why| why.contains("this repository has too many")), "{late:?}");
        assert_eq!(refused(&repo(2), "", 9), None, "who is not counted is not refused");
    }
}

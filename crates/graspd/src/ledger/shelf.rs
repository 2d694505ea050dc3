//! The ledger on disk: one row for each repository and address, found from either side and in order of
//! time, and counted by verdict, in all and minute by minute. All of it changes in one transaction;
//! beyond the bound the oldest go.

use super::row::{Look, Peer, Row, Seen};
use crate::report::Verdict;
use grasp_core::terms::Term;
use grasp_core::{PubKey, RepoId, Time};
use grasp_store::{Result, Shelf, Snapshot, StoreError, Transaction};
use serde::{Deserialize, Serialize};

mod aged;
pub use aged::{sums_at, tally_at};

pub const ROWS_MAX: u64 = 200_000;

/// The orders, by the first byte of their keys.
const BY_PEER: u8 = b'K';
const BY_REPO: u8 = b'L';
const BY_TIME: u8 = b'M';
const TALLY: &[u8] = b"N";
const SUMS: u8 = b'O';
const OF_PEER_BY_TIME: u8 = b'P';
const SPANS: u8 = b'Q';
const SPANS_OF_PEER: u8 = b'R';
/// Only of rows in which one side lacks something.
const LACKING_BY_TIME: u8 = b'S';
/// Of rows as they were written before there were refs in them, and before minutes were counted.
const OLD: [&[u8]; 10] = [b"r", b"p", b"t", b"n", b"A", b"B", b"C", b"D", b"E", b"F"];

#[derive(Debug, Serialize, Deserialize)]
struct Note {
    peer: Peer,
    #[serde(flatten)]
    look: Look,
}

/// How many rows there are of each verdict, whatever their age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Tally {
    pub equal: u64,
    pub we_lack: u64,
    pub they_lack: u64,
    pub unverifiable: u64,
    /// Never of a row: only of a mirror as it is told.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub checking: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// All rows of one address, summed up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Sums {
    #[serde(flatten)]
    pub tally: Tally,
    /// Events, over all its repositories: had by both, and by us alone.
    pub events_both: u64,
    pub events_lacking: u64,
}

impl Tally {
    pub fn of(&mut self, verdict: Verdict) -> &mut u64 {
        match verdict {
            Verdict::Equal => &mut self.equal,
            Verdict::WeLack => &mut self.we_lack,
            Verdict::TheyLack => &mut self.they_lack,
            Verdict::Unverifiable => &mut self.unverifiable,
            Verdict::Checking => &mut self.checking,
        }
    }

    pub fn rows(&self) -> u64 {
        self.equal + self.we_lack + self.they_lack + self.unverifiable
    }
}

/// Replaces what was known of this repository there.
pub fn set(txn: &mut dyn Transaction, peer: &Peer, repo: &RepoId, look: Look) -> Result<()> {
    put(txn, Row { peer: peer.clone(), repo: repo.clone(), look }, ROWS_MAX)
}

pub fn of(store: &dyn Snapshot, peer: &Peer, repo: &RepoId) -> Result<Option<Look>> {
    let note = store.note(Shelf::Peers, &Key::of(peer, repo).by_peer())?;
    Ok(note.map(|note| read(&note)).transpose()?.map(|note| note.look))
}

/// What is known of one address, in order of repositories.
pub fn of_peer(store: &dyn Snapshot, peer: &Peer, count_max: usize) -> Result<Vec<Row>> {
    let prefix = [&[BY_PEER], &mark(peer)[..]].concat();
    let notes = store.notes(Shelf::Peers, &prefix, count_max)?;
    notes.iter().map(|(key, note)| row(key, note)).collect()
}

/// What is known of one repository, address by address.
pub(super) fn of_repo(store: &dyn Snapshot, repo: &RepoId, count_max: usize) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (key, _) in store.notes(Shelf::Peers, &repo_prefix(repo), count_max)? {
        let mark = key.last_chunk().copied().ok_or(UNREADABLE)?;
        let key = Key { mark, repo: repo_bytes(repo) }.by_peer();
        let note = store.note(Shelf::Peers, &key)?.ok_or(UNREADABLE)?;
        rows.push(row(&key, &note)?);
    }
    Ok(rows)
}

/// Up to `count_max` rows with this verdict, in which one side lacks something, looked at since then.
/// The longest ago comes first.
pub(super) fn lacking(
    store: &dyn Snapshot,
    verdict: Verdict,
    since: Time,
    count_max: usize,
) -> Result<Vec<Row>> {
    let prefix = [LACKING_BY_TIME, byte_of(verdict)];
    let after = [&prefix[..], &since.0.to_be_bytes()].concat();
    let mut rows = Vec::new();
    for (key, _) in store.notes_after(Shelf::Peers, &after, count_max)? {
        let Some(rest) = key.strip_prefix(&prefix) else { break };
        let key = [&[BY_PEER], rest.get(8..).ok_or(UNREADABLE)?].concat();
        let note = store.note(Shelf::Peers, &key)?.ok_or(UNREADABLE)?;
        rows.push(row(&key, &note)?);
    }
    Ok(rows)
}

/// Removes up to `count_max` rows of an address that is not followed any more; returns how many.
pub fn forget_peer(txn: &mut dyn Transaction, peer: &Peer, count_max: usize) -> Result<usize> {
    let rows = of_peer(txn, peer, count_max)?;
    rows.iter().try_for_each(|row| remove(txn, row))?;
    Ok(rows.len())
}

/// Removes the rows of a repository at addresses it does not name; returns how many.
pub fn keep_only(
    txn: &mut dyn Transaction,
    repo: &RepoId,
    named: &dyn Fn(&Peer) -> bool,
) -> Result<usize> {
    let mut rows = of_repo(txn, repo, usize::MAX)?;
    rows.retain(|row| !named(&row.peer));
    rows.iter().try_for_each(|row| remove(txn, row))?;
    Ok(rows.len())
}

/// Removes up to `count_max` of the rows that nobody has renewed since then; returns how many.
pub fn forget_older(txn: &mut dyn Transaction, than: Time, count_max: usize) -> Result<usize> {
    let mut removed = 0;
    while removed < count_max
        && let Some(oldest) = oldest(txn)?.filter(|row| row.look.at < than)
    {
        remove(txn, &oldest)?;
        removed += 1;
    }
    Ok(removed)
}

/// Are there rows in a shape that is not read any more?
pub fn has_old_shapes(store: &dyn Snapshot) -> Result<bool> {
    for prefix in OLD {
        if !store.notes(Shelf::Peers, prefix, 1)?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Removes some of them, up to `count_max` of each kind of note.
pub fn forget_old_shapes(txn: &mut dyn Transaction, count_max: usize) -> Result<()> {
    for prefix in OLD {
        for (key, _) in txn.notes(Shelf::Peers, prefix, count_max)? {
            txn.remove_note(Shelf::Peers, &key)?;
        }
    }
    Ok(())
}

pub fn tally(store: &dyn Snapshot) -> Result<Tally> {
    let note = store.note(Shelf::Peers, TALLY)?;
    note.map_or(Ok(Tally::default()), |note| serde_json::from_slice(&note).map_err(|_| UNREADABLE))
}

/// What is known of one address as a whole.
pub fn sums(store: &dyn Snapshot, peer: &Peer) -> Result<Sums> {
    let note = store.note(Shelf::Peers, &sums_key(peer))?;
    note.map_or(Ok(Sums::default()), |note| serde_json::from_slice(&note).map_err(|_| UNREADABLE))
}

fn put(txn: &mut dyn Transaction, new: Row, rows_max: u64) -> Result<()> {
    let Row { peer, repo, look } = new;
    let key = Key::of(&peer, &repo);
    let before = of(txn, &peer, &repo)?;
    let look = look.after(before.as_ref());
    if let Some(look) = before {
        remove(txn, &Row { peer: peer.clone(), repo, look })?;
    }
    while tally(txn)?.rows() >= rows_max {
        let Some(oldest) = oldest(txn)? else { break };
        remove(txn, &oldest)?;
    }
    let (verdict, at) = (look.seen.verdict(), look.at);
    count(txn, &peer, &look, true)?;
    let note = serde_json::to_vec(&Note { peer, look });
    let note = note.map_err(|_| StoreError::Damaged("unwritable verdict"))?;
    txn.put_note(Shelf::Peers, &key.by_peer(), &note)?;
    txn.put_note(Shelf::Peers, &key.by_repo(), &[])?;
    txn.put_note(Shelf::Peers, &key.by_time(at), &[byte_of(verdict)])?;
    if matches!(verdict, Verdict::WeLack | Verdict::TheyLack) {
        txn.put_note(Shelf::Peers, &key.lacking_by_time(verdict, at), &[])?;
    }
    txn.put_note(Shelf::Peers, &key.of_peer_by_time(at), &[byte_of(verdict)])
}

fn oldest(store: &dyn Snapshot) -> Result<Option<Row>> {
    let Some((key, _)) = store.notes(Shelf::Peers, &[BY_TIME], 1)?.pop() else { return Ok(None) };
    let key = [&[BY_PEER], key.get(9..).ok_or(UNREADABLE)?].concat();
    let note = store.note(Shelf::Peers, &key)?.ok_or(UNREADABLE)?;
    row(&key, &note).map(Some)
}

fn remove(txn: &mut dyn Transaction, row: &Row) -> Result<()> {
    let key = Key::of(&row.peer, &row.repo);
    let at = row.look.at;
    for key in [key.by_peer(), key.by_repo(), key.by_time(at), key.of_peer_by_time(at)] {
        txn.remove_note(Shelf::Peers, &key)?;
    }
    let lacking = key.lacking_by_time(row.look.seen.verdict(), at);
    txn.remove_note(Shelf::Peers, &lacking)?;
    count(txn, &row.peer, &row.look, false)
}

/// Keeps the sums in line with the rows.
fn count(txn: &mut dyn Transaction, peer: &Peer, look: &Look, came: bool) -> Result<()> {
    let step = |sum: &mut u64, by: u64| {
        *sum = if came { sum.saturating_add(by) } else { sum.saturating_sub(by) };
    };
    let (mut tally, mut sums) = (tally(txn)?, sums(txn, peer)?);
    step(tally.of(look.seen.verdict()), 1);
    step(sums.tally.of(look.seen.verdict()), 1);
    if let Seen::Events(counts) = &look.seen {
        step(&mut sums.events_both, counts.both);
        step(&mut sums.events_lacking, counts.they_lack);
    }
    aged::count(txn, peer, look, came)?;
    let unwritable = |_| StoreError::Damaged("unwritable tally");
    txn.put_note(Shelf::Peers, TALLY, &serde_json::to_vec(&tally).map_err(unwritable)?)?;
    match sums.tally.rows() {
        0 => txn.remove_note(Shelf::Peers, &sums_key(peer)).map(drop),
        _ => {
            let note = serde_json::to_vec(&sums).map_err(unwritable)?;
            txn.put_note(Shelf::Peers, &sums_key(peer), &note)
        }
    }
}

fn sums_key(peer: &Peer) -> Vec<u8> {
    [&[SUMS], &mark(peer)[..]].concat()
}

const UNREADABLE: StoreError = StoreError::Damaged("unreadable verdict");
const VERDICTS: [Verdict; 4] =
    [Verdict::Equal, Verdict::WeLack, Verdict::TheyLack, Verdict::Unverifiable];

fn byte_of(verdict: Verdict) -> u8 {
    let at = VERDICTS.iter().position(|it| *it == verdict);
    at.and_then(|at| u8::try_from(at).ok()).unwrap_or(u8::MAX)
}

fn verdict_of(byte: u8) -> Option<Verdict> {
    VERDICTS.get(usize::from(byte)).copied()
}

/// An address is longer than a key may be; its hash is not.
type Mark = [u8; 16];

struct Key {
    mark: Mark,
    repo: Vec<u8>,
}

impl Key {
    fn of(peer: &Peer, repo: &RepoId) -> Self {
        Self { mark: mark(peer), repo: repo_bytes(repo) }
    }

    fn by_peer(&self) -> Vec<u8> {
        [&[BY_PEER], &self.mark[..], &self.repo].concat()
    }

    fn by_repo(&self) -> Vec<u8> {
        // No identifier contains a control character, so the zero ends it.
        [&[BY_REPO], &self.repo[..], &[0], &self.mark].concat()
    }

    fn of_peer_by_time(&self, at: Time) -> Vec<u8> {
        [&[OF_PEER_BY_TIME], &self.mark[..], &at.0.to_be_bytes(), &self.repo].concat()
    }

    fn lacking_by_time(&self, verdict: Verdict, at: Time) -> Vec<u8> {
        let prefix = [LACKING_BY_TIME, byte_of(verdict)];
        [&prefix[..], &at.0.to_be_bytes(), &self.mark, &self.repo].concat()
    }

    fn by_time(&self, at: Time) -> Vec<u8> {
        [&[BY_TIME], &at.0.to_be_bytes()[..], &self.mark, &self.repo].concat()
    }
}

fn mark(peer: &Peer) -> Mark {
    let letter = match peer {
        Peer::Relay(_) => b'r',
        Peer::Git(_) => b'c',
    };
    let [_, mark @ ..] = Term::tag(letter, peer.as_str()).0;
    mark
}

fn repo_bytes(repo: &RepoId) -> Vec<u8> {
    [repo.owner.as_bytes(), repo.identifier.as_str().as_bytes()].concat()
}

fn repo_prefix(repo: &RepoId) -> Vec<u8> {
    [&[BY_REPO], &repo_bytes(repo)[..], &[0]].concat()
}

fn read(note: &[u8]) -> Result<Note> {
    serde_json::from_slice(note).map_err(|_| UNREADABLE)
}

/// From a key by address, and what lies there.
fn row(key: &[u8], note: &[u8]) -> Result<Row> {
    let Note { peer, look } = read(note)?;
    let repo = key.get(17..).and_then(read_repo).ok_or(UNREADABLE)?;
    Ok(Row { peer, repo, look })
}

fn read_repo(bytes: &[u8]) -> Option<RepoId> {
    let (owner, identifier) = bytes.split_first_chunk::<32>()?;
    let identifier = std::str::from_utf8(identifier).ok()?.parse().ok()?;
    Some(RepoId { owner: PubKey::from_bytes(*owner), identifier })
}

#[cfg(test)]
mod tests;

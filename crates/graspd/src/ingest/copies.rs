//! Objects on their way from one owner's repository to another's. Somebody else carries them, and a
//! crash takes that one along: a row for each remembers to ask again after the start.

use super::affected::Affected;
use super::plan::Copying;
use grasp_core::{EventId, PubKey, RepoId};
use grasp_store::{Result, Shelf, Snapshot, Transaction};
use std::collections::BTreeSet;

pub(super) fn began(txn: &mut dyn Transaction, it: &Copying) -> Result<()> {
    let mut keys = keys(&it.to, &it.proposals).into_iter();
    keys.try_for_each(|key| txn.put_note(Shelf::Copies, &key, &[]))
}

/// Has somebody been sent for this already?
pub(super) fn is_under_way(store: &dyn Snapshot, it: &Copying) -> Result<bool> {
    for key in keys(&it.to, &it.proposals) {
        if store.note(Shelf::Copies, &key)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// It arrived; should something still be missing, it is begun again.
pub(super) fn ended(
    txn: &mut dyn Transaction,
    to: &RepoId,
    proposals: &BTreeSet<EventId>,
) -> Result<()> {
    keys(to, proposals).into_iter().try_for_each(|key| forget(txn, &key))
}

/// What has to be looked at again because nobody carries anything any more.
pub(super) fn interrupted(store: &dyn Snapshot) -> Result<Affected> {
    let mut affected = Affected::default();
    for (key, _) in store.notes(Shelf::Copies, &[], usize::MAX)? {
        if let Some((to, proposal)) = read(&key) {
            affected.repo(&to).proposals.extend(proposal);
        }
    }
    Ok(affected)
}

pub(super) fn forget_all(txn: &mut dyn Transaction) -> Result<()> {
    let rows = txn.notes(Shelf::Copies, &[], usize::MAX)?;
    rows.iter().try_for_each(|(key, _)| forget(txn, key))
}

fn forget(txn: &mut dyn Transaction, key: &[u8]) -> Result<()> {
    txn.remove_note(Shelf::Copies, key).map(drop)
}

fn keys(to: &RepoId, proposals: &BTreeSet<EventId>) -> Vec<Vec<u8>> {
    // No identifier contains a control character, so the zero ends it.
    let bare = [to.owner.as_bytes(), to.identifier.as_str().as_bytes(), &[0]].concat();
    if proposals.is_empty() {
        return vec![bare];
    }
    proposals.iter().map(|id| [&bare[..], id.as_bytes()].concat()).collect()
}

fn read(key: &[u8]) -> Option<(RepoId, Option<EventId>)> {
    let (owner, rest) = key.split_first_chunk::<32>()?;
    let end = rest.iter().position(|byte| *byte == 0)?;
    let identifier = std::str::from_utf8(rest.get(..end)?).ok()?.parse().ok()?;
    let proposal = rest.get(end + 1..)?.try_into().ok().map(EventId::from_bytes);
    Some((RepoId { owner: PubKey::from_bytes(*owner), identifier }, proposal))
}

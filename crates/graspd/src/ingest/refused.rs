//! Ids of events that other relays offered and that were refused once they had been verified, so
//! that they are not fetched again (S-18, S-29). Only what cannot change, or changes only with an
//! announcement that can be waited for. Bounded, and of no use under other rules. When there is no
//! room, the relay with the most ids loses its oldest one, so that no relay can push out what is
//! remembered of others (S-47).

use super::admit::{Candidate, Clerk};
use super::gather::family;
use super::roles::RoleCache;
use super::second_chance::{Orphan, Revived, revive};
use crate::metrics::Refused;
use grasp_core::maintainers::Family;
use grasp_core::policy::{Reason, RefusalClass, Rules};
use grasp_core::{
    Event, EventId, Filter, Identifier, Kind, PubKey, RepoId, Time, Timestamp, VerifiedEvent,
};
use grasp_store::{Result, Shelf, Snapshot, SourceKind, StoreError, Transaction};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Remembered ids; beyond that the oldest one of the largest share goes.
const IDS_MAX: u64 = 100_000;
/// People around an announcement whose refused events are forgotten; the nearest come first.
const KEYS_MAX: usize = 2_000;
/// Of each of them.
const FORGOTTEN_MAX: usize = 1_000;
const SHELF: Shelf = Shelf::Refused;

// The orders, by the first byte of their keys.
const BY_ID: u8 = b'i';
const BY_AGE: u8 = b'a';
const BY_KIND: u8 = b'k';
const BY_REPO: u8 = b'r';
const BY_RELAY: u8 = b's';
const RELAYS_BY_SIZE: u8 = b'z';
const RELAY_SIZES: u8 = b'c';
const COUNTS: u8 = b'n';
const RULES: u8 = b'p';

/// The layout of these notes; ids that were remembered in another one are forgotten.
const LAYOUT: &[u8] = b"shares";

/// Whose ids these are: the start of a hash of the relay's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RefusedShare([u8; 16]);

impl RefusedShare {
    pub(super) fn of(relay: Option<&str>) -> Self {
        let hash: [u8; 32] = Sha256::digest(relay.unwrap_or_default().as_bytes()).into();
        Self(hash.first_chunk().copied().unwrap_or_default())
    }

    fn sizes_key(self) -> Vec<u8> {
        [&[RELAY_SIZES][..], &self.0].concat()
    }

    /// The largest share comes first.
    fn size_key(self, size: u64) -> Vec<u8> {
        [&[RELAYS_BY_SIZE][..], &(u64::MAX - size).to_be_bytes(), &self.0].concat()
    }

    fn size(self, store: &dyn Snapshot) -> Result<u64> {
        let note = store.note(SHELF, &self.sizes_key())?;
        Ok(note.and_then(|it| Some(u64::from_be_bytes(*it.first_chunk()?))).unwrap_or(0))
    }

    fn resize(self, txn: &mut dyn Transaction, size: u64) -> Result<()> {
        let before = self.size(txn)?;
        txn.remove_note(SHELF, &self.size_key(before))?;
        if size == 0 {
            txn.remove_note(SHELF, &self.sizes_key())?;
            return Ok(());
        }
        txn.put_note(SHELF, &self.sizes_key(), &size.to_be_bytes())?;
        txn.put_note(SHELF, &self.size_key(size), &[])
    }
}

/// What is remembered of one event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    created_at: Timestamp,
    kind: Kind,
    since: Time,
    /// Whose announcements could change it, of which identifier; `None`: nothing can.
    until: Option<(PubKey, String)>,
    share: RefusedShare,
}

/// How many ids are remembered, by what they are ids of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counts {
    pub announcements: u64,
    pub states: u64,
    pub others: u64,
}

impl Counts {
    fn of(&mut self, kind: Kind) -> &mut u64 {
        match kind {
            Kind::ANNOUNCEMENT => &mut self.announcements,
            Kind::STATE => &mut self.states,
            _ => &mut self.others,
        }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.announcements += other.announcements;
        self.states += other.states;
        self.others += other.others;
    }

    pub fn total(&self) -> u64 {
        self.announcements + self.states + self.others
    }
}

impl From<Counts> for Refused {
    fn from(Counts { announcements, states, others }: Counts) -> Self {
        Self { announcements, states, others }
    }
}

pub fn is_refused(store: &dyn Snapshot, id: &EventId) -> Result<bool> {
    Ok(store.note(SHELF, &by_id(id))?.is_some())
}

/// The refused events a filter would find. Only kinds and times are remembered of them, so a filter
/// that asks for anything else finds none.
pub fn positions(store: &dyn Snapshot, filter: &Filter) -> Result<Vec<(Timestamp, EventId)>> {
    let by_kind_alone = filter.ids.is_none() && filter.authors.is_none() && filter.tags.is_empty();
    let kinds = filter.kinds.iter().flatten().filter(|_| by_kind_alone);
    let mut found = Vec::new();
    for kind in kinds {
        let rows = store.notes(SHELF, &of_kind(*kind), usize::MAX)?;
        let places = rows.iter().filter_map(|(key, _)| number_and_id(key));
        found.extend(places.map(|(at, id)| (Timestamp(at), id)).filter(|(at, _)| {
            filter.since.is_none_or(|since| *at >= since)
                && filter.until.is_none_or(|until| *at <= until)
        }));
    }
    Ok(found)
}

pub fn counts(store: &dyn Snapshot) -> Result<Counts> {
    match store.note(SHELF, &[COUNTS])? {
        Some(note) => read(&note),
        None => Ok(Counts::default()),
    }
}

impl Clerk<'_> {
    /// What another relay offers and we refuse need not be fetched again, as long as the answer
    /// would be the same. A client may always ask again.
    pub(super) fn remember(
        &mut self,
        txn: &mut dyn Transaction,
        it: &Candidate<'_>,
        reason: &Reason,
    ) -> Result<()> {
        if it.from.source == SourceKind::Direct {
            return Ok(());
        }
        let share = RefusedShare::of(it.from.relay.as_deref());
        match reason.class() {
            RefusalClass::Forever => return remember(txn, it.event, None, share, self.at.wall),
            RefusalClass::UntilKnown => {}
            RefusalClass::Known
            | RefusalClass::Passing
            | RefusalClass::NoRoom
            | RefusalClass::Fault => return Ok(()),
        }
        let (event, from) = (Arc::clone(it.event), it.from.clone());
        self.effects.orphans.push(Orphan { event, from });
        match (it.event.kind, it.event.d().parse()) {
            (Kind::ANNOUNCEMENT | Kind::STATE, Ok(identifier)) => {
                let until = RepoId { owner: it.event.pubkey, identifier };
                remember(txn, it.event, Some(&until), share, self.at.wall)
            }
            // It may be anchored by whatever comes, so it has to be asked for again.
            _ => Ok(()),
        }
    }

    /// Announcements came, and with them people who have a say now.
    pub(super) fn revive<'e>(
        &mut self,
        txn: &mut dyn Transaction,
        came: impl Iterator<Item = &'e Arc<VerifiedEvent>>,
    ) -> Result<()> {
        for announcement in came.filter(|event| event.kind == Kind::ANNOUNCEMENT) {
            let revived = forget_around(txn, self.roles, announcement)?;
            revive(&mut self.effects.revived, revived);
        }
        Ok(())
    }
}

/// Starts with what was remembered under the same rules, or with nothing.
pub(super) fn tie_to(txn: &mut dyn Transaction, rules: &Rules) -> Result<()> {
    let print = [&rules.fingerprint()[..], LAYOUT].concat();
    if txn.note(SHELF, &[RULES])?.is_some_and(|known| known == print) {
        return Ok(());
    }
    for (key, _) in txn.notes(SHELF, &[], usize::MAX)? {
        txn.remove_note(SHELF, &key)?;
    }
    txn.put_note(SHELF, &[RULES], &print)
}

/// Remembers that an event was refused; `until` says whose announcements could change that.
pub(super) fn remember(
    txn: &mut dyn Transaction,
    event: &Event,
    until: Option<&RepoId>,
    share: RefusedShare,
    now: Time,
) -> Result<()> {
    // The relay that told of it first keeps it in its share: a flood cannot take over what others told.
    let known = txn.note(SHELF, &by_id(&event.id))?.map(|note| read::<Row>(&note)).transpose()?;
    let share = known.map_or(share, |row| row.share);
    forget(txn, &event.id)?;
    if counts(txn)?.total() >= IDS_MAX {
        forget_oldest_of_largest(txn)?;
    }
    let until = until.map(|repo| (repo.owner, repo.identifier.as_str().to_owned()));
    let row = Row { created_at: event.created_at, kind: event.kind, since: now, until, share };
    for key in row.orders(&event.id) {
        txn.put_note(SHELF, &key, &[])?;
    }
    txn.put_note(SHELF, &by_id(&event.id), &written(&row)?)?;
    let size = share.size(txn)?;
    share.resize(txn, size + 1)?;
    let mut counts = counts(txn)?;
    *counts.of(row.kind) += 1;
    txn.put_note(SHELF, &[COUNTS], &written(&counts)?)
}

fn forget_oldest_of_largest(txn: &mut dyn Transaction) -> Result<()> {
    let Some((key, _)) = txn.notes(SHELF, &[RELAYS_BY_SIZE], 1)?.pop() else { return Ok(()) };
    let Some(share) = key.last_chunk::<16>() else { return Ok(()) };
    let of_share = [&[BY_RELAY][..], share].concat();
    let Some((key, _)) = txn.notes(SHELF, &of_share, 1)?.pop() else { return Ok(()) };
    let Some((_, oldest)) = number_and_id(&key) else { return Ok(()) };
    forget(txn, &oldest).map(drop)
}

/// Returns what was forgotten.
pub(super) fn forget(txn: &mut dyn Transaction, id: &EventId) -> Result<Counts> {
    let mut forgotten = Counts::default();
    let Some(note) = txn.note(SHELF, &by_id(id))? else { return Ok(forgotten) };
    let row: Row = read(&note)?;
    txn.remove_note(SHELF, &by_id(id))?;
    for key in row.orders(id) {
        txn.remove_note(SHELF, &key)?;
    }
    let size = row.share.size(txn)?;
    row.share.resize(txn, size.saturating_sub(1))?;
    let mut counts = counts(txn)?;
    let count = counts.of(row.kind);
    *count = count.saturating_sub(1);
    txn.put_note(SHELF, &[COUNTS], &written(&counts)?)?;
    *forgotten.of(row.kind) += 1;
    Ok(forgotten)
}

/// An announcement came. Forgets what was refused of those who may have a say by it, so that it is
/// fetched again, and returns whose that was and how many.
pub(super) fn forget_around(
    txn: &mut dyn Transaction,
    roles: &mut RoleCache,
    announcement: &Event,
) -> Result<Revived> {
    let mut forgotten = Revived::new();
    let Ok(identifier) = announcement.d().parse::<Identifier>() else { return Ok(forgotten) };
    if txn.notes(SHELF, &of_identifier(identifier.as_str()), 1)?.is_empty() {
        return Ok(forgotten);
    }
    let around = announcement.pubkey;
    let family = family(txn, roles, [around], identifier.as_str())?;
    for owner in concerned(&family, &around) {
        let rows = txn.notes(SHELF, &of_repo(identifier.as_str(), &owner), FORGOTTEN_MAX)?;
        let mut counts = Counts::default();
        for id in rows.iter().filter_map(|(key, _)| id_at_end_of(key)) {
            counts.add(&forget(txn, &id)?);
        }
        if !rows.is_empty() {
            forgotten.insert(RepoId { owner, identifier: identifier.clone() }, counts);
        }
    }
    Ok(forgotten)
}

/// Whose standing an announcement can change: its author, whom it lists, its family, and whom those
/// list.
fn concerned(family: &Family, around: &PubKey) -> Vec<PubKey> {
    let listed_by = |key: &PubKey| family.member(key).map(|it| it.roles.active.clone());
    let near = std::iter::once(*around).chain(listed_by(around).unwrap_or_default());
    let far = family.keys().iter().filter_map(listed_by).flatten();
    let mut seen = BTreeSet::new();
    let all = near.chain(family.keys().iter().copied()).chain(far);
    all.filter(|key| seen.insert(*key)).take(KEYS_MAX).collect()
}

/// Forgets what may have changed without our hearing of it, and returns how many that were.
pub(super) fn prune(txn: &mut dyn Transaction, now: Time, ids_for: Duration) -> Result<Counts> {
    let mut forgotten = Counts::default();
    for (key, _) in txn.notes(SHELF, &[BY_AGE], usize::MAX)? {
        let Some((since, id)) = number_and_id(&key) else { continue };
        if now.since(Time(since)) <= ids_for {
            break;
        }
        let row = txn.note(SHELF, &by_id(&id))?.map(|note| read::<Row>(&note)).transpose()?;
        if row.is_some_and(|row| row.until.is_some()) {
            forgotten.add(&forget(txn, &id)?);
        }
    }
    Ok(forgotten)
}

impl Row {
    /// The keys it is found by, besides its id.
    fn orders(&self, id: &EventId) -> Vec<Vec<u8>> {
        let mut keys = vec![
            [&[BY_AGE][..], &self.since.0.to_be_bytes(), id.as_bytes()].concat(),
            [&[BY_RELAY][..], &self.share.0, &self.since.0.to_be_bytes(), id.as_bytes()].concat(),
            [&of_kind(self.kind)[..], &self.created_at.0.to_be_bytes(), id.as_bytes()].concat(),
        ];
        if let Some((author, identifier)) = &self.until {
            keys.push([&of_repo(identifier, author)[..], id.as_bytes()].concat());
        }
        keys
    }
}

fn by_id(id: &EventId) -> Vec<u8> {
    [&[BY_ID][..], id.as_bytes()].concat()
}

fn of_kind(kind: Kind) -> Vec<u8> {
    [&[BY_KIND][..], &kind.0.to_be_bytes()].concat()
}

fn of_identifier(identifier: &str) -> Vec<u8> {
    // No identifier contains a control character, so the zero ends it.
    [&[BY_REPO][..], identifier.as_bytes(), &[0]].concat()
}

fn of_repo(identifier: &str, author: &PubKey) -> Vec<u8> {
    [&of_identifier(identifier)[..], author.as_bytes()].concat()
}

/// The end of a key in an order of time: the moment, and the event.
fn number_and_id(key: &[u8]) -> Option<(u64, EventId)> {
    let (rest, id) = key.split_last_chunk::<32>()?;
    Some((u64::from_be_bytes(*rest.last_chunk()?), EventId::from_bytes(*id)))
}

fn id_at_end_of(key: &[u8]) -> Option<EventId> {
    key.last_chunk().copied().map(EventId::from_bytes)
}

fn written(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|_| StoreError::Damaged("unwritable refusal"))
}

fn read<T: for<'de> Deserialize<'de>>(note: &[u8]) -> Result<T> {
    serde_json::from_slice(note).map_err(|_| StoreError::Damaged("unreadable refusal"))
}

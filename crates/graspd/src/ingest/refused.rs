//! Ids of events that other relays offered and that were refused once they had been verified, so
//! that they are not fetched again (S-18, S-29). Only what cannot change, or changes only with an
//! announcement that can be waited for. Bounded, and of no use under other rules.

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
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Remembered ids; beyond that the oldest go.
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
const COUNTS: u8 = b'n';
const RULES: u8 = b'p';

/// What is remembered of one event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Row {
    created_at: Timestamp,
    kind: Kind,
    since: Time,
    /// Whose announcements could change it, of which identifier; `None`: nothing can.
    until: Option<(PubKey, String)>,
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
        match reason.class() {
            RefusalClass::Forever => return remember(txn, it.event, None, self.at.wall),
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
                remember(txn, it.event, Some(&until), self.at.wall)
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
    let print = rules.fingerprint();
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
    now: Time,
) -> Result<()> {
    forget(txn, &event.id)?;
    if counts(txn)?.total() >= IDS_MAX
        && let Some((key, _)) = txn.notes(SHELF, &[BY_AGE], 1)?.pop()
        && let Some((_, oldest)) = number_and_id(&key)
    {
        forget(txn, &oldest)?;
    }
    let until = until.map(|repo| (repo.owner, repo.identifier.as_str().to_owned()));
    let row = Row { created_at: event.created_at, kind: event.kind, since: now, until };
    for key in row.orders(&event.id) {
        txn.put_note(SHELF, &key, &[])?;
    }
    txn.put_note(SHELF, &by_id(&event.id), &written(&row)?)?;
    let mut counts = counts(txn)?;
    *counts.of(row.kind) += 1;
    txn.put_note(SHELF, &[COUNTS], &written(&counts)?)
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

//! What gave up waiting but is still looked for (S-33). It is not served, counts as no hold and lets
//! nobody push; when its objects are found it waits again for a moment, and is released as usual.

use super::admit::Effects;
use super::claims::{self, PULL_REQUESTS};
use super::holds;
use super::removal::remove;
use super::serving::keep_waiting;
use grasp_core::hold::{Hold, Patience};
use grasp_core::nip34::{PullRequest, State};
use grasp_core::terms::Term;
use grasp_core::{Event, EventId, Kind, Time, VerifiedEvent};
use grasp_store::{Result, Shelf, Snapshot, Space, StoredEvent, Transaction};
use std::time::Duration;

/// How much is looked for although nobody waits any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WantedLimits {
    pub events_max: u64,
    pub bytes_max: u64,
    /// After that it is dropped, and only its id is remembered.
    pub kept: Duration,
}

impl Default for WantedLimits {
    fn default() -> Self {
        let kept = Duration::from_secs(7 * 86_400);
        Self { events_max: 10_000, bytes_max: 64 << 20, kept }
    }
}

/// The wait is over: what could still be found goes on the list, if there is room, and the id is
/// remembered, so that no relay brings it again.
pub(super) fn give_up(
    txn: &mut dyn Transaction,
    id: &EventId,
    now: Time,
    limits: &WantedLimits,
    effects: &mut Effects,
) -> Result<()> {
    let held = txn.get(Space::Held, id)?;
    remove(txn, Space::Held, id, now, effects)?;
    txn.put_note(Shelf::Expired, id.as_bytes(), &now.0.to_be_bytes())?;
    let Some(held) = held.filter(|held| can_be_found(&held.event)) else { return Ok(()) };
    if is_outdone(txn, &held.event)? {
        return Ok(());
    }
    forget_older(txn, &held.event)?;
    let full = txn.events_in(Space::Wanted)? >= limits.events_max
        || txn.bytes_in(Space::Wanted)? >= limits.bytes_max;
    if full {
        return Ok(());
    }
    txn.put(Space::Wanted, &held.event, &held.provenance)?;
    txn.put_note(Shelf::Wanted, id.as_bytes(), &now.0.to_be_bytes())
}

/// Does it name objects that some git server could have?
fn can_be_found(event: &Event) -> bool {
    match event.kind {
        Kind::STATE => {
            State::parse(event).is_ok_and(|state| state.satisfiable && state.names_objects())
        }
        Kind::PULL_REQUEST | Kind::PULL_REQUEST_UPDATE => {
            PullRequest::parse(event).is_ok_and(|it| it.tip.is_some())
        }
        _ => false,
    }
}

/// Has its author said something newer that is here?
fn is_outdone(store: &dyn Snapshot, event: &Event) -> Result<bool> {
    let Some(coordinate) = event.coordinate() else { return Ok(false) };
    for space in [Space::Served, Space::Held] {
        let newer = store.current(space, &coordinate)?.filter(|newer| ends_older(&newer.event));
        if newer.is_some_and(|newer| newer.event.rank().beats(&event.rank())) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// This event is here again, or its author replaced what was looked for.
pub(super) fn forget_older(txn: &mut dyn Transaction, event: &VerifiedEvent) -> Result<()> {
    if txn.events_in(Space::Wanted)? == 0 || !ends_older(event) {
        return Ok(());
    }
    let older = match event.coordinate() {
        Some(coordinate) => txn.current(Space::Wanted, &coordinate)?,
        None => txn.get(Space::Wanted, &event.id)?,
    };
    let beaten =
        |older: &StoredEvent| older.event.id == event.id || event.rank().beats(&older.event.rank());
    match older.filter(beaten) {
        Some(older) => forget(txn, &older.event.id),
        None => Ok(()),
    }
}

/// A state that names no object governs nothing, so it ends nothing either.
fn ends_older(event: &Event) -> bool {
    event.kind != Kind::STATE || State::parse(event).is_ok_and(|state| state.names_objects())
}

pub(super) fn forget(txn: &mut dyn Transaction, id: &EventId) -> Result<()> {
    txn.remove(Space::Wanted, id)?;
    txn.remove_note(Shelf::Wanted, id.as_bytes()).map(drop)
}

/// All it lacked is about to be here: it waits once more, to be released with everything else.
pub(super) fn revive(
    txn: &mut dyn Transaction,
    id: &EventId,
    now: Time,
    patience: Patience,
) -> Result<Option<VerifiedEvent>> {
    let Some(wanted) = txn.get(Space::Wanted, id)? else { return Ok(None) };
    forget(txn, id)?;
    if is_outdone(txn, &wanted.event)? || txn.erased(&wanted.event)?.reaches(&wanted.event) {
        return Ok(None);
    }
    if PULL_REQUESTS.contains(&wanted.event.kind)
        && !claims::put_within(txn, &wanted.event, &wanted.provenance)?
    {
        return Ok(None);
    }
    txn.remove_note(Shelf::Expired, id.as_bytes())?;
    keep_waiting(txn, &wanted.event, &wanted.provenance, Hold::begin(now, patience))?;
    Ok(Some(wanted.event))
}

/// Looked for long enough. The id is remembered for as long again.
pub(super) fn prune(txn: &mut dyn Transaction, now: Time, limits: &WantedLimits) -> Result<()> {
    for (key, note) in txn.notes(Shelf::Wanted, &[], usize::MAX)? {
        let since = note.as_slice().try_into().map_or(0, u64::from_be_bytes);
        let Ok(id) = key.as_slice().try_into().map(EventId::from_bytes) else { continue };
        if now.since(Time(since)) > limits.kept {
            forget(txn, &id)?;
            txn.put_note(Shelf::Expired, id.as_bytes(), &now.0.to_be_bytes())?;
        }
    }
    Ok(())
}

/// Is a state of this repository's people still looked for? Its announcement sleeps on meanwhile.
pub(super) fn needs_announcement(store: &dyn Snapshot, identifier: &str) -> Result<bool> {
    if store.events_in(Space::Wanted)? == 0 {
        return Ok(false);
    }
    store.has_term(Space::Wanted, &Term::tag(b'd', identifier))
}

/// A fetch for it runs: its time is up when that ends, not before.
pub(super) fn defer(txn: &mut dyn Transaction, id: &EventId, hold: Hold, now: Time) -> Result<()> {
    holds::set(txn, id, &Hold { deadline: now.plus(DEFERRED_FOR), ..hold })
}

const DEFERRED_FOR: Duration = Duration::from_secs(10);

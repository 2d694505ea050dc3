//! Events come to be served, and versions they replace are remembered. A state is only served
//! through here after its refs have moved.

use super::held_room::{self, HeldPlace};
use super::holds;
use super::plan::view_key;
use super::views::HISTORY_MAX;
use super::wanted;
use crate::hub::Fresh;
use grasp_core::hold::Hold;
use grasp_core::nip34::State;
use grasp_core::terms::Term;
use grasp_core::{Coordinate, EventId, Kind, Time, VerifiedEvent};
use grasp_store::{Provenance, Put, Result, Shelf, Space, StoredEvent, Transaction};
use std::sync::Arc;

/// Serves an event; a version that it beats goes into history, or ends if it waited.
pub(super) fn serve(
    txn: &mut dyn Transaction,
    event: &Arc<VerifiedEvent>,
    from: &Provenance,
) -> Result<Vec<Fresh>> {
    let coordinate = event.coordinate();
    let replaced = match &coordinate {
        Some(coordinate) if has_history(event.kind) => txn.current(Space::Served, coordinate)?,
        _ => None,
    };
    let fresh = match txn.put(Space::Served, event, from)? {
        Put::Stored { serial, .. } => {
            wanted::forget_older(txn, event)?;
            if let Some(replaced) = replaced {
                remember(txn, &replaced)?;
            }
            vec![Fresh { serial: Some(serial), event: Arc::clone(event) }]
        }
        // Its branches are in force even if its author has said something newer about nothing.
        Put::Superseded if names_objects(event) => {
            txn.put(Space::History, event, from)?;
            Vec::new()
        }
        Put::Duplicate | Put::Superseded => Vec::new(),
    };
    // A version that waited is over once a newer one is served. A state that names no object ends
    // nothing: the one that waits goes on governing the branches.
    let names_nothing = event.kind == Kind::STATE && !names_objects(event);
    if let Some(coordinate) = coordinate.filter(|_| !names_nothing) {
        let held = txn.current(Space::Held, &coordinate)?;
        if let Some(held) = held.filter(|held| event.rank().beats(&held.event.rank())) {
            txn.remove(Space::Held, &held.event.id)?;
            holds::end(txn, &held.event.id)?;
        }
    }
    if event.kind == Kind::ANNOUNCEMENT
        && let Some(repo) = event.coordinate().and_then(|it| it.repo())
    {
        txn.remove_note(Shelf::Parked, &view_key(&repo))?;
    }
    Ok(fresh)
}

fn names_objects(event: &VerifiedEvent) -> bool {
    event.kind == Kind::STATE && State::parse(event).is_ok_and(|state| state.names_objects())
}

/// Durable, unseen, and with a deadline.
pub(super) fn keep_waiting(
    txn: &mut dyn Transaction,
    event: &VerifiedEvent,
    from: &Provenance,
    hold: Hold,
) -> Result<Vec<Fresh>> {
    if let Put::Stored { replaced, .. } = txn.put(Space::Held, event, from)? {
        if let Some(older) = replaced {
            holds::end(txn, &older)?;
        }
        holds::set(txn, &event.id, &hold)?;
        held_room::enter(txn, &event.id, &HeldPlace::of(event, from))?;
    }
    Ok(Vec::new())
}

/// Serves an event that was held.
pub(super) fn serve_released(
    txn: &mut dyn Transaction,
    id: &EventId,
    now: Time,
) -> Result<Vec<Fresh>> {
    let Some(held) = txn.remove(Space::Held, id)? else { return Ok(Vec::new()) };
    holds::end(txn, id)?;
    let from = Provenance { released: Some(now), ..held.provenance };
    serve(txn, &Arc::new(held.event), &from)
}

pub(super) const fn has_history(kind: Kind) -> bool {
    matches!(kind, Kind::STATE | Kind::ANNOUNCEMENT)
}

/// Keeps a version that is no longer served, and the last few before it.
pub(super) fn remember(txn: &mut dyn Transaction, gone: &StoredEvent) -> Result<()> {
    txn.put(Space::History, &gone.event, &gone.provenance)?;
    let Some(coordinate) = gone.event.coordinate() else { return Ok(()) };
    for old in versions(txn, &coordinate)?.iter().skip(HISTORY_MAX) {
        txn.remove(Space::History, &old.event.id)?;
    }
    Ok(())
}

fn versions(txn: &dyn Transaction, of: &Coordinate) -> Result<Vec<StoredEvent>> {
    txn.newest(Space::History, &Term::coordinate(of), HISTORY_MAX + 1)
}

/// Serves the version before the one that was taken back, unless that was taken back as well.
pub(super) fn restore(txn: &mut dyn Transaction, of: &Coordinate) -> Result<Vec<Fresh>> {
    if !has_history(of.kind) || txn.current_position(Space::Served, of)?.is_some() {
        return Ok(Vec::new());
    }
    for earlier in versions(txn, of)? {
        txn.remove(Space::History, &earlier.event.id)?;
        if !txn.erased(&earlier.event)?.reaches(&earlier.event) {
            return serve(txn, &Arc::new(earlier.event), &earlier.provenance);
        }
    }
    Ok(Vec::new())
}

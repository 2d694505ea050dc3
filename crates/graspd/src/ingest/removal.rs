//! Events go: deleted, vanished, withdrawn, expired. Whatever goes is named to those who have to
//! look at the repositories again, and what it replaced comes back where its author left that.

use super::admit::Effects;
use super::claims;
use super::holds;
use super::plan::view_key;
use super::serving::{has_history, keep_waiting, restore, serve};
use crate::hub::Fresh;
use grasp_core::hold::Hold;
use grasp_core::nip09::{Deletion, Vanish};
use grasp_core::policy::{Remains, Withdrawal};
use grasp_core::terms::Term;
use grasp_core::{Event, EventId, Kind, Time, Timestamp, VerifiedEvent};
use grasp_store::{Provenance, Result, Shelf, Space, Transaction};
use std::sync::Arc;

/// Events of a vanished author removed together with the request; the rest follows in sweeps.
pub(super) const SWEEP_MAX: usize = 2_000;
/// Waiting states removed with the announcement that leaves.
const STATES_DROPPED_MAX: usize = 256;

/// Takes one event out and notes whom that concerns.
pub(super) fn remove(
    txn: &mut dyn Transaction,
    space: Space,
    id: &EventId,
    now: Time,
    effects: &mut Effects,
) -> Result<()> {
    if let Some(gone) = txn.remove(space, id)? {
        went(txn, space, &gone.event, now, effects)?;
    }
    Ok(())
}

/// What follows from an event that is no longer there.
fn went(
    txn: &mut dyn Transaction,
    space: Space,
    event: &Event,
    now: Time,
    effects: &mut Effects,
) -> Result<()> {
    match space {
        // A version that is no longer served may still be what the branches follow.
        Space::Served | Space::Held | Space::History => effects.affected.event(event),
        Space::Wanted => {
            txn.remove_note(Shelf::Wanted, event.id.as_bytes())?;
        }
        Space::Aside => {}
    }
    if space == Space::Held {
        holds::end(txn, &event.id)?;
    }
    if matches!(space, Space::Served | Space::Held) {
        claims::release_all(txn, event)?;
    }
    let repo = event.coordinate().and_then(|it| it.repo());
    match (repo, space) {
        (Some(repo), Space::Served) => {
            effects.affected.repo(&repo).left = true;
            txn.put_note(Shelf::Parked, &view_key(&repo), &now.0.to_be_bytes())?;
        }
        // It never was whole, but some of its objects may have come.
        (Some(repo), Space::Held) => {
            let is_served = txn.current_position(Space::Served, &repo.coordinate())?.is_some();
            let is_parked = txn.note(Shelf::Parked, &view_key(&repo))?.is_some();
            if !is_served && !is_parked {
                txn.put_note(Shelf::Parked, &view_key(&repo), &now.0.to_be_bytes())?;
            }
        }
        _ => {}
    }
    Ok(())
}

/// NIP-09: own targets go, and what was named stays away, seen before or not.
pub(super) fn bury(
    txn: &mut dyn Transaction,
    deletion: &Deletion,
    now: Time,
    effects: &mut Effects,
) -> Result<Vec<Fresh>> {
    for id in &deletion.ids {
        txn.bury_event(id, &deletion.author, deletion.at)?;
    }
    for coordinate in &deletion.coordinates {
        txn.bury_coordinate(coordinate, deletion.at)?;
    }
    let mut bereft = deletion.coordinates.clone();
    for space in [Space::History, Space::Wanted, Space::Held, Space::Served] {
        for id in &deletion.ids {
            let header = txn.header(space, id)?;
            if !header.is_some_and(|found| deletion.covers_named(&found.author, found.kind)) {
                continue;
            }
            if header.is_some_and(|found| space == Space::Served && has_history(found.kind)) {
                bereft.extend(txn.get(space, id)?.and_then(|found| found.event.coordinate()));
            }
            remove(txn, space, id, now, effects)?;
        }
        for coordinate in &deletion.coordinates {
            let named = txn.newest(space, &Term::coordinate(coordinate), usize::MAX)?;
            for found in named.iter().filter(|found| deletion.covers(&found.event)) {
                remove(txn, space, &found.event.id, now, effects)?;
            }
        }
    }
    let mut fresh = Vec::new();
    for coordinate in &bereft {
        fresh.extend(restore(txn, coordinate)?);
    }
    Ok(fresh)
}

pub(super) fn vanish_author(
    txn: &mut dyn Transaction,
    vanish: &Vanish,
    now: Time,
    effects: &mut Effects,
) -> Result<()> {
    txn.bury_author(&vanish.author, vanish.at)?;
    sweep_vanished(txn, now, effects)
}

pub(super) fn sweep_vanished(
    txn: &mut dyn Transaction,
    now: Time,
    effects: &mut Effects,
) -> Result<()> {
    let mut gone = Vec::new();
    txn.sweep_vanished(SWEEP_MAX, &mut |space, event| {
        gone.extend(concerning(space, &event.event));
    })?;
    gone.iter().try_for_each(|(space, event)| went(txn, *space, event, now, effects))
}

/// NIP-40.
pub(super) fn sweep_expired(
    txn: &mut dyn Transaction,
    at: Timestamp,
    now: Time,
    effects: &mut Effects,
) -> Result<()> {
    let mut gone = Vec::new();
    let mut keep = |space: Space, event: &VerifiedEvent| gone.extend(concerning(space, event));
    txn.sweep_expired(at, SWEEP_MAX, &mut |space, event| keep(space, &event.event))?;
    gone.iter().try_for_each(|(space, event)| went(txn, *space, event, now, effects))
}

/// Those that a repository may look different without.
fn concerning(space: Space, event: &VerifiedEvent) -> Option<(Space, VerifiedEvent)> {
    let kinds = [Kind::ANNOUNCEMENT, Kind::STATE, Kind::PULL_REQUEST, Kind::PULL_REQUEST_UPDATE];
    let waits = matches!(space, Space::Held | Space::Wanted);
    (waits || kinds.contains(&event.kind)).then(|| (space, event.clone()))
}

/// An owner leaves, at this wall time; what is said instead may have to wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Departure<'a> {
    pub(super) withdrawal: &'a Withdrawal,
    pub(super) hold: Hold,
    pub(super) wall: Time,
}

/// The owner left: the repository's announcement is no longer served.
pub(super) fn withdraw(
    txn: &mut dyn Transaction,
    event: &Arc<VerifiedEvent>,
    from: &Provenance,
    departure: Departure<'_>,
    effects: &mut Effects,
) -> Result<Vec<Fresh>> {
    let Departure { withdrawal, hold, wall: now } = departure;
    let coordinate = withdrawal.repo.coordinate();
    // First it has its place: if there is no room for it, nothing has happened.
    let (stays, fresh) = match withdrawal.remains {
        Remains::Served => (Space::Served, serve(txn, event, from)?),
        Remains::Held(_) => (Space::Held, keep_waiting(txn, event, from, hold)?),
        Remains::Aside(_) => (Space::Aside, set_aside(txn, event, from)?),
    };
    for space in [Space::Served, Space::Held].into_iter().filter(|space| *space != stays) {
        if let Some(current) = txn.current(space, &coordinate)? {
            remove(txn, space, &current.event.id, now, effects)?;
        }
    }
    effects.affected.repo(&withdrawal.repo).left = true;
    txn.put_note(Shelf::Parked, &view_key(&withdrawal.repo), &now.0.to_be_bytes())?;
    drop_waiting_states(txn, withdrawal.repo.identifier.as_str(), now, effects)?;
    Ok(fresh)
}

fn set_aside(
    txn: &mut dyn Transaction,
    event: &VerifiedEvent,
    from: &Provenance,
) -> Result<Vec<Fresh>> {
    txn.put(Space::Aside, event, from)?;
    Ok(Vec::new())
}

/// States that waited for a repository wait for nothing once no announcement of that name is left.
fn drop_waiting_states(
    txn: &mut dyn Transaction,
    identifier: &str,
    now: Time,
    effects: &mut Effects,
) -> Result<()> {
    let announced = Term::announces(identifier);
    for space in [Space::Served, Space::Held] {
        if txn.has_term(space, &announced)? {
            return Ok(());
        }
    }
    let named = txn.newest(Space::Held, &Term::tag(b'd', identifier), STATES_DROPPED_MAX)?;
    for state in named.iter().filter(|named| named.event.kind == Kind::STATE) {
        remove(txn, Space::Held, &state.event.id, now, effects)?;
    }
    Ok(())
}

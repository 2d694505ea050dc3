//! What another relay's events are compared with (S-18): all that is here, served or waiting, and
//! what was refused before. Reads in short pages, so that no snapshot lives long.

use super::refused;
use grasp_core::{EventId, Filter, Timestamp};
use grasp_store::{
    Budget, Cursor, EventStore, Hit, Progress, Result, Shelf, Snapshot, Space, Want,
};
use std::sync::Arc;

const PAGE: Budget = Budget { steps: 20_000, bytes: usize::MAX };
/// Ids looked up under one snapshot.
const LOOKED_UP: usize = 1_000;

/// What we have for a filter, whatever its limit says, in no useful order. It stops at one more than
/// `items_max`, which is how the caller sees that there are too many.
pub fn inventory(
    store: &dyn EventStore,
    filter: &Filter,
    now: Timestamp,
    items_max: usize,
) -> Result<Vec<(Timestamp, EventId)>> {
    let filters: Arc<[Filter]> = [Filter { limit: None, ..filter.clone() }].into();
    let mut items = Vec::new();
    for space in [Space::Served, Space::Held] {
        let mut cursor = Cursor::new(filters.clone(), Want::Positions, u64::MAX, now);
        let mut progress = Progress::Paused;
        while progress == Progress::Paused && items.len() <= items_max {
            let mut sink =
                |hit: Hit<'_>| items.push((hit.position.created_at(), hit.position.id()));
            progress = store.read()?.advance(space, &mut cursor, &mut { PAGE }, &mut sink)?;
        }
    }
    items.extend(refused::positions(&*store.read()?, filter)?);
    // An event that was released between two pages was seen twice.
    items.sort_unstable();
    items.dedup();
    items.truncate(items_max.saturating_add(1));
    Ok(items)
}

/// Those of these ids that nothing is known of here: worth fetching.
pub fn unknown(store: &dyn EventStore, mut ids: Vec<EventId>) -> Result<Vec<EventId>> {
    let mut unknown = Vec::new();
    while !ids.is_empty() {
        let snapshot = store.read()?;
        for id in ids.drain(..ids.len().min(LOOKED_UP)) {
            if !is_known(&*snapshot, &id)? {
                unknown.push(id);
            }
        }
    }
    Ok(unknown)
}

fn is_known(store: &dyn Snapshot, id: &EventId) -> Result<bool> {
    for space in Space::ALL {
        if store.contains(space, id)? {
            return Ok(true);
        }
    }
    Ok(store.note(Shelf::Expired, id.as_bytes())?.is_some() || refused::is_refused(store, id)?)
}

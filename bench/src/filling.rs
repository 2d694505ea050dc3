//! Puts events straight into a stopped server's store: what is measured afterwards is reading, and
//! signing a million events would only make everybody wait.

use anyhow::Result;
use grasp_core::id::Signature;
use grasp_core::{Event, EventId, Kind, PubKey, Time, Timestamp, VerifiedEvent};
use grasp_store::{EventStore, LmdbStore, Options, Provenance, Space};
use grasp_testkit::Random;
use std::path::Path;

/// Events per transaction.
const HELPING: usize = 20_000;
const MAP_BYTES: usize = 4 << 30;

pub(crate) fn open(directory: &Path) -> Result<LmdbStore> {
    let options = Options { map_bytes: MAP_BYTES, ..Options::default() };
    Ok(LmdbStore::open(directory, &options)?)
}

pub(crate) fn put_all(directory: &Path, events: &[VerifiedEvent]) -> Result<()> {
    let store = open(directory)?;
    for helping in events.chunks(HELPING) {
        put(&store, helping)?;
    }
    Ok(())
}

fn put(store: &LmdbStore, events: &[VerifiedEvent]) -> Result<()> {
    let from = Provenance::direct(Time(0));
    store.write(&mut |txn| {
        for event in events {
            txn.put(Space::Served, event, &from)?;
        }
        Ok(())
    })?;
    Ok(())
}

/// Fills a store with events that are stored as if they had been verified; their ids are random,
/// as hashes are, and several share a second.
pub(crate) fn unsigned(directory: &Path, count: usize) -> Result<Vec<(Timestamp, EventId)>> {
    let store = open(directory)?;
    let mut random = Random::seeded(count as u64);
    let authors: Vec<PubKey> = (0..100).map(|_| PubKey::from_bytes(random.bytes32())).collect();
    let mut positions = Vec::with_capacity(count);
    let mut helping = Vec::with_capacity(HELPING);
    for number in 0..count {
        let created_at = Timestamp(1_700_000_000 + number as u64 / 3);
        let id = EventId::from_bytes(random.bytes32());
        helping.push(made_up(id, *random.pick(&authors), created_at)?);
        positions.push((created_at, id));
        if helping.len() == HELPING || number + 1 == count {
            put(&store, &helping)?;
            helping.clear();
        }
    }
    Ok(positions)
}

fn made_up(id: EventId, pubkey: PubKey, created_at: Timestamp) -> Result<VerifiedEvent> {
    let event = Event {
        id,
        pubkey,
        created_at,
        kind: Kind::ISSUE,
        tags: Vec::new(),
        content: "an issue nobody signed".to_owned(),
        sig: Signature::from_bytes([0; 64]),
    };
    Ok(VerifiedEvent::from_stored(event.to_json().into())?)
}

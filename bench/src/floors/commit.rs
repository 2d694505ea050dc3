//! One event, one transaction, one sync: how long the disk takes before anybody may say OK. The
//! store has been used before, as a server's has: its file need not grow for each event.

use crate::filling;
use crate::stats::Latencies;
use anyhow::Result;
use grasp_core::{Time, VerifiedEvent};
use grasp_store::{EventStore, Provenance, Space};
use std::time::Instant;

pub(crate) fn latencies(before: &[VerifiedEvent], events: &[VerifiedEvent]) -> Result<Latencies> {
    let directory = tempfile::tempdir()?;
    for helping in before.chunks(500).take(20) {
        filling::put_all(directory.path(), helping)?;
    }
    let store = filling::open(directory.path())?;
    let from = Provenance::direct(Time(0));
    let mut latencies = Latencies::default();
    for event in events {
        let started = Instant::now();
        store.write(&mut |txn| txn.put(Space::Served, event, &from).map(drop))?;
        latencies.add(started.elapsed());
    }
    Ok(latencies)
}

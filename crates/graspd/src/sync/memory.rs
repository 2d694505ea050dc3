//! What is known of other relays, on the disk: one note each, written by the one writer.

use crate::ingest::Ingest;
use crate::ledger::{self, Chronicle, Peer};
use crate::readers::Readers;
use anyhow::Context;
use grasp_core::RelayUrl;
use grasp_engine::Record;
use grasp_store::{Shelf, StoreError, Transaction};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;

#[derive(Serialize, Deserialize)]
struct Row {
    relay: RelayUrl,
    record: Record,
    #[serde(default)]
    chronicle: Chronicle,
}

pub(super) type Recalled = (RelayUrl, Record, Chronicle);

/// Of one relay at a time; the oldest go by themselves.
const FORGOTTEN_ROWS_MAX: usize = 1_000;
/// More rows than relays can be followed are of no use.
const ROWS_MAX: usize = 100_000;

pub(super) async fn recall(readers: &Readers) -> anyhow::Result<Vec<Recalled>> {
    let found = readers.ask(|store| {
        let snapshot = store.read()?;
        let notes = snapshot.notes(Shelf::Relays, &[], ROWS_MAX)?;
        let has_verdicts = ledger::tally(&*snapshot).is_ok_and(|it| it.rows() > 0);
        Ok::<_, StoreError>((notes, has_verdicts))
    });
    let (notes, has_verdicts) = found.await.context("the store's readers are gone")??;
    // A row this version cannot read is a relay met for the first time.
    let rows = notes.iter().filter_map(|(_, value)| serde_json::from_slice::<Row>(value).ok());
    let recalled = rows.map(|Row { relay, mut record, chronicle }| {
        // Of what was found out nothing is left to show.
        record.verified = record.verified.filter(|_| has_verdicts);
        (relay, record, chronicle)
    });
    Ok(recalled.collect())
}

pub(super) async fn write(ingest: &Ingest, records: &[Recalled], forgotten: &BTreeSet<RelayUrl>) {
    let kept = records.iter().filter_map(|(relay, record, chronicle)| {
        let (record, chronicle) = (record.clone(), chronicle.clone());
        let row = Row { relay: relay.clone(), record, chronicle };
        Some((key(relay), serde_json::to_vec(&row).ok()?))
    });
    let kept: Vec<(Vec<u8>, Vec<u8>)> = kept.collect();
    let gone: Vec<RelayUrl> = forgotten.iter().cloned().collect();
    if kept.is_empty() && gone.is_empty() {
        return;
    }
    let jotting = Box::new(move |txn: &mut dyn Transaction| {
        for (key, value) in &kept {
            txn.put_note(Shelf::Relays, key, value)?;
        }
        for relay in &gone {
            txn.remove_note(Shelf::Relays, &key(relay))?;
            ledger::forget_peer(txn, &Peer::Relay(relay.clone()), FORGOTTEN_ROWS_MAX)?;
        }
        Ok(())
    });
    ingest.jot(jotting).await;
}

/// Addresses may be longer than a key.
fn key(relay: &RelayUrl) -> Vec<u8> {
    Sha256::digest(relay.as_str().as_bytes()).iter().copied().take(16).collect()
}

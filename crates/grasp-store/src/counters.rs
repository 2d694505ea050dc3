//! Small numbers kept beside the events. A transaction collects its changes and writes each number
//! once, however many events it touched; its own reads see them at once.

use crate::Result;
use crate::space::{Space, Table};
use grasp_core::Kind;
use heed::{RoTxn, RwTxn};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Counter {
    /// The serial of the newest event; never falls.
    LastSerial,
    Kind(Space, Kind),
    Bytes(Space),
}

impl Counter {
    fn key(self) -> Vec<u8> {
        match self {
            Counter::LastSerial => b"last-serial".to_vec(),
            Counter::Kind(space, kind) => {
                [b"kind/", space.name().as_bytes(), b"/", &kind.0.to_be_bytes()].concat()
            }
            Counter::Bytes(space) => [b"bytes/", space.name().as_bytes()].concat(),
        }
    }
}

/// Changes of one transaction that are not in the table yet.
#[derive(Debug, Default)]
pub(crate) struct Unsaved(BTreeMap<Counter, i64>);

impl Unsaved {
    pub(crate) const fn none() -> Self {
        Self(BTreeMap::new())
    }

    pub(crate) fn add(&mut self, counter: Counter, change: i64) {
        *self.0.entry(counter).or_default() += change;
    }

    pub(crate) fn read(&self, table: &Table, txn: &RoTxn, counter: Counter) -> Result<u64> {
        let bytes = table.get(txn, &counter.key())?;
        let saved = bytes.and_then(|b| b.try_into().ok()).map_or(0, u64::from_be_bytes);
        Ok(saved.saturating_add_signed(self.0.get(&counter).copied().unwrap_or(0)))
    }

    pub(crate) fn save(&mut self, table: &Table, txn: &mut RwTxn<'_>) -> Result<()> {
        for counter in self.0.keys() {
            let number = self.read(table, txn, *counter)?;
            table.put(txn, &counter.key(), &number.to_be_bytes())?;
        }
        self.0.clear();
        Ok(())
    }
}

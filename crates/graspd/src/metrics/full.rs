//! Tables that refused something for want of room: which, how often, and when last. Each is a problem
//! for a while after its last refusal.

use grasp_core::Time;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A table with a limit, full of which an operator should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FullTable {
    /// Events that wait for git data.
    Held,
    /// Deletion requests that came before what they delete.
    Aside,
    /// Repositories whose git data is looked for.
    FetchQueue,
    /// Verdicts about repositories at other servers.
    Ledger,
    /// Pull requests of one repository.
    Proposals,
    /// Lists of GRASP servers (kind 10317).
    GraspLists,
    /// Deletions that are remembered.
    Deletions,
    /// Git requests that run at the same time.
    GitSlots,
    /// Open connections.
    Connections,
}

impl FullTable {
    pub const ALL: [Self; 9] = [
        Self::Held,
        Self::Aside,
        Self::FetchQueue,
        Self::Ledger,
        Self::Proposals,
        Self::GraspLists,
        Self::Deletions,
        Self::GitSlots,
        Self::Connections,
    ];

    /// The code of its problem; where an event is refused for it, also the code of the refusal.
    pub const fn code(self) -> &'static str {
        match self {
            Self::Held => "held-full",
            Self::Aside => "aside-full",
            Self::FetchQueue => "fetch-queue-full",
            Self::Ledger => "ledger-full",
            Self::Proposals => "proposals-full",
            Self::GraspLists => "grasp-lists-full",
            Self::Deletions => "burials-full",
            Self::GitSlots => "git-slots-full",
            Self::Connections => "connections-full",
        }
    }

    fn of_code(code: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.code() == code)
    }
}

/// How long after its last refusal a table is told of.
const FULL_TOLD_FOR: Duration = Duration::from_secs(300);

#[derive(Debug, Default)]
pub struct FullTables([Refusals; FullTable::ALL.len()]);

#[derive(Debug, Default)]
struct Refusals {
    count: AtomicU64,
    /// Zero: never.
    last_ms: AtomicU64,
}

impl FullTables {
    /// This table had no room for something.
    pub fn refused(&self, table: FullTable, now: Time) {
        if let Some(refusals) = self.0.get(table as usize) {
            refusals.count.fetch_add(1, Ordering::Relaxed);
            refusals.last_ms.store(now.0, Ordering::Relaxed);
        }
    }

    /// An event was refused with this code, which may be that of a full table.
    pub fn event_refused(&self, code: &str, now: Time) {
        if let Some(table) = FullTable::of_code(code) {
            self.refused(table, now);
        }
    }

    /// The tables that refused something lately, each with the number of refusals since the start.
    pub fn lately(&self, now: Time) -> Vec<(FullTable, u64)> {
        let tables = FullTable::ALL.into_iter().zip(&self.0);
        let lately = tables.filter(|(_, it)| {
            let last = Time(it.last_ms.load(Ordering::Relaxed));
            last != Time(0) && now.since(last) < FULL_TOLD_FOR
        });
        lately.map(|(table, it)| (table, it.count.load(Ordering::Relaxed))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_told_of_for_a_while_after_its_last_refusal() {
        let tables = FullTables::default();
        let at = Time::from_secs;
        assert_eq!(tables.lately(at(1_000)), []);
        tables.refused(FullTable::FetchQueue, at(1_000));
        tables.event_refused("held-full", at(1_100));
        tables.event_refused("held-full", at(1_200));
        tables.event_refused("held-key-full", at(1_200));
        let both = [(FullTable::Held, 2), (FullTable::FetchQueue, 1)];
        assert_eq!(tables.lately(at(1_299)), both);
        assert_eq!(tables.lately(at(1_499)), [(FullTable::Held, 2)]);
        assert_eq!(tables.lately(at(1_500)), []);
    }

    #[test]
    fn every_table_has_its_own_place_and_code() {
        for (number, table) in FullTable::ALL.into_iter().enumerate() {
            assert_eq!(table as usize, number);
            assert_eq!(FullTable::of_code(table.code()), Some(table));
        }
    }
}

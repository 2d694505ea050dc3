//! What came of each relay over time, shared by the links, who count, and the driver, who measures and
//! writes it down.

use crate::ledger::{Chronicle, Received};
use grasp_core::{RelayUrl, Time};
use grasp_engine::Account;
use grasp_store::SourceKind;
use parking_lot::Mutex;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(super) struct History(Mutex<BTreeMap<RelayUrl, Chronicle>>);

impl History {
    pub(super) fn recall(&self, relay: &RelayUrl, chronicle: Chronicle) {
        self.0.lock().insert(relay.clone(), chronicle);
    }

    pub(super) fn of(&self, relay: &RelayUrl) -> Option<Chronicle> {
        self.0.lock().get(relay).cloned()
    }

    pub(super) fn forget(&self, relay: &RelayUrl) {
        self.0.lock().remove(relay);
    }

    /// An event that is new here came from it; late, if it is a gap.
    pub(super) fn received(&self, relay: &RelayUrl, source: SourceKind, gap: bool) {
        let late = |wanted| u64::from(gap && source == wanted);
        let more = Received {
            events: 1,
            gaps: late(SourceKind::Backfill),
            gaps_sustained: late(SourceKind::Daily),
        };
        self.0.lock().entry(relay.clone()).or_default().counts.add(&more);
    }

    /// True if a quarter hour ended.
    pub(super) fn measure(&self, relay: &RelayUrl, account: &Account, now: Time) -> bool {
        self.0.lock().entry(relay.clone()).or_default().measure(account, now)
    }
}

//! The ledger (S-30, S-43): how each repository stands at every other place that should have it, its
//! events and its refs, since when, and why. What is told of it is read from rows alone; those who
//! compare are `sync/` for events and [`checks`] for refs.

pub mod checks;
mod chronicle;
mod ends;
mod lagging;
mod look;
mod news;
mod place;
pub mod refs;
pub mod rounds;
mod row;
mod shelf;
mod tell;
mod words;

pub use chronicle::{Chronicle, Received, SLOTS, uptime_percent};
pub use lagging::{LaggingServer, lagging};
pub use row::{Counts, Fingerprint, Look, Peer, RefCounts, Row, Seen, Why};
pub use shelf::{
    ROWS_MAX, Sums, Tally, forget_old_shapes, forget_older, forget_peer, has_old_shapes, keep_only,
    of, of_peer, set, sums, sums_at, tally, tally_at,
};
pub use tell::{LedgerView, of_relay, summary};

use crate::report::Slot;
use crate::sync::Watch;
use grasp_core::{RelayUrl, Time};

/// All addresses one announcement may make us look at, of either kind.
pub const ADDRESSES_MAX: usize = 20;

/// The last day of a relay in quarter hours, the latest first.
pub fn timeline(watch: &Watch, relay: &RelayUrl, now: Time) -> Vec<Slot> {
    watch.chronicle(relay).map(|it| it.timeline(now)).unwrap_or_default()
}

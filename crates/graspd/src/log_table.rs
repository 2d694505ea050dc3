//! The log lines about other servers as one table (S-42): level, target, message and fields of each,
//! and how often it may be written. The table makes the lines, so the two cannot disagree.

use grasp_core::{Coordinate, Domain, EventId, Kind, RelayUrl, Time};
use grasp_engine::hunt::FamilyId;
use std::time::Duration;
use tracing::Level;

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRow {
    pub name: &'static str,
    pub level: Level,
    pub target: &'static str,
    pub message: &'static str,
    pub fields: &'static [&'static str],
    pub limit: Option<LogLimit>,
}

/// So many lines of one row about one subject within such a time; the next one carries the number
/// of those that were left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimit {
    pub lines_max: u32,
    pub per: Duration,
}

/// The field that every row with a limit has besides its own.
pub const LEFT_OUT: &str = "left_out";

macro_rules! log_table {
    ($(
        $row:ident: $level:ident $target:literal $message:literal { $($field:ident: $kind:ty),+ }
        $(limit $lines:literal in $secs:literal by $($key:ident)*)?;
    )+) => {
        /// A line with its values.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum LogLine {
            $($row { $($field: $kind),+ },)+
        }

        pub const LOG_TABLE: &[LogRow] = &[$(LogRow {
            name: stringify!($row),
            level: Level::$level,
            target: $target,
            message: $message,
            fields: &[$(stringify!($field)),+ $(, log_table!(@left_out $lines))?],
            limit: log_table!(@limit $($lines $secs)?),
        },)+];

        /// The rows by name, so that a line finds its own.
        #[derive(Clone, Copy)]
        enum RowNumber { $($row),+ }

        impl LogLine {
            pub fn row(&self) -> &'static LogRow {
                let number = match self { $(Self::$row { .. } => RowNumber::$row as usize,)+ };
                LOG_TABLE.get(number).unwrap_or(&LOG_TABLE[0])
            }

            /// What a limit counts by: lines about the same subject.
            pub fn subject(&self) -> String {
                match self {
                    $(Self::$row { $($($key,)*)? .. } => {
                        let parts: &[String] = &[$($($key.to_string()),*)?];
                        parts.join(" ")
                    })+
                }
            }

            /// Writes the line; `left_out` lines like it were not written since the last one.
            pub fn write(&self, left_out: u64) {
                // Rows without a limit have no such field.
                let _ = left_out;
                match self {
                    $(Self::$row { $($field),+ } => tracing::event!(
                        target: $target,
                        Level::$level,
                        $($field = %$field,)+
                        $(left_out = log_table!(@count $lines left_out),)?
                        $message
                    ),)+
                }
            }
        }
    };
    (@left_out $lines:literal) => { LEFT_OUT };
    (@limit) => { None };
    (@limit $lines:literal $secs:literal) => {
        Some(LogLimit { lines_max: $lines, per: Duration::from_secs($secs) })
    };
    (@count $lines:literal $count:ident) => { $count };
}

/// A number of a batch, if the line is about one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchNumber(pub Option<u64>);

impl std::fmt::Display for BatchNumber {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(number) => number.fmt(f),
            None => f.write_str("none"),
        }
    }
}

log_table! {
    RelayConnected: INFO "graspd::sync" "connected" { relay: RelayUrl }
        limit 3 in 600 by relay;
    RelayFailed: WARN "graspd::sync" "no link to the relay"
        { relay: RelayUrl, why: String, attempt: u32, retry_secs: u64 }
        limit 2 in 600 by relay;
    RelayDead: ERROR "graspd::sync" "the relay is dead: it is tried rarely from now on"
        { relay: RelayUrl, failed_secs: u64, retry_secs: u64 };
    RelayRecovered: INFO "graspd::sync" "the relay is well again" { relay: RelayUrl }
        limit 1 in 600 by relay;
    StaleReconnect: INFO "graspd::sync" "back after a long absence; everything is asked for anew"
        { relay: RelayUrl, away_secs: u64 } limit 1 in 600 by relay;
    RelayUnwanted: INFO "graspd::sync" "disconnected: no repository names the relay any more"
        { relay: RelayUrl } limit 10 in 60 by;
    SubscriptionFailed: WARN "graspd::sync" "the relay ended or ignored a subscription"
        { relay: RelayUrl, batch: BatchNumber, why: String }
        limit 1 in 600 by relay why;
    ComparisonFallback: WARN "graspd::sync" "comparing by NIP-77 failed; the history is read in pages"
        { relay: RelayUrl, why: String } limit 1 in 600 by relay why;
    ComparisonFailed: DEBUG "graspd::sync" "another comparison failed for the same reason"
        { relay: RelayUrl, why: String };
    RelayCooling: WARN "graspd::sync" "the relay asked us to slow down"
        { relay: RelayUrl, secs: u64 } limit 1 in 600 by relay;
    RelayPaused: WARN "graspd::sync" "the relay does not want our questions"
        { relay: RelayUrl, why: String, secs: u64 } limit 1 in 600 by relay;
    AskedByName: WARN "graspd::sync"
        "too many events are refused; the relay is asked by the names of our repositories"
        { relay: RelayUrl, received: u64, refused: u64, refused_bytes: u64 }
        limit 1 in 3600 by relay;
    RelayRotating: WARN "graspd::sync" "part of the relay is asked for in turn instead of live"
        { relay: RelayUrl, groups: usize } limit 1 in 3600 by relay;
    RelayNotFollowed: DEBUG "graspd::sync" "not followed: as many relays are followed as may be"
        { relay: RelayUrl };
    SecondTooFull: WARN "graspd::sync" "more events in one second than the relay gives out at once"
        { relay: RelayUrl, second: u64 } limit 1 in 3600 by relay;
    DailyBegan: INFO "graspd::sync" "the daily sync began" { relay: RelayUrl, groups: usize };
    DailyEnded: INFO "graspd::sync" "the daily sync is over"
        { relay: RelayUrl, secs: u64, stored: u64 };
    Consolidated: INFO "graspd::sync" "live filters were consolidated"
        { relay: RelayUrl, filters_before: usize, filters_after: usize }
        limit 3 in 600 by relay;
    BatchBegan: DEBUG "graspd::sync" "a batch began"
        { relay: RelayUrl, batch: u64, groups: usize, compares: bool };
    BatchEnded: DEBUG "graspd::sync" "a batch ended"
        { relay: RelayUrl, batch: u64, confirmed: bool, millis: u128 };
    EventLive: DEBUG "graspd::sync" "live" { relay: RelayUrl, id: EventId, kind: Kind };
    EventHistory: DEBUG "graspd::sync" "history" { relay: RelayUrl, id: EventId, kind: Kind };
    EventRejected: DEBUG "graspd::sync" "rejected"
        { relay: RelayUrl, id: EventId, kind: Kind, reason: String };
    Gap: WARN "graspd::sync" "missed while it was live, found in history"
        { relay: RelayUrl, id: EventId, kind: Kind } limit 1 in 3600 by relay;
    SustainedGap: ERROR "graspd::sync" "missed for long, found by the daily sync"
        { relay: RelayUrl, id: EventId, kind: Kind } limit 1 in 3600 by relay;
    PeerLacks: WARN "graspd::sync" "the peer lacks events that are served here"
        { relay: RelayUrl, repo: Coordinate, lacks: u64 } limit 1 in 3600 by relay;
    FetchStarted: INFO "graspd::fetch" "the search for git data started" { tick_ms: u64 };
    FetchQueued: DEBUG "graspd::fetch" "git data is missing" { family: FamilyId, delay_secs: u64 };
    FetchAttempt: DEBUG "graspd::fetch" "looking for git data"
        { family: FamilyId, missing: usize, sources: usize };
    FetchComplete: INFO "graspd::fetch" "all git data is here" { family: FamilyId }
        limit 20 in 60 by;
    FetchIncomplete: DEBUG "graspd::fetch" "git data is still missing"
        { family: FamilyId, missing: usize, attempt: u32, retry_secs: u64 };
    FetchFailed: WARN "graspd::fetch" "a fetch failed"
        { url: String, host: Domain, reason: &'static str, error: String }
        limit 1 in 600 by host reason;
    FetchSlowedDown: WARN "graspd::fetch" "a git server asks to be left alone"
        { domain: Domain, secs: u64 } limit 1 in 600 by domain;
    FetchQueueFull: WARN "graspd::fetch" "too many repositories lack git data; this one waits"
        { family: FamilyId } limit 1 in 600 by;
}

/// Writes lines within their limits. The time is steady time.
#[derive(Debug, Default)]
pub struct LogWriter {
    limiter: parking_lot::Mutex<crate::log_limiter::LogLimiter>,
}

impl LogWriter {
    pub fn write(&self, line: &LogLine, now: Time) {
        let row = line.row();
        let left_out = match row.limit {
            None => Some(0),
            Some(limit) => self.limiter.lock().admit((row.name, line.subject()), limit, now),
        };
        if let Some(left_out) = left_out {
            line.write(left_out);
        }
    }
}

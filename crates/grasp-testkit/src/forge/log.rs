//! What a forge was asked, by whom it does not know. Times are milliseconds since the forge began.

use grasp_core::Oid;
use std::collections::BTreeSet;
use std::time::Duration;

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub what: What,
    pub method: String,
    /// With its query.
    pub path: String,
    /// The number of the connection it came on.
    pub visit: usize,
    /// Names in lower case, in the order they came.
    pub headers: Vec<(String, String)>,
    pub wants: BTreeSet<Oid>,
    pub haves: Vec<Oid>,
    /// When its head was here.
    pub started_ms: u64,
    /// When the answer was out or the other side gone; `None` while it goes on.
    pub ended_ms: Option<u64>,
    /// When its connection was over.
    pub left_ms: Option<u64>,
    /// `None` if no answer was begun.
    pub status: Option<u16>,
    /// How many requests were going on when it came, itself included.
    pub concurrent: usize,
    /// Of the answer's body.
    pub bytes_sent: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    InfoRefs,
    LsRefs,
    FetchV2,
    FetchV0,
    Other,
}

impl Asked {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

/// The most requests that began within any stretch of this length.
pub(super) fn starts_in_any(log: &[Asked], window: Duration) -> usize {
    let window_ms = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
    let mut starts: Vec<u64> = log.iter().map(|asked| asked.started_ms).collect();
    starts.sort_unstable();
    let within = |from: usize| {
        let first = starts[from];
        starts[from..].iter().take_while(|at| **at - first < window_ms).count()
    };
    (0..starts.len()).map(within).max().unwrap_or(0)
}

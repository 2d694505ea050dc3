//! What a relay met: the only way a test learns how others behaved towards it.

use grasp_core::{EventId, Filter, PubKey};
use std::collections::VecDeque;
use std::time::Instant;

const REQUESTS_KEPT: usize = 1_000;

#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// TCP connections, whatever became of them.
    pub dials: u64,
    /// WebSockets.
    pub connections: u64,
    pub connections_open: u64,
    pub connections_most: u64,
    /// Times its NIP-11 page was asked for.
    pub info_pages: u64,
    pub requests: u64,
    pub closes: u64,
    pub negentropy_opens: u64,
    pub negentropy_messages: u64,
    /// Subscriptions and reconciliations one connection had open at once, at most.
    pub subscriptions_most: u64,
    /// Questions it answered by a refusal, in any form.
    pub refusals: u64,
    /// Events that clients handed in.
    pub handed_in: Vec<EventId>,
    /// Who proved to be whom (NIP-42), each time.
    pub signed_in: Vec<PubKey>,
    /// AUTH messages that proved nothing, and why.
    pub bad_auths: Vec<String>,
    pub events_sent: u64,
    pub bytes_sent: u64,
    pub bytes_received: u64,
    /// The filters of the last requests, oldest first.
    pub last_requests: VecDeque<Vec<Filter>>,
    /// Each time one of its own limits was passed.
    pub violations: Vec<String>,
    /// When somebody asked for the past, by REQ or NEG-OPEN; `limit: 0` asks for none.
    pub history_starts: Vec<Instant>,
}

impl Seen {
    pub(super) fn asked(&mut self, filters: &[Filter]) {
        self.requests += 1;
        if self.last_requests.len() == REQUESTS_KEPT {
            self.last_requests.pop_front();
        }
        self.last_requests.push_back(filters.to_vec());
        if filters.iter().any(|filter| filter.limit != Some(0)) {
            self.history_starts.push(Instant::now());
        }
    }

    /// At most so many starts of history in any second.
    pub fn starts_per_second_most(&self) -> usize {
        let starts = &self.history_starts;
        let within = |at: usize| {
            starts[at..].iter().take_while(|it| (**it - starts[at]).as_millis() < 1_000).count()
        };
        (0..starts.len()).map(within).max().unwrap_or(0)
    }
}

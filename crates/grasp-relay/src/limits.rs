//! Every limit of the conversation, by name and with its unit. The session enforces them, NIP-11
//! publishes them, and the texts that refuse something quote them.

use crate::Rate;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// One WebSocket message, in or out.
    pub message_bytes_max: usize,
    /// One event as canonical JSON, which is what is stored.
    pub event_bytes_max: usize,
    pub tags_max: usize,
    pub subscriptions_max: usize,
    pub filters_per_req_max: usize,
    /// At most `SubId::CHARS_MAX`.
    pub subid_chars_max: usize,
    /// Used when a filter names no `limit`.
    pub limit_default: u64,
    pub limit_max: u64,
    /// What the filters of one connection's open subscriptions may occupy.
    pub retained_filter_bytes_max: usize,
    pub retained_filter_bytes_per_ip_max: usize,
    pub neg_sessions_max: usize,
    pub neg_items_max: usize,
    pub neg_frame_bytes: usize,
    /// Messages of one reconciliation that settle nothing further; continuations are free.
    pub neg_rounds_max: u32,
    pub bad_signatures_max: u32,
    pub auth_keys_max: usize,
    pub auth_skew_secs_max: u64,
    pub created_at_ahead_secs_max: u64,
    pub connections_per_ip_max: u32,
    pub ips_max: usize,
    pub events_per_ip: Rate,
    pub announcements_per_ip: Rate,
    pub new_repositories_per_ip: Rate,
    pub held_per_ip: Rate,
    pub uploads_per_ip: Rate,
    /// Requests of git's smart HTTP.
    pub git_requests_per_ip: Rate,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes_max: 1 << 20,
            event_bytes_max: 256 << 10,
            tags_max: 5_000,
            subscriptions_max: 500,
            filters_per_req_max: 20,
            subid_chars_max: 64,
            limit_default: 5_000,
            limit_max: 5_000,
            retained_filter_bytes_max: 5 << 20,
            retained_filter_bytes_per_ip_max: 16 << 20,
            neg_sessions_max: 10,
            neg_items_max: 1_000_000,
            neg_frame_bytes: 60_000,
            neg_rounds_max: 64,
            bad_signatures_max: 20,
            auth_keys_max: 16,
            auth_skew_secs_max: 600,
            created_at_ahead_secs_max: 900,
            connections_per_ip_max: 64,
            ips_max: 100_000,
            events_per_ip: Rate::per_minute(1_200, 2_400),
            announcements_per_ip: Rate::per_hour(120),
            new_repositories_per_ip: Rate::per_day(100),
            held_per_ip: Rate::per_hour(200),
            uploads_per_ip: Rate::per_hour(20),
            git_requests_per_ip: Rate::per_minute(3_000, 3_000),
        }
    }
}

//! The limits as plain numbers, each with its unit in its name. The shell hands them to the crates
//! that keep them; nothing is enforced here beyond their making sense together.

use super::reader::Reader;
use super::table::*;
use grasp_core::hold::Patience;
use std::time::Duration;

/// What one relay conversation may cost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelayLimits {
    pub event_bytes_max: usize,
    pub event_tags_max: usize,
    pub message_bytes_max: usize,
    pub subscriptions_max: usize,
    pub filters_per_req_max: usize,
    pub filter_bytes_per_connection_max: usize,
    pub filter_bytes_per_ip_max: usize,
    pub subid_chars_max: usize,
    /// The largest `limit`, and the one for filters without.
    pub query_events_max: u64,
    pub query_budget: Duration,
    pub outbox_bytes_max: usize,
    /// Zero means one per core.
    pub verify_threads: usize,
    pub auth_keys_max: usize,
    pub auth_skew_secs_max: u64,
    pub negentropy: NegentropyLimits,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NegentropyLimits {
    pub sessions_max: usize,
    pub items_max: usize,
    /// Over all sessions of all connections.
    pub items_total_max: usize,
    pub frame_bytes_max: usize,
    pub rounds_max: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionLimits {
    /// `None`: whatever the descriptors allow.
    pub connections_max: Option<usize>,
    pub descriptor_reserve_percent: u64,
    pub connections_per_ip_max: u32,
    /// Addresses whose budgets are remembered.
    pub ips_max: usize,
    pub bad_events_max: u32,
    pub ping_after: Duration,
    pub idle_timeout: Duration,
    pub ip: IpBudgets,
}

/// Token buckets of one address (IPv6: one /64).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IpBudgets {
    pub events_per_minute: u32,
    pub events_burst: u32,
    pub announcements_per_hour: u32,
    pub repositories_per_day: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpLimits {
    pub header_bytes_max: usize,
    pub headers_max: usize,
    pub header_timeout: Duration,
    pub requests_per_connection_max: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreLimits {
    pub disk_budget_bytes: u64,
    pub held_events_max: u64,
    pub held_bytes_max: u64,
    pub held_per_key_max: u64,
    pub held_per_ip_per_hour: u32,
    /// How long what is held waits.
    pub held: Patience,
    /// Deletion requests of authors with nothing here.
    pub aside_events_max: u64,
    pub aside_bytes_max: u64,
    pub tombstones_per_author_max: usize,
}

impl RelayLimits {
    pub(super) fn read(from: &mut Reader<'_>) -> Self {
        from.at_most(&NGIT_RELAY_MAX_EVENT_SIZE_BYTES, &NGIT_RELAY_MAX_MESSAGE_BYTES);
        from.at_most(&NGIT_RELAY_MAX_EVENT_SIZE_BYTES, &NGIT_RELAY_MAX_OUTBOX_BYTES);
        from.at_most(&NGIT_RELAY_MAX_CONNECTION_FILTERS_BYTES, &NGIT_RELAY_MAX_IP_FILTERS_BYTES);
        Self {
            event_bytes_max: from.count(&NGIT_RELAY_MAX_EVENT_SIZE_BYTES),
            event_tags_max: from.count(&NGIT_RELAY_MAX_EVENT_TAGS),
            message_bytes_max: from.count(&NGIT_RELAY_MAX_MESSAGE_BYTES),
            subscriptions_max: from.count(&NGIT_RELAY_MAX_SUBSCRIPTIONS),
            filters_per_req_max: from.count(&NGIT_RELAY_MAX_FILTERS),
            filter_bytes_per_connection_max: from.count(&NGIT_RELAY_MAX_CONNECTION_FILTERS_BYTES),
            filter_bytes_per_ip_max: from.count(&NGIT_RELAY_MAX_IP_FILTERS_BYTES),
            subid_chars_max: from.count(&NGIT_RELAY_MAX_SUBID_CHARS),
            query_events_max: from.number(&NGIT_RELAY_FILTER_LIMIT),
            query_budget: from.duration(&NGIT_RELAY_QUERY_BUDGET_MS),
            outbox_bytes_max: from.count(&NGIT_RELAY_MAX_OUTBOX_BYTES),
            verify_threads: from.count(&NGIT_RELAY_VERIFY_THREADS),
            auth_keys_max: from.count(&NGIT_RELAY_MAX_AUTH_KEYS),
            auth_skew_secs_max: from.number(&NGIT_RELAY_MAX_AUTH_SKEW_SECS),
            negentropy: NegentropyLimits::read(from),
        }
    }
}

impl NegentropyLimits {
    fn read(from: &mut Reader<'_>) -> Self {
        from.at_most(&NGIT_RELAY_MAX_NEG_ITEMS, &NGIT_RELAY_MAX_NEG_TOTAL_ITEMS);
        Self {
            sessions_max: from.count(&NGIT_RELAY_MAX_NEG_SESSIONS),
            items_max: from.count(&NGIT_RELAY_MAX_NEG_ITEMS),
            items_total_max: from.count(&NGIT_RELAY_MAX_NEG_TOTAL_ITEMS),
            frame_bytes_max: from.count(&NGIT_RELAY_MAX_NEG_FRAME_BYTES),
            rounds_max: from.small(&NGIT_RELAY_MAX_NEG_ROUNDS),
        }
    }
}

impl ConnectionLimits {
    pub(super) fn read(from: &mut Reader<'_>) -> Self {
        from.at_most(&NGIT_RELAY_PING_SECS, &NGIT_RELAY_IDLE_TIMEOUT_SECS);
        Self {
            connections_max: from.count_if_set(&NGIT_MAX_CONNECTIONS),
            descriptor_reserve_percent: from.number(&NGIT_DESCRIPTOR_RESERVE_PERCENT),
            connections_per_ip_max: from.small(&NGIT_MAX_CONNECTIONS_PER_IP),
            ips_max: from.count(&NGIT_MAX_IPS),
            bad_events_max: from.small(&NGIT_RELAY_MAX_BAD_EVENTS),
            ping_after: from.duration(&NGIT_RELAY_PING_SECS),
            idle_timeout: from.duration(&NGIT_RELAY_IDLE_TIMEOUT_SECS),
            ip: IpBudgets {
                events_per_minute: from.small(&NGIT_RELAY_MAX_IP_EVENTS_PER_MINUTE),
                events_burst: from.small(&NGIT_RELAY_MAX_IP_EVENTS_BURST),
                announcements_per_hour: from.small(&NGIT_RELAY_MAX_IP_ANNOUNCEMENTS_PER_HOUR),
                repositories_per_day: from.small(&NGIT_RELAY_MAX_IP_REPOSITORIES_PER_DAY),
            },
        }
    }
}

impl HttpLimits {
    pub(super) fn read(from: &mut Reader<'_>) -> Self {
        Self {
            header_bytes_max: from.count(&NGIT_HTTP_MAX_HEADER_BYTES),
            headers_max: from.count(&NGIT_HTTP_MAX_HEADERS),
            header_timeout: from.duration(&NGIT_HTTP_HEADER_TIMEOUT_SECS),
            requests_per_connection_max: from.number(&NGIT_HTTP_MAX_REQUESTS_PER_CONNECTION),
        }
    }
}

impl StoreLimits {
    pub(super) fn read(from: &mut Reader<'_>) -> Self {
        Self {
            disk_budget_bytes: from.number(&NGIT_RELAY_DISK_BUDGET_BYTES),
            held_events_max: from.number(&NGIT_RELAY_MAX_HELD_EVENTS),
            held_bytes_max: from.number(&NGIT_RELAY_MAX_HELD_BYTES),
            held_per_key_max: from.number(&NGIT_RELAY_MAX_HELD_PER_KEY),
            held_per_ip_per_hour: from.small(&NGIT_RELAY_MAX_IP_HELD_PER_HOUR),
            held: Patience {
                awake: from.duration(&NGIT_HELD_SECS),
                asleep: from.duration(&NGIT_HELD_ANNOUNCEMENT_SECS),
            },
            aside_events_max: from.number(&NGIT_RELAY_MAX_ASIDE_EVENTS),
            aside_bytes_max: from.number(&NGIT_RELAY_MAX_ASIDE_BYTES),
            tombstones_per_author_max: from.count(&NGIT_RELAY_MAX_AUTHOR_TOMBSTONES),
        }
    }
}

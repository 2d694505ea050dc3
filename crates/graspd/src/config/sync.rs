//! The numbers of sync as the engine, the links and the dialler want them. Every number is a setting
//! and none is made up here; what remains is whether they make sense together.

use super::reader::Reader;
use super::table::*;
use super::value::Value;
use grasp_core::RelayUrl;
use grasp_engine::{Patience, Settings};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncConfig {
    /// False: nobody is dialled, and GRASP-02 is not claimed.
    pub enabled: bool,
    /// Followed whatever announcements say, and the only relay that may be at any address.
    pub bootstrap: Option<RelayUrl>,
    pub allow_non_global: bool,
    pub engine: Settings,
    pub patience: Patience,
    pub probe_timeout: Duration,
    pub probe_bytes_max: usize,
    /// How long refused events are kept whole, and how long their ids are remembered.
    pub rejected_hot: Duration,
    pub rejected_cold: Duration,
    pub verdict_age_max: Duration,
}

impl SyncConfig {
    pub(super) fn read(from: &mut Reader<'_>) -> Self {
        check_together(from);
        Self {
            enabled: from.flag(&NGIT_SYNC_ENABLED),
            bootstrap: bootstrap(from),
            allow_non_global: from.flag(&NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS),
            engine: engine(from),
            patience: patience(from),
            probe_timeout: from.duration(&NGIT_SYNC_PROBE_TIMEOUT_MS),
            probe_bytes_max: from.count(&NGIT_SYNC_PROBE_BYTES_MAX),
            rejected_hot: from.duration(&NGIT_REJECTED_HOT_CACHE_DURATION_SECS),
            rejected_cold: from.duration(&NGIT_REJECTED_COLD_INDEX_EXPIRY_SECS),
            verdict_age_max: from.duration(&NGIT_SYNC_VERDICT_MAX_AGE_SECS),
        }
    }
}

fn check_together(from: &mut Reader<'_>) {
    from.at_most(&NGIT_SYNC_DAILY_MIN_HOURS, &NGIT_SYNC_DAILY_MAX_HOURS);
    from.at_most(&NGIT_SYNC_BASE_BACKOFF_SECS, &NGIT_SYNC_MAX_BACKOFF_SECS);
    from.at_most(&NGIT_SYNC_COOLDOWN_SECS, &NGIT_SYNC_COOLDOWN_MAX_SECS);
    from.at_most(&NGIT_SYNC_MISSING_RETRY_MIN_SECS, &NGIT_SYNC_MISSING_RETRY_MAX_SECS);
    ids_fit_into_a_request(from);
}

/// An id in a request: 64 digits, two quotes and a comma.
const ID_BYTES: u64 = 67;

fn ids_fit_into_a_request(from: &mut Reader<'_>) {
    let ids = from.number(&NGIT_SYNC_IDS_PER_REQUEST_MAX);
    let bytes = from.number(&NGIT_SYNC_REQUEST_BYTES_MAX);
    // A placeholder after a complaint says nothing about the other number.
    if bytes > 0 && ids.saturating_mul(ID_BYTES) > bytes {
        let large = NGIT_SYNC_REQUEST_BYTES_MAX.name;
        let problem = format!("`{ids}` ids are more than fit into {large} (`{bytes}`)");
        let fix = format!("use {} at most, or raise {large}", bytes / ID_BYTES);
        from.complain(&NGIT_SYNC_IDS_PER_REQUEST_MAX, problem, fix);
    }
}

fn engine(from: &mut Reader<'_>) -> Settings {
    Settings {
        window: from.duration(&NGIT_SYNC_BATCH_WINDOW_MS),
        resume_within: from.duration(&NGIT_SYNC_RESUME_WITHIN_SECS),
        daily_min: from.duration(&NGIT_SYNC_DAILY_MIN_HOURS),
        daily_max: from.duration(&NGIT_SYNC_DAILY_MAX_HOURS),
        cleanup_every: from.duration(&NGIT_SYNC_DISCONNECT_CHECK_INTERVAL_SECS),
        values_per_filter_max: from.count(&NGIT_SYNC_FILTER_VALUES_MAX),
        filters_per_request_max: from.count(&NGIT_SYNC_FILTERS_PER_REQUEST_MAX),
        request_bytes_max: from.count(&NGIT_SYNC_REQUEST_BYTES_MAX),
        filters_before_repack: from.count(&NGIT_SYNC_REPACK_FILTERS),
        subscriptions_default: from.small(&NGIT_SYNC_SUBSCRIPTIONS_DEFAULT),
        pages_at_once_max: from.small(&NGIT_SYNC_PAGES_AT_ONCE_MAX),
        negentropy_at_once_max: from.small(&NGIT_SYNC_NEGENTROPY_AT_ONCE_MAX),
        rotation_every: from.duration(&NGIT_SYNC_ROTATION_SECS),
        rotation_overlap: from.duration(&NGIT_SYNC_ROTATION_OVERLAP_SECS),
        pace_per_second: from.small(&NGIT_SYNC_STARTS_PER_SECOND),
        pace_burst: from.small(&NGIT_SYNC_STARTS_BURST),
        pace_grasp_per_second: from.small(&NGIT_SYNC_GRASP_STARTS_PER_SECOND),
        negentropy: !from.flag(&NGIT_SYNC_DISABLE_NEGENTROPY),
        authenticate: from.flag(&NGIT_SYNC_AUTH),
        ids_per_request_max: from.count(&NGIT_SYNC_IDS_PER_REQUEST_MAX),
        id_attempts_max: from.small(&NGIT_SYNC_ID_ATTEMPTS_MAX),
        missing_retry_min: from.duration(&NGIT_SYNC_MISSING_RETRY_MIN_SECS),
        missing_retry_max: from.duration(&NGIT_SYNC_MISSING_RETRY_MAX_SECS),
        needed_ids_max: from.count(&NGIT_SYNC_NEEDED_IDS_MAX),
        turns_max: from.count(&NGIT_SYNC_TURNS_MAX),
        turn_without_progress: from.duration(&NGIT_SYNC_TURN_IDLE_MS),
        turn_events_max: from.small(&NGIT_SYNC_TURN_EVENTS_MAX),
        turn_bytes_max: from.number(&NGIT_SYNC_TURN_BYTES_MAX),
        backoff_base: from.duration(&NGIT_SYNC_BASE_BACKOFF_SECS),
        backoff_max: from.duration(&NGIT_SYNC_MAX_BACKOFF_SECS),
        dead_after: from.duration(&NGIT_SYNC_DEAD_AFTER_HOURS),
        dead_retry: from.duration(&NGIT_SYNC_DEAD_RETRY_HOURS),
        stable_after: from.duration(&NGIT_SYNC_STABLE_SECS),
        cooldown: from.duration(&NGIT_SYNC_COOLDOWN_SECS),
        cooldown_max: from.duration(&NGIT_SYNC_COOLDOWN_MAX_SECS),
        cooldown_forgotten_after: from.duration(&NGIT_SYNC_COOLDOWN_FORGET_SECS),
        pause: from.duration(&NGIT_SYNC_PAUSE_HOURS),
        banned_for: from.duration(&NGIT_NAUGHTY_LIST_EXPIRATION_HOURS),
        dials_at_once_max: from.count(&NGIT_SYNC_DIALS_MAX),
        dial_gap: from.duration(&NGIT_SYNC_DIAL_GAP_MS),
        dial_patience: from.duration(&NGIT_SYNC_DIAL_PATIENCE_MS),
        links_max: from.count(&NGIT_SYNC_LINKS_MAX),
        links_per_address_max: from.count(&NGIT_SYNC_LINKS_PER_ADDRESS_MAX),
        links_for_held_percent: from.count(&NGIT_SYNC_HELD_LINKS_PERCENT),
        held_dial_gap: from.duration(&NGIT_SYNC_HELD_DIAL_GAP_SECS),
        link_turn: from.duration(&NGIT_SYNC_LINK_TURN_SECS),
        relays_per_announcement_max: from.count(&NGIT_SYNC_RELAYS_PER_ANNOUNCEMENT_MAX),
        relays_max: from.count(&NGIT_SYNC_RELAYS_MAX),
        verdict_age_max: from.duration(&NGIT_SYNC_VERDICT_MAX_AGE_SECS),
    }
}

fn patience(from: &mut Reader<'_>) -> Patience {
    Patience {
        silence_max: from.duration(&NGIT_SYNC_SILENCE_SECS),
        events_max: from.small(&NGIT_SYNC_QUESTION_EVENTS_MAX),
        bytes_max: from.number(&NGIT_SYNC_QUESTION_BYTES_MAX),
        strays_max: from.small(&NGIT_SYNC_STRAYS_MAX),
        forgeries_max: from.small(&NGIT_SYNC_FORGERIES_MAX),
    }
}

fn bootstrap(from: &mut Reader<'_>) -> Option<RelayUrl> {
    from.given(&NGIT_SYNC_BOOTSTRAP_RELAY_URL, |value| match value {
        Value::Relays(relays) => relays.first().cloned(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, RawConfig};

    #[test]
    fn the_table_and_the_engine_agree_on_every_default() {
        let sync = Config::build(&RawConfig::default()).unwrap().sync;
        assert_eq!(sync.engine, Settings::default());
        assert_eq!(sync.patience, Patience::default());
    }
}

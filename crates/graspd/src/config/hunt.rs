//! The numbers of the hunt for git data, as the machine that decides and the fetches want them.

use super::reader::Reader;
use super::table::*;
use super::value::Value;
use crate::ingest::WantedLimits;
use grasp_core::Domain;
use grasp_engine::hunt::HuntSettings;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HuntConfig {
    pub settings: HuntSettings,
    pub wanted: WantedLimits,
    /// Clone addresses followed per event.
    pub urls_per_event_max: usize,
    /// Requests to one address in any minute.
    pub address_starts_max: usize,
    /// A fetch that brings less than this many bytes in this time is ended.
    pub silence: Duration,
    pub silence_bytes: u64,
    pub repair_every: Duration,
}

impl HuntConfig {
    pub(super) fn read(from: &mut Reader<'_>) -> Self {
        from.at_most(&NGIT_SYNC_HUNT_RETRY_MIN_SECS, &NGIT_SYNC_HUNT_RETRY_MAX_SECS);
        from.at_most(&NGIT_SYNC_HUNT_RETRY_MAX_SECS, &NGIT_SYNC_WANTED_RETRY_MAX_SECS);
        from.at_most(&NGIT_SYNC_SLOW_DOWN_SECS, &NGIT_SYNC_SLOW_DOWN_MAX_SECS);
        Self {
            settings: settings(from),
            wanted: WantedLimits {
                events_max: from.number(&NGIT_SYNC_WANTED_EVENTS_MAX),
                bytes_max: from.number(&NGIT_SYNC_WANTED_BYTES_MAX),
                kept: from.duration(&NGIT_SYNC_WANTED_KEPT_SECS),
            },
            urls_per_event_max: from.count(&NGIT_SYNC_CLONE_URLS_MAX),
            address_starts_max: from.count(&NGIT_SYNC_ADDRESS_RATE_LIMIT),
            silence: from.duration(&NGIT_SYNC_FETCH_SILENCE_SECS),
            silence_bytes: from.number(&NGIT_SYNC_FETCH_SILENCE_BYTES),
            repair_every: from.duration(&NGIT_SYNC_REPAIR_SECS),
        }
    }
}

fn settings(from: &mut Reader<'_>) -> HuntSettings {
    let retry_first = from.duration(&NGIT_SYNC_HUNT_RETRY_MIN_SECS);
    HuntSettings {
        delay_direct: from.duration(&NGIT_SYNC_HUNT_DELAY_SECS),
        delay_synced: from.duration(&NGIT_SYNC_HUNT_SYNCED_DELAY_MS),
        retry_first,
        retry_max: from.duration(&NGIT_SYNC_HUNT_RETRY_MAX_SECS),
        wanted_retry_max: from.duration(&NGIT_SYNC_WANTED_RETRY_MAX_SECS),
        hedge_after: from.duration(&NGIT_SYNC_HEDGE_SECS),
        domain_concurrent_max: from.small(&NGIT_SYNC_DOMAIN_CONCURRENT),
        domain_starts_max: from.small(&NGIT_SYNC_DOMAIN_RATE_LIMIT),
        grasp_starts_max: from.small(&NGIT_SYNC_GRASP_RATE_LIMIT),
        window: Duration::from_secs(60),
        objected_for: from.duration(&NGIT_SYNC_DOMAIN_OBJECTED_SECS),
        slow_down_for: from.duration(&NGIT_SYNC_SLOW_DOWN_SECS),
        slow_down_max: from.duration(&NGIT_SYNC_SLOW_DOWN_MAX_SECS),
        overrides: overrides(from),
        concurrent_max: from.small(&NGIT_SYNC_FETCHES_MAX),
        fetch_bytes_max: from.number(&NGIT_SYNC_FETCH_BYTES_MAX),
        domain_bytes_per_day_max: from.number(&NGIT_SYNC_DOMAIN_BYTES_PER_DAY_MAX),
        bytes_per_day_max: from.number(&NGIT_SYNC_BYTES_PER_DAY_MAX),
        aged_after: from.duration(&NGIT_SYNC_HUNT_AGED_SECS),
        // Otherwise a retry would pass over everybody.
        absent_for: from.duration(&NGIT_SYNC_HUNT_ABSENT_SECS).min(retry_first * 3 / 4),
        sources_max: from.count(&NGIT_SYNC_HUNT_SOURCES_MAX),
        families_max: from.count(&NGIT_SYNC_HUNTS_MAX),
        domains_max: from.count(&NGIT_SYNC_HUNT_DOMAINS_MAX),
    }
}

fn overrides(from: &mut Reader<'_>) -> BTreeMap<Domain, (u32, u32)> {
    let given = from.given(&NGIT_SYNC_DOMAIN_OVERRIDES, |value| match value {
        Value::DomainLimits(limits) => Some(limits.clone()),
        _ => None,
    });
    given.unwrap_or_default().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, RawConfig};

    #[test]
    fn the_table_and_the_hunt_agree_on_every_default() {
        let hunt = Config::build(&RawConfig::default()).unwrap().hunt;
        assert_eq!(hunt.settings, HuntSettings::default());
        assert_eq!(hunt.wanted, WantedLimits::default());
    }
}

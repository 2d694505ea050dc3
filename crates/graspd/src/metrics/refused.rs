//! What becomes of events that other relays offered and that were refused for want of something (S-29):
//! kept whole for a while, remembered by id for longer, and judged again when it comes.

use super::add;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry, Result};

#[derive(Debug)]
pub struct RefusedMetrics {
    whole: IntGaugeVec,
    ids: IntGaugeVec,
    hits: IntCounterVec,
    misses: IntCounterVec,
    whole_expired: IntCounterVec,
    ids_expired: IntCounterVec,
    invalidated: IntCounterVec,
}

/// So many of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Refused {
    pub announcements: u64,
    pub states: u64,
    pub others: u64,
}

impl Refused {
    fn by_label(self) -> [(&'static str, u64); 3] {
        [("announcement", self.announcements), ("state", self.states), ("other", self.others)]
    }
}

impl RefusedMetrics {
    pub(super) fn new(registry: &Registry) -> Result<Self> {
        let label = &["event_type"];
        let gauges =
            |name: &str, help: &str| add(registry, IntGaugeVec::new(Opts::new(name, help), label)?);
        let counters = |name: &str, help: &str| {
            let counters = add(registry, IntCounterVec::new(Opts::new(name, help), label)?)?;
            // From zero, so that the first already shows as a rise.
            count(&counters, Refused::default());
            Ok::<_, prometheus::Error>(counters)
        };
        let metrics = Self {
            whole: gauges(
                "ngit_sync_rejected_hot_cache_current",
                "Refused events kept whole for a second chance.",
            )?,
            ids: gauges(
                "ngit_sync_rejected_cold_index_current",
                "Refused events remembered by their id.",
            )?,
            hits: counters(
                "ngit_sync_rejected_hot_cache_hits_total",
                "Refused events that were still kept whole when they could be judged again.",
            )?,
            misses: counters(
                "ngit_sync_rejected_hot_cache_misses_total",
                "Refused events that could be judged again and have to be fetched for it.",
            )?,
            whole_expired: counters(
                "ngit_sync_rejected_hot_cache_expired_total",
                "Refused events kept whole for as long as may be, in vain.",
            )?,
            ids_expired: counters(
                "ngit_sync_rejected_cold_index_expired_total",
                "Refused events remembered by their id for as long as may be, in vain.",
            )?,
            invalidated: counters(
                "ngit_sync_rejected_invalidated_total",
                "Refused events that may be judged differently since an announcement came.",
            )?,
        };
        metrics.kept(Refused::default(), Refused::default());
        Ok(metrics)
    }

    pub fn kept(&self, whole: Refused, ids: Refused) {
        for (gauges, refused) in [(&self.whole, whole), (&self.ids, ids)] {
            for (label, number) in refused.by_label() {
                let number = i64::try_from(number).unwrap_or(i64::MAX);
                gauges.with_label_values(&[label]).set(number);
            }
        }
    }

    pub fn whole_expired(&self, refused: Refused) {
        count(&self.whole_expired, refused);
    }

    pub fn ids_expired(&self, refused: Refused) {
        count(&self.ids_expired, refused);
    }

    /// These ids were forgotten, so that they are judged again; so many were still here whole.
    pub fn judged_again(&self, invalidated: Refused, whole: Refused) {
        count(&self.invalidated, invalidated);
        count(&self.hits, whole);
        let fetched = |all: u64, whole: u64| all.saturating_sub(whole);
        let misses = Refused {
            announcements: fetched(invalidated.announcements, whole.announcements),
            states: fetched(invalidated.states, whole.states),
            others: fetched(invalidated.others, whole.others),
        };
        count(&self.misses, misses);
    }
}

fn count(counters: &IntCounterVec, refused: Refused) {
    for (label, number) in refused.by_label() {
        counters.with_label_values(&[label]).inc_by(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::{Encoder, TextEncoder};

    #[test]
    fn s29_what_became_of_refused_events_is_counted_by_what_they_are() {
        let registry = Registry::new();
        let metrics = RefusedMetrics::new(&registry).unwrap();
        let states = |states| Refused { states, ..Refused::default() };
        metrics.kept(states(4), Refused { announcements: 5, ..states(6) });
        metrics.judged_again(states(3), Refused { others: 7, ..states(1) });
        metrics.whole_expired(states(8));
        metrics.ids_expired(Refused { announcements: 9, ..Refused::default() });
        let mut page = Vec::new();
        TextEncoder::new().encode(&registry.gather(), &mut page).unwrap();
        let page = String::from_utf8(page).unwrap();
        for line in [
            "hot_cache_current{event_type=\"state\"} 4",
            "hot_cache_current{event_type=\"announcement\"} 0",
            "cold_index_current{event_type=\"announcement\"} 5",
            "cold_index_current{event_type=\"state\"} 6",
            "invalidated_total{event_type=\"state\"} 3",
            "hot_cache_hits_total{event_type=\"state\"} 1",
            "hot_cache_hits_total{event_type=\"other\"} 7",
            "hot_cache_misses_total{event_type=\"state\"} 2",
            "hot_cache_misses_total{event_type=\"other\"} 0",
            "hot_cache_expired_total{event_type=\"state\"} 8",
            "cold_index_expired_total{event_type=\"announcement\"} 9",
        ] {
            let line = format!("ngit_sync_rejected_{line}");
            assert!(page.lines().any(|found| found == line), "no {line} in {page}");
        }
    }
}

//! How full the table of held events is, by class and by the door they came through.

use super::add;
use crate::ingest::HeldFigures;
use prometheus::{IntGauge, IntGaugeVec, Opts, Registry, Result};

#[derive(Debug)]
pub struct HeldMetrics {
    events: IntGaugeVec,
    events_max: IntGaugeVec,
    full_sources: IntGauge,
}

impl HeldMetrics {
    pub(super) fn new(registry: &Registry) -> Result<Self> {
        let by_class = |name: &str, help: &str| {
            add(registry, IntGaugeVec::new(Opts::new(name, help), &["class", "from"])?)
        };
        let full = "Relays, networks and addresses whose share of the held events is used up.";
        Ok(Self {
            events: by_class("ngit_held_events", "Events that wait and are not served yet.")?,
            events_max: by_class("ngit_held_events_limit", "How many of them may wait.")?,
            full_sources: add(registry, IntGauge::new("ngit_held_sources_full", full)?)?,
        })
    }

    pub fn tell(&self, figures: &HeldFigures) {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        for (side, class, used, limit) in &figures.classes {
            let labels = [class.label(), side.name()];
            self.events.with_label_values(&labels).set(number(used.events));
            self.events_max.with_label_values(&labels).set(number(limit.events));
        }
        let full = u64::try_from(figures.full_sources.len()).unwrap_or(u64::MAX);
        self.full_sources.set(number(full));
    }
}

//! What is measured of sync, under the names dashboards already ask for (S-41). Strangers choose
//! which relays there are: only so many are told apart, and the rest is counted together as `other`.

use super::add;
use grasp_core::RelayUrl;
use grasp_store::SourceKind;
use parking_lot::Mutex;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Relays that are named one by one.
pub const RELAY_LABELS_MAX: usize = 200;

const OTHER: &str = "other";
const RESULTS: [&str; 2] = ["success", "failure"];

#[derive(Debug)]
pub struct SyncMetrics {
    connected: IntGaugeVec,
    attempts: IntCounterVec,
    status: IntGaugeVec,
    failures: IntGaugeVec,
    events: IntCounterVec,
    events_synced: IntCounter,
    gaps: IntCounterVec,
    refusals: IntCounterVec,
    tracked: IntGauge,
    linked: IntGauge,
    dead: IntGauge,
    /// The relays named, each with the refusals it was counted for. Also keeps `forget` from
    /// running between the choice of a label and its use.
    named: Mutex<Named>,
}

/// How an event that should have come live was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapKind {
    /// In history, soon after.
    Late,
    /// By the daily sync only.
    Sustained,
}

impl GapKind {
    pub const ALL: [Self; 2] = [Self::Late, Self::Sustained];

    pub fn name(self) -> &'static str {
        match self {
            Self::Late => "late",
            Self::Sustained => "sustained",
        }
    }
}

/// The condition of a relay as a dashboard shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Healthy = 1,
    Degraded = 2,
    Dead = 3,
}

impl From<&grasp_engine::Health> for Status {
    fn from(health: &grasp_engine::Health) -> Self {
        use grasp_engine::Health::{Banned, Dead, Degraded, Healthy};
        match health {
            Healthy => Self::Healthy,
            Degraded { .. } => Self::Degraded,
            // Not dialled either way.
            Dead { .. } | Banned { .. } => Self::Dead,
        }
    }
}

impl SyncMetrics {
    pub(super) fn new(registry: &Registry) -> Result<Self> {
        let counters = |name: &str, help: &str, labels: &[&str]| {
            add(registry, IntCounterVec::new(Opts::new(name, help), labels)?)
        };
        let gauges = |name: &str, help: &str, label: &str| {
            add(registry, IntGaugeVec::new(Opts::new(name, help), &[label])?)
        };
        let gauge = |name: &str, help: &str| add(registry, IntGauge::new(name, help)?);
        let metrics = Self {
            connected: gauges(
                "ngit_sync_relay_connected",
                "Whether a link to the relay is open.",
                "relay",
            )?,
            attempts: counters(
                "ngit_sync_connection_attempts_total",
                "Attempts to reach a relay.",
                &["relay", "result"],
            )?,
            status: gauges(
                "ngit_sync_relay_status",
                "Condition of a relay: 1 healthy, 2 degraded, 3 dead.",
                "relay",
            )?,
            failures: gauges(
                "ngit_sync_relay_failures",
                "Failures of a relay since it last was healthy.",
                "relay",
            )?,
            events: counters(
                "ngit_sync_events_total",
                "Events accepted or held, by the road they first came on.",
                &["source"],
            )?,
            events_synced: add(
                registry,
                IntCounter::new(
                    "ngit_sync_events_synced_total",
                    "Events accepted or held that came from other relays.",
                )?,
            )?,
            gaps: counters(
                "ngit_sync_gap_events_total",
                "Events that should have come live and had to be fetched later.",
                &["relay", "kind"],
            )?,
            refusals: counters(
                "ngit_sync_policy_refusals_total",
                "Requests that a relay refused.",
                &["relay", "category"],
            )?,
            tracked: gauge("ngit_sync_relays_tracked_total", "Relays that are followed.")?,
            linked: gauge("ngit_sync_relays_connected_total", "Relays with an open link.")?,
            dead: gauge("ngit_sync_relays_dead_total", "Relays that are dead.")?,
            named: Mutex::default(),
        };
        use SourceKind::{Backfill, Daily, Direct, Live};
        // From zero, so that the first event already shows as a rise.
        for source in [Live, Backfill, Daily, Direct] {
            metrics.events.with_label_values(&[source_label(source)]);
        }
        Ok(metrics)
    }

    pub fn attempt(&self, relay: &RelayUrl, ok: bool) {
        let [success, failure] = RESULTS;
        let result = if ok { success } else { failure };
        let mut named = self.named.lock();
        self.attempts.with_label_values(&[label(&mut named, relay), result]).inc();
    }

    pub fn connected(&self, relay: &RelayUrl, is_open: bool) {
        let mut named = self.named.lock();
        if claim(&mut named, relay).is_some() {
            self.connected.with_label_values(&[relay.as_str()]).set(i64::from(is_open));
        }
    }

    pub fn status(&self, relay: &RelayUrl, status: Status, failures: u32) {
        let mut named = self.named.lock();
        if claim(&mut named, relay).is_some() {
            self.status.with_label_values(&[relay.as_str()]).set(status as i64);
            self.failures.with_label_values(&[relay.as_str()]).set(i64::from(failures));
        }
    }

    pub fn event(&self, source: SourceKind) {
        self.events.with_label_values(&[source_label(source)]).inc();
        if source != SourceKind::Direct {
            self.events_synced.inc();
        }
    }

    pub fn gap(&self, relay: &RelayUrl, kind: GapKind) {
        let mut named = self.named.lock();
        self.gaps.with_label_values(&[label(&mut named, relay), kind.name()]).inc();
    }

    pub fn refused(&self, relay: &RelayUrl, category: &'static str) {
        let mut named = self.named.lock();
        if let Some(categories) = claim(&mut named, relay) {
            categories.insert(category);
        }
        self.refusals.with_label_values(&[label(&mut named, relay), category]).inc();
    }

    pub fn totals(&self, tracked: usize, connected: usize, dead: usize) {
        for (gauge, number) in
            [(&self.tracked, tracked), (&self.linked, connected), (&self.dead, dead)]
        {
            gauge.set(i64::try_from(number).unwrap_or(i64::MAX));
        }
    }

    /// The relay is not followed any more: its place goes to the next one. What `other` counted
    /// stays there.
    pub fn forget(&self, relay: &RelayUrl) {
        let mut named = self.named.lock();
        let Some(categories) = named.remove(relay) else { return };
        let relay = relay.as_str();
        // A series that was never there is removed just as well.
        for gauges in [&self.connected, &self.status, &self.failures] {
            let _ = gauges.remove_label_values(&[relay]);
        }
        for kind in GapKind::ALL {
            let _ = self.gaps.remove_label_values(&[relay, kind.name()]);
        }
        for result in RESULTS {
            let _ = self.attempts.remove_label_values(&[relay, result]);
        }
        for category in categories {
            let _ = self.refusals.remove_label_values(&[relay, category]);
        }
    }
}

type Named = BTreeMap<RelayUrl, BTreeSet<&'static str>>;

/// A place of its own for this relay, if there is one.
fn claim<'a>(named: &'a mut Named, relay: &RelayUrl) -> Option<&'a mut BTreeSet<&'static str>> {
    if named.len() >= RELAY_LABELS_MAX {
        return named.get_mut(relay);
    }
    Some(named.entry(relay.clone()).or_default())
}

fn label<'a>(named: &mut Named, relay: &'a RelayUrl) -> &'a str {
    if claim(named, relay).is_some() { relay.as_str() } else { OTHER }
}

fn source_label(source: SourceKind) -> &'static str {
    match source {
        SourceKind::Direct => "direct",
        SourceKind::Live => "live",
        SourceKind::Backfill => "backfill",
        SourceKind::Daily => "daily",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus::{Encoder, TextEncoder};

    #[test]
    fn s41_names_and_values_are_exactly_those_that_dashboards_ask_for() {
        let page = Page::new();
        let relay = relay(0);
        page.metrics.attempt(&relay, true);
        page.metrics.attempt(&relay, false);
        page.metrics.connected(&relay, true);
        page.metrics.status(&relay, Status::Degraded, 3);
        page.metrics.event(SourceKind::Backfill);
        page.metrics.event(SourceKind::Direct);
        page.metrics.gap(&relay, GapKind::Late);
        page.metrics.refused(&relay, "rate-limit");
        page.metrics.totals(9, 7, 2);
        let types = page.lines("# TYPE ");
        assert_eq!(
            types,
            [
                "# TYPE ngit_sync_connection_attempts_total counter",
                "# TYPE ngit_sync_events_synced_total counter",
                "# TYPE ngit_sync_events_total counter",
                "# TYPE ngit_sync_gap_events_total counter",
                "# TYPE ngit_sync_policy_refusals_total counter",
                "# TYPE ngit_sync_relay_connected gauge",
                "# TYPE ngit_sync_relay_failures gauge",
                "# TYPE ngit_sync_relay_status gauge",
                "# TYPE ngit_sync_relays_connected_total gauge",
                "# TYPE ngit_sync_relays_dead_total gauge",
                "# TYPE ngit_sync_relays_tracked_total gauge",
            ]
        );
        assert_eq!(
            page.lines("ngit_"),
            [
                "ngit_sync_connection_attempts_total{relay=\"wss://r0.example\",result=\"failure\"} 1",
                "ngit_sync_connection_attempts_total{relay=\"wss://r0.example\",result=\"success\"} 1",
                "ngit_sync_events_synced_total 1",
                "ngit_sync_events_total{source=\"backfill\"} 1",
                "ngit_sync_events_total{source=\"daily\"} 0",
                "ngit_sync_events_total{source=\"direct\"} 1",
                "ngit_sync_events_total{source=\"live\"} 0",
                "ngit_sync_gap_events_total{kind=\"late\",relay=\"wss://r0.example\"} 1",
                "ngit_sync_policy_refusals_total{category=\"rate-limit\",relay=\"wss://r0.example\"} 1",
                "ngit_sync_relay_connected{relay=\"wss://r0.example\"} 1",
                "ngit_sync_relay_failures{relay=\"wss://r0.example\"} 3",
                "ngit_sync_relay_status{relay=\"wss://r0.example\"} 2",
                "ngit_sync_relays_connected_total 7",
                "ngit_sync_relays_dead_total 2",
                "ngit_sync_relays_tracked_total 9",
            ]
        );
    }

    #[test]
    fn s41_beyond_two_hundred_relays_are_one_and_nothing_goes_uncounted() {
        let page = Page::new();
        for number in 0..500 {
            page.uses(&relay(number));
        }
        let connected = page.lines("ngit_sync_relay_connected{");
        assert_eq!(connected.len(), RELAY_LABELS_MAX);
        assert!(!connected.iter().any(|line| line.contains(OTHER)), "no gauge of many relays");
        assert_eq!(page.lines("ngit_sync_relay_status{").len(), RELAY_LABELS_MAX);
        assert_eq!(page.lines("ngit_sync_gap_events_total{").len(), RELAY_LABELS_MAX + 1);
        for line in [
            "ngit_sync_gap_events_total{kind=\"late\",relay=\"other\"} 300",
            "ngit_sync_connection_attempts_total{relay=\"other\",result=\"success\"} 300",
            "ngit_sync_policy_refusals_total{category=\"policy\",relay=\"other\"} 300",
        ] {
            assert_eq!(page.lines(line).len(), 1, "{line}");
        }
        page.uses(&relay(0));
        page.uses(&relay(499));
        assert_eq!(
            page.lines("ngit_sync_gap_events_total{kind=\"late\",relay=\"wss://r0.example\"} 2")
                .len(),
            1
        );
        assert_eq!(
            page.lines("ngit_sync_gap_events_total{kind=\"late\",relay=\"other\"} 301").len(),
            1
        );
    }

    #[test]
    fn s41_a_forgotten_relay_leaves_no_trace_and_its_place_to_another() {
        let page = Page::new();
        for number in 0..=RELAY_LABELS_MAX {
            page.uses(&relay(number));
        }
        let (gone, waiting) = (relay(7), relay(RELAY_LABELS_MAX));
        page.metrics.refused(&gone, "auth-required");
        page.metrics.forget(&gone);
        page.metrics.forget(&gone);
        assert_eq!(page.mentions(&gone), 0);
        assert_eq!(page.mentions(&waiting), 0);
        page.uses(&waiting);
        assert_eq!(page.mentions(&waiting), 6);
        page.uses(&gone);
        assert_eq!(page.mentions(&gone), 0, "all places are taken again");
    }

    #[test]
    fn s41_conditions_have_the_numbers_of_the_seed() {
        use grasp_core::Time;
        use grasp_engine::Health;
        let (failures, first, next_try) = (1, Time(0), Time(0));
        for (health, number) in [
            (Health::Healthy, 1),
            (Health::Degraded { failures, first, next_try }, 2),
            (Health::Dead { failures, first, next_try }, 3),
            (Health::Banned { until: next_try }, 3),
        ] {
            assert_eq!(Status::from(&health) as i64, number, "{health:?}");
        }
    }

    struct Page {
        registry: Registry,
        metrics: SyncMetrics,
    }

    impl Page {
        fn new() -> Self {
            let registry = Registry::new();
            let metrics = SyncMetrics::new(&registry).unwrap();
            Self { registry, metrics }
        }

        /// All that can be told of one relay.
        fn uses(&self, relay: &RelayUrl) {
            self.metrics.attempt(relay, true);
            self.metrics.connected(relay, true);
            self.metrics.status(relay, Status::Healthy, 0);
            self.metrics.gap(relay, GapKind::Late);
            self.metrics.refused(relay, "policy");
        }

        fn lines(&self, start: &str) -> Vec<String> {
            let mut page = Vec::new();
            TextEncoder::new().encode(&self.registry.gather(), &mut page).unwrap();
            let page = String::from_utf8(page).unwrap();
            let mut lines: Vec<String> =
                page.lines().filter(|line| line.starts_with(start)).map(str::to_owned).collect();
            lines.sort_unstable();
            lines
        }

        fn mentions(&self, relay: &RelayUrl) -> usize {
            let quoted = format!("\"{relay}\"");
            self.lines("").iter().filter(|line| line.contains(&quoted)).count()
        }
    }

    fn relay(number: usize) -> RelayUrl {
        format!("wss://r{number}.example").parse().unwrap()
    }
}

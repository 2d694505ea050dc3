//! What operators measure. Exact names in text format 0.0.4; every label comes from a closed set
//! or is capped in number, so that no stranger can make the list grow without end.

mod care;
mod cgroup;
mod full;
mod git;
mod held;
mod hunt;
mod ledger;
mod refused;
mod sync;

pub use care::CareMetrics;
pub use full::{FullTable, FullTables};
pub use git::{Authorization, Direction, GitMetrics, Operation};
pub use held::HeldMetrics;
pub use hunt::{DOMAIN_LABELS_MAX, HuntMetrics, LastFailure};
pub use ledger::LedgerMetrics;
pub use refused::{Refused, RefusedMetrics};
pub use sync::{GapKind, RELAY_LABELS_MAX, Status, SyncMetrics};

use crate::report::{ProblemKind, ProblemReport};
use cgroup::CgroupMetrics;
use grasp_core::Kind;
use grasp_relay::Crowd;
use prometheus::core::Collector;
use prometheus::process_collector::ProcessCollector;
use prometheus::{
    Encoder, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts,
    Registry, TextEncoder,
};

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    uptime: IntCounter,
    repositories: IntGauge,
    store_used: IntGauge,
    store_budget: IntGauge,
    pub connections_active: IntGauge,
    pub connections_total: IntCounter,
    pub connection_seconds: Histogram,
    unique_ips: IntGauge,
    flagged_abusers: IntGauge,
    messages_received: IntCounterVec,
    messages_sent: IntCounterVec,
    events_received: IntCounterVec,
    events_stored: IntCounterVec,
    events_rejected: IntCounterVec,
    pub git: GitMetrics,
    pub sync: SyncMetrics,
    pub hunt: HuntMetrics,
    pub ledger: LedgerMetrics,
    pub refused: RefusedMetrics,
    pub care: CareMetrics,
    problems: IntGaugeVec,
    /// Tables that refused something for want of room.
    pub full: FullTables,
    pub held: HeldMetrics,
    cgroup: Option<CgroupMetrics>,
    /// Repositories found not to be where their state says.
    pub refs_differ: IntCounter,
}

/// Counted elsewhere, shown here.
#[derive(Debug, Clone, Default)]
pub struct Gathered {
    pub uptime_secs: u64,
    pub repositories: u64,
    pub store_used_bytes: u64,
    pub store_budget_bytes: u64,
    pub crowd: Crowd,
    /// The busiest repositories and the bytes they moved.
    pub busiest: Vec<(String, u64)>,
}

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const SECONDS: [f64; 8] = [1.0, 5.0, 15.0, 30.0, 60.0, 300.0, 900.0, 3600.0];

impl Metrics {
    pub fn new() -> prometheus::Result<Self> {
        let registry = Registry::new();
        let build = add(
            &registry,
            IntGaugeVec::new(
                Opts::new("ngit_build_info", "Version of this server; always 1."),
                &["version", "commit"],
            )?,
        )?;
        let commit = option_env!("GRASPD_COMMIT").unwrap_or("unknown");
        build.with_label_values(&[env!("CARGO_PKG_VERSION"), commit]).set(1);
        registry.register(Box::new(ProcessCollector::for_self()))?;
        let counter = |name: &str, help: &str| add(&registry, IntCounter::new(name, help)?);
        let gauge = |name: &str, help: &str| add(&registry, IntGauge::new(name, help)?);
        let counters = |name: &str, help: &str, labels: &[&str]| {
            add(&registry, IntCounterVec::new(Opts::new(name, help), labels)?)
        };
        let seconds = HistogramOpts::new(
            "ngit_websocket_connection_duration_seconds",
            "How long WebSocket connections lasted.",
        );
        Ok(Self {
            git: GitMetrics::new(&registry)?,
            sync: SyncMetrics::new(&registry)?,
            hunt: HuntMetrics::new(&registry)?,
            ledger: LedgerMetrics::new(&registry)?,
            refused: RefusedMetrics::new(&registry)?,
            care: CareMetrics::new(&registry)?,
            problems: problems(&registry)?,
            full: FullTables::default(),
            held: HeldMetrics::new(&registry)?,
            cgroup: CgroupMetrics::new(&registry)?,
            refs_differ: counter(
                "ngit_git_refs_differ_total",
                "Times a repository's refs were found to differ from its served state.",
            )?,
            uptime: counter("ngit_uptime_seconds", "Seconds since the server started.")?,
            repositories: gauge(
                "ngit_repositories_total",
                "Repositories announced here; some only have maintainers in common with one.",
            )?,
            store_used: gauge("ngit_store_used_bytes", "Bytes in use by the event store.")?,
            store_budget: gauge(
                "ngit_store_budget_bytes",
                "Bytes the event store may use; close to them new events are refused.",
            )?,
            connections_active: gauge(
                "ngit_websocket_connections_active",
                "WebSocket connections open now.",
            )?,
            connections_total: counter(
                "ngit_websocket_connections_total",
                "WebSocket connections accepted so far.",
            )?,
            connection_seconds: add(
                &registry,
                Histogram::with_opts(seconds.buckets(SECONDS.into()))?,
            )?,
            unique_ips: gauge("ngit_websocket_unique_ips", "Addresses with an open connection.")?,
            flagged_abusers: gauge(
                "ngit_websocket_flagged_abusers",
                "Addresses with more open connections than the threshold.",
            )?,
            messages_received: counters(
                "ngit_websocket_messages_received_total",
                "Messages from clients.",
                &["type"],
            )?,
            messages_sent: counters(
                "ngit_websocket_messages_sent_total",
                "Messages to clients.",
                &["type"],
            )?,
            events_received: counters(
                "ngit_events_received_total",
                "Events handed in and verified.",
                &["kind"],
            )?,
            events_stored: counters(
                "ngit_events_stored_total",
                "Events accepted or held.",
                &["kind"],
            )?,
            events_rejected: counters(
                "ngit_events_rejected_total",
                "Events refused, by reason.",
                &["kind", "reason"],
            )?,
            registry,
        })
    }

    pub fn event_judged(&self, kind: Kind, ok: bool, code: &'static str) {
        let kind = kind_label(kind);
        self.events_received.with_label_values(&[kind]).inc();
        if ok {
            self.events_stored.with_label_values(&[kind]).inc();
        } else {
            self.events_rejected.with_label_values(&[kind, code]).inc();
        }
    }

    /// How many problems there are of each kind now.
    pub fn tell_problems(&self, problems: &[ProblemReport]) {
        for kind in ProblemKind::all() {
            let of_kind = problems.iter().filter(|it| it.code == kind.code());
            let count: usize = of_kind.map(|it| it.count).sum();
            let gauge = self.problems.with_label_values(&[kind.code()]);
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
    }

    pub fn message_received(&self, text: &str) {
        self.messages_received.with_label_values(&[verb(text, &CLIENT_VERBS)]).inc();
    }

    pub fn message_sent(&self, text: &str) {
        self.messages_sent.with_label_values(&[verb(text, &RELAY_VERBS)]).inc();
    }

    /// The whole page.
    pub fn render(&self, with: &Gathered) -> String {
        self.uptime.inc_by(with.uptime_secs.saturating_sub(self.uptime.get()));
        for (gauge, number) in [
            (&self.repositories, with.repositories),
            (&self.store_used, with.store_used_bytes),
            (&self.store_budget, with.store_budget_bytes),
        ] {
            gauge.set(i64::try_from(number).unwrap_or(i64::MAX));
        }
        self.unique_ips.set(i64::try_from(with.crowd.ips).unwrap_or(i64::MAX));
        self.flagged_abusers.set(i64::try_from(with.crowd.crowded).unwrap_or(i64::MAX));
        self.git.name_busiest(&with.busiest);
        self.cgroup.iter().for_each(CgroupMetrics::look);
        let mut page = Vec::new();
        // Writing to memory cannot fail, and the names were checked when they were registered.
        let _ = TextEncoder::new().encode(&self.registry.gather(), &mut page);
        String::from_utf8(page).unwrap_or_default()
    }
}

/// From zero, so that the first already shows as a rise.
fn problems(registry: &Registry) -> prometheus::Result<IntGaugeVec> {
    let opts = Opts::new("ngit_problems", "Problems an operator should look at, by kind.");
    let gauges = add(registry, IntGaugeVec::new(opts, &["code"])?)?;
    for kind in ProblemKind::all() {
        gauges.with_label_values(&[kind.code()]);
    }
    Ok(gauges)
}

fn add<C: Collector + Clone + 'static>(registry: &Registry, metric: C) -> prometheus::Result<C> {
    registry.register(Box::new(metric.clone()))?;
    Ok(metric)
}

const CLIENT_VERBS: [&str; 8] =
    ["EVENT", "REQ", "CLOSE", "COUNT", "AUTH", "NEG-OPEN", "NEG-MSG", "NEG-CLOSE"];
const RELAY_VERBS: [&str; 9] =
    ["OK", "EVENT", "EOSE", "CLOSED", "NOTICE", "COUNT", "AUTH", "NEG-MSG", "NEG-ERR"];

/// The verb of a message, if it is one we know.
fn verb(text: &str, known: &[&'static str]) -> &'static str {
    let word = text.trim_start().strip_prefix('[').and_then(|rest| rest.split('"').nth(1));
    known.iter().copied().find(|verb| Some(*verb) == word).unwrap_or("other")
}

/// The kinds a GRASP server is about; the rest is one label.
fn kind_label(kind: Kind) -> &'static str {
    match kind.0 {
        0 => "0",
        1 => "1",
        5 => "5",
        7 => "7",
        62 => "62",
        1111 => "1111",
        1617 => "1617",
        1618 => "1618",
        1619 => "1619",
        1621 => "1621",
        1630 => "1630",
        1631 => "1631",
        1632 => "1632",
        1633 => "1633",
        1985 => "1985",
        10_002 => "10002",
        10_317 => "10317",
        30_617 => "30617",
        30_618 => "30618",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn names_are_exactly_those_that_dashboards_ask_for() {
        let metrics = Metrics::new().unwrap();
        metrics.event_judged(Kind::ISSUE, true, "accepted");
        metrics.event_judged(Kind(4242), false, "unrelated");
        metrics.message_received("[\"REQ\",\"x\",{}]");
        metrics.message_received("[\"\\\"} 1\\n evil\"]");
        metrics.message_sent("[\"EOSE\",\"x\"]");
        metrics.git.done(Operation::Clone, true, Duration::from_millis(700));
        metrics.git.done(Operation::Push, false, Duration::from_millis(700));
        metrics.git.moved(Direction::Out, 4096);
        metrics.git.push_judged(Authorization::Refused);
        let mut gathered = Gathered {
            uptime_secs: 7,
            repositories: 3,
            store_used_bytes: 5,
            store_budget_bytes: 6,
            crowd: Crowd { ips: 2, crowded: 1 },
            busiest: vec![("npub1/a\"b\\\n".to_owned(), 12)],
        };
        let page = metrics.render(&gathered);
        for line in [
            "# TYPE ngit_uptime_seconds counter",
            "ngit_uptime_seconds 7",
            "ngit_repositories_total 3",
            "ngit_store_used_bytes 5",
            "ngit_store_budget_bytes 6",
            "ngit_websocket_unique_ips 2",
            "ngit_websocket_flagged_abusers 1",
            "ngit_events_stored_total{kind=\"1621\"} 1",
            "ngit_events_rejected_total{kind=\"other\",reason=\"unrelated\"} 1",
            "ngit_websocket_messages_received_total{type=\"REQ\"} 1",
            "ngit_websocket_messages_received_total{type=\"other\"} 1",
            "ngit_websocket_messages_sent_total{type=\"EOSE\"} 1",
            "ngit_websocket_connection_duration_seconds_bucket{le=\"3600\"} 0",
            "ngit_git_operations_total{operation=\"clone\",status=\"success\"} 1",
            "ngit_git_operations_total{operation=\"push\",status=\"error\"} 1",
            "ngit_git_operation_duration_seconds_bucket{operation=\"clone\",le=\"1\"} 1",
            "ngit_git_bytes_total{direction=\"out\"} 4096",
            "ngit_git_push_authorization_total{result=\"refused\"} 1",
            "ngit_git_top_repos_bytes{repo=\"npub1/a\\\"b\\\\\\n\"} 12",
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is missing in\n{page}");
        }
        assert!(page.contains("ngit_build_info{commit="));
        gathered.busiest.clear();
        gathered.uptime_secs = 9;
        let page = metrics.render(&gathered);
        assert_eq!(page.matches("ngit_uptime_seconds 9").count(), 1);
        assert!(!page.contains("ngit_git_top_repos_bytes{"), "who is quiet again is not named");
    }
}

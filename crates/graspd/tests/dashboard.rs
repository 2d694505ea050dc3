//! Every figure a dashboard or an alert asks for is really recorded: a server lives through a full
//! story, and then the files in `contrib/` are held against what it tells.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails says so by panicking")]

mod chronicle;
mod common;
mod promql;
mod scrape;

use chronicle::Story;
use promql::{Mention, Reading};
use scrape::Scrape;
use serde_json::Value;
use std::collections::BTreeSet;

const DASHBOARD: &str = include_str!("../../../contrib/grafana/graspd.json");
const ALERTS: &str = include_str!("../../../contrib/prometheus/alerts.yml");
const SETTINGS: &str = include_str!("../../../docs/configuration.md");

/// Whoever scrapes adds them.
const SCRAPER_LABELS: [&str; 2] = ["instance", "job"];
const SCRAPER_METRICS: [&str; 1] = ["up"];

/// The names of S-41, with their labels, and whether the story must have moved them.
const OF_SYNC: [(&str, &[&str], bool); 14] = [
    ("ngit_sync_relay_connected", &["relay"], true),
    ("ngit_sync_connection_attempts_total", &["relay", "result"], true),
    ("ngit_sync_relay_status", &["relay"], true),
    ("ngit_sync_relay_failures", &["relay"], true),
    ("ngit_sync_events_total", &["source"], true),
    ("ngit_sync_gap_events_total", &["kind", "relay"], true),
    ("ngit_sync_relays_tracked_total", &[], true),
    ("ngit_sync_relays_connected_total", &[], true),
    // A relay is dead after a day.
    ("ngit_sync_relays_dead_total", &[], false),
    ("purgatory_sync_queue_size", &[], false),
    ("purgatory_sync_attempts_total", &[], true),
    ("purgatory_sync_oids_fetched_total", &[], true),
    ("purgatory_domain_in_flight", &["domain"], false),
    ("purgatory_domain_requests_total", &["domain"], true),
];

/// What else existing dashboards ask for, and what the ledger and the store add.
const OF_THE_REST: [(&str, &[&str], bool); 45] = [
    ("ngit_build_info", &["commit", "version"], true),
    ("ngit_uptime_seconds", &[], true),
    ("ngit_repositories_total", &[], true),
    ("ngit_store_used_bytes", &[], true),
    ("ngit_store_budget_bytes", &[], true),
    ("ngit_websocket_connections_active", &[], true),
    ("ngit_websocket_unique_ips", &[], true),
    ("ngit_websocket_flagged_abusers", &[], false),
    ("ngit_websocket_connections_total", &[], true),
    ("ngit_websocket_connection_duration_seconds_bucket", &["le"], true),
    ("ngit_websocket_connection_duration_seconds_count", &[], true),
    ("ngit_websocket_messages_received_total", &["type"], true),
    ("ngit_websocket_messages_sent_total", &["type"], true),
    ("ngit_git_operations_total", &["operation", "status"], true),
    ("ngit_git_operation_duration_seconds_bucket", &["le", "operation"], true),
    ("ngit_git_operation_duration_seconds_sum", &["operation"], true),
    ("ngit_git_bytes_total", &["direction"], true),
    ("ngit_git_push_authorization_total", &["result"], true),
    ("ngit_git_top_repos_bytes", &["repo"], true),
    ("ngit_git_refs_differ_total", &[], false),
    ("ngit_events_received_total", &["kind"], true),
    ("ngit_events_stored_total", &["kind"], true),
    ("ngit_events_rejected_total", &["kind", "reason"], true),
    ("ngit_sync_policy_refusals_total", &["category", "relay"], true),
    ("ngit_sync_rejected_hot_cache_current", &["event_type"], true),
    ("ngit_sync_rejected_cold_index_current", &["event_type"], true),
    ("ngit_sync_rejected_hot_cache_hits_total", &["event_type"], true),
    // Two minutes, and a week.
    ("ngit_sync_rejected_hot_cache_misses_total", &["event_type"], false),
    ("ngit_sync_rejected_hot_cache_expired_total", &["event_type"], false),
    ("ngit_sync_rejected_cold_index_expired_total", &["event_type"], false),
    ("ngit_sync_rejected_invalidated_total", &["event_type"], true),
    ("ngit_sync_events_synced_total", &[], true),
    ("ngit_purgatory_git_fetch_passes_total", &[], true),
    ("ngit_holding_cleanup_runs_total", &[], true),
    // Owners who left have 90 days to return.
    ("ngit_holding_cleanup_deleted_total", &["type"], false),
    ("ngit_holding_cleanup_last_run_deleted", &["type"], false),
    ("ngit_blacklist_deletions_total", &["phase", "result"], false),
    ("ngit_sync_verdicts", &["verdict"], true),
    ("ngit_sync_verdict_oldest_seconds", &[], false),
    ("ngit_sync_verdict_age_max_seconds", &[], true),
    ("ngit_sync_ledger_checks_total", &["result", "side"], true),
    ("process_resident_memory_bytes", &[], true),
    // In whole seconds.
    ("process_cpu_seconds_total", &[], false),
    ("process_open_fds", &[], true),
    ("process_max_fds", &[], true),
];

#[tokio::test]
async fn s41_every_figure_of_seeds_dashboard_and_alerts_is_recorded() {
    let mut story = Story::begins().await;
    story.is_lived().await;
    let scrape = Scrape::of(&story.here).await;
    for (name, labels, moved) in OF_SYNC.iter().chain(&OF_THE_REST) {
        let samples = scrape.of_name(name);
        assert!(!samples.is_empty(), "{name} is not recorded");
        assert_eq!(scrape.labels_of(name), labels.iter().copied().collect(), "{name}");
        assert!(!moved || scrape.sum(name) > 0.0, "{name} did not move: {samples:?}");
    }
    // Only where the kernel tells.
    for name in ["ngit_cgroup_cpu_seconds_total", "ngit_cgroup_memory_current_bytes"] {
        let samples = scrape.of_name(name);
        assert_eq!(!samples.is_empty(), has_cgroup(), "{name}: {samples:?}");
    }
    for expression in dashboard_expressions().iter().chain(&alert_expressions()) {
        is_answered(&scrape, expression);
    }
    every_series_the_story_moved(&scrape);
}

/// As a service of systemd or in a container both files are there.
fn has_cgroup() -> bool {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let directory = path.map(|path| std::path::Path::new("/sys/fs/cgroup").join(path));
    directory.is_some_and(|it| it.join("cpu.stat").exists() && it.join("memory.current").exists())
}

/// The many ways one figure can move, each of which the story has gone.
fn every_series_the_story_moved(scrape: &Scrape) {
    for (name, label, values) in [
        ("ngit_sync_connection_attempts_total", "result", &["success", "failure"][..]),
        ("ngit_sync_events_total", "source", &["direct", "live", "backfill"]),
        ("ngit_git_operations_total", "operation", &["clone", "fetch", "push"]),
        ("ngit_git_operations_total", "status", &["success", "error"]),
        ("ngit_git_bytes_total", "direction", &["in", "out"]),
        ("ngit_git_push_authorization_total", "result", &["allowed", "refused"]),
        ("ngit_websocket_messages_received_total", "type", &["EVENT", "REQ", "CLOSE"]),
        ("ngit_websocket_messages_sent_total", "type", &["OK", "EVENT", "EOSE"]),
        ("ngit_events_stored_total", "kind", &["30617", "30618", "1621"]),
        ("ngit_sync_rejected_hot_cache_hits_total", "event_type", &["state"]),
        ("ngit_sync_rejected_invalidated_total", "event_type", &["state"]),
    ] {
        for value in values {
            let moved = scrape.of_name(name).into_iter().any(|sample| {
                sample.labels.get(label).is_some_and(|it| it == value) && sample.value > 0.0
            });
            assert!(moved, "{name}{{{label}={value:?}}} did not move");
        }
    }
}

/// Each figure is there, with the labels that are asked for and the values they are asked to have.
fn is_answered(scrape: &Scrape, expression: &str) {
    let Reading { mentions, grouped } = promql::read(expression);
    let mut known: BTreeSet<&str> = SCRAPER_LABELS.into();
    for mention in &mentions {
        if SCRAPER_METRICS.contains(&mention.metric.as_str()) {
            continue;
        }
        let labels = scrape.labels_of(&mention.metric);
        assert!(
            !scrape.of_name(&mention.metric).is_empty(),
            "no {} for {expression}",
            mention.metric
        );
        known.extend(&labels);
        for (label, operator, value) in &mention.matchers {
            let is_known = known.contains(label.as_str());
            assert!(is_known, "{} has no label {label}: {expression}", mention.metric);
            if operator == "=" && !value.starts_with('$') && labels.contains(label.as_str()) {
                is_a_value(scrape, mention, label, value);
            }
        }
    }
    for label in grouped.iter().flatten() {
        assert!(known.contains(label.as_str()), "no label {label} for {expression}");
    }
}

fn is_a_value(scrape: &Scrape, mention: &Mention, label: &str, value: &str) {
    let samples = scrape.of_name(&mention.metric);
    let has = samples.iter().any(|it| it.labels.get(label).is_some_and(|found| found == value));
    assert!(has, "{} is never {label}={value:?}: {samples:?}", mention.metric);
}

#[test]
fn the_dashboard_is_one_that_grafana_can_load() {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    assert!(dashboard["schemaVersion"].as_u64().unwrap() >= 38, "Grafana 10 and newer");
    let panels = dashboard["panels"].as_array().unwrap();
    let rows: Vec<&str> = panels
        .iter()
        .filter(|panel| panel["type"] == "row")
        .map(|row| row["title"].as_str().unwrap())
        .collect();
    assert_eq!(rows, ["Overview", "Relay", "Git", "Sync", "Purgatory and hunt", "Ledger"]);
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{} is used twice", panel["id"]);
        if panel["type"] == "row" {
            continue;
        }
        assert!(!panel["description"].as_str().unwrap().is_empty(), "{}", panel["title"]);
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{}", panel["title"]);
        for target in panel["targets"].as_array().unwrap() {
            let expression = target["expr"].as_str().unwrap();
            let legend = target["legendFormat"].as_str().unwrap();
            mentions_only_what_remains(expression, &templates(legend, "{{"));
            let selector = "{job=\"$job\",instance=~\"$instance\"";
            assert!(expression.contains(selector), "{expression} looks at every server");
        }
    }
    let variables: Vec<&str> = dashboard["templating"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    assert_eq!(variables, ["datasource", "job", "instance"]);
}

#[test]
fn every_alert_says_what_happened_and_what_to_do() {
    let alerts: Vec<&str> = ALERTS.split("- alert: ").skip(1).collect();
    assert!(alerts.len() >= 15, "{}", alerts.len());
    let mut names = BTreeSet::new();
    for alert in alerts {
        let name = alert.lines().next().unwrap().trim();
        assert!(name.starts_with("Graspd") && names.insert(name), "{name}");
        for key in ["expr", "labels", "summary", "description"] {
            assert!(field(alert, key).is_some(), "{name} has no {key}");
        }
        let expression = field(alert, "expr").unwrap();
        for key in ["summary", "description"] {
            let text = field(alert, key).unwrap();
            assert!(text.starts_with('"') && text.ends_with('"') && text.len() > 20, "{name}");
            mentions_only_what_remains(expression, &templates(text, "$labels."));
        }
    }
}

#[test]
fn settings_named_in_advice_exist() {
    for text in [ALERTS, DASHBOARD] {
        for word in
            text.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_'))
        {
            assert!(!word.starts_with("NGIT_") || SETTINGS.contains(word), "there is no {word}");
        }
    }
}

/// A template can only show labels that the expression leaves.
fn mentions_only_what_remains(expression: &str, labels: &[String]) {
    let reading = promql::read(expression);
    let Some(grouped) = reading.grouped else { return };
    for label in labels {
        assert!(grouped.contains(label), "{expression} leaves no {label}");
    }
}

/// The names that follow this in a text.
fn templates(text: &str, opening: &str) -> Vec<String> {
    let is_name = |c: &char| c.is_ascii_alphanumeric() || *c == '_';
    text.split(opening).skip(1).map(|rest| rest.chars().take_while(is_name).collect()).collect()
}

fn dashboard_expressions() -> Vec<String> {
    let mut found = Vec::new();
    collect(&serde_json::from_str(DASHBOARD).unwrap(), &mut found);
    assert!(found.len() > 40, "{}", found.len());
    found
}

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value.as_str() {
                    Some(text) if key == "expr" => found.push(text.to_owned()),
                    // `label_values(<expression>, <label>)`
                    Some(text) if key == "definition" => {
                        let inside = text.strip_prefix("label_values(").unwrap();
                        found.push(inside.rsplit_once(',').unwrap().0.to_owned());
                    }
                    _ => collect(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, found)),
        _ => {}
    }
}

fn alert_expressions() -> Vec<String> {
    let alerts = ALERTS.split("- alert: ").skip(1);
    alerts.map(|alert| field(alert, "expr").unwrap().to_owned()).collect()
}

/// Ours are all written on one line each.
fn field<'a>(alert: &'a str, key: &str) -> Option<&'a str> {
    alert.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(": "))
}

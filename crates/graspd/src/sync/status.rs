//! What is known of every relay we follow, for those who ask from outside (S-43): its condition,
//! what is confirmed there, why nothing happens if nothing does, and how both sides stood for each
//! repository when they were last compared.

use super::Watch;
use crate::node::Node;
use crate::peers::{self, Verdict};
use grasp_core::{RelayUrl, Time};
use grasp_engine::{RelayView, Totals};
use grasp_store::EventStore;
use serde::Serialize;
use std::time::Duration;

#[derive(Serialize)]
struct Status {
    now: Time,
    totals: Totals,
    relays: Vec<Relay>,
}

#[derive(Serialize)]
struct Relay {
    #[serde(flatten)]
    view: RelayView,
    uptime_percent: Option<f64>,
    /// One sentence for a person.
    explain: String,
    repositories_compared: Vec<Compared>,
}

#[derive(Serialize)]
struct Compared {
    repository: String,
    both: u64,
    they_lack: u64,
    we_lack: u64,
    coverage_permille: Option<u16>,
    verdict: Option<Verdict>,
    at: Time,
}

const SHOWN_FOR: Duration = Duration::from_secs(1);
const ROWS_SHOWN_MAX: usize = 20_000;
const RELAYS_SHOWN_MAX: usize = 1_000;
const REPOSITORIES_SHOWN_MAX: usize = 200;

/// `None` while the server does not sync, or stops.
pub async fn relays(node: &Node) -> Option<String> {
    let watch: &Watch = node.sync.get()?;
    // Held while it is made, so that it is made once.
    let mut shown = watch.shown.lock().await;
    let now = node.clock.now();
    if let Some((at, json)) = &*shown
        && now.since(*at) < SHOWN_FOR
    {
        return Some(json.clone());
    }
    let (totals, mut views) = watch.relays().await?;
    views.truncate(RELAYS_SHOWN_MAX);
    let age_max = node.verdict_age_max;
    let rows = (ROWS_SHOWN_MAX / views.len().max(1)).clamp(1, REPOSITORIES_SHOWN_MAX);
    let asked = node.explorers.ask(move |store| {
        let describe = |view: RelayView| Relay {
            repositories_compared: compared(store, &view.relay, rows, now, age_max),
            uptime_percent: peers::uptime_percent(&view.account),
            explain: view.to_string(),
            view,
        };
        let relays = views.into_iter().map(describe).collect();
        serde_json::to_string(&Status { now, totals, relays }).ok()
    });
    let json = asked.await.ok().flatten()?;
    *shown = Some((now, json.clone()));
    Some(json)
}

fn compared(
    store: &dyn EventStore,
    relay: &RelayUrl,
    rows_max: usize,
    now: Time,
    age_max: Duration,
) -> Vec<Compared> {
    let rows = store.read().and_then(|it| peers::of_relay(&*it, relay, rows_max));
    let describe = |row: peers::Row| {
        let counts = row.standing.counts.unwrap_or_default();
        Compared {
            repository: row.repo.coordinate().to_string(),
            both: counts.both,
            they_lack: counts.they_lack,
            we_lack: counts.we_lack,
            coverage_permille: row.standing.coverage_permille(),
            verdict: row.standing.verdict_at(now, age_max),
            at: row.standing.at,
        }
    };
    rows.unwrap_or_default().into_iter().map(describe).collect()
}

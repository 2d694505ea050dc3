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

const RELAYS_SHOWN_MAX: usize = 1_000;
const REPOSITORIES_SHOWN_MAX: usize = 200;

/// `None` while the server does not sync, or stops.
pub async fn relays(node: &Node) -> Option<String> {
    let watch: &Watch = node.sync.get()?;
    let (totals, mut views) = watch.relays().await?;
    views.truncate(RELAYS_SHOWN_MAX);
    let (now, age_max) = (node.clock.now(), node.verdict_age_max);
    let asked = node.readers.ask(move |store| {
        let describe = |view: RelayView| Relay {
            repositories_compared: compared(store, &view.relay, now, age_max),
            uptime_percent: peers::uptime_percent(&view.account),
            explain: view.to_string(),
            view,
        };
        let relays = views.into_iter().map(describe).collect();
        serde_json::to_string(&Status { now, totals, relays }).ok()
    });
    asked.await.ok().flatten()
}

fn compared(
    store: &dyn EventStore,
    relay: &RelayUrl,
    now: Time,
    age_max: std::time::Duration,
) -> Vec<Compared> {
    let rows = store.read().and_then(|it| peers::of_relay(&*it, relay, REPOSITORIES_SHOWN_MAX));
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

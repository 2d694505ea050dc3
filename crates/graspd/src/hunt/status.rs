//! What is being looked for, where, and why it is not here yet, for those who ask from outside
//! (S-43).

use crate::node::Node;
use crate::report::text::{WORDS_MAX, shown};
use grasp_core::Time;
use grasp_engine::hunt::{DomainView, HuntView, SourceView};
use serde::Serialize;
use std::time::Duration;

#[derive(Serialize)]
struct Status {
    now: Time,
    queue: usize,
    running: usize,
    families: Vec<Family>,
    domains: Vec<Domain>,
}

#[derive(Serialize)]
struct Family {
    owner: String,
    identifier: String,
    /// Objects nobody has brought yet.
    missing: usize,
    /// Something waits for them; otherwise they are only wanted.
    held: bool,
    attempts: u32,
    next_attempt: Option<Time>,
    asking: Vec<String>,
    waits_for: Vec<String>,
    sources: Vec<Source>,
}

#[derive(Serialize)]
struct Source {
    url: String,
    asked: Option<Time>,
    found: usize,
    absent: usize,
    said: String,
}

#[derive(Serialize)]
struct Domain {
    domain: String,
    grasp: bool,
    in_flight: u32,
    queued: usize,
    starts_in_window: usize,
    starts_max: u32,
    paused_until: Option<Time>,
}

const SHOWN_FOR: Duration = Duration::from_secs(1);

/// `None` while nothing is hunted here, or the server stops.
pub async fn hunts(node: &Node) -> Option<String> {
    let watch = node.hunt.get()?;
    // Held while it is made, so that it is made once.
    let mut shown = watch.shown.lock().await;
    let now = node.clock.now();
    if let Some((at, json)) = &*shown
        && now.since(*at) < SHOWN_FOR
    {
        return Some(json.clone());
    }
    let seen = watch.look().await?;
    let status = Status {
        now: node.clock.wall(),
        queue: seen.totals.families,
        running: seen.totals.running,
        families: seen.families.into_iter().map(family).collect(),
        domains: seen.domains.iter().map(domain).collect(),
    };
    let json = serde_json::to_string(&status).ok()?;
    *shown = Some((now, json.clone()));
    Some(json)
}

fn family(view: HuntView) -> Family {
    Family {
        owner: view.family.owner.to_npub(),
        identifier: view.family.identifier.to_string(),
        missing: view.wants,
        held: view.held,
        attempts: view.attempts,
        next_attempt: view.next,
        asking: view.running.iter().map(ToString::to_string).collect(),
        waits_for: view.waits_for.iter().map(ToString::to_string).collect(),
        sources: view.sources.into_iter().map(source).collect(),
    }
}

fn source(view: SourceView) -> Source {
    let SourceView { url, asked, said, found, absent } = view;
    Source { url: url.to_string(), asked, found, absent, said: shown(&said, WORDS_MAX) }
}

fn domain(view: &DomainView) -> Domain {
    Domain {
        domain: view.domain.to_string(),
        grasp: view.grasp,
        in_flight: view.in_flight,
        queued: view.queued,
        starts_in_window: view.starts_in_window,
        starts_max: view.starts_max,
        paused_until: view.paused_until,
    }
}

//! The API: reports as JSON, each with a mark by which a client sees that nothing changed. Read-only.

use crate::http::live::Visitor;
use crate::http::respond::{self, Answer, busy, empty};
use crate::hunt;
use crate::node::Node;
use crate::report::{self, EventReport, Page, Purgatory, Relays, Repo, Repos, Status};
use grasp_core::id::hex_encode;
use grasp_core::{EventId, RepoId, Time};
use hyper::{HeaderMap, StatusCode, header};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// What can be asked below `/api/v1/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Api {
    /// What there is to ask.
    Index,
    Status,
    Relays(Page),
    Repos(Page),
    Repo(RepoId),
    Purgatory(Page),
    Event(EventId),
    Hunts,
    /// Server-sent events.
    Live,
}

const STOPPING: &str = "the server is stopping, or its store cannot be read; see its log";

pub(super) async fn answer(
    node: &Arc<Node>,
    asked: Api,
    headers: &HeaderMap,
    visitor: Visitor,
) -> Answer {
    match asked {
        Api::Index => index(node.service.base_path()),
        Api::Status => told(report::status(node).await, headers),
        Api::Relays(page) => told(report::relays(node, page).await, headers),
        Api::Repos(page) => told(report::repos(node, page).await, headers),
        Api::Purgatory(page) => told(report::purgatory(node, page).await, headers),
        Api::Repo(repo) => found(report::repo(node, &repo).await, headers),
        Api::Event(id) => found(report::event(node, &id).await, headers),
        Api::Live => super::live::listen(node, visitor),
        Api::Hunts => match hunt::hunts(node).await {
            Some(json) => respond::text(StatusCode::OK, "application/json", json),
            None => busy("this server does not look for git data elsewhere right now"),
        },
    }
}

fn found<T: Dated>(report: Option<Option<T>>, headers: &HeaderMap) -> Answer {
    match report {
        Some(None) => nothing_here(),
        Some(Some(report)) => told(Some(report), headers),
        None => busy(STOPPING),
    }
}

pub(super) fn nothing_here() -> Answer {
    mistake(StatusCode::NOT_FOUND, "nothing of that name is here; /api/v1 lists what there is")
}

pub(super) fn malformed(why: &str) -> Answer {
    mistake(StatusCode::BAD_REQUEST, why)
}

fn mistake(status: StatusCode, why: &str) -> Answer {
    let body = serde_json::json!({ "error": why }).to_string();
    respond::text(status, "application/json", body)
}

/// Path below `/api/v1`, what it tells, and its parameters.
const RESOURCES: [(&str, &str, &[&str]); 8] = [
    ("/status", "the server, its totals, its problems and its latest activity", &[]),
    ("/relays", "the relays that are followed", &["limit", "after"]),
    ("/repos", "the repositories that are hosted", &["limit", "after"]),
    ("/repos/<npub>/<identifier>", "one repository with its refs and mirrors", &[]),
    ("/purgatory", "events that wait for git data", &["limit", "after"]),
    ("/events/<id>", "one event: where it came from and how it stands", &[]),
    ("/hunts", "the search for git data", &[]),
    ("/live", "server-sent events: what happens, as it happens", &[]),
];

fn index(base_path: &str) -> Answer {
    let resource = |(path, about, parameters): &(&str, &str, &[&str])| {
        let path = format!("{base_path}/api/v1{path}");
        serde_json::json!({ "path": path, "about": about, "parameters": parameters })
    };
    let resources: Vec<_> = RESOURCES.iter().map(resource).collect();
    let body = serde_json::json!({ "resources": resources }).to_string();
    respond::text(StatusCode::OK, "application/json", body)
}

fn told<T: Dated>(report: Option<T>, headers: &HeaderMap) -> Answer {
    let Some(mut report) = report else { return busy(STOPPING) };
    let Ok(body) = serde_json::to_vec(&report) else { return busy(STOPPING) };
    report.undate();
    let mark = mark(&serde_json::to_vec(&report).unwrap_or_default());
    let mut answer = match is_known(headers, &mark) {
        true => empty(StatusCode::NOT_MODIFIED),
        false => respond::text(StatusCode::OK, "application/json", body),
    };
    if let Ok(mark) = header::HeaderValue::try_from(mark) {
        answer.headers_mut().insert(header::ETAG, mark);
    }
    let revalidate = header::HeaderValue::from_static("no-cache");
    answer.headers_mut().insert(header::CACHE_CONTROL, revalidate);
    answer
}

/// Weak: the same truth, told at another time.
fn mark(body: &[u8]) -> String {
    let digest = Sha256::digest(body);
    format!("W/\"{}\"", hex_encode(&digest.iter().copied().take(16).collect::<Vec<u8>>()))
}

pub(super) fn is_known(headers: &HeaderMap, mark: &str) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).iter();
    let mut known = values.filter_map(|it| it.to_str().ok()).flat_map(|it| it.split(','));
    let bare = mark.trim_start_matches("W/");
    known.any(|it| matches!(it.trim(), "*") || it.trim().trim_start_matches("W/") == bare)
}

/// A report that says when it was made; without that, two of them are the same if nothing changed.
trait Dated: Serialize {
    fn undate(&mut self);
}

impl Dated for Status {
    fn undate(&mut self) {
        (self.now, self.server.uptime_secs, self.ledger.oldest_secs) = (Time(0), None, 0);
    }
}

impl Dated for Relays {
    fn undate(&mut self) {
        self.now = Time(0);
        for it in &mut self.relays {
            (it.ledger.oldest_secs, it.last_alive, it.uptime_percent) = (0, None, None);
            it.timeline.clear();
        }
    }
}

impl Dated for Repos {
    fn undate(&mut self) {
        self.now = Time(0);
        self.repositories.iter_mut().for_each(|it| it.ledger.oldest_secs = 0);
    }
}

impl Dated for Repo {
    fn undate(&mut self) {
        self.now = Time(0);
    }
}

impl Dated for Purgatory {
    fn undate(&mut self) {
        self.now = Time(0);
    }
}

impl Dated for EventReport {
    fn undate(&mut self) {
        self.now = Time(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_known_in_every_spelling() {
        let mark = mark(b"{}");
        for (sent, known) in [
            (mark.as_str(), true),
            (mark.trim_start_matches("W/"), true),
            ("*", true),
            ("\"other\"", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, sent.parse().unwrap());
            assert_eq!(is_known(&headers, &mark), known, "{sent}");
        }
        let mut headers = HeaderMap::new();
        headers.insert(header::IF_NONE_MATCH, format!("\"a\", {mark}").parse().unwrap());
        assert!(is_known(&headers, &mark));
    }
}

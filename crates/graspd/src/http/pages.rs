//! From a request for a page to its report and from there to `web`, which draws it.

use crate::http::api::is_known;
use crate::http::respond::{Answer, busy, empty, html, text};
use crate::node::Node;
use crate::report::{self, Page};
use crate::web::{self, Site};
use axum::body::Body;
use grasp_core::RepoId;
use hyper::header::{self, HeaderValue};
use hyper::{HeaderMap, StatusCode};
use std::sync::Arc;

const STOPPING: &str = "the server is stopping, or its store cannot be read; see its log";

pub async fn home(node: &Arc<Node>) -> Answer {
    shown(report::status(node).await, |it| web::home(&node.site, it))
}

pub async fn relays(node: &Arc<Node>, page: Page) -> Answer {
    shown(report::relays(node, page).await, |it| web::relays(&node.site, it))
}

pub async fn repos(node: &Arc<Node>, page: Page) -> Answer {
    shown(report::repos(node, page).await, |it| web::repos(&node.site, it))
}

pub async fn purgatory(node: &Arc<Node>, page: Page) -> Answer {
    shown(report::purgatory(node, page).await, |it| web::purgatory(&node.site, it))
}

pub async fn repository(node: &Arc<Node>, repo: &RepoId) -> Answer {
    match report::repo(node, repo).await {
        Some(None) => no_repository(&node.site),
        found => {
            let readme = node.readmes.of(&node.host.repos, repo).await;
            shown(found.flatten(), |it| web::repository(&node.site, it, readme.as_deref()))
        }
    }
}

pub fn no_repository(site: &Site) -> Answer {
    html(StatusCode::NOT_FOUND, web::no_repository(site))
}

pub fn not_found(site: &Site) -> Answer {
    html(StatusCode::NOT_FOUND, web::not_found(site))
}

/// Its name changes with what is in it, so it may be kept for ever.
pub fn asset(site: &Site, name: &str, headers: &HeaderMap) -> Answer {
    let Some(asset) = web::asset(name) else { return not_found(site) };
    let mut answer = match is_known(headers, &asset.etag) {
        true => empty(StatusCode::NOT_MODIFIED),
        false => text(StatusCode::OK, asset.content_type, Body::from(asset.bytes)),
    };
    let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
    answer.headers_mut().insert(header::CACHE_CONTROL, forever);
    if let Ok(etag) = HeaderValue::try_from(&asset.etag) {
        answer.headers_mut().insert(header::ETAG, etag);
    }
    answer
}

fn shown<T>(report: Option<T>, draw: impl Fn(&T) -> String) -> Answer {
    let Some(report) = report else { return busy(STOPPING) };
    let mut answer = html(StatusCode::OK, draw(&report));
    answer.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    answer
}

//! What a server says about how a repository stands elsewhere, as it tells everybody.

use super::acme;
use grasp_testkit::{Server, http};
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

pub(crate) async fn mirrors(server: &Server) -> Vec<Value> {
    let place = format!("repos/{}/acme", acme().owner.key.to_npub());
    let page = http("GET", &format!("{}/api/v1/{place}", server.address), &[]).await;
    let repo: Value = serde_json::from_str(&page.body).unwrap_or_default();
    repo["mirrors"].as_array().cloned().unwrap_or_default()
}

pub(crate) async fn mirror(server: &Server, address: &str) -> Value {
    let mirrors = mirrors(server).await;
    let is_it = |it: &&Value| it["place"].as_str().is_some_and(|it| it.starts_with(address));
    mirrors.iter().find(is_it).cloned().unwrap_or_default()
}

/// Waits for a verdict with such a reason; how long it took.
pub(crate) async fn stands(
    server: &Server,
    address: &str,
    verdict: &str,
    because: &str,
) -> Duration {
    let from = Instant::now();
    let mut last = Value::Null;
    let waiting = async {
        loop {
            last = mirror(server, address).await;
            let words = last["because"].as_str().unwrap_or_default();
            if last["verdict"] == verdict && words.contains(because) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let seen = tokio::time::timeout(Duration::from_secs(40), waiting).await;
    assert!(seen.is_ok(), "{address} is {verdict} because it `{because}`, but {last}");
    from.elapsed()
}

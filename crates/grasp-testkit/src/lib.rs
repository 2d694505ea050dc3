//! People, events, servers and clients for tests and benchmarks: nouns with verbs, no tests of
//! their own. Everything waits for facts; the caps on waiting only make a broken test fail.
#![allow(clippy::panic, reason = "a testkit tells a test that it failed by panicking")]

mod author;
pub mod behaviour;
pub mod browser;
pub mod chaos;
mod client;
pub mod forge;
mod git;
mod http;
mod random;
mod repository;
mod server;
pub mod world;

pub use author::{Author, Draft};
pub use behaviour::Behaviour;
pub use browser::{Browser, Tab};
pub use client::{Client, Reply};
pub use forge::Forge;
pub use git::{Git, Ran, UNBORN, WorkTree};
pub use http::{Page, http, read_to_end};
pub use random::Random;
pub use repository::Repository;
pub use server::{Home, Server, json_lines};

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The wall clock, in seconds, as events carry it.
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs()
}

/// Asks again and again until the answer is yes; the cap only ends a broken test.
pub async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let seen = tokio::time::timeout(Duration::from_secs(30), waiting).await;
    assert!(seen.is_ok(), "not seen in time: {what}");
}

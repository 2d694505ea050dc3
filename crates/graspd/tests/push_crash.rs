//! Pushes and power cuts: what was reported done is there afterwards, refs and events tell the same
//! story, and nothing half done is left.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;
mod ordeal;

use common::home;
use ordeal::{Ordeal, SETTINGS};

const PUSHES: usize = 200;
/// Rounds between two inspections; what one crash broke is not mended by another.
const INSPECTED_EVERY: usize = 4;
const SEED: u64 = 0x9a5b;

/// A number in the environment plays another story.
fn seed() -> u64 {
    std::env::var("GRASPD_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(SEED)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_at_random_points_in_two_hundred_pushes_lose_nothing() {
    let home = home(&SETTINGS);
    let git_root = home.path().join("git");
    let mut ordeal = Ordeal::begins(home, git_root, seed()).await;
    let mut round = 0;
    while ordeal.pushes() < PUSHES {
        round += 1;
        ordeal.suffers(async |server| server.kill().await).await;
        if round % INSPECTED_EVERY == 0 {
            ordeal.is_looked_over(false).await;
        }
    }
    ordeal.is_looked_over(true).await;
    eprintln!("{}", ordeal.tells());
}

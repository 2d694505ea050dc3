//! Pushes and power cuts: what was reported done is there afterwards, refs and events tell the same
//! story, and nothing half done is left.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;
mod ordeal;

use common::home;
use grasp_testkit::Server;
use ordeal::{Ordeal, SETTINGS};
use std::path::{Path, PathBuf};
use tokio::process::Command;

const PUSHES: usize = 200;
/// Rounds between two inspections; what one crash broke is not mended by another.
const INSPECTED_EVERY: usize = 2;
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

/// Run by `scripts/plug-pull`, which makes the disk and knows how to stop it.
#[ignore = "needs root and a disk of its own: scripts/plug-pull"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_forgets_what_was_not_synced_loses_nothing_that_was_promised() {
    let disk = PathBuf::from(told("GRASPD_DISK"));
    let mut home = home(&SETTINGS);
    for (setting, root) in [("NGIT_RELAY_DATA_PATH", "relay"), ("NGIT_GIT_DATA_PATH", "git")] {
        home.set(setting, &disk.join(root).display().to_string());
    }
    home.set("NGIT_GIT_MIN_FREE_BYTES", "1000000");
    let mut ordeal = Ordeal::begins(home, disk.join("git"), seed()).await;
    let (rounds, mut forgot) = (told("GRASPD_ROUNDS").parse::<usize>().unwrap(), 0);
    for _ in 0..rounds {
        let cut =
            async |server: &mut Server| forgot += usize::from(loses_power(&disk, server).await);
        ordeal.suffers(cut).await;
        ordeal.is_looked_over(true).await;
    }
    eprintln!("{}", ordeal.tells());
    eprintln!("a file that was not synced was gone after {forgot} of {rounds} power cuts");
    assert!(forgot * 2 > rounds, "a disk that forgets nothing is no test");
}

/// True if the disk forgot what nobody had synced; now and then the system does that by itself.
async fn loses_power(disk: &Path, server: &mut Server) -> bool {
    let witness = disk.join("never synced");
    std::fs::write(&witness, "remembered").unwrap();
    plug("cut").await;
    server.kill().await;
    plug("restore").await;
    let left = std::fs::read_to_string(&witness).unwrap_or_default();
    // Its name may be there. Writing to it once more would make ext4 careful.
    let _ = std::fs::remove_file(&witness);
    left != "remembered"
}

async fn plug(verb: &str) {
    let done = Command::new(told("GRASPD_PLUG")).arg(verb).status().await;
    assert!(done.is_ok_and(|status| status.success()), "plug-pull {verb}");
}

fn told(name: &str) -> String {
    std::env::var(name).expect("scripts/plug-pull sets it")
}

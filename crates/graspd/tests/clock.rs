//! Wall clocks that are set, on real servers: by libfaketime, which leaves the monotonic clock alone.
//! However far a clock was off, once it is right the next commit of a peer arrives as ever.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod common;

use common::mirrors::{CLOSED_NET, Mirrors, holds};
use common::{home, server};
use grasp_testkit::{Server, http, now, until};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

/// Debian's package `faketime`.
const LIBRARIES: [&str; 2] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
];
const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;
/// Each step ends with the right time.
const STEPS: [i64; 4] = [HOUR, DAY, -HOUR, -DAY];
const LINKED_WITHIN: Duration = Duration::from_secs(20);
const ARRIVES_WITHIN: Duration = Duration::from_secs(10);

/// A wall clock that can be set while a server runs.
struct WallClock {
    directory: TempDir,
}

impl WallClock {
    fn new() -> Self {
        let clock = Self { directory: tempfile::tempdir().unwrap() };
        clock.set(0);
        clock
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("offset")
    }

    /// So many seconds ahead; written whole, because the server reads it at any moment.
    fn set(&self, ahead_secs: i64) {
        let new = self.directory.path().join("new");
        std::fs::write(&new, format!("{ahead_secs:+}\n")).unwrap();
        std::fs::rename(new, self.file()).unwrap();
    }

    async fn server(&self) -> Server {
        let library = LIBRARIES.iter().find(|path| Path::new(path).exists());
        let library = library.expect("the Debian package `faketime` is installed");
        let file = self.file().display().to_string();
        let settings = [
            CLOSED_NET,
            ("LD_PRELOAD", library),
            ("FAKETIME_TIMESTAMP_FILE", &file),
            ("FAKETIME_NO_CACHE", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("NO_FAKE_STAT", "1"),
        ];
        home(&settings).serve().await
    }
}

/// An honest peer, and a server whose clock is set; both host the repository.
async fn pair(clock: &WallClock) -> Mirrors {
    let servers = vec![server(&[CLOSED_NET]).await, clock.server().await];
    let mirrors = Mirrors::on(servers, Vec::new()).await;
    mirrors.joins(0).await;
    mirrors.joins(1).await;
    mirrors
}

/// The owner commits at the peer, and the other server has it soon.
async fn commit_arrives(mirrors: &Mirrors, number: u64, when: &str) {
    let (state, tip) = mirrors.moves_on(0, number).await;
    let (begun, url) = (Instant::now(), mirrors.url(1));
    let arrives = async {
        mirrors.one_holds(1, std::slice::from_ref(&state)).await;
        until("the branch has moved", || async {
            mirrors.tree().ls_remote(&url).await.get("refs/heads/main") == Some(&tip.to_hex())
        })
        .await;
    };
    let log = || mirrors.servers[1].log().join("\n");
    assert!(timeout(ARRIVES_WITHIN, arrives).await.is_ok(), "{when}: {}", log());
    println!("{when}: the commit arrived after {:?}", begun.elapsed());
}

/// Waits until the server has a link to its peer.
async fn peer_is_linked(server: &Server) {
    let (mut said, begun) = (String::new(), Instant::now());
    while begun.elapsed() < LINKED_WITHIN {
        said = http("GET", &format!("{}/api/v1/relays", server.address), &[]).await.body;
        if said.contains("\"connected\":true") {
            return;
        }
        sleep(Duration::from_millis(20)).await;
    }
    panic!("{said}");
}

/// Waits until the server has noticed that its clock was set.
async fn notices(server: &Server, steps: usize) {
    until("the step is noticed", || async {
        let log = server.log();
        log.iter().filter(|line| line.contains("the wall clock was set")).count() >= steps
    })
    .await;
}

#[tokio::test]
async fn a_commit_arrives_soon_after_a_running_servers_clock_was_set() {
    let clock = WallClock::new();
    let mirrors = pair(&clock).await;
    commit_arrives(&mirrors, 1, "before").await;
    for (number, step) in (0..).zip(STEPS) {
        clock.set(-step);
        notices(&mirrors.servers[1], 2 * usize::try_from(number).unwrap() + 1).await;
        if step < 0 {
            let when = format!("{} s ahead", -step);
            commit_arrives(&mirrors, 10 * number + 2, &when).await;
        }
        clock.set(0);
        commit_arrives(&mirrors, 10 * number + 3, &format!("set by {step} s")).await;
    }
    let log = mirrors.servers[1].log();
    let cut = log.iter().filter(|line| line.contains("no link to the relay"));
    assert_eq!(cut.collect::<Vec<_>>(), Vec::<&String>::new(), "no link was cut");
}

#[tokio::test]
async fn a_commit_arrives_soon_after_a_start_with_a_clock_that_was_set() {
    let clock = WallClock::new();
    let mut mirrors = pair(&clock).await;
    for (number, step) in (0..).zip(STEPS) {
        for ahead in [-step, 0] {
            assert!(mirrors.servers[1].stop().await);
            clock.set(ahead);
            mirrors.servers[1].restart_in_place().await;
            peer_is_linked(&mirrors.servers[1]).await;
        }
        commit_arrives(&mirrors, 10 * number + 3, &format!("set by {step} s")).await;
    }
}

#[tokio::test]
async fn what_was_refused_as_of_the_future_comes_when_the_clock_is_right() {
    let clock = WallClock::new();
    let mirrors = pair(&clock).await;
    clock.set(-DAY);
    notices(&mirrors.servers[1], 1).await;
    let issue = mirrors.acme.issue(&common::alice(), now(), "a day ahead");
    let older = mirrors.acme.issue(&common::alice(), now() - 2 * DAY.unsigned_abs(), "in time");
    mirrors.publish(0, &[issue.clone(), older.clone()]).await;
    mirrors.one_holds(1, &[older]).await;
    assert!(!holds(&mirrors.servers[1], &[issue.id]).await, "it came first, and was refused");
    clock.set(0);
    mirrors.one_holds(1, std::slice::from_ref(&issue)).await;
}

#[tokio::test]
async fn a_clock_that_was_set_is_a_problem_that_status_and_doctor_name() {
    let clock = WallClock::new();
    let server = clock.server().await;
    clock.set(DAY);
    until("the problem is told", || async {
        let status = http("GET", &format!("{}/api/v1/status", server.address), &[]).await;
        status.body.contains("clock-step") && status.body.contains("was set forward by 24 h")
    })
    .await;
    let doctor = server.command(&["doctor"]).output().await.unwrap();
    let said = String::from_utf8_lossy(&doctor.stdout);
    assert!(said.contains("the clock of this machine was set forward"), "{said}");
}

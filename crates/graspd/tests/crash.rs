//! Power cuts: whatever was acknowledged is there afterwards, and nothing prevents a start.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;

use common::hosted::{Hosted, MAIN};
use common::{THEN, acme, alice, install_script, serving};
use futures_util::{SinkExt, StreamExt};
use grasp_core::{EventId, VerifiedEvent};
use grasp_testkit::{Author, Client, Git, Random, Repository, Server, until};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write;
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_tungstenite::tungstenite::Message;

const ROUNDS: u64 = 50;
const WRITERS: u64 = 4;
const SEED: u64 = 0x6a11;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_kills_at_random_moments_lose_nothing_that_was_acknowledged() {
    let mut random = Random::seeded(SEED);
    let (mut server, acme) = serving(&[]).await;
    let mut acknowledged = BTreeSet::new();
    let mut held: Vec<VerifiedEvent> = Vec::new();
    for round in 0..ROUNDS {
        let waiting = Repository::new(Author::number(9_000 + round), "waiting");
        let waiting = waiting.announcement_listing(&server.address, THEN + round);
        let mut client = Client::connect(&server.url()).await;
        let answer = client.publishes(&waiting).await;
        assert!(answer.text.starts_with("purgatory:"), "{answer:?}");
        held.push(waiting);

        let (tell, mut told) = unbounded_channel();
        for writer in 0..WRITERS {
            let author = Author::number(10_000 + round * WRITERS + writer);
            tokio::spawn(publishes(server.url(), author, acme.clone(), tell.clone()));
        }
        drop(tell);
        let mut fresh = first(&mut told, 1 + random.index(300)).await;
        // Somewhere between two commits, or inside one.
        tokio::time::sleep(Duration::from_micros(random.below(4_000))).await;
        server.kill().await;
        // What the clients heard before the line went dead counts, too.
        while let Some(id) = told.recv().await {
            fresh.push(id);
        }
        server.restart().await;
        let lost = missing(&server, &fresh).await;
        assert!(lost.is_empty(), "seed {SEED}, round {round}: {} lost", lost.len());
        acknowledged.extend(fresh);
    }
    let all: Vec<EventId> = acknowledged.into_iter().collect();
    assert_eq!(missing(&server, &all).await, []);
    let mut client = Client::connect(&server.url()).await;
    for event in &held {
        assert_eq!(client.publishes(event).await.text, "duplicate: in purgatory");
    }
    assert!(all.len() as u64 > ROUNDS * 20, "{} events were enough of a test", all.len());
}

#[tokio::test]
async fn a_torn_tail_does_not_prevent_a_start() {
    let (mut server, acme) = serving(&[]).await;
    let mut random = Random::seeded(SEED);
    let mut issues = Vec::new();
    for (round, len) in [1, 511, 4_095, 4_096, 4_097, 20_000, 1 << 20].into_iter().enumerate() {
        let mut client = Client::connect(&server.url()).await;
        for n in 0..20 {
            let issue = acme.issue(&alice(), THEN + n, &format!("{round} {n}"));
            assert!(client.publishes(&issue).await.accepted());
            issues.push(issue.id);
        }
        server.kill().await;
        let garbage: Vec<u8> = (0..len).map(|_| random.below(256) as u8).collect();
        let path = server.home().relay_path().join("data.mdb");
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(&garbage).unwrap();
        drop(file);
        server.restart().await;
        assert_eq!(missing(&server, &issues).await, [], "after {len} bytes of garbage");
    }
}

#[tokio::test]
async fn a_first_start_cut_short_at_any_point_can_be_repeated() {
    let mut random = Random::seeded(SEED);
    let home = common::home(&[]);
    for _ in 0..15 {
        let mut process = home.command(&[]).stdout(std::process::Stdio::null()).spawn().unwrap();
        tokio::time::sleep(Duration::from_micros(random.below(40_000))).await;
        process.kill().await.unwrap();
    }
    let server = home.serve().await;
    let mut client = Client::connect(&server.url()).await;
    let answer = client.publishes(&acme().announcement_listing(&server.address, THEN)).await;
    assert!(answer.ok, "{answer:?}");
}

#[tokio::test]
async fn files_left_half_written_by_a_first_start_are_no_strangers() {
    let home = common::home(&[]);
    for (directory, file) in [
        ("relay", "relay-owner.partial"),
        ("relay", "GRASPD_FORMAT.partial"),
        ("git", "GRASPD_FORMAT.partial"),
    ] {
        let directory = home.path().join(directory);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join(file), "gr").unwrap();
    }
    let server = home.serve().await;
    assert!(server.home().relay_path().join("relay-owner.nsec").exists());
    assert!(!server.home().relay_path().join("relay-owner.partial").exists());
}

/// Publishes as fast as it can until the line is dead, telling of each yes.
async fn publishes(url: String, author: Author, acme: Repository, tell: UnboundedSender<EventId>) {
    let (mut sink, mut stream) = Client::connect(&url).await.socket.split();
    let sending = tokio::spawn(async move {
        for n in 0.. {
            let issue = acme.issue(&author, THEN + n, "while the lights are on");
            let text = format!("[\"EVENT\",{}]", issue.to_json());
            if sink.send(Message::text(text)).await.is_err() {
                break;
            }
        }
    });
    while let Some(Ok(Message::Text(text))) = stream.next().await {
        let message: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(message[2], true, "{message}");
        // Nobody listens once the test has failed.
        let _ = tell.send(message[1].as_str().unwrap().parse().unwrap());
    }
    sending.abort();
}

async fn first(told: &mut UnboundedReceiver<EventId>, count: usize) -> Vec<EventId> {
    let mut ids = Vec::new();
    while ids.len() < count {
        ids.push(told.recv().await.expect("the writers are at work"));
    }
    ids
}

/// Which of these the server does not serve.
async fn missing(server: &Server, ids: &[EventId]) -> Vec<EventId> {
    let mut client = Client::connect(&server.url()).await;
    let mut lost = Vec::new();
    for part in ids.chunks(1_000) {
        let asked: Vec<String> = part.iter().map(|id| id.to_hex()).collect();
        let found: BTreeSet<EventId> =
            client.asks(&[json!({"ids": asked})]).await.into_iter().collect();
        lost.extend(part.iter().filter(|id| !found.contains(id)));
    }
    lost
}

/// A repack that takes very long, and what it started: their numbers are in `pids`.
#[tokio::test]
async fn maintenance_ends_with_a_server_that_is_killed() {
    let home = tempfile::tempdir().unwrap();
    let pids = home.path().join("pids");
    let (noted, git) = (pids.display(), Git::any().binary);
    let script = format!(
        "case \"$*\" in *repack*) sleep 1000 & echo $$ $! > '{noted}.new'; mv '{noted}.new' '{noted}'; \
         wait; exit;; esac\nexec '{}' \"$@\"",
        git.display()
    );
    let program = install_script(home.path(), &script).await;
    let settings = [("NGIT_GIT_BINARY", program.to_str().unwrap())];
    let (mut hosted, _) = Hosted::published(&Git::any(), &settings).await;
    for number in 0..13 {
        let tip = hosted.tree.commit("README", &number.to_string()).await;
        hosted.signs(&[(MAIN, tip)]).await;
        hosted.pushes(&["main"]).await.expect("a push that brings a pack");
    }
    until("the repack has begun", || async { pids.exists() }).await;
    let pids = std::fs::read_to_string(&pids).unwrap();
    let is_alive = |pid: &str| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line.starts_with("State:") && !line.contains("Z (zombie)"))
    };
    assert!(pids.split_whitespace().count() == 2 && pids.split_whitespace().all(is_alive));
    hosted.server.kill().await;
    until("the repack ends with the server", || async { !pids.split_whitespace().any(is_alive) })
        .await;
}

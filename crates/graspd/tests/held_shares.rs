//! Strangers who fill a table with a limit fill their own share of it, and the operator hears of it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::hosted::{Hosted, MAIN, refs};
use common::mirrors::{Mirrors, holds, metric};
use grasp_core::{Kind, VerifiedEvent};
use grasp_testkit::chaos::ChaosRelay;
use grasp_testkit::{
    Author, Behaviour, Client, Draft, Git, Repository, Server, WorkTree, http, now, until,
};
use std::time::Duration;
use tokio::time::Instant;

/// A new commit is here within this, also while one relay floods the server.
const ARRIVES_WITHIN: Duration = Duration::from_secs(5);

/// How long the flood may take, at full size and on a busy machine.
const FILLED_WITHIN: Duration = Duration::from_secs(300);

fn invented(number: u64, address: &str) -> VerifiedEvent {
    let owner = Author::number(2_000_000 + number);
    Repository::new(owner, "invented").announcement_listing(address, now())
}

async fn told(server: &Server, command: &str) -> String {
    let out = server.command(&[command]).output().await.unwrap();
    String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned()
}

fn names(text: &str, relay: &str) -> bool {
    text.contains("announcements") && text.contains(relay)
}

/// One relay, named by a served announcement, sends announcements of invented keys that name us.
async fn flood(announcements: u64, settings: &[(&str, &str)], share: u64) {
    let bad = ChaosRelay::start(Behaviour::honest()).await;
    let mirrors = Mirrors::vacant_with(2, settings, |_| vec![bad.url().to_owned()]).await;
    mirrors.joins(0).await;
    mirrors.joins(1).await;
    let server = &mirrors.servers[1];
    for number in 0..announcements {
        bad.publishes(&invented(number, &server.address));
        tokio::task::yield_now().await;
    }
    let filled = r#"ngit_held_events{class="announcements",from="sync"}"#;
    let flooding = Instant::now();
    while metric(server, filled).await < share {
        assert!(flooding.elapsed() < FILLED_WITHIN, "the relay has not filled its share");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let begun = Instant::now();
    let (state, tip) = mirrors.moves_on(0, 5).await;
    mirrors.one_holds(1, std::slice::from_ref(&state)).await;
    let took = begun.elapsed();
    println!("a new commit came after {took:?}, beside {announcements} invented announcements");
    assert!(took < ARRIVES_WITHIN, "{took:?}");
    assert_eq!(mirrors.tree().ls_remote(&mirrors.url(1)).await[MAIN], tip.to_hex());
    assert_eq!(metric(server, filled).await, share, "no more than its share");
    let relay = bad.url().trim_start_matches("ws://").trim_end_matches('/');
    // The report that all three render is computed anew every few seconds.
    until("status names what is full and the relay", || async {
        names(&told(server, "status").await, relay)
    })
    .await;
    until("doctor names both", || async { names(&told(server, "doctor").await, relay) }).await;
    until("the page names both", || async {
        names(&http("GET", &format!("{}/", server.address), &[]).await.body, relay)
    })
    .await;
    assert_eq!(metric(server, r#"ngit_held_sources_full"#).await, 1);
    until("the problem is a figure", || async {
        metric(server, r#"ngit_problems{code="held-full"}"#).await >= 1
    })
    .await;
}

#[tokio::test]
async fn one_relay_that_floods_us_with_announcements_stops_no_mirroring() {
    flood(251, &[("NGIT_RELAY_MAX_HELD_EVENTS", "400")], 10).await;
}

#[tokio::test]
#[ignore = "full size; see scripts/strangers"]
async fn one_relay_that_sends_25100_announcements_stops_no_mirroring() {
    flood(25_100, &[], 1_250).await;
}

/// Strangers from nine addresses publish pull requests that all name one commit.
#[tokio::test]
#[ignore = "full size; see scripts/strangers"]
async fn after_20001_pull_requests_by_strangers_the_next_honest_one_is_served() {
    let settings = [
        ("NGIT_TRUSTED_PROXY_CIDRS", "127.0.0.0/8"),
        ("NGIT_RELAY_MAX_IP_EVENTS_PER_MINUTE", "1000000"),
        ("NGIT_RELAY_MAX_IP_EVENTS_BURST", "1000000"),
    ];
    let (mut hosted, first) = Hosted::published(&Git::any(), &settings).await;
    let copy = WorkTree::clone(&Git::any(), &hosted.url(), &[]).await;
    let spam = copy.commit("README", "spam").await;
    let request = |number: u64, tip| {
        hosted.acme.pull_request(&Author::number(3_000_000 + number), now(), tip)
    };
    let leader = request(0, &spam);
    copy.push(&hosted.url(), &[&format!("{spam}:refs/nostr/{}", leader.id)]).await.expect("pushed");
    let mut clients = Vec::new();
    for number in 1..=9 {
        let address = format!("203.0.113.{number}");
        let from = [("X-Forwarded-For", address.as_str())];
        clients.push(Client::connect_with(&hosted.server.url(), &from).await);
    }
    let begun = Instant::now();
    for (number, client) in (0..20_001_u64).zip((0..9).cycle()) {
        let event = if number == 0 { leader.clone() } else { request(number, &spam) };
        clients[client].publishes(&event).await;
    }
    println!("20,001 pull requests in {:?}", begun.elapsed());
    let tip = copy.commit("README", "honest").await;
    let honest = request(20_002, &tip);
    copy.push(&hosted.url(), &[&format!("{tip}:refs/nostr/{}", honest.id)]).await.expect("pushed");
    let from = [("X-Forwarded-For", "198.51.100.7")];
    let mut client = Client::connect_with(&hosted.server.url(), &from).await;
    let answer = client.publishes(&honest).await;
    assert!(answer.accepted(), "{answer:?}");
    assert!(holds(&hosted.server, &[honest.id]).await);
    let place = hosted.place("/info/refs?service=git-upload-pack");
    let advertised = http("GET", &place, &[]).await.body.len();
    println!("info/refs has {advertised} bytes and {} refs", hosted.shown().await.len());
    assert!(advertised < 300_000, "{advertised}");
    let shown = hosted.shown().await;
    assert_eq!(shown[MAIN], first.to_hex());
    assert_eq!(shown[&format!("refs/nostr/{}", honest.id)], tip.to_hex());
    // The owner closes it, and its ref goes.
    let close = Draft::new(Kind(1632), now()).tag(&["e", &honest.id.to_hex()]);
    let close = hosted.acme.owner.signs(close.tag(&["a", &hosted.acme.coordinate()]));
    assert!(hosted.client.publishes(&close).await.ok);
    assert!(!hosted.shown().await.contains_key(&format!("refs/nostr/{}", honest.id)));
    assert!(hosted.shown().await.len() < refs(&[(MAIN, first)]).len() + 2_000);
}

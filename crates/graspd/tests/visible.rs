//! What can be told about where events came from, what was missed, and how other relays stand.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails says so by panicking")]

mod common;

use common::mirrors::{Follower, holds};
use common::{acme, alice, home};
use grasp_store::{EventStore, LmdbStore, Options, SourceKind, Space};
use grasp_testkit::behaviour::{Answers, Behaviour};
use grasp_testkit::chaos::ChaosRelay;
use grasp_testkit::{Server, http, now, until};
use serde_json::Value;

async fn honest() -> ChaosRelay {
    ChaosRelay::start(Behaviour::honest()).await
}

async fn relays(server: &Server) -> Value {
    let page = http("GET", &format!("{}/api/v1/relays", server.address), &[]).await;
    serde_json::from_str(&page.body).unwrap()
}

async fn is_linked(server: &Server) -> bool {
    let status = relays(server).await;
    let relay = &status["relays"][0];
    relay["connected"] == true && relay["missing"] == 0 && relay["pending"] == 0
}

#[tokio::test]
async fn s27_every_event_remembers_how_it_first_came() {
    let relay = honest().await;
    let old = acme().issue(&alice(), now() - 1_000, "from before");
    relay.publishes(&old);
    let mut follower = Follower::of(&[relay.url()]).await;
    follower.has(&[&old]).await;
    until("live", || is_linked(&follower.server)).await;
    let live = acme().issue(&alice(), now(), "as it happens");
    relay.publishes(&live);
    follower.has(&[&live]).await;
    let direct = acme().issue(&alice(), now(), "by hand");
    let mut client = grasp_testkit::Client::connect(&follower.server.url()).await;
    assert!(client.publishes(&direct).await.accepted());

    assert!(follower.server.stop().await);
    let path = follower.server.home().relay_path();
    let store = LmdbStore::open(&path, &Options::default()).unwrap();
    let snapshot = store.read().unwrap();
    let source = |event: &grasp_core::VerifiedEvent| {
        let from = snapshot.get(Space::Served, &event.id).unwrap().unwrap().provenance;
        (from.source, from.relay)
    };
    let from_relay = Some(relay.url().to_owned());
    assert_eq!(source(&old), (SourceKind::Backfill, from_relay.clone()));
    assert_eq!(source(&live), (SourceKind::Live, from_relay));
    assert_eq!(source(&direct), (SourceKind::Direct, None));
}

#[tokio::test]
async fn s28_what_was_missed_while_it_was_live_is_counted_as_a_gap() {
    let relay = honest().await;
    let follower = Follower::of(&[relay.url()]).await;
    until("live", || is_linked(&follower.server)).await;
    let began = now();
    relay.becomes(Behaviour { answers: Answers::Silent, ..Behaviour::honest() });
    let missed = acme().issue(&alice(), began + 2, "not told when it happened");
    relay.publishes(&missed);
    // A link that breaks just then would be no gap.
    until("some time has passed", || async { now() > began + 6 }).await;
    assert!(!holds(&follower.server, &[missed.id]).await, "nobody was told");
    relay.becomes(Behaviour::honest());
    relay.drops_everyone();
    follower.has(&[&missed]).await;
    let name = format!("ngit_sync_gap_events_total{{kind=\"late\",relay=\"{}\"}} 1", relay.url());
    until("the gap is counted", || async {
        let place = format!("{}/metrics", follower.server.address);
        http("GET", &place, &[]).await.body.contains(&name)
    })
    .await;
}

#[tokio::test]
async fn s43_how_each_relay_stands_can_be_read() {
    let relay = honest().await;
    let both = acme().issue(&alice(), now() - 50, "everywhere");
    let ours = acme().issue(&alice(), now() - 40, "only here");
    let theirs = acme().issue(&alice(), now() - 30, "only there");
    relay.publishes(&both);
    relay.publishes(&theirs);
    let home = home(&[("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true")]);
    let announcement = common::mirrors::announcement(&acme(), &[], &[relay.url().to_owned()]);
    home.imports(&[announcement, both, ours]).await;
    let server = home.serve().await;
    let wanted = [theirs.id];
    until("theirs is here", || holds(&server, &wanted)).await;
    // What was fetched is not lacking any more; both are compared again once it is here.
    until("it is told", || async {
        let status = relays(&server).await;
        let relay = &status["relays"][0];
        // Of the announcement and three issues it has two.
        relay["ledger"]["they_lack"] == 1 && relay["coverage_permille"] == 500
    })
    .await;
    let status = relays(&server).await;
    let shown = &status["relays"][0];
    assert_eq!(shown["relay"], relay.url());
    assert_eq!((&shown["ledger"]["we_lack"], &shown["ledger"]["equal"]), (&0.into(), &0.into()));
    assert_eq!((&shown["connected"], &shown["repositories"]), (&true.into(), &1.into()));
    assert_eq!(shown["events_received"], 1);
    assert!(!shown["explain"].as_str().unwrap().is_empty(), "{shown}");
}

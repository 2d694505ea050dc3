//! How a repository's events stand at relays that are behind, that lie, or that have what nobody wants
//! (S-30, S-43): what its people signed counts as much as what was written about it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails says so by panicking")]

mod common;

use common::hosted::{DOMAIN, MAIN};
use common::mirrors::{announcement, holds};
use common::verdicts::{mirror, stands};
use common::{acme, alice, deletion, home};
use grasp_core::VerifiedEvent;
use grasp_testkit::behaviour::{Behaviour, Negentropy};
use grasp_testkit::chaos::ChaosRelay;
use grasp_testkit::{Client, Git, Server, WorkTree, now, until};

/// A repository that is served here with three issues, and a relay it also names.
struct World {
    server: Server,
    relay: ChaosRelay,
    signed: Vec<VerifiedEvent>,
    issues: Vec<VerifiedEvent>,
}

const SETTINGS: [(&str, &str); 3] = [
    ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
    ("NGIT_DOMAIN_ALIASES", DOMAIN),
    ("NGIT_SYNC_VERDICT_MAX_AGE_SECS", "12"),
];

impl World {
    async fn new(behaviour: Behaviour) -> Self {
        Self::with(behaviour, &[]).await
    }

    async fn with(behaviour: Behaviour, settings: &[(&str, &str)]) -> Self {
        let server = home(&[&SETTINGS, settings].concat()).serve().await;
        let relay = ChaosRelay::start(behaviour).await;
        let clones = [acme().clone_url(DOMAIN)];
        let relays = [format!("ws://{DOMAIN}"), relay.url().to_owned()];
        let announcement = announcement(&acme(), &clones, &relays);
        let tree = WorkTree::init(&Git::any()).await;
        tree.git(&["symbolic-ref", "HEAD", MAIN]).await;
        let tip = tree.commit("README", "hello").await.to_hex();
        let state = acme().state(&acme().owner, now(), &[(MAIN, &tip)], Some("main"));
        let signed = vec![announcement, state];
        let issue = |n| acme().issue(&alice(), now() - 100 + n, &format!("issue {n}"));
        let issues: Vec<VerifiedEvent> = (0..3).map(issue).collect();
        let mut client = Client::connect(&server.url()).await;
        for event in &signed {
            assert!(client.publishes(event).await.ok);
        }
        tree.push(&acme().clone_url(&server.address), &["main"]).await.expect("the push");
        for event in &issues {
            assert!(client.publishes(event).await.ok);
        }
        let ids: Vec<_> = signed.iter().chain(&issues).map(|event| event.id).collect();
        until("all of it is served", || holds(&server, &ids)).await;
        Self { server, relay, signed, issues }
    }

    async fn stands(&self, verdict: &str, because: &str) {
        stands(&self.server, self.relay.address(), verdict, because).await;
    }
}

#[tokio::test]
async fn s30_a_relay_without_the_announcement_and_the_state_lacks_them() {
    let world = World::new(Behaviour::honest()).await;
    world.issues.iter().for_each(|issue| world.relay.publishes(issue));
    world.stands("they_lack", "lacks 2 of 5 events").await;
    world.relay.publishes(&world.signed[0]);
    world.stands("they_lack", "lacks 1 of 5 events").await;
    world.relay.publishes(&world.signed[1]);
    world.stands("equal", "has all 5 events").await;
    let shown = mirror(&world.server, world.relay.address()).await;
    assert_eq!((&shown["events"]["both"], &shown["events"]["we_lack"]), (&5.into(), &0.into()));
}

#[tokio::test]
async fn s30_a_relay_that_agrees_with_everything_is_asked_for_what_it_says_it_has() {
    let agrees = Behaviour { negentropy: Negentropy::Agrees, ..Behaviour::honest() };
    let world = World::new(agrees).await;
    world.stands("unverifiable", "events that it does not give out").await;
    for event in world.signed.iter().chain(&world.issues) {
        world.relay.publishes(event);
    }
    world.stands("equal", "has all 5 events").await;
}

#[tokio::test]
async fn s30_what_we_do_not_want_of_a_relay_is_not_what_we_lack() {
    let world = World::new(Behaviour::honest()).await;
    let tip = "1".repeat(40);
    let former = acme().state(&acme().owner, now() - 500, &[(MAIN, &tip)], Some("main"));
    let early = acme().issue(&alice(), now() + 86_400, "from tomorrow");
    let large = acme().issue(&alice(), now() - 50, &"x".repeat(600_000));
    for event in world.signed[..1].iter().chain(&world.issues).chain([&former, &early, &large]) {
        world.relay.publishes(event);
    }
    world.stands("they_lack", "lacks 1 of 5 events").await;
    let shown = mirror(&world.server, world.relay.address()).await;
    assert_eq!(shown["events"]["we_lack"], 0, "{shown}");
    world.relay.publishes(&world.signed[1]);
    world.stands("equal", "has all 5 events").await;
}

#[tokio::test]
async fn s30_what_finds_no_room_here_is_what_we_lack_until_nobody_wants_it() {
    let room_for_two = [("NGIT_RELAY_MAX_HELD_PER_KEY", "2")];
    let world = World::with(Behaviour::honest(), &room_for_two).await;
    for event in world.signed.iter().chain(&world.issues) {
        world.relay.publishes(event);
    }
    world.stands("equal", "has all 5 events").await;
    let tips = ["1", "2", "3"].map(|digit| digit.repeat(40)).map(|tip| tip.parse().unwrap());
    let requests = tips.map(|tip| acme().pull_request(&alice(), now(), &tip));
    requests.iter().for_each(|event| world.relay.publishes(event));
    world.stands("we_lack", "has 1 event that we lack and this server has no room for").await;
    let shown = mirror(&world.server, world.relay.address()).await;
    assert_eq!((&shown["events"]["we_lack"], &shown["events"]["no_room"]), (&1.into(), &1.into()));
    let mut client = Client::connect(&world.server.url()).await;
    let taken_back = deletion(&alice(), now(), &requests.iter().collect::<Vec<_>>());
    assert!(client.publishes(&taken_back).await.ok);
    world.stands("equal", "has all 5 events").await;
}

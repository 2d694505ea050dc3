//! How a repository stands everywhere else, and why (S-30, S-43): one mirror lags, one relay lies, one
//! object is missing. Every verdict is right, and changes in time when its cause is gone.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails says so by panicking")]

mod common;

use common::hosted::{DOMAIN, MAIN};
use common::mirrors::{announcement, holds, metric};
use common::verdicts;
use common::{acme, alice, home};
use grasp_core::{Oid, VerifiedEvent};
use grasp_testkit::behaviour::{Behaviour, Negentropy};
use grasp_testkit::chaos::ChaosRelay;
use grasp_testkit::forge::Manner;
use grasp_testkit::{Client, Forge, Git, Server, WorkTree, now, until};
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

const AGE: Duration = Duration::from_secs(12);
const SETTINGS: [(&str, &str); 5] = [
    ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
    ("NGIT_SYNC_HUNT_DELAY_SECS", "0"),
    ("NGIT_DOMAIN_ALIASES", DOMAIN),
    ("NGIT_SYNC_VERDICT_MAX_AGE_SECS", "12"),
    // A day's looks in a few minutes.
    ("NGIT_SYNC_DOMAIN_RATE_LIMIT", "600"),
];

/// One server and the places its repository is also said to be at.
struct World {
    server: Server,
    tree: WorkTree,
    relay: ChaosRelay,
    liar: ChaosRelay,
    lagging: Forge,
    keeping: Forge,
    issues: Vec<VerifiedEvent>,
    announcement: VerifiedEvent,
    states: Vec<VerifiedEvent>,
}

impl World {
    async fn new() -> Self {
        let server = home(&SETTINGS).serve().await;
        let tree = WorkTree::init(&Git::any()).await;
        tree.git(&["symbolic-ref", "HEAD", MAIN]).await;
        let lies = Behaviour { negentropy: Negentropy::Claims { ids: 30 }, ..Behaviour::honest() };
        let relay = ChaosRelay::start(Behaviour::honest()).await;
        let liar = ChaosRelay::start(lies).await;
        let (lagging, keeping) = (Forge::start().await, Forge::start().await);
        let clones = [acme().clone_url(DOMAIN), lagging.url("acme.git"), keeping.url("acme.git")];
        let relays = [format!("ws://{DOMAIN}"), relay.url().to_owned(), liar.url().to_owned()];
        let announcement = announcement(&acme(), &clones, &relays);
        let (issues, states) = (Vec::new(), Vec::new());
        Self { server, tree, relay, liar, lagging, keeping, issues, announcement, states }
    }

    async fn publishes(&self, event: &VerifiedEvent) {
        let mut client = Client::connect(&self.server.url()).await;
        let answer = client.publishes(event).await;
        assert!(answer.ok || answer.text.starts_with("duplicate:"), "{answer:?}");
    }

    async fn signs(&mut self, tip: &Oid) -> VerifiedEvent {
        let at = now() + u64::try_from(self.states.len()).unwrap();
        let state = acme().state(&acme().owner, at, &[(MAIN, &tip.to_hex())], Some("main"));
        self.publishes(&state).await;
        self.states.push(state.clone());
        state
    }

    async fn pushes(&self) {
        let url = acme().clone_url(&self.server.address);
        self.tree.push(&url, &["main"]).await.expect("the push of the state");
    }

    /// What everybody should have.
    fn gives(&self, to: &ChaosRelay) {
        for event in self.issues.iter().chain([&self.announcement]).chain(&self.states) {
            to.publishes(event);
        }
    }

    async fn serves(&self, events: &[&VerifiedEvent]) {
        let ids: Vec<_> = events.iter().map(|event| event.id).collect();
        until("the events are served", || holds(&self.server, &ids)).await;
    }

    async fn mirrors(&self) -> Vec<Value> {
        verdicts::mirrors(&self.server).await
    }

    async fn mirror(&self, address: &str) -> Value {
        verdicts::mirror(&self.server, address).await
    }

    async fn stands(&self, address: &str, verdict: &str, because: &str) -> Duration {
        verdicts::stands(&self.server, address, verdict, because).await
    }
}

#[tokio::test]
async fn s43_a_lagging_mirror_a_lying_relay_and_a_missing_object_are_told_and_so_is_their_end() {
    let mut world = World::new().await;
    let first = world.tree.commit("README", "hello").await;
    world.lagging.mirrors("acme.git", &world.tree).await;
    world.publishes(&world.announcement.clone()).await;
    let state = world.signs(&first).await;
    world.pushes().await;
    world.serves(&[&state]).await;
    for n in 0..3 {
        let issue = acme().issue(&alice(), now() - 100 + n, &format!("issue {n}"));
        world.publishes(&issue).await;
        world.issues.push(issue);
    }
    // One relay misses an issue and the newer state, one server the second commit, and the third is nowhere.
    for event in [&world.announcement, &state, &world.issues[0], &world.issues[1]] {
        world.relay.publishes(event);
    }
    let second = world.tree.commit("README", "second").await;
    let state = world.signs(&second).await;
    world.pushes().await;
    world.serves(&[&state]).await;
    let third = world.tree.commit("README", "third").await;
    world.keeping.behave(Manner::Truncate(20));
    world.keeping.mirrors("acme.git", &world.tree).await;
    let held = world.signs(&third).await;

    let (relay, liar) = (world.relay.address().to_owned(), world.liar.address().to_owned());
    let lagging = world.lagging.address().to_owned();
    let keeping = world.keeping.address().to_owned();
    world.stands(&relay, "they_lack", "lacks 2 of 5 events").await;
    world.stands(&liar, "unverifiable", "names events that it does not give out").await;
    world.stands(&lagging, "they_lack", "lacks refs/heads/main").await;
    world.stands(&keeping, "we_lack", "whose objects are not here").await;
    let shown = world.mirror(&relay).await;
    assert_eq!((&shown["events"]["both"], &shown["events"]["they_lack"]), (&3.into(), &2.into()));
    assert_eq!(shown["events"]["fingerprint"].as_str().unwrap().len(), 32);

    let stood = world.mirror(&lagging).await["since"].clone();
    world.server.kill().await;
    world.server.restart().await;
    assert_eq!(world.mirror(&lagging).await["since"], stood, "rows are on the disk");
    assert_eq!(world.mirror(&lagging).await["verdict"], "they_lack");

    // All causes end.
    world.pushes().await;
    world.serves(&[&held]).await;
    // What it lists is as signed now, and still nobody gets it there.
    world.stands(&keeping, "they_lack", "lists 1 ref but does not give out its objects").await;
    assert_eq!(world.mirror(&keeping).await["refs"]["objects"], "lacking");
    world.keeping.behave(Manner::Honest);
    world.lagging.mirrors("acme.git", &world.tree).await;
    world.liar.becomes(Behaviour::honest());
    world.gives(&world.relay);
    world.gives(&world.liar);
    let began = Instant::now();
    world.stands(&lagging, "equal", "has the one ref").await;
    world.stands(&keeping, "equal", "has the one ref").await;
    world.stands(&relay, "equal", "has all 5 events").await;
    world.stands(&liar, "equal", "has all 5 events").await;
    assert_eq!(world.mirror(&keeping).await["refs"]["objects"], "given");
    assert!(began.elapsed() < AGE + AGE / 4, "{:?}", began.elapsed());
    until("it is counted", || async {
        metric(&world.server, "ngit_sync_verdicts{verdict=\"equal\"}").await == 4
            && metric(&world.server, "ngit_sync_verdict_age_max_seconds").await == 12
    })
    .await;
    assert!(metric(&world.server, "ngit_sync_verdict_oldest_seconds").await <= AGE.as_secs());
}

#[tokio::test]
async fn s43_who_is_not_there_or_does_not_compare_is_said_to_be_so() {
    let server = home(&SETTINGS).serve().await;
    let plain = ChaosRelay::start(Behaviour::common()).await;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let empty = Forge::start().await;
    let clones =
        [acme().clone_url(DOMAIN), empty.url("acme.git"), format!("http://{nobody}/x.git")];
    let relays = [format!("ws://{DOMAIN}"), plain.url().to_owned(), format!("ws://{nobody}")];
    let announcement = announcement(&acme(), &clones, &relays);
    let tree = WorkTree::init(&Git::any()).await;
    tree.git(&["symbolic-ref", "HEAD", MAIN]).await;
    let mut world = World {
        relay: ChaosRelay::start(Behaviour::honest()).await,
        liar: plain,
        lagging: empty,
        keeping: Forge::start().await,
        issues: Vec::new(),
        states: Vec::new(),
        server,
        tree,
        announcement: announcement.clone(),
    };
    let tip = world.tree.commit("README", "hello").await;
    world.publishes(&announcement).await;
    let state = world.signs(&tip).await;
    world.pushes().await;
    world.serves(&[&state]).await;
    let places = world.mirrors().await;
    assert_eq!(places.len(), 3, "the relay and the git side of one address are one: {places:?}");
    let plain = world.liar.address().to_owned();
    world.stands(&plain, "unverifiable", "does not speak NIP-77").await;
    let address = world.lagging.address().to_owned();
    world.stands(&address, "unverifiable", "no such repository").await;
    world.stands(&nobody.to_string(), "unverifiable", "not reachable since").await;
    world.lagging.behave(Manner::Status(429, Some(3_600)));
    world.stands(&address, "unverifiable", "asked us to slow down").await;
}

#[tokio::test]
async fn s43_a_mirror_that_lost_an_object_lacks_it_until_it_has_it_again() {
    let mut world = World::new().await;
    let tip = world.tree.commit("README", "hello").await;
    let dir = world.lagging.mirrors("acme.git", &world.tree).await;
    world.keeping.mirrors("acme.git", &world.tree).await;
    let (lost, kept) = (world.lagging.address().to_owned(), world.keeping.address().to_owned());
    let hex = tip.to_hex();
    let object = dir.join("objects").join(&hex[..2]).join(&hex[2..]);
    let bytes = std::fs::read(&object).unwrap();
    std::fs::remove_file(&object).unwrap();
    world.publishes(&world.announcement.clone()).await;
    let state = world.signs(&tip).await;
    world.pushes().await;
    world.serves(&[&state]).await;
    world.stands(&lost, "they_lack", "lists 1 ref but does not give out its objects").await;
    world.stands(&kept, "equal", "has the one ref").await;
    assert_eq!(world.mirror(&lost).await["refs"]["objects"], "lacking");
    assert_eq!(world.mirror(&kept).await["refs"]["objects"], "given");
    // Who asks for less says nothing about what it has.
    world.keeping.behave(Manner::Says("slow down".to_owned()));
    world.stands(&kept, "unverifiable", "asked us to slow down").await;
    std::fs::write(&object, bytes).unwrap();
    let took = world.stands(&lost, "equal", "has the one ref").await;
    assert!(took < AGE + AGE / 4, "{took:?}");
    assert_eq!(world.mirror(&lost).await["refs"]["objects"], "given");
}

//! A full story for the figures: two servers, relays good and bad, a repository that is found, one that
//! is pushed, people who clone, and people who are refused.

use crate::common::hosted::{DOMAIN, MAIN};
use crate::common::mirrors::{announcement, holds, metric, metrics};
use crate::common::{THEN, acme, alice, home};
use grasp_core::{Oid, VerifiedEvent};
use grasp_testkit::behaviour::{Answers, Behaviour, Refuses};
use grasp_testkit::chaos::ChaosRelay;
use grasp_testkit::{Author, Client, Forge, Git, Repository, Server, WorkTree, http, now, until};
use serde_json::Value;

/// Nobody listens there.
const NOBODY: &str = "ws://127.0.0.1:9";

/// Its state comes before its announcement.
fn late() -> Repository {
    Repository::new(Author::number(8), "late")
}

#[derive(Debug)]
pub(crate) struct Story {
    /// The one that is looked at.
    pub(crate) here: Server,
    there: Server,
    relay: ChaosRelay,
    strict: ChaosRelay,
    forge: Forge,
    client: Client,
    tree: WorkTree,
}

impl Story {
    pub(crate) async fn begins() -> Self {
        let settings = [
            ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
            ("NGIT_DOMAIN_ALIASES", DOMAIN),
            ("NGIT_SYNC_HUNT_DELAY_SECS", "0"),
            ("NGIT_METRICS_TOP_N_REPOS", "5"),
        ];
        // Visitors come through a proxy, so that they are told apart.
        let proxied = [("NGIT_TRUSTED_PROXY_CIDRS", "127.0.0.0/8")];
        let here = home(&[&settings[..], &proxied].concat()).serve().await;
        let there = home(&settings).serve().await;
        let relay = ChaosRelay::start(Behaviour::honest()).await;
        let refuses = Refuses::All("restricted: for friends only");
        let strict = ChaosRelay::start(Behaviour { refuses, ..Behaviour::common() }).await;
        let from = [("X-Forwarded-For", "203.0.113.9")];
        let client = Client::connect_with(&here.url(), &from).await;
        let tree = WorkTree::init(&Git::any()).await;
        tree.git(&["symbolic-ref", "HEAD", MAIN]).await;
        Self { here, there, relay, strict, forge: Forge::start().await, client, tree }
    }

    pub(crate) async fn is_lived(&mut self) {
        let old = acme().issue(&alice(), now() - 1_000, "from before");
        self.relay.publishes(&old);
        // What nobody here has heard of: refused, and kept for a second chance.
        for of in [Repository::new(Author::number(7), "unknown"), late()] {
            let oid = "1".repeat(40);
            self.relay.publishes(&of.state(&of.owner, now(), &[(MAIN, &oid)], None));
        }
        self.is_found_elsewhere().await;
        self.serves(&old).await;
        self.is_pushed_and_cloned().await;
        self.is_refused().await;
        self.is_judged_again().await;
        self.is_told_live().await;
        self.misses_something().await;
        self.is_compared().await;
    }

    /// `acme` is only announced here; its git data is on another server.
    async fn is_found_elsewhere(&mut self) {
        let tip = self.tree.commit("README", "hello").await;
        self.forge.mirrors("acme.git", &self.tree).await;
        let clones = [acme().clone_url(DOMAIN), self.forge.url("acme.git")];
        let relays = [&format!("ws://{DOMAIN}"), self.relay.url(), self.strict.url(), NOBODY];
        let relays: Vec<String> =
            relays.iter().map(|it| (*it).to_owned()).chain([self.there.url()]).collect();
        let announced = announcement(&acme(), &clones, &relays);
        let state = acme().state(&acme().owner, THEN, &[(MAIN, &tip.to_hex())], Some("main"));
        let mut other = Client::connect(&self.there.url()).await;
        for event in [&announced, &state] {
            assert!(self.client.publishes(event).await.ok);
            assert!(other.publishes(event).await.ok);
        }
        self.serves(&announced).await;
        self.serves(&state).await;
    }

    async fn is_pushed_and_cloned(&mut self) {
        let beta = Repository::new(Author::number(2), "beta");
        let tip = self.tree.rev_parse("main").await;
        let announced = beta.announcement_listing(DOMAIN, THEN);
        assert!(self.client.publishes(&announced).await.ok);
        self.signs(&beta, THEN, &tip).await;
        let url = beta.clone_url(&self.here.address);
        self.tree.push(&url, &["main"]).await.expect("the push of the state");
        let clone = WorkTree::clone(&Git::any(), &url, &[]).await;
        let newer = self.tree.commit("README", "more").await;
        self.signs(&beta, THEN + 1, &newer).await;
        self.tree.push(&url, &["main"]).await.expect("the next push");
        clone.git(&["pull", "-q"]).await;
        assert_eq!(clone.read("README"), "more");
        // Nobody signed this.
        self.tree.commit("README", "unsigned").await;
        assert!(self.tree.push(&url, &["main"]).await.is_rejected());
    }

    async fn signs(&mut self, repository: &Repository, at: u64, tip: &Oid) {
        let refs = [(MAIN, tip.to_hex())];
        let refs: Vec<(&str, &str)> =
            refs.iter().map(|(name, oid)| (*name, oid.as_str())).collect();
        let state = repository.state(&repository.owner, at, &refs, Some("main"));
        assert!(self.client.publishes(&state).await.ok);
    }

    async fn is_refused(&mut self) {
        let nowhere = Repository::new(Author::number(3), "nowhere");
        let stray = nowhere.issue(&alice(), now(), "about nothing here");
        assert!(!self.client.publishes(&stray).await.ok);
        self.client.asks(&[serde_json::json!({"kinds": [1621]})]).await;
        // One visitor leaves.
        drop(Client::connect(&self.here.url()).await);
    }

    /// The announcement comes after all, and the state it was wanted for with it.
    async fn is_judged_again(&mut self) {
        let refused = "ngit_sync_rejected_hot_cache_current";
        until("both are refused", || async { metrics(&self.here, refused, "state").await == 2 })
            .await;
        assert!(self.client.publishes(&late().announcement_listing(DOMAIN, THEN)).await.ok);
        until("one is not any more", || async { metrics(&self.here, refused, "state").await == 1 })
            .await;
    }

    async fn is_told_live(&mut self) {
        until("live", || self.is_linked(1)).await;
        let live = acme().issue(&alice(), now(), "as it happens");
        self.relay.publishes(&live);
        self.serves(&live).await;
        let direct = acme().issue(&alice(), now(), "by hand");
        assert!(self.client.publishes(&direct).await.ok);
        // Whatever these give reason to ask is asked and answered.
        until("all is told", || self.is_linked(3)).await;
    }

    /// A relay that is silent for a while, although it is connected.
    async fn misses_something(&mut self) {
        let began = now();
        self.relay.becomes(Behaviour { answers: Answers::Silent, ..Behaviour::honest() });
        let missed = acme().issue(&alice(), began + 2, "not told when it happened");
        self.relay.publishes(&missed);
        // A link that breaks just then would be no gap.
        until("some time has passed", || async { now() > began + 6 }).await;
        self.relay.becomes(Behaviour::honest());
        self.relay.drops_everyone();
        self.serves(&missed).await;
        until("the gap is counted", || async {
            metrics(&self.here, "ngit_sync_gap_events_total", "relay=").await > 0
        })
        .await;
    }

    async fn is_compared(&self) {
        until("there is a verdict", || async {
            metrics(&self.here, "ngit_sync_verdicts", "verdict=").await > 0
                && metrics(&self.here, "ngit_sync_ledger_checks_total", "side=").await > 0
        })
        .await;
        let failures = "ngit_sync_connection_attempts_total";
        until("nobody was found at home", || async {
            metrics(&self.here, failures, "failure").await > 0
        })
        .await;
        until("a second has passed", || async {
            metric(&self.here, "ngit_uptime_seconds").await > 0
        })
        .await;
    }

    async fn serves(&self, event: &VerifiedEvent) {
        let id = [event.id];
        until(&format!("kind {} is served", event.kind), || holds(&self.here, &id)).await;
    }

    /// Nothing is left to ask about so many roots.
    async fn is_linked(&self, roots: u64) -> bool {
        let page = http("GET", &format!("{}/api/v1/relays", self.here.address), &[]).await;
        let status: Value = serde_json::from_str(&page.body).expect("JSON");
        let relays = status["relays"].as_array().expect("a list");
        relays.iter().any(|relay| {
            relay["relay"] == self.relay.url()
                && relay["connected"] == true
                && relay["roots"] == roots
                && relay["missing"] == 0
                && relay["pending"] == 0
        })
    }
}

//! A server with something on every page: a repository that was pushed, one that waits for its git
//! data, relays that answer and one that does not.

use crate::common::hosted::{DOMAIN, MAIN};
use crate::common::mirrors::{announcement, holds};
use crate::common::{THEN, acme, alice, home};
use grasp_core::{Oid, VerifiedEvent};
use grasp_testkit::behaviour::Behaviour;
use grasp_testkit::chaos::ChaosRelay;
use grasp_testkit::{Author, Client, Git, Repository, Server, WorkTree, now, until};

/// Nobody listens there.
const NOBODY: &str = "ws://127.0.0.1:9";
const README: &str = "# Acme\n\nTools for **everybody**, and `code`.\n\n## Use\n\n```sh\nacme --help\n```\n\n\
    - one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n> said once\n\n[elsewhere](https://example.com/)\n";

#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) server: Server,
    pub(crate) relay: ChaosRelay,
    pub(crate) acme: Repository,
    client: Client,
    tree: WorkTree,
    /// A name of the server's that outlives its port, and its base path.
    lasting: String,
    at: u64,
}

impl Site {
    pub(crate) async fn opens() -> Self {
        Self::opens_below("").await
    }

    /// With this base path.
    pub(crate) async fn opens_below(base: &str) -> Self {
        let settings = [
            ("NGIT_BASE_PATH", base),
            ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
            ("NGIT_DOMAIN_ALIASES", DOMAIN),
            ("NGIT_RELAY_NAME", "Acme's git"),
            ("NGIT_RELAY_DESCRIPTION", "For friends of Acme."),
        ];
        let server = home(&settings).serve().await;
        let relay = ChaosRelay::start(Behaviour::honest()).await;
        let client = Client::connect(&server.url()).await;
        let tree = WorkTree::init(&Git::any()).await;
        tree.git(&["symbolic-ref", "HEAD", MAIN]).await;
        let lasting = format!("{DOMAIN}{base}");
        let mut site = Self { server, relay, acme: acme(), client, tree, lasting, at: THEN };
        site.is_furnished().await;
        site
    }

    async fn is_furnished(&mut self) {
        let clones = [self.acme.clone_url(&self.lasting)];
        let own = format!("ws://{}", self.lasting);
        let relays = [&own, self.relay.url(), NOBODY].map(str::to_owned);
        let announced = announcement(&self.acme, &clones, &relays);
        self.publishes(&announced).await;
        self.pushes("README.md", README).await;
        self.serves(&announced).await;
        self.holds("beta").await;
    }

    /// Announced and signed for, and nobody has pushed it.
    pub(crate) async fn holds(&mut self, identifier: &str) {
        let waits = Repository::new(Author::number(2), identifier);
        self.publishes(&waits.announcement_listing(&self.lasting, THEN)).await;
        let missing = "12".repeat(20);
        let state = waits.state(&waits.owner, THEN, &[(MAIN, &missing)], Some("main"));
        self.publishes(&state).await;
    }

    async fn publishes(&mut self, event: &VerifiedEvent) {
        let answer = self.client.publishes(event).await;
        assert!(answer.ok, "{answer:?}");
    }

    /// The owner commits, signs and pushes.
    pub(crate) async fn pushes(&mut self, file: &str, text: &str) -> Oid {
        self.at += 1;
        let changed = format!("{text}\nChange {}.\n", self.at - THEN);
        let tip = self.tree.commit(file, &changed).await;
        let hex = tip.to_hex();
        let refs = [(MAIN, hex.as_str()), ("refs/heads/topic", &hex), ("refs/tags/v1", &hex)];
        let state = self.acme.state(&self.acme.owner, self.at, &refs, Some("main"));
        self.publishes(&state).await;
        let url = self.acme.clone_url(&self.server.address);
        let refspecs = ["+HEAD:refs/heads/main", "+HEAD:refs/heads/topic", "+HEAD:refs/tags/v1"];
        self.tree.push(&url, &refspecs).await.expect("the push of the state");
        tip
    }

    /// A visitor writes an issue.
    pub(crate) async fn is_told(&mut self, text: &str) {
        let issue = self.acme.issue(&alice(), now(), text);
        self.publishes(&issue).await;
        self.serves(&issue).await;
    }

    async fn serves(&self, event: &VerifiedEvent) {
        let id = [event.id];
        until("it is served", || holds(&self.server, &id)).await;
    }

    /// `http://127.0.0.1:port`, and the base path.
    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.server.address)
    }

    /// Every page that people see: its name, and where it is.
    pub(crate) fn pages(&self) -> Vec<(&'static str, String)> {
        let page = |name, path: &str| (name, format!("{}{path}", self.origin()));
        vec![
            page("home", "/"),
            page("repositories", "/repos"),
            page("relays", "/relays"),
            ("repository", self.repository()),
            page("purgatory", "/purgatory"),
        ]
    }

    pub(crate) fn repository(&self) -> String {
        self.acme.clone_url(&self.server.address)
    }
}

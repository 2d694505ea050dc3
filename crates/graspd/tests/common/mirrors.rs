//! Servers that follow others: several that host one repository, and one that hosts it alone and
//! hears of it from relays.

use super::hosted::MAIN;
use super::{acme, home};
use grasp_core::{EventId, Kind, Oid, VerifiedEvent};
use grasp_testkit::{Client, Draft, Git, Repository, Server, WorkTree, http, now, until};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// Everything in these stories happens on one machine.
pub(crate) const CLOSED_NET: (&str, &str) = ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true");
/// What an announcement may list and see followed.
const RELAYS_FOLLOWED: usize = 20;

#[derive(Debug)]
pub(crate) struct Mirrors {
    pub(crate) servers: Vec<Server>,
    pub(crate) acme: Repository,
    announcement: VerifiedEvent,
    state: VerifiedEvent,
    tree: WorkTree,
}

impl Mirrors {
    /// So many servers, all of which host the repository with its git data.
    pub(crate) async fn start(count: usize) -> Self {
        let mirrors = Self::vacant(count, |_| Vec::new()).await;
        for at in 0..count {
            mirrors.joins(at).await;
        }
        mirrors
    }

    /// The servers run, the announcement lists them all and these relays, and nobody has it yet.
    pub(crate) async fn vacant(
        count: usize,
        relays: impl FnOnce(&[Server]) -> Vec<String>,
    ) -> Self {
        Self::vacant_with(count, &[], relays).await
    }

    /// The same, with settings of their own.
    pub(crate) async fn vacant_with(
        count: usize,
        settings: &[(&str, &str)],
        relays: impl FnOnce(&[Server]) -> Vec<String>,
    ) -> Self {
        let mut servers = Vec::new();
        for _ in 0..count {
            servers.push(super::server(&[&[CLOSED_NET], settings].concat()).await);
        }
        let relays = relays(&servers);
        Self::on(servers, relays).await
    }

    /// The same with servers of the caller's.
    pub(crate) async fn on(servers: Vec<Server>, relays: Vec<String>) -> Self {
        let acme = acme();
        let clones: Vec<String> = servers.iter().map(|it| acme.clone_url(&it.address)).collect();
        let mut listed: Vec<String> = servers.iter().map(Server::url).collect();
        listed.extend(relays);
        let announcement = announcement(&acme, &clones, &listed);
        let tree = WorkTree::init(&Git::any()).await;
        tree.git(&["symbolic-ref", "HEAD", MAIN]).await;
        let tip = tree.commit("README", "hello").await.to_hex();
        let state = acme.state(&acme.owner, now(), &[(MAIN, &tip)], Some("main"));
        Self { servers, acme, announcement, state, tree }
    }

    /// The owner brings the repository to this server, as to any other.
    pub(crate) async fn joins(&self, at: usize) {
        let mut client = self.client(at).await;
        for event in [&self.announcement, &self.state] {
            let answer = client.publishes(event).await;
            // Another server may have been faster to tell.
            assert!(answer.ok || answer.text.starts_with("duplicate:"), "{answer:?}");
        }
        let url = self.acme.clone_url(&self.servers[at].address);
        self.tree.push(&url, &["main"]).await.expect("the push of the state");
        until("the repository is served", || async {
            holds(&self.servers[at], &[self.announcement.id, self.state.id]).await
        })
        .await;
    }

    /// The owner only says that it is hosted here as well; nothing is pushed.
    pub(crate) async fn announces(&self, at: usize) {
        let answer = self.client(at).await.publishes(&self.announcement).await;
        assert!(answer.ok, "{answer:?}");
    }

    pub(crate) async fn serves_the_repository(&self, at: usize) {
        until("the repository is served", || async {
            holds(&self.servers[at], &[self.announcement.id, self.state.id]).await
        })
        .await;
    }

    /// The owner commits, signs and pushes to this server alone.
    pub(crate) async fn moves_on(&self, at: usize, step: u64) -> (VerifiedEvent, Oid) {
        let tip = self.tree.commit("README", &format!("change {step}")).await;
        // Later than all before, however fast this goes.
        let time = now() + step;
        let state = self.acme.state(&self.acme.owner, time, &[(MAIN, &tip.to_hex())], Some("main"));
        let answer = self.client(at).await.publishes(&state).await;
        assert!(answer.ok, "{answer:?}");
        self.tree.push(&self.url(at), &["main"]).await.expect("the push of the state");
        (state, tip)
    }

    pub(crate) fn url(&self, at: usize) -> String {
        self.acme.clone_url(&self.servers[at].address)
    }

    pub(crate) fn tree(&self) -> &WorkTree {
        &self.tree
    }

    pub(crate) async fn client(&self, at: usize) -> Client {
        Client::connect(&self.servers[at].url()).await
    }

    /// Somebody publishes these on one server, which takes them.
    pub(crate) async fn publish(&self, at: usize, events: &[VerifiedEvent]) {
        let mut client = self.client(at).await;
        for event in events {
            let answer = client.publishes(event).await;
            assert!(answer.accepted(), "{answer:?}");
        }
    }

    /// Waits until every server serves all of these.
    pub(crate) async fn all_hold(&self, events: &[VerifiedEvent]) {
        for at in 0..self.servers.len() {
            self.one_holds(at, events).await;
        }
    }

    pub(crate) async fn one_holds(&self, at: usize, events: &[VerifiedEvent]) {
        let ids: Vec<EventId> = events.iter().map(|event| event.id).collect();
        let what = format!("server {at} has {} events", ids.len());
        until(&what, || holds(&self.servers[at], &ids)).await;
    }
}

pub(crate) fn announcement(of: &Repository, clones: &[String], relays: &[String]) -> VerifiedEvent {
    let tag = |name: &str, values: &[String]| -> Vec<String> {
        std::iter::once(name.to_owned()).chain(values.iter().cloned()).collect()
    };
    let mut draft = Draft::new(Kind::ANNOUNCEMENT, now()).tag(&["d", &of.identifier]);
    for values in [tag("clone", clones), tag("relays", relays)] {
        draft = draft.tag(&values.iter().map(String::as_str).collect::<Vec<_>>());
    }
    of.owner.signs(draft)
}

/// Asked by COUNT, so that what a server was asked by REQ is others' doing.
pub(crate) async fn holds(server: &Server, ids: &[EventId]) -> bool {
    let wanted: Vec<String> = ids.iter().map(|id| id.to_hex()).collect();
    let mut client = Client::connect(&server.url()).await;
    let count = client.counts(&[json!({"ids": wanted})]).await;
    count == u64::try_from(ids.len()).unwrap_or(u64::MAX)
}

/// A server that serves repositories which name these relays, and is not named itself.
#[derive(Debug)]
pub(crate) struct Follower {
    pub(crate) server: Server,
    pub(crate) acme: Repository,
    pub(crate) started: Instant,
}

impl Follower {
    /// As many repositories as it takes to name all relays; `acme` names the last ones.
    pub(crate) async fn of(relays: &[&str]) -> Self {
        let relays: Vec<String> = relays.iter().map(|relay| (*relay).to_owned()).collect();
        let home = home(&[CLOSED_NET]);
        let repositories = relays.rchunks(RELAYS_FOLLOWED).enumerate().map(|(at, relays)| {
            let name = if at == 0 { "acme".to_owned() } else { format!("acme-{at}") };
            announcement(&Repository::new(acme().owner, &name), &[], relays)
        });
        home.imports(&repositories.collect::<Vec<_>>()).await;
        let started = Instant::now();
        Self { server: home.serve().await, acme: acme(), started }
    }

    /// Waits until all of these are served.
    pub(crate) async fn has(&self, events: &[&VerifiedEvent]) {
        for event in events {
            let what = format!("`{}` of {} events", event.content, events.len());
            let id = [event.id];
            until(&what, || holds(&self.server, &id)).await;
        }
    }

    /// Somebody here who hears of issues the moment they are served.
    pub(crate) async fn listener(&self) -> Listener {
        let mut client = Client::connect(&self.server.url()).await;
        client.subscribes("new", &[json!({"kinds": [1621], "limit": 0})]).await;
        Listener { client }
    }

    /// The event as a visitor gets it.
    pub(crate) async fn tells(&self, id: &EventId) -> Value {
        let mut client = Client::connect(&self.server.url()).await;
        let heard = client.subscribes("one", &[json!({"ids": [id.to_hex()]})]).await;
        heard[0][2].clone()
    }
}

#[derive(Debug)]
pub(crate) struct Listener {
    client: Client,
}

impl Listener {
    /// How long it takes from now until this one is heard of.
    pub(crate) async fn hears(&mut self, id: &EventId) -> Duration {
        let (from, id) = (Instant::now(), id.to_hex());
        while self.client.heard().await[2]["id"] != id.as_str() {}
        from.elapsed()
    }
}

/// A figure of `/metrics`, by its name with all labels; nothing is none.
pub(crate) async fn metric(server: &Server, name: &str) -> u64 {
    let page = http("GET", &format!("{}/metrics", server.address), &[]).await;
    let line = page.body.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|value| value.parse::<f64>().ok()).map_or(0, |value| value as u64)
}

/// All figures whose name begins so and that carry this label, added up.
pub(crate) async fn metrics(server: &Server, name: &str, label: &str) -> u64 {
    let page = http("GET", &format!("{}/metrics", server.address), &[]).await;
    let lines = page.body.lines().filter(|line| line.starts_with(name) && line.contains(label));
    let values = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok());
    values.sum::<f64>() as u64
}

//! One repository that several servers host, and the servers that do, each behind a door of its own.

use super::plan::Live;
use super::proxy::Proxy;
use crate::filling;
use crate::git::hosted::{git, push};
use crate::wire::{connect, hear_until, publication, say, taken};
use crate::work::query;
use anyhow::{Result, ensure};
use grasp_core::{Kind, VerifiedEvent};
use grasp_testkit::{Author, Draft, Repository, Server, WorkTree, now};
use std::path::Path;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A server by the address at which others know it.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) server: Server,
    pub(super) door: Proxy,
}

impl Host {
    /// Started on a store that has these already, whatever they are about.
    pub(super) async fn start(binary: &Path, plan: &Live, past: &[VerifiedEvent]) -> Result<Self> {
        let door = Proxy::open().await?;
        let window = plan.pauses.window.as_millis().to_string();
        let settings = [
            ("NGIT_DOMAIN_ALIASES", door.address.as_str()),
            ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
            ("NGIT_SYNC_BATCH_WINDOW_MS", &window),
            ("NGIT_RELAY_MAX_IP_EVENTS_PER_MINUTE", "1000000"),
            ("NGIT_RELAY_MAX_IP_EVENTS_BURST", "1000000"),
        ];
        let fill = |directory: &Path| filling::put_all(directory, past);
        let (server, ()) = crate::server::started_on(binary, &settings, fill).await?;
        door.leads_to(&server.address);
        Ok(Self { server, door })
    }

    pub(super) async fn returns(&mut self) {
        self.server.restart().await;
        self.door.leads_to(&self.server.address);
    }

    pub(super) async fn events(&self) -> Result<usize> {
        query::count(&self.server.address).await
    }

    /// Waits until it has so many events.
    pub(super) async fn has(&self, events: usize, patience: Duration) -> Result<()> {
        let started = Instant::now();
        loop {
            let has = self.events().await?;
            if has >= events {
                return Ok(());
            }
            ensure!(started.elapsed() < patience, "a server has {has} of {events} events");
            sleep(LOOK_EVERY).await;
        }
    }
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) repository: Repository,
    announcement: VerifiedEvent,
    state: VerifiedEvent,
    tree: WorkTree,
}

impl Shared {
    /// Announced for all of these servers, and for relays that keep no git data.
    pub(super) async fn by(hosts: &[Host], relays: &[String]) -> Self {
        let repository = Repository::new(Author::number(1), "acme");
        let doors = || hosts.iter().map(|host| &host.door);
        let clones: Vec<String> = doors().map(|door| repository.clone_url(&door.address)).collect();
        let relays: Vec<String> = doors().map(Proxy::url).chain(relays.iter().cloned()).collect();
        let draft = Draft::new(Kind::ANNOUNCEMENT, now()).tag(&["d", &repository.identifier]);
        let draft = tagged(tagged(draft, "clone", &clones), "relays", &relays);
        let announcement = repository.owner.signs(draft);
        let tree = WorkTree::init(&git()).await;
        tree.git(&["symbolic-ref", "HEAD", "refs/heads/main"]).await;
        let tip = tree.commit("README", "hello").await.to_hex();
        let refs = [("refs/heads/main", tip.as_str())];
        let state = repository.state(&repository.owner, now(), &refs, Some("main"));
        Self { repository, announcement, state, tree }
    }

    /// The owner brings the repository to this server, as to any other.
    pub(super) async fn joins(&self, host: &Host, patience: Duration) -> Result<()> {
        let mut socket = connect(&host.server.address).await?;
        for event in [&self.announcement, &self.state] {
            say(&mut socket, publication(std::str::from_utf8(event.json())?)).await?;
            taken(&hear_until(&mut socket, "[\"OK\"").await?)?;
        }
        let url = self.repository.clone_url(&host.server.address);
        let before = host.events().await?;
        push(&self.tree, &url, &["main"]).await?;
        // Both are served once their git data is here.
        host.has(before + 2, patience).await
    }
}

/// One tag with many values.
pub(crate) fn tagged(draft: Draft, name: &str, values: &[String]) -> Draft {
    let tag: Vec<&str> = std::iter::once(name).chain(values.iter().map(String::as_str)).collect();
    draft.tag(&tag)
}

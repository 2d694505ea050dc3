//! Servers that all have the same repositories, whole: one that is measured, and others it should
//! find equal, each known by a door of its own.

use super::{CLOSED_NET, DOMAIN, HASTE, Run, plan};
use crate::events::{issue, on_all_cores};
use crate::filling;
use crate::seedling::{MAIN, Seedling};
use crate::sync::proxy::Proxy;
use crate::sync::shared::tagged;
use crate::work::query;
use anyhow::{Result, ensure};
use grasp_core::{Kind, VerifiedEvent};
use grasp_testkit::{Author, Draft, Home, Random, Repository, Server, now};
use std::time::{Duration, Instant};
use tokio::time::sleep;

const OWNERS: u64 = 100;
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// They serve as long as this is kept.
#[derive(Debug)]
pub(super) struct Peers {
    pub(super) repositories: Vec<Repository>,
    _others: Vec<Server>,
    _doors: Vec<Proxy>,
}

/// What each of them has.
struct Shelf {
    seedling: Seedling,
    repositories: Vec<Repository>,
    projects: Vec<VerifiedEvent>,
    issues: Vec<VerifiedEvent>,
}

impl Peers {
    /// The others, running, and what the one that is measured starts with.
    pub(super) async fn found(run: &Run) -> Result<(Self, Home)> {
        let plan = run.plan.upkeep;
        let mut doors = Vec::new();
        for _ in 0..plan.peers {
            doors.push(Proxy::open().await?);
        }
        eprintln!("{} servers with {} repositories each", plan.peers + 1, plan.repositories);
        let places: Vec<String> = doors.iter().map(|door| door.address.clone()).collect();
        let shelf = Shelf::sign(&plan, &places).await?;
        let mut others = Vec::new();
        for door in &doors {
            let settings =
                [("NGIT_DOMAIN_ALIASES", door.address.as_str()), ("NGIT_SYNC_ENABLED", "false")];
            let server = shelf.filled(run, &settings).await?.serve().await;
            shelf.is_served_by(&server, run.plan.patience).await?;
            door.leads_to(&server.address);
            others.push(server);
        }
        let own = [&[("NGIT_DOMAIN_ALIASES", DOMAIN), CLOSED_NET], HASTE].concat();
        let home = shelf.filled(run, &own).await?;
        let repositories = shelf.repositories;
        Ok((Self { repositories, _others: others, _doors: doors }, home))
    }
}

impl Shelf {
    async fn sign(plan: &plan::Upkeep, places: &[String]) -> Result<Self> {
        let seedling = Seedling::with_readme("hello").await?;
        let begin = now() - 30 * 24 * 3600;
        let repositories: Vec<Repository> = (0..plan.repositories)
            .map(|n| {
                let owner = Author::number(1 + n as u64 % OWNERS);
                Repository::new(owner, &format!("project-{n}"))
            })
            .collect();
        let announcements = on_all_cores(plan.repositories, |n| {
            announcement(&repositories[n], places, begin + n as u64)
        });
        let states = on_all_cores(plan.repositories, |n| {
            let of = &repositories[n];
            of.state(&of.owner, begin + 100_000, &[(MAIN, &seedling.tip)], Some("main"))
        });
        let issues = on_all_cores(plan.issues, |n| {
            let mut random = Random::seeded(n as u64);
            let of = &repositories[n % repositories.len()];
            let draft = issue(&of.coordinate(), n, begin + 200_000 + n as u64, &mut random);
            of.owner.signs(draft)
        });
        let projects = [announcements, states].concat();
        Ok(Self { seedling, repositories, projects, issues })
    }

    async fn filled(&self, run: &Run, settings: &[(&str, &str)]) -> Result<Home> {
        let mut server = Server::start(&run.binary, settings).await;
        ensure!(server.stop().await, "the server does not stop in order");
        self.seedling.plant(&self.repositories, &server.data_path().join("git"))?;
        server.home().imports(&self.projects).await;
        filling::put_all(&server.home().relay_path(), &self.issues)?;
        Ok(server.into_home())
    }

    async fn is_served_by(&self, server: &Server, patience: Duration) -> Result<()> {
        let (started, expected) = (Instant::now(), self.projects.len() + self.issues.len());
        loop {
            let has = query::count(&server.address).await?;
            if has == expected {
                return Ok(());
            }
            ensure!(started.elapsed() < patience, "a server has {has} of {expected} events");
            sleep(LOOK_EVERY).await;
        }
    }
}

/// Hosted by the server that is measured, and at all these places.
fn announcement(of: &Repository, places: &[String], at: u64) -> VerifiedEvent {
    let hosts = || std::iter::once(DOMAIN).chain(places.iter().map(String::as_str));
    let clones: Vec<String> = hosts().map(|place| of.clone_url(place)).collect();
    let relays: Vec<String> = hosts().map(|place| format!("ws://{place}")).collect();
    let draft = Draft::new(Kind::ANNOUNCEMENT, at).tag(&["d", &of.identifier]);
    let draft = draft.tag(&["name", &of.identifier]);
    of.owner.signs(tagged(tagged(draft, "clone", &clones), "relays", &relays))
}

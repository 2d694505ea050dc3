//! Two servers that follow each other, one repository, pushes to the first alone: how long after
//! the first tells of a new state the second one's branch is there.

use super::mirror::first_answer;
use super::projects::announcement;
use super::source::publish;
use super::{CLOSED_NET, Run};
use crate::git::hosted::{git, push};
use crate::report::Row;
use crate::stats::Latencies;
use crate::sync::proxy::Proxy;
use crate::wire::{Socket, connect, hear_until, say};
use anyhow::{Result, ensure};
use grasp_core::{Oid, VerifiedEvent};
use grasp_testkit::{Author, Repository, Server, WorkTree, now};
use std::time::{Duration, Instant};
use tokio::time::sleep;

const LOOK_EVERY: Duration = Duration::from_millis(10);
const MAIN: &str = "refs/heads/main";
/// What every state that another relay brings waits for its companions.
const DEBOUNCE_MS: f64 = 500.0;

pub(super) async fn measure(run: &mut Run) -> Result<()> {
    let (pushes, patience) = (run.plan.pushes, run.plan.patience);
    eprintln!("{pushes} pushes to one of two servers");
    let mut pair = Pair::start(run).await?;
    let mut delays = Latencies::default();
    for number in 1..=pushes {
        delays.add(pair.moves_on(number, patience).await?);
    }
    let name = |what: &str| format!("{pushes} states pushed elsewhere, cloneable here, {what}");
    run.report.add(
        Row::new(name("p50"), delays.p50_ms(), "ms").beside("debounce", DEBOUNCE_MS).below(1_500.0),
    );
    run.report.add(Row::new(name("p99"), delays.p99_ms(), "ms").beside("debounce", DEBOUNCE_MS));
    Ok(())
}

struct Pair {
    first: Server,
    second: Server,
    repository: Repository,
    tree: WorkTree,
    publisher: Socket,
    /// Hears of states as the first server serves them.
    listener: Socket,
    at: u64,
    _doors: [Proxy; 2],
}

impl Pair {
    /// Linked, and both with the repository that only the first was given.
    async fn start(run: &Run) -> Result<Self> {
        let doors = [Proxy::open().await?, Proxy::open().await?];
        let place = |n: usize| ("NGIT_DOMAIN_ALIASES", doors[n].address.as_str());
        let first = Server::start(&run.binary, &[CLOSED_NET, place(0)]).await;
        doors[0].leads_to(&first.address);
        let relay = doors[0].url();
        let follows = ("NGIT_SYNC_BOOTSTRAP_RELAY_URL", relay.as_str());
        let second = Server::start(&run.binary, &[CLOSED_NET, place(1), follows]).await;
        doors[1].leads_to(&second.address);
        let repository = Repository::new(Author::number(1), "acme");
        let tree = WorkTree::init(&git()).await;
        tree.git(&["symbolic-ref", "HEAD", MAIN]).await;
        let mut publisher = connect(&first.address).await?;
        let at = now() - 10_000;
        let places = [doors[0].address.as_str(), doors[1].address.as_str()];
        publish(&mut publisher, &announcement(&repository, places, at)).await?;
        let mut listener = connect(&first.address).await?;
        say(&mut listener, "[\"REQ\",\"states\",{\"kinds\":[30618],\"limit\":0}]").await?;
        hear_until(&mut listener, "[\"EOSE\"").await?;
        let _doors = doors;
        let mut pair = Self { first, second, repository, tree, publisher, listener, at, _doors };
        pair.moves_on(0, run.plan.patience).await?;
        Ok(pair)
    }

    /// The owner commits, signs, and pushes to the first server; from the moment it tells of the
    /// state until the second shows the branch there.
    async fn moves_on(&mut self, number: usize, patience: Duration) -> Result<Duration> {
        let tip = self.tree.commit("README", &format!("change {number}")).await;
        self.at += 1;
        let refs = [(MAIN, tip.to_hex())];
        let refs = refs.each_ref().map(|(name, oid)| (*name, oid.as_str()));
        let state = self.repository.state(&self.repository.owner, self.at, &refs, Some("main"));
        publish(&mut self.publisher, &state).await?;
        let url = self.repository.clone_url(&self.first.address);
        let (pushed, told) =
            tokio::join!(push(&self.tree, &url, &["main"]), hears(&mut self.listener, &state));
        pushed?;
        let told = told?;
        while !self.is_shown(&tip).await {
            ensure!(told.elapsed() < patience, "change {number} did not come");
            sleep(LOOK_EVERY).await;
        }
        Ok(told.elapsed())
    }

    async fn is_shown(&self, tip: &Oid) -> bool {
        let answer = first_answer(&self.second.address, &self.repository).answer().await;
        let line = format!("{} {MAIN}\n", tip.to_hex());
        answer.is_ok_and(|answer| String::from_utf8_lossy(&answer).contains(&line))
    }
}

async fn hears(listener: &mut Socket, state: &VerifiedEvent) -> Result<Instant> {
    let id = state.id.to_hex();
    loop {
        let text = hear_until(listener, "[\"EVENT\"").await?;
        if text.contains(&id) {
            return Ok(Instant::now());
        }
    }
}

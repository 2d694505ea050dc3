//! A server whose event store is empty, or nearly full, and a peer that has everything: how long it
//! takes until it has all of it, and how many bytes.

use super::Run;
use super::live::bytes;
use super::plan::History;
use super::projects::{DOMAIN, Projects};
use super::proxy::{Proxy, mega, quiet};
use crate::report::Row;
use crate::server::started_on;
use crate::stats::number;
use crate::work::query;
use crate::{filling, floors};
use anyhow::{Result, ensure};
use grasp_core::VerifiedEvent;
use grasp_testkit::{Server, now};
use std::path::Path;
use std::time::{Duration, Instant};
use tokio::time::sleep;

const LOOK_EVERY: Duration = Duration::from_millis(200);
/// One event in so many is missing where nearly everything is held.
const MISSING_ONE_IN: usize = 100;
const FLOOR_TIME: Duration = Duration::from_secs(1);

/// What the follower has to begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stock {
    Nothing,
    Most,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Compared,
    RequestsOnly,
}

#[derive(Debug)]
struct Outcome {
    server: Server,
    took: Duration,
    /// Until it was complete, and until nothing came any more.
    received: f64,
    received_in_all: f64,
}

pub(super) async fn measure(run: &mut Run) -> Result<()> {
    let plan = run.plan.history;
    let peer_door = Proxy::open().await?;
    eprintln!("signing {} events", plan.roots + plan.replies + 2 * plan.repositories);
    let projects = Projects::sign(&plan, &peer_door.url(), now()).await?;
    let peer = peer(&run.binary, &projects).await?;
    peer_door.leads_to(&peer.address);
    let stage = Stage { binary: &run.binary, projects: &projects, door: &peer_door, plan };

    let asked = stage.plays(Stock::Nothing, Way::RequestsOnly).await?;
    let mut fresh = stage.plays(Stock::Nothing, Way::Compared).await?;
    let schnorr = floors::schnorr::per_second(FLOOR_TIME);
    let report = &mut run.report;
    let events = projects.len();
    report.add(
        Row::new(format!("history of {events} events, from nothing"), fresh.secs(), "s")
            .beside("schnorr", number(events) / schnorr)
            .below(60.0),
    );
    report.add(
        Row::new("history, the same beside REQ alone", fresh.secs(), "s")
            .beside("REQ alone", asked.secs())
            .at_most_share(1.2),
    );
    report.add(
        Row::new("history from nothing, received", fresh.received_in_all, "MB")
            .beside("the events' own size", bytes(projects.all()) / 1e6)
            .at_most_share(1.5),
    );
    report.add(
        Row::new("history from nothing, received by REQ alone", asked.received_in_all, "MB")
            .beside("the events' own size", bytes(projects.all()) / 1e6),
    );
    report.note(format!(
        "history from nothing: {:.1} MB when complete, REQ alone {:.1} MB",
        fresh.received, asked.received
    ));
    drop(asked);

    ensure!(fresh.server.stop().await, "the server does not stop in order");
    peer_door.count_anew();
    fresh.server.restart().await;
    let again = quiet(&[&peer_door], &plan.pauses).await?;
    run.report.add(Row::new("history, received by a second start", again, "MB").below(0.2));
    // As if it had been away for long: everything is compared again.
    ensure!(fresh.server.stop().await, "the server does not stop in order");
    peer_door.count_anew();
    let mut home = fresh.server.into_home();
    home.set("NGIT_SYNC_RESUME_WITHIN_SECS", "1");
    sleep(Duration::from_millis(1_500)).await;
    let returned = home.serve().await;
    let again = quiet(&[&peer_door], &plan.pauses).await?;
    run.report.add(Row::new("history, received by a start long after", again, "MB"));
    drop(returned);

    let asked = stage.plays(Stock::Most, Way::RequestsOnly).await?;
    let compared = stage.plays(Stock::Most, Way::Compared).await?;
    run.report.add(
        Row::new("history with 99 % held, received", compared.received_in_all, "MB")
            .beside("REQ alone", asked.received_in_all)
            .at_most_share(0.333),
    );
    run.report.add(
        Row::new("history with 99 % held, complete after", compared.secs(), "s")
            .beside("REQ alone", asked.secs()),
    );
    Ok(())
}

impl Outcome {
    fn secs(&self) -> f64 {
        self.took.as_secs_f64()
    }
}

/// A server that has everything and asks nobody.
async fn peer(binary: &Path, projects: &Projects) -> Result<Server> {
    let settings = [
        ("NGIT_SYNC_ENABLED", "false"),
        ("NGIT_RELAY_MAX_CONNECTION_FILTERS_BYTES", "268435456"),
        ("NGIT_RELAY_MAX_IP_FILTERS_BYTES", "268435456"),
        ("NGIT_RELAY_MAX_SUBSCRIPTIONS", "5000"),
    ];
    let everything: Vec<VerifiedEvent> = projects.all().cloned().collect();
    let fill = |directory: &Path| filling::put_all(directory, &everything);
    let (peer, ()) = started_on(binary, &settings, fill).await?;
    let has = query::count(&peer.address).await?;
    ensure!(has == projects.len(), "the peer has {has} of {} events", projects.len());
    Ok(peer)
}

struct Stage<'a> {
    binary: &'a Path,
    projects: &'a Projects,
    door: &'a Proxy,
    plan: History,
}

impl Stage<'_> {
    async fn plays(&self, stock: Stock, way: Way) -> Result<Outcome> {
        eprintln!("a server that has {stock:?}, {way:?}");
        let mut server = self.follower(stock, way).await?;
        let patience = self.plan.pauses.patience;
        self.door.count_anew();
        let started = Instant::now();
        server.restart().await;
        let expected = self.projects.len();
        loop {
            let has = query::count(&server.address).await?;
            if has == expected {
                break;
            }
            ensure!(started.elapsed() < patience, "{has} of {expected} events came");
            sleep(LOOK_EVERY).await;
        }
        let (took, received) = (started.elapsed(), mega(self.door.bytes())?);
        let received_in_all = quiet(&[self.door], &self.plan.pauses).await?;
        Ok(Outcome { server, took, received, received_in_all })
    }

    /// A stopped server with all git data and some of the events.
    async fn follower(&self, stock: Stock, way: Way) -> Result<Server> {
        let (peer, window) = (self.door.url(), self.plan.pauses.window.as_millis().to_string());
        let compares_not = (way == Way::RequestsOnly).to_string();
        let settings = [
            ("NGIT_DOMAIN_ALIASES", DOMAIN),
            ("NGIT_SYNC_BOOTSTRAP_RELAY_URL", peer.as_str()),
            ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
            ("NGIT_SYNC_DISABLE_NEGENTROPY", &compares_not),
            ("NGIT_SYNC_BATCH_WINDOW_MS", &window),
            ("NGIT_SYNC_STARTS_PER_SECOND", "1000"),
            ("NGIT_SYNC_GRASP_STARTS_PER_SECOND", "1000"),
            ("NGIT_SYNC_STARTS_BURST", "100000"),
        ];
        let mut server = Server::start(self.binary, &settings).await;
        ensure!(server.stop().await, "the server does not stop in order");
        self.projects.plant(&server.data_path().join("git"))?;
        if stock == Stock::Most {
            let projects = [&self.projects.announcements[..], &self.projects.states].concat();
            server.home().imports(&projects).await;
            let threads = self.projects.roots.iter().chain(&self.projects.replies).enumerate();
            let held = threads.filter(|(n, _)| n % MISSING_ONE_IN != MISSING_ONE_IN / 2);
            let held: Vec<VerifiedEvent> = held.map(|(_, event)| event.clone()).collect();
            filling::put_all(&server.home().relay_path(), &held)?;
        }
        Ok(server)
    }
}

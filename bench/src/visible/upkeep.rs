//! The ledger's price: how much processor time the server needs to look at every repository at
//! every peer once, scaled to the age a verdict may have by default.

use super::Run;
use super::peers::Peers;
use super::plan::Upkeep;
use super::scrape::Checks;
use super::visitor::Visitor;
use crate::process::family_time;
use crate::report::Row;
use crate::stats::number;
use anyhow::{Context, Result, ensure};
use grasp_testkit::{Home, Repository, Server};
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::time::sleep;

const AGE_MAX: &str = "NGIT_SYNC_VERDICT_MAX_AGE_SECS";
const DAY: Duration = Duration::from_secs(86_400);
const QUIET: Duration = Duration::from_secs(3);

pub(super) async fn measure(run: &mut Run) -> Result<()> {
    let (peers, home) = Peers::found(run).await?;
    run.notes_load("the ledger's upkeep");
    let stage = Stage { plan: run.plan.upkeep, patience: run.plan.patience };
    let (idle, home) = stage.idles(home).await?;
    let (round, server) = stage.goes_round(home).await?;
    tell(run, &idle, &round, &ledger(&server, &peers.repositories).await?);
    let Upkeep { repositories, peers, .. } = run.plan.upkeep;
    run.adds_memory(
        &format!("{repositories} repositories x {peers} peers, after its rounds"),
        &server,
    )
}

fn tell(run: &mut Run, idle: &Span, round: &Span, ledger: &Ledger) {
    let Upkeep { repositories, peers, age_max, .. } = run.plan.upkeep;
    let name = |what: &str| format!("{repositories} repositories x {peers} peers, {what}");
    let secs = |time: Duration| time.as_secs_f64();
    let idle_share = secs(idle.cpu) / secs(idle.time);
    let spent = (secs(round.cpu) - idle_share * secs(round.time)).max(0.0);
    // Each is looked at again before its verdict is too old, so there is more than one round in
    // that time; a server that does not keep up must not look cheaper for it.
    let rounds = (secs(age_max) / secs(round.time)).max(1.0);
    let share = 100.0 * spent * rounds / secs(DAY);
    let (report, checks, wanted) = (&mut run.report, round.checks, number(repositories * peers));
    report.add(Row::new(name("upkeep with 24 h"), share, "% of a core").below(5.0));
    report.add(Row::new(name("refs compared"), checks.refs, "").at_least(wanted));
    report.add(Row::new(name("events compared"), checks.events, "").at_least(wanted));
    report.add(Row::new(name("found equal"), ledger.equal, "").at_least(2.0 * wanted));
    report.add(Row::new(name("objects given out"), ledger.given, "").at_least(wanted));
    let oldest = Row::new(name("the oldest verdict"), ledger.oldest_secs, "s");
    report.add(oldest.at_most(secs(age_max)));
    report.note(format!(
        "upkeep: a round took {:.1} s and {:.2} s of processor time, {:.2} s of it for other things; \
         {rounds:.2} rounds in {} s; {:.0} looks in vain; idle {:.2} % of a core",
        secs(round.time),
        secs(round.cpu),
        secs(round.cpu) - spent,
        age_max.as_secs(),
        checks.in_vain,
        100.0 * idle_share,
    ));
}

struct Stage {
    plan: Upkeep,
    patience: Duration,
}

impl Stage {
    /// What the server needs when every verdict is fresh and may stay for a day.
    async fn idles(&self, mut home: Home) -> Result<(Span, Home)> {
        eprintln!("a server that has a day for each verdict");
        home.set(AGE_MAX, &DAY.as_secs().to_string());
        let mut server = home.serve().await;
        self.looked_at_all(&server, Checks::default()).await?;
        Checks::settle(&server.address, QUIET, self.patience).await?;
        let idle = Span::begin(&server).await?;
        sleep(self.plan.idle).await;
        let idle = idle.end(&server).await?;
        ensure!(server.stop().await, "the server does not stop in order");
        Ok((idle, server.into_home()))
    }

    /// One whole round, after the one that follows a start.
    async fn goes_round(&self, mut home: Home) -> Result<(Span, Server)> {
        let age_max = self.plan.age_max.as_secs();
        eprintln!("the same with {age_max} s");
        home.set(AGE_MAX, &age_max.to_string());
        let server = home.serve().await;
        let before = self.looked_at_all(&server, Checks::default()).await?;
        let round = Span::begin(&server).await?;
        self.looked_at_all(&server, before).await?;
        Ok((round.end(&server).await?, server))
    }

    /// Waits until every repository was looked at everywhere once more than `before`.
    async fn looked_at_all(&self, server: &Server, before: Checks) -> Result<Checks> {
        let wanted = number(self.plan.repositories * self.plan.peers);
        let is_all = |now: &Checks| {
            let since = *now - before;
            since.refs.min(since.events) >= wanted
        };
        Checks::reach(&server.address, is_all, self.patience).await
    }
}

/// A stretch of a server's life.
struct Span {
    begun: Instant,
    time: Duration,
    cpu: Duration,
    checks: Checks,
}

impl Span {
    async fn begin(server: &Server) -> Result<Self> {
        let checks = Checks::at(&server.address).await?;
        let cpu = family_time(server.pid())?;
        Ok(Self { begun: Instant::now(), time: Duration::ZERO, cpu, checks })
    }

    async fn end(mut self, server: &Server) -> Result<Self> {
        self.time = self.begun.elapsed();
        self.cpu = family_time(server.pid())?.saturating_sub(self.cpu);
        self.checks = Checks::at(&server.address).await? - self.checks;
        Ok(self)
    }
}

struct Ledger {
    equal: f64,
    /// Mirrors of a repository that gave out the objects of its refs.
    given: f64,
    oldest_secs: f64,
}

async fn ledger(server: &Server, repositories: &[Repository]) -> Result<Ledger> {
    let mut visitor = Visitor::to(&server.address).await?;
    let mut given = 0;
    for of in repositories {
        let (npub, identifier) = (of.owner.key.to_npub(), &of.identifier);
        let report = visitor.reads(&format!("/api/v1/repos/{npub}/{identifier}")).await?;
        given += mirrors_that_give(&report).context("a repository's report has its mirrors")?;
    }
    let status = visitor.reads("/api/v1/status").await?;
    let of = |name: &str| status.pointer(&format!("/ledger/{name}")).and_then(Value::as_f64);
    let [equal, oldest_secs] = ["equal", "oldest_secs"].map(|name| of(name).unwrap_or(f64::NAN));
    Ok(Ledger { equal, given: number(given), oldest_secs })
}

fn mirrors_that_give(report: &Value) -> Option<usize> {
    let objects = |mirror: &Value| mirror.pointer("/refs/objects") == Some(&"given".into());
    Some(report.get("mirrors")?.as_array()?.iter().filter(|mirror| objects(mirror)).count())
}

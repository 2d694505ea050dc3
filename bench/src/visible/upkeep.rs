//! The ledger's price: how much processor time the server needs to look at every repository at
//! every peer once, scaled to the age a verdict may have by default.

use super::peers::Peers;
use super::scrape::Checks;
use super::visitor::Visitor;
use super::{Run, plan};
use crate::process::family_time;
use crate::report::Row;
use crate::stats::number;
use anyhow::{Result, ensure};
use grasp_testkit::{Home, Server};
use serde_json::Value;
use std::time::{Duration, Instant};
use tokio::time::sleep;

const AGE_MAX: &str = "NGIT_SYNC_VERDICT_MAX_AGE_SECS";
const DAY: Duration = Duration::from_secs(86_400);
const LOOK_EVERY: Duration = Duration::from_millis(250);
const QUIET: Duration = Duration::from_secs(3);

pub(super) async fn measure(run: &mut Run) -> Result<()> {
    let plan = run.plan.upkeep;
    let (_peers, mut home) = Peers::found(run).await?;
    let (repositories, peers) = (plan.repositories, plan.peers);
    run.notes_load("the ledger's upkeep");

    eprintln!("a server that has a day for each verdict");
    home.set(AGE_MAX, &DAY.as_secs().to_string());
    let mut server = home.serve().await;
    let stage = Stage { plan, patience: run.plan.patience };
    stage.looked_at_all(&server, Checks::default()).await?;
    Checks::settle(&server.address, QUIET, stage.patience).await?;
    let idle = Span::begin(&server).await?;
    sleep(plan.idle).await;
    let idle = idle.end(&server).await?;
    ensure!(server.stop().await, "the server does not stop in order");

    eprintln!("the same with {} s", plan.age_max.as_secs());
    let mut home: Home = server.into_home();
    home.set(AGE_MAX, &plan.age_max.as_secs().to_string());
    let server = home.serve().await;
    let before = stage.looked_at_all(&server, Checks::default()).await?;
    let round = Span::begin(&server).await?;
    stage.looked_at_all(&server, before).await?;
    let round = round.end(&server).await?;
    let ledger = ledger(&server).await?;

    let name = |what: &str| format!("{repositories} repositories x {peers} peers, {what}");
    let idle_share = idle.cpu.as_secs_f64() / idle.time.as_secs_f64();
    let spent = (round.cpu.as_secs_f64() - idle_share * round.time.as_secs_f64()).max(0.0);
    // Each is looked at again before its verdict is too old, so there are more rounds than one in
    // that time; a server that does not keep up would have fewer.
    let rounds = (plan.age_max.as_secs_f64() / round.time.as_secs_f64()).max(1.0);
    let share = 100.0 * spent * rounds / DAY.as_secs_f64();
    run.report.add(Row::new(name("upkeep with 24 h"), share, "% of a core").below(5.0));
    let wanted = number(repositories * peers);
    let checks = round.checks;
    run.report.add(Row::new(name("refs looked at"), checks.refs, "").at_least(wanted));
    run.report.add(Row::new(name("events compared"), checks.events, "").at_least(number(peers)));
    run.report.add(Row::new(name("equal"), ledger.equal, "").at_least(wanted));
    let oldest = Row::new(name("the oldest verdict"), ledger.oldest_secs, "s");
    run.report.add(oldest.at_most(plan.age_max.as_secs_f64()));
    run.report.note(format!(
        "upkeep: a round took {:.1} s and {:.2} s of processor time, {:.2} s of it also without a round; \
         {:.2} rounds in the age of a verdict; {:.0} refs, {:.0} comparisons, {:.0} in vain; \
         idle {:.2} % of a core",
        round.time.as_secs_f64(),
        round.cpu.as_secs_f64(),
        round.cpu.as_secs_f64() - spent,
        rounds,
        checks.refs,
        checks.events,
        checks.in_vain,
        100.0 * idle_share,
    ));
    run.adds_memory(&name("after its rounds"), &server)
}

struct Stage {
    plan: plan::Upkeep,
    patience: Duration,
}

impl Stage {
    /// Waits until every repository was looked at everywhere once more than `before`.
    async fn looked_at_all(&self, server: &Server, before: Checks) -> Result<Checks> {
        let wanted = number(self.plan.repositories * self.plan.peers);
        let compared = number(self.plan.peers);
        let started = Instant::now();
        loop {
            let now = Checks::at(&server.address).await?;
            let since = now - before;
            if since.refs >= wanted && since.events >= compared {
                return Ok(now);
            }
            ensure!(started.elapsed() < self.patience, "of {wanted} looks there were {since:?}");
            sleep(LOOK_EVERY).await;
        }
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
    oldest_secs: f64,
}

async fn ledger(server: &Server) -> Result<Ledger> {
    let status = Visitor::to(&server.address).await?.reads("/api/v1/status").await?;
    let of = |name: &str| status.pointer(&format!("/ledger/{name}")).and_then(Value::as_f64);
    let [equal, oldest_secs] = ["equal", "oldest_secs"].map(|name| of(name).unwrap_or(f64::NAN));
    Ok(Ledger { equal, oldest_secs })
}

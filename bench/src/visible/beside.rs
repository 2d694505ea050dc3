//! Clients who publish at a steady rate and others who ask the relay, with and without somebody who
//! reads pages and reports meanwhile: neither should notice the other.

use super::Run;
use super::plan::Beside;
use super::shown::targets;
use super::town::Town;
use super::visitor::{Target, Visitor};
use crate::events::{issue, on_all_cores};
use crate::report::Row;
use crate::stats::Latencies;
use crate::wire::{Socket, accepted, connect_many, hear, say};
use crate::work::ingest::message_of;
use crate::work::query::hear_out;
use anyhow::Result;
use grasp_core::VerifiedEvent;
use grasp_testkit::{Random, now};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep};

/// Lines of one answer of the relay.
const LIMIT: usize = 50;

/// What everybody waited for.
#[derive(Debug, Default)]
struct Waits {
    published: Latencies,
    asked: Latencies,
    pages: Latencies,
    reports: Latencies,
}

impl Waits {
    fn append(&mut self, more: Self) {
        self.published.append(more.published);
        self.asked.append(more.asked);
        self.pages.append(more.pages);
        self.reports.append(more.reports);
    }
}

pub(super) async fn measure(run: &mut Run, town: &Town) -> Result<()> {
    let plan = run.plan.beside;
    let targets = targets(town, &run.plan.asked);
    let (mut alone, mut beside) = (Waits::default(), Waits::default());
    for round in 0..plan.rounds {
        eprintln!("round {} of {}", round + 1, plan.rounds);
        alone.append(crowd(town, &plan, &[], 2 * round).await?);
        beside.append(crowd(town, &plan, &targets, 2 * round + 1).await?);
    }
    let (events, requests) = (plan.events_per_second, plan.requests_per_second);
    let report = &mut run.report;
    let busy = format!("while {events} events/s come and {requests} pages and reports/s are read");
    for (what, beside, alone) in
        [("REQ", &beside.asked, &alone.asked), ("publish", &beside.published, &alone.published)]
    {
        let row = Row::new(format!("{what} {busy}, p50"), beside.p50_ms(), "ms");
        report.add(row.beside("nobody reads", alone.p50_ms()));
        let row = Row::new(format!("{what} {busy}, p99"), beside.p99_ms(), "ms");
        report.add(row.beside("nobody reads", alone.p99_ms()));
    }
    let row = Row::new("pages meanwhile, p99", beside.pages.p99_ms(), "ms");
    report.add(row.below(50.0));
    let row = Row::new("reports meanwhile, p99", beside.reports.p99_ms(), "ms");
    report.add(row.below(20.0));
    report.note(format!(
        "beside others: {} events, {} REQs, {} pages and {} reports; pages p50 {:.1} ms, reports p50 {:.1} ms",
        beside.published.len(),
        beside.asked.len(),
        beside.pages.len(),
        beside.reports.len(),
        beside.pages.p50_ms(),
        beside.reports.p50_ms(),
    ));
    Ok(())
}

/// One round; nobody reads if there is nothing to read.
async fn crowd(town: &Town, plan: &Beside, targets: &[Target], seed: usize) -> Result<Waits> {
    let address = &town.server.address;
    let events = new_issues(town, plan, seed);
    let share = events.len().div_ceil(plan.publishers).max(1);
    let sockets = connect_many(address, plan.publishers + plan.askers).await?;
    let mut sockets = sockets.into_iter();
    let per_publisher = plan.events_per_second / u32::try_from(plan.publishers)?;
    let beat = Duration::from_secs(1) / per_publisher.max(1);
    let mut publishing = JoinSet::new();
    for (events, socket) in events.chunks(share).zip(sockets.by_ref()) {
        publishing.spawn(publish(socket, events.to_vec(), beat));
    }
    let until = Instant::now() + plan.round;
    let mut asking = JoinSet::new();
    for (number, socket) in sockets.enumerate() {
        let random = Random::seeded((seed << 8 | number) as u64);
        asking.spawn(ask(socket, coordinates(town), random, plan.pause, until));
    }
    let mut waits = Waits::default();
    if !targets.is_empty() {
        let beat = Duration::from_secs(1) / plan.requests_per_second;
        (waits.pages, waits.reports) = read(address, targets, beat, until).await?;
    }
    while let Some(done) = publishing.join_next().await {
        waits.published.append(done??);
    }
    while let Some(done) = asking.join_next().await {
        waits.asked.append(done??);
    }
    Ok(waits)
}

fn new_issues(town: &Town, plan: &Beside, seed: usize) -> Vec<VerifiedEvent> {
    let count = plan.events_per_second as usize * plan.round.as_millis() as usize / 1_000;
    let at = now();
    on_all_cores(count, |n| {
        let mut random = Random::seeded((1 << 50) + (seed << 32 | n) as u64);
        let of = random.pick(&town.repositories).coordinate();
        let draft = issue(&of, seed * count + n, at, &mut random);
        random.pick(&town.authors).signs(draft)
    })
}

fn coordinates(town: &Town) -> Vec<String> {
    town.repositories.iter().map(grasp_testkit::Repository::coordinate).collect()
}

async fn publish(
    mut socket: Socket,
    events: Vec<VerifiedEvent>,
    beat: Duration,
) -> Result<Latencies> {
    let mut latencies = Latencies::default();
    let mut beat = interval(beat);
    beat.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for event in &events {
        let message = message_of(event)?;
        beat.tick().await;
        let started = Instant::now();
        say(&mut socket, message).await?;
        accepted(&hear(&mut socket).await?)?;
        latencies.add(started.elapsed());
    }
    Ok(latencies)
}

async fn ask(
    mut socket: Socket,
    repositories: Vec<String>,
    mut random: Random,
    pause: Duration,
    until: Instant,
) -> Result<Latencies> {
    let mut latencies = Latencies::default();
    while Instant::now() < until {
        let of = random.pick(&repositories);
        let started = Instant::now();
        say(&mut socket, format!("[\"REQ\",\"q\",{{\"#a\":[\"{of}\"],\"limit\":{LIMIT}}}]"))
            .await?;
        hear_out(&mut socket).await?;
        latencies.add(started.elapsed());
        say(&mut socket, "[\"CLOSE\",\"q\"]").await?;
        sleep(pause).await;
    }
    Ok(latencies)
}

/// One after the other, all kinds in turn: waits for pages, and for reports.
async fn read(
    address: &str,
    targets: &[Target],
    beat: Duration,
    until: Instant,
) -> Result<(Latencies, Latencies)> {
    let mut visitor = Visitor::to(address).await?;
    let (mut pages, mut reports) = (Latencies::default(), Latencies::default());
    let mut beat = interval(beat);
    beat.set_missed_tick_behavior(MissedTickBehavior::Burst);
    for target in targets.iter().cycle() {
        beat.tick().await;
        if Instant::now() >= until {
            break;
        }
        let (took, _) = visitor.asks(&target.path).await?;
        let kind = if target.name.starts_with("page") { &mut pages } else { &mut reports };
        kind.add(took);
    }
    Ok((pages, reports))
}

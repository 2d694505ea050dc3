//! Pages and reports, one request at a time: how long each takes beside an answer that costs
//! nothing, whether the end of a list costs more than its beginning, and what the first request
//! after a pause costs, when the server has to look at its machines anew.

use super::Run;
use super::plan::Asked;
use super::town::Town;
use super::visitor::{Target, Visitor, Waits};
use crate::report::Row;
use crate::stats::Latencies;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::time::sleep;

const PAGE_MS: f64 = 50.0;
const REPORT_MS: f64 = 20.0;
/// How much slower the end of a list may be than its beginning; more than noise is.
const DEEPER_MAX: f64 = 1.5;

pub(super) async fn measure(run: &mut Run, town: &Town) -> Result<()> {
    let mut visitor = Visitor::to(&town.server.address).await?;
    let asked = run.plan.asked;
    let targets = targets(town, &asked);
    for target in &targets {
        visitor.compares(&target.path, asked.warmup).await?;
        let waits = visitor.compares(&target.path, asked.times).await?;
        add(run, target, &waits);
    }
    deep(run, &mut visitor).await?;
    after_pauses(run, &mut visitor, &targets).await
}

/// Everything that is looked at.
pub(super) fn targets(town: &Town, asked: &Asked) -> Vec<Target> {
    let page = |name, path: String| Target { name, path, limit_ms: PAGE_MS };
    let report = |name, path: &str| {
        let path = format!("/api/v1/{path}");
        Target { name, path, limit_ms: REPORT_MS }
    };
    let (limit, place) = (asked.lines, |n: usize| {
        let of: &grasp_testkit::Repository = &town.repositories[n];
        format!("{}/{}", of.owner.key.to_npub(), of.identifier)
    });
    let waiting = town.first_held;
    vec![
        page("page /", "/".into()),
        page("page /repos", "/repos".into()),
        page("page /relays", "/relays".into()),
        page("page /purgatory", "/purgatory".into()),
        page("page of a repository", format!("/{}.git", place(0))),
        report("report status", "status"),
        report("report repos", &format!("repos?limit={limit}")),
        report("report relays", &format!("relays?limit={limit}")),
        report("report purgatory", &format!("purgatory?limit={limit}")),
        report("report of a repository", &format!("repos/{}", place(0))),
        report("report of a repository that waits", &format!("repos/{}", place(waiting))),
        report("report of an event", &format!("events/{}", town.issue)),
        report("report of an event that waits", &format!("events/{}", town.held)),
    ]
}

fn add(run: &mut Run, target: &Target, waits: &Waits) {
    let (name, floor) = (target.name, "/healthz");
    let row = Row::new(format!("{name}, p50"), waits.target.p50_ms(), "ms");
    run.report.add(row.beside(floor, waits.floor.p50_ms()));
    let row = Row::new(format!("{name}, p99"), waits.target.p99_ms(), "ms");
    run.report.add(row.beside(floor, waits.floor.p99_ms()).below(target.limit_ms));
    run.report.note(format!("{name}: {} bytes", waits.bytes));
}

/// The beginning and the end of the list of repositories, in turns.
async fn deep(run: &mut Run, visitor: &mut Visitor) -> Result<()> {
    let first = format!("/api/v1/repos?limit={}", run.plan.asked.lines);
    let last = last_page(run, visitor, &first).await?;
    let (mut begin, mut end) = (Latencies::default(), Latencies::default());
    for _ in 0..run.plan.asked.times {
        begin.add(visitor.asks(&first).await?.0);
        end.add(visitor.asks(&last).await?.0);
    }
    let row = Row::new("report repos, its last whole page, p50", end.p50_ms(), "ms");
    run.report.add(row.beside("the first", begin.p50_ms()).at_most_share(DEEPER_MAX));
    let row = Row::new("report repos, its last whole page, p99", end.p99_ms(), "ms");
    run.report.add(row.beside("the first", begin.p99_ms()).below(REPORT_MS));
    Ok(())
}

/// Reads all pages; where the last one begins that is as long as the first.
async fn last_page(run: &Run, visitor: &mut Visitor, first: &str) -> Result<String> {
    let (mut path, mut last, mut seen) = (first.to_owned(), first.to_owned(), 0);
    loop {
        let page = visitor.reads(&path).await?;
        let lines = page.get("repositories").and_then(Value::as_array);
        let lines = lines.context("a list of repositories")?.len();
        seen += lines;
        if lines == run.plan.asked.lines {
            last.clone_from(&path);
        }
        let Some(next) = page.get("next").and_then(Value::as_str) else { break };
        path = format!("{first}&after={next}");
    }
    let expected = run.plan.town.repositories;
    ensure!(seen == expected, "{seen} of {expected} repositories are listed");
    Ok(last)
}

/// The slowest page and the slowest report of those asked for after a pause.
async fn after_pauses(run: &mut Run, visitor: &mut Visitor, targets: &[Target]) -> Result<()> {
    let asked = run.plan.asked;
    for (what, limit_ms) in [("page", PAGE_MS), ("report", REPORT_MS)] {
        let mut slowest = (0.0, "");
        let of_kind = targets.iter().filter(|target| target.name.starts_with(what));
        for target in of_kind {
            let mut waits = Latencies::default();
            for _ in 0..asked.after_pause {
                sleep(asked.pause).await;
                waits.add(visitor.asks(&target.path).await?.0);
            }
            if waits.p50_ms() > slowest.0 {
                slowest = (waits.p50_ms(), target.name);
            }
        }
        let name = format!("the slowest {what}, first request after a pause, p50");
        run.report.add(Row::new(name, slowest.0, "ms").below(limit_ms));
        run.report.note(format!("the slowest {what} after a pause is: {}", slowest.1));
    }
    Ok(())
}

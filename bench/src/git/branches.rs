//! Very many branches at once: how long, with how many processes, and whether others notice.

use super::Run;
use super::askers::Askers;
use super::content;
use super::hosted::{ALL, Hosted, Refs, bare, git, push, refs};
use super::others::Others;
use crate::events::World;
use crate::filling;
use crate::report::Row;
use crate::server::started_on;
use crate::stats::{Latencies, number};
use anyhow::{Result, ensure};
use grasp_testkit::{WorkTree, now};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(super) async fn measure(run: &mut Run) -> Result<()> {
    let count = run.plan.branches;
    let tree = content::branches(&git(), count).await;
    let refs = refs(&tree).await;
    ensure!(refs.len() == count, "{} of {count} branches were made", refs.len());
    let pushed = Pushed { tree, refs };
    let world = Arc::new(World::build(&run.plan.events, now()));
    let fill = |directory: &Path| {
        filling::put_all(directory, &world.announcements)?;
        filling::put_all(directory, &world.comments)?;
        filling::put_all(directory, &world.issues)
    };
    let (server, ()) = started_on(&run.binary, &[], fill).await?;
    let mut hosted = Hosted::on(server).await?;
    alone(run, &pushed, &mut hosted).await?;
    beside_others(run, &pushed, &mut hosted, &world).await?;
    processes(run, &pushed).await
}

struct Pushed {
    tree: WorkTree,
    refs: Refs,
}

impl Pushed {
    /// From publishing the state to the end of the push; each into a repository of its own.
    async fn once(&self, hosted: &mut Hosted, name: &str) -> Result<Duration> {
        let repository = hosted.announces(name).await?;
        let state = hosted.state(&repository, &self.refs);
        let started = Instant::now();
        hosted.publish(&state).await?;
        push(&self.tree, &hosted.url(&repository), &ALL).await?;
        let took = started.elapsed();
        let mut shown = self.tree.ls_remote(&hosted.url(&repository)).await;
        shown.remove("HEAD");
        let expected = self.refs.iter().cloned().collect();
        ensure!(shown == expected, "{} refs are shown after the push", shown.len());
        Ok(took)
    }

    async fn to_file(&self, directory: &Path) -> Result<Duration> {
        let url = bare(&self.tree, directory).await;
        let started = Instant::now();
        push(&self.tree, &url, &ALL).await?;
        Ok(started.elapsed())
    }
}

async fn alone(run: &mut Run, pushed: &Pushed, hosted: &mut Hosted) -> Result<()> {
    let (mut ours, mut file) = (Latencies::default(), Latencies::default());
    let aside = tempfile::tempdir()?;
    let others = Others::since_now(hosted.server.pid())?;
    for round in 0..run.plan.rounds {
        ours.add(pushed.once(hosted, &format!("alone-{round}")).await?);
        file.add(pushed.to_file(&aside.path().join(round.to_string())).await?);
    }
    let name = format!("push of {} branches and its state, median", pushed.refs.len());
    let row = Row::new(name, ours.p50_ms(), "ms").beside("push to file://", file.p50_ms());
    run.report.add(row.below(1_000.0));
    let (slowest, others) = (ours.percentile(100).as_millis(), others.percent()?);
    run.report.note(format!(
        "the slowest of {} such pushes took {slowest} ms; others used {others:.0} % of the machine",
        run.plan.rounds
    ));
    Ok(())
}

async fn beside_others(
    run: &mut Run,
    pushed: &Pushed,
    hosted: &mut Hosted,
    world: &Arc<World>,
) -> Result<()> {
    let address = hosted.server.address.clone();
    let (mut meanwhile, mut took) = (Latencies::default(), Latencies::default());
    let (count, pause) = (run.plan.askers, run.plan.pause);
    let mut quiet = Latencies::default();
    for round in 0..run.plan.rounds {
        let repository = format!("busy-{round}");
        let asking = Askers::begin(&address, world, count, pause).await?;
        took.add(pushed.once(hosted, &repository).await?);
        meanwhile.append(asking.end().await?);
        let asking = Askers::begin(&address, world, count, pause).await?;
        tokio::time::sleep(took.percentile(50)).await;
        quiet.append(asking.end().await?);
    }
    let row = Row::new("REQ of others meanwhile, p99", meanwhile.p99_ms(), "ms");
    run.report.add(row.beside("without the push", quiet.p99_ms()).below(20.0));
    let (asked, took) = (meanwhile.len(), took.p50_ms());
    run.report.note(format!("{asked} REQs beside pushes of {took:.0} ms"));
    Ok(())
}

/// A git that keeps a record of being started.
struct Counted {
    directory: TempDir,
}

impl Counted {
    fn new(git: &Path) -> Result<Self> {
        let counted = Self { directory: tempfile::tempdir()? };
        let (record, git) = (counted.record(), git.display());
        let script =
            format!("#!/bin/sh\necho \"$*\" >> '{}'\nexec '{git}' \"$@\"\n", record.display());
        fs::write(counted.program(), script)?;
        fs::set_permissions(counted.program(), fs::Permissions::from_mode(0o755))?;
        Ok(counted)
    }

    fn program(&self) -> PathBuf {
        self.directory.path().join("git")
    }

    fn record(&self) -> PathBuf {
        self.directory.path().join("started")
    }

    /// What was started; asking for the version at the start does not count.
    fn started(&self) -> Result<Vec<String>> {
        let record = fs::read_to_string(self.record())?;
        let lines = record.lines().filter(|line| *line != "version");
        Ok(lines.map(|line| subcommand(line).to_owned()).collect())
    }
}

fn subcommand(line: &str) -> &str {
    line.split(' ').find(|word| !word.starts_with('-')).unwrap_or(line)
}

async fn processes(run: &mut Run, pushed: &Pushed) -> Result<()> {
    let counted = Counted::new(&git().binary)?;
    let mut hosted = Hosted::start(&run.binary, &counted.program()).await?;
    pushed.once(&mut hosted, "counted").await?;
    // Once it has ended, nothing it still had to do is missing.
    ensure!(hosted.server.stop().await, "the server does not stop in order");
    let started = counted.started()?;
    let row = Row::new("git processes for that push", number(started.len()), "");
    run.report.add(row.at_most(3.0));
    run.report.note(format!("started for it: {}", started.join(", ")));
    Ok(())
}

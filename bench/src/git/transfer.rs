//! Objects on their way: a clone and a push beside the same over `file://`, in turns, so that a
//! disturbance of the machine meets both.

use super::Run;
use super::hosted::{Hosted, Refs, bare, git, push};
use super::others::Others;
use crate::report::Row;
use crate::stats::{Latencies, number};
use anyhow::{Result, ensure};
use grasp_testkit::WorkTree;
use std::time::{Duration, Instant};

#[derive(Debug, Default)]
struct Sides {
    ours: Latencies,
    file: Latencies,
}

impl Sides {
    fn row(&self, name: String, share_max: f64) -> Row {
        let row = Row::new(name, self.ours.p50_ms(), "ms").beside("file://", self.file.p50_ms());
        row.at_most_share(share_max)
    }

    /// Every run in its order: a disturbance shows.
    fn runs(&self, others: &Others) -> Result<String> {
        let list = |of: &Latencies| {
            let runs = of.iter().map(|one| one.as_millis().to_string());
            runs.collect::<Vec<_>>().join(" ")
        };
        let (ours, file, others) = (list(&self.ours), list(&self.file), others.percent()?);
        Ok(format!("{ours} ms; file:// {file} ms; others used {others:.0} % of the machine"))
    }
}

/// Who goes first changes every time.
pub(super) fn turns(round: usize) -> [Side; 2] {
    match round % 2 {
        0 => [Side::Ours, Side::File],
        _ => [Side::File, Side::Ours],
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Ours,
    File,
}

pub(super) async fn clones(run: &mut Run) -> Result<()> {
    let story = run.plan.cloned;
    let tree = story.told(&git()).await;
    let mut hosted = Hosted::start(&run.binary, &git().binary).await?;
    let repository = hosted.publishes("cloned", &tree).await?;
    let ours = hosted.url(&repository);
    // The very same packs.
    let file = format!("file://{}", hosted.directory(&repository).display());
    let tip = tree.rev_parse("main").await;
    for url in [&ours, &file] {
        let (copy, _) = clone(url).await?;
        ensure!(copy.rev_parse("HEAD").await == tip, "a clone of {url} is not what was pushed");
    }
    let others = Others::since_now(hosted.server.pid())?;
    let mut sides = Sides::default();
    for round in 0..run.plan.runs {
        for side in turns(round) {
            settle().await?;
            match side {
                Side::Ours => sides.ours.add(clone(&ours).await?.1),
                Side::File => sides.file.add(clone(&file).await?.1),
            }
        }
    }
    let name = format!("clone of {:.1} MB, median of {}", megabytes(story.bytes()), run.plan.runs);
    run.report.add(sides.row(name, 1.15));
    run.report.note(format!("clones took {}", sides.runs(&others)?));
    Ok(())
}

pub(super) async fn clone(url: &str) -> Result<(WorkTree, Duration)> {
    let started = Instant::now();
    let (copy, ran) = WorkTree::try_clone(&git(), url, &["-q"]).await;
    let took = started.elapsed();
    ensure!(ran.ok, "git clone {url}: {}", ran.stderr);
    Ok((copy, took))
}

pub(super) async fn pushes(run: &mut Run) -> Result<()> {
    let story = run.plan.pushed;
    let tree = story.told(&git()).await;
    let mut hosted = Hosted::start(&run.binary, &git().binary).await?;
    let repository = hosted.announces("pushed").await?;
    let ours = hosted.url(&repository);
    let aside = tempfile::tempdir()?;
    let file = bare(&tree, &aside.path().join("pushed.git")).await;
    let commits = tree.git(&["rev-list", "--reverse", "main"]).await;
    let others = Others::since_now(hosted.server.pid())?;
    let mut sides = Sides::default();
    for (round, commit) in commits.lines().enumerate() {
        let refs: Refs = vec![("refs/heads/main".into(), commit.into())];
        hosted.signs(&repository, &refs).await?;
        let refspec = format!("{commit}:refs/heads/main");
        for side in turns(round) {
            settle().await?;
            let started = Instant::now();
            let url = if side == Side::Ours { &ours } else { &file };
            push(&tree, url, &[&refspec]).await?;
            let took = started.elapsed();
            match side {
                Side::Ours => sides.ours.add(took),
                Side::File => sides.file.add(took),
            }
        }
    }
    let name =
        format!("push of {:.1} MB, median of {}", megabytes(story.commit_bytes()), run.plan.runs);
    run.report.add(sides.row(name, 2.0));
    run.report.note(format!("pushes took {}", sides.runs(&others)?));
    Ok(())
}

/// What one side left to be written shall not be the other one's burden.
pub(super) async fn settle() -> Result<()> {
    Ok(tokio::task::spawn_blocking(rustix::fs::sync).await?)
}

pub(super) fn megabytes(bytes: usize) -> f64 {
    number(bytes) / 1e6
}

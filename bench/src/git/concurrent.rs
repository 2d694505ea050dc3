//! Several clients that clone the same repository at the same time, beside as many over `file://`, in
//! turns.

use super::Run;
use super::hosted::{Hosted, git};
use super::others::Others;
use super::transfer::{Side, clone, megabytes, settle, turns};
use crate::report::Row;
use crate::stats::{median, number};
use anyhow::{Result, ensure};
use std::time::Instant;
use tokio::task::JoinSet;

pub(super) async fn measure(run: &mut Run) -> Result<()> {
    let (story, count, rounds) = (run.plan.shared, run.plan.cloners, run.plan.rounds);
    let tree = story.told(&git()).await;
    let mut hosted = Hosted::start(&run.binary, &git().binary).await?;
    let repository = hosted.publishes("shared", &tree).await?;
    let ours = hosted.url(&repository);
    let file = format!("file://{}", hosted.directory(&repository).display());
    let tip = tree.rev_parse("main").await;
    let (copy, _) = clone(&ours).await?;
    ensure!(copy.rev_parse("HEAD").await == tip, "a clone of {ours} is not what was pushed");
    let others = Others::since_now(hosted.server.pid())?;
    let bytes = megabytes(story.bytes()) * number(count);
    let (mut ours_rates, mut file_rates) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        for side in turns(round) {
            settle().await?;
            match side {
                Side::Ours => ours_rates.push(bytes / clone_at_once(&ours, count).await?),
                Side::File => file_rates.push(bytes / clone_at_once(&file, count).await?),
            }
        }
    }
    let name =
        format!("{count} clones at once of {:.1} MB, median of {rounds}", megabytes(story.bytes()));
    let all =
        |rates: &[f64]| rates.iter().map(|it| format!("{it:.1}")).collect::<Vec<_>>().join(" ");
    let (ours_all, file_all, percent) = (all(&ours_rates), all(&file_rates), others.percent()?);
    let row = Row::new(name, median(ours_rates), "MB/s").beside("file://", median(file_rates));
    run.report.add(row.at_least_share(0.95));
    run.report.note(format!(
        "{ours_all} MB/s; file:// {file_all} MB/s; others used {percent:.0} % of the machine"
    ));
    Ok(())
}

/// Seconds until the last of them has its clone.
async fn clone_at_once(url: &str, count: usize) -> Result<f64> {
    let started = Instant::now();
    let mut cloning = JoinSet::new();
    for _ in 0..count {
        let url = url.to_owned();
        cloning.spawn(async move { clone(&url).await });
    }
    let mut copies = Vec::new();
    while let Some(done) = cloning.join_next().await {
        copies.push(done??);
    }
    Ok(started.elapsed().as_secs_f64())
}

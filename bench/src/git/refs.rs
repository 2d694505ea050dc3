//! The first request of every clone, fetch and push, beside git's own HTTP server over the same
//! directory.

use super::Run;
use super::content::Story;
use super::hosted::{Hosted, Refs, git, refs};
use super::http::Question;
use crate::floors::cgi;
use crate::report::Row;
use crate::stats::median;
use anyhow::{Result, ensure};
use grasp_testkit::WorkTree;
use std::sync::Arc;

const VERSIONS: [(&str, &str); 2] = [("v0", ""), ("v2", "Git-Protocol: version=2\r\n")];

pub(super) async fn measure(run: &mut Run) -> Result<()> {
    let tree = tree(run.plan.refs).await;
    let mut hosted = Hosted::start(&run.binary, &git().binary).await?;
    let repository = hosted.publishes("refs", &tree).await?;
    let cgi = cgi::start(&git().binary, &hosted.root()).await?;
    let target = format!("{}/info/refs?service=git-upload-pack", hosted.path(&repository));
    for (version, header) in VERSIONS {
        let ours = Question::get(&hosted.server.address, &target, header);
        let theirs = Question::get(&cgi.address, &target, header);
        for question in [&ours, &theirs] {
            check(version, &question.answer().await?, &refs(&tree).await)?;
        }
        let (ours, theirs) = alternate(run, &ours, &theirs).await?;
        let name = format!("info/refs of {} refs, {version}", run.plan.refs);
        let row = Row::new(name, ours, "/s").beside("git http-backend", theirs);
        run.report.add(row.at_least_share(5.0));
    }
    let connections = run.plan.connections;
    run.report.note(format!(
        "info/refs over {connections} connections that stay open; git http-backend started for \
         each request by a web server of the bench's own"
    ));
    Ok(())
}

/// `main`, other branches, and two tags of which one is annotated.
async fn tree(count: usize) -> WorkTree {
    let story = Story { commits: 3, files_per_commit: 2, file_bytes: 500, files: 10 };
    let tree = story.told(&git()).await;
    let tip = tree.rev_parse("main").await;
    tree.tag("light", &tip).await;
    tree.annotated_tag("v1", &tip).await;
    for number in 3..count {
        tree.branch(&format!("topic-{number}"), &tip).await;
    }
    tree
}

fn check(version: &str, body: &[u8], refs: &Refs) -> Result<()> {
    let text = String::from_utf8_lossy(body);
    if version == "v2" {
        ensure!(text.contains("version 2"), "not protocol version 2: {text}");
        return Ok(());
    }
    let is_shown = |(name, oid): &(String, String)| text.contains(&format!("{oid} {name}"));
    ensure!(refs.iter().all(is_shown), "not all refs are advertised: {text}");
    Ok(())
}

/// Medians of slices that take turns.
async fn alternate(run: &Run, ours: &Arc<Question>, theirs: &Arc<Question>) -> Result<(f64, f64)> {
    let (connections, time) = (run.plan.connections, run.plan.slice_time);
    let (mut our_rates, mut their_rates) = (Vec::new(), Vec::new());
    for _ in 0..run.plan.slices {
        our_rates.push(ours.per_second(connections, time).await?);
        their_rates.push(theirs.per_second(connections, time).await?);
    }
    Ok((median(our_rates), median(their_rates)))
}

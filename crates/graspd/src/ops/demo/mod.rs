//! `graspd demo`: two servers on this machine, a repository pushed to one of them, and the other catching
//! up by itself. What is shown is what the two say of themselves and of each other.

mod project;
mod servers;
mod story;
mod tell;

use crate::ops::on_runtime;
use crate::ops::progress::Progress;
use crate::ops::terminal::print_note;
use anyhow::{Context, Result};
use project::Project;
use servers::Server;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use story::{Scene, Story};
use tokio::signal::unix::{SignalKind, signal};

/// By then they agree, or something is wrong.
const AGREED_WITHIN: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// Verdicts are due within a day; somebody who watches need not wait for that.
const COMPARE_EVERY: Duration = Duration::from_secs(3);

pub fn run(exit: bool, json: bool) -> Result<ExitCode> {
    on_runtime(async {
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let place = tempfile::Builder::new().prefix("graspd-demo-").tempdir()?;
        tokio::select! {
            ended = play(place.path(), exit, json) => ended,
            _ = interrupt.recv() => Ok(ExitCode::SUCCESS),
            _ = terminate.recv() => Ok(ExitCode::SUCCESS),
        }
    })
}

async fn play(place: &std::path::Path, exit: bool, json: bool) -> Result<ExitCode> {
    let began = Instant::now();
    let bar = Progress::spinner();
    bar.say("starting two servers");
    let first = Server::start(place, "first", None).await?;
    let second = Server::start(place, "second", Some(&first)).await?;
    let servers = [first, second];
    let step = |what: &str| bar.note(&format!("{:5.1} s  {what}", began.elapsed().as_secs_f64()));
    step(&format!("two servers run: {} and {}", servers[0].address, servers[1].address));
    bar.say("making a repository");
    let project = Project::make(place, &servers).await?;
    step("a key and a repository are made");
    project.publish(&servers[0]).await.context("the repository could not be published")?;
    step("first server: announcement and state published, branch pushed");
    let story = watch(&servers, &project, &bar, &step).await;
    bar.finish();
    let telling = tell::Telling { took: began.elapsed(), json, keeps_running: !exit };
    tell::print(&servers, &project, &story, telling)?;
    if !exit {
        print_note("Both keep running. Stop them with Ctrl-C; all of it is deleted then.");
        std::future::pending::<()>().await;
    }
    for server in servers {
        server.stop().await;
    }
    Ok(if story.is_over() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Looks at both until they agree, or the time is over.
async fn watch(
    servers: &[Server; 2],
    project: &Project,
    bar: &Progress,
    step: &impl Fn(&str),
) -> Story {
    let [first, second] = servers;
    let until = Instant::now() + AGREED_WITHIN;
    let mut story = Story::default();
    let mut compared = Instant::now();
    while Instant::now() < until {
        let ours = first.tells(&project.repo).await;
        let theirs = second.tells(&project.repo).await;
        let scene = Scene { first: ours, second: theirs };
        for told in story.handle(&scene, [&first.address, &second.address]) {
            step(told);
        }
        if story.is_over() {
            break;
        }
        bar.say(story.waits_for());
        if story.may_be_compared() && compared.elapsed() > COMPARE_EVERY {
            compared = Instant::now();
            first.compare(&project.repo).await;
            second.compare(&project.repo).await;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    story
}

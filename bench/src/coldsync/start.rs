//! An empty mirror that knows one relay: how long until it serves all that is there, git data
//! included, beside plain clones of the same repositories one after the other.

use super::mirror::{Watch, first_answer};
use super::projects::Projects;
use super::{CLOSED_NET, Run, source};
use crate::git::hosted::git;
use crate::process;
use crate::report::Row;
use crate::stats::number;
use crate::sync::proxy::{Proxy, mega};
use anyhow::Result;
use grasp_testkit::{Home, WorkTree, now};
use std::time::{Duration, Instant};

/// What somebody may set who knows both servers well.
const RAISED: &[(&str, &str)] = &[
    ("NGIT_SYNC_BATCH_WINDOW_MS", "200"),
    ("NGIT_SYNC_HUNT_SYNCED_DELAY_MS", "0"),
    ("NGIT_SYNC_DOMAIN_CONCURRENT", "20"),
    ("NGIT_SYNC_DOMAIN_RATE_LIMIT", "10000"),
    ("NGIT_SYNC_GRASP_RATE_LIMIT", "10000"),
    ("NGIT_SYNC_ADDRESS_RATE_LIMIT", "10000"),
    ("NGIT_SYNC_STARTS_PER_SECOND", "1000"),
    ("NGIT_SYNC_GRASP_STARTS_PER_SECOND", "1000"),
    ("NGIT_SYNC_STARTS_BURST", "1000"),
];

/// What a server logs when another one answers with 429.
const SLOWED_DOWN: &str = "asks to be left alone";

pub(super) async fn measure(run: &mut Run) -> Result<()> {
    let (plan, doors) = (run.plan, [Proxy::open().await?, Proxy::open().await?]);
    let places = [doors[0].address.as_str(), doors[1].address.as_str()];
    let projects = Projects::sign(&plan, places, now()).await?;
    let source = source::start(&run.binary, &projects, &doors[0]).await?;
    let mut expected = Vec::new();
    for project in &projects.all {
        project.is_whole_at(&projects.tree, &source.address).await?;
        expected.push(first_answer(&source.address, &project.repository).answer().await?);
    }
    let stage =
        Stage { projects: &projects, expected: &expected, source: &doors[0], mirror: &doors[1] };
    run.notes_load("plain clones");
    let (cloning, cloned) = stage.clones().await?;
    run.notes_load("the start with all defaults");
    let usual = stage.plays(run, &[]).await?;
    let raised = match plan.with_raised_limits {
        true => {
            run.notes_load("the start with limits raised");
            Some(stage.plays(run, RAISED).await?)
        }
        false => None,
    };

    let (events, repositories) = (projects.events().count(), plan.repositories);
    let floor = format!("{repositories} git clone --mirror");
    let name =
        |how: &str| format!("cold start: {events} events, {repositories} repositories, {how}");
    let report = &mut run.report;
    report.add(
        Row::new(name("all defaults"), usual.took.as_secs_f64(), "s")
            .beside(&floor, cloning.as_secs_f64())
            .below(plan.start_secs_max),
    );
    if let Some(raised) = &raised {
        report.add(
            Row::new(name("limits raised"), raised.took.as_secs_f64(), "s")
                .beside(&floor, cloning.as_secs_f64())
                .below(15.0),
        );
    }
    let per_repository = usual.cpu.as_secs_f64() * 1e3 / number(repositories);
    report.add(Row::new(
        "cold start, processor time of the mirror per repository",
        per_repository,
        "ms",
    ));
    report.add(Row::new(
        "cold start, git requests that were answered with 429",
        usual.refusals,
        "",
    ));
    let size: usize = projects.events().map(|event| event.json().len()).sum();
    report.add(
        Row::new("cold start, received", usual.received, "MB")
            .beside("the events' own size and those clones", number(size) / 1e6 + cloned),
    );
    report.note(format!("all defaults: {}", usual.sentence));
    if let Some(raised) = &raised {
        report.note(format!("limits raised: {}", raised.sentence));
    }
    Ok(())
}

struct Stage<'a> {
    projects: &'a Projects,
    expected: &'a [Vec<u8>],
    source: &'a Proxy,
    mirror: &'a Proxy,
}

struct Outcome {
    took: Duration,
    received: f64,
    /// Of the mirror and its children.
    cpu: Duration,
    refusals: f64,
    sentence: String,
}

impl Stage<'_> {
    async fn plays(&self, run: &Run, more: &[(&str, &str)]) -> Result<Outcome> {
        let relay = self.source.url();
        let own = [
            ("NGIT_DOMAIN_ALIASES", self.mirror.address.as_str()),
            ("NGIT_SYNC_BOOTSTRAP_RELAY_URL", relay.as_str()),
            CLOSED_NET,
        ];
        eprintln!("an empty mirror starts");
        let home = Home::new(&run.binary, &[&own[..], more].concat());
        self.source.count_anew();
        let started = Instant::now();
        let server = home.serve().await;
        self.mirror.leads_to(&server.address);
        let (projects, expected, patience) = (self.projects, self.expected, run.plan.patience);
        let watch = Watch { server: &server, projects, expected, started, patience };
        let milestones = watch.until_complete().await?;
        let received = mega(self.source.bytes())?;
        let cpu = process::family_time(server.pid())?;
        let refusals = server.log().iter().filter(|line| line.contains(SLOWED_DOWN)).count();
        for project in &projects.all {
            project.is_whole_at(&projects.tree, &server.address).await?;
        }
        for project in projects.all.iter().take(run.plan.clones) {
            let url = project.repository.clone_url(&server.address);
            let copy = WorkTree::clone(&git(), &url, &["-q"]).await;
            copy.git(&["fsck", "--strict", "--no-progress"]).await;
        }
        let (took, sentence) = (milestones.end(), milestones.sentence());
        Ok(Outcome { took, received, cpu, refusals: number(refusals), sentence })
    }

    /// What anybody could do instead: time, and bytes that came for it.
    async fn clones(&self) -> Result<(Duration, f64)> {
        eprintln!("{} plain clones", self.projects.all.len());
        self.source.count_anew();
        let started = Instant::now();
        for project in &self.projects.all {
            let url = project.repository.clone_url(&self.source.address);
            WorkTree::clone(&git(), &url, &["-q", "--mirror"]).await;
        }
        Ok((started.elapsed(), mega(self.source.bytes())?))
    }
}

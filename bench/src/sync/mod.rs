//! Sync: the engine alone at full size, real servers that hear of each other's events as they
//! happen, and a server that starts with nothing. Every part starts afresh.

mod crowd;
mod engine;
mod floor;
mod history;
mod listening;
mod live;
mod paced;
mod plan;
mod projects;
pub(crate) mod proxy;
pub(crate) mod shared;
mod talk;

pub(crate) use crowd::Crowd;
pub(crate) use engine::EnginePart;

use crate::cli::{Part, Settings};
use crate::process;
use crate::report::Report;
use crate::server::binary;
use anyhow::Result;
use plan::Plan;
use std::path::PathBuf;

struct Run {
    /// Empty while nothing needs a server.
    binary: PathBuf,
    plan: Plan,
    report: Report,
}

pub(crate) async fn measure(settings: &Settings) -> Result<Report> {
    let plan = Plan::of(settings);
    let report = Report::new(process::machine(), plan.judged);
    let needs_server = settings.wants(Part::Live) || settings.wants(Part::History);
    let binary = if needs_server { binary(settings)? } else { PathBuf::new() };
    let mut run = Run { binary, plan, report };
    for part in [Part::Engine, Part::Live, Part::History] {
        if settings.wants(part) {
            run.part(part).await?;
        }
    }
    Ok(run.report)
}

impl Run {
    async fn part(&mut self, part: Part) -> Result<()> {
        let load = process::load_average();
        self.report.note(format!("load average before {part:?}: {load}"));
        match part {
            Part::Engine => engine::measure(self).await,
            Part::Live => live::measure(self).await,
            Part::History => history::measure(self).await,
            _ => Ok(()),
        }
    }
}

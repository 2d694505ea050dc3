//! The git host under load: real gits as clients, the server in a process of its own, and beside
//! each figure what git does without any server between. Every part starts afresh.

mod askers;
mod branches;
mod concurrent;
pub(crate) mod content;
pub(crate) mod hosted;
pub(crate) mod http;
mod memory;
mod others;
mod plan;
mod refs;
mod transfer;

use crate::cli::{Part, Settings};
use crate::process;
use crate::report::Report;
use crate::server::binary;
use anyhow::Result;
use plan::Plan;
use std::path::PathBuf;

struct Run {
    binary: PathBuf,
    plan: Plan,
    report: Report,
}

pub(crate) async fn measure(settings: &Settings) -> Result<Report> {
    let plan = Plan::of(settings);
    let report = Report::new(process::machine(), plan.judged);
    let mut run = Run { binary: binary(settings)?, report, plan };
    for part in [Part::Refs, Part::Clone, Part::Clones, Part::Push, Part::Branches, Part::Memory] {
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
            Part::Refs => refs::measure(self).await,
            Part::Clone => transfer::clones(self).await,
            Part::Clones => concurrent::measure(self).await,
            Part::Push => transfer::pushes(self).await,
            Part::Branches => branches::measure(self).await,
            Part::Memory => memory::measure(self).await,
            _ => Ok(()),
        }
    }
}

//! Git data that nobody brings: a server that starts with nothing and ends with all of another's
//! repositories, and two servers of which only one is pushed to.

mod mirror;
mod plan;
mod projects;
mod source;
mod start;
mod states;

use crate::cli::{Part, Settings};
use crate::process;
use crate::report::Report;
use crate::server::binary;
use anyhow::Result;
use plan::Plan;
use std::path::PathBuf;

/// Everything here happens on one machine.
const CLOSED_NET: (&str, &str) = ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true");

struct Run {
    binary: PathBuf,
    plan: Plan,
    report: Report,
}

pub(crate) async fn measure(settings: &Settings) -> Result<Report> {
    let plan = Plan::of(settings);
    let report = Report::new(process::machine(), plan.judged);
    let mut run = Run { binary: binary(settings)?, plan, report };
    if settings.wants(Part::Start) {
        start::measure(&mut run).await?;
    }
    if settings.wants(Part::States) {
        run.notes_load("states");
        states::measure(&mut run).await?;
    }
    Ok(run.report)
}

impl Run {
    fn notes_load(&mut self, before: &str) {
        let load = process::load_average();
        self.report.note(format!("load average before {before}: {load}"));
    }
}

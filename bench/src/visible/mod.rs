//! What the server tells about itself: pages and reports at full size, asked for alone and while
//! others publish and ask; and what it costs to know how every repository stands everywhere else.

mod beside;
mod peers;
mod plan;
mod scrape;
mod shown;
mod town;
mod upkeep;
mod visitor;

use crate::cli::{Part, Settings};
use crate::process;
use crate::report::{Report, Row};
use crate::server::binary;
use anyhow::Result;
use grasp_testkit::Server;
use plan::Plan;
use std::path::PathBuf;

/// Everything here happens on one machine.
const CLOSED_NET: (&str, &str) = ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true");
/// The name under which announcements list the server that is measured.
const DOMAIN: &str = "git.example";

/// All others are at one address here, and a day's looks happen within minutes.
const HASTE: &[(&str, &str)] = &[
    ("NGIT_SYNC_DOMAIN_CONCURRENT", "20"),
    ("NGIT_SYNC_DOMAIN_RATE_LIMIT", "1000000"),
    ("NGIT_SYNC_GRASP_RATE_LIMIT", "1000000"),
    ("NGIT_SYNC_ADDRESS_RATE_LIMIT", "1000000"),
];

struct Run {
    binary: PathBuf,
    plan: Plan,
    report: Report,
}

pub(crate) async fn measure(settings: &Settings) -> Result<Report> {
    let plan = Plan::of(settings);
    let report = Report::new(process::machine(), plan.judged);
    let mut run = Run { binary: binary(settings)?, plan, report };
    if settings.wants(Part::Pages) {
        let town = town::Town::found(&run).await?;
        run.notes_load("pages and reports");
        shown::measure(&mut run, &town).await?;
        run.notes_load("pages and reports beside others");
        beside::measure(&mut run, &town).await?;
        let of = format!("{} repositories, after all these requests", run.plan.town.repositories);
        run.adds_memory(&of, &town.server)?;
    }
    if settings.wants(Part::Upkeep) {
        upkeep::measure(&mut run).await?;
    }
    Ok(run.report)
}

impl Run {
    fn notes_load(&mut self, before: &str) {
        let load = process::load_average();
        self.report.note(format!("load average before {before}: {load}"));
    }

    fn adds_memory(&mut self, of: &str, server: &Server) -> Result<()> {
        let (anonymous, resident) =
            (process::anonymous_mb(server.pid())?, process::resident_mb(server.pid())?);
        self.report.add(Row::new(format!("memory, {of}"), anonymous, "MB"));
        self.report.note(format!("memory, {of}: {resident:.1} MB with what is mapped"));
        Ok(())
    }
}

//! `graspd doctor`: looks at everything an operator can get wrong, and says of each thing what is wrong,
//! why that matters and how to put it right. Facts are gathered first; plain functions judge them.

mod facts;
mod judge;
mod local;
mod outside;
mod tell;

pub use facts::{
    Clock, DataRoot, Disk, Facts, Files, KeyFile, Lock, Proxy, Public, Reach, Shown, Trouble,
};
pub use judge::{Check, Outcome, judge};

use crate::config::{Complaint, Config, RawConfig};
use crate::ops::on_runtime;
use anyhow::Result;
use std::process::ExitCode;

pub fn run(raw: &RawConfig, json: bool) -> Result<ExitCode> {
    let checks = match Config::build(raw) {
        Ok(config) => judge(&on_runtime(gather(&config))?),
        Err(complaints) => complaints.iter().map(misconfigured).collect(),
    };
    tell::print(&checks, json)?;
    let is_well = checks.iter().all(|check| !matches!(check.outcome, Outcome::Wrong { .. }));
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

async fn gather(config: &Config) -> Result<Facts> {
    let here = local::gather(config).await;
    let outside = outside::gather(config, &here).await;
    Ok(facts::together(config, here, outside))
}

/// Without a configuration nothing else can be looked at.
fn misconfigured(complaint: &Complaint) -> Check {
    Check {
        name: "configuration",
        outcome: Outcome::Wrong {
            wrong: format!("{} ({}): {}", complaint.setting, complaint.layer, complaint.problem),
            why: "the server does not start with it, and nothing else could be looked at".into(),
            fix: complaint.fix.clone(),
        },
    }
}

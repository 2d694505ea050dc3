//! Who else used the machine while something was measured. What we started and waited for counts as
//! ours, and so does what the server did.

use crate::process::{family_time, machine_times};
use anyhow::Result;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Others {
    server: u32,
    ours: Duration,
    busy: Duration,
    all: Duration,
}

impl Others {
    /// From now on.
    pub(crate) fn since_now(server: u32) -> Result<Self> {
        let (busy, all) = machine_times()?;
        Ok(Self { server, ours: ours(server)?, busy, all })
    }

    /// Their part of the machine's time since then.
    pub(crate) fn percent(&self) -> Result<f64> {
        let (busy, all) = machine_times()?;
        let ours = ours(self.server)?.saturating_sub(self.ours);
        let theirs = busy.saturating_sub(self.busy).saturating_sub(ours);
        Ok(100.0 * theirs.as_secs_f64() / all.saturating_sub(self.all).as_secs_f64())
    }
}

fn ours(server: u32) -> Result<Duration> {
    Ok(family_time(std::process::id())? + family_time(server)?)
}

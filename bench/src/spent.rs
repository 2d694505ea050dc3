//! Where the processor time of a workload went: the server's threads, the generator, and whoever
//! else was on this machine, because a run that was disturbed should say so.

use crate::process;
use crate::report::Report;
use crate::stats::number;
use anyhow::Result;
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Spent {
    server: BTreeMap<String, Duration>,
    generator: BTreeMap<String, Duration>,
    busy: Duration,
    all: Duration,
}

impl Spent {
    pub(crate) fn so_far(server: u32) -> Result<Self> {
        let (busy, all) = process::machine_times()?;
        let server = process::thread_times(server)?;
        Ok(Self { server, generator: process::thread_times(std::process::id())?, busy, all })
    }

    pub(crate) fn since(mut self, before: &Self) -> Self {
        subtract(&mut self.server, &before.server);
        subtract(&mut self.generator, &before.generator);
        self.busy = self.busy.saturating_sub(before.busy);
        self.all = self.all.saturating_sub(before.all);
        self
    }

    pub(crate) fn into_notes(self, events: usize, report: &mut Report) {
        let (server, generator) = (self.server.values().sum(), self.generator.values().sum());
        let others = self.busy.saturating_sub(server + generator);
        let percent = |time: Duration| 100.0 * time.as_secs_f64() / self.all.as_secs_f64();
        report.note(format!(
            "the machine during ingest: server {:.0} %, generator {:.0} %, others {:.0} %, idle {:.0} %",
            percent(server),
            percent(generator),
            percent(others),
            percent(self.all.saturating_sub(self.busy)),
        ));
        let micros = |time: Duration| time.as_secs_f64() * 1e6 / number(events);
        let mut threads: Vec<(f64, &str)> =
            self.server.iter().map(|(name, time)| (micros(*time), name.as_str())).collect();
        threads.sort_by(|a, b| b.0.total_cmp(&a.0));
        let parts = threads.iter().filter(|(us, _)| *us >= 0.5);
        let parts: Vec<String> = parts.map(|(us, name)| format!("{name} {us:.1}")).collect();
        report.note(format!(
            "the server's processor time per event: {:.0} us ({})",
            micros(server),
            parts.join(", ")
        ));
    }
}

fn subtract(from: &mut BTreeMap<String, Duration>, before: &BTreeMap<String, Duration>) {
    for (name, time) in from {
        *time = time.saturating_sub(before.get(name).copied().unwrap_or_default());
    }
}

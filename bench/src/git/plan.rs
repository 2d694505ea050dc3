//! How large everything is. The quick plan runs the same code over tiny sizes.

use super::content::Story;
use crate::cli::Settings;
use crate::plan;
use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Of each of the two sides that take turns.
    pub(crate) runs: usize,
    pub(crate) refs: usize,
    /// For asking for refs.
    pub(crate) connections: usize,
    pub(crate) slices: usize,
    pub(crate) slice_time: Duration,
    pub(crate) cloned: Story,
    /// Cloned by several clients at once.
    pub(crate) shared: Story,
    pub(crate) cloners: usize,
    /// Each commit is one push. No name comes twice, or the client would spend most of the time on
    /// looking for what a file has in common with its older self.
    pub(crate) pushed: Story,
    pub(crate) branches: usize,
    pub(crate) rounds: usize,
    /// Stored events and the questions asked about them while branches are pushed.
    pub(crate) events: plan::Plan,
    pub(crate) askers: usize,
    /// Between two questions of one asker.
    pub(crate) pause: Duration,
    pub(crate) huge: Story,
    pub(crate) bomb_bytes: u64,
    pub(crate) judged: bool,
}

impl Plan {
    pub(crate) fn of(settings: &Settings) -> Self {
        let events = plan::Plan::of(&Settings { quick: true, ..Settings::default() });
        if settings.quick { quick(events) } else { full(events) }
    }
}

fn full(events: plan::Plan) -> Plan {
    let runs = 11;
    Plan {
        runs,
        refs: 10,
        connections: 8,
        slices: 5,
        slice_time: Duration::from_secs(1),
        cloned: Story { commits: 1_000, files_per_commit: 4, file_bytes: 25_000, files: 400 },
        shared: Story { commits: 218, files_per_commit: 4, file_bytes: 25_000, files: 400 },
        cloners: 8,
        pushed: Story { commits: runs, files_per_commit: 80, file_bytes: 250_000, files: 1 << 40 },
        branches: 1_000,
        rounds: 5,
        events: plan::Plan { events: 10_000, ..events },
        askers: 8,
        pause: Duration::from_millis(10),
        huge: Story { commits: 16, files_per_commit: 1, file_bytes: 64 << 20, files: 16 },
        bomb_bytes: 2 << 30,
        judged: true,
    }
}

fn quick(events: plan::Plan) -> Plan {
    let runs = 2;
    Plan {
        runs,
        refs: 10,
        connections: 2,
        slices: 1,
        slice_time: Duration::from_millis(100),
        cloned: Story { commits: 10, files_per_commit: 4, file_bytes: 2_500, files: 20 },
        shared: Story { commits: 10, files_per_commit: 4, file_bytes: 2_500, files: 20 },
        cloners: 2,
        pushed: Story { commits: runs, files_per_commit: 8, file_bytes: 2_500, files: 1 << 40 },
        branches: 20,
        rounds: 1,
        events,
        askers: 2,
        pause: Duration::from_millis(1),
        huge: Story { commits: 2, files_per_commit: 1, file_bytes: 1 << 20, files: 2 },
        bomb_bytes: 8 << 20,
        judged: false,
    }
}

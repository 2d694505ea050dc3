//! How large everything is. The quick plan runs the same code over tiny sizes.

use crate::cli::Settings;
use crate::git::content::Story;
use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) repositories: usize,
    /// What each of them is made of.
    pub(super) story: Story,
    pub(super) roots_per_repository: usize,
    pub(super) replies_per_root: usize,
    /// How many are cloned in the end, as people would.
    pub(super) clones: usize,
    /// Pushes whose arrival elsewhere is waited for.
    pub(super) pushes: usize,
    /// The cap on waiting, which only ends a broken run.
    pub(super) patience: Duration,
    pub(super) judged: bool,
    /// The mirror starts with raised limits, too.
    pub(super) with_raised_limits: bool,
    /// What a start with default settings may take.
    pub(super) start_secs_max: f64,
}

impl Plan {
    pub(super) fn of(settings: &Settings) -> Self {
        let plan = if settings.quick { quick() } else { full() };
        match settings.repositories {
            Some(repositories) => sized(plan, repositories),
            None => plan,
        }
    }

    pub(super) fn roots(&self) -> usize {
        self.repositories * self.roots_per_repository
    }

    pub(super) fn replies(&self) -> usize {
        self.roots() * self.replies_per_root
    }
}

/// Per repository an announcement, a state, 7 threads and 14 replies.
fn sized(plan: Plan, repositories: usize) -> Plan {
    Plan {
        repositories,
        roots_per_repository: 7,
        replies_per_root: 2,
        with_raised_limits: false,
        start_secs_max: 75.0,
        ..plan
    }
}

fn full() -> Plan {
    Plan {
        repositories: 100,
        story: Story { commits: 20, files_per_commit: 3, file_bytes: 2_000, files: 20 },
        roots_per_repository: 20,
        replies_per_root: 2,
        clones: 5,
        pushes: 50,
        patience: Duration::from_secs(300),
        judged: true,
        with_raised_limits: true,
        start_secs_max: 30.0,
    }
}

fn quick() -> Plan {
    Plan {
        repositories: 4,
        story: Story { commits: 2, files_per_commit: 1, file_bytes: 100, files: 2 },
        roots_per_repository: 3,
        replies_per_root: 2,
        clones: 1,
        pushes: 3,
        patience: Duration::from_secs(120),
        judged: false,
        with_raised_limits: true,
        start_secs_max: 30.0,
    }
}

//! How large everything is. The quick plan runs the same code over tiny sizes.

use crate::cli::Settings;
use std::time::Duration;

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) connections: usize,
    /// Events of one connection that may be unanswered.
    pub(crate) in_flight_max: usize,
    /// Stored events before the queries: those ingested and those put there before.
    pub(crate) events: usize,
    pub(crate) repositories: usize,
    pub(crate) authors: usize,
    pub(crate) queries_per_connection: usize,
    pub(crate) lone_publishes: usize,
    pub(crate) subscribers: usize,
    pub(crate) fan_outs: usize,
    pub(crate) idle_connections: usize,
    pub(crate) reconciled: Vec<usize>,
    pub(crate) missing: usize,
    pub(crate) floor_time: Duration,
    /// Tiny sizes say nothing about requirements.
    pub(crate) judged: bool,
}

impl Plan {
    pub(crate) fn of(settings: &Settings) -> Self {
        let mut plan = if settings.quick { quick() } else { full() };
        plan.events = settings.events.unwrap_or(plan.events);
        plan.connections = settings.connections.unwrap_or(plan.connections);
        plan
    }

    /// One in five is there beforehand, as a comment that `#e` can find.
    pub(crate) fn comments(&self) -> usize {
        self.events / 5
    }

    pub(crate) fn issues(&self) -> usize {
        self.events - self.comments()
    }
}

fn full() -> Plan {
    Plan {
        connections: 8,
        in_flight_max: 200,
        events: 50_000,
        repositories: 100,
        authors: 500,
        queries_per_connection: 4_000,
        lone_publishes: 200,
        subscribers: 1_000,
        fan_outs: 100,
        idle_connections: 10_000,
        reconciled: vec![100_000, 1_000_000],
        missing: 1_000,
        floor_time: Duration::from_secs(2),
        judged: true,
    }
}

fn quick() -> Plan {
    Plan {
        connections: 4,
        in_flight_max: 50,
        events: 1_000,
        repositories: 10,
        authors: 20,
        queries_per_connection: 50,
        lone_publishes: 10,
        subscribers: 50,
        fan_outs: 5,
        idle_connections: 100,
        reconciled: vec![2_000, 10_000],
        missing: 100,
        floor_time: Duration::from_millis(100),
        judged: false,
    }
}

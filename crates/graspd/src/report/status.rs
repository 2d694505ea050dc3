//! The server in figures, and what its operator should look at. Every figure is kept, none is counted
//! when asked for.

use super::problems::ProblemReport;
use super::shapes::{Status, Totals};
use super::sight::Sight;
use crate::ledger;
use grasp_core::Kind;
use grasp_store::{Result, Space};

impl Sight<'_> {
    pub fn status(&self) -> Result<Status> {
        let snapshot = self.store.read()?;
        let usage = self.store.usage()?;
        let machines = self.live.totals;
        let hunts = self.live.hunts;
        let totals = Totals {
            announcements: snapshot.events_of_kind(Space::Served, Kind::ANNOUNCEMENT)?,
            events: snapshot.events_in(Space::Served)?,
            held: snapshot.events_in(Space::Held)?,
            wanted: snapshot.events_in(Space::Wanted)?,
            relays: machines.relays,
            relays_connected: machines.connected,
            relays_dead: machines.dead,
            hunts: hunts.families,
            fetching: hunts.running,
        };
        let ledger = ledger::summary(&*snapshot, self.now, self.identity.verdict_age_max)?;
        let problems = self.problems(&*snapshot, &usage)?;
        let problem_details: Vec<ProblemReport> =
            problems.iter().map(|problem| problem.report(self.now)).collect();
        Ok(Status {
            now: self.now,
            server: self.server((usage.used_bytes, usage.budget_bytes)),
            ledger,
            problems: problem_details.iter().map(ProblemReport::sentence).collect(),
            problem_details,
            totals,
            activity: self.live.activity.clone(),
        })
    }
}

//! The server in figures, and what its operator should look at. Every figure is kept, none is counted
//! when asked for.

use super::shapes::{Status, Totals};
use super::sight::Sight;
use crate::ledger;
use grasp_core::Kind;
use grasp_store::{Result, Space, Usage};
use std::time::Duration;

/// From here on a full store is worth a word.
const NEARLY_FULL_PERCENT: u64 = 80;
/// Links take their time after a start.
const SETTLED_AFTER: Duration = Duration::from_secs(60);

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
        Ok(Status {
            now: self.now,
            server: self.server((usage.used_bytes, usage.budget_bytes)),
            ledger: ledger::summary(&*snapshot, self.now, self.identity.verdict_age_max)?,
            problems: self.problems(&totals, &usage),
            totals,
            activity: self.live.activity.clone(),
        })
    }

    fn problems(&self, totals: &Totals, usage: &Usage) -> Vec<String> {
        let mut found = self.live.problems.clone();
        let used_percent = usage.used_bytes * 100 / usage.budget_bytes.max(1);
        if used_percent >= NEARLY_FULL_PERCENT {
            found.push(format!(
                "the event store is {used_percent} % full; raise NGIT_RELAY_DISK_BUDGET_BYTES \
                 before it refuses events"
            ));
        }
        let settled = self.live.uptime.is_some_and(|uptime| uptime > SETTLED_AFTER);
        if settled && totals.relays > 0 && totals.relays_connected == 0 {
            found.push(format!(
                "none of {} relays is connected; see the relays for the reason of each, and \
                 run graspd doctor for this machine",
                totals.relays
            ));
        }
        found
    }
}

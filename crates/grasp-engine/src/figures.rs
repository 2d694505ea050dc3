//! Sync in figures, for operators: what is being dialled, what is not heard live, what is not followed,
//! and how the daily syncs go. Read on demand; its cost grows with the number of groups.

use crate::DailyResult;
use crate::engine::Engine;
use crate::groups::{Group, Layer};
use crate::relay::{Link, Relay};
use grasp_core::Time;
use serde::Serialize;
use std::collections::BTreeSet;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct SyncFigures {
    pub dialling: usize,
    /// Repositories that some linked relay is asked about in turn instead of being heard live.
    pub repositories_in_rotation: usize,
    /// Relays that announcements list and that are not followed; counted up to a bound.
    pub relays_not_followed: usize,
    /// Seconds of which a relay has more events than it gives out.
    pub full_seconds: u64,
    /// Daily syncs under way.
    pub daily_running: usize,
    /// The daily sync that ended last, of whichever relay.
    pub daily_last: Option<DailyResult>,
    /// The next one of a linked relay.
    pub daily_next: Option<Time>,
}

impl Engine {
    /// In wall time.
    pub fn sync_figures(&self) -> SyncFigures {
        let relays = || self.relays.iter().flatten();
        let linked = || relays().filter(|relay| relay.session().is_some());
        let in_rotation: BTreeSet<u32> = relays().flat_map(Relay::repos_in_rotation).collect();
        let others = self.hosts.not_followed().filter(|(it, _)| !self.numbers.contains_key(*it));
        let to_wall = |at: Time| self.wall.offset.to_wall(at);
        let last = relays().filter_map(|relay| relay.daily_last).max_by_key(|it| it.ended);
        SyncFigures {
            dialling: relays().filter(|it| matches!(it.link, Link::Dialling { .. })).count(),
            repositories_in_rotation: in_rotation.len(),
            relays_not_followed: others.count(),
            full_seconds: relays().map(|relay| relay.full_seconds).sum(),
            daily_running: relays().filter(|relay| relay.daily_run.is_some()).count(),
            daily_last: last.map(|it| DailyResult { ended: to_wall(it.ended), ..it }),
            daily_next: linked().filter_map(|relay| relay.daily_at).min().map(to_wall),
        }
    }
}

impl Relay {
    /// Repositories that it is asked about in turn because their groups are not heard live.
    pub(crate) fn repos_in_rotation(&self) -> impl Iterator<Item = u32> + '_ {
        let linked = self.session().is_some();
        let of_repos = |group: &&Group| matches!(group.layer, Layer::Repos | Layer::Waiting);
        let deaf = move |group: &&Group| linked && !group.is_listening();
        let groups = self.groups.iter().filter(of_repos).filter(deaf);
        groups.flat_map(|group| group.members.iter().copied())
    }
}

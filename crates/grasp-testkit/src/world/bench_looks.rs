//! What the engine on the bench did: nothing here changes anything but what was looked at already.

use super::bench::{Asked, Bench, Compared};
use super::names::relay;
use grasp_core::{Filter, RelayUrl, RepoId, Time};
use grasp_engine::{Doubt, News, Record, Sub};
use std::sync::Arc;

impl Bench {
    /// Live subscriptions that are open.
    pub fn listens(&self, name: &str) -> Vec<(Sub, Arc<[Filter]>)> {
        let desk = self.desks.get(&relay(name));
        let listens = desk.map(|desk| desk.listens.iter());
        listens.into_iter().flatten().map(|(sub, filters)| (*sub, filters.clone())).collect()
    }

    /// All filters that are listened to, in a row.
    pub fn live_filters(&self, name: &str) -> Vec<Filter> {
        self.listens(name).iter().flat_map(|(_, filters)| filters.iter().cloned()).collect()
    }

    /// Questions asked since the last call.
    pub fn requests(&mut self, name: &str) -> Vec<Asked> {
        self.desk(name).map(|desk| std::mem::take(&mut desk.new_requests)).unwrap_or_default()
    }

    /// Reconciliations begun since the last call.
    pub fn reconciles(&mut self, name: &str) -> Vec<Compared> {
        self.desk(name).map(|desk| std::mem::take(&mut desk.new_reconciles)).unwrap_or_default()
    }

    /// Subscriptions the engine closed since the last call.
    pub fn closes(&mut self, name: &str) -> Vec<Sub> {
        self.desk(name).map(|desk| std::mem::take(&mut desk.closes)).unwrap_or_default()
    }

    /// Comparisons the engine forgot since the last call, without a word to the relay.
    pub fn abandoned(&mut self, name: &str) -> Vec<Sub> {
        self.desk(name).map(|desk| std::mem::take(&mut desk.abandoned)).unwrap_or_default()
    }

    /// Live subscriptions, questions and reconciliations that are open.
    pub fn open_count(&self, name: &str) -> usize {
        self.desks.get(&relay(name)).map_or(0, |desk| {
            desk.listens.len() + desk.open_requests.len() + desk.open_reconciles.len()
        })
    }

    /// Is a dial under way that nobody answered yet?
    pub fn is_dialled(&self, name: &str) -> bool {
        self.desks.get(&relay(name)).is_some_and(|desk| desk.dialling)
    }

    pub fn is_connected(&self, name: &str) -> bool {
        self.desks.get(&relay(name)).is_some_and(|desk| desk.connected)
    }

    pub fn hangups(&self, name: &str) -> usize {
        self.desks.get(&relay(name)).map_or(0, |desk| desk.hangups)
    }

    pub fn authentications(&self, name: &str) -> usize {
        self.desks.get(&relay(name)).map_or(0, |desk| desk.authentications)
    }

    /// Of which repositories it became known how they stand there, since the last look.
    pub fn standings(&mut self, name: &str) -> Vec<RepoId> {
        self.desk(name).map(|desk| std::mem::take(&mut desk.standings)).unwrap_or_default()
    }

    /// What could not be found out about a relay, since the last look.
    pub fn doubts(&mut self, name: &str) -> Vec<(Time, RepoId, Doubt)> {
        self.desk(name).map(|desk| std::mem::take(&mut desk.doubts)).unwrap_or_default()
    }

    /// Every dial so far.
    pub fn dials(&self) -> &[(Time, RelayUrl)] {
        &self.dials
    }

    pub fn dials_of(&self, name: &str) -> usize {
        let wanted = relay(name);
        self.dials.iter().filter(|(_, relay)| *relay == wanted).count()
    }

    /// News since the last call.
    pub fn news(&mut self) -> Vec<News> {
        std::mem::take(&mut self.news)
    }

    /// What a restart would find about a relay.
    pub fn remembered(&self, name: &str) -> Option<&Record> {
        self.records.get(&relay(name))
    }
}

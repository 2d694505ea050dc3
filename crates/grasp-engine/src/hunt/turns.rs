//! A line in which owners take turns: start-time fair queueing with turns of length one. An owner
//! that leaves right after its turn and comes back finds that turn remembered.

use grasp_core::PubKey;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub(super) struct Line<T> {
    owners: BTreeMap<PubKey, Owner<T>>,
    /// Owners with something ready: by turn, then by who came or was served first.
    order: BTreeSet<(u64, u64, PubKey)>,
    /// Owners with nothing ready, remembered until their turn comes.
    away: BTreeSet<(u64, PubKey)>,
    /// The turn that is being served.
    turn: u64,
}

#[derive(Debug)]
struct Owner<T> {
    turn: u64,
    stamp: u64,
    /// Tickets and their holders.
    ready: BTreeMap<u64, T>,
}

impl<T> Default for Line<T> {
    fn default() -> Self {
        let (owners, order, away) = (BTreeMap::new(), BTreeSet::new(), BTreeSet::new());
        Self { owners, order, away, turn: 0 }
    }
}

impl<T> Line<T> {
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Whose turn it is, some owners being passed over. There are few of those.
    pub(super) fn first(&self, passed_over: impl Fn(&PubKey) -> bool) -> Option<&T> {
        let (_, _, owner) = self.order.iter().find(|(_, _, owner)| !passed_over(owner))?;
        self.owners.get(owner)?.ready.values().next()
    }

    pub(super) fn insert(&mut self, owner: PubKey, ticket: u64, entry: T) {
        let turn = self.turn;
        let fresh = || Owner { turn, stamp: ticket, ready: BTreeMap::new() };
        let it = self.owners.entry(owner).or_insert_with(fresh);
        if it.ready.is_empty() {
            self.away.remove(&(it.turn, owner));
            it.turn = it.turn.max(turn);
            self.order.insert((it.turn, it.stamp, owner));
        }
        it.ready.insert(ticket, entry);
    }

    pub(super) fn remove(&mut self, owner: PubKey, ticket: u64) {
        let Some(it) = self.owners.get_mut(&owner) else { return };
        if it.ready.remove(&ticket).is_some() && it.ready.is_empty() {
            self.order.remove(&(it.turn, it.stamp, owner));
            if it.turn > self.turn {
                self.away.insert((it.turn, owner));
            } else {
                self.owners.remove(&owner);
            }
        }
    }

    /// One of this owner had its turn.
    pub(super) fn charge(&mut self, owner: PubKey, stamp: u64) {
        let turn = self.turn;
        let fresh = || Owner { turn, stamp, ready: BTreeMap::new() };
        let it = self.owners.entry(owner).or_insert_with(fresh);
        let had = it.turn;
        self.order.remove(&(had, it.stamp, owner));
        self.away.remove(&(had, owner));
        (it.turn, it.stamp) = (had + 1, stamp);
        match it.ready.is_empty() {
            true => self.away.insert((it.turn, owner)),
            false => self.order.insert((it.turn, it.stamp, owner)),
        };
        self.turn = turn.max(had);
        while let Some((turn, owner)) = self.away.first().copied()
            && turn <= self.turn
        {
            self.away.remove(&(turn, owner));
            self.owners.remove(&owner);
        }
    }
}

//! Everybody in the world: relays, some of which are servers with an engine. What a crash leaves is
//! in `Durable` and on the shelf; what it takes is in `Mind`.

use super::policy::Facts;
use super::shelf::Shelf;
use super::watch::Watch;
use super::wire::LinkId;
use crate::Behaviour;
use grasp_core::event::Rank;
use grasp_core::{Coordinate, Event, EventId, Filter, RelayUrl, RepoId, Time, WallOffset};
use grasp_engine::{Engine, Peer, Record, Settings, Sub};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) url: RelayUrl,
    pub(crate) behaviour: Behaviour,
    pub(crate) is_up: bool,
    pub(crate) shelf: Shelf,
    pub(crate) arrived: BTreeMap<EventId, Time>,
    pub(crate) sessions: BTreeMap<LinkId, Session>,
    pub(crate) server: Option<Server>,
}

/// A link, from the relay's side.
#[derive(Debug, Default)]
pub(crate) struct Session {
    /// This guest has read our NIP-11.
    pub(crate) is_told: bool,
    pub(crate) open: BTreeMap<Sub, Arc<[Filter]>>,
    pub(crate) asked_at: VecDeque<Time>,
    pub(crate) refused: u32,
    pub(crate) authenticated: bool,
    pub(crate) drips: BTreeMap<Sub, VecDeque<Arc<Event>>>,
}

#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) settings: Settings,
    pub(crate) durable: Durable,
    pub(crate) mind: Option<Mind>,
    pub(crate) boots: u64,
    /// How far its wall clock is ahead of the world's, and how far it was when the server started.
    pub(crate) wall_ahead_ms: i64,
    pub(crate) steady_ahead_ms: i64,
}

#[derive(Debug, Default)]
pub(crate) struct Durable {
    pub(crate) serial: u64,
    /// Of announcements, served and held, and of roots.
    pub(crate) serials: BTreeMap<EventId, u64>,
    pub(crate) held: BTreeMap<RepoId, Arc<Event>>,
    pub(crate) waiting: BTreeMap<EventId, Arc<Event>>,
    /// When a repository's git data is there; before that it is held.
    pub(crate) ready_at: BTreeMap<RepoId, Time>,
    pub(crate) left: BTreeMap<Coordinate, Rank>,
    pub(crate) refused: BTreeSet<EventId>,
    pub(crate) records: BTreeMap<RelayUrl, Record>,
}

#[derive(Debug)]
pub(crate) struct Mind {
    pub(crate) engine: Engine,
    pub(crate) watch: Watch,
    pub(crate) links: BTreeMap<RelayUrl, LinkId>,
    pub(crate) wake_at: Option<Time>,
    /// What it was last told of its wall clock.
    pub(crate) offset: WallOffset,
    /// The last moment it was woken at, and how often.
    pub(crate) woken: (Time, u32),
    pub(crate) fed_at: Time,
    /// Refused for want of a dependency, whole for a short while.
    pub(crate) second_chances: VecDeque<(Time, Arc<Event>)>,
}

impl Durable {
    pub(crate) fn next_serial(&mut self, id: EventId) -> u64 {
        self.serial += 1;
        self.serials.insert(id, self.serial);
        self.serial
    }

    pub(crate) fn serial_of(&self, id: &EventId) -> u64 {
        self.serials.get(id).copied().unwrap_or(0)
    }
}

impl Node {
    pub(crate) fn new(url: RelayUrl, behaviour: Behaviour) -> Self {
        let (shelf, arrived, sessions) = (Shelf::default(), BTreeMap::new(), BTreeMap::new());
        Self { url, behaviour, is_up: true, shelf, arrived, sessions, server: None }
    }

    pub(crate) fn facts(&self) -> Option<Facts<'_>> {
        let Durable { held, waiting, left, .. } = &self.server.as_ref()?.durable;
        Some(Facts { url: &self.url, shelf: &self.shelf, held, waiting, left })
    }

    pub(crate) fn mind(&mut self) -> Option<&mut Mind> {
        self.server.as_mut()?.mind.as_mut()
    }

    /// What its NIP-11 says.
    pub(crate) fn peer(&self) -> Peer {
        let limits = self.behaviour.limits;
        if !limits.told {
            return Peer { grasp: limits.grasp, ..Peer::default() };
        }
        Peer {
            subscriptions_max: Some(limits.subscriptions_max),
            message_bytes_max: Some(limits.message_bytes_max),
            limit_default: Some(limits.page_max),
            grasp: limits.grasp,
            nip77: Some(self.behaviour.negentropy.is_spoken()),
            ..Peer::default()
        }
    }

    /// Ids it neither wants to be sent again nor needs.
    pub(crate) fn knows(&self, id: &EventId) -> bool {
        let durable = self.server.as_ref().map(|server| &server.durable);
        self.keeps(id) || durable.is_some_and(|it| it.refused.contains(id))
    }

    /// Served, or held until its repository is.
    pub(crate) fn keeps(&self, id: &EventId) -> bool {
        let durable = self.server.as_ref().map(|server| &server.durable);
        self.shelf.has(id)
            || durable.is_some_and(|it| {
                it.waiting.contains_key(id) || it.held.values().any(|held| held.id == *id)
            })
    }
}

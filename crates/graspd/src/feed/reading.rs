//! What the feed reads, a page at a time, on a reader's thread: digests of announcements and roots,
//! and how a repository stands. Knows nothing of what was told before.

use grasp_core::nip34::{Announcement, References};
use grasp_core::{
    Coordinate, Event, EventId, Filter, Kind, RelayUrl, RepoId, Service, Timestamp, VerifiedEvent,
};
use grasp_engine::Level;
use grasp_store::{
    Budget, Cursor, EventStore, Hit, Progress, Result, Snapshot, Space, StoredEvent, Want,
};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;

pub(super) const ROOTS: [Kind; 4] =
    [Kind::PATCH, Kind::PULL_REQUEST, Kind::PULL_REQUEST_UPDATE, Kind::ISSUE];
pub(super) const ANNOUNCEMENTS: [Kind; 1] = [Kind::ANNOUNCEMENT];
/// Rows looked at under one snapshot.
const ROWS_MAX: usize = 5_000;
const ROOTS_PAGE: Budget = Budget { steps: 5_000, bytes: 4 << 20 };

/// Which announcements are looked at, and how.
#[derive(Debug, Clone)]
pub(super) struct Eyes {
    pub(super) service: Arc<Service>,
    pub(super) relays_max: usize,
}

/// A repository as it stands. Two versions never share a serial.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) serial: u64,
    pub(super) level: Level,
    pub(super) relays: Vec<RelayUrl>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Root {
    pub(super) id: EventId,
    pub(super) repos: Vec<RepoId>,
    pub(super) serial: u64,
}

#[derive(Debug)]
pub(super) enum Seen {
    Repository(RepoId, Option<Standing>),
    Root(Root),
}

/// One page, in the order of storing.
#[derive(Debug)]
pub(super) struct Page {
    pub(super) seen: Vec<Seen>,
    /// Where the next page begins; `None` once there is none.
    pub(super) next: Option<u64>,
    /// Everything up to here has been looked at.
    pub(super) until: u64,
}

pub(super) fn last_serial(store: &dyn EventStore) -> Result<u64> {
    store.read()?.last_serial()
}

impl Eyes {
    /// Looks at what was stored from one serial to another, or to the newest there is.
    pub(super) fn page(
        &self,
        store: &dyn EventStore,
        serials: RangeInclusive<u64>,
        kinds: &[Kind],
    ) -> Result<Page> {
        let snapshot = store.read()?;
        let (first, last) = (*serials.start(), (*serials.end()).min(snapshot.last_serial()?));
        let mut found = BTreeMap::new();
        let (mut until, mut next) = (last, None);
        // A repository is followed while it waits; a thread that waits is not.
        let held: Vec<Kind> =
            kinds.iter().copied().filter(|it| *it == Kind::ANNOUNCEMENT).collect();
        for (space, kinds) in [(Space::Held, &held[..]), (Space::Served, kinds)] {
            let mut sink =
                |it: StoredEvent| found.extend(digest(&it).map(|seen| (it.serial, seen)));
            let stopped = snapshot.walk(space, first..=until, kinds, ROWS_MAX, &mut sink)?;
            if let Some(at) = stopped {
                (until, next) = (at.saturating_sub(1), Some(at));
            }
        }
        let mut seen = Vec::with_capacity(found.len());
        for (_, digest) in found.into_iter().take_while(|(serial, _)| *serial <= until) {
            seen.push(match digest {
                Digest::Root(root) => Seen::Root(root),
                Digest::Repository(repo) => {
                    let standing = self.standing(&*snapshot, &repo)?;
                    Seen::Repository(repo, standing)
                }
            });
        }
        Ok(Page { seen, next, until })
    }

    /// How these repositories stand now, all of them under one snapshot.
    pub(super) fn look(
        &self,
        store: &dyn EventStore,
        repos: Vec<RepoId>,
    ) -> Result<Vec<(RepoId, Option<Standing>)>> {
        let snapshot = store.read()?;
        let look = |repo: RepoId| {
            let standing = self.standing(&*snapshot, &repo)?;
            Ok((repo, standing))
        };
        repos.into_iter().map(look).collect()
    }

    fn standing(&self, store: &dyn Snapshot, repo: &RepoId) -> Result<Option<Standing>> {
        let coordinate = repo.coordinate();
        for (space, level) in [(Space::Served, Level::Full), (Space::Held, Level::StateOnly)] {
            if let Some(current) = store.current(space, &coordinate)? {
                let relays = self.relays(&current.event);
                return Ok(Some(Standing { serial: current.serial, level, relays }));
            }
        }
        Ok(None)
    }

    /// The relays it names but for ourselves, each once.
    fn relays(&self, event: &VerifiedEvent) -> Vec<RelayUrl> {
        let Ok(announcement) = Announcement::parse(event) else { return Vec::new() };
        let others = announcement.relays.iter().filter(|text| !self.service.names_relay(text));
        let mut relays: Vec<RelayUrl> = Vec::new();
        for relay in others.filter_map(|text| text.parse::<RelayUrl>().ok()) {
            let is_us = self.service.names_relay(relay.as_str());
            if relays.len() < self.relays_max && !is_us && !relays.contains(&relay) {
                relays.push(relay);
            }
        }
        relays
    }
}

/// The stored roots of one repository, on their way.
#[derive(Debug, Clone)]
pub(super) struct RootsOf(Cursor);

impl RootsOf {
    pub(super) fn new(repo: &RepoId, serial_max: u64, now: Timestamp) -> Self {
        let mut filter = Filter { kinds: Some(ROOTS.into()), ..Filter::default() };
        filter.tags.insert(b'a', [repo.coordinate().to_string()].into());
        Self(Cursor::new([filter].into(), Want::Bodies, serial_max, now))
    }

    /// The next few. The walk comes back with them, unless it has ended.
    pub(super) fn page(mut self, store: &dyn EventStore) -> Result<(Vec<Root>, Option<Self>)> {
        let mut roots = Vec::new();
        let mut sink = |hit: Hit<'_>| {
            let event = Event::from_json(hit.json).ok();
            roots.extend(event.and_then(|event| root(&event, hit.serial)));
        };
        let snapshot = store.read()?;
        let progress =
            snapshot.advance(Space::Served, &mut self.0, &mut { ROOTS_PAGE }, &mut sink)?;
        Ok((roots, (progress == Progress::Paused).then_some(self)))
    }
}

enum Digest {
    Repository(RepoId),
    Root(Root),
}

fn digest(it: &StoredEvent) -> Option<Digest> {
    match it.event.kind {
        Kind::ANNOUNCEMENT => it.event.coordinate()?.repo().map(Digest::Repository),
        _ => root(&it.event, it.serial).map(Digest::Root),
    }
}

/// A root names a repository; one that names none is nobody's thread.
fn root(event: &Event, serial: u64) -> Option<Root> {
    let addresses = event.tags_named("a").filter_map(|tag| tag.value()?.parse().ok());
    let mut repos: Vec<RepoId> = Vec::new();
    for repo in addresses.filter_map(|address: Coordinate| address.repo()) {
        if repos.len() < References::LEN_MAX && !repos.contains(&repo) {
            repos.push(repo);
        }
    }
    (!repos.is_empty()).then_some(Root { id: event.id, repos, serial })
}

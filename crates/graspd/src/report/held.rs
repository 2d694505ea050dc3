//! What waits, shaped to be shown.

use super::shapes::{EventReport, Held, Origin, Purgatory, Tried};
use super::sight::{Identity, Sight, place};
use super::{Page, words};
use crate::hunt;
use crate::ingest::{Hall, Mark, Rest, RoleCache, Waiting};
use grasp_core::id::{hex_decode, hex_encode};
use grasp_core::nip34::{Announcement, PullRequest};
use grasp_core::policy::Needs;
use grasp_core::{Coordinate, EventId, Kind, RepoId, Time};
use grasp_engine::hunt::{FamilyId, HuntView};
use grasp_store::{Result, Snapshot, SourceKind, Space, StoredEvent};
use std::collections::BTreeMap;

const MISSING_SHOWN_MAX: usize = 20;
const TRIED_SHOWN_MAX: usize = 20;
const REPOSITORIES_SHOWN_MAX: usize = 10;

/// A part of the hunt: what is looked for now, and how the servers are that are asked.
pub(super) type Hunts = hunt::Snapshot;

/// Turns what was read into what is told.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shaper<'a> {
    pub identity: &'a Identity,
    pub hunts: &'a Hunts,
    pub now: Time,
}

/// What waits, before anybody was asked where it is looked for.
#[derive(Debug)]
pub(super) struct Waits {
    rows: Vec<Waiting>,
    total: u64,
    next: Option<Mark>,
}

/// An event, likewise.
#[derive(Debug)]
pub(super) struct Known {
    standing: &'static str,
    found: StoredEvent,
    waits: Option<Waiting>,
}

impl Sight<'_> {
    pub(super) fn hall<'s>(&'s self, store: &'s dyn Snapshot) -> Hall<'s> {
        let Self { rules, repos, now, .. } = *self;
        let (wanted_for, roles) = (self.identity.wanted_for, RoleCache::default());
        Hall { store, rules, repos, now, wanted_for, roles }
    }

    pub(super) fn shaper<'s>(&'s self, hunts: &'s Hunts) -> Shaper<'s> {
        Shaper { identity: self.identity, hunts, now: self.now }
    }

    pub(super) fn purgatory(&self, page: &Page) -> Result<Waits> {
        let snapshot = self.store.read()?;
        let from = page.after.as_deref().and_then(read_mark).unwrap_or(Mark::Held(Vec::new()));
        let (mut rows, next) = self.hall(&*snapshot).page(&from, page.limit)?;
        rows.iter_mut().for_each(|it| it.shift_to_wall(self.offset));
        let total = snapshot.events_in(Space::Held)? + snapshot.events_in(Space::Wanted)?;
        Ok(Waits { rows, total, next })
    }

    pub(super) fn event(&self, id: &EventId) -> Result<Option<Known>> {
        let snapshot = self.store.read()?;
        for (space, standing) in SPACES {
            if let Some(found) = snapshot.get(space, id)? {
                let mut waits = self.hall(&*snapshot).of(id)?;
                waits.iter_mut().for_each(|it| it.shift_to_wall(self.offset));
                return Ok(Some(Known { standing, found, waits }));
            }
        }
        Ok(None)
    }
}

/// Something about which the hunt has to be asked before it can be told.
pub(super) trait Draft {
    type Told;
    fn waiting(&self) -> impl Iterator<Item = &Waiting>;
    fn told(self, shaper: &Shaper<'_>) -> Self::Told;

    fn families(&self) -> Vec<FamilyId> {
        self.waiting().flat_map(|it| it.families.iter().cloned()).collect()
    }
}

impl Draft for Waits {
    type Told = Purgatory;

    fn waiting(&self) -> impl Iterator<Item = &Waiting> {
        self.rows.iter()
    }

    fn told(self, shaper: &Shaper<'_>) -> Purgatory {
        Purgatory {
            now: shaper.now,
            total: self.total,
            held: shaper.all_held(&self.rows),
            next: self.next.map(|mark| write_mark(&mark)),
        }
    }
}

impl Draft for Known {
    type Told = EventReport;

    fn waiting(&self) -> impl Iterator<Item = &Waiting> {
        self.waits.iter()
    }

    fn told(self, shaper: &Shaper<'_>) -> EventReport {
        EventReport {
            now: shaper.now,
            id: self.found.event.id,
            standing: self.standing.into(),
            origin: shaper.origin(&self.found),
            explain: shaper.all_held(self.waits.as_slice()).pop().map(|it| it.explain),
        }
    }
}

impl Shaper<'_> {
    pub(super) fn all_held(&self, rows: &[Waiting]) -> Vec<Held> {
        let hunts: BTreeMap<&FamilyId, &HuntView> =
            self.hunts.families.iter().map(|it| (&it.family, it)).collect();
        let hunt_for = |it: &Waiting| it.families.iter().find_map(|family| hunts.get(family));
        rows.iter().map(|it| self.held(it, hunt_for(it).copied())).collect()
    }

    fn held(&self, it: &Waiting, hunt: Option<&HuntView>) -> Held {
        let missing = match &it.needs {
            Some(Needs::GitData { missing }) => missing.as_slice(),
            _ => &[],
        };
        let event = &it.found.event;
        Held {
            id: event.id,
            kind: event.kind.0,
            author: event.pubkey.to_npub(),
            repositories: repositories(&it.found),
            phase: phase(it.rest).into(),
            since: it.since,
            until: it.until,
            missing: missing.iter().take(MISSING_SHOWN_MAX).copied().collect(),
            missing_total: missing.len(),
            tried: hunt.map(tried).unwrap_or_default(),
            next_try: hunt.and_then(|it| it.next),
            explain: words::waits(it, hunt, &self.hunts.domains, self.now),
        }
    }

    pub(super) fn origin(&self, found: &StoredEvent) -> Origin {
        let (event, from) = (&found.event, &found.provenance);
        let source = match from.source {
            SourceKind::Direct => "direct",
            SourceKind::Live => "live",
            SourceKind::Backfill => "backfill",
            SourceKind::Daily => "daily",
        };
        Origin {
            id: event.id,
            kind: event.kind.0,
            author: event.pubkey.to_npub(),
            created_at: event.created_at,
            source: source.into(),
            relay: from.relay.as_deref().map(|relay| self.identity.shown_relay(relay)),
            received: from.received,
            released: from.released,
        }
    }
}

/// Where an event may be that others may know of. What is kept aside is nobody's business.
const SPACES: [(Space, &str); 4] = [
    (Space::Served, "served"),
    (Space::Held, "held"),
    (Space::Wanted, "wanted"),
    (Space::History, "replaced"),
];

pub(super) const fn phase(rest: Rest) -> &'static str {
    match rest {
        Rest::Awake => "awake",
        Rest::Asleep => "asleep",
        Rest::Wanted => "wanted",
    }
}

fn tried(hunt: &HuntView) -> Vec<Tried> {
    let tried = |it: &grasp_engine::hunt::SourceView| Tried {
        host: words::host(&it.url),
        at: it.asked,
        said: words::told(it),
    };
    hunt.sources.iter().take(TRIED_SHOWN_MAX).map(tried).collect()
}

fn repositories(found: &StoredEvent) -> Vec<String> {
    let repos: Vec<RepoId> = match found.event.kind {
        Kind::ANNOUNCEMENT => {
            Announcement::parse(&found.event).map(|it| vec![it.repo]).unwrap_or_default()
        }
        Kind::STATE => {
            let identifier = found.event.d().parse().ok();
            let owner = found.event.pubkey;
            identifier.map(|identifier| RepoId { owner, identifier }).into_iter().collect()
        }
        Kind::PULL_REQUEST | Kind::PULL_REQUEST_UPDATE => {
            PullRequest::parse(&found.event).map(|it| it.targets).unwrap_or_default()
        }
        _ => {
            let named = found.event.tags_named("a").filter_map(|tag| tag.value()?.parse().ok());
            named.filter_map(|coordinate: Coordinate| coordinate.repo()).collect()
        }
    };
    repos.iter().take(REPOSITORIES_SHOWN_MAX).map(place).collect()
}

fn write_mark(mark: &Mark) -> String {
    match mark {
        Mark::Held(key) => format!("h{}", hex_encode(key)),
        Mark::Wanted(key) => format!("w{}", hex_encode(key)),
    }
}

pub(super) fn read_mark(text: &str) -> Option<Mark> {
    match text.split_at_checked(1)? {
        ("h", key) => Some(Mark::Held(hex_decode::<40>(key)?.to_vec())),
        ("w", "") => Some(Mark::Wanted(Vec::new())),
        ("w", key) => Some(Mark::Wanted(hex_decode::<32>(key)?.to_vec())),
        _ => None,
    }
}

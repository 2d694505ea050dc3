//! What waits, shaped to be shown.

use super::shapes::{EventReport, Held, Origin, Purgatory, Tried};
use super::sight::{Sight, place};
use super::text::{WORDS_MAX, shown};
use super::{Page, words};
use crate::ingest::{Hall, Mark, Rest, Waiting};
use grasp_core::id::{hex_decode, hex_encode};
use grasp_core::nip34::{Announcement, PullRequest};
use grasp_core::policy::Needs;
use grasp_core::{Coordinate, EventId, Kind, RepoId};
use grasp_engine::hunt::HuntView;
use grasp_store::{Result, Snapshot, SourceKind, Space, StoredEvent};

const MISSING_SHOWN_MAX: usize = 20;
const TRIED_SHOWN_MAX: usize = 20;
const REPOSITORIES_SHOWN_MAX: usize = 10;

impl Sight<'_> {
    pub(super) fn hall<'s>(&'s self, store: &'s dyn Snapshot) -> Hall<'s> {
        let Self { rules, repos, now, .. } = *self;
        Hall { store, rules, repos, now, wanted_for: self.identity.wanted_for }
    }

    pub fn purgatory(&self, page: &Page) -> Result<Purgatory> {
        let snapshot = self.store.read()?;
        let from = page.after.as_deref().and_then(read_mark).unwrap_or(Mark::Held(Vec::new()));
        let (found, next) = self.hall(&*snapshot).page(&from, page.limit)?;
        Ok(Purgatory {
            now: self.now,
            total: snapshot.events_in(Space::Held)? + snapshot.events_in(Space::Wanted)?,
            held: found.iter().map(|it| self.held(it)).collect(),
            next: next.map(|mark| write_mark(&mark)),
        })
    }

    pub fn event(&self, id: &EventId) -> Result<Option<EventReport>> {
        let snapshot = self.store.read()?;
        for (space, standing) in SPACES {
            let Some(found) = snapshot.get(space, id)? else { continue };
            let waits = self.hall(&*snapshot).of(id)?;
            let explain = waits.map(|it| self.held(&it).explain);
            let (now, id, standing, origin) = (self.now, *id, standing.into(), origin(&found));
            return Ok(Some(EventReport { now, id, standing, origin, explain }));
        }
        Ok(None)
    }

    pub(super) fn held(&self, it: &Waiting) -> Held {
        let hunt = self.live.hunt(&it.families);
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
            explain: words::waits(it, hunt, self.live.domains(), self.now),
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
        host: it.url.domain().to_string(),
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

pub(super) fn origin(found: &StoredEvent) -> Origin {
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
        relay: from.relay.as_deref().map(|relay| shown(relay, WORDS_MAX)),
        received: from.received,
        released: from.released,
    }
}

fn write_mark(mark: &Mark) -> String {
    match mark {
        Mark::Held(key) => format!("h{}", hex_encode(key)),
        Mark::Wanted(key) => format!("w{}", hex_encode(key)),
    }
}

fn read_mark(text: &str) -> Option<Mark> {
    match text.split_at_checked(1)? {
        ("h", key) => Some(Mark::Held(hex_decode::<40>(key)?.to_vec())),
        ("w", "") => Some(Mark::Wanted(Vec::new())),
        ("w", key) => Some(Mark::Wanted(hex_decode::<32>(key)?.to_vec())),
        _ => None,
    }
}

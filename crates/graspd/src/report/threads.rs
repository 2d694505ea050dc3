//! Issues, patches and pull requests of one repository: how many, and how many are still open. Counted
//! up to a bound; beyond it the figures say that there is more.

use super::shapes::Threads;
use grasp_core::{Event, EventId, Filter, Kind, PubKey, RepoId, Timestamp};
use grasp_store::{Budget, Cursor, Hit, Progress, Result, Snapshot, Space, Want};
use std::collections::{BTreeMap, BTreeSet};

const ROOTS_MAX: usize = 500;
const STATUSES_MAX: u64 = 2_000;
const STEPS: Budget = Budget { steps: 20_000, bytes: 8 << 20 };

/// Open, merged or resolved, closed, draft.
const STATUSES: [Kind; 4] = [Kind(1630), Kind(1631), Kind(1632), Kind(1633)];

pub(super) fn threads(
    store: &dyn Snapshot,
    repo: &RepoId,
    people: &BTreeSet<PubKey>,
    now: Timestamp,
) -> Result<Threads> {
    let roots = roots(store, repo, now)?;
    let (roots, mut more) = roots;
    more |= roots.len() > ROOTS_MAX;
    let roots: BTreeSet<EventId> = roots.into_iter().take(ROOTS_MAX).collect();
    let mut closed: BTreeMap<EventId, bool> = BTreeMap::new();
    let (statuses, cut) = statuses(store, &roots, now)?;
    more |= cut;
    for status in statuses {
        let named = status.tags_named("e").filter_map(|tag| tag.value()?.parse().ok());
        let Some(root) = { named }.find(|id: &EventId| roots.contains(id)) else { continue };
        let author = store.header(Space::Served, &root)?.map(|it| it.author);
        if people.contains(&status.pubkey) || author == Some(status.pubkey) {
            // The newest comes first.
            let is_closed = matches!(status.kind, Kind(1631) | Kind(1632));
            closed.entry(root).or_insert(is_closed);
        }
    }
    let all = roots.len() as u64;
    let closed = closed.values().filter(|closed| **closed).count() as u64;
    Ok(Threads { open: all - closed, all, more })
}

/// Issues and pull requests, and of each series of patches the first.
fn roots(store: &dyn Snapshot, repo: &RepoId, now: Timestamp) -> Result<(Vec<EventId>, bool)> {
    let of = |kinds: &[Kind]| {
        let mut filter =
            Filter { kinds: Some(kinds.iter().copied().collect()), ..Filter::default() };
        filter.tags.insert(b'a', [repo.coordinate().to_string()].into());
        filter.limit = Some(ROOTS_MAX as u64 + 1);
        filter
    };
    let mut patches = of(&[Kind::PATCH]);
    patches.tags.insert(b't', ["root".into()].into());
    let filters = [of(&[Kind::ISSUE, Kind::PULL_REQUEST]), patches];
    let mut cursor = Cursor::new(filters.into(), Want::Positions, u64::MAX, now);
    let mut found = Vec::new();
    let mut sink = |hit: Hit<'_>| found.push(hit.position.id());
    let progress = store.advance(Space::Served, &mut cursor, &mut { STEPS }, &mut sink)?;
    Ok((found, progress == Progress::Paused))
}

/// The newest first, and whether there may be more.
fn statuses(
    store: &dyn Snapshot,
    roots: &BTreeSet<EventId>,
    now: Timestamp,
) -> Result<(Vec<Event>, bool)> {
    if roots.is_empty() {
        return Ok((Vec::new(), false));
    }
    let mut filter = Filter { kinds: Some(STATUSES.into()), ..Filter::default() };
    filter.tags.insert(b'e', roots.iter().map(EventId::to_string).collect());
    filter.limit = Some(STATUSES_MAX);
    let mut cursor = Cursor::new([filter].into(), Want::Bodies, u64::MAX, now);
    let mut found = Vec::new();
    let mut sink = |hit: Hit<'_>| found.extend(Event::from_json(hit.json).ok());
    let progress = store.advance(Space::Served, &mut cursor, &mut { STEPS }, &mut sink)?;
    let cut = progress == Progress::Paused || found.len() as u64 == STATUSES_MAX;
    Ok((found, cut))
}

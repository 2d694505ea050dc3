//! A small acceptance policy for simulated servers: the shape of the real one, without its care.
//! What it says depends only on the event and on what the server has, so that the order of arrival
//! decides nothing in the end.

use super::shelf::Shelf;
use grasp_core::event::Rank;
use grasp_core::{Coordinate, Event, EventId, Kind, RelayUrl, RepoId, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) const ROOTS: [Kind; 4] =
    [Kind::PATCH, Kind::PULL_REQUEST, Kind::PULL_REQUEST_UPDATE, Kind::ISSUE];
pub(crate) const COMMENT: Kind = Kind(1111);
const AHEAD_SECS_MAX: u64 = 15 * 60;

/// What of a server a verdict depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(crate) url: &'a RelayUrl,
    pub(crate) shelf: &'a Shelf,
    /// Announcements that wait for git data, and what waits with them.
    pub(crate) held: &'a BTreeMap<RepoId, Arc<Event>>,
    pub(crate) waiting: &'a BTreeMap<EventId, Arc<Event>>,
    /// Repositories whose owner left us, with the announcement that said so.
    pub(crate) left: &'a BTreeMap<Coordinate, Rank>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accept,
    /// With its repository, which waits for git data.
    Hold,
    /// An announcement that no longer lists us: its repository goes.
    Leaves,
    /// Its dependency is unknown; it may become right.
    NotYet,
    /// Not here, not now.
    Refuse,
    /// Never.
    Never,
    Known,
}

pub(crate) fn judge(event: &Event, facts: Facts<'_>, now: Time) -> Verdict {
    if event.kind.is_ephemeral() {
        Verdict::Never
    } else if facts.shelf.has(&event.id) || facts.waiting.contains_key(&event.id) {
        Verdict::Known
    } else if event.created_at > now.timestamp().plus_secs(AHEAD_SECS_MAX)
        || facts.shelf.outranks(event)
    {
        Verdict::Refuse
    } else {
        match event.kind {
            Kind::ANNOUNCEMENT => announcement(event, facts),
            Kind::STATE => state(event, facts),
            kind if ROOTS.contains(&kind) => about(event, facts, &["a"]),
            _ => about(event, facts, &["a", "A", "q", "e", "E"]),
        }
    }
}

fn announcement(event: &Event, facts: Facts<'_>) -> Verdict {
    let Some(repo) = repo_of(event) else { return Verdict::Never };
    let at = repo.coordinate();
    let held = facts.held.get(&repo);
    let beaten = held.is_some_and(|held| !event.rank().beats(&held.rank()))
        || facts.left.get(&at).is_some_and(|left| !event.rank().beats(left));
    if beaten {
        return Verdict::Refuse;
    }
    let lists_us = relays_of(event).contains(facts.url);
    if lists_us || families(event.d(), facts).any(|(a, _)| names(a, "maintainers", event)) {
        Verdict::Accept
    } else if held.is_some() || facts.shelf.at(&at).is_some() {
        Verdict::Leaves
    } else {
        Verdict::NotYet
    }
}

fn state(event: &Event, facts: Facts<'_>) -> Verdict {
    let governs = |a: &Event| a.pubkey == event.pubkey || names(a, "maintainers", event);
    let mut served = None;
    for (_, served_here) in families(event.d(), facts).filter(|(a, _)| governs(a)) {
        served = Some(served.unwrap_or(false) || served_here);
    }
    match served {
        Some(true) => Verdict::Accept,
        Some(false) => Verdict::Hold,
        None => Verdict::NotYet,
    }
}

/// Announcements of this name: served, and held.
fn families<'a>(d: &'a str, facts: Facts<'a>) -> impl Iterator<Item = (&'a Arc<Event>, bool)> {
    let served = facts.shelf.of_kind(Kind::ANNOUNCEMENT).map(|event| (event, true));
    let held = facts.held.values().map(|event| (event, false));
    served.chain(held).filter(move |(event, _)| event.d() == d)
}

fn names(announcement: &Event, tag: &str, author: &Event) -> bool {
    let key = author.pubkey.to_hex();
    announcement.tags_named(tag).any(|tag| tag.values().any(|value| value == key))
}

fn about(event: &Event, facts: Facts<'_>, letters: &[&str]) -> Verdict {
    let mut verdict = Verdict::Refuse;
    for tag in event.tags.iter().filter(|tag| letters.contains(&tag.name())) {
        let Some(value) = tag.value() else { continue };
        if let Ok(id) = value.parse::<EventId>() {
            if facts.shelf.has(&id) {
                return Verdict::Accept;
            }
            if facts.waiting.contains_key(&id) {
                verdict = Verdict::Hold;
            }
        } else if let Ok(at) = value.parse::<Coordinate>() {
            if facts.shelf.at(&at).is_some() {
                return Verdict::Accept;
            }
            if at.repo().is_some_and(|repo| facts.held.contains_key(&repo)) {
                verdict = Verdict::Hold;
            }
        }
    }
    verdict
}

pub(crate) fn repo_of(announcement: &Event) -> Option<RepoId> {
    announcement.coordinate()?.repo()
}

/// As the announcement lists them.
pub(crate) fn relays_of(announcement: &Event) -> Vec<RelayUrl> {
    let listed = announcement.tags_named("relays").flat_map(|tag| tag.values());
    listed.filter_map(|url| url.parse().ok()).collect()
}

/// The repositories a root belongs to.
pub(crate) fn repos_of(root: &Event) -> Vec<RepoId> {
    let named = root.tags_named("a").filter_map(|tag| tag.value()?.parse::<Coordinate>().ok());
    named.filter_map(|at| at.repo()).collect()
}

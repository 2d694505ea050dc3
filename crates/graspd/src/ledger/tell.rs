//! What is told of the ledger: every server an announcement names with its verdict and the reason, and
//! sums over all, over a repository, over a relay. Reads rows; asks nobody.

use super::row::{AHEAD_MAX, Counts, Look, Peer, RefCounts, Seen, Why};
use super::shelf::{self, Sums, Tally};
use super::words::Clauses;
use super::{ADDRESSES_MAX, place};
use crate::ingest::followed_state;
use crate::report::text::{WORDS_MAX, shown};
use crate::report::{EventsThere, Ledger, Mirror, RefsThere, Verdict, own_relay};
use grasp_core::nip34::Announcement;
use grasp_core::{CloneUrl, Filter, RelayUrl, RepoId, Service, Time};
use grasp_store::{Budget, Cursor, Hit, Result, Snapshot, Space, StoredEvent, Want};
use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

/// What the rows of one repository are read and judged with.
#[derive(Clone, Copy)]
pub struct LedgerView<'a> {
    pub store: &'a dyn Snapshot,
    pub service: &'a Service,
    pub now: Time,
    pub age_max: Duration,
}

impl fmt::Debug for LedgerView<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LedgerView").field("now", &self.now).finish_non_exhaustive()
    }
}

impl LedgerView<'_> {
    /// Every other server that an announcement names, in its order, as the repository stands there.
    pub fn mirrors(&self, announcement: &Announcement, repo: &RepoId) -> Result<Vec<Mirror>> {
        let changed = last_change(self.store, repo, self.now)?;
        let servers = places(self.service, announcement, repo);
        servers.into_iter().map(|there| self.mirror(there, repo, changed)).collect()
    }

    /// The same mirrors, counted by verdict.
    pub fn of_repo(&self, announcement: &Announcement, repo: &RepoId) -> Result<Ledger> {
        let (mut tally, mut oldest_secs) = (Tally::default(), 0);
        for mirror in self.mirrors(announcement, repo)? {
            *tally.of(mirror.verdict) += 1;
            let age = mirror.at.map_or(0, |at| self.now.since(at).as_secs());
            oldest_secs = oldest_secs.max(age);
        }
        Ok(ledger(tally, oldest_secs, self.age_max))
    }

    fn mirror(&self, there: There, repo: &RepoId, changed: LastChange) -> Result<Mirror> {
        let There { place, relay, clone } = there;
        let mut sides = Vec::new();
        let peers = [relay.clone().map(Peer::Relay), clone.clone().map(Peer::Git)];
        for peer in peers.into_iter().flatten() {
            sides.push((shelf::of(self.store, &peer, repo)?, peer));
        }
        let verdict_of = |look: &Look, peer: &Peer| match changed.checked_for(look, peer, self.now)
        {
            Some(_) => Verdict::Checking,
            None => look.verdict_at(self.now, self.age_max),
        };
        let mut clauses = Clauses::default();
        for (look, peer) in &sides {
            self.explain(&mut clauses, look.as_ref(), peer, changed);
        }
        if let Some(target) = never_told(&sides) {
            clauses.never_told(&target, &own_relay(self.service));
        }
        let verdicts = sides.iter().map(|(look, peer)| match look {
            Some(look) => (verdict_of(look, peer), Some(since(look, self.now, self.age_max))),
            None => (Verdict::Unverifiable, None),
        });
        let (verdict, since) = verdicts
            .min_by_key(|(verdict, _)| weight(*verdict))
            .unwrap_or((Verdict::Unverifiable, None));
        let looks = || sides.iter().filter_map(|(look, _)| look.as_ref());
        Ok(Mirror {
            place: shown(&place, WORDS_MAX),
            relay: relay.map(|url| url.to_string()),
            clone: clone.map(|url| url.to_string()),
            verdict,
            because: clauses.sentence(),
            at: looks().map(|look| look.at).max(),
            since,
            events: looks().find_map(events_there),
            refs: looks().find_map(refs_there),
        })
    }

    fn explain(
        &self,
        clauses: &mut Clauses,
        look: Option<&Look>,
        peer: &Peer,
        changed: LastChange,
    ) {
        let what = if matches!(peer, Peer::Relay(_)) { "events" } else { "refs" };
        let Some(look) = look else { return clauses.unseen(what) };
        let is_old = look.is_old(self.now, self.age_max);
        match changed.checked_for(look, peer, self.now) {
            Some(at) => clauses.checking(what, at, self.now),
            // What stands in the way is no less true for being older.
            _ if is_old && !matches!(look.seen, Seen::Nothing(_)) => {
                clauses.old(what, look.at, self.now);
            }
            _ => clauses.add(&look.seen, self.now),
        }
    }
}

/// After a change the refs of a mirror are looked at within 30 s, its events within a minute if it
/// lacked some; and a look may wait for its turn.
const CHECKED_WITHIN: Duration = Duration::from_secs(90);

/// When the state that a repository follows came to be served, and when the newest event about it did.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LastChange {
    state: Option<Time>,
    event: Option<Time>,
}

impl LastChange {
    /// The change after which this side of a mirror is about to be looked at again, if it was last
    /// seen before it. Refs are looked at again after a state, events after any event. A relay that
    /// had all events is told of new ones and compared at its own time. A mirror that has lacked
    /// something for longer than a check takes lacks it still.
    pub(super) fn checked_for(&self, look: &Look, peer: &Peer, now: Time) -> Option<Time> {
        let changed = match peer {
            Peer::Git(_) => self.state?,
            Peer::Relay(_) => self.state.max(self.event)?,
        };
        let is_due = match look.seen.verdict() {
            Verdict::TheyLack => now.since(look.since) < CHECKED_WITHIN,
            Verdict::Equal => matches!(peer, Peer::Git(_)),
            Verdict::WeLack | Verdict::Unverifiable | Verdict::Checking => false,
        };
        // A change in the future was dated by a clock that has been set right since.
        let is_recent = changed <= now && now.since(changed) < CHECKED_WITHIN;
        (is_due && is_recent && look.at < changed).then_some(changed)
    }
}

pub(super) fn last_change(store: &dyn Snapshot, repo: &RepoId, now: Time) -> Result<LastChange> {
    let served = |it: &StoredEvent| it.provenance.released.unwrap_or(it.provenance.received);
    let state = followed_state(store, repo)?.map(|it| served(&it));
    let mut filter = Filter { limit: Some(1), ..Filter::default() };
    filter.tags.insert(b'a', [repo.coordinate().to_string()].into());
    let mut cursor = Cursor::new([filter].into(), Want::Positions, u64::MAX, now.timestamp());
    let mut newest = None;
    let mut sink = |hit: Hit<'_>| newest = newest.or(Some(hit.position.id()));
    store.advance(Space::Served, &mut cursor, &mut { ONE }, &mut sink)?;
    let event = match newest {
        Some(id) => store.get(Space::Served, &id)?.map(|it| served(&it)),
        None => None,
    };
    Ok(LastChange { state, event })
}

const ONE: Budget = Budget { steps: 100, bytes: usize::MAX };

/// A GRASP server that has no event of the repository, or says that it has no such repository: where
/// the announcement can be published.
fn never_told(sides: &[(Option<Look>, Peer)]) -> Option<String> {
    let is_grasp = |peer: &Peer| matches!(peer, Peer::Git(url) if url.has_grasp_form());
    if !sides.iter().any(|(_, peer)| is_grasp(peer)) {
        return None;
    }
    let mut target = None;
    for (look, peer) in sides {
        match (look.as_ref().map(|look| &look.seen), peer) {
            (Some(Seen::Events(Counts { both: 0, they_lack: 1.., .. })), Peer::Relay(relay)) => {
                return Some(relay.to_string());
            }
            (Some(Seen::Nothing(Why::NotFound)), Peer::Git(url)) => {
                target = Some(url.host_and_port());
            }
            // It has some events, so it knows the repository.
            (Some(Seen::Events(_)), Peer::Relay(_)) => return None,
            _ => {}
        }
    }
    target
}

/// Over everything.
pub fn summary(store: &dyn Snapshot, now: Time, age_max: Duration) -> Result<Ledger> {
    let (tally, oldest) = shelf::tally_at(store, &fresh(now, age_max))?;
    let oldest_secs = oldest.map_or(0, |at| now.since(at).as_secs());
    Ok(ledger(tally, oldest_secs, age_max))
}

/// Over all repositories at one relay, and how much of what we serve of them it had when they were
/// last compared.
pub fn of_relay(
    store: &dyn Snapshot,
    relay: &RelayUrl,
    now: Time,
    age_max: Duration,
) -> Result<(Ledger, Option<u16>)> {
    let peer = Peer::Relay(relay.clone());
    let (sums, oldest) = shelf::sums_at(store, &peer, &fresh(now, age_max))?;
    let oldest_secs = oldest.map_or(0, |at| now.since(at).as_secs());
    let Sums { tally, events_both: both, events_lacking: they_lack } = sums;
    let counts = Counts { both, they_lack, ..Counts::default() };
    let coverage = (both + they_lack > 0).then(|| counts.coverage_permille());
    Ok((ledger(tally, oldest_secs, age_max), coverage))
}

/// What was looked at before this says nothing any more, and what was after it never did.
pub(super) fn fresh(now: Time, age_max: Duration) -> RangeInclusive<Time> {
    let age_ms = u64::try_from(age_max.as_millis()).unwrap_or(u64::MAX);
    Time(now.0.saturating_sub(age_ms))..=now.plus(AHEAD_MAX)
}

fn ledger(tally: Tally, oldest_secs: u64, age_max: Duration) -> Ledger {
    let Tally { equal, we_lack, they_lack, unverifiable, checking } = tally;
    let age_max_secs = age_max.as_secs();
    Ledger { equal, we_lack, they_lack, unverifiable, checking, oldest_secs, age_max_secs }
}

/// One server, with its relay and its clone URL as far as they are named.
#[derive(Debug, Default)]
struct There {
    place: String,
    relay: Option<RelayUrl>,
    clone: Option<CloneUrl>,
}

/// A relay and a clone address of one GRASP service, or of one host and port, are one server.
fn places(service: &Service, announcement: &Announcement, repo: &RepoId) -> Vec<There> {
    let mut found: Vec<There> = Vec::new();
    for relay in relays(service, announcement) {
        let place = place::of_relay(&relay);
        found.push(There { place, relay: Some(relay), clone: None });
    }
    let (mut rest, clones) = (Vec::new(), clones(service, announcement, repo));
    for clone in clones {
        let place = place::of_clone(&clone);
        match found.iter_mut().find(|it| it.place == place && it.clone.is_none()) {
            Some(there) => there.clone = Some(clone),
            None => rest.push(clone),
        }
    }
    for clone in rest {
        let server = place::server(&Peer::Git(clone.clone()));
        let is_there = |it: &&mut There| {
            let relay = it.relay.clone().filter(|_| it.clone.is_none());
            relay.is_some_and(|relay| place::server(&Peer::Relay(relay)) == server)
        };
        match found.iter_mut().find(is_there) {
            Some(there) => (there.place, there.clone) = (server, Some(clone)),
            None => {
                let place = place::of_clone(&clone);
                found.push(There { place, relay: None, clone: Some(clone) });
            }
        }
    }
    found
}

/// The relays that are followed of an announcement, ourselves excluded, each once.
pub(super) fn relays(service: &Service, announcement: &Announcement) -> Vec<RelayUrl> {
    let parsed = announcement.relays.iter().filter_map(|text| text.parse::<RelayUrl>().ok());
    each_once(parsed.filter(|relay| !service.names_relay(relay.as_str())))
}

/// The same for git.
pub(super) fn clones(
    service: &Service,
    announcement: &Announcement,
    repo: &RepoId,
) -> Vec<CloneUrl> {
    let is_us = |url: &CloneUrl| {
        service.names_clone(url.as_str(), &repo.owner, &repo.identifier)
            || service.is_here(url.as_str())
    };
    let parsed = announcement.clone.iter().filter_map(|text| text.parse::<CloneUrl>().ok());
    each_once(parsed.filter(|url| !is_us(url)))
}

fn each_once<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for it in all {
        if found.len() < ADDRESSES_MAX && !found.contains(&it) {
            found.push(it);
        }
    }
    found
}

/// Since when it is too old, if it is.
fn since(look: &Look, now: Time, age_max: Duration) -> Time {
    match look.is_old(now, age_max) && look.seen.verdict() != Verdict::Unverifiable {
        true if look.is_ahead(now) => now,
        true => look.at.plus(age_max),
        false => look.since.min(now),
    }
}

/// What concerns us most comes first.
fn weight(verdict: Verdict) -> u8 {
    match verdict {
        Verdict::WeLack => 0,
        Verdict::TheyLack => 1,
        Verdict::Checking => 2,
        Verdict::Unverifiable => 3,
        Verdict::Equal => 4,
    }
}

fn events_there(look: &Look) -> Option<EventsThere> {
    let Seen::Events(counts) = &look.seen else { return None };
    let Counts { both, they_lack, we_lack, no_room, fingerprint } = *counts;
    Some(EventsThere {
        at: look.at,
        both,
        they_lack,
        we_lack,
        no_room,
        coverage_permille: counts.coverage_permille(),
        fingerprint: fingerprint.to_string(),
    })
}

fn refs_there(look: &Look) -> Option<RefsThere> {
    let Seen::Refs(RefCounts { equal, they_lack, we_lack, unsigned, unknown, objects, .. }) =
        look.seen
    else {
        return None;
    };
    Some(RefsThere { at: look.at, equal, they_lack, we_lack, unsigned, unknown, objects })
}

#[cfg(test)]
mod tests;

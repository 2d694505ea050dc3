//! What is told of the ledger: every place an announcement names with its verdict and the reason, and
//! sums over all, over a repository, over a relay. Reads rows; asks nobody.

use super::row::{AHEAD_MAX, Counts, Look, Peer, RefCounts, Seen};
use super::shelf::{self, Sums, Tally};
use super::words::Clauses;
use super::{ADDRESSES_MAX, place};
use crate::report::text::{WORDS_MAX, shown};
use crate::report::{EventsThere, Ledger, Mirror, RefsThere, Verdict};
use grasp_core::nip34::Announcement;
use grasp_core::{CloneUrl, RelayUrl, RepoId, Service, Time};
use grasp_store::{Result, Snapshot};
use std::ops::RangeInclusive;
use std::time::Duration;

/// Rows of one repository that are summed up.
const ROWS_SUMMED_MAX: usize = 20_000;

/// Every other place that an announcement names, in its order, as the repository stands there.
pub fn mirrors(
    store: &dyn Snapshot,
    service: &Service,
    announcement: &Announcement,
    repo: &RepoId,
    now: Time,
    age_max: Duration,
) -> Result<Vec<Mirror>> {
    let mut told = Vec::new();
    for there in places(service, announcement, repo) {
        told.push(mirror(store, there, repo, now, age_max)?);
    }
    Ok(told)
}

/// Over everything.
pub fn summary(store: &dyn Snapshot, now: Time, age_max: Duration) -> Result<Ledger> {
    let (tally, oldest) = shelf::tally_at(store, &fresh(now, age_max))?;
    let oldest_secs = oldest.map_or(0, |at| now.since(at).as_secs());
    Ok(ledger(tally, oldest_secs, age_max))
}

/// Over all addresses of one repository.
pub fn of_repo(
    store: &dyn Snapshot,
    repo: &RepoId,
    now: Time,
    age_max: Duration,
) -> Result<Ledger> {
    let rows = shelf::of_repo(store, repo, ROWS_SUMMED_MAX)?;
    Ok(sum(rows.iter().map(|row| &row.look), now, age_max))
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
fn fresh(now: Time, age_max: Duration) -> RangeInclusive<Time> {
    let age_ms = u64::try_from(age_max.as_millis()).unwrap_or(u64::MAX);
    Time(now.0.saturating_sub(age_ms))..=now.plus(AHEAD_MAX)
}

fn sum<'a>(looks: impl Iterator<Item = &'a Look>, now: Time, age_max: Duration) -> Ledger {
    let (mut tally, mut oldest_secs) = (Tally::default(), 0);
    for look in looks {
        *tally.of(look.verdict_at(now, age_max)) += 1;
        oldest_secs = oldest_secs.max(now.since(look.at).as_secs());
    }
    ledger(tally, oldest_secs, age_max)
}

fn ledger(tally: Tally, oldest_secs: u64, age_max: Duration) -> Ledger {
    let Tally { equal, we_lack, they_lack, unverifiable } = tally;
    let age_max_secs = age_max.as_secs();
    Ledger { equal, we_lack, they_lack, unverifiable, oldest_secs, age_max_secs }
}

/// One place, with whatever of it is named.
#[derive(Debug, Default)]
struct There {
    place: String,
    relay: Option<RelayUrl>,
    clone: Option<CloneUrl>,
}

fn places(service: &Service, announcement: &Announcement, repo: &RepoId) -> Vec<There> {
    let mut found: Vec<There> = Vec::new();
    for relay in relays(service, announcement) {
        let place = place::of_relay(&relay);
        found.push(There { place, relay: Some(relay), clone: None });
    }
    for clone in clones(service, announcement, repo) {
        let place = place::of_clone(&clone);
        match found.iter_mut().find(|it| it.place == place && it.clone.is_none()) {
            Some(there) => there.clone = Some(clone),
            None => found.push(There { place, relay: None, clone: Some(clone) }),
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

fn mirror(
    store: &dyn Snapshot,
    there: There,
    repo: &RepoId,
    now: Time,
    age_max: Duration,
) -> Result<Mirror> {
    let There { place, relay, clone } = there;
    let of = |peer: Option<Peer>| match peer {
        Some(peer) => shelf::of(store, &peer, repo).map(|look| Some((look, peer))),
        None => Ok(None),
    };
    let mut sides = Vec::new();
    sides.extend(of(relay.clone().map(Peer::Relay))?);
    sides.extend(of(clone.clone().map(Peer::Git))?);
    let mut clauses = Clauses::default();
    for (look, peer) in &sides {
        let what = if matches!(peer, Peer::Relay(_)) { "events" } else { "refs" };
        match look {
            None => clauses.unseen(what),
            // What stands in the way is no less true for being older.
            Some(look) if look.is_old(now, age_max) && !matches!(look.seen, Seen::Nothing(_)) => {
                clauses.old(what, look.at, now);
            }
            Some(look) => clauses.add(&look.seen, now),
        }
    }
    let verdicts = sides.iter().map(|(look, _)| match look {
        Some(look) => (look.verdict_at(now, age_max), Some(since(look, now, age_max))),
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
        Verdict::Unverifiable => 2,
        Verdict::Equal => 3,
    }
}

fn events_there(look: &Look) -> Option<EventsThere> {
    let Seen::Events(counts) = &look.seen else { return None };
    let Counts { both, they_lack, we_lack, fingerprint } = *counts;
    Some(EventsThere {
        at: look.at,
        both,
        they_lack,
        we_lack,
        coverage_permille: counts.coverage_permille(),
        fingerprint: fingerprint.to_string(),
    })
}

fn refs_there(look: &Look) -> Option<RefsThere> {
    let Seen::Refs(RefCounts { equal, they_lack, we_lack, unsigned, objects, .. }) = look.seen
    else {
        return None;
    };
    Some(RefsThere { at: look.at, equal, they_lack, we_lack, unsigned, objects })
}

//! Which pull requests may have a ref in which repository, with who brought them. One row for each, and
//! counters beside them in the same transaction. A row goes with its event, or when the repository's
//! people close the pull request; nothing else takes it away.

use grasp_core::held_share::HeldSource;
use grasp_core::nip34::{Announcement, PullRequest};
use grasp_core::proposal_share::{ProposalLimits, ProposalUse};
use grasp_core::terms::Term;
use grasp_core::{Event, EventId, Kind, Oid, PubKey, RelayUrl, RepoId};
use grasp_store::{
    Provenance, Result, Shelf, Snapshot, SourceKind, Space, StoreError, StoredEvent, Transaction,
};
use serde::{Deserialize, Serialize};

const SHELF: Shelf = Shelf::Claims;
/// The orders, by the first byte of their keys.
const BY_EVENT: u8 = b'e';
const ALL: u8 = b'n';
const BY_AUTHOR: u8 = b'a';
const BY_TIP: u8 = b't';
const BY_SOURCE: u8 = b's';
/// Is there once every pull request that was here before has its row.
const COMPLETE: &[u8] = b"v";

pub(super) const PULL_REQUESTS: [Kind; 2] = [Kind::PULL_REQUEST, Kind::PULL_REQUEST_UPDATE];

/// A pull request's right to a ref.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RefClaim {
    pub(super) author: PubKey,
    pub(super) tip: Oid,
    /// The address or the relay that brought it first; none for a client on this machine.
    pub(super) source: Option<HeldSource>,
}

pub(super) fn has(store: &dyn Snapshot, repo: &RepoId, id: &EventId) -> Result<bool> {
    Ok(store.note(SHELF, &by_event(repo, id))?.is_some())
}

/// What is used in a repository by everyone, and by those like this one.
pub(super) fn used(store: &dyn Snapshot, repo: &RepoId, claim: &RefClaim) -> Result<ProposalUse> {
    let [all, author, tip] = counters(repo, claim);
    let of_source = match &claim.source {
        Some(source) => number(store, &by_source(repo, source))?,
        None => 0,
    };
    Ok(ProposalUse {
        all: number(store, &all)?,
        of_author: number(store, &author)?,
        of_source,
        of_tip: number(store, &tip)?,
    })
}

pub(super) fn put(
    txn: &mut dyn Transaction,
    repo: &RepoId,
    id: &EventId,
    claim: &RefClaim,
) -> Result<()> {
    release(txn, repo, id)?;
    let note = serde_json::to_vec(claim).map_err(|_| StoreError::Damaged("unwritable claim"))?;
    txn.put_note(SHELF, &by_event(repo, id), &note)?;
    count(txn, repo, claim, |number| number.saturating_add(1))
}

/// True if there was something to release.
pub(super) fn release(txn: &mut dyn Transaction, repo: &RepoId, id: &EventId) -> Result<bool> {
    let Some(note) = txn.note(SHELF, &by_event(repo, id))? else { return Ok(false) };
    let claim = serde_json::from_slice(&note);
    let claim: RefClaim = claim.map_err(|_| StoreError::Damaged("unreadable claim"))?;
    txn.remove_note(SHELF, &by_event(repo, id))?;
    count(txn, repo, &claim, |number| number.saturating_sub(1))?;
    Ok(true)
}

/// The event is gone, and with it its right to refs.
pub(super) fn release_all(txn: &mut dyn Transaction, event: &Event) -> Result<()> {
    if !PULL_REQUESTS.contains(&event.kind) {
        return Ok(());
    }
    let targets = PullRequest::parse(event).map(|it| it.targets).unwrap_or_default();
    targets.iter().try_for_each(|repo| release(txn, repo, &event.id).map(drop))
}

/// Gives a stored pull request its right in all repositories it is for, also above their limits.
pub(super) fn put_all(txn: &mut dyn Transaction, event: &Event, from: &Provenance) -> Result<()> {
    let Ok(PullRequest { targets, tip: Some(tip), .. }) = PullRequest::parse(event) else {
        return Ok(());
    };
    let claim = RefClaim { author: event.pubkey, tip, source: relay_of(from) };
    targets.iter().try_for_each(|repo| put(txn, repo, &event.id, &claim))
}

/// The same as far as there is room; false if there is room in none of them.
pub(super) fn put_within(
    txn: &mut dyn Transaction,
    event: &Event,
    from: &Provenance,
) -> Result<bool> {
    let Ok(PullRequest { targets, tip: Some(tip), .. }) = PullRequest::parse(event) else {
        return Ok(false);
    };
    let claim = RefClaim { author: event.pubkey, tip, source: relay_of(from) };
    let mut has_room = false;
    for repo in &targets {
        let used = used(txn, repo, &claim)?;
        let source = limited_source(txn, repo, &claim)?;
        if ProposalLimits::default().full(&used, source).is_none() {
            put(txn, repo, &event.id, &claim)?;
            has_room = true;
        }
    }
    Ok(has_room)
}

/// The source whose share is limited. A relay that the repository's served announcement names has a
/// copy of all its pull requests, and no share.
pub(super) fn limited_source<'a>(
    store: &dyn Snapshot,
    repo: &RepoId,
    claim: &'a RefClaim,
) -> Result<Option<&'a HeldSource>> {
    let Some(HeldSource::Relay(relay)) = &claim.source else { return Ok(claim.source.as_ref()) };
    let served = store.current(Space::Served, &repo.coordinate())?;
    let announcement = served.and_then(|it| Announcement::parse(&it.event).ok());
    let is_it = |text: &String| text.parse::<RelayUrl>().is_ok_and(|it| it.as_str() == relay);
    let is_named = announcement.is_some_and(|it| it.relays.iter().any(is_it));
    Ok(claim.source.as_ref().filter(|_| !is_named))
}

/// The relay that brought an event.
pub(super) fn relay_of(from: &Provenance) -> Option<HeldSource> {
    match from.source {
        SourceKind::Direct => None,
        SourceKind::Live | SourceKind::Backfill | SourceKind::Daily => {
            from.relay.clone().map(HeldSource::Relay)
        }
    }
}

/// Pull requests that came before there were claims keep their refs. Done once.
pub(super) fn complete(txn: &mut dyn Transaction) -> Result<()> {
    if txn.note(SHELF, COMPLETE)?.is_some() {
        return Ok(());
    }
    for space in [Space::Served, Space::Held] {
        let mut found: Vec<StoredEvent> = Vec::new();
        txn.walk(space, 0..=u64::MAX, &PULL_REQUESTS, usize::MAX, &mut |it| found.push(it))?;
        for it in found {
            put_all(txn, &it.event, &it.provenance)?;
        }
    }
    txn.put_note(SHELF, COMPLETE, &[])
}

fn count(
    txn: &mut dyn Transaction,
    repo: &RepoId,
    claim: &RefClaim,
    change: fn(u64) -> u64,
) -> Result<()> {
    let source = claim.source.as_ref().map(|source| by_source(repo, source));
    for key in counters(repo, claim).into_iter().chain(source) {
        match change(number(txn, &key)?) {
            0 => drop(txn.remove_note(SHELF, &key)?),
            number => txn.put_note(SHELF, &key, &number.to_be_bytes())?,
        }
    }
    Ok(())
}

fn number(store: &dyn Snapshot, key: &[u8]) -> Result<u64> {
    let note = store.note(SHELF, key)?;
    Ok(note.and_then(|note| note.try_into().ok()).map_or(0, u64::from_be_bytes))
}

fn counters(repo: &RepoId, claim: &RefClaim) -> [Vec<u8>; 3] {
    [
        key(ALL, repo, &[]),
        key(BY_AUTHOR, repo, claim.author.as_bytes()),
        key(BY_TIP, repo, claim.tip.as_bytes()),
    ]
}

fn by_event(repo: &RepoId, id: &EventId) -> Vec<u8> {
    key(BY_EVENT, repo, id.as_bytes())
}

/// The name of a relay may be longer than a key; its hash is not.
fn by_source(repo: &RepoId, source: &HeldSource) -> Vec<u8> {
    let letter = if matches!(source, HeldSource::Relay(_)) { b'r' } else { b'i' };
    let Term(mark) = Term::tag(letter, source.name());
    key(BY_SOURCE, repo, &mark)
}

fn key(order: u8, repo: &RepoId, rest: &[u8]) -> Vec<u8> {
    // No identifier contains a control character, so the zero ends it.
    let identifier = repo.identifier.as_str().as_bytes();
    [&[order], &repo.owner.as_bytes()[..], identifier, &[0], rest].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use grasp_core::Time;
    use grasp_store::{EventStore, Options, in_memory};
    use grasp_testkit::{Author, Repository};

    #[test]
    fn a_relay_named_by_the_served_announcement_has_no_share_of_a_repository() {
        let store = in_memory(&Options::default()).unwrap();
        let acme = Repository::new(Author::number(1), "acme");
        let event = acme.announcement_listing("relay.example", 1);
        let from = Provenance::direct(Time(1));
        store.write(&mut |txn| txn.put(Space::Served, &event, &from).map(drop)).unwrap();
        let repo = RepoId { owner: acme.owner.key, identifier: "acme".parse().unwrap() };
        let limited = |source: HeldSource| {
            let (author, tip) = (acme.owner.key, Oid::from_bytes([1; 20]));
            let claim = RefClaim { author, tip, source: Some(source) };
            limited_source(&*store.read().unwrap(), &repo, &claim).unwrap().is_some()
        };
        let relay = |text: &str| HeldSource::Relay(text.parse::<RelayUrl>().unwrap().to_string());
        assert!(!limited(relay("ws://relay.example")));
        assert!(limited(relay("ws://other.example")));
        assert!(limited(HeldSource::Address("203.0.113.7".to_owned())));
    }
}

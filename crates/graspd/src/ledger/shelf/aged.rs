//! What rows say as of now: those that nobody renewed for too long, and those from a moment that has not
//! come, say nothing. Only these are looked at, and they are few.

use super::{BY_TIME, OF_PEER_BY_TIME, Sums, Tally, UNREADABLE, mark, sums, tally, verdict_of};
use crate::ledger::row::Peer;
use crate::report::Verdict;
use grasp_core::Time;
use grasp_store::{Result, Shelf, Snapshot};
use std::ops::RangeInclusive;

/// Rows read at a time. Hardly more are needed: rows are renewed before they are old.
const PAGE: usize = 64;

/// All rows by verdict: what is not `fresh` counts as unverifiable. With the oldest time.
pub fn tally_at(
    store: &dyn Snapshot,
    fresh: &RangeInclusive<Time>,
) -> Result<(Tally, Option<Time>)> {
    let mut tally = tally(store)?;
    let oldest = aged(store, &[BY_TIME], fresh, &mut tally)?;
    Ok((tally, oldest))
}

/// What is known of one address, its rows counted in the same way. With the oldest time.
pub fn sums_at(
    store: &dyn Snapshot,
    peer: &Peer,
    fresh: &RangeInclusive<Time>,
) -> Result<(Sums, Option<Time>)> {
    let mut sums = sums(store, peer)?;
    let prefix = [&[OF_PEER_BY_TIME], &mark(peer)[..]].concat();
    let oldest = aged(store, &prefix, fresh, &mut sums.tally)?;
    Ok((sums, oldest))
}

/// Moves what is not fresh among what cannot be verified, and tells the oldest time of all.
fn aged(
    store: &dyn Snapshot,
    prefix: &[u8],
    fresh: &RangeInclusive<Time>,
    tally: &mut Tally,
) -> Result<Option<Time>> {
    let mut oldest = None;
    let mut age = |verdict: Verdict| {
        let counted = tally.of(verdict);
        *counted = counted.saturating_sub(1);
        tally.unverifiable += 1;
    };
    walk(store, prefix, prefix.to_vec(), |at, verdict| {
        oldest.get_or_insert(at);
        let is_old = at < *fresh.start();
        if is_old {
            age(verdict);
        }
        is_old
    })?;
    // Behind what is fresh there is something only after a clock was ahead.
    let ahead = fresh.end().max(fresh.start()).0.saturating_add(1);
    let from = [prefix, &ahead.to_be_bytes()].concat();
    walk(store, prefix, from, |_, verdict| {
        age(verdict);
        true
    })?;
    Ok(oldest)
}

/// Goes through rows in order of time as long as somebody wants more of them.
fn walk(
    store: &dyn Snapshot,
    prefix: &[u8],
    mut after: Vec<u8>,
    mut each: impl FnMut(Time, Verdict) -> bool,
) -> Result<()> {
    loop {
        let page = store.notes_after(Shelf::Peers, &after, PAGE)?;
        for (key, value) in &page {
            let time = key.strip_prefix(prefix).and_then(|rest| rest.first_chunk());
            let Some(at) = time.map(|bytes| Time(u64::from_be_bytes(*bytes))) else {
                return Ok(());
            };
            let verdict = value.first().and_then(|byte| verdict_of(*byte)).ok_or(UNREADABLE)?;
            if !each(at, verdict) {
                return Ok(());
            }
        }
        match page.last() {
            Some((last, _)) if page.len() == PAGE => after.clone_from(last),
            _ => return Ok(()),
        }
    }
}

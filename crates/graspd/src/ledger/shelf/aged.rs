//! What rows say as of now: those that nobody renewed for too long, and those from a moment that has not
//! come, say nothing. They may be all there are, after a long sleep; so rows are also counted minute by
//! minute, and single ones are looked at only in the minutes where what is fresh begins and ends.

use super::{
    BY_TIME, OF_PEER_BY_TIME, SPANS, SPANS_OF_PEER, Sums, Tally, UNREADABLE, VERDICTS, mark, sums,
    tally, verdict_of,
};
use crate::ledger::row::{Look, Peer};
use grasp_core::Time;
use grasp_store::{Result, Shelf, Snapshot, Transaction};
use std::ops::RangeInclusive;

/// Notes read at a time, at most.
const PAGE: usize = 64;
/// What is counted together: a little more than a minute.
const SPAN_MS: u64 = 1 << 16;

/// All rows by verdict: what is not `fresh` counts as unverifiable. With the oldest time.
pub fn tally_at(
    store: &dyn Snapshot,
    fresh: &RangeInclusive<Time>,
) -> Result<(Tally, Option<Time>)> {
    let mut tally = tally(store)?;
    let orders = Orders { store, rows: vec![BY_TIME], spans: vec![SPANS] };
    let oldest = orders.age(fresh, &mut tally)?;
    Ok((tally, oldest))
}

/// What is known of one address, its rows counted in the same way. With the oldest time.
pub fn sums_at(
    store: &dyn Snapshot,
    peer: &Peer,
    fresh: &RangeInclusive<Time>,
) -> Result<(Sums, Option<Time>)> {
    let mut sums = sums(store, peer)?;
    let rows = [&[OF_PEER_BY_TIME], &mark(peer)[..]].concat();
    let spans = [&[SPANS_OF_PEER], &mark(peer)[..]].concat();
    let oldest = Orders { store, rows, spans }.age(fresh, &mut sums.tally)?;
    Ok((sums, oldest))
}

/// Keeps the counts of a minute in line with its rows.
pub(super) fn count(txn: &mut dyn Transaction, peer: &Peer, look: &Look, came: bool) -> Result<()> {
    let span = (look.at.0 / SPAN_MS).to_be_bytes();
    let of_peer = [&[SPANS_OF_PEER], &mark(peer)[..], &span].concat();
    for key in [[&[SPANS], &span[..]].concat(), of_peer] {
        let before = txn.note(Shelf::Peers, &key)?;
        let mut counted = before.map_or(Ok(Tally::default()), |note| read(&note))?;
        let sum = counted.of(look.seen.verdict());
        *sum = if came { sum.saturating_add(1) } else { sum.saturating_sub(1) };
        match counted.rows() {
            0 => drop(txn.remove_note(Shelf::Peers, &key)?),
            _ => txn.put_note(Shelf::Peers, &key, &written(counted))?,
        }
    }
    Ok(())
}

/// The same rows one by one and minute by minute, both in order of time.
struct Orders<'a> {
    store: &'a dyn Snapshot,
    rows: Vec<u8>,
    spans: Vec<u8>,
}

impl Orders<'_> {
    /// Moves what is not fresh among what cannot be verified, and tells the oldest time of all.
    fn age(&self, fresh: &RangeInclusive<Time>, tally: &mut Tally) -> Result<Option<Time>> {
        let mut oldest = None;
        self.rows_from(0, |at, _| {
            oldest = Some(Time(at));
            false
        })?;
        let mut stale = Tally::default();
        let mut add = |row: Tally| {
            VERDICTS.into_iter().for_each(|it| *stale.of(it) += { row }.of(it).to_owned());
        };
        let first_fresh = fresh.start().0;
        let edge = first_fresh / SPAN_MS;
        self.spans_after(None, |span, counted| {
            if span < edge {
                add(counted);
            }
            span < edge
        })?;
        self.rows_from(edge * SPAN_MS, |at, row| {
            if at < first_fresh {
                add(row);
            }
            at < first_fresh
        })?;
        // Behind what is fresh there is something only after a clock was ahead.
        let ahead = fresh.end().max(fresh.start()).0.saturating_add(1);
        let edge = ahead / SPAN_MS;
        self.rows_from(ahead, |at, row| {
            if at / SPAN_MS == edge {
                add(row);
            }
            at / SPAN_MS == edge
        })?;
        self.spans_after(Some(edge), |_, counted| {
            add(counted);
            true
        })?;
        for verdict in VERDICTS {
            let count = *stale.of(verdict);
            let sum = tally.of(verdict);
            *sum = sum.saturating_sub(count);
            tally.unverifiable += count;
        }
        Ok(oldest)
    }

    /// Rows from a moment on, as long as somebody wants more of them.
    fn rows_from(&self, at: u64, mut each: impl FnMut(u64, Tally) -> bool) -> Result<()> {
        let after = [&self.rows[..], &at.to_be_bytes()].concat();
        walk(self.store, &self.rows, after, |at, value| {
            let verdict = value.first().and_then(|byte| verdict_of(*byte)).ok_or(UNREADABLE)?;
            let mut row = Tally::default();
            *row.of(verdict) += 1;
            Ok(each(at, row))
        })
    }

    fn spans_after(
        &self,
        span: Option<u64>,
        mut each: impl FnMut(u64, Tally) -> bool,
    ) -> Result<()> {
        let after = span.map_or(Vec::new(), |span| span.to_be_bytes().to_vec());
        let after = [&self.spans[..], &after].concat();
        walk(self.store, &self.spans, after, |span, value| Ok(each(span, read(value)?)))
    }
}

/// Goes through notes by the number behind their prefix, as long as somebody wants more of them.
fn walk(
    store: &dyn Snapshot,
    prefix: &[u8],
    mut after: Vec<u8>,
    mut each: impl FnMut(u64, &[u8]) -> Result<bool>,
) -> Result<()> {
    // Mostly there is one of them, or none.
    let mut size = 1;
    loop {
        let page = store.notes_after(Shelf::Peers, &after, size)?;
        for (key, value) in &page {
            let number = key.strip_prefix(prefix).and_then(|rest| rest.first_chunk());
            let Some(number) = number.map(|bytes| u64::from_be_bytes(*bytes)) else {
                return Ok(());
            };
            if !each(number, value)? {
                return Ok(());
            }
        }
        match page.last() {
            Some((last, _)) if page.len() == size => after.clone_from(last),
            _ => return Ok(()),
        }
        size = (size * 8).min(PAGE);
    }
}

fn written(mut counted: Tally) -> Vec<u8> {
    VERDICTS.into_iter().flat_map(|verdict| counted.of(verdict).to_be_bytes()).collect()
}

fn read(note: &[u8]) -> Result<Tally> {
    let mut counted = Tally::default();
    let (numbers, rest) = note.as_chunks::<8>();
    if numbers.len() != VERDICTS.len() || !rest.is_empty() {
        return Err(UNREADABLE);
    }
    for (verdict, number) in VERDICTS.into_iter().zip(numbers) {
        *counted.of(verdict) = u64::from_be_bytes(*number);
    }
    Ok(counted)
}

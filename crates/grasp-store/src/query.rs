//! Finding events. A query is a set of filters walked as one ordered merge of index lists; it can
//! stop after any step and go on later from its position, in a fresh snapshot. It never reads an
//! event it does not return, unless a filter asks for something no index can tell.

use crate::Result;
use crate::keys::{Entry, List, Position};
use crate::record::Record;
use crate::space::Space;
use crate::view::{View, read_row};
use grasp_core::terms::Term;
use grasp_core::{Filter, Kind, Timestamp};
use heed::RoRange;
use heed::types::Bytes;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Bound;
use std::sync::Arc;

/// What the caller needs of each hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// The event itself.
    Bodies,
    /// Only time and id: answered from the index alone.
    Positions,
}

/// One event found.
#[derive(Debug, Clone, Copy)]
pub struct Hit<'t> {
    pub position: Position,
    pub serial: u64,
    pub kind: Kind,
    /// Canonical JSON; empty unless bodies were wanted.
    pub json: &'t [u8],
}

/// How far one call to `advance` may go. Steps are index entries looked at.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    pub steps: u64,
    pub bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    Paused,
    Done,
}

/// A query on its way. Results come newest first, lowest id first within a second, each once.
#[derive(Debug, Clone)]
pub struct Cursor {
    filters: Arc<[Filter]>,
    legs: Vec<Leg>,
    want: Want,
    /// The last position looked at.
    position: Option<Position>,
    serial_max: u64,
    now: Timestamp,
}

#[derive(Debug, Clone)]
struct Leg {
    /// Which of the filters.
    index: usize,
    plan: Plan,
    remaining: u64,
    state: LegState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LegState {
    Running,
    /// The limit was reached and something older matches as well.
    Cut,
    /// The limit was reached; whether anything older matches was not worth finding out.
    Satisfied,
}

/// The index lists that together contain every match of a filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plan {
    Nothing,
    Ids,
    Tag(u8),
    AuthorKinds,
    Authors,
    Kinds,
    Time,
}

/// Tags that many unrelated events share; an author is a better way in.
const COMMON_TAGS: &[u8] = b"tkKlL";
/// Index lists read at once by one query; each costs about half a kilobyte and a seek per step. A
/// filter that would need more is answered by a coarser plan and more checking.
const STREAMS_MAX: usize = 20_000;
/// Up to this many values of a second tag are looked up in the index instead of in the event.
const PROBES_MAX: usize = 4;

impl Plan {
    /// The narrowest plan that opens no more than `streams_max` lists.
    fn of(filter: &Filter, streams_max: usize) -> Self {
        if filter.is_void() {
            return Plan::Nothing;
        }
        if filter.ids.is_some() {
            return Plan::Ids;
        }
        let rarest = |common: bool| {
            let of_sort = |letter: &u8| COMMON_TAGS.contains(letter) == common;
            let tags = filter.tags.iter().filter(|(letter, _)| of_sort(letter));
            let rarest = tags.min_by_key(|(_, values)| values.len());
            rarest.map(|(letter, values)| (Plan::Tag(*letter), values.len()))
        };
        let authors = filter.authors.as_ref().map(Vec::len);
        let kinds = filter.kinds.as_ref().map(Vec::len);
        let both = authors.zip(kinds).map(|(a, k)| (Plan::AuthorKinds, a.saturating_mul(k)));
        let narrowest_first = [
            rarest(false),
            both,
            authors.map(|count| (Plan::Authors, count)),
            rarest(true),
            kinds.map(|count| (Plan::Kinds, count)),
        ];
        let mut fitting = narrowest_first.into_iter().flatten().filter(|(_, n)| *n <= streams_max);
        fitting.next().map_or(Plan::Time, |(plan, _)| plan)
    }
}

impl Cursor {
    /// `serial_max` draws the line between stored and live: what was committed later is not ours.
    pub fn new(filters: Arc<[Filter]>, want: Want, serial_max: u64, now: Timestamp) -> Self {
        let streams_max = STREAMS_MAX / filters.len().max(1);
        let leg = |(index, filter): (usize, &Filter)| Leg {
            index,
            plan: Plan::of(filter, streams_max),
            remaining: filter.limit.unwrap_or(u64::MAX),
            state: LegState::Running,
        };
        // `limit: 0` asks for nothing stored, so there is nothing to walk.
        let stored = filters.iter().enumerate().filter(|(_, filter)| filter.limit != Some(0));
        let legs = stored.map(leg).collect();
        Self { filters, legs, want, position: None, serial_max, now }
    }

    /// After the query is done: was any filter cut off by its limit? `None` if nobody looked.
    pub fn has_more(&self) -> Option<bool> {
        let any = |state| self.legs.iter().any(|leg| leg.state == state);
        match (any(LegState::Cut), any(LegState::Satisfied)) {
            (true, _) => Some(true),
            (false, true) => None,
            (false, false) => Some(false),
        }
    }

    /// Everything asked for has been found. What a pause would go on looking for is only whether
    /// there is more, so it stops here.
    fn settle(&mut self) -> bool {
        let satisfied = self.legs.iter().all(|leg| leg.remaining == 0);
        for leg in self.legs.iter_mut().filter(|leg| satisfied && leg.state == LegState::Running) {
            leg.state = LegState::Satisfied;
        }
        satisfied
    }
}

pub(crate) fn advance(
    view: View<'_>,
    space: Space,
    cursor: &mut Cursor,
    budget: &mut Budget,
    sink: &mut dyn FnMut(Hit<'_>),
) -> Result<Progress> {
    let mut merge = Merge::open(view, space, cursor)?;
    let mut hit_legs = Vec::new();
    while let Some((position, entry)) = merge.next(&mut hit_legs)? {
        budget.steps = budget.steps.saturating_sub(1);
        cursor.position = Some(position);
        if entry.serial <= cursor.serial_max {
            let mut found = Candidate { view, space, position, entry, record: None };
            if wanted_by_any(cursor, &hit_legs, &mut found, budget)? {
                let json = match cursor.want {
                    Want::Bodies => found.record()?.json(),
                    Want::Positions => &[],
                };
                budget.bytes = budget.bytes.saturating_sub(json.len());
                sink(Hit { position, serial: entry.serial, kind: entry.kind, json });
            }
        }
        if cursor.legs.iter().all(|leg| leg.state == LegState::Cut) {
            return Ok(Progress::Done);
        }
        if budget.steps == 0 || budget.bytes == 0 {
            return Ok(if cursor.settle() { Progress::Done } else { Progress::Paused });
        }
    }
    Ok(Progress::Done)
}

/// Counts the hit against every filter it matches; true if one of them still wanted it.
fn wanted_by_any(
    cursor: &mut Cursor,
    hit_legs: &[usize],
    found: &mut Candidate<'_>,
    budget: &mut Budget,
) -> Result<bool> {
    let Cursor { filters, legs, now, .. } = cursor;
    let mut wanted = false;
    for index in hit_legs {
        let Some(leg) = legs.get_mut(*index) else { continue };
        let Some(filter) = filters.get(leg.index) else { continue };
        if leg.state == LegState::Cut || !found.matches(filter, leg.plan, *now, budget)? {
            continue;
        }
        if leg.remaining == 0 {
            leg.state = LegState::Cut;
        } else {
            leg.remaining -= 1;
            wanted = true;
        }
    }
    Ok(wanted)
}

struct Candidate<'t> {
    view: View<'t>,
    space: Space,
    position: Position,
    entry: Entry,
    record: Option<Record<'t>>,
}

impl<'t> Candidate<'t> {
    fn record(&mut self) -> Result<Record<'t>> {
        let record = match self.record {
            Some(record) => record,
            None => self.view.record(self.space, self.entry.serial)?,
        };
        self.record = Some(record);
        Ok(record)
    }

    /// Checks what the leg's lists did not already guarantee, cheapest first.
    fn matches(
        &mut self,
        filter: &Filter,
        plan: Plan,
        now: Timestamp,
        budget: &mut Budget,
    ) -> Result<bool> {
        let created_at = self.position.created_at();
        let in_window = filter.since.is_none_or(|since| created_at >= since)
            && filter.until.is_none_or(|until| created_at <= until);
        let kind_fits =
            filter.kinds.as_ref().is_none_or(|k| k.binary_search(&self.entry.kind).is_ok());
        if !in_window || !kind_fits {
            return Ok(false);
        }
        if self.entry.expires && self.record()?.expires().is_some_and(|at| at <= now) {
            return Ok(false);
        }
        let by_author = matches!(plan, Plan::AuthorKinds | Plan::Authors);
        if let Some(authors) = filter.authors.as_ref().filter(|_| !by_author) {
            budget.steps = budget.steps.saturating_sub(1);
            if authors.binary_search(&self.record()?.pubkey()).is_err() {
                return Ok(false);
            }
        }
        for (letter, values) in &filter.tags {
            if plan != Plan::Tag(*letter) && !self.has_tag(*letter, values, budget)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn has_tag(&mut self, letter: u8, values: &[String], budget: &mut Budget) -> Result<bool> {
        if values.len() <= PROBES_MAX {
            let index = &self.view.tables.of(self.space).index;
            for value in values {
                budget.steps = budget.steps.saturating_sub(1);
                let key = List::term(&Term::tag(letter, value)).key(&self.position);
                if index.get(self.view.txn, &key)?.is_some() {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        // Parsing costs about as much as looking at a few dozen index entries.
        budget.steps = budget.steps.saturating_sub(32);
        let event = self.record()?.parse_json()?;
        let hit = |v: &str| values.binary_search_by(|value| value.as_str().cmp(v)).is_ok();
        Ok(event.tags.iter().any(|t| t.letter() == Some(letter) && t.value().is_some_and(hit)))
    }
}

/// One list being read, on behalf of one leg.
struct Stream<'t> {
    leg: usize,
    rows: Rows<'t>,
}

enum Rows<'t> {
    List(RoRange<'t, Bytes, Bytes>),
    Points(std::vec::IntoIter<(Position, Entry)>),
}

impl Stream<'_> {
    fn next(&mut self) -> Result<Option<(Position, Entry)>> {
        match &mut self.rows {
            Rows::List(range) => {
                range.next().transpose()?.map(|(key, value)| read_row(key, value)).transpose()
            }
            Rows::Points(points) => Ok(points.next()),
        }
    }
}

/// The k-way merge of all streams by position.
struct Merge<'t> {
    streams: Vec<Stream<'t>>,
    heap: BinaryHeap<Reverse<(Position, usize, HeapEntry)>>,
}

/// Rides along in the heap without taking part in its order beyond breaking exact ties.
#[derive(PartialEq, Eq, PartialOrd, Ord, Clone, Copy)]
struct HeapEntry(u64, u16, bool);

impl From<Entry> for HeapEntry {
    fn from(entry: Entry) -> Self {
        Self(entry.serial, entry.kind.0, entry.expires)
    }
}

impl From<HeapEntry> for Entry {
    fn from(entry: HeapEntry) -> Self {
        Self { serial: entry.0, kind: Kind(entry.1), expires: entry.2 }
    }
}

impl<'t> Merge<'t> {
    fn open(view: View<'t>, space: Space, cursor: &mut Cursor) -> Result<Self> {
        let mut opener = Opener { view, space, after: cursor.position, streams: Vec::new() };
        let running = |(_, leg): &(usize, &mut Leg)| leg.state == LegState::Running;
        for (number, leg) in cursor.legs.iter_mut().enumerate().filter(running) {
            let Some(filter) = cursor.filters.get(leg.index) else { continue };
            let before = opener.streams.len();
            opener.open(number, leg.plan, filter)?;
            // Authors of thousands of kinds are found out only here.
            if opener.streams.len() - before > STREAMS_MAX {
                opener.streams.truncate(before);
                leg.plan = Plan::Time;
                opener.open(number, leg.plan, filter)?;
            }
        }
        let mut merge = Self { streams: opener.streams, heap: BinaryHeap::new() };
        for index in 0..merge.streams.len() {
            merge.refill(index)?;
        }
        Ok(merge)
    }

    fn refill(&mut self, index: usize) -> Result<()> {
        let next = self.streams.get_mut(index).map(Stream::next).transpose()?.flatten();
        if let Some((position, entry)) = next {
            self.heap.push(Reverse((position, index, entry.into())));
        }
        Ok(())
    }

    /// The next position, with the legs whose lists contain it (sorted, each once).
    fn next(&mut self, legs: &mut Vec<usize>) -> Result<Option<(Position, Entry)>> {
        legs.clear();
        let Some(Reverse((position, _, entry))) = self.heap.peek().copied() else {
            return Ok(None);
        };
        while let Some(top) = self.heap.peek_mut() {
            let Reverse((at, index, _)) = *top;
            if at != position {
                break;
            }
            let Some(stream) = self.streams.get_mut(index) else { break };
            legs.push(stream.leg);
            match stream.next()? {
                // Replacing the top in place is one sift instead of two.
                Some((next, entry)) => replace(top, Reverse((next, index, entry.into()))),
                None => drop(PeekMut::pop(top)),
            }
        }
        legs.sort_unstable();
        legs.dedup();
        Ok(Some((position, entry.into())))
    }
}

fn replace<T: Ord>(mut top: PeekMut<'_, T>, with: T) {
    *top = with;
}

struct Opener<'t> {
    view: View<'t>,
    space: Space,
    after: Option<Position>,
    streams: Vec<Stream<'t>>,
}

impl Opener<'_> {
    fn open(&mut self, index: usize, plan: Plan, filter: &Filter) -> Result<()> {
        let kinds = filter.kinds.as_deref().unwrap_or_default();
        let authors = filter.authors.as_deref().unwrap_or_default();
        match plan {
            Plan::Nothing => Ok(()),
            Plan::Ids => self.open_ids(index, filter),
            Plan::Time => self.open_list(index, filter, &List::time()),
            Plan::Kinds => self.open_lists(index, filter, kinds.iter().map(|k| List::kind(*k))),
            Plan::Tag(letter) => {
                let values = filter.tags.get(&letter).map(Vec::as_slice).unwrap_or_default();
                let lists = values.iter().map(|v| List::term(&Term::tag(letter, v)));
                self.open_lists(index, filter, lists)
            }
            Plan::AuthorKinds => {
                let pairs = authors.iter().flat_map(|a| kinds.iter().map(move |k| (a, *k)));
                self.open_lists(index, filter, pairs.map(|(a, k)| List::author_kind(a, k)))
            }
            Plan::Authors => {
                for author in authors {
                    for kind in self.view.kinds_of(self.space, author)?.take(STREAMS_MAX + 1) {
                        self.open_list(index, filter, &List::author_kind(author, kind?))?;
                    }
                }
                Ok(())
            }
        }
    }

    fn open_ids(&mut self, leg: usize, filter: &Filter) -> Result<()> {
        let mut points = Vec::new();
        for id in filter.ids.as_deref().unwrap_or_default() {
            let Some(serial) = self.view.serial_of(self.space, id)? else { continue };
            let record = self.view.record(self.space, serial)?;
            let position = Position::new(record.created_at(), id);
            let (kind, expires) = (record.kind(), record.expires().is_some());
            if self.after.is_none_or(|after| position > after) {
                points.push((position, Entry { serial, kind, expires }));
            }
        }
        points.sort_unstable_by_key(|(position, _)| *position);
        self.streams.push(Stream { leg, rows: Rows::Points(points.into_iter()) });
        Ok(())
    }

    fn open_lists(
        &mut self,
        leg: usize,
        filter: &Filter,
        lists: impl Iterator<Item = List>,
    ) -> Result<()> {
        for list in lists {
            self.open_list(leg, filter, &list)?;
        }
        Ok(())
    }

    /// Reads a list from where the cursor stands, or from `until`, down to `since`.
    fn open_list(&mut self, leg: usize, filter: &Filter, list: &List) -> Result<()> {
        let mut lowest = list.as_bytes().to_vec();
        let mut highest = lowest.clone();
        lowest.extend_from_slice(&(!filter.until.map_or(u64::MAX, |t| t.0)).to_be_bytes());
        highest.extend_from_slice(&(!filter.since.map_or(0, |t| t.0)).to_be_bytes());
        highest.extend_from_slice(&[0xff; 32]);
        let resume = self.after.map(|after| list.key(&after)).filter(|key| *key >= lowest);
        let from = match &resume {
            Some(key) if key.as_slice() >= highest.as_slice() => return Ok(()),
            Some(key) => Bound::Excluded(key.as_slice()),
            None => Bound::Included(lowest.as_slice()),
        };
        let range = (from, Bound::Included(highest.as_slice()));
        let rows = self.view.tables.of(self.space).index.range(self.view.txn, &range)?;
        self.streams.push(Stream { leg, rows: Rows::List(rows) });
        Ok(())
    }
}

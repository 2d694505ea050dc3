//! Many index lists read as one, in the order of answers.

use crate::Result;
use crate::keys::{Entry, List, Position};
use crate::plan::{Plan, STREAMS_MAX};
use crate::space::Space;
use crate::view::{View, read_row};
use grasp_core::Filter;
use grasp_core::terms::Term;
use heed::RoRange;
use heed::types::Bytes;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Bound;

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
pub(crate) struct Merge<'t> {
    streams: Vec<Stream<'t>>,
    heap: BinaryHeap<Reverse<(Position, usize, Entry)>>,
}

impl<'t> Merge<'t> {
    /// Opens the lists of every leg, given by its number, plan and filter, behind `after`.
    pub(crate) fn open<'f>(
        view: View<'t>,
        space: Space,
        after: Option<Position>,
        legs: impl Iterator<Item = (usize, &'f mut Plan, &'f Filter)>,
    ) -> Result<Self> {
        let mut opener = Opener { view, space, after, streams: Vec::new() };
        for (number, plan, filter) in legs {
            let before = opener.streams.len();
            opener.open(number, *plan, filter)?;
            // Authors of thousands of kinds are found out only here.
            if opener.streams.len() - before > STREAMS_MAX {
                opener.streams.truncate(before);
                *plan = Plan::Time;
                opener.open(number, *plan, filter)?;
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
            self.heap.push(Reverse((position, index, entry)));
        }
        Ok(())
    }

    /// The next position, with the legs whose lists contain it (sorted, each once).
    pub(crate) fn next(&mut self, legs: &mut Vec<usize>) -> Result<Option<(Position, Entry)>> {
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
                Some((next, entry)) => replace(top, Reverse((next, index, entry))),
                None => drop(PeekMut::pop(top)),
            }
        }
        legs.sort_unstable();
        legs.dedup();
        Ok(Some((position, entry)))
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
                let values = filter.tags.get(&letter).map(|list| &**list).unwrap_or_default();
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

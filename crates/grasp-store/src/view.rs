//! Reading, the same inside and outside of a write transaction.

use crate::counters::{Counter, Unsaved};
use crate::keys::{Entry, List, Position, expiry_of, kind_after_author};
use crate::notes;
use crate::query::{self, Budget, Cursor, Hit, Progress};
use crate::record::{Record, StoredEvent};
use crate::space::{Space, Tables};
use crate::tombstones;
use crate::{Header, Note, Result, Shelf, Snapshot, StoreError};
use grasp_core::policy::Erased;
use grasp_core::terms::Term;
use grasp_core::{Coordinate, Event, EventId, Kind, PubKey, Timestamp};
use heed::RoTxn;
use std::ops::{Bound, RangeInclusive};

#[derive(Clone, Copy)]
pub(crate) struct View<'t> {
    pub(crate) txn: &'t RoTxn<'t>,
    pub(crate) tables: &'t Tables,
    pub(crate) unsaved: &'t Unsaved,
}

impl<'t> View<'t> {
    pub(crate) fn number(&self, counter: Counter) -> Result<u64> {
        self.unsaved.read(&self.tables.meta, self.txn, counter)
    }

    pub(crate) fn serial_of(&self, space: Space, id: &EventId) -> Result<Option<u64>> {
        let bytes = self.tables.of(space).ids.get(self.txn, id.as_bytes())?;
        Ok(bytes.and_then(|b| b.try_into().ok()).map(u64::from_be_bytes))
    }

    pub(crate) fn record(&self, space: Space, serial: u64) -> Result<Record<'t>> {
        let bytes = self.tables.of(space).events.get(self.txn, &serial.to_be_bytes())?;
        Record::parse(bytes.ok_or(StoreError::Damaged("an index names a missing record"))?)
    }

    /// Entries of one list, in order of answers.
    pub(crate) fn list(
        &self,
        space: Space,
        list: &List,
    ) -> Result<impl Iterator<Item = Result<(Position, Entry)>> + use<'t>> {
        let rows = self.tables.of(space).index.prefix_iter(self.txn, list.as_bytes())?;
        Ok(rows
            .map(|row| row.map_err(StoreError::from).and_then(|(key, value)| read_row(key, value))))
    }

    fn first_events(&self, space: Space, list: &List, max: usize) -> Result<Vec<StoredEvent>> {
        let rows = self.list(space, list)?.take(max);
        rows.map(|row| row.and_then(|(_, entry)| self.event(space, entry.serial))).collect()
    }

    /// The kinds an author has written, found by skipping from one to the next.
    pub(crate) fn kinds_of(
        &self,
        space: Space,
        author: &PubKey,
    ) -> Result<impl Iterator<Item = Result<Kind>> + use<'t>> {
        let view = *self;
        let author = *author;
        let mut from = Some(Kind(0));
        Ok(std::iter::from_fn(move || {
            let next = view.kind_from(space, &author, from?).transpose();
            let kind = next.as_ref().and_then(|next| next.as_ref().ok());
            from = kind.and_then(|kind| kind.0.checked_add(1)).map(Kind);
            next
        }))
    }

    fn kind_from(&self, space: Space, author: &PubKey, kind: Kind) -> Result<Option<Kind>> {
        let index = &self.tables.of(space).index;
        let key = List::author_kind(author, kind);
        let found = index.get_greater_than_or_equal_to(self.txn, key.as_bytes())?;
        let prefix = List::author(author);
        let own = found.map(|(key, _)| key).filter(|key| key.starts_with(prefix.as_bytes()));
        Ok(own.and_then(kind_after_author))
    }

    pub(crate) fn event(&self, space: Space, serial: u64) -> Result<StoredEvent> {
        self.record(space, serial)?.to_event(serial)
    }
}

pub(crate) fn read_row(key: &[u8], value: &[u8]) -> Result<(Position, Entry)> {
    let position = Position::at_end_of(key);
    position.zip(Entry::from_bytes(value)).ok_or(StoreError::Damaged("unreadable index entry"))
}

/// Whoever can show a view can answer every question of a snapshot.
pub(crate) trait Viewed {
    fn view(&self) -> View<'_>;
}

impl<T: Viewed> Snapshot for T {
    fn contains(&self, space: Space, id: &EventId) -> Result<bool> {
        Ok(self.view().serial_of(space, id)?.is_some())
    }

    fn get(&self, space: Space, id: &EventId) -> Result<Option<StoredEvent>> {
        let view = self.view();
        view.serial_of(space, id)?.map(|serial| view.event(space, serial)).transpose()
    }

    fn current(&self, space: Space, of: &Coordinate) -> Result<Option<StoredEvent>> {
        Ok(self.newest(space, &Term::coordinate(of), 1)?.pop())
    }

    fn newest(&self, space: Space, term: &Term, count_max: usize) -> Result<Vec<StoredEvent>> {
        self.view().first_events(space, &List::term(term), count_max)
    }

    fn has_term(&self, space: Space, term: &Term) -> Result<bool> {
        self.view().list(space, &List::term(term))?.next().transpose().map(|row| row.is_some())
    }

    fn header(&self, space: Space, id: &EventId) -> Result<Option<Header>> {
        let view = self.view();
        let Some(serial) = view.serial_of(space, id)? else { return Ok(None) };
        let record = view.record(space, serial)?;
        Ok(Some(Header { author: record.pubkey(), kind: record.kind() }))
    }

    fn current_position(&self, space: Space, of: &Coordinate) -> Result<Option<Position>> {
        let list = List::term(&Term::coordinate(of));
        let first = self.view().list(space, &list)?.next().transpose()?;
        Ok(first.map(|(position, _)| position))
    }

    fn authors(&self, space: Space, term: &Term, count_max: usize) -> Result<Vec<PubKey>> {
        let view = self.view();
        let rows = view.list(space, &List::term(term))?.take(count_max);
        rows.map(|row| Ok(view.record(space, row?.1.serial)?.pubkey())).collect()
    }

    fn has_author(&self, space: Space, author: &PubKey) -> Result<bool> {
        self.view().list(space, &List::author(author))?.next().transpose().map(|row| row.is_some())
    }

    fn has_author_beyond(&self, space: Space, author: &PubKey, kinds: &[Kind]) -> Result<bool> {
        let view = self.view();
        // One more kind than is excluded settles it.
        let found = view.kinds_of(space, author)?.take(kinds.len() + 1);
        for kind in found {
            if !kinds.contains(&kind?) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn by_author(
        &self,
        space: Space,
        author: &PubKey,
        kind: Kind,
        count_max: usize,
    ) -> Result<Vec<StoredEvent>> {
        self.view().first_events(space, &List::author_kind(author, kind), count_max)
    }

    fn authored(&self, space: Space, author: &PubKey, count_max: usize) -> Result<usize> {
        Ok(self.view().list(space, &List::author(author))?.take(count_max).count())
    }

    fn note(&self, shelf: Shelf, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let view = self.view();
        notes::get(&view.tables.notes, view.txn, shelf, key)
    }

    fn notes(&self, shelf: Shelf, prefix: &[u8], count_max: usize) -> Result<Vec<Note>> {
        let view = self.view();
        notes::list(&view.tables.notes, view.txn, shelf, prefix, count_max)
    }

    fn notes_after(&self, shelf: Shelf, key: &[u8], count_max: usize) -> Result<Vec<Note>> {
        let view = self.view();
        notes::after(&view.tables.notes, view.txn, shelf, key, count_max)
    }

    fn erased(&self, event: &Event) -> Result<Erased> {
        let view = self.view();
        tombstones::erased(&view.tables.tombstones, view.txn, event)
    }

    fn burials_by(&self, author: &PubKey, count_max: usize) -> Result<usize> {
        let view = self.view();
        tombstones::burials_by(&view.tables.tombstones, view.txn, author, count_max)
    }

    fn events_in(&self, space: Space) -> Result<u64> {
        let view = self.view();
        Ok(view.tables.of(space).ids.len(view.txn)?)
    }

    fn bytes_in(&self, space: Space) -> Result<u64> {
        self.view().number(Counter::Bytes(space))
    }

    fn events_of_kind(&self, space: Space, kind: Kind) -> Result<u64> {
        self.view().number(Counter::Kind(space, kind))
    }

    fn last_serial(&self) -> Result<u64> {
        self.view().number(Counter::LastSerial)
    }

    fn needs_sweep(&self, now: Timestamp) -> Result<bool> {
        let view = self.view();
        for space in Space::ALL {
            let index = &view.tables.of(space).index;
            let row =
                index.prefix_iter(view.txn, List::expiries().as_bytes())?.next().transpose()?;
            if row.and_then(|(key, _)| expiry_of(key)).is_some_and(|at| at <= now) {
                return Ok(true);
            }
        }
        Ok(tombstones::vanishing(&view.tables.tombstones, view.txn)?.is_some())
    }

    fn advance(
        &self,
        space: Space,
        cursor: &mut Cursor,
        budget: &mut Budget,
        sink: &mut dyn FnMut(Hit<'_>),
    ) -> Result<Progress> {
        query::advance(self.view(), space, cursor, budget, sink)
    }

    fn walk(
        &self,
        space: Space,
        serials: RangeInclusive<u64>,
        kinds: &[Kind],
        rows_max: usize,
        sink: &mut dyn FnMut(StoredEvent),
    ) -> Result<Option<u64>> {
        let view = self.view();
        let (first, last) = (serials.start().to_be_bytes(), serials.end().to_be_bytes());
        if serials.is_empty() {
            return Ok(None);
        }
        let range = (Bound::Included(&first[..]), Bound::Included(&last[..]));
        let rows = view.tables.of(space).events.range(view.txn, &range)?;
        for (count, row) in rows.enumerate() {
            let (key, value) = row?;
            let serial = key.try_into().map(u64::from_be_bytes);
            let serial = serial.map_err(|_| StoreError::Damaged("unreadable serial"))?;
            if count == rows_max {
                return Ok(Some(serial));
            }
            let record = Record::parse(value)?;
            if kinds.contains(&record.kind()) {
                sink(record.to_event(serial)?);
            }
        }
        Ok(None)
    }
}

//! Writing inside one transaction: put, replace, remove, bury, sweep. All index entries of an
//! event come and go together with it.

use crate::counters::{Counter, Unsaved};
use crate::keys::{Entry, List, Position, expiry_of};
use crate::notes;
use crate::record::{Provenance, StoredEvent, encode};
use crate::space::{Space, Tables};
use crate::tombstones;
use crate::view::{View, Viewed};
use crate::{Gone, Put, Result, Shelf, Snapshot, StoreError, Transaction, Usage};
use grasp_core::terms::{Term, terms};
use grasp_core::{Coordinate, Event, EventId, Kind, PubKey, Timestamp, VerifiedEvent};
use heed::RwTxn;

pub(crate) struct Writing<'t, 'e> {
    pub(crate) txn: &'t mut RwTxn<'e>,
    pub(crate) tables: &'t Tables,
    pub(crate) usage: Usage,
    /// Events taken out by this transaction: as many fit in again, however full it is. So whatever
    /// only moves from one space to another can always arrive.
    pub(crate) vacated: usize,
    pub(crate) unsaved: Unsaved,
}

impl Viewed for Writing<'_, '_> {
    fn view(&self) -> View<'_> {
        View { txn: self.txn, tables: self.tables, unsaved: &self.unsaved }
    }
}

impl Writing<'_, '_> {
    /// The last thing before the commit.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.unsaved.save(&self.tables.meta, self.txn)
    }

    fn insert(&mut self, space: Space, event: &VerifiedEvent, from: &Provenance) -> Result<u64> {
        let serial = self.last_serial()? + 1;
        let tables = *self.tables.of(space);
        let record = encode(event, from);
        tables.events.put(self.txn, &serial.to_be_bytes(), &record)?;
        tables.ids.put(self.txn, event.id.as_bytes(), &serial.to_be_bytes())?;
        let entry =
            Entry { serial, kind: event.kind, expires: event.expiration().is_some() }.to_bytes();
        for key in index_keys(event) {
            tables.index.put(self.txn, &key, &entry)?;
        }
        self.unsaved.add(Counter::LastSerial, 1);
        self.unsaved.add(Counter::Kind(space, event.kind), 1);
        self.unsaved.add(Counter::Bytes(space), signed(record.len()));
        Ok(serial)
    }

    fn take_out(&mut self, space: Space, serial: u64) -> Result<StoredEvent> {
        let record = self.view().record(space, serial)?;
        let stored = record.to_event(serial)?;
        self.vacated += 1;
        let len = encode(&stored.event, &stored.provenance).len();
        let tables = *self.tables.of(space);
        tables.events.delete(self.txn, &serial.to_be_bytes())?;
        tables.ids.delete(self.txn, stored.event.id.as_bytes())?;
        for key in index_keys(&stored.event) {
            tables.index.delete(self.txn, &key)?;
        }
        self.unsaved.add(Counter::Kind(space, stored.event.kind), -1);
        self.unsaved.add(Counter::Bytes(space), -signed(len));
        Ok(stored)
    }

    /// Serials in one list, up to a moment and of the kinds that `goes` names; at most `count_max`.
    fn serials(
        &self,
        space: Space,
        list: &List,
        until: Timestamp,
        goes: fn(Kind) -> bool,
        count_max: usize,
    ) -> Result<Vec<u64>> {
        let mut serials = Vec::new();
        for row in self.view().list(space, list)? {
            if serials.len() == count_max {
                break;
            }
            let (position, entry) = row?;
            if position.created_at() <= until && goes(entry.kind) {
                serials.push(entry.serial);
            }
        }
        Ok(serials)
    }

    /// Takes out events of a vanished author; returns how many went.
    fn sweep_author(
        &mut self,
        author: &PubKey,
        until: Timestamp,
        count_max: usize,
        gone: &mut Gone<'_>,
    ) -> Result<usize> {
        let own: (List, fn(Kind) -> bool) = (List::author(author), |kind| kind != Kind::VANISH);
        // Gift wraps are signed by throwaway keys: the vanished author is only addressed.
        let wraps: (List, fn(Kind) -> bool) =
            (List::term(&Term::tag(b'p', &author.to_hex())), |kind| kind == Kind::GIFT_WRAP);
        let mut count = 0;
        for space in Space::ALL {
            for (list, goes) in [&own, &wraps] {
                for serial in self.serials(space, list, until, *goes, count_max - count)? {
                    gone(space, &self.take_out(space, serial)?);
                    count += 1;
                }
            }
        }
        Ok(count)
    }

    fn expired_serials(&self, space: Space, now: Timestamp, max: usize) -> Result<Vec<u64>> {
        let view = self.view();
        let rows =
            view.tables.of(space).index.prefix_iter(view.txn, List::expiries().as_bytes())?;
        let mut serials = Vec::new();
        for row in rows.take(max) {
            let (key, value) = row?;
            if expiry_of(key).is_none_or(|at| at > now) {
                break;
            }
            serials.extend(Entry::from_bytes(value).map(|entry| entry.serial));
        }
        Ok(serials)
    }
}

fn signed(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

fn index_keys(event: &Event) -> impl Iterator<Item = Vec<u8>> {
    let position = Position::new(event.created_at, &event.id);
    let fixed =
        [List::time(), List::kind(event.kind), List::author_kind(&event.pubkey, event.kind)];
    let terms = terms(event).into_iter().map(|term| List::term(&term));
    let lists = fixed.into_iter().chain(terms).chain(event.expiration().map(List::expiry));
    lists.map(move |list| list.key(&position))
}

impl Transaction for Writing<'_, '_> {
    fn put(&mut self, space: Space, event: &VerifiedEvent, from: &Provenance) -> Result<Put> {
        let makes_room = matches!(event.kind, Kind::DELETION | Kind::VANISH);
        let full = self.usage.is_overfull() || (self.usage.is_full() && !makes_room);
        if full && self.vacated == 0 {
            let Usage { used_bytes: used, budget_bytes: budget, .. } = self.usage;
            return Err(StoreError::Full { used, budget });
        }
        if self.contains(space, &event.id)? {
            return Ok(Put::Duplicate);
        }
        let current = match event.coordinate() {
            _ if space == Space::History => None,
            Some(coordinate) => self.current(space, &coordinate)?,
            None => None,
        };
        if let Some(current) = &current {
            if !event.rank().beats(&current.event.rank()) {
                return Ok(Put::Superseded);
            }
            self.take_out(space, current.serial)?;
        }
        let serial = self.insert(space, event, from)?;
        self.vacated = self.vacated.saturating_sub(1);
        Ok(Put::Stored { serial, replaced: current.map(|current| current.event.id) })
    }

    fn remove(&mut self, space: Space, id: &EventId) -> Result<Option<StoredEvent>> {
        let serial = self.view().serial_of(space, id)?;
        serial.map(|serial| self.take_out(space, serial)).transpose()
    }

    fn bury_event(&mut self, id: &EventId, author: &PubKey, at: Timestamp) -> Result<()> {
        tombstones::bury_event(&self.tables.tombstones, self.txn, id, author, at)
    }

    fn bury_coordinate(&mut self, of: &Coordinate, at: Timestamp) -> Result<()> {
        tombstones::bury_coordinate(&self.tables.tombstones, self.txn, of, at)
    }

    fn bury_author(&mut self, author: &PubKey, at: Timestamp) -> Result<()> {
        tombstones::bury_author(&self.tables.tombstones, self.txn, author, at)
    }

    fn sweep_vanished(&mut self, count_max: usize, gone: &mut Gone<'_>) -> Result<usize> {
        let mut count = 0;
        while count < count_max {
            let Some((author, until)) = tombstones::vanishing(&self.tables.tombstones, self.txn)?
            else {
                break;
            };
            let left = count_max - count;
            let swept = self.sweep_author(&author, until, left, gone)?;
            count += swept;
            if swept < left {
                tombstones::vanished(&self.tables.tombstones, self.txn, &author)?;
            }
        }
        Ok(count)
    }

    fn sweep_expired(
        &mut self,
        now: Timestamp,
        count_max: usize,
        gone: &mut Gone<'_>,
    ) -> Result<usize> {
        let mut count = 0;
        for space in Space::ALL {
            for serial in self.expired_serials(space, now, count_max - count)? {
                gone(space, &self.take_out(space, serial)?);
                count += 1;
            }
        }
        Ok(count)
    }

    fn put_note(&mut self, shelf: Shelf, key: &[u8], value: &[u8]) -> Result<()> {
        notes::put(&self.tables.notes, self.txn, shelf, key, value)
    }

    fn remove_note(&mut self, shelf: Shelf, key: &[u8]) -> Result<bool> {
        notes::remove(&self.tables.notes, self.txn, shelf, key)
    }
}

//! Answers to clones, kept in files so that identical clones share one git process and a slow reader
//! holds none. A file has no name: it goes with its last user, also when the server is killed.
//! Room is bounded; an answer that finds none is not spooled.

mod pack;
#[cfg(test)]
mod tests;

pub(super) use pack::{PackReader, PackWriter, SpoolError};

use super::shares::Payer;
use crate::repos::Shown;
use bytes::Bytes;
use grasp_core::RepoId;
use grasp_git::{DiskReserve, Protocol, Reservation};
use pack::SpooledPack;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// All spooled packs together.
pub(super) const SPOOL_BYTES_MAX: u64 = 1 << 30;
/// Each has an open file.
const SPOOLED_PACKS_MAX: usize = 128;
/// A pack that no client reads any more.
const UNUSED_MAX: Duration = Duration::from_secs(60);
/// Left free above the reserve, so that clones never leave pushes without room.
const LEFT_FREE_BYTES: u64 = 1 << 30;
/// Room is taken in steps of this size; the disk is looked at once for each.
const ROOM_STEP_BYTES: u64 = 4 << 20;
/// A smaller answer is made anew faster than it is worth a file.
const KEPT_BYTES_MIN: u64 = 64 << 10;

/// Requests with the same key have the same answer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct SpoolKey {
    repo: RepoId,
    protocol: Protocol,
    /// Wants and capabilities, without the words about the client itself.
    request: Bytes,
    /// Which refs: the same ones are the same allocation, which a pack keeps.
    shown_at: usize,
}

impl SpoolKey {
    pub(super) fn new(
        repo: RepoId,
        protocol: Protocol,
        request: Bytes,
        shown: &Arc<Shown>,
    ) -> Self {
        Self { repo, protocol, request, shown_at: Arc::as_ptr(shown) as usize }
    }
}

/// Where packs are spooled, and how much room there is.
#[derive(Debug)]
pub(super) struct SpoolPlace {
    pub(super) directory: PathBuf,
    pub(super) bytes_max: u64,
    pub(super) disk: DiskReserve,
}

#[derive(Debug, Clone)]
pub(super) struct PackSpool(Arc<SpoolTable>);

#[derive(Debug)]
struct SpoolTable {
    place: SpoolPlace,
    packs: Mutex<HashMap<SpoolKey, Arc<SpooledPack>>>,
    used_bytes: AtomicU64,
}

impl PackSpool {
    pub(super) fn new(place: SpoolPlace) -> Self {
        let (packs, used_bytes) = (Mutex::default(), AtomicU64::new(0));
        Self(Arc::new(SpoolTable { place, packs, used_bytes }))
    }

    /// A reader from the start of a pack that is here or being written.
    pub(super) fn join(&self, key: &SpoolKey, payer: Payer) -> Option<PackReader> {
        let pack = self.0.packs.lock().get(key).cloned()?;
        PackReader::join(pack, payer)
    }

    /// A new pack with its first reader, or a reader of one that another request has begun meanwhile.
    /// `None` if there is no room.
    pub(super) async fn open(
        &self,
        key: SpoolKey,
        shown: Arc<Shown>,
        payer: Payer,
    ) -> Option<(PackReader, Option<PackWriter>)> {
        let mut room = SpoolRoom { table: Arc::clone(&self.0), bytes: 0, unwritten: None };
        let opening = tokio::task::spawn_blocking(move || -> io::Result<_> {
            let has_room = room.reaches(1);
            let file = tempfile::tempfile_in(&room.table.place.directory)?;
            Ok(has_room.then_some((room, file)))
        });
        let (room, file) = opening.await.ok()?.ok()??;
        if self.0.packs.lock().len() >= SPOOLED_PACKS_MAX && !self.0.evict_one() {
            return None;
        }
        let mut packs = self.0.packs.lock();
        let begun = packs.get(&key).cloned();
        if let Some(reader) = begun.and_then(|pack| PackReader::join(pack, payer)) {
            return Some((reader, None));
        }
        let pack = Arc::new(SpooledPack::new(file, room, shown, payer));
        let reader = PackReader::join(Arc::clone(&pack), payer)?;
        packs.insert(key.clone(), Arc::clone(&pack));
        drop(packs);
        Some((reader, Some(PackWriter::new(pack, self.clone(), key))))
    }

    /// Packs that were not read for a while go.
    pub(super) fn sweep(&self, now: Instant) {
        let is_used = |pack: &SpooledPack| {
            let since = pack.unused_since();
            since.is_none_or(|since| now.saturating_duration_since(since) < UNUSED_MAX)
        };
        self.0.packs.lock().retain(|_, pack| is_used(pack));
    }

    /// New requests do not find it any more.
    fn forget(&self, key: &SpoolKey, pack: &Arc<SpooledPack>) {
        let mut packs = self.0.packs.lock();
        if packs.get(key).is_some_and(|it| Arc::ptr_eq(it, pack)) {
            packs.remove(key);
        }
    }
}

impl SpoolTable {
    /// Removes the pack that has not been used for the longest time. False if all are in use.
    fn evict_one(&self) -> bool {
        let mut packs = self.packs.lock();
        let unused = packs.iter().filter_map(|(key, pack)| Some((pack.unused_since()?, key)));
        let oldest = unused.min_by_key(|(since, _)| *since).map(|(_, key)| key.clone());
        oldest.is_some_and(|key| packs.remove(&key).is_some())
    }

    fn take_step(&self) -> bool {
        let more = |used: u64| {
            used.checked_add(ROOM_STEP_BYTES).filter(|used| *used <= self.place.bytes_max)
        };
        self.used_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
    }

    fn give_back(&self, bytes: u64) {
        self.used_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// What one pack takes of the common room and of the disk, until it is dropped.
#[derive(Debug)]
struct SpoolRoom {
    table: Arc<SpoolTable>,
    bytes: u64,
    /// Of the disk, for bytes that are not written yet.
    unwritten: Option<Reservation>,
}

impl SpoolRoom {
    /// Takes room up to so many bytes, that of unused packs if need be; blocking.
    fn reaches(&mut self, bytes: u64) -> bool {
        while self.bytes < bytes {
            if !self.take_step() && !self.table.evict_one() {
                return false;
            }
        }
        true
    }

    fn take_step(&mut self) -> bool {
        let disk = &self.table.place.disk;
        if !disk.has_free(LEFT_FREE_BYTES + ROOM_STEP_BYTES) || !self.table.take_step() {
            return false;
        }
        let has_disk = match &mut self.unwritten {
            Some(reserved) => reserved.grow(ROOM_STEP_BYTES).is_ok(),
            None => {
                self.unwritten = disk.try_reserve(ROOM_STEP_BYTES).ok();
                self.unwritten.is_some()
            }
        };
        if has_disk {
            self.bytes += ROOM_STEP_BYTES;
        } else {
            self.table.give_back(ROOM_STEP_BYTES);
        }
        has_disk
    }

    fn wrote(&mut self, bytes: u64) {
        if let Some(reserved) = &mut self.unwritten {
            reserved.wrote(bytes);
        }
    }

    /// The pack will not grow any more.
    fn shrink_to(&mut self, bytes: u64) {
        self.unwritten = None;
        let surplus = self.bytes.saturating_sub(bytes);
        self.bytes -= surplus;
        self.table.give_back(surplus);
    }
}

impl Drop for SpoolRoom {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

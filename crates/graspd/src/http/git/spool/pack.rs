//! One spooled pack: a file that one writer fills and any number of readers follow. When there is no
//! more room the file becomes a ring, and the writer waits for its slowest reader.

use super::super::rate::RateMeter;
use super::super::shares::Payer;
use super::{KEPT_BYTES_MIN, PackSpool, SpoolKey, SpoolRoom};
use crate::repos::Shown;
use bytes::Bytes;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// How long readers of a ring wait for a slower one.
pub(super) const RING_WAIT_MAX: Duration = Duration::from_secs(10);
/// What a reader reads at a time.
const PIECE_BYTES: u64 = 64 << 10;

/// Why a pack is not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(in super::super) enum SpoolError {
    #[error("git did not finish the answer")]
    Unfinished,
    #[error("a spooled answer could not be read or written")]
    Disk,
    #[error("other clients had to wait for this one")]
    TooSlow,
}

#[derive(Debug)]
pub(super) struct SpooledPack {
    file: File,
    room: Mutex<SpoolRoom>,
    state: Mutex<PackState>,
    /// The first reader's.
    payer: Payer,
    /// For readers: more was written, or it is over.
    grew: Notify,
    /// For the writer: a reader moved on or left.
    was_read: Notify,
    /// Its address is part of the key.
    _shown: Arc<Shown>,
}

#[derive(Debug)]
struct PackState {
    written: u64,
    end: Option<Result<(), SpoolError>>,
    /// The size of the ring, once the file is one.
    ring_bytes: Option<u64>,
    /// Where each reader is.
    readers: BTreeMap<u64, u64>,
    next_reader: u64,
    is_shared: bool,
    unused_since: Instant,
}

impl PackState {
    /// No reader is left for the rest of it.
    fn is_abandoned(&self) -> bool {
        self.readers.is_empty() && self.end.is_none()
    }

    fn slowest(&self) -> u64 {
        self.readers.values().copied().min().unwrap_or(self.written)
    }

    /// Ends readers that are in the way of the writer, if another reader could go on.
    fn end_slow_readers(&mut self, end: u64, ring_bytes: u64) {
        let could_go_on = |at: &u64| end <= at.saturating_add(ring_bytes);
        if self.readers.values().any(could_go_on) {
            self.readers.retain(|_, at| could_go_on(at));
        }
    }
}

impl SpooledPack {
    pub(super) fn new(file: File, room: SpoolRoom, shown: Arc<Shown>, payer: Payer) -> Self {
        let state = PackState {
            written: 0,
            end: None,
            ring_bytes: None,
            readers: BTreeMap::new(),
            next_reader: 0,
            is_shared: false,
            unused_since: Instant::now(),
        };
        Self {
            file,
            room: Mutex::new(room),
            state: Mutex::new(state),
            payer,
            grew: Notify::new(),
            was_read: Notify::new(),
            _shown: shown,
        }
    }

    /// Since when a whole pack has had no reader.
    pub(super) fn unused_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        let is_unused = state.readers.is_empty() && state.end.is_some();
        is_unused.then_some(state.unused_since)
    }

    /// Writes at a place in the file or the ring; blocking.
    fn write_at(&self, bytes: &[u8], at: u64, ring_bytes: Option<u64>) -> io::Result<()> {
        let Some(ring_bytes) = ring_bytes else { return self.file.write_all_at(bytes, at) };
        let offset = at % ring_bytes;
        let until_wrap = usize::try_from(ring_bytes - offset).unwrap_or(usize::MAX);
        let (first, second) = bytes.split_at(bytes.len().min(until_wrap));
        self.file.write_all_at(first, offset)?;
        self.file.write_all_at(second, 0)
    }
}

/// Fills a pack. Dropping it unfinished fails every reader.
#[derive(Debug)]
pub(in super::super) struct PackWriter {
    pack: Arc<SpooledPack>,
    spool: PackSpool,
    key: SpoolKey,
}

impl PackWriter {
    pub(super) fn new(pack: Arc<SpooledPack>, spool: PackSpool, key: SpoolKey) -> Self {
        Self { pack, spool, key }
    }

    /// Another address reads it, too.
    pub(in super::super) fn is_shared(&self) -> bool {
        self.pack.state.lock().is_shared
    }

    /// The writer depends on its slowest reader.
    pub(in super::super) fn is_ring(&self) -> bool {
        self.pack.state.lock().ring_bytes.is_some()
    }

    /// Resolves when no reader is left.
    pub(in super::super) async fn abandoned(&self) {
        loop {
            let mut was_read = std::pin::pin!(self.pack.was_read.notified());
            was_read.as_mut().enable();
            if self.pack.state.lock().is_abandoned() {
                return;
            }
            was_read.await;
        }
    }

    /// Appends one piece. `meter` learns how long the slowest reader is waited for, if it is.
    pub(in super::super) async fn write(
        &self,
        piece: Bytes,
        meter: &RateMeter,
    ) -> Result<(), SpoolError> {
        let len = piece.len() as u64;
        let end = self.pack.state.lock().written.saturating_add(len);
        if !self.is_ring() && !self.has_room(end).await {
            self.become_ring();
        }
        self.wait_for_readers(end, meter).await;
        let pack = Arc::clone(&self.pack);
        let writing = tokio::task::spawn_blocking(move || {
            let (at, ring_bytes) = {
                let state = pack.state.lock();
                (state.written, state.ring_bytes)
            };
            pack.write_at(&piece, at, ring_bytes)?;
            pack.room.lock().wrote(len);
            pack.state.lock().written = end;
            pack.grew.notify_waiters();
            io::Result::Ok(())
        });
        match writing.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(SpoolError::Disk),
        }
    }

    async fn has_room(&self, bytes: u64) -> bool {
        if bytes <= self.pack.room.lock().bytes {
            return true;
        }
        let pack = Arc::clone(&self.pack);
        let taking = tokio::task::spawn_blocking(move || pack.room.lock().reaches(bytes));
        taking.await.unwrap_or(false)
    }

    /// Later requests cannot begin at its start any more.
    fn become_ring(&self) {
        self.spool.forget(&self.key, &self.pack);
        let bytes = self.pack.room.lock().bytes;
        self.pack.state.lock().ring_bytes = Some(bytes);
    }

    async fn wait_for_readers(&self, end: u64, meter: &RateMeter) {
        let mut until = Instant::now() + RING_WAIT_MAX;
        loop {
            let mut was_read = std::pin::pin!(self.pack.was_read.notified());
            was_read.as_mut().enable();
            {
                let mut state = self.pack.state.lock();
                let Some(ring_bytes) = state.ring_bytes else { return };
                if Instant::now() >= until {
                    state.end_slow_readers(end, ring_bytes);
                    until = Instant::now() + RING_WAIT_MAX;
                }
                if end <= state.slowest().saturating_add(ring_bytes) {
                    return;
                }
            }
            meter.begin_wait();
            let _ = timeout_at(until, was_read).await;
            meter.end_wait();
        }
    }

    /// Resolves when another address reads it, too.
    pub(in super::super) async fn shared(&self) {
        loop {
            let mut was_read = std::pin::pin!(self.pack.was_read.notified());
            was_read.as_mut().enable();
            if self.is_shared() {
                return;
            }
            was_read.await;
        }
    }

    pub(in super::super) fn written_bytes(&self) -> u64 {
        self.pack.state.lock().written
    }

    /// Readers get what was written and then this end. A whole pack is kept for others.
    pub(in super::super) fn finish(self, end: Result<(), SpoolError>) {
        let written = self.written_bytes();
        if end.is_err() || written < KEPT_BYTES_MIN {
            self.spool.forget(&self.key, &self.pack);
        }
        self.pack.room.lock().shrink_to(written);
        self.end(end);
    }

    fn end(&self, end: Result<(), SpoolError>) {
        let mut state = self.pack.state.lock();
        state.unused_since = Instant::now();
        state.end.get_or_insert(end);
        drop(state);
        self.pack.grew.notify_waiters();
    }
}

impl Drop for PackWriter {
    fn drop(&mut self) {
        let is_over = self.pack.state.lock().end.is_some();
        if !is_over {
            self.spool.forget(&self.key, &self.pack);
            self.end(Err(SpoolError::Unfinished));
        }
    }
}

/// Follows a pack from its start.
#[derive(Debug)]
pub(in super::super) struct PackReader {
    pack: Arc<SpooledPack>,
    id: u64,
    at: u64,
}

impl PackReader {
    /// `None` if its start is not there any more, or its end will never be.
    pub(super) fn join(pack: Arc<SpooledPack>, payer: Payer) -> Option<Self> {
        let mut state = pack.state.lock();
        let is_new = state.next_reader == 0;
        let is_useless = matches!(state.end, Some(Err(_))) || state.ring_bytes.is_some();
        if is_useless || (state.is_abandoned() && !is_new) {
            return None;
        }
        let id = state.next_reader;
        state.next_reader += 1;
        state.readers.insert(id, 0);
        state.is_shared = state.is_shared || payer != pack.payer;
        drop(state);
        pack.was_read.notify_waiters();
        Some(Self { pack, id, at: 0 })
    }

    /// Waits for the first byte. False if the pack failed without one.
    pub(in super::super) async fn has_begun(&self) -> bool {
        loop {
            let mut grew = std::pin::pin!(self.pack.grew.notified());
            grew.as_mut().enable();
            {
                let state = self.pack.state.lock();
                if state.written > 0 || state.end.is_some() {
                    return state.written > 0 || state.end == Some(Ok(()));
                }
            }
            grew.await;
        }
    }

    /// The next piece; `None` at the end of a whole pack.
    pub(in super::super) async fn next(&mut self) -> Result<Option<Bytes>, SpoolError> {
        let pack = Arc::clone(&self.pack);
        loop {
            let mut grew = std::pin::pin!(pack.grew.notified());
            grew.as_mut().enable();
            let (written, end, ring_bytes) = {
                let state = pack.state.lock();
                if !state.readers.contains_key(&self.id) {
                    return Err(SpoolError::TooSlow);
                }
                (state.written, state.end, state.ring_bytes)
            };
            match (written > self.at, end) {
                (true, _) => return self.read(written, ring_bytes).await.map(Some),
                (false, Some(end)) => return end.map(|()| None),
                (false, None) => grew.await,
            }
        }
    }

    async fn read(&mut self, written: u64, ring_bytes: Option<u64>) -> Result<Bytes, SpoolError> {
        let offset = ring_bytes.map_or(self.at, |ring_bytes| self.at % ring_bytes);
        let until_wrap = ring_bytes.map_or(u64::MAX, |ring_bytes| ring_bytes - offset);
        let len = (written - self.at).min(PIECE_BYTES).min(until_wrap);
        let pack = Arc::clone(&self.pack);
        let reading = tokio::task::spawn_blocking(move || {
            let mut piece = vec![0; usize::try_from(len).unwrap_or_default()];
            pack.file.read_exact_at(&mut piece, offset).map(|()| Bytes::from(piece))
        });
        let piece = reading.await.ok().and_then(Result::ok).ok_or(SpoolError::Disk)?;
        self.at += len;
        match self.pack.state.lock().readers.get_mut(&self.id) {
            Some(at) => *at = self.at,
            // The writer may have overwritten the bytes meanwhile.
            None => return Err(SpoolError::TooSlow),
        }
        self.pack.was_read.notify_waiters();
        Ok(piece)
    }
}

impl Drop for PackReader {
    fn drop(&mut self) {
        let mut state = self.pack.state.lock();
        state.readers.remove(&self.id);
        state.unused_since = Instant::now();
        drop(state);
        self.pack.was_read.notify_waiters();
    }
}

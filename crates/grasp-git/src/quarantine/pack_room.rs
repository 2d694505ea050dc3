//! Disk space for one pack on its way into quarantine: reserved before git gets the bytes, and given
//! back as git writes them. A thin pack grows while git completes it, so its file is watched until
//! git has ended.

use crate::disk_reserve::{DiskReserve, NoRoom, Reservation};
use std::path::Path;
use std::time::Duration;

/// Directories and small files of a quarantine, an index without entries.
const QUARANTINE_BYTES: u64 = 64 << 10;
/// In the index 20 for the id, 4 for the checksum and up to 12 for the offset; 4 in the reverse index.
const INDEX_BYTES_PER_OBJECT: u64 = 40;
/// Reserved ahead of git while it completes a thin pack. It compresses what it appends, so it writes
/// far less than this between two looks.
const THIN_AHEAD_BYTES: u64 = 4 << 20;
const LOOK_EVERY: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct PackRoom {
    reservation: Reservation,
    /// Objects whose index entries are reserved.
    objects: u32,
    /// The last piece that git took from its input, and may not have written yet.
    taken_bytes: u64,
    /// Git may append objects to the pack.
    thin: bool,
}

impl PackRoom {
    pub(super) fn open(disk: &DiskReserve) -> Result<Self, NoRoom> {
        let reservation = disk.try_reserve(QUARANTINE_BYTES)?;
        Ok(Self { reservation, objects: 0, taken_bytes: 0, thin: false })
    }

    /// For a piece of the pack, and for the index entries of all objects that have begun by its end.
    pub(super) fn reserve(&mut self, piece_bytes: u64, objects: u32) -> Result<(), NoRoom> {
        let new = u64::from(objects.saturating_sub(self.objects));
        self.reservation.grow(piece_bytes.saturating_add(new * INDEX_BYTES_PER_OBJECT))?;
        self.objects = self.objects.max(objects);
        Ok(())
    }

    /// Git has taken a piece, so it has written the one before.
    pub(super) fn taken(&mut self, piece_bytes: u64) {
        let written = std::mem::replace(&mut self.taken_bytes, piece_bytes);
        self.reservation.wrote(written);
    }

    /// Before git gets the end of a pack with deltas against objects that may not be in it.
    pub(super) fn expect_growth(&mut self) -> Result<(), NoRoom> {
        self.thin = true;
        self.reservation.grow(THIN_AHEAD_BYTES)
    }

    /// Follows git's appending to a pack of so many bytes; ends only when there is no room for more.
    pub(super) async fn follow_growth(&mut self, file: &Path, pack_bytes: u64) -> NoRoom {
        let mut known_bytes = pack_bytes;
        while self.thin {
            tokio::time::sleep(LOOK_EVERY).await;
            let Ok(meta) = std::fs::metadata(file) else { continue };
            let grown = meta.len().saturating_sub(known_bytes);
            known_bytes += grown;
            self.reservation.wrote(grown);
            if let Err(no_room) = self.reservation.grow(grown) {
                return no_room;
            }
        }
        std::future::pending().await
    }
}

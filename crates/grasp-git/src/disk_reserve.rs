//! Room on the file system of the git data, in one account for everything that is written there. Free
//! space is measured for every request, less what other transfers may still write. Invariant: the sum
//! of all reservations never reaches into the reserve.

use grasp_core::human_bytes;
use rustix::fs::statvfs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Says how many bytes are free where the path is; `None` if the system does not tell.
pub type MeasureFree = fn(&Path) -> Option<u64>;

/// Free space below which nothing more is written. Clones share one account.
#[derive(Debug, Clone)]
pub struct DiskReserve(Arc<DiskAccount>);

#[derive(Debug)]
struct DiskAccount {
    path: PathBuf,
    reserve_bytes: u64,
    measure: MeasureFree,
    /// Reserved, and not written yet.
    promised_bytes: Mutex<u64>,
}

/// There is not enough room; the sentence is for the person whose transfer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} free on this server's disk, {} kept in reserve{}: no room for more git data; tell its \
     operator, and try again later",
    human_bytes(*free_bytes), human_bytes(*reserve_bytes), promised(*promised_bytes)
)]
pub struct NoRoom {
    pub free_bytes: u64,
    pub reserve_bytes: u64,
    /// What other transfers may still write.
    pub promised_bytes: u64,
}

fn promised(bytes: u64) -> String {
    match bytes {
        0 => String::new(),
        _ => format!(", {} promised to transfers under way", human_bytes(bytes)),
    }
}

impl DiskReserve {
    pub fn new(path: &Path, reserve_bytes: u64) -> Self {
        Self::measured_by(free_bytes, path, reserve_bytes)
    }

    /// One that is told by `measure` how much is free.
    pub fn measured_by(measure: MeasureFree, path: &Path, reserve_bytes: u64) -> Self {
        let (path, promised_bytes) = (path.to_owned(), Mutex::new(0));
        Self(Arc::new(DiskAccount { path, reserve_bytes, measure, promised_bytes }))
    }

    /// One that never refuses.
    pub fn unlimited() -> Self {
        Self::measured_by(|_| None, Path::new("/"), 0)
    }

    /// Sets bytes aside for one transfer.
    pub fn try_reserve(&self, bytes: u64) -> Result<Reservation, NoRoom> {
        let mut it = Reservation { of: self.clone(), bytes: 0 };
        it.grow(bytes)?;
        Ok(it)
    }

    /// Is so much free above the reserve and above what transfers may still write?
    pub fn has_free(&self, bytes: u64) -> bool {
        let needed = self.promised().saturating_add(self.reserve_bytes()).saturating_add(bytes);
        self.free_bytes().is_none_or(|free| free >= needed)
    }

    /// Less is free than the reserve. Reservations do not count.
    pub fn shortage(&self) -> Option<NoRoom> {
        let reserve_bytes = self.reserve_bytes();
        let free_bytes = self.free_bytes().filter(|free| *free < reserve_bytes)?;
        Some(NoRoom { free_bytes, reserve_bytes, promised_bytes: 0 })
    }

    /// Measured now; `None` if the system does not tell.
    pub fn free_bytes(&self) -> Option<u64> {
        (self.0.measure)(&self.0.path)
    }

    pub fn reserve_bytes(&self) -> u64 {
        self.0.reserve_bytes
    }

    fn promised(&self) -> MutexGuard<'_, u64> {
        self.0.promised_bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that one transfer may still write. Dropping it gives back the bytes that it did not write.
#[derive(Debug)]
pub struct Reservation {
    of: DiskReserve,
    bytes: u64,
}

impl Reservation {
    /// Sets more bytes aside. After a refusal the reservation is as large as before.
    pub fn grow(&mut self, bytes: u64) -> Result<(), NoRoom> {
        let mut promised = self.of.promised();
        // Measured under the lock: what one transfer sees as free is not promised to another.
        if let Some(free_bytes) = self.of.free_bytes() {
            let reserve_bytes = self.of.reserve_bytes();
            let needed = promised.saturating_add(bytes).saturating_add(reserve_bytes);
            if free_bytes < needed {
                return Err(NoRoom { free_bytes, reserve_bytes, promised_bytes: *promised });
            }
        }
        *promised = promised.saturating_add(bytes);
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    /// So many of the bytes are on the disk now, where measuring finds them.
    pub fn wrote(&mut self, bytes: u64) {
        let written = bytes.min(self.bytes);
        self.bytes -= written;
        let mut promised = self.of.promised();
        *promised = promised.saturating_sub(written);
    }

    /// Reserved and not written.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.wrote(self.bytes);
    }
}

fn free_bytes(path: &Path) -> Option<u64> {
    let disk = statvfs(path).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn disk() -> DiskReserve {
        DiskReserve::measured_by(|_| Some(110 * MIB), Path::new("/"), 105 * MIB)
    }

    #[test]
    fn transfers_at_the_same_time_share_what_is_free_above_the_reserve() {
        let disk = disk();
        let mut first = disk.try_reserve(2 * MIB).unwrap();
        let second = disk.try_reserve(3 * MIB).unwrap();
        let refused =
            NoRoom { free_bytes: 110 * MIB, reserve_bytes: 105 * MIB, promised_bytes: 5 * MIB };
        assert_eq!(disk.try_reserve(1).unwrap_err(), refused);
        assert_eq!(first.grow(1), Err(refused));
        assert_eq!((first.bytes(), disk.shortage()), (2 * MIB, None));
        assert!(disk.has_free(0) && !disk.has_free(1));
        drop(second);
        first.grow(3 * MIB).unwrap();
        first.wrote(MIB);
        assert_eq!(first.bytes(), 4 * MIB);
        drop(first);
        assert_eq!(disk.try_reserve(5 * MIB).unwrap().bytes(), 5 * MIB);
    }

    #[test]
    fn a_refusal_names_free_space_and_reserve_in_units_people_use() {
        let disk = disk();
        let alone = "110 MiB free on this server's disk, 105 MiB kept in reserve: no room for more \
                     git data; tell its operator, and try again later";
        assert_eq!(disk.try_reserve(6 * MIB).unwrap_err().to_string(), alone);
        let _other = disk.try_reserve(MIB).unwrap();
        let text = disk.try_reserve(5 * MIB).unwrap_err().to_string();
        assert!(text.contains("reserve, 1 MiB promised to transfers under way: no room"), "{text}");
    }

    #[test]
    fn a_system_that_does_not_tell_refuses_nothing() {
        let disk = DiskReserve::unlimited();
        assert!(disk.try_reserve(u64::MAX).is_ok() && disk.shortage().is_none());
        assert!(
            free_bytes(Path::new("/")).is_some() && free_bytes(Path::new("/no/such")).is_none()
        );
    }
}

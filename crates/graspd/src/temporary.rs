//! The directory of a server that keeps nothing: made at its start, removed at its end, and by the next
//! start if the server was killed. A lock in it tells whether its process still runs.

use crate::datadir::{self, LOCK};
use anyhow::{Context, Result, bail};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::process::geteuid;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

const PREFIX: &str = "graspd-memory-";
/// Another start may take a new directory for an abandoned one, in the moment before it is locked.
const ATTEMPTS_MAX: usize = 5;

/// Removed when it is dropped.
#[derive(Debug)]
pub struct TemporaryData {
    directory: TempDir,
    _lock: File,
}

impl TemporaryData {
    /// A new directory, after those that killed servers left were removed.
    pub fn create() -> Result<Self> {
        let parent = std::env::temp_dir();
        Self::create_in(&parent)
            .with_context(|| format!("cannot make a directory in {}", parent.display()))
    }

    fn create_in(parent: &Path) -> Result<Self> {
        remove_abandoned(parent);
        for _ in 0..ATTEMPTS_MAX {
            let directory = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            if let Ok(lock) = datadir::try_lock(directory.path())
                && directory.path().join(LOCK).exists()
            {
                return Ok(Self { directory, _lock: lock });
            }
        }
        bail!("others remove it at once");
    }

    /// A new directory below.
    pub fn make(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.directory.path().join(name);
        fs::create_dir(&path)?;
        Ok(path)
    }
}

/// What cannot be read or removed stays: it is tried again at the next start.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX)
            && entry.metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == geteuid().as_raw());
        if let Some(_lock) = is_ours.then(|| lock_abandoned(&entry.path())).flatten() {
            match fs::remove_dir_all(entry.path()) {
                Ok(()) => tracing::info!(path = %entry.path().display(), "a killed server's data"),
                Err(error) => tracing::warn!(path = %entry.path().display(), %error, "stays"),
            }
        }
    }
}

/// The lock, if there is one that no process holds.
fn lock_abandoned(directory: &Path) -> Option<File> {
    let no_links = i32::try_from(OFlags::NOFOLLOW.bits()).ok()?;
    let lock =
        OpenOptions::new().write(true).custom_flags(no_links).open(directory.join(LOCK)).ok()?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_start_removes_what_a_killed_server_left_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let running = TemporaryData::create_in(parent.path()).unwrap();
        let killed = TemporaryData::create_in(parent.path()).unwrap();
        fs::write(killed.make("git").unwrap().join("file"), "x").unwrap();
        // A kill closes the lock and runs no destructor.
        let TemporaryData { directory, _lock } = killed;
        let left = directory.keep();
        drop(_lock);
        let stranger = parent.path().join("graspd-memory-without-a-lock");
        fs::create_dir(&stranger).unwrap();
        let third = TemporaryData::create_in(parent.path()).unwrap();
        assert!(!left.exists());
        for path in [running.directory.path(), third.directory.path(), &stranger] {
            assert!(path.exists(), "{}", path.display());
        }
        drop((running, third));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 1, "an orderly end removes it");
    }
}

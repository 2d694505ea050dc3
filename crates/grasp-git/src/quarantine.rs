//! Where a pack waits until it is allowed in: a minimal bare repository that borrows the objects of
//! the one it is meant for. Who may push is decided elsewhere. What a quarantine holds after `receive`
//! is complete, checked and on the disk; what fails leaves nothing behind.

mod intake;
mod pack_room;
mod refusal;

pub use refusal::ReceiveError;

use crate::disk_reserve::Reservation;
use crate::durable::{remove_tree, sync_dir};
use crate::gate::{Gate, PackLimits, Seen};
use crate::gitmodules::{self, Leash};
use crate::layout::Layout;
use crate::process::Git;
use grasp_core::RepoId;
use grasp_core::id::hex_encode;
use rustix::rand::{GetRandomFlags, getrandom};
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use tokio::io::AsyncRead;

pub(crate) const HEAD: &str = "ref: refs/heads/main\n";
/// Only files named so may land.
pub(crate) const PACK_PREFIX: &str = "pack-";
/// A process that is being ended may still write while its directory goes.
const REMOVE_ATTEMPTS_MAX: usize = 100;

/// Deleted when dropped, unless kept.
#[derive(Debug)]
pub struct Quarantine {
    name: String,
    path: PathBuf,
    kept: bool,
    /// For its directories, and for those of the repository that it may make.
    room: Option<Reservation>,
    links: PackLinks,
}

/// Whether everything that the objects of a pack refer to must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PackLinks {
    Checked,
    /// For packs that are only looked into.
    Unchecked,
}

/// What arrived. A thin pack is completed, so it may take more room than it had bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Received {
    pub bytes: u64,
    pub objects: u32,
    pub disk_bytes: u64,
}

impl Quarantine {
    /// A new one, for a push into `repo`; blocking, but little.
    pub fn open(layout: &Layout, repo: &RepoId) -> io::Result<Self> {
        let it = Self::apart(layout)?;
        if layout.repository(repo).join("objects").is_dir() {
            fs::write(it.alternates(), alternates_line(repo))?;
        }
        Ok(it)
    }

    /// One that borrows from nobody, so all it gets to hold is whole in itself: to mend what others
    /// would borrow from, or to look into.
    pub fn apart(layout: &Layout) -> io::Result<Self> {
        let name = random_hex::<16>()?;
        let path = layout.quarantine(&name)?;
        fs::create_dir(&path)?;
        let it = Self { name, path, kept: false, room: None, links: PackLinks::Checked };
        for dir in ["objects", "objects/pack", "objects/info", "refs"] {
            fs::create_dir(it.path.join(dir))?;
        }
        fs::write(it.path.join("HEAD"), HEAD)?;
        Ok(it)
    }

    /// One for commits without their trees, to look into. It is not closed, so it must never land.
    pub fn of_commits(layout: &Layout) -> io::Result<Self> {
        let mut it = Self::apart(layout)?;
        it.links = PackLinks::Unchecked;
        Ok(it)
    }

    /// One that was kept earlier.
    pub fn reopen(layout: &Layout, name: &str) -> io::Result<Self> {
        let path = layout.quarantine(name)?;
        let links = PackLinks::Checked;
        Ok(Self { name: name.to_owned(), path, kept: true, room: None, links })
    }

    /// Keeps disk space reserved until it is dropped.
    pub fn with_room(mut self, room: Reservation) -> Self {
        self.room = Some(room);
        self
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// A bare repository any git can read, as long as the one it borrows from is there.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// From now on only `discard` or `land` removes it.
    pub fn keep(&mut self) {
        self.kept = true;
    }

    /// Takes one pack in. After an error the rest of `pack` is unread, and git is ended.
    pub async fn receive(
        &self,
        git: &Git,
        limits: &PackLimits,
        pack: &mut (dyn AsyncRead + Send + Unpin),
    ) -> Result<Received, ReceiveError> {
        let until = Instant::now() + limits.deadline;
        let files = Files::new(&self.path)?;
        let place =
            intake::PackPlace { dir: &self.path, file: &files.unchecked, links: self.links };
        let taking = intake::take(git, limits, pack, place);
        let late = |_| ReceiveError::Late { secs: limits.deadline.as_secs() };
        let seen = tokio::time::timeout(limits.deadline, taking).await.map_err(late)??;
        if seen.objects == 0 {
            return Ok(Received { bytes: seen.bytes, ..Received::default() });
        }
        let path = self.path.clone();
        let waiting = Waiting::default();
        let (abandoned, bytes_max) = (Arc::clone(&waiting.0), limits.delta_bytes_max(seen.bytes));
        let leash = Leash { until, bytes_max, abandoned };
        let links = self.links;
        let settle = move || {
            if links == PackLinks::Checked {
                let index = files.unchecked.with_extension("idx");
                gitmodules::check(&path, &index, &seen, &leash)?;
            }
            settle(&path, &files, &seen)
        };
        let settled = tokio::task::spawn_blocking(settle).await;
        drop(waiting);
        settled.unwrap_or_else(|error| Err(io::Error::other(error).into()))
    }

    fn alternates(&self) -> PathBuf {
        self.path.join("objects/info/alternates")
    }
}

/// Work on a thread of its own learns by this that nobody waits for it any more.
#[derive(Debug, Default)]
struct Waiting(Arc<AtomicBool>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// How a quarantine says whose objects it borrows.
pub(crate) fn alternates_line(repo: &RepoId) -> Vec<u8> {
    let mut line = Layout::alternate(repo).as_os_str().as_bytes().to_vec();
    line.push(b'\n');
    line
}

/// A pack's name while it may still be refused, and after. git checks some things only when its own
/// files are complete, so complete is not yet good.
struct Files {
    unchecked: PathBuf,
    good: PathBuf,
}

impl Files {
    fn new(quarantine: &Path) -> io::Result<Self> {
        // Never the name of a pack elsewhere: maintenance may be removing that.
        let name = random_hex::<20>()?;
        let packs = quarantine.join("objects/pack");
        let unchecked = packs.join(format!("unchecked-{name}.pack"));
        Ok(Self { unchecked, good: packs.join(format!("{PACK_PREFIX}{name}.pack")) })
    }

    /// Gives the files their good names, the index last; says how large they are.
    fn approve(&self) -> io::Result<u64> {
        let mut bytes = 0;
        for extension in ["pack", "rev", "idx"] {
            let file = self.unchecked.with_extension(extension);
            // Not every git writes all of them.
            if let Ok(meta) = fs::metadata(&file) {
                bytes += meta.len();
                fs::rename(&file, self.good.with_extension(extension))?;
            }
        }
        Ok(bytes)
    }
}

fn settle(quarantine: &Path, files: &Files, seen: &Seen) -> Result<Received, ReceiveError> {
    let disk_bytes = files.approve()?;
    sync_quarantine(quarantine)?;
    Ok(Received { bytes: seen.bytes, objects: seen.objects, disk_bytes })
}

/// Everything but the pack's own files, which git has synced.
pub(crate) fn sync_quarantine(quarantine: &Path) -> io::Result<()> {
    let objects = quarantine.join("objects");
    for file in [quarantine.join("HEAD"), objects.join("info/alternates")] {
        match File::open(file) {
            Ok(file) => file.sync_all()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    for dir in [&objects.join("pack"), &objects.join("info"), &objects, quarantine] {
        sync_dir(dir)?;
    }
    quarantine.parent().map_or(Ok(()), sync_dir)
}

fn random_hex<const N: usize>() -> io::Result<String> {
    let mut bytes = [0; N];
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(hex_encode(&bytes))
}

impl Drop for Quarantine {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let path = std::mem::take(&mut self.path);
        // Removing a large pack takes the file system a while.
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || remove(&path))),
            Err(_) => remove(&path),
        }
    }
}

fn remove(path: &Path) {
    let mut removed = remove_tree(path);
    for _ in 1..REMOVE_ATTEMPTS_MAX {
        match &removed {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                removed = remove_tree(path);
            }
            _ => break,
        }
    }
    if let Err(error) = removed {
        tracing::warn!(path = %path.display(), %error, "a quarantine stays until the next start");
    }
}

//! Maintenance of one repository: few packs, a bitmap and a commit-graph, so that fetches stay cheap.
//! When is decided elsewhere. It never removes an object, and pushes may land and fetches run meanwhile.

use crate::durable::{remove_file, sync_dir};
use crate::process::{Git, GitError};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Rolls small packs into larger ones. Only packs are rewritten, whole, so what nothing refers to stays.
const REPACK: [&str; 6] =
    ["repack", "-d", "-q", "--geometric=2", "--write-midx", "--write-bitmap-index"];
const COMMIT_GRAPH: [&str; 6] =
    ["commit-graph", "write", "--reachable", "--changed-paths", "--split", "--no-progress"];

const LOCKS: [&str; 2] =
    ["objects/pack/multi-pack-index.lock", "objects/info/commit-graphs/commit-graph-chain.lock"];
const UNFINISHED: [&[u8]; 2] = [b"tmp_", b".tmp-"];

/// What maintenance found and what it left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tidied {
    pub packs_before: usize,
    pub packs_after: usize,
}

/// Only one may tidy a repository at a time.
pub async fn tidy(git: &Git, dir: &Path) -> Result<Tidied, GitError> {
    let leftovers_of = dir.to_owned();
    blocking(move || remove_leftovers(&leftovers_of)).await?;
    let packs_before = count(dir).await?;
    git.tidy("repack", dir, &REPACK).await?;
    git.tidy("commit-graph", dir, &COMMIT_GRAPH).await?;
    let dir_packs = dir.join("objects/pack");
    blocking(move || sync_dir(&dir_packs)).await?;
    Ok(Tidied { packs_before, packs_after: count(dir).await? })
}

/// How many packs a fetch has to look through; blocking.
pub fn packs(dir: &Path) -> io::Result<usize> {
    let mut count = 0;
    match fs::read_dir(dir.join("objects/pack")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        entries => {
            for entry in entries? {
                count += usize::from(entry?.path().extension() == Some(OsStr::new("idx")));
            }
        }
    }
    Ok(count)
}

/// What maintenance that was ended in the middle left behind: nobody else writes these names here.
fn remove_leftovers(dir: &Path) -> io::Result<()> {
    for lock in LOCKS {
        remove_file(&dir.join(lock))?;
    }
    for entry in fs::read_dir(dir.join("objects/pack"))? {
        let entry = entry?;
        let name = entry.file_name();
        if UNFINISHED.iter().any(|prefix| name.as_bytes().starts_with(prefix)) {
            remove_file(&entry.path())?;
        }
    }
    Ok(())
}

async fn count(dir: &Path) -> Result<usize, GitError> {
    let dir = dir.to_owned();
    blocking(move || packs(&dir)).await
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, GitError> {
    let done = tokio::task::spawn_blocking(work).await;
    let done = done.unwrap_or_else(|error| Err(io::Error::other(error)));
    done.map_err(|source| GitError::Start { what: "maintenance", source })
}

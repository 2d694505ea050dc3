//! Maintenance of one repository: few packs, a bitmap and a commit-graph, so that fetches stay cheap.
//! When is decided elsewhere. It never removes an object, and pushes may land and fetches run meanwhile.
//! Packs that other repositories share stay as they are: a rewritten one would be a copy. Of many shared
//! packs the small ones are rolled together nevertheless, because a copy of them costs little.

use crate::durable::{remove_file, sync_dir};
use crate::process::{Git, GitError};
use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Rolls small packs into larger ones. Only packs are rewritten, whole, so what nothing refers to stays.
const REPACK: [&str; 6] =
    ["repack", "-d", "-q", "--geometric=2", "--write-midx", "--write-bitmap-index"];
const COMMIT_GRAPH: [&str; 6] =
    ["commit-graph", "write", "--reachable", "--changed-paths", "--split", "--no-progress"];

const PACKS: &str = "objects/pack";
const COMMIT_GRAPHS: &str = "objects/info/commit-graphs";
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
    blocking(move || remove_maintenance_leftovers(&leftovers_of)).await?;
    let packs_before = count(dir).await?;
    let look = dir.join(PACKS);
    let SharedPacks { names, own_bytes } = blocking(move || SharedPacks::of(&look)).await?;
    // What is rolled together is there twice for a moment.
    let _room = git.disk().try_reserve(own_bytes).map_err(GitError::NoRoom)?;
    let keep = names.iter().map(|name| format!("--keep-pack={name}")).collect::<Vec<_>>();
    let args: Vec<&str> = REPACK.into_iter().chain(keep.iter().map(String::as_str)).collect();
    git.tidy("repack", dir, &args).await?;
    git.tidy("commit-graph", dir, &COMMIT_GRAPH).await?;
    let dir_packs = dir.join(PACKS);
    blocking(move || sync_dir(&dir_packs)).await?;
    Ok(Tidied { packs_before, packs_after: count(dir).await? })
}

/// The packs of a repository: those that others have too, and how large the rest is.
#[derive(Debug, Default)]
struct SharedPacks {
    /// Files of packs that have several names, hence several repositories.
    names: Vec<String>,
    own_bytes: u64,
}

/// From so many shared packs on, those below `SMALL_BYTES` are rolled together as well.
const SHARED_MAX: usize = 100;
const SMALL_BYTES: u64 = 64 << 10;

impl SharedPacks {
    fn of(packs: &Path) -> io::Result<Self> {
        let mut it = Self::default();
        let mut shared = Vec::new();
        for entry in fs::read_dir(packs)? {
            let entry = entry?;
            if entry.path().extension() != Some(OsStr::new("pack")) {
                continue;
            }
            let (meta, name) = (entry.metadata()?, entry.file_name().into_string());
            match name {
                Ok(name) if meta.nlink() > 1 => shared.push((name, meta.len())),
                _ => it.own_bytes += meta.len(),
            }
        }
        let are_many = shared.len() > SHARED_MAX;
        for (name, bytes) in shared {
            match are_many && bytes < SMALL_BYTES {
                true => it.own_bytes += bytes,
                false => it.names.push(name),
            }
        }
        Ok(it)
    }
}

/// How many packs came since the last maintenance; blocking.
pub fn new_packs(dir: &Path) -> io::Result<usize> {
    let known = match fs::File::open(dir.join(PACKS).join("multi-pack-index")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        index => listed(&index?)?,
    };
    Ok(packs(dir)?.saturating_sub(known))
}

/// How many packs a multi-pack-index says it covers.
fn listed(mut index: &fs::File) -> io::Result<usize> {
    // Signature, version, hash, chunks, base files; then the number of packs.
    let mut header = [0; 12];
    index.read_exact(&mut header)?;
    let [.., a, b, c, d] = header;
    Ok(usize::try_from(u32::from_be_bytes([a, b, c, d])).unwrap_or(usize::MAX))
}

/// How many packs a fetch has to look through; blocking.
pub fn packs(dir: &Path) -> io::Result<usize> {
    let mut count = 0;
    match fs::read_dir(dir.join(PACKS)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        entries => {
            for entry in entries? {
                count += usize::from(entry?.path().extension() == Some(OsStr::new("idx")));
            }
        }
    }
    Ok(count)
}

/// Removes locks and temporary files of maintenance that a kill interrupted. Only maintenance writes these
/// names, so the caller makes sure that none runs in this repository. Blocking.
pub fn remove_maintenance_leftovers(dir: &Path) -> io::Result<()> {
    for lock in LOCKS {
        remove_file(&dir.join(lock))?;
    }
    for written_by_git in [PACKS, COMMIT_GRAPHS] {
        remove_unfinished(&dir.join(written_by_git))?;
    }
    Ok(())
}

fn remove_unfinished(dir: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
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

//! Whether a repository's objects can be relied upon, and taking packs out of use that cannot. Never
//! deletes anything: what is taken out stays beside the repository for a person to look at.

use crate::durable::{remove_file, remove_tree, sync_dir};
use crate::process::{Git, GitError};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const FSCK: [&str; 5] = ["fsck", "--full", "--no-dangling", "--no-progress", "--no-reflogs"];
const PACKS: &str = "objects/pack";
/// Where packs go that cannot be relied upon.
const ASIDE: &str = "damaged";
/// Made from the packs, and wrong without them.
const DERIVED_FILES: [&str; 2] = ["objects/pack/multi-pack-index", "objects/info/commit-graph"];
const DERIVED_DIR: &str = "objects/info/commit-graphs";

/// Reads every object: is all of it there, and is it what it claims to be? An error if that could
/// not be found out.
pub async fn is_sound(git: &Git, dir: &Path) -> Result<bool, GitError> {
    match verdict(git.tidy("fsck", dir, &FSCK).await) {
        // It gives up at some kinds of damage, as it does when it has no memory left.
        Err(gave_up @ GitError::Failed { code: Some(_), .. }) => {
            let damaged = damaged_packs(git, dir).await?;
            if damaged.is_empty() { Err(gave_up) } else { Ok(false) }
        }
        told => told,
    }
}

/// Names of packs some of whose objects cannot be read.
pub async fn damaged_packs(git: &Git, dir: &Path) -> Result<Vec<String>, GitError> {
    let listed = dir.join(PACKS);
    let indexes = tokio::task::spawn_blocking(move || files(&listed, "idx")).await;
    let indexes = indexes.unwrap_or_else(|error| Err(io::Error::other(error)));
    let failed = |source| GitError::Start { what: "verify-pack", source };
    let mut damaged = Vec::new();
    for index in indexes.map_err(failed)? {
        let Some(path) = index.to_str() else { continue };
        if !verdict(git.tidy("verify-pack", dir, &["verify-pack", path]).await)? {
            damaged.extend(index.file_stem().and_then(OsStr::to_str).map(str::to_owned));
        }
    }
    Ok(damaged)
}

/// Only a verdict counts as one; a process that could not do its work (128) says nothing.
fn verdict(ended: Result<(), GitError>) -> Result<bool, GitError> {
    match ended {
        Ok(()) => Ok(true),
        Err(GitError::Failed { code: Some(code), signal: None, .. }) if code < 128 => Ok(false),
        Err(error) => Err(error),
    }
}

fn files(dir: &Path, extension: &str) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension() == Some(OsStr::new(extension)) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Takes packs out of use; blocking. May be repeated.
pub fn set_packs_aside(dir: &Path, packs: &[String]) -> io::Result<()> {
    if packs.is_empty() {
        return Ok(());
    }
    let aside = dir.join(ASIDE);
    fs::create_dir_all(&aside)?;
    for entry in fs::read_dir(dir.join(PACKS))? {
        let entry = entry?;
        let name = entry.file_name();
        let stem = Path::new(&name).file_stem().map(OsStr::as_bytes).unwrap_or_default();
        if packs.iter().any(|pack| pack.as_bytes() == stem) {
            fs::rename(entry.path(), aside.join(&name))?;
        }
    }
    for file in DERIVED_FILES {
        remove_file(&dir.join(file))?;
    }
    remove_tree(&dir.join(DERIVED_DIR))?;
    sync_dir(&dir.join(PACKS))?;
    sync_dir(&aside)?;
    sync_dir(dir)
}

//! Moves what waited in quarantine into the served repository, and clears away what will not. Blocking,
//! for one writer at a time. Every step may be repeated after a crash: files move one by one, a pack's
//! index last, and a quarantine goes only when all of it is safe.

use crate::durable::{remove_tree, sync_dir, write_new};
use crate::layout::Layout;
use crate::quarantine::{HEAD, PACK_PREFIX, alternates_line};
use grasp_core::RepoId;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n";
/// git looks for a pack once it sees its index.
const INDEX: &str = "idx";

/// Puts a quarantine's packs into the repository, which is made if need be, and removes the
/// quarantine. One that is gone has landed already.
pub fn land(layout: &Layout, repo: &RepoId, quarantine: &str) -> io::Result<()> {
    let from = layout.quarantine(quarantine)?;
    if !from.is_dir() {
        return Ok(());
    }
    let files = arrived(&from.join("objects/pack"))?;
    if !files.is_empty() {
        check_lender(layout, repo, &from)?;
        let to = ensure_repository(layout, repo)?.join("objects/pack");
        for file in files {
            let name = file.file_name().unwrap_or_default();
            fs::rename(&file, to.join(name))?;
        }
        sync_dir(&to)?;
    }
    remove_tree(&from)
}

/// The files of approved packs, every index behind its pack. Where a crash interrupted an earlier
/// landing an index may be alone; a pack without one was never finished.
fn arrived(packs: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(packs) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_name().as_bytes().starts_with(PACK_PREFIX.as_bytes()) {
            files.push(entry.path());
        }
    }
    let is_index = |file: &PathBuf| file.extension() == Some(OsStr::new(INDEX));
    let indexed: BTreeSet<PathBuf> = files.iter().filter(|file| is_index(file)).cloned().collect();
    files.retain(|file| indexed.contains(&file.with_extension(INDEX)));
    files.sort_by_key(is_index);
    Ok(files)
}

/// A pack that leans on one repository must not land in another: objects would be missing there.
fn check_lender(layout: &Layout, repo: &RepoId, quarantine: &Path) -> io::Result<()> {
    let lender = match fs::read(quarantine.join("objects/info/alternates")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        lender => lender?,
    };
    if lender == alternates_line(repo) && layout.repository(repo).is_dir() {
        return Ok(());
    }
    let text =
        format!("this push was built on a repository that is not {repo} or is gone; push again");
    Err(io::Error::new(io::ErrorKind::InvalidData, text))
}

/// The repository's directory, empty if it is new. It appears whole or not at all.
pub fn ensure_repository(layout: &Layout, repo: &RepoId) -> io::Result<PathBuf> {
    let dir = layout.repository(repo);
    let owner = layout.owner_dir(repo.owner);
    if dir.is_dir() {
        return Ok(dir);
    }
    let new = layout.tmp().join("new-repository");
    remove_tree(&new)?;
    make_repository(&new)?;
    fs::create_dir_all(&owner)?;
    fs::rename(&new, &dir)?;
    sync_dir(&owner)?;
    sync_dir(layout.root())?;
    Ok(dir)
}

fn make_repository(dir: &Path) -> io::Result<()> {
    for part in ["objects/pack", "objects/info", "refs"] {
        fs::create_dir_all(dir.join(part))?;
    }
    write_new(&dir.join("HEAD"), HEAD.as_bytes(), 0o644)?;
    write_new(&dir.join("config"), CONFIG.as_bytes(), 0o444)?;
    for part in ["objects", ""] {
        sync_dir(&dir.join(part))?;
    }
    Ok(())
}

/// Removes a quarantine, whatever it holds.
pub fn discard(layout: &Layout, quarantine: &str) -> io::Result<()> {
    remove_tree(&layout.quarantine(quarantine)?)
}

/// At the start, when nothing runs yet: removes every quarantine nobody keeps, and what was half made.
/// Says how many quarantines went; names that are not ours stay.
pub fn sweep_incoming(layout: &Layout, keep: &BTreeSet<String>) -> io::Result<usize> {
    let mut swept = 0;
    for entry in fs::read_dir(layout.incoming())? {
        let Ok(name) = entry?.file_name().into_string() else { continue };
        if layout.quarantine(&name).is_ok() && !keep.contains(&name) {
            discard(layout, &name)?;
            swept += 1;
        }
    }
    remove_tree(&layout.tmp())?;
    fs::create_dir(layout.tmp())?;
    Ok(swept)
}

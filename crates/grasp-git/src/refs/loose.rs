//! Refs in files of their own. We never write them, but a person with git may. Found, they count as
//! git counts them: over the packed ones. Never follows a link.

use super::KEPT;
use super::packed::{Found, Names, Peeled, oid};
use grasp_core::Oid;
use grasp_core::push::Target;
use std::fs::{self, DirEntry, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Where ours would be. Other directories below `refs/` are left alone.
const ROOTS: [&str; 4] = ["refs/heads", "refs/internal", "refs/nostr", "refs/tags"];
/// Beyond this no name is ours, so this bounds how deep we look.
const NAME_BYTES_MAX: usize = 1_024;
/// A loose ref is an id or a name; whatever is longer is neither.
const FILE_BYTES_MAX: u64 = 4_096;
/// As many symbolic refs in a row as git follows.
const HOPS_MAX: usize = 5;

/// Those found, and what they say.
#[derive(Debug)]
pub(super) struct Loose(Vec<(String, Value)>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Value {
    Oid(Oid),
    Symbolic(String),
    /// Hides the packed ref of its name, as it does for git.
    Broken,
}

/// To be called before the packed refs are read: git packs a ref first and then removes its file, so
/// in this order none slips through between.
pub(super) fn read(dir: &Path) -> io::Result<Loose> {
    let mut found = Vec::new();
    for (name, path) in files(dir, is_ours)? {
        found.extend(value(&path)?.map(|value| (name, value)));
    }
    Ok(Loose(found))
}

impl Loose {
    pub(super) fn lay_over(self, names: &mut Names) {
        let mut symbolic = Vec::new();
        for (name, value) in self.0 {
            names.remove(&name);
            match value {
                Value::Oid(oid) => {
                    names.insert(name, Found { oid, peeled: Peeled::Unknown });
                }
                Value::Symbolic(target) => symbolic.push((name, target)),
                Value::Broken => {}
            }
        }
        // Each round resolves those that point to what the round before resolved.
        for _ in 0..HOPS_MAX {
            for (name, target) in &symbolic {
                if let Some(found) = names.get(target).copied() {
                    names.insert(name.clone(), found);
                }
            }
        }
    }
}

/// Removes them once they are packed, durably: one that came back would hide its successor.
pub(super) fn remove(dir: &Path) -> io::Result<()> {
    remove_files(dir, is_ours)
}

pub(super) fn remove_locks(dir: &Path) -> io::Result<()> {
    remove_files(dir, |name| name.strip_suffix(".lock").is_some_and(is_ours))
}

fn remove_files(dir: &Path, which: impl Fn(&str) -> bool) -> io::Result<()> {
    for (_, path) in files(dir, which)? {
        fs::remove_file(&path)?;
        if let Some(parent) = path.parent() {
            File::open(parent)?.sync_all()?;
        }
    }
    Ok(())
}

fn is_ours(name: &str) -> bool {
    match name.strip_prefix(KEPT) {
        Some(oid) => oid.parse::<Oid>().is_ok(),
        None => Target::parse(name).is_some(),
    }
}

/// Files below the roots, links included, with the name of their ref.
fn files(dir: &Path, which: impl Fn(&str) -> bool) -> io::Result<Vec<(String, PathBuf)>> {
    let mut files = Vec::new();
    let mut waiting: Vec<_> = ROOTS.iter().map(|root| (*root).to_owned()).collect();
    while let Some(root) = waiting.pop() {
        for entry in entries(&dir.join(&root))? {
            let entry = entry?;
            let Ok(part) = entry.file_name().into_string() else { continue };
            let name = format!("{root}/{part}");
            if entry.file_type()?.is_dir() {
                waiting.extend(Some(name).filter(|name| name.len() <= NAME_BYTES_MAX));
            } else if which(&name) {
                files.push((name, entry.path()));
            }
        }
    }
    Ok(files)
}

fn entries(dir: &Path) -> io::Result<impl Iterator<Item = io::Result<DirEntry>>> {
    let is_dir = fs::symlink_metadata(dir).map(|found| found.is_dir());
    let entries = match is_dir {
        Ok(true) => fs::read_dir(dir).map(Some),
        Ok(false) => Ok(None),
        Err(error) => Err(error),
    };
    let entries = entries.or_else(|error| if is_gone(&error) { Ok(None) } else { Err(error) })?;
    Ok(entries.into_iter().flatten())
}

/// `None` if the file is gone meanwhile: then it was packed.
fn value(path: &Path) -> io::Result<Option<Value>> {
    let read = || {
        let mut bytes = Vec::new();
        if fs::symlink_metadata(path)?.is_file() {
            File::open(path)?.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
        }
        Ok(bytes)
    };
    match read() {
        Ok(bytes) => Ok(Some(Value::parse(&bytes))),
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

impl Value {
    fn parse(bytes: &[u8]) -> Self {
        let text = bytes.trim_ascii_end();
        match text.strip_prefix(b"ref:").map(<[u8]>::trim_ascii_start) {
            Some(target) => Self::Symbolic(String::from_utf8_lossy(target).into_owned()),
            None => oid(text).map_or(Self::Broken, Self::Oid),
        }
    }
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

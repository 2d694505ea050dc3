//! Reading and replacing the files that hold refs. Every file is written beside, synced, and renamed
//! into place under git's own locks, so git and we never see each other's half of a change.

use super::packed::{self, Found, Names, Peeled};
use super::{Entry, RefTable, RefsError, loose};
use crate::Objects;
use grasp_core::RefName;
use grasp_core::unfit::Unfit;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;

const PACKED: &str = "packed-refs";
const HEAD: &str = "HEAD";
/// Room for half a million refs.
const PACKED_BYTES_MAX: u64 = 64 * 1024 * 1024;
const HEAD_BYTES_MAX: u64 = 4_096;
/// What git, or we, leave behind when killed while changing refs.
const LEFTOVERS: [&str; 3] = ["packed-refs.lock", "packed-refs.new", "HEAD.lock"];

pub(super) fn read(dir: &Path) -> Result<RefTable, RefsError> {
    let loose = loose::read(dir).map_err(failed("read the refs of", dir))?;
    let mut names = read_packed(dir)?;
    loose.lay_over(&mut names);
    let unsure = names.values().any(|found| found.peeled == Peeled::Unknown);
    let objects = if unsure { Some(Objects::open(dir)?) } else { None };
    let mut refs = RefTable { head: read_head(dir)?, ..RefTable::default() };
    for (name, found) in names {
        if let Some(entry) = entry(found, objects.as_ref()) {
            refs.put(&name, entry);
        }
    }
    Ok(refs)
}

/// A ref whose object had to be looked at and is not there is no ref: git does not show it either.
/// One that is there and cannot be followed to its end is shown without that.
fn entry(found: Found, objects: Option<&Objects>) -> Option<Entry> {
    let oid = found.oid;
    if let Peeled::Known(peeled) = found.peeled {
        return Some(Entry { oid, peeled });
    }
    match objects?.peel(&oid) {
        Ok(entry) => Some(entry),
        Err(Unfit::Absent) => None,
        Err(_) => Some(Entry { oid, peeled: None }),
    }
}

fn read_packed(dir: &Path) -> Result<Names, RefsError> {
    let path = dir.join(PACKED);
    let text = read_start(&path, PACKED_BYTES_MAX + 1)?;
    check_len(&path, &text)?;
    packed::parse(&text).map_err(|bad| RefsError::Damaged { path, line: bad.0 })
}

/// What we would not read we do not write either.
fn check_len(path: &Path, text: &[u8]) -> Result<(), RefsError> {
    let max = PACKED_BYTES_MAX;
    let fits = u64::try_from(text.len()).is_ok_and(|len| len <= max);
    if fits { Ok(()) } else { Err(RefsError::Long { path: path.to_owned(), max }) }
}

fn read_head(dir: &Path) -> Result<Option<RefName>, RefsError> {
    let text = read_start(&dir.join(HEAD), HEAD_BYTES_MAX)?;
    let target = text.strip_prefix(b"ref:").map(|target| target.trim_ascii());
    let name = target.and_then(|target| std::str::from_utf8(target).ok()?.parse().ok());
    Ok(name.filter(RefName::is_branch))
}

/// A file that is not there is an empty one.
fn read_start(path: &Path, max: u64) -> Result<Vec<u8>, RefsError> {
    let mut text = Vec::new();
    match File::open(path).and_then(|file| file.take(max).read_to_end(&mut text)) {
        Ok(_) => Ok(text),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(failed("read", path)(source)),
    }
}

pub(super) fn write(refs: &RefTable, dir: &Path) -> Result<(), RefsError> {
    let text = packed::render(refs);
    check_len(&dir.join(PACKED), text.as_bytes())?;
    replace(dir, PACKED, text.as_bytes())?;
    let head = format!("ref: {}\n", refs.head_name());
    if read_start(&dir.join(HEAD), HEAD_BYTES_MAX)? != head.as_bytes() {
        replace(dir, HEAD, head.as_bytes())?;
    }
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(failed("sync", dir))?;
    loose::remove(dir).map_err(failed("remove the loose refs of", dir))
}

/// The lock is the new file, as git does it: who holds it is the only one writing.
fn replace(dir: &Path, name: &str, text: &[u8]) -> Result<(), RefsError> {
    let path = dir.join(name);
    let lock = dir.join(format!("{name}.lock"));
    let mut file = match File::options().write(true).create_new(true).open(&lock) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(RefsError::Locked { path: lock });
        }
        Err(source) => return Err(failed("create", &lock)(source)),
    };
    let written = file.write_all(text).and_then(|()| file.sync_all());
    written.and_then(|()| fs::rename(&lock, &path)).map_err(|source| {
        // Ours, and worth nothing half written. If even this fails, the next start removes it.
        let _ = fs::remove_file(&lock);
        failed("write", &path)(source)
    })
}

pub(super) fn clear_locks(dir: &Path) -> io::Result<()> {
    for name in LEFTOVERS {
        match fs::remove_file(dir.join(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    loose::remove_locks(dir)
}

fn failed(doing: &'static str, path: &Path) -> impl Fn(io::Error) -> RefsError {
    let path = path.to_owned();
    move |source| RefsError::Io { doing, path: path.clone(), source }
}

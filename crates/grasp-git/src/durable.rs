//! Writing so that a power cut cannot take it back. Knows files and directories, nothing of git.
//! A rename lives in the directory: a name is safe only once its directory has been synced too.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

pub(crate) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// A new file, synced; its directory is left to the caller.
pub(crate) fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Replaces the file in one step.
pub(crate) fn replace(path: &Path, beside: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    remove_file(beside)?;
    write_new(beside, bytes, mode)?;
    fs::rename(beside, path)?;
    path.parent().map_or(Ok(()), sync_dir)
}

/// Gone is what was asked for, whoever did it.
pub(crate) fn remove_file(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

pub(crate) fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

//! How much a directory takes on the disk. A file with several names counts once.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The unit in which the system counts blocks of every size.
const BLOCK_BYTES: u64 = 512;

/// As allocated, with all that is below it; blocking. What goes meanwhile counts as nothing.
pub fn used_bytes(dir: &Path) -> io::Result<u64> {
    let (mut used, mut shared) = (0, HashSet::new());
    let mut directories: Vec<PathBuf> = vec![dir.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in gone_is_empty(fs::read_dir(&directory).map(Some))?.into_iter().flatten() {
            let entry = entry?;
            let Some(meta) = gone_is_empty(entry.metadata().map(Some))? else { continue };
            if meta.is_dir() {
                directories.push(entry.path());
            } else if meta.nlink() > 1 && !shared.insert(identity(&meta)) {
                continue;
            }
            used += meta.blocks() * BLOCK_BYTES;
        }
    }
    Ok(used)
}

fn identity(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

fn gone_is_empty<T>(found: io::Result<Option<T>>) -> io::Result<Option<T>> {
    match found {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        found => found,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_several_names_counts_once() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        let empty = used_bytes(dir.path()).unwrap();
        fs::write(dir.path().join("a/file"), vec![1; 1 << 20]).unwrap();
        for name in ["b", "a/b/c"] {
            fs::hard_link(dir.path().join("a/file"), dir.path().join(name)).unwrap();
        }
        let used = used_bytes(dir.path()).unwrap() - empty;
        assert!((1 << 20..2 << 20).contains(&used), "{used}");
        assert_eq!(used_bytes(&dir.path().join("nowhere")).unwrap(), 0);
    }
}

//! Where everything lies below the data root. Decides names, never what may be found at them. Only
//! typed names become paths, so no path leaves the root; nothing stored names the root, so it may move.

use grasp_core::{Identifier, PubKey, RepoId};
use rustix::fs::syncfs;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Ours beside the owners' directories; no npub looks like it.
const OWN_DIR: &str = ".graspd";
/// The same name to a file system that does not tell case apart.
const OWN_DIR_SHOUTED: &str = ".GRASPD";
const REPOSITORY_SUFFIX: &str = ".git";
/// 128 random bits in hex.
pub(crate) const QUARANTINE_NAME_LEN: usize = 32;

#[derive(Debug, Clone)]
pub struct Layout {
    root: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    #[error("the git data directory must be an absolute path, but is {}", .0.display())]
    Relative(PathBuf),
    #[error("the git data directory's path must be UTF-8 without control characters: {}", .0.display())]
    Unwritable(PathBuf),
    #[error(
        "{} does not tell upper from lower case, so two repositories could become one; choose a \
         directory on a case-sensitive file system",
        .0.display()
    )]
    CaseInsensitive(PathBuf),
    #[error("cannot prepare {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
}

impl Layout {
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Makes our own directories and refuses a root that could not keep its promises.
    pub fn prepare(&self) -> Result<(), LayoutError> {
        self.check_path()?;
        let failed = |source| LayoutError::Io { path: self.root.clone(), source };
        for dir in [self.incoming(), self.tmp()] {
            fs::create_dir_all(dir).map_err(failed)?;
        }
        // What a crash left half synced is whole from here on: whatever exists may be built upon.
        File::open(&self.root).and_then(|root| Ok(syncfs(root)?)).map_err(failed)?;
        if self.root.join(OWN_DIR_SHOUTED).exists() {
            return Err(LayoutError::CaseInsensitive(self.root.clone()));
        }
        Ok(())
    }

    /// The root is written into git's configuration, which is a text of lines.
    fn check_path(&self) -> Result<(), LayoutError> {
        if !self.root.is_absolute() {
            return Err(LayoutError::Relative(self.root.clone()));
        }
        match self.root.to_str() {
            Some(text) if !text.contains(char::is_control) => Ok(()),
            _ => Err(LayoutError::Unwritable(self.root.clone())),
        }
    }

    pub fn repository(&self, repo: &RepoId) -> PathBuf {
        self.root.join(Self::below_root(repo))
    }

    pub(crate) fn owner_dir(&self, owner: PubKey) -> PathBuf {
        self.root.join(owner.to_npub())
    }

    fn below_root(repo: &RepoId) -> PathBuf {
        let name = format!("{}{REPOSITORY_SUFFIX}", repo.identifier);
        Path::new(&repo.owner.to_npub()).join(name)
    }

    pub fn incoming(&self) -> PathBuf {
        self.own().join("incoming")
    }

    /// One quarantine. Names come back from a database, so they are checked again here.
    pub fn quarantine(&self, name: &str) -> io::Result<PathBuf> {
        let ours = name.len() == QUARANTINE_NAME_LEN
            && name.bytes().all(|c| matches!(c, b'0'..=b'9' | b'a'..=b'f'));
        if ours {
            return Ok(self.incoming().join(name));
        }
        let text = "the name of a quarantine is 32 lower-case hex characters";
        Err(io::Error::new(io::ErrorKind::InvalidInput, text))
    }

    /// How a quarantine's `objects` directory names the repository's, wherever the root is.
    pub(crate) fn alternate(repo: &RepoId) -> PathBuf {
        Path::new("../../../..").join(Self::below_root(repo)).join("objects")
    }

    pub fn tmp(&self) -> PathBuf {
        self.own().join("tmp")
    }

    /// The settings every git child gets.
    pub fn gitconfig(&self) -> PathBuf {
        self.own().join("gitconfig")
    }

    fn own(&self) -> PathBuf {
        self.root.join(OWN_DIR)
    }

    /// Every directory that can be a repository of ours; anything else is none of our business.
    pub fn repositories(&self) -> io::Result<Vec<RepoId>> {
        let mut found = Vec::new();
        for (name, path) in directories(&self.root)? {
            let Ok(owner) = PubKey::from_npub(&name) else { continue };
            let identifiers = directories(&path)?.into_iter().filter_map(|(name, _)| {
                name.strip_suffix(REPOSITORY_SUFFIX)?.parse::<Identifier>().ok()
            });
            found.extend(identifiers.map(|identifier| RepoId { owner, identifier }));
        }
        found.sort();
        Ok(found)
    }
}

fn directories(of: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(of)? {
        let entry = entry?;
        if let (true, Ok(name)) = (entry.file_type()?.is_dir(), entry.file_name().into_string()) {
            found.push((name, entry.path()));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repo(identifier: &str) -> RepoId {
        RepoId { owner: PubKey::from_bytes([7; 32]), identifier: identifier.parse().unwrap() }
    }

    #[test]
    fn only_directories_named_like_repositories_are_repositories() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().to_owned());
        layout.prepare().unwrap();
        let repos = [repo("a b:ü"), repo("acme"), repo("x.git")];
        for it in &repos {
            fs::create_dir_all(layout.repository(it)).unwrap();
        }
        let owner = layout.owner_dir(repos[0].owner);
        fs::create_dir_all(owner.join("no-suffix")).unwrap();
        fs::create_dir_all(owner.join(".git")).unwrap();
        fs::write(owner.join("file.git"), "").unwrap();
        fs::create_dir_all(dir.path().join("npub1wrong/acme.git")).unwrap();
        assert_eq!(layout.repositories().unwrap(), repos);
    }

    #[test]
    fn a_quarantine_finds_its_repository_wherever_the_root_is() {
        let dir = tempfile::tempdir().unwrap();
        let layout = Layout::new(dir.path().join("first"));
        layout.prepare().unwrap();
        let name = "0123456789abcdef".repeat(2);
        fs::create_dir_all(layout.repository(&repo("acme")).join("objects")).unwrap();
        fs::create_dir_all(layout.quarantine(&name).unwrap().join("objects")).unwrap();
        fs::rename(layout.root(), dir.path().join("second")).unwrap();
        let moved = Layout::new(dir.path().join("second"));
        let objects = moved.quarantine(&name).unwrap().join("objects");
        let there = objects.join(Layout::alternate(&repo("acme"))).canonicalize().unwrap();
        let expected = moved.repository(&repo("acme")).join("objects").canonicalize().unwrap();
        assert_eq!(there, expected);
    }

    #[test]
    fn a_quarantine_has_no_other_names() {
        let layout = Layout::new("/data".into());
        for bad in ["", "..", "../x", &"A".repeat(32), &"a".repeat(31), &"/".repeat(32)] {
            assert!(layout.quarantine(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_root_that_cannot_be_written_into_settings_is_refused() {
        let refused = |path: &str| Layout::new(path.into()).prepare().unwrap_err();
        assert!(matches!(refused("data"), LayoutError::Relative(_)));
        assert!(matches!(refused("/tmp/a\nb"), LayoutError::Unwritable(_)));
    }

    #[test]
    fn a_root_that_does_not_tell_case_apart_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        // What such a file system would show once `.graspd` exists.
        fs::create_dir(dir.path().join(OWN_DIR_SHOUTED)).unwrap();
        let layout = Layout::new(dir.path().to_owned());
        assert!(matches!(layout.prepare(), Err(LayoutError::CaseInsensitive(_))));
    }
}

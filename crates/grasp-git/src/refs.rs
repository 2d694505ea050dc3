//! The refs of one repository, as one value: read whole, written whole. Who may move them is decided
//! elsewhere. They live in `packed-refs` alone, so any change is one rename: readers see all of it or
//! nothing, and `refs/heads/a` may become `refs/heads/a/b` in one step.

mod disk;
mod loose;
mod packed;

use grasp_core::push::Target;
use grasp_core::{EventId, Oid, RefName};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

/// Below this, by object id, is what older states still need. Never shown to anyone.
const KEPT: &str = "refs/internal/";
/// Where HEAD points until someone says otherwise.
const DEFAULT_HEAD: &str = "refs/heads/main";

#[derive(Debug, Clone, Default)]
pub struct RefTable {
    /// Branches and tags.
    pub governed: BTreeMap<RefName, Entry>,
    /// `refs/nostr/<event id>`.
    pub proposals: BTreeMap<EventId, Entry>,
    /// Hidden refs that keep the objects of earlier states reachable.
    pub kept: BTreeSet<Oid>,
    /// The branch HEAD points to, there or not; none means the default, `refs/heads/main`.
    pub head: Option<RefName>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub oid: Oid,
    /// What an annotated tag finally points to.
    pub peeled: Option<Oid>,
}

#[derive(Debug, thiserror::Error)]
pub enum RefsError {
    #[error("cannot {doing} {}: {source}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
    #[error(
        "{} exists: a git process is changing refs here, or died doing so; if none is running, \
         remove that file",
        path.display()
    )]
    Locked { path: PathBuf },
    #[error(
        "line {line} of {} is not a ref; restore the file from a backup, or remove it: the \
         repository then looks empty until its newest state is applied again",
        path.display()
    )]
    Damaged { path: PathBuf, line: usize },
    #[error("{} is longer than {max} bytes; delete refs that are no longer needed", path.display())]
    Long { path: PathBuf, max: u64 },
    #[error(transparent)]
    Objects(#[from] crate::ObjectsError),
}

impl RefTable {
    /// What git would see in this directory, of the names that are ours; blocking. Refs elsewhere
    /// are not read, and those packed are gone with the next write.
    pub fn read(dir: &Path) -> Result<Self, RefsError> {
        disk::read(dir)
    }

    /// Makes the directory say this, durably; blocking. Only one may write at a time.
    pub fn write(&self, dir: &Path) -> Result<(), RefsError> {
        disk::write(self, dir)
    }

    /// Removes what a crash left in the way; only for who alone owns the directory.
    pub fn clear_locks(dir: &Path) -> io::Result<()> {
        disk::clear_locks(dir)
    }

    /// Everything a client may see, in git's order: by name, byte for byte.
    pub fn listed(&self) -> impl Iterator<Item = (Cow<'_, str>, &Entry)> {
        let governed = |(name, entry)| (Cow::Borrowed(RefName::as_str(name)), entry);
        let branches = self.governed.iter().filter(|(name, _)| name.is_branch()).map(governed);
        let tags = self.governed.iter().filter(|(name, _)| !name.is_branch()).map(governed);
        let proposals = self.proposals.iter();
        let proposals =
            proposals.map(|(id, entry)| (Cow::Owned(format!("{}{id}", Target::PROPOSALS)), entry));
        branches.chain(proposals).chain(tags)
    }

    /// The branch HEAD points to and what it holds, if it is there.
    pub fn head_entry(&self) -> Option<(&RefName, &Entry)> {
        match &self.head {
            Some(name) => self.governed.get_key_value(name),
            None => self.governed.get_key_value(&DEFAULT_HEAD.parse().ok()?),
        }
    }

    /// The value of a place a push may name.
    pub fn get(&self, target: &Target) -> Option<&Entry> {
        match target {
            Target::Governed(name) => self.governed.get(name),
            Target::Proposal(id) => self.proposals.get(id),
        }
    }

    fn head_name(&self) -> &str {
        self.head.as_ref().map_or(DEFAULT_HEAD, RefName::as_str)
    }

    fn put(&mut self, name: &str, entry: Entry) {
        match name.strip_prefix(KEPT) {
            Some(oid) => {
                self.kept.extend(oid.parse::<Oid>().is_ok().then_some(entry.oid));
            }
            None => match Target::parse(name) {
                Some(Target::Governed(name)) => {
                    self.governed.insert(name, entry);
                }
                Some(Target::Proposal(id)) => {
                    self.proposals.insert(id, entry);
                }
                None => {}
            },
        }
    }
}

/// Equal if the directories they are written to are.
impl PartialEq for RefTable {
    fn eq(&self, other: &Self) -> bool {
        self.governed == other.governed
            && self.proposals == other.proposals
            && self.kept == other.kept
            && self.head_name() == other.head_name()
    }
}

impl Eq for RefTable {}

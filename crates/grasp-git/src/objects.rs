//! Questions about single objects, answered in process. Knows nothing of refs. An object that lands
//! later is found later: an answer of no is looked up on the disk first.

mod peel;

pub use peel::RefEntries;

use gix_hash::ObjectId;
use gix_object::{CommitRefIter, Exists, Find, Kind, TreeRefIter};
use gix_odb::store::init::{Options, Slots};
use gix_odb::{HandleArc, Header};
use grasp_core::Oid;
use std::cell::RefCell;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// No honest commit is larger.
const COMMIT_BYTES_MAX: u64 = 1 << 20;
/// Some 40,000 files in one directory.
const TREE_BYTES_MAX: u64 = 2 << 20;
/// For what is only read to be shown. Git itself chains 50 at most by default; each may cost as much
/// as the largest object allowed.
const DELTAS_MAX: u32 = 250;
const ALLOC_BYTES_MAX: usize = 64 << 20;
/// Room for packs that land while this is open.
const SLOTS: Slots = Slots::AsNeededByDiskState { multiplier: 2.0, minimum: 256 };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    Commit,
    Tree,
    Blob,
    Tag,
}

impl ObjectKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Tree => "tree",
            Self::Blob => "blob",
            Self::Tag => "tag",
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("cannot read the objects of {}: {source}", dir.display())]
pub struct ObjectsError {
    dir: PathBuf,
    source: io::Error,
}

/// The objects of one repository or quarantine, borrowed ones included. All calls block, briefly.
pub struct Objects(HandleArc, RefCell<peel::TagLinks>);

impl Objects {
    pub fn open(dir: &Path) -> Result<Self, ObjectsError> {
        let options = Options {
            slots: SLOTS,
            alloc_limit_bytes: Some(ALLOC_BYTES_MAX),
            // Only joined with relative paths, and ours is absolute.
            current_dir: Some(PathBuf::from("/")),
            ..Options::default()
        };
        let objects = dir.join("objects");
        gix_odb::Store::at_opts(objects, gix_hash::Kind::Sha1, &mut std::iter::empty(), options)
            .map(|store| Self(Arc::new(store).to_cache_arc(), RefCell::default()))
            .map_err(|source| ObjectsError { dir: dir.to_owned(), source })
    }

    pub(crate) fn into_handle(self) -> HandleArc {
        self.0
    }

    pub fn contains(&self, oid: &Oid) -> bool {
        self.0.exists(&id(oid))
    }

    pub fn kind(&self, oid: &Oid) -> Option<ObjectKind> {
        Some(match self.0.try_header(&id(oid)).ok()??.kind() {
            Kind::Commit => ObjectKind::Commit,
            Kind::Tree => ObjectKind::Tree,
            Kind::Blob => ObjectKind::Blob,
            Kind::Tag => ObjectKind::Tag,
        })
    }

    /// The plain files at the top of a commit whose names are `wanted`; no links, no directories.
    /// `None` if that cannot be read, or is larger than anything honest.
    pub fn files(&self, commit: &Oid, wanted: impl Fn(&[u8]) -> bool) -> Option<Vec<RootFile>> {
        let commit = self.whole(commit, Kind::Commit, COMMIT_BYTES_MAX).ok()?;
        let tree = CommitRefIter::from_bytes(&commit, gix_hash::Kind::Sha1).tree_id().ok()?;
        let tree = self.whole(&oid(&tree)?, Kind::Tree, TREE_BYTES_MAX).ok()?;
        let entries = TreeRefIter::from_bytes(&tree, gix_hash::Kind::Sha1).filter_map(Result::ok);
        let files = entries.filter(|entry| entry.mode.is_blob() && wanted(entry.filename));
        let file = |name: &[u8], at| Some(RootFile { name: name.to_owned(), oid: oid(at)? });
        Some(files.filter_map(|entry| file(entry.filename, entry.oid)).collect())
    }

    /// A commit and its first parents, newest first, as far as they are here; no more than `max`.
    pub fn first_parents(&self, tip: &Oid, max: usize) -> Vec<Oid> {
        let mut chain = Vec::new();
        let mut next = Some(*tip);
        while chain.len() < max
            && let Some(at) = next
            && let Ok(commit) = self.whole(&at, Kind::Commit, COMMIT_BYTES_MAX)
        {
            chain.push(at);
            let mut parents = CommitRefIter::from_bytes(&commit, gix_hash::Kind::Sha1).parent_ids();
            next = parents.next().and_then(|parent| oid(&parent));
        }
        chain
    }

    pub fn blob(&self, blob: &Oid, bytes_max: u64) -> Result<Vec<u8>, Unread> {
        self.whole(blob, Kind::Blob, bytes_max)
    }

    /// Looks at size and cost before anything is unpacked.
    fn whole(&self, oid: &Oid, kind: Kind, bytes_max: u64) -> Result<Vec<u8>, Unread> {
        let header = self.0.try_header(&id(oid)).ok().flatten().ok_or(Unread::Absent)?;
        if header.kind() != kind {
            return Err(Unread::Absent);
        }
        if header.size() > bytes_max || header.num_deltas().unwrap_or(0) > DELTAS_MAX {
            return Err(Unread::Large);
        }
        let mut buffer = Vec::new();
        let found = self.0.try_find(&id(oid), &mut buffer);
        match found.ok().flatten().is_some() {
            true => Ok(buffer),
            false => Err(Unread::Absent),
        }
    }
}

/// A file at the top of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RootFile {
    pub name: Vec<u8>,
    pub oid: Oid,
}

/// Why an object was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    #[error("it is not here")]
    Absent,
    #[error("it is too large")]
    Large,
}

fn oid(id: &gix_hash::oid) -> Option<Oid> {
    id.as_bytes().try_into().ok().map(Oid::from_bytes)
}

fn id(oid: &Oid) -> ObjectId {
    ObjectId::Sha1(*oid.as_bytes())
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").finish_non_exhaustive()
    }
}

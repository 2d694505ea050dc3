//! Questions about single objects, answered in process. Knows nothing of refs. An object that lands
//! later is found later: an answer of no is looked up on the disk first.

use crate::refs::Entry;
use gix_hash::ObjectId;
use gix_object::{CommitRefIter, Exists, Find, Kind, TagRefIter, TreeRefIter};
use gix_odb::store::init::{Options, Slots};
use gix_odb::{HandleArc, Header};
use grasp_core::Oid;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// No honest tag or commit is larger.
const TAG_BYTES_MAX: u64 = 1 << 20;
/// Some 40,000 files in one directory.
const TREE_BYTES_MAX: u64 = 2 << 20;
/// Git itself chains 50 at most by default; each may cost as much as the largest object allowed.
const DELTAS_MAX: u32 = 250;
/// Tags that point to tags.
const TAG_DEPTH_MAX: usize = 64;
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

#[derive(Debug, thiserror::Error)]
#[error("cannot read the objects of {}: {source}", dir.display())]
pub struct ObjectsError {
    dir: PathBuf,
    source: io::Error,
}

/// The objects of one repository or quarantine, borrowed ones included. All calls block, briefly.
pub struct Objects(HandleArc);

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
            .map(|store| Self(Arc::new(store).to_cache_arc()))
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

    /// What a ref to this object has to say; none if it, or what it finally points to, is not here.
    pub fn entry(&self, oid: &Oid) -> Option<Entry> {
        let mut end = *oid;
        for _ in 0..TAG_DEPTH_MAX {
            if self.kind(&end)? != ObjectKind::Tag {
                return Some(Entry { oid: *oid, peeled: (end != *oid).then_some(end) });
            }
            end = self.tagged(&end)?;
        }
        None
    }

    /// The plain files at the top of a commit whose names are `wanted`; no links, no directories.
    /// `None` if that cannot be read, or is larger than anything honest.
    pub fn files(&self, commit: &Oid, wanted: impl Fn(&[u8]) -> bool) -> Option<Vec<RootFile>> {
        let commit = self.whole(commit, Kind::Commit, TAG_BYTES_MAX).ok()?;
        let tree = CommitRefIter::from_bytes(&commit, gix_hash::Kind::Sha1).tree_id().ok()?;
        let tree = self.whole(&oid(&tree)?, Kind::Tree, TREE_BYTES_MAX).ok()?;
        let entries = TreeRefIter::from_bytes(&tree, gix_hash::Kind::Sha1).filter_map(Result::ok);
        let files = entries.filter(|entry| entry.mode.is_blob() && wanted(entry.filename));
        let file = |name: &[u8], at| Some(RootFile { name: name.to_owned(), oid: oid(at)? });
        Some(files.filter_map(|entry| file(entry.filename, entry.oid)).collect())
    }

    pub fn blob(&self, blob: &Oid, bytes_max: u64) -> Result<Vec<u8>, Unread> {
        self.whole(blob, Kind::Blob, bytes_max)
    }

    fn tagged(&self, tag: &Oid) -> Option<Oid> {
        let tag = self.whole(tag, Kind::Tag, TAG_BYTES_MAX).ok()?;
        oid(&TagRefIter::from_bytes(&tag, gix_hash::Kind::Sha1).target_id().ok()?)
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

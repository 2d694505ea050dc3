//! Questions about single objects, answered in process. Knows nothing of refs. An object that lands
//! later is found later: an answer of no is looked up on the disk first.

use crate::refs::Entry;
use gix_hash::ObjectId;
use gix_object::{Exists, Find, Kind, TagRefIter};
use gix_odb::store::init::{Options, Slots};
use gix_odb::{HandleArc, Header};
use grasp_core::Oid;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// No honest tag is larger; nothing else is read whole.
const TAG_BYTES_MAX: u64 = 1 << 20;
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

    fn tagged(&self, tag: &Oid) -> Option<Oid> {
        let tag = id(tag);
        if self.0.try_header(&tag).ok()??.size() > TAG_BYTES_MAX {
            return None;
        }
        let mut buffer = Vec::new();
        let data = self.0.try_find(&tag, &mut buffer).ok()??;
        let target = TagRefIter::from_bytes(data.data, gix_hash::Kind::Sha1).target_id().ok()?;
        target.as_slice().try_into().ok().map(Oid::from_bytes)
    }
}

fn id(oid: &Oid) -> ObjectId {
    ObjectId::Sha1(*oid.as_bytes())
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects").finish_non_exhaustive()
    }
}

//! One pack file for several repositories: a repository that lacks objects gets further names (hard
//! links) of packs that hold them. Packs never change after they are written, so that is as good as a
//! copy. Invariant: the destination stays closed, every object in it has all that it refers to.

use crate::objects::Objects;
use crate::quarantine::{PACK_PREFIX, sync_quarantine};
use gix_odb::pack::index;
use grasp_core::Oid;
use std::collections::{BTreeSet, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The files of a pack, the index last: git looks for a pack once it sees its index.
const EXTENSIONS: [&str; 3] = ["pack", "rev", "idx"];
/// All packs of a repository may be shared if they hold at most so many objects for each one that is
/// missing: a closed repository may always be taken over whole, but not for a small part of it.
const OBJECTS_PER_MISSING_MAX: usize = 2;

/// Packs that bring what a destination lacks.
#[derive(Debug)]
pub struct SharePlan {
    /// Indexes of the packs.
    packs: Vec<PathBuf>,
    /// Objects that the destination must have already.
    presumed: Vec<Oid>,
    objects: u64,
    bytes: u64,
}

impl SharePlan {
    /// The packs of `from`, a repository or a quarantine, that hold what is `missing` in the
    /// repository of the quarantine `to`. `None` if packs would bring something that is not closed
    /// there, or mostly other things.
    pub fn new(from: &Path, missing: &HashSet<Oid>, to: &Path) -> io::Result<Option<Self>> {
        let packs = indexes_of(from)?;
        let there = Objects::open(to).map_err(io::Error::other)?;
        let Some((chosen, mut presumed)) = choose(&packs, missing, &there) else {
            return Ok(None);
        };
        let all = chosen.iter().flat_map(|pack| pack.oids());
        presumed.extend(all.filter(|oid| !missing.contains(oid)));
        if presumed.iter().all(|oid| there.contains(oid)) {
            return Self::of(&chosen, presumed).map(Some);
        }
        let objects: usize = packs.iter().map(PackIndex::len).sum();
        if objects > missing.len().saturating_mul(OBJECTS_PER_MISSING_MAX) {
            return Ok(None);
        }
        Self::of(&packs.iter().collect::<Vec<_>>(), Vec::new()).map(Some)
    }

    /// All packs of a quarantine whose objects were chosen for destinations like this one.
    pub fn whole(quarantine: &Path) -> io::Result<Self> {
        let packs = read_indexes(&quarantine.join(PACKS))?;
        Self::of(&packs.iter().collect::<Vec<_>>(), Vec::new())
    }

    fn of(packs: &[&PackIndex], presumed: Vec<Oid>) -> io::Result<Self> {
        let mut bytes = 0;
        for pack in packs {
            bytes += fs::metadata(pack.path.with_extension("pack"))?.len();
        }
        let objects = packs.iter().map(|pack| pack.len() as u64).sum();
        let packs = packs.iter().map(|pack| pack.path.clone()).collect();
        Ok(Self { packs, presumed, objects, bytes })
    }

    pub fn objects(&self) -> u64 {
        self.objects
    }

    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives the packs further names in a quarantine, durably. False, and nothing there, if its
    /// destination lacks something presumed or the file system has no hard links; blocking.
    pub fn link_into(&self, quarantine: &Path) -> io::Result<bool> {
        let there = Objects::open(quarantine).map_err(io::Error::other)?;
        if !self.presumed.iter().all(|oid| there.contains(oid)) {
            return Ok(false);
        }
        let dir = quarantine.join(PACKS);
        for index in &self.packs {
            if let Err(error) = link_pack(index, &dir) {
                remove_packs(&dir)?;
                // A copy is still possible, for every reason.
                tracing::debug!(pack = %index.display(), %error, "a pack is not shared");
                return Ok(false);
            }
        }
        sync_quarantine(quarantine)?;
        Ok(true)
    }
}

const PACKS: &str = "objects/pack";

/// Packs that hold all that is missing, and what is thought missing but is there.
fn choose<'a>(
    packs: &'a [PackIndex],
    missing: &HashSet<Oid>,
    there: &Objects,
) -> Option<(Vec<&'a PackIndex>, Vec<Oid>)> {
    let (mut chosen, mut is_there): (Vec<&PackIndex>, _) = (Vec::new(), Vec::new());
    for oid in missing {
        if chosen.iter().any(|pack| pack.contains(oid)) {
            continue;
        }
        if there.contains(oid) {
            is_there.push(*oid);
            continue;
        }
        chosen.push(packs.iter().find(|pack| pack.contains(oid))?);
    }
    Some((chosen, is_there))
}

fn link_pack(index: &Path, dir: &Path) -> io::Result<()> {
    for extension in EXTENSIONS {
        let from = index.with_extension(extension);
        let name = from.file_name().unwrap_or_default();
        match fs::hard_link(&from, dir.join(name)) {
            // Not every git writes a reverse index.
            Err(error) if extension == "rev" && error.kind() == io::ErrorKind::NotFound => {}
            linked => linked?,
        }
    }
    Ok(())
}

fn remove_packs(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        fs::remove_file(entry?.path())?;
    }
    Ok(())
}

/// A pack's index, and where it lies.
struct PackIndex {
    path: PathBuf,
    file: index::File,
}

impl PackIndex {
    fn contains(&self, oid: &Oid) -> bool {
        self.file.lookup(gix_hash::ObjectId::Sha1(*oid.as_bytes())).is_some()
    }

    fn len(&self) -> usize {
        usize::try_from(self.file.num_objects()).unwrap_or(usize::MAX)
    }

    fn oids(&self) -> impl Iterator<Item = Oid> {
        let ids = self.file.iter().map(|entry| entry.oid);
        ids.filter_map(|id| id.as_bytes().try_into().ok().map(Oid::from_bytes))
    }
}

/// Own packs first, then those that are borrowed.
fn indexes_of(dir: &Path) -> io::Result<Vec<PackIndex>> {
    let mut found = read_indexes(&dir.join(PACKS))?;
    let objects = dir.join("objects");
    let borrowed = match fs::read(objects.join("info/alternates")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
        borrowed => borrowed?,
    };
    for line in borrowed.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        found.extend(read_indexes(&objects.join(OsStr::from_bytes(line)).join("pack"))?);
    }
    Ok(found)
}

fn read_indexes(packs: &Path) -> io::Result<Vec<PackIndex>> {
    let mut found = Vec::new();
    for path in index_paths(packs)? {
        let file = index::File::at(&path, gix_hash::Kind::Sha1).map_err(io::Error::other)?;
        found.push(PackIndex { path, file });
    }
    Ok(found)
}

fn index_paths(packs: &Path) -> io::Result<BTreeSet<PathBuf>> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(packs)? {
        let entry = entry?;
        let name: OsString = entry.file_name();
        if name.as_bytes().starts_with(PACK_PREFIX.as_bytes()) && name.as_bytes().ends_with(b".idx")
        {
            found.insert(entry.path());
        }
    }
    Ok(found)
}

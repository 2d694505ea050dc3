//! Refuses a `.gitmodules` file that would trick an old client: git's own check lets control
//! characters in a name, path or URL through (CVE-2025-48384). Looks at the root trees of new commits,
//! the only place clients read it from. No tree is read twice; the work is bounded in steps, bytes and
//! time, and ends when nobody waits for it.

use crate::gate::Seen;
use crate::objects::Objects;
use gix_hash::ObjectId;
use gix_object::{Find, Kind, TreeRefIter};
use gix_odb::pack::Bundle;
use gix_odb::pack::cache::DecodeEntry;
use gix_odb::pack::data::decode::{entry, header};
use gix_odb::{HandleArc, Header};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const NAME: &[u8] = b".gitmodules";
const BYTES_MAX: u64 = 1 << 20;
/// The pack is mapped into memory; letting go of it now and then keeps that small.
const COMMITS_PER_MAPPING: usize = 20_000;
/// No honest root tree, and none of its deltas, needs more.
const ALLOC_BYTES_MAX: usize = 64 << 20;
/// Objects that have to be inflated to make the ones asked for; git chains 50 at most by default.
const STEPS_PER_COMMIT_MAX: u64 = 100;
const STEPS_FREE: u64 = 100_000;
/// Some commits change nothing, and branches meet in the same trees.
const TREES_KNOWN_MAX: usize = 250_000;
/// What a pack may take, and what it may take more for each byte; honest ones need a tenth of it.
const TIME_FREE: Duration = Duration::from_secs(30);
const BYTES_PER_SEC_MIN: u64 = 1 << 20;

#[derive(Debug, thiserror::Error)]
pub enum BadSubmodule {
    #[error(
        "the file .gitmodules ({blob}) has control characters in a name, path or URL, which is how \
         clients are attacked; remove them and push again"
    )]
    Control { blob: ObjectId },
    #[error("the file .gitmodules ({blob}) is larger than {BYTES_MAX} bytes; make it smaller")]
    Large { blob: ObjectId },
    #[error(
        "the pack's trees are chained too deeply to be checked; run `git repack -adf`, then push"
    )]
    Chained,
    #[error(
        "checking the pack's trees takes too much work for its size; push fewer commits at a time"
    )]
    Costly,
    #[error("nobody waits for this pack any more")]
    Abandoned,
    #[error("the pack's trees cannot be read: {0}; run `git fsck`, then push again")]
    Unreadable(String),
}

fn unreadable(error: impl std::fmt::Display) -> BadSubmodule {
    BadSubmodule::Unreadable(error.to_string())
}

/// Looks through a pack of this quarantine that git has indexed; blocking.
pub(crate) fn check(
    quarantine: &Path,
    index: &Path,
    seen: &Seen,
    leash: &Leash,
) -> Result<(), BadSubmodule> {
    let commits = u64::try_from(seen.commits.len() + seen.unsure.len()).unwrap_or(u64::MAX);
    let steps = commits.saturating_mul(STEPS_PER_COMMIT_MAX).saturating_add(STEPS_FREE);
    let time = TIME_FREE + Duration::from_secs(seen.bytes / BYTES_PER_SEC_MIN);
    let until = leash.until.min(Instant::now() + time);
    let mut budget = Budget { steps_left: steps, bytes_left: leash.bytes_max, until, leash };
    let mut trees = HashSet::new();
    for offsets in [&seen.commits, &seen.unsure] {
        for some in offsets.chunks(COMMITS_PER_MAPPING) {
            let store = Objects::open(quarantine).map_err(unreadable)?.into_handle();
            let store = store.with_pack_cache(|| Box::new(Recent::default()));
            let Bundle { pack, index } =
                Bundle::at(index, gix_hash::Kind::Sha1).map_err(unreadable)?;
            let pack = pack.with_alloc_limit_bytes(Some(ALLOC_BYTES_MAX));
            let bundle = Bundle { pack, index };
            let (budget, trees) = (&mut budget, &mut trees);
            Walk { store, bundle, last: None, trees, budget }.check(some)?;
        }
    }
    Ok(())
}

/// What the check may cost at most; it ends early once `abandoned` is set.
#[derive(Debug)]
pub(crate) struct Leash {
    pub(crate) until: Instant,
    pub(crate) bytes_max: u64,
    pub(crate) abandoned: Arc<AtomicBool>,
}

struct Budget<'a> {
    steps_left: u64,
    bytes_left: u64,
    until: Instant,
    leash: &'a Leash,
}

impl Budget<'_> {
    /// Paid before an object of this size is made.
    fn pay(&mut self, deltas: u32, bytes: u64) -> Result<(), BadSubmodule> {
        if self.leash.abandoned.load(Ordering::Relaxed) {
            return Err(BadSubmodule::Abandoned);
        }
        if Instant::now() >= self.until {
            return Err(BadSubmodule::Costly);
        }
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or(BadSubmodule::Costly)?;
        let left = self.steps_left.checked_sub(u64::from(deltas) + 1);
        self.steps_left = left.ok_or(BadSubmodule::Chained)?;
        Ok(())
    }
}

/// Commits are found by their place in the pack, what they lead to by its id: a tree may have come
/// earlier, with nothing that led clients to it.
struct Walk<'a, 'b> {
    store: HandleArc,
    bundle: Bundle,
    /// Most commits leave the file as it was.
    last: Option<ObjectId>,
    /// Already checked.
    trees: &'a mut HashSet<ObjectId>,
    budget: &'a mut Budget<'b>,
}

impl Walk<'_, '_> {
    fn check(&mut self, offsets: &[u64]) -> Result<(), BadSubmodule> {
        let mut buffer = Vec::new();
        for offset in offsets {
            if !self.is_commit(*offset)? {
                continue;
            }
            self.read_at(*offset, &mut buffer)?;
            let tree = root_tree(&buffer).ok_or_else(|| unreadable("a commit has no tree"))?;
            if !self.is_new(tree) {
                continue;
            }
            self.size(&tree)?;
            self.read(&tree, &mut buffer)?;
            self.check_tree(&mut buffer)?;
        }
        Ok(())
    }

    fn is_new(&mut self, tree: ObjectId) -> bool {
        if self.trees.len() >= TREES_KNOWN_MAX {
            self.trees.clear();
        }
        self.trees.insert(tree)
    }

    fn check_tree(&mut self, buffer: &mut Vec<u8>) -> Result<(), BadSubmodule> {
        let entries = TreeRefIter::from_bytes(buffer, gix_hash::Kind::Sha1).filter_map(Result::ok);
        // More than one only on file systems that do not tell case apart.
        let found: Vec<ObjectId> = entries
            .filter(|entry| entry.filename.eq_ignore_ascii_case(NAME) && entry.mode.is_blob())
            .map(|entry| entry.oid.to_owned())
            .collect();
        for blob in found {
            if self.last.replace(blob) == Some(blob) {
                continue;
            }
            if self.size(&blob)? > BYTES_MAX {
                return Err(BadSubmodule::Large { blob });
            }
            self.read(&blob, buffer)?;
            if !is_harmless(buffer) {
                return Err(BadSubmodule::Control { blob });
            }
        }
        Ok(())
    }

    fn size(&mut self, id: &ObjectId) -> Result<u64, BadSubmodule> {
        let header = self.store.try_header(id).map_err(unreadable)?;
        let header = header.ok_or_else(|| unreadable("an object is missing"))?;
        self.budget.pay(header.num_deltas().unwrap_or(0), header.size())?;
        Ok(header.size())
    }

    fn read(&self, id: &ObjectId, into: &mut Vec<u8>) -> Result<(), BadSubmodule> {
        let found = self.store.try_find(id, into).map_err(unreadable)?;
        found.map(|_| ()).ok_or_else(|| unreadable("an object is missing"))
    }

    fn is_commit(&mut self, offset: u64) -> Result<bool, BadSubmodule> {
        let pack = &self.bundle.pack;
        let entry = pack.entry(offset).map_err(unreadable)?;
        let base = |id: &gix_hash::oid| match self.offset_of(id) {
            Some(offset) => pack.entry(offset).map(header::ResolvedBase::InPack).map(Some),
            None => Ok(None),
        };
        let header = pack.decode_header(entry, &mut Default::default(), &base);
        let header = header.map_err(unreadable)?;
        let is_commit = header.kind == Kind::Commit;
        // Only commits are read.
        self.budget.pay(header.num_deltas, if is_commit { header.object_size } else { 0 })?;
        Ok(is_commit)
    }

    fn read_at(&mut self, offset: u64, into: &mut Vec<u8>) -> Result<(), BadSubmodule> {
        let pack = &self.bundle.pack;
        let entry = pack.entry(offset).map_err(unreadable)?;
        let base = |id: &gix_hash::oid, _: &mut Vec<u8>| match self.offset_of(id) {
            Some(offset) => pack.entry(offset).map(entry::ResolvedBase::InPack).map(Some),
            None => Ok(None),
        };
        let never = &mut gix_odb::pack::cache::Never;
        let read = pack.decode_entry(entry, into, &mut Default::default(), &base, never);
        self.budget.pay(read.map_err(unreadable)?.num_deltas, 0)
    }

    fn offset_of(&self, id: &gix_hash::oid) -> Option<u64> {
        let index = &self.bundle.index;
        index.lookup(id).map(|at| index.pack_offset_at_index(at))
    }
}

fn root_tree(commit: &[u8]) -> Option<ObjectId> {
    let id = commit.strip_prefix(b"tree ")?.get(..40)?;
    ObjectId::from_hex(id).ok()
}

/// Neighbouring trees are made from each other, so the last few are worth keeping.
#[derive(Default)]
struct Recent {
    objects: [Option<Known>; Self::LEN],
    next: usize,
}

struct Known {
    place: (u32, u64),
    kind: Kind,
    compressed_size: usize,
    data: Vec<u8>,
}

impl Recent {
    const LEN: usize = 32;
    const OBJECT_BYTES_MAX: usize = 128 << 10;
}

impl DecodeEntry for Recent {
    fn put(&mut self, pack: u32, offset: u64, data: &[u8], kind: Kind, compressed_size: usize) {
        if data.len() > Self::OBJECT_BYTES_MAX {
            return;
        }
        self.next = (self.next + 1) % Self::LEN;
        if let Some(place) = self.objects.get_mut(self.next) {
            let data = data.to_vec();
            *place = Some(Known { place: (pack, offset), kind, compressed_size, data });
        }
    }

    fn get(&mut self, pack: u32, offset: u64, out: &mut Vec<u8>) -> Option<(Kind, usize)> {
        let here = |known: &&Known| known.place == (pack, offset);
        let known = self.objects.iter().flatten().find(here)?;
        out.clear();
        out.extend_from_slice(&known.data);
        Some((known.kind, known.compressed_size))
    }
}

/// No value in this configuration text has a control character, be it written plainly or escaped;
/// tabs indent, and git drops the CR of an end of line.
fn is_harmless(text: &[u8]) -> bool {
    let mut continued = false;
    text.split_inclusive(|byte| *byte == b'\n').all(|line| {
        let line = line.strip_suffix(b"\r\n").or(line.strip_suffix(b"\n")).unwrap_or(line);
        // Behind a continued line, a `#` may stand in the middle of a value.
        let comment = !continued && matches!(line.trim_ascii_start().first(), Some(b'#' | b';'));
        continued = line.ends_with(b"\\");
        let control = line.iter().any(|byte| byte.is_ascii_control() && *byte != b'\t');
        !control && (comment || !escapes_control(line))
    })
}

fn escapes_control(line: &[u8]) -> bool {
    let mut bytes = line.iter();
    while let Some(byte) = bytes.next() {
        if *byte == b'\\' && matches!(bytes.next(), Some(b'n' | b'b')) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_files_are_harmless() {
        for text in [
            "",
            "[submodule \"a\"]\n\tpath = lib/a\n\turl = https://example.com/a.git\n",
            "[submodule \"a\"]\r\n\tpath = lib/a\r\n",
            "# keep C:\\new\n[submodule \"ü\"]\n\turl = C:\\\\new\\\\bits\n",
        ] {
            assert!(is_harmless(text.as_bytes()), "{text:?}");
        }
    }

    #[test]
    fn a_value_with_a_control_character_is_not() {
        for text in [
            "[submodule \"a\"]\n\tpath = \"x\r\"\n",
            "[submodule \"a\r\"]\n",
            "\tpath = x\r",
            "\turl = \"https://example.com/\\nx\"\n",
            "\tpath = \"x\\\n#\\b\"\n",
            "\tpath = a\0b\n",
            "\tpath = a\x7fb\n",
        ] {
            assert!(!is_harmless(text.as_bytes()), "{text:?}");
        }
    }
}

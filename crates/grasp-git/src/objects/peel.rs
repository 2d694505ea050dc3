//! What a ref to an object has to say, or why it cannot be shown. The one rule behind both "is this
//! state complete here" and "which refs are written": a ref is shown or it is named as unfit.

use super::{Objects, id, oid};
use crate::objects::ObjectKind;
use crate::refs::Entry;
use gix_object::{Find, TagRefIter};
use gix_odb::Header;
use grasp_core::unfit::{Unfit, UnfitRef};
use grasp_core::{Oid, RefName};
use std::collections::{BTreeMap, HashMap};

/// Packs bound what they inflate to, so this bounds memory, not work.
const TAG_BYTES_MAX: u64 = 32 << 20;
/// Tags that point to tags.
const TAG_DEPTH_MAX: usize = 1_000;
/// The most that git itself writes (`pack.depth`).
const TAG_DELTAS_MAX: u32 = 4_095;
/// Of all tags of one state together: about a quarter of a second, once. 5,000 tags of 50 deltas
/// each, the most that one event and git's defaults make, take 410,000.
const STATE_STEPS_MAX: u32 = 500_000;
/// Reading a tag costs as much as so many deltas.
const STEPS_PER_TAG: u32 = 32;
/// Tags whose target is remembered, about 60 bytes each: at least all tags of one state.
const LINKS_MAX: usize = 16_384;
const _: () = assert!(STATE_STEPS_MAX / STEPS_PER_TAG < LINKS_MAX as u32);

/// The refs of a state, each either as it would be written or with the reason why it cannot be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RefEntries {
    pub fit: BTreeMap<RefName, Entry>,
    pub unfit: Vec<UnfitRef>,
}

impl RefEntries {
    pub fn is_complete(&self) -> bool {
        self.unfit.is_empty()
    }
}

/// Where a tag object points, and how many deltas it takes to read it.
#[derive(Debug, Clone, Copy)]
struct TagLink {
    target: Oid,
    deltas: u32,
}

/// Tag objects never change, so what was read of them once stays true.
#[derive(Debug, Default)]
pub(super) struct TagLinks(HashMap<Oid, TagLink>);

impl TagLinks {
    fn keep(&mut self, tag: Oid, link: TagLink) {
        if self.0.len() >= LINKS_MAX {
            self.0.clear();
        }
        self.0.insert(tag, link);
    }
}

impl Objects {
    pub fn entries(&self, refs: &BTreeMap<RefName, Oid>) -> RefEntries {
        let mut steps_left = STATE_STEPS_MAX;
        let mut entries = RefEntries::default();
        for (name, oid) in refs {
            let (name, oid) = (name.clone(), *oid);
            match self.entry_for(&name, &oid, &mut steps_left) {
                Ok(entry) => drop(entries.fit.insert(name, entry)),
                Err(why) => entries.unfit.push(UnfitRef { name, oid, why }),
            }
        }
        entries
    }

    /// For a ref that may point to any object.
    pub fn peel(&self, oid: &Oid) -> Result<Entry, Unfit> {
        self.peel_within(oid, &mut { STATE_STEPS_MAX })
    }

    /// Git insists that branches are commits.
    fn entry_for(&self, name: &RefName, oid: &Oid, steps_left: &mut u32) -> Result<Entry, Unfit> {
        if !name.is_branch() {
            return self.peel_within(oid, steps_left);
        }
        match self.kind(oid).ok_or(Unfit::Absent)? {
            ObjectKind::Commit => Ok(Entry { oid: *oid, peeled: None }),
            other => Err(Unfit::NotACommit(other.as_str())),
        }
    }

    fn peel_within(&self, oid: &Oid, steps_left: &mut u32) -> Result<Entry, Unfit> {
        let mut end = *oid;
        for depth in 0..=TAG_DEPTH_MAX {
            // Only the first is looked up again: what it leads to is here as long as it is.
            let known = self.1.borrow().0.get(&end).copied().filter(|_| depth > 0);
            let link = match known {
                Some(link) => link,
                None if self.kind(&end).ok_or(Unfit::Absent)? != ObjectKind::Tag => {
                    return Ok(Entry { oid: *oid, peeled: (end != *oid).then_some(end) });
                }
                None => self.tag_link(&end)?,
            };
            let steps = link.deltas.saturating_add(STEPS_PER_TAG);
            *steps_left = steps_left.checked_sub(steps).ok_or(Unfit::TooManySteps)?;
            end = link.target;
        }
        Err(Unfit::Nested { max: TAG_DEPTH_MAX })
    }

    fn tag_link(&self, tag: &Oid) -> Result<TagLink, Unfit> {
        if let Some(link) = self.1.borrow().0.get(tag) {
            return Ok(*link);
        }
        let link = self.read_tag(tag)?;
        self.1.borrow_mut().keep(*tag, link);
        Ok(link)
    }

    /// Looks at size and cost before anything is unpacked.
    fn read_tag(&self, tag: &Oid) -> Result<TagLink, Unfit> {
        let header = self.0.try_header(&id(tag)).ok().flatten().ok_or(Unfit::Absent)?;
        let deltas = header.num_deltas().unwrap_or(0);
        if header.size() > TAG_BYTES_MAX {
            return Err(Unfit::Large { bytes_max: TAG_BYTES_MAX });
        }
        if deltas > TAG_DELTAS_MAX {
            return Err(Unfit::Deltas { max: TAG_DELTAS_MAX });
        }
        let mut buffer = Vec::new();
        let found = self.0.try_find(&id(tag), &mut buffer).ok().flatten();
        found.ok_or(Unfit::Unreadable)?;
        let target = TagRefIter::from_bytes(&buffer, gix_hash::Kind::Sha1).target_id().ok();
        let target = target.and_then(|target| oid(&target)).ok_or(Unfit::Unreadable)?;
        Ok(TagLink { target, deltas })
    }
}

//! Loads the announcements that can matter, and no more: what is listed from the seeds onwards,
//! and who lists the seeds. The caller's lookups are what costs, so they are what is counted.

use super::keys::Keys;
use super::{Family, Member, Node};
use crate::id::PubKey;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashSet};

impl Family {
    /// Up to a root and down again from there.
    const GATHER_LEVELS_MAX: usize = 2 * Self::LEVELS_MAX;
    const LISTERS_MAX: usize = 256;

    /// `announcement_of` answers with what is known of a key under this identifier; `listers_of`
    /// with the keys whose announcements list a key, those with a served one first.
    pub fn gather(
        seeds: impl IntoIterator<Item = PubKey>,
        mut announcement_of: impl FnMut(&PubKey) -> Option<Member>,
        listers_of: impl FnMut(&PubKey) -> Vec<PubKey>,
    ) -> Self {
        let seeds: BTreeSet<PubKey> = seeds.into_iter().take(Self::KEYS_MAX).collect();
        let listers: Vec<PubKey> =
            seeds.iter().flat_map(listers_of).take(Self::LISTERS_MAX).collect();
        let mut found = BTreeMap::new();
        let mut seen: HashSet<PubKey> = seeds.iter().copied().collect();
        let mut room = Self::KEYS_MAX;
        let mut level = seeds;
        for _ in 0..=Self::GATHER_LEVELS_MAX {
            room = room.saturating_sub(level.len());
            let loaded: Vec<(PubKey, Member)> =
                level.into_iter().filter_map(|key| Some((key, announcement_of(&key)?))).collect();
            level = next_level(&loaded, &mut seen, room);
            found.extend(loaded);
            if level.is_empty() {
                break;
            }
        }
        for key in listers {
            if let Entry::Vacant(place) = found.entry(key)
                && let Some(member) = announcement_of(&key)
            {
                place.insert(member);
            }
        }
        Self::linked(found)
    }

    /// Turns listings into edges. Keys without an announcement are no nodes: nothing follows from
    /// them.
    fn linked(found: BTreeMap<PubKey, Member>) -> Self {
        let keys = Keys::new(found.keys().copied().collect());
        let node = |member: Member| {
            let active = member.roles.active.iter();
            let lists = active.filter_map(|key| keys.position(key)).collect();
            Node { member, lists, listed_by: Vec::new() }
        };
        let mut nodes: Vec<Node> = found.into_values().map(node).collect();
        let mut listed_by = vec![Vec::new(); nodes.len()];
        for (index, node) in nodes.iter().enumerate() {
            for to in &node.lists {
                if let Some(back) = listed_by.get_mut(*to) {
                    back.push(index);
                }
            }
        }
        for (node, back) in nodes.iter_mut().zip(listed_by) {
            node.listed_by = back;
        }
        Self { keys, nodes }
    }
}

/// Everything known, up to the bounds.
impl FromIterator<(PubKey, Member)> for Family {
    fn from_iter<T: IntoIterator<Item = (PubKey, Member)>>(members: T) -> Self {
        let members: BTreeMap<PubKey, Member> = members.into_iter().collect();
        let seeds: Vec<PubKey> = members.keys().copied().collect();
        Self::gather(seeds, |key| members.get(key).cloned(), |_| Vec::new())
    }
}

/// The lowest new keys that still fit. Kept bounded while collecting, because one level can name
/// a hundred times more keys than there is room for. What is pushed out counts as seen: when a
/// level overflows there is no next one.
fn next_level(
    loaded: &[(PubKey, Member)],
    seen: &mut HashSet<PubKey>,
    room: usize,
) -> BTreeSet<PubKey> {
    let mut next = BTreeSet::new();
    let mut highest = None;
    for key in loaded.iter().flat_map(|(_, member)| &member.roles.active) {
        let full = next.len() >= room;
        if (full && Some(*key) >= highest) || !seen.insert(*key) {
            continue;
        }
        next.insert(*key);
        if full {
            next.pop_last();
        }
        highest = next.last().copied();
    }
    next
}

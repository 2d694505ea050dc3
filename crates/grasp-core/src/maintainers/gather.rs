//! Loads the announcements that can matter, and no more: what is listed from the seeds onwards,
//! and who lists the seeds. The caller's lookups are what costs, so they are what is counted.

use super::keys::Keys;
use super::{Family, Member, Node};
use crate::id::PubKey;
use std::collections::{BTreeMap, BTreeSet, HashMap};

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
        let listers: BTreeSet<PubKey> =
            seeds.iter().flat_map(listers_of).take(Self::LISTERS_MAX).collect();
        let mut walk = Walk::from(&seeds);
        let mut level = seeds;
        for _ in 0..=Self::GATHER_LEVELS_MAX {
            level = walk.load(&level, &mut announcement_of);
        }
        walk.load_only(&listers, &mut announcement_of);
        walk.linked()
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

/// Every key met gets a number once, so that each listing is looked up once.
struct Walk {
    numbers: HashMap<PubKey, usize>,
    /// How many more keys may be loaded.
    room: usize,
    /// With the numbers of whom they list.
    found: BTreeMap<PubKey, (Member, Vec<usize>)>,
}

impl Walk {
    fn from(seeds: &BTreeSet<PubKey>) -> Self {
        let numbers = seeds.iter().copied().zip(0..).collect();
        Self { numbers, room: Family::KEYS_MAX.saturating_sub(seeds.len()), found: BTreeMap::new() }
    }

    /// Loads one level and answers with the next: the lowest new keys that still fit.
    fn load(
        &mut self,
        level: &BTreeSet<PubKey>,
        announcement_of: &mut impl FnMut(&PubKey) -> Option<Member>,
    ) -> BTreeSet<PubKey> {
        let mut next = BTreeSet::new();
        for key in level {
            if let Some(member) = announcement_of(key) {
                let lists = self.numbered(&member.roles.active, &mut next);
                self.found.insert(*key, (member, lists));
            }
        }
        self.room = self.room.saturating_sub(next.len());
        next
    }

    /// Loads what is not loaded yet and goes no further.
    fn load_only(
        &mut self,
        keys: &BTreeSet<PubKey>,
        announcement_of: &mut impl FnMut(&PubKey) -> Option<Member>,
    ) {
        let unread: BTreeSet<PubKey> =
            keys.iter().filter(|key| !self.found.contains_key(key)).copied().collect();
        for key in &unread {
            let number = self.numbers.len();
            self.numbers.entry(*key).or_insert(number);
        }
        self.room = 0;
        self.load(&unread, announcement_of);
    }

    /// `next` stays bounded while it is collected, because one level can name a hundred times more
    /// keys than there is room for. What is pushed out keeps its number and is never loaded: when
    /// a level overflows there is no next one.
    fn numbered(&mut self, listed: &[PubKey], next: &mut BTreeSet<PubKey>) -> Vec<usize> {
        let mut numbers = Vec::with_capacity(listed.len());
        let mut highest = next.last().copied();
        for key in listed {
            let known = self.numbers.get(key).copied();
            let full = next.len() >= self.room;
            if known.is_none() && full && Some(*key) >= highest {
                continue;
            }
            let number = known.unwrap_or(self.numbers.len());
            numbers.push(number);
            if known.is_none() {
                self.numbers.insert(*key, number);
                next.insert(*key);
                if full {
                    next.pop_last();
                }
                highest = next.last().copied();
            }
        }
        numbers
    }

    /// Turns numbers into positions among the found. Keys without an announcement are no nodes:
    /// nothing follows from them.
    fn linked(self) -> Family {
        let keys = Keys::new(self.found.keys().copied().collect());
        let mut position = vec![None; self.numbers.len()];
        for (index, key) in keys.as_slice().iter().enumerate() {
            let place = self.numbers.get(key).and_then(|number| position.get_mut(*number));
            place.into_iter().for_each(|place| *place = Some(index));
        }
        let at = |number: usize| position.get(number).copied().flatten();
        let node = |(member, lists): (Member, Vec<usize>)| {
            let lists = lists.into_iter().filter_map(at).collect();
            Node { member, lists, listed_by: Vec::new() }
        };
        let mut nodes: Vec<Node> = self.found.into_values().map(node).collect();
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
        Family { keys, nodes }
    }
}

//! What this process has learnt about git servers and what saves requests: who does not speak version
//! 2, and where everything was looked through in vain. Forgetting costs a request, nothing else.

use grasp_core::{CloneUrl, Domain, Oid};
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashSet, VecDeque};
use std::hash::{Hash, Hasher};

#[derive(Debug)]
pub(super) struct Memory {
    old: Recent<Domain>,
    searched: Recent<u64>,
}

impl Memory {
    pub(super) fn new(len_max: usize) -> Self {
        Self { old: Recent::new(len_max), searched: Recent::new(len_max) }
    }

    pub(super) fn is_old(&self, domain: &Domain) -> bool {
        self.old.contains(domain)
    }

    pub(super) fn speaks(&mut self, domain: &Domain, v2: bool) {
        if v2 { self.old.remove(domain) } else { self.old.insert(domain.clone()) }
    }

    /// Was this looked through, and none of what is wanted there?
    pub(super) fn searched(&self, search: Search) -> bool {
        self.searched.contains(&search.0)
    }

    pub(super) fn searched_in_vain(&mut self, search: Search) {
        self.searched.insert(search.0);
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Search(u64);

impl Search {
    pub(super) fn new(url: &CloneUrl, tips: &BTreeSet<Oid>, wants: &BTreeSet<Oid>) -> Self {
        let mut hasher = DefaultHasher::new();
        (url, tips, wants).hash(&mut hasher);
        Self(hasher.finish())
    }
}

/// The last so many.
#[derive(Debug)]
struct Recent<K> {
    len_max: usize,
    order: VecDeque<K>,
    known: HashSet<K>,
}

impl<K: Hash + Eq + Clone> Recent<K> {
    fn new(len_max: usize) -> Self {
        Self { len_max, order: VecDeque::new(), known: HashSet::new() }
    }

    fn contains(&self, key: &K) -> bool {
        self.known.contains(key)
    }

    fn insert(&mut self, key: K) {
        if self.len_max == 0 || !self.known.insert(key.clone()) {
            return;
        }
        self.order.push_back(key);
        if self.order.len() > self.len_max
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }

    fn remove(&mut self, key: &K) {
        if self.known.remove(key) {
            self.order.retain(|it| it != key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(n: usize) -> Domain {
        format!("git{n}.example").parse().unwrap()
    }

    #[test]
    fn the_oldest_is_forgotten_and_a_server_may_learn() {
        let mut memory = Memory::new(3);
        for n in 0..4 {
            memory.speaks(&domain(n), false);
            memory.speaks(&domain(n), false);
        }
        let old: Vec<bool> = (0..4).map(|n| memory.is_old(&domain(n))).collect();
        assert_eq!(old, [false, true, true, true]);
        memory.speaks(&domain(2), true);
        assert!(!memory.is_old(&domain(2)) && memory.is_old(&domain(1)));
        assert_eq!(memory.old.order.len(), memory.old.known.len());
    }

    #[test]
    fn a_search_is_the_same_only_if_nothing_changed() {
        let url: CloneUrl = "https://git.example/a.git".parse().unwrap();
        let other: CloneUrl = "https://git.example/b.git".parse().unwrap();
        let set = |n: u8| BTreeSet::from([Oid::from_bytes([n; 20])]);
        let mut memory = Memory::new(10);
        memory.searched_in_vain(Search::new(&url, &set(1), &set(2)));
        assert!(memory.searched(Search::new(&url, &set(1), &set(2))));
        for search in [
            Search::new(&other, &set(1), &set(2)),
            Search::new(&url, &set(3), &set(2)),
            Search::new(&url, &set(1), &set(3)),
        ] {
            assert!(!memory.searched(search));
        }
    }
}

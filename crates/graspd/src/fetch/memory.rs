//! What this process has learnt about git servers and what saves requests: who does not speak version
//! 2, where everything was looked through in vain, and what may not be taken. Forgetting costs a
//! request, nothing else.

use super::Part;
use grasp_core::{CloneUrl, Domain, Oid};
use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{Hash, Hasher};
use std::time::Duration;
use tokio::time::Instant;

#[derive(Debug)]
pub(super) struct Memory {
    old: Recent<Domain>,
    unfiltered: Recent<Domain>,
    searched: Recent<u64>,
    spurned: Spurned,
}

/// How long something that may not be taken is not asked for again. Limits may change, and what was
/// too large alone may be small beside what came meanwhile.
const SPURNED_FOR: Duration = Duration::from_secs(6 * 3600);

impl Memory {
    pub(super) fn new(len_max: usize) -> Self {
        let spurned = Spurned { len_max, order: VecDeque::new(), known: HashMap::new() };
        Self {
            old: Recent::new(len_max),
            unfiltered: Recent::new(len_max),
            searched: Recent::new(len_max),
            spurned,
        }
    }

    pub(super) fn is_old(&self, domain: &Domain) -> bool {
        self.old.contains(domain)
    }

    pub(super) fn speaks(&mut self, domain: &Domain, v2: bool) {
        if v2 { self.old.remove(domain) } else { self.old.insert(domain.clone()) }
    }

    /// It does not know how to leave trees out.
    pub(super) fn is_unfiltered(&self, domain: &Domain) -> bool {
        self.unfiltered.contains(domain)
    }

    pub(super) fn filters(&mut self, domain: &Domain, filters: bool) {
        if filters {
            self.unfiltered.remove(domain);
        } else {
            self.unfiltered.insert(domain.clone());
        }
    }

    /// Was this looked through, and none of what is wanted there?
    pub(super) fn searched(&self, search: Search) -> bool {
        self.searched.contains(&search.0)
    }

    pub(super) fn searched_in_vain(&mut self, search: Search) {
        self.searched.insert(search.0);
    }

    pub(super) fn spurn(&mut self, offer: Offer, why: &str, now: Instant) {
        self.spurned.insert(offer.0, why, now + SPURNED_FOR, now);
    }

    /// Why this may not be taken, if it was tried lately.
    pub(super) fn spurned(&self, offer: Offer, now: Instant) -> Option<&str> {
        self.spurned.get(offer.0, now)
    }
}

/// An object from this address, under all that decides whether it may be taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offer(u64);

impl Offer {
    pub(super) fn new(url: &CloneUrl, part: &Part, oid: &Oid) -> Self {
        let mut hasher = DefaultHasher::new();
        let is_first = part.whole || part.haves.is_empty();
        let must_be_commit = part.commits.contains(oid);
        (url, &part.to, oid, part.whole, is_first).hash(&mut hasher);
        (must_be_commit, part.limits.bytes_max).hash(&mut hasher);
        Self(hasher.finish())
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

/// The last so many, each for the same time.
#[derive(Debug)]
struct Spurned {
    len_max: usize,
    order: VecDeque<(Instant, u64)>,
    known: HashMap<u64, (Instant, Box<str>)>,
}

impl Spurned {
    fn get(&self, key: u64, now: Instant) -> Option<&str> {
        self.known.get(&key).filter(|(until, _)| now < *until).map(|(_, why)| &**why)
    }

    fn insert(&mut self, key: u64, why: &str, until: Instant, now: Instant) {
        while let Some((first, _)) = self.order.front()
            && (*first <= now || self.order.len() >= self.len_max)
        {
            self.forget_first();
        }
        if self.len_max > 0 && !self.known.contains_key(&key) {
            self.order.push_back((until, key));
            self.known.insert(key, (until, why.into()));
        }
    }

    fn forget_first(&mut self) {
        if let Some((_, key)) = self.order.pop_front() {
            self.known.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grasp_git::PackLimits;

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

    #[test]
    fn what_may_not_be_taken_is_left_alone_for_six_hours() {
        let url: CloneUrl = "https://git.example/a.git".parse().unwrap();
        let owner = grasp_core::PubKey::from_bytes([1; 32]);
        let part = Part {
            to: grasp_core::RepoId { owner, identifier: "acme".parse().unwrap() },
            wants: BTreeSet::new(),
            commits: BTreeSet::new(),
            limits: PackLimits::push(100),
            haves: vec![],
            whole: false,
            may_step: false,
            is_resuming: false,
            tags: vec![],
        };
        let oid = |n: u8| Oid::from_bytes([n; 20]);
        let mut memory = Memory::new(3);
        let start = Instant::now();
        let one = Offer::new(&url, &part, &oid(1));
        memory.spurn(one, "too large", start);
        let soon = start + SPURNED_FOR - Duration::from_secs(1);
        assert_eq!(memory.spurned(one, soon), Some("too large"));
        assert_eq!(memory.spurned(one, start + SPURNED_FOR), None);
        let roomy = Part { limits: PackLimits::push(200), ..part.clone() };
        let built_up = Part { haves: vec![oid(9)], ..part.clone() };
        for other in [
            Offer::new(&url, &part, &oid(2)),
            Offer::new(&url, &roomy, &oid(1)),
            Offer::new(&url, &built_up, &oid(1)),
        ] {
            assert_eq!(memory.spurned(other, start), None);
        }
        for n in 2..=4 {
            memory.spurn(Offer::new(&url, &part, &oid(n)), "damaged", start);
        }
        let known = |n: u8| memory.spurned(Offer::new(&url, &part, &oid(n)), start).is_some();
        assert_eq!([1, 2, 3, 4].map(known), [false, true, true, true], "the oldest made room");
        let later = start + SPURNED_FOR;
        memory.spurn(one, "damaged", later);
        assert_eq!((memory.spurned.known.len(), memory.spurned.order.len()), (1, 1));
        assert_eq!(memory.spurned(one, later), Some("damaged"));
    }
}

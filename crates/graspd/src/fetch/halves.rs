//! What is asked for in halves because it may not be taken together, down to single objects: so one
//! that may not be taken at all keeps nothing else away. Pure. Invariant: so many requests, no more.

use grasp_core::Oid;
use std::collections::BTreeSet;

#[derive(Debug)]
pub(super) struct Halves {
    waiting: Vec<BTreeSet<Oid>>,
    requests_left: usize,
}

impl Halves {
    pub(super) fn new(requests_max: usize) -> Self {
        Self { waiting: Vec::new(), requests_left: requests_max }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn split(&mut self, whole: &BTreeSet<Oid>) {
        let mut first = whole.clone();
        if let Some(middle) = whole.iter().nth(whole.len() / 2) {
            self.waiting.push(first.split_off(middle));
        }
        self.waiting.push(first);
    }

    /// Not all of it is to be had.
    pub(super) fn put_back(&mut self, rest: BTreeSet<Oid>) {
        self.waiting.push(rest);
    }

    /// The next to be asked for.
    pub(super) fn next(&mut self) -> Option<BTreeSet<Oid>> {
        let half = self.waiting.pop()?;
        self.requests_left = self.requests_left.saturating_sub(1);
        Some(half)
    }

    /// Some came with another half, or are known not to come.
    pub(super) fn keep(&mut self, open: &BTreeSet<Oid>) {
        self.waiting.iter_mut().for_each(|half| half.retain(|oid| open.contains(oid)));
        self.waiting.retain(|half| !half.is_empty());
    }

    /// What nothing may be spent on any more.
    pub(super) fn give_up(&mut self) -> BTreeSet<Oid> {
        match self.requests_left {
            0 => std::mem::take(&mut self.waiting).into_iter().flatten().collect(),
            _ => BTreeSet::new(),
        }
    }

    /// Forgets what waits, not what was spent.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }
}

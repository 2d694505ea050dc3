//! Whose history is being asked for (S-24): so many relays at a time, the others in the order in
//! which they came. A turn is given back when nothing is open, or when it leads to nothing.

use std::collections::{BTreeSet, VecDeque};

#[derive(Debug)]
pub(crate) struct Turns {
    max: usize,
    taken: BTreeSet<u32>,
    waiting: VecDeque<u32>,
}

impl Turns {
    pub(crate) fn new(max: usize) -> Self {
        Self { max: max.max(1), taken: BTreeSet::new(), waiting: VecDeque::new() }
    }

    pub(crate) fn has(&self, relay: u32) -> bool {
        self.taken.contains(&relay)
    }

    /// True if it is this relay's turn; otherwise it is told when it is.
    pub(crate) fn take(&mut self, relay: u32) -> bool {
        if self.taken.contains(&relay) {
            return true;
        }
        if self.taken.len() < self.max {
            self.waiting.retain(|waiting| *waiting != relay);
            self.taken.insert(relay);
            return true;
        }
        if !self.waiting.contains(&relay) {
            self.waiting.push_back(relay);
        }
        false
    }

    pub(crate) fn give_back(&mut self, relay: u32) {
        self.waiting.retain(|waiting| *waiting != relay);
        self.taken.remove(&relay);
    }

    pub(crate) fn is_waited_for(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Who has waited longest, if there is a turn for it.
    pub(crate) fn next(&mut self) -> Option<u32> {
        if self.taken.len() >= self.max {
            return None;
        }
        self.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s24_turns_go_round() {
        let mut turns = Turns::new(2);
        assert!(turns.take(1) && turns.take(2) && turns.take(1));
        assert!(!turns.take(3) && !turns.take(4) && !turns.take(3));
        assert_eq!(turns.next(), None);
        turns.give_back(1);
        assert_eq!(turns.next(), Some(3));
        assert!(turns.take(3) && !turns.take(1));
        turns.give_back(2);
        assert_eq!(turns.next(), Some(4));
        turns.give_back(9);
        assert_eq!(turns.next(), Some(1));
        assert_eq!(turns.next(), None);
    }
}

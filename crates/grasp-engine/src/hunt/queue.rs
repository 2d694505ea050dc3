//! Who waits for a domain, and whose turn it is (S-35): whoever was not tried there yet before
//! everybody else, owners in turn, and the repositories of one owner in turn. A place is kept while
//! its holder is busy elsewhere. Invariant: only places that are ready stand in a line.

use super::slot_class::SlotClass;
use super::turns::Line;
use grasp_core::{PubKey, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Not tried on this domain since its last fresh start, or waiting for very long.
    First,
    Later,
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    places: BTreeMap<u64, Place>,
    /// One line for each class of slots.
    first: [Line<u64>; SlotClass::COUNT],
    later: [Line<u64>; SlotClass::COUNT],
    /// Places of the later class, longest waiting first.
    ages: BTreeSet<(Time, u64)>,
    next_ticket: u64,
}

#[derive(Debug)]
struct Place {
    owner: PubKey,
    ticket: u64,
    since: Time,
    class: Class,
    /// The slot it needs, if it could start.
    ready: Option<SlotClass>,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(super) fn has_ready(&self) -> bool {
        self.first.iter().chain(&self.later).any(|line| !line.is_empty())
    }

    /// One that was not tried here yet could start, if it had such a slot.
    pub(super) fn has_first(&self, slot: SlotClass) -> bool {
        self.first.get(slot.index()).is_some_and(|line| !line.is_empty())
    }

    /// Takes a place, which is not ready yet. Whoever has one keeps it.
    pub(super) fn join(&mut self, entry: u64, owner: PubKey, class: Class, now: Time) {
        if self.places.contains_key(&entry) {
            return;
        }
        let ticket = self.ticket();
        self.places.insert(entry, Place { owner, ticket, since: now, class, ready: None });
        if class == Class::Later {
            self.ages.insert((now, entry));
        }
    }

    pub(super) fn leave(&mut self, entry: u64) {
        self.set_ready(entry, None);
        if let Some(place) = self.places.remove(&entry) {
            self.ages.remove(&(place.since, entry));
        }
    }

    /// Leaves because it had its turn, which its owner pays for.
    pub(super) fn leave_served(&mut self, entry: u64, slot: SlotClass) {
        let Some(place) = self.places.get(&entry) else { return };
        let (owner, class) = (place.owner, place.class);
        self.leave(entry);
        let stamp = self.ticket();
        if let Some(line) = self.line(class, slot) {
            line.charge(owner, stamp);
        }
    }

    /// Only what is ready is picked: what could start, if it had such a slot. True if that is news.
    pub(super) fn set_ready(&mut self, entry: u64, ready: Option<SlotClass>) -> bool {
        let Some(place) = self.places.get_mut(&entry) else { return false };
        if place.ready == ready {
            return false;
        }
        let before = std::mem::replace(&mut place.ready, ready);
        let (owner, ticket, class) = (place.owner, place.ticket, place.class);
        if let Some(line) = before.and_then(|slot| self.line(class, slot)) {
            line.remove(owner, ticket);
        }
        if let Some(line) = ready.and_then(|slot| self.line(class, slot)) {
            line.insert(owner, ticket, entry);
        }
        true
    }

    pub(super) fn set_class(&mut self, entry: u64, class: Class) {
        let Some(place) = self.places.get_mut(&entry).filter(|place| place.class != class) else {
            return;
        };
        let (since, ready) = (place.since, place.ready);
        self.set_ready(entry, None);
        if let Some(place) = self.places.get_mut(&entry) {
            place.class = class;
        }
        match class {
            Class::First => self.ages.remove(&(since, entry)),
            Class::Later => self.ages.insert((since, entry)),
        };
        self.set_ready(entry, ready);
    }

    /// Those who wait for very long count like those who were never tried.
    pub(super) fn age(&mut self, aged_after: Duration, now: Time) {
        while let Some((since, entry)) = self.ages.first().copied()
            && since.plus(aged_after) <= now
        {
            self.set_class(entry, Class::First);
        }
    }

    /// Whose turn it is among those that need such a slot. Owners that are held back let the others
    /// go first.
    pub(super) fn first(
        &self,
        slot: SlotClass,
        is_held_back: impl Fn(&PubKey) -> bool,
    ) -> Option<u64> {
        let (first, later) = (self.first.get(slot.index())?, self.later.get(slot.index())?);
        let best = first.first(&is_held_back).or_else(|| later.first(&is_held_back));
        let any = |line: &Line<u64>| line.first(|_| false).copied();
        best.copied().or_else(|| any(first)).or_else(|| any(later))
    }

    pub(super) fn owner_of(&self, entry: u64) -> Option<PubKey> {
        self.places.get(&entry).map(|place| place.owner)
    }

    fn line(&mut self, class: Class, slot: SlotClass) -> Option<&mut Line<u64>> {
        match class {
            Class::First => self.first.get_mut(slot.index()),
            Class::Later => self.later.get_mut(slot.index()),
        }
    }

    fn ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOT: SlotClass = SlotClass::Served;
    const AGED: Duration = Duration::from_secs(600);

    fn owner(n: u8) -> PubKey {
        PubKey::from_bytes([n; 32])
    }

    fn serve(queue: &mut Queue, now: Time) -> Option<u64> {
        queue.age(AGED, now);
        let entry = queue.first(SLOT, |_| false)?;
        queue.leave_served(entry, SLOT);
        Some(entry)
    }

    fn joined(places: &[(u64, u8, Class)]) -> Queue {
        let mut queue = Queue::default();
        for (entry, by, class) in places {
            queue.join(*entry, owner(*by), *class, Time(0));
            queue.set_ready(*entry, Some(SLOT));
        }
        queue
    }

    #[test]
    fn s35_owners_take_turns_and_so_do_the_repositories_of_each() {
        use Class::First;
        let mut queue =
            joined(&[(1, 1, First), (2, 1, First), (3, 1, First), (4, 2, First), (5, 3, First)]);
        let order: Vec<u64> = std::iter::from_fn(|| serve(&mut queue, Time(0))).collect();
        assert_eq!(order, [1, 4, 5, 2, 3]);
    }

    #[test]
    fn s35_an_owner_that_comes_back_at_once_does_not_go_first_again() {
        use Class::First;
        let mut queue = joined(&[(1, 1, First), (2, 2, First), (3, 2, First)]);
        let mut order = vec![];
        for _ in 0..6 {
            let entry = serve(&mut queue, Time(0)).unwrap();
            order.push(entry);
            queue.join(entry, owner(if entry == 1 { 1 } else { 2 }), First, Time(0));
            queue.set_ready(entry, Some(SLOT));
        }
        assert_eq!(order, [1, 2, 1, 3, 1, 2]);
    }

    #[test]
    fn s35_nobody_gets_a_second_try_before_everybody_had_a_first_unless_it_waits_for_long() {
        use Class::{First, Later};
        let mut queue = joined(&[(1, 1, Later), (2, 2, First), (3, 2, First)]);
        assert_eq!(serve(&mut queue, Time(0)), Some(2));
        queue.age(AGED, Time(599_999));
        assert_eq!(queue.first(SLOT, |_| false), Some(3));
        queue.join(4, owner(2), First, Time(1));
        queue.set_ready(4, Some(SLOT));
        assert_eq!(serve(&mut queue, Time(600_000)), Some(1), "its owner had no turn in this line");
        assert_eq!(serve(&mut queue, Time(600_000)), Some(3));
        assert_eq!(serve(&mut queue, Time(600_000)), Some(4));
        assert_eq!(serve(&mut queue, Time(600_000)), None);
        assert!(queue.is_empty() && queue.ages.is_empty());
    }

    #[test]
    fn a_place_is_kept_while_its_holder_is_busy() {
        use Class::First;
        let mut queue = joined(&[(1, 1, First), (2, 1, First)]);
        queue.set_ready(1, None);
        assert_eq!(queue.first(SLOT, |_| false), Some(2));
        queue.set_ready(1, Some(SLOT));
        assert_eq!(queue.first(SLOT, |_| false), Some(1));
        queue.set_ready(1, None);
        queue.set_ready(2, None);
        assert!(!queue.has_ready() && queue.len() == 2);
    }

    #[test]
    fn s35_an_owner_that_is_held_back_lets_others_go_first_and_goes_if_there_are_none() {
        use Class::{First, Later};
        let mut queue = joined(&[(1, 1, First), (2, 1, First), (3, 2, Later)]);
        let held_back = |it: &PubKey| *it == owner(1);
        assert_eq!(queue.first(SLOT, |_| false), Some(1));
        assert_eq!(queue.first(SLOT, held_back), Some(3));
        queue.leave_served(3, SLOT);
        assert_eq!(queue.first(SLOT, held_back), Some(1));
    }
}

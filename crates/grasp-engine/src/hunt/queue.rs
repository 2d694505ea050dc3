//! Who waits for a domain, and whose turn it is (S-35): whoever was not tried there yet before
//! everybody else, owners in turn, and the repositories of one owner in turn. A place is kept while
//! its holder is busy elsewhere. Invariant: only places that are ready stand in a line.

use super::clock::earlier;
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
    first: Line<u64>,
    later: Line<u64>,
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
    ready: bool,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.first.is_empty() || !self.later.is_empty()
    }

    /// Takes a place, which is not ready yet. Whoever has one keeps it.
    pub(super) fn join(&mut self, entry: u64, owner: PubKey, class: Class, now: Time) {
        if self.places.contains_key(&entry) {
            return;
        }
        let ticket = self.ticket();
        self.places.insert(entry, Place { owner, ticket, since: now, class, ready: false });
        if class == Class::Later {
            self.ages.insert((now, entry));
        }
    }

    pub(super) fn leave(&mut self, entry: u64) {
        self.set_ready(entry, false);
        if let Some(place) = self.places.remove(&entry) {
            self.ages.remove(&(place.since, entry));
        }
    }

    /// Leaves because it had its turn, which its owner pays for.
    pub(super) fn leave_served(&mut self, entry: u64) {
        let Some(place) = self.places.get(&entry) else { return };
        let (owner, class) = (place.owner, place.class);
        self.leave(entry);
        let stamp = self.ticket();
        self.line(class).charge(owner, stamp);
    }

    /// Only whoever is ready is picked. True if that is news.
    pub(super) fn set_ready(&mut self, entry: u64, ready: bool) -> bool {
        let Some(place) = self.places.get_mut(&entry) else { return false };
        if place.ready == ready {
            return false;
        }
        place.ready = ready;
        let (owner, ticket, class) = (place.owner, place.ticket, place.class);
        match ready {
            true => self.line(class).insert(owner, ticket, entry),
            false => self.line(class).remove(owner, ticket),
        }
        true
    }

    pub(super) fn set_class(&mut self, entry: u64, class: Class) {
        let Some(place) = self.places.get_mut(&entry).filter(|place| place.class != class) else {
            return;
        };
        let (since, ready) = (place.since, place.ready);
        self.set_ready(entry, false);
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

    /// Whose turn it is. Owners that are held back let the others go first.
    pub(super) fn first(&self, is_held_back: impl Fn(&PubKey) -> bool) -> Option<u64> {
        let first = self.first.first(&is_held_back).or_else(|| self.later.first(&is_held_back));
        let any = |line: &Line<u64>| line.first(|_| false).copied();
        first.copied().or_else(|| any(&self.first)).or_else(|| any(&self.later))
    }

    pub(super) fn owner_of(&self, entry: u64) -> Option<PubKey> {
        self.places.get(&entry).map(|place| place.owner)
    }

    /// The clock was set back.
    pub(super) fn set_back(&mut self, by: Duration) {
        for place in self.places.values_mut() {
            place.since = earlier(place.since, by);
        }
        self.ages = self.ages.iter().map(|(since, entry)| (earlier(*since, by), *entry)).collect();
    }

    fn line(&mut self, class: Class) -> &mut Line<u64> {
        match class {
            Class::First => &mut self.first,
            Class::Later => &mut self.later,
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

    const AGED: Duration = Duration::from_secs(600);

    fn owner(n: u8) -> PubKey {
        PubKey::from_bytes([n; 32])
    }

    fn serve(queue: &mut Queue, now: Time) -> Option<u64> {
        queue.age(AGED, now);
        let entry = queue.first(|_| false)?;
        queue.leave_served(entry);
        Some(entry)
    }

    fn joined(places: &[(u64, u8, Class)]) -> Queue {
        let mut queue = Queue::default();
        for (entry, by, class) in places {
            queue.join(*entry, owner(*by), *class, Time(0));
            queue.set_ready(*entry, true);
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
            queue.set_ready(entry, true);
        }
        assert_eq!(order, [1, 2, 1, 3, 1, 2]);
    }

    #[test]
    fn s35_nobody_gets_a_second_try_before_everybody_had_a_first_unless_it_waits_for_long() {
        use Class::{First, Later};
        let mut queue = joined(&[(1, 1, Later), (2, 2, First), (3, 2, First)]);
        assert_eq!(serve(&mut queue, Time(0)), Some(2));
        queue.age(AGED, Time(599_999));
        assert_eq!(queue.first(|_| false), Some(3));
        queue.join(4, owner(2), First, Time(1));
        queue.set_ready(4, true);
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
        queue.set_ready(1, false);
        assert_eq!(queue.first(|_| false), Some(2));
        queue.set_ready(1, true);
        assert_eq!(queue.first(|_| false), Some(1));
        queue.set_ready(1, false);
        queue.set_ready(2, false);
        assert!(!queue.has_ready() && queue.len() == 2);
    }

    #[test]
    fn s35_an_owner_that_is_held_back_lets_others_go_first_and_goes_if_there_are_none() {
        use Class::{First, Later};
        let mut queue = joined(&[(1, 1, First), (2, 1, First), (3, 2, Later)]);
        let held_back = |it: &PubKey| *it == owner(1);
        assert_eq!(queue.first(|_| false), Some(1));
        assert_eq!(queue.first(held_back), Some(3));
        queue.leave_served(3);
        assert_eq!(queue.first(held_back), Some(1));
    }
}

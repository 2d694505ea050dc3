//! For whom a fetch is, as far as the slots of the whole server are concerned, and how many slots
//! each class may use. Invariant: no number of new keys takes the slots of served repositories.

use super::FamilyStanding;

/// The slots are shared out in so many parts.
const PARTS: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlotClass {
    /// States of a repository that is served.
    Served,
    /// States of a new repository whose owner had a successful fetch before.
    KnownOwner,
    /// Pull requests and all else that strangers propose to a served repository.
    Proposal,
    /// States of owners from whom no fetch ever succeeded.
    UnknownOwner,
}

impl SlotClass {
    pub const ALL: [Self; 4] = [Self::Served, Self::KnownOwner, Self::Proposal, Self::UnknownOwner];
    pub(super) const COUNT: usize = Self::ALL.len();

    pub(super) fn of_states(standing: FamilyStanding) -> Self {
        match standing {
            FamilyStanding::Served => Self::Served,
            FamilyStanding::KnownOwner => Self::KnownOwner,
            FamilyStanding::UnknownOwner => Self::UnknownOwner,
        }
    }

    pub(super) fn index(self) -> usize {
        self as usize
    }

    /// Strangers caused this fetch.
    pub(super) fn is_by_strangers(self) -> bool {
        matches!(self, Self::Proposal | Self::UnknownOwner)
    }

    /// Of `slots_max` slots, how many may be used when those of this class are counted.
    pub fn slots_max(self, slots_max: usize) -> usize {
        let part = slots_max / PARTS;
        match self {
            Self::Served => slots_max,
            Self::KnownOwner => slots_max - part,
            Self::Proposal => (slots_max / 2).max(1),
            Self::UnknownOwner => part.max(1),
        }
    }

    /// Of those, how many one owner may use while others wait.
    pub(super) fn owner_share(self, slots_max: usize) -> usize {
        (self.slots_max(slots_max) / PARTS).max(1)
    }

    /// As many stay free for owners who use none yet.
    pub(super) fn kept_free(self, slots_max: usize) -> usize {
        self.slots_max(slots_max) / PARTS
    }
}

/// Slots in use, by class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct SlotUse {
    by_class: [usize; SlotClass::COUNT],
}

impl SlotUse {
    pub(super) fn total(&self) -> usize {
        self.by_class.iter().sum()
    }

    pub(super) fn add(&mut self, class: SlotClass) {
        if let Some(count) = self.by_class.get_mut(class.index()) {
            *count += 1;
        }
    }

    pub(super) fn remove(&mut self, class: SlotClass) {
        if let Some(count) = self.by_class.get_mut(class.index()) {
            *count = count.saturating_sub(1);
        }
    }

    /// All slots that count against the limit of this class.
    pub(super) fn counted_for(&self, class: SlotClass) -> usize {
        match class {
            SlotClass::Served => self.total(),
            SlotClass::KnownOwner => self.total() - self.of(SlotClass::Served),
            SlotClass::Proposal | SlotClass::UnknownOwner => self.of(class),
        }
    }

    /// May one more fetch of this class start?
    pub(super) fn has_room(&self, class: SlotClass, slots_max: usize) -> bool {
        limits_of(class).iter().all(|it| self.counted_for(*it) < it.slots_max(slots_max))
    }

    /// The same, with what is kept free for owners who use none yet.
    pub(super) fn has_room_to_spare(&self, class: SlotClass, slots_max: usize) -> bool {
        let limits = limits_of(class).iter();
        limits
            .map(|it| (self.counted_for(*it), it.slots_max(slots_max), it.kept_free(slots_max)))
            .all(|(used, max, kept)| used + kept < max)
    }

    /// Would the end of a fetch of class `ending` help one of class `waiting` that has no room?
    pub(super) fn would_help(
        &self,
        waiting: SlotClass,
        ending: SlotClass,
        slots_max: usize,
    ) -> bool {
        let full = |it: &&SlotClass| self.counted_for(**it) >= it.slots_max(slots_max);
        limits_of(waiting).iter().filter(full).all(|it| limits_of(ending).contains(it))
    }

    fn of(&self, class: SlotClass) -> usize {
        self.by_class.get(class.index()).copied().unwrap_or(0)
    }
}

/// The limits that a fetch of this class counts against, each named by its class.
fn limits_of(class: SlotClass) -> &'static [SlotClass] {
    use SlotClass::{KnownOwner, Proposal, Served, UnknownOwner};
    match class {
        Served => &[Served],
        KnownOwner => &[Served, KnownOwner],
        Proposal => &[Served, KnownOwner, Proposal],
        UnknownOwner => &[Served, KnownOwner, UnknownOwner],
    }
}

#[cfg(test)]
mod tests {
    use super::SlotClass::{KnownOwner, Proposal, Served, UnknownOwner};
    use super::*;

    const MAX: usize = 20;

    fn used(classes: &[(SlotClass, usize)]) -> SlotUse {
        let mut used = SlotUse::default();
        for (class, count) in classes {
            (0..*count).for_each(|_| used.add(*class));
        }
        used
    }

    fn open(used: &SlotUse) -> Vec<SlotClass> {
        SlotClass::ALL.into_iter().filter(|it| used.has_room(*it, MAX)).collect()
    }

    #[test]
    fn a_quarter_of_the_slots_is_reserved_for_served_repositories() {
        let others = used(&[(UnknownOwner, 3), (Proposal, 5), (KnownOwner, 7)]);
        assert_eq!(open(&others), [Served]);
        assert_eq!(open(&used(&[(Served, 20)])), []);
        assert_eq!(open(&used(&[(Served, 10), (KnownOwner, 9)])), SlotClass::ALL);
    }

    #[test]
    fn unknown_owners_share_a_quarter_and_proposals_a_half() {
        assert_eq!(open(&used(&[(UnknownOwner, 5)])), [Served, KnownOwner, Proposal]);
        assert_eq!(open(&used(&[(Proposal, 10)])), [Served, KnownOwner, UnknownOwner]);
    }

    #[test]
    fn a_single_slot_is_for_all() {
        for class in SlotClass::ALL {
            assert_eq!(class.slots_max(1), 1);
            assert_eq!((class.owner_share(1), class.kept_free(1)), (1, 0));
        }
    }

    #[test]
    fn only_the_end_of_what_counts_against_a_full_limit_helps() {
        let used = used(&[(UnknownOwner, 5), (Served, 2)]);
        assert!(used.would_help(UnknownOwner, UnknownOwner, MAX));
        assert!(!used.would_help(UnknownOwner, Proposal, MAX));
        assert!(!used.would_help(UnknownOwner, Served, MAX));
        let full = self::used(&[(Served, 10), (KnownOwner, 10)]);
        assert!(full.would_help(Served, KnownOwner, MAX) && full.would_help(Served, Served, MAX));
        assert!(full.would_help(KnownOwner, Served, MAX));
    }
}

//! The slots of the whole server: what may be fetched at a time over all domains. Each waiting
//! fetch waits under its class and its owner; classes take turns, and so do owners. Invariant: an
//! owner that has its share gets another slot only if no owner waits who has not, and only if some
//! stay free for owners who may still come.

use super::HuntSettings;
use super::slot_class::{SlotClass, SlotUse};
use super::turns::Line;
use grasp_core::{Domain, PubKey};
use std::collections::{BTreeMap, BTreeSet};

/// After so many others, one that comes late goes before them, if none of those is being asked.
const OTHERS_FIRST: u32 = 4;

/// Who may wait for a slot.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Waits {
    /// A family, for any of its sources that are free.
    Entry(u64),
    /// A domain, for the first of this class in its queue.
    Domain(Domain, SlotClass),
}

/// Under which name something waits, or is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SlotClaim {
    pub(super) class: SlotClass,
    pub(super) owner: PubKey,
    /// Its domain failed or says nothing.
    pub(super) late: bool,
}

/// Which fetches of a class wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Demand {
    None,
    /// Only of owners that have their share.
    OfSharers,
    OfOthers,
}

#[derive(Debug)]
pub(super) struct Slots {
    max: usize,
    used: SlotUse,
    /// How many of them are used on domains that come late.
    used_late: usize,
    held: BTreeMap<(SlotClass, PubKey), usize>,
    sound: SlotLines,
    /// For domains that failed or say nothing.
    late: SlotLines,
    standing: BTreeMap<Waits, Standing>,
    /// The domains among them.
    domains: BTreeMap<(SlotClass, PubKey), BTreeSet<Domain>>,
    tickets: u64,
    others_first: u32,
}

/// One line for each class, and when each class last had a turn.
#[derive(Debug, Default)]
struct SlotLines {
    lines: [Line<Waits>; SlotClass::COUNT],
    served_at: [u64; SlotClass::COUNT],
}

#[derive(Debug, Clone, Copy)]
struct Standing {
    claim: SlotClaim,
    ticket: u64,
}

impl SlotLines {
    fn line(&mut self, class: SlotClass) -> Option<&mut Line<Waits>> {
        self.lines.get_mut(class.index())
    }

    /// The first one of the class whose turn is longest ago.
    fn first(
        &self,
        has_room: impl Fn(SlotClass) -> bool,
        passed_over: impl Fn(SlotClass, &PubKey) -> bool,
    ) -> Option<&Waits> {
        let classes = SlotClass::ALL.into_iter().zip(&self.lines).zip(&self.served_at);
        let open = classes.filter(|((class, _), _)| has_room(*class));
        let firsts = open.filter_map(|((class, line), at)| {
            Some((*at, line.first(|owner| passed_over(class, owner))?))
        });
        firsts.min_by_key(|(at, _)| *at).map(|(_, first)| first)
    }
}

impl Slots {
    pub(super) fn new(settings: &HuntSettings) -> Self {
        Self {
            max: (settings.concurrent_max as usize).max(1),
            used: SlotUse::default(),
            used_late: 0,
            held: BTreeMap::new(),
            sound: SlotLines::default(),
            late: SlotLines::default(),
            standing: BTreeMap::new(),
            domains: BTreeMap::new(),
            tickets: 0,
            others_first: 0,
        }
    }

    pub(super) fn used(&self) -> usize {
        self.used.total()
    }

    pub(super) fn has_share(&self, class: SlotClass, owner: &PubKey) -> bool {
        let held = self.held.get(&(class, *owner)).copied().unwrap_or(0);
        held >= class.owner_share(self.max)
    }

    /// It has its share, and what is left is for others.
    pub(super) fn is_held_back(&self, class: SlotClass, owner: &PubKey) -> bool {
        !self.used.has_room_to_spare(class, self.max) && self.has_share(class, owner)
    }

    /// May this start, with nothing before it?
    pub(super) fn is_free(&self, claim: SlotClaim) -> bool {
        self.used.has_room(claim.class, self.max)
            && !self.is_held_back(claim.class, &claim.owner)
            && self.first().is_none()
    }

    /// True if an owner is held back from now on.
    pub(super) fn take(&mut self, claim: SlotClaim) -> bool {
        let had_room = self.used.has_room_to_spare(claim.class, self.max);
        self.used.add(claim.class);
        self.used_late += usize::from(claim.late);
        let held = self.held.entry((claim.class, claim.owner)).or_default();
        *held += 1;
        *held == claim.class.owner_share(self.max)
            || had_room != self.used.has_room_to_spare(claim.class, self.max)
    }

    /// True if the owner has less than its share from now on.
    pub(super) fn give_back(&mut self, claim: SlotClaim) -> bool {
        self.used.remove(claim.class);
        self.used_late = self.used_late.saturating_sub(usize::from(claim.late));
        let key = (claim.class, claim.owner);
        let Some(held) = self.held.get_mut(&key) else { return false };
        let had_its_share = *held == claim.class.owner_share(self.max);
        *held = held.saturating_sub(1);
        if *held == 0 {
            self.held.remove(&key);
        }
        had_its_share
    }

    /// Waits from now on, in the place it has if that is still the right one.
    pub(super) fn join(&mut self, who: Waits, claim: SlotClaim) {
        if self.standing.get(&who).is_some_and(|it| it.claim == claim) {
            return;
        }
        self.leave(&who);
        self.tickets += 1;
        let ticket = self.tickets;
        if let Some(line) = self.lines(claim.late).line(claim.class) {
            line.insert(claim.owner, ticket, who.clone());
        }
        if let Waits::Domain(domain, class) = &who {
            self.domains.entry((*class, claim.owner)).or_default().insert(domain.clone());
        }
        self.standing.insert(who, Standing { claim, ticket });
    }

    pub(super) fn leave(&mut self, who: &Waits) {
        let Some(Standing { claim, ticket }) = self.standing.remove(who) else { return };
        if let Some(line) = self.lines(claim.late).line(claim.class) {
            line.remove(claim.owner, ticket);
        }
        let Waits::Domain(domain, class) = who else { return };
        let key = (*class, claim.owner);
        if let Some(domains) = self.domains.get_mut(&key) {
            domains.remove(domain);
            if domains.is_empty() {
                self.domains.remove(&key);
            }
        }
    }

    /// It had its turn, which its owner pays for.
    pub(super) fn charge(&mut self, claim: SlotClaim) {
        self.tickets += 1;
        let stamp = self.tickets;
        let lines = self.lines(claim.late);
        if let Some(line) = lines.line(claim.class) {
            line.charge(claim.owner, stamp);
        }
        if let Some(at) = lines.served_at.get_mut(claim.class.index()) {
            *at = stamp;
        }
        self.others_first = if claim.late { 0 } else { self.others_first.saturating_add(1) };
    }

    pub(super) fn is_waiting(&self, who: &Waits) -> bool {
        self.standing.contains_key(who)
    }

    /// How it waits.
    pub(super) fn claim_of(&self, who: &Waits) -> Option<SlotClaim> {
        self.standing.get(who).map(|it| it.claim)
    }

    pub(super) fn is_any_waiting(&self) -> bool {
        !self.standing.is_empty()
    }

    /// For each class, which of its fetches wait.
    pub(super) fn demand(&self) -> [Demand; SlotClass::COUNT] {
        SlotClass::ALL.map(|class| {
            let both = || [&self.sound, &self.late].into_iter();
            let lines = || both().filter_map(|it| it.lines.get(class.index()));
            let has_share = |owner: &PubKey| self.has_share(class, owner);
            match () {
                () if lines().any(|it| it.first(has_share).is_some()) => Demand::OfOthers,
                () if lines().any(|it| !it.is_empty()) => Demand::OfSharers,
                () => Demand::None,
            }
        })
    }

    /// Would the end of this fetch help those of a class that wait?
    pub(super) fn would_help(&self, waiting: SlotClass, ending: SlotClass) -> bool {
        self.used.would_help(waiting, ending, self.max)
    }

    /// May no more fetch of this class start?
    pub(super) fn is_full(&self, class: SlotClass) -> bool {
        !self.used.has_room(class, self.max)
    }

    /// Slots in use that count against the limit of this class, that limit, and how many families
    /// and domains wait.
    pub(super) fn counts(&self, class: SlotClass) -> (usize, usize, usize) {
        let waiting = self.standing.values().filter(|it| it.claim.class == class).count();
        (self.used.counted_for(class), class.slots_max(self.max), waiting)
    }

    /// Whose turn it is, if there is a slot for it.
    pub(super) fn first(&self) -> Option<&Waits> {
        let has_room = |class| self.used.has_room(class, self.max);
        let entitled = |lines| -> Option<&Waits> {
            SlotLines::first(lines, has_room, |class, owner| self.has_share(class, owner))
        };
        let (sound, late) = (entitled(&self.sound), entitled(&self.late));
        let late_first = self.used_late == 0 && self.others_first >= OTHERS_FIRST;
        let first = if late_first { late.or(sound) } else { sound.or(late) };
        let to_spare = |class| self.used.has_room_to_spare(class, self.max);
        let any = |lines| SlotLines::first(lines, to_spare, |_, _| false);
        first.or_else(|| any(&self.sound)).or_else(|| any(&self.late))
    }

    /// Domains that wait under the name of an owner that has its share. They may have a better one.
    pub(super) fn domains_of_sharers(&self) -> impl Iterator<Item = &Domain> {
        let sharers = self.held.iter().filter(|(key, held)| **held >= key.0.owner_share(self.max));
        sharers.filter_map(|(key, _)| self.domains.get(key)).flatten()
    }

    fn lines(&mut self, late: bool) -> &mut SlotLines {
        if late { &mut self.late } else { &mut self.sound }
    }
}

//! The hunt's state, to be shown and explained: for each family what is lacking, who was asked and
//! what it said; for each domain why nothing is asked when nothing is asked.

use super::candidate::Candidate;
use super::entry::Entry;
use super::machine::Hunt;
use super::neighbour::Neighbour;
use super::slot_class::SlotClass;
use super::slots::Waits;
use super::{FamilyId, HuntView, SourceView};
use grasp_core::{Domain, Time};

/// However many there are: each may have many sources, and nobody reads them all.
const VIEWS_MAX: usize = 1_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HuntTotals {
    /// Entries in the queue.
    pub families: usize,
    /// Jobs that have not ended.
    pub running: usize,
    /// Since the start: requests that were allowed, attempts begun, objects found.
    pub requests: u64,
    pub attempts: u64,
    pub found: u64,
    /// Since the start: families that were told of when there were too many. Whoever told of them
    /// may tell again when there is room.
    pub refused: u64,
}

/// Fetches of a class wait because all slots that they may use are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FullSlots {
    pub class: SlotClass,
    /// Slots in use that count against its limit, and that limit.
    pub used: usize,
    pub max: usize,
    pub waiting: usize,
    pub since: Time,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DomainView {
    pub domain: Domain,
    pub in_flight: u32,
    pub in_flight_max: u32,
    /// Families with a place in its queue.
    pub queued: usize,
    /// Requests in the last window.
    pub starts_in_window: usize,
    pub starts_max: u32,
    pub paused_until: Option<Time>,
    pub grasp: bool,
    /// The last fetch from it failed.
    pub failing: bool,
    /// Bytes that may still be fetched now.
    pub bytes_left: u64,
    /// Requests since it is known.
    pub requests: u64,
}

impl Hunt {
    pub fn totals(&self) -> HuntTotals {
        HuntTotals { families: self.entries.len(), running: self.slots.used(), ..self.totals }
    }

    /// Every class of fetches that wait for a slot of the server.
    pub fn full_slots(&self) -> Vec<FullSlots> {
        let full = SlotClass::ALL.into_iter().zip(self.full_since);
        let view = |(class, since): (SlotClass, Option<Time>)| {
            let (used, max, waiting) = self.slots.counts(class);
            Some(FullSlots { class, used, max, waiting, since: since? })
        };
        full.filter_map(view).collect()
    }

    /// The first families in the queue, in order. `view` shows any one.
    pub fn views(&self, now: Time) -> Vec<HuntView> {
        let entries = self.numbers.values().filter_map(|number| self.entries.get(number));
        entries.take(VIEWS_MAX).map(|entry| self.view_of(entry, now)).collect()
    }

    /// Up to `count_max` families whose git data was looked for in vain `attempts_min` times, and how
    /// many there are of them.
    pub fn stuck_views(
        &self,
        attempts_min: u32,
        count_max: usize,
        now: Time,
    ) -> (Vec<HuntView>, usize) {
        let is_stuck = |entry: &&Entry| entry.held && entry.attempts >= attempts_min;
        let stuck = || self.entries.values().filter(is_stuck);
        (stuck().take(count_max).map(|entry| self.view_of(entry, now)).collect(), stuck().count())
    }

    pub fn view(&self, family: &FamilyId) -> Option<HuntView> {
        Some(self.view_of(self.entries.get(self.numbers.get(family)?)?, Time(0)))
    }

    /// Every domain that has a past.
    pub fn domains(&self, now: Time) -> Vec<DomainView> {
        self.neighbours.iter().map(|(domain, it)| self.domain_view(domain, it, now)).collect()
    }

    pub fn domain(&self, domain: &Domain, now: Time) -> Option<DomainView> {
        Some(self.domain_view(domain, self.neighbours.get(domain)?, now))
    }

    fn domain_view(&self, domain: &Domain, it: &Neighbour, now: Time) -> DomainView {
        let (in_flight_max, starts_max) = it.limits(&self.settings, now);
        DomainView {
            domain: domain.clone(),
            in_flight: u32::try_from(it.jobs.len()).unwrap_or(u32::MAX),
            in_flight_max,
            queued: it.queue.len(),
            starts_in_window: it.in_window(&self.settings, now),
            starts_max,
            paused_until: Some(it.paused_until).filter(|until| *until > now),
            grasp: it.grasp,
            failing: it.failing,
            bytes_left: it.budget.left(now),
            requests: it.requests_total,
        }
    }

    fn view_of(&self, entry: &Entry, now: Time) -> HuntView {
        let jobs = entry.running.iter().filter_map(|job| self.jobs.get(job));
        HuntView {
            family: entry.family.clone(),
            attempts: entry.attempts,
            next: entry.next.map(|next| next.max(now)),
            running: jobs.map(|job| job.url.clone()).collect(),
            waits_for: entry.places.iter().cloned().collect(),
            waits_for_room: self
                .numbers
                .get(&entry.family)
                .is_some_and(|number| self.slots.is_waiting(&Waits::Entry(*number))),
            wants: entry.wants.len(),
            held: entry.held,
            sources: entry.sources.iter().map(source_view).collect(),
        }
    }
}

fn source_view(source: &Candidate) -> SourceView {
    SourceView {
        url: source.url.clone(),
        asked: source.asked,
        said: source.said.to_string(),
        found: source.found,
        absent: source.absent,
    }
}

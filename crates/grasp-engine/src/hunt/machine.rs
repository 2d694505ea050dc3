//! The hunt itself: hears, decides, says what to do. An event makes an entry or brings it forward;
//! a moment that comes makes it look; what it lacks is then fetched. The cost of an input grows with
//! what it changed, never with all that is known.

use super::absent::Absent;
use super::alarm::Alarm;
use super::budget::Budget;
use super::checking::check_budget;
use super::entry::{Entry, Purpose};
use super::jobs::Running;
use super::neighbours::Neighbours;
use super::queue::Class;
use super::slot_class::SlotClass;
use super::slots::{Demand, Slots};
use super::{Brought, FamilyId, HuntAction, HuntInput, HuntNews, HuntSettings, HuntTotals, Job};
use crate::timers::Timers;
use grasp_core::{Domain, PubKey, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

#[derive(Debug)]
pub struct Hunt {
    pub(super) settings: HuntSettings,
    chance: u64,
    pub(super) entries: BTreeMap<u64, Entry>,
    pub(super) numbers: BTreeMap<FamilyId, u64>,
    next_number: u64,
    pub(super) jobs: BTreeMap<Job, Running>,
    pub(super) next_job: u64,
    pub(super) neighbours: Neighbours,
    pub(super) absent: Absent,
    /// Over all domains.
    pub(super) budget: Budget,
    pub(super) check_budget: Budget,
    /// Domains about which something changed since they were last served.
    pub(super) stirred: BTreeSet<Domain>,
    /// What may be fetched at a time, and who waits for it.
    pub(super) slots: Slots,
    /// Jobs that were cancelled and have not ended.
    pub(super) leaving: usize,
    /// A job has begun or ended since somebody looked which of them could give way.
    pub(super) jobs_changed: bool,
    /// What waited then.
    pub(super) room_for: [Demand; SlotClass::COUNT],
    /// For each class: since when there is no slot for those who wait.
    pub(super) full_since: [Option<Time>; SlotClass::COUNT],
    /// Owners for whom a fetch succeeded since the start.
    pub(super) proven: BTreeSet<PubKey>,
    pub(super) timers: Timers<Alarm>,
    pub(super) actions: VecDeque<HuntAction>,
    pub(super) totals: HuntTotals,
}

impl Hunt {
    /// `seed` decides every random choice.
    pub fn new(settings: HuntSettings, seed: u64) -> Self {
        Self {
            budget: Budget::new(settings.bytes_per_day_max),
            check_budget: check_budget(settings.bytes_per_day_max),
            slots: Slots::new(&settings),
            settings,
            chance: seed,
            entries: BTreeMap::new(),
            numbers: BTreeMap::new(),
            next_number: 0,
            jobs: BTreeMap::new(),
            next_job: 0,
            neighbours: Neighbours::default(),
            absent: Absent::default(),
            stirred: BTreeSet::new(),
            leaving: 0,
            jobs_changed: false,
            room_for: [Demand::None; SlotClass::COUNT],
            full_since: [None; SlotClass::COUNT],
            proven: BTreeSet::new(),
            timers: Timers::default(),
            actions: VecDeque::new(),
            totals: HuntTotals::default(),
        }
    }

    /// Something happened.
    pub fn handle(&mut self, input: HuntInput, now: Time) {
        self.absent.forget_old(now);
        match input {
            HuntInput::Held { family, brought, since } => self.held(family, brought, since, now),
            HuntInput::Changed { family } => {
                if let Some(number) = self.numbers.get(&family).copied() {
                    self.start_afresh(number);
                    self.bring_forward(number, now.plus(self.settings.delay_synced));
                }
            }
            HuntInput::Wanted { family } => self.wanted(family, now),
            HuntInput::Damaged { family } => {
                // Told again and again until it is mended, so it resets nothing.
                if let Some(number) = self.number_for(family, now) {
                    self.bring_forward(number, now.plus(self.settings.delay_synced));
                }
            }
            HuntInput::Looked { family, lack } => self.looked(&family, lack, now),
            HuntInput::WantsRequest { job } => self.wants_request(job),
            HuntInput::Received { job, bytes, pack_bytes } => {
                self.received(job, bytes, pack_bytes, now);
            }
            HuntInput::Ended { job, end } => self.ended(job, end, now),
            HuntInput::Grasp(domain) => {
                if let Some(neighbour) = self.neighbours.open(&domain, None, &self.settings, now) {
                    neighbour.grasp = true;
                    self.stirred.insert(domain);
                }
            }
            HuntInput::GitLimits { domain, requests_per_minute } => {
                if let Some(neighbour) = self.neighbours.open(&domain, None, &self.settings, now) {
                    neighbour.published = requests_per_minute;
                    self.stirred.insert(domain);
                }
            }
            HuntInput::Now { family } => {
                if let Some(number) = self.numbers.get(&family).copied() {
                    self.start_afresh(number);
                    self.bring_forward(number, now);
                }
            }
            HuntInput::WantsCheck { ticket, domain, again } => {
                self.wants_check(ticket, &domain, again, now);
            }
            HuntInput::CheckReceived { domain, bytes } => self.check_received(&domain, bytes, now),
            HuntInput::CheckEnded { domain, objected } => self.check_ended(domain, objected, now),
        }
        self.serve_stirred(now);
    }

    /// You asked to be woken.
    pub fn handle_deadline(&mut self, now: Time) {
        self.absent.forget_old(now);
        while let Some(alarm) = self.timers.rung(now) {
            match alarm {
                Alarm::Next(number) => {
                    // Whoever is being looked at finds the moment past when that is answered.
                    if self.entries.get(&number).is_some_and(|entry| entry.look.is_none()) {
                        self.look(number, Purpose::Attempt);
                    }
                }
                Alarm::Hedge(number) => self.carry_on(number, now),
                Alarm::Domain(domain) => {
                    if let Some(neighbour) = self.neighbours.get_mut(&domain) {
                        neighbour.wake_at = None;
                        self.stirred.insert(domain);
                    }
                }
                Alarm::Bytes => {}
                Alarm::Slow => self.jobs_changed = true,
                Alarm::Overdue(job) => self.end_overdue(job, now),
            }
            self.serve_stirred(now);
        }
    }

    /// Do this.
    pub fn poll_action(&mut self) -> Option<HuntAction> {
        self.actions.pop_front()
    }

    /// Wake me then, because.
    pub fn next_deadline(&self) -> Option<(Time, &'static str)> {
        self.timers.next().map(|(at, alarm)| (at, alarm.name()))
    }

    fn held(&mut self, family: FamilyId, brought: Brought, since: Time, now: Time) {
        let delay = match brought {
            Brought::Directly => self.settings.delay_direct,
            Brought::BySync => self.settings.delay_synced,
        };
        let is_new = !self.numbers.contains_key(&family);
        let Some(number) = self.number_for(family.clone(), now) else { return };
        if is_new {
            self.tell(HuntNews::Queued { family, delay });
        }
        self.start_afresh(number);
        if let Some(entry) = self.entries.get_mut(&number) {
            entry.held = true;
        }
        self.bring_forward(number, since.min(now).plus(delay).max(now));
    }

    fn wanted(&mut self, family: FamilyId, now: Time) {
        if self.numbers.contains_key(&family) {
            return;
        }
        let Some(number) = self.number_for(family.clone(), now) else { return };
        let max = self.settings.wanted_retry_max;
        let spread_ms = u64::try_from(max.as_millis()).unwrap_or(u64::MAX).max(1);
        let wait = Duration::from_millis(self.random() % spread_ms);
        if let Some(entry) = self.entries.get_mut(&number) {
            // All the short gaps are behind it.
            entry.gap = Some(max / 2);
        }
        self.tell(HuntNews::Queued { family, delay: wait });
        self.bring_forward(number, now.plus(wait));
    }

    /// The number of a family, known or new; `None` when no more can be looked for.
    fn number_for(&mut self, family: FamilyId, now: Time) -> Option<u64> {
        if let Some(number) = self.numbers.get(&family) {
            return Some(*number);
        }
        if self.entries.len() >= self.settings.families_max {
            self.totals.refused += 1;
            self.tell(HuntNews::TooMany { family });
            return None;
        }
        self.next_number += 1;
        self.numbers.insert(family.clone(), self.next_number);
        self.entries.insert(self.next_number, Entry::new(family, now));
        Some(self.next_number)
    }

    /// What failed before may work now (S-32).
    fn start_afresh(&mut self, number: u64) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        entry.attempts = 0;
        entry.gap = None;
        entry.tried_on.clear();
        for domain in &entry.places {
            if let Some(neighbour) = self.neighbours.get_mut(domain) {
                neighbour.queue.set_class(number, Class::First);
            }
        }
    }

    /// An event may bring the next attempt forward, and nothing else.
    pub(super) fn bring_forward(&mut self, number: u64, at: Time) {
        let Some(entry) = self.entries.get_mut(&number) else { return };
        if let Some(look) = &mut entry.look {
            look.heard = true;
            entry.again = Some(entry.again.map_or(at, |again| again.min(at)));
        } else if entry.next.is_none_or(|next| next > at) {
            entry.next = Some(at);
            self.timers.set(Alarm::Next(number), at);
        }
    }

    pub(super) fn tell(&mut self, news: HuntNews) {
        self.actions.push_back(HuntAction::Tell(news));
    }

    /// SplitMix64.
    fn random(&mut self) -> u64 {
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.chance;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

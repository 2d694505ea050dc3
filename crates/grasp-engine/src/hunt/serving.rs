//! Domains and who waits for them. A domain is looked at when something about it changed or its
//! alarm rang, never otherwise (S-34). Invariant: afterwards nobody waits for what is free.

use super::alarm::Alarm;
use super::budget::worth_starting;
use super::machine::Hunt;
use super::neighbour::Opening;
use super::slot_class::SlotClass;
use super::slots::{SlotClaim, Waits};
use super::{HuntAction, Job};
use grasp_core::{Domain, PubKey, Time};
use std::time::Duration;

/// A job that would have to wait longer than this to send its next request gives up its slot.
const PAUSE_WITH_SLOT_MAX: Duration = Duration::from_secs(30);

impl Hunt {
    /// Is enough left of this day for one more fetch?
    pub(super) fn has_bytes(&self, now: Time) -> bool {
        self.budget.left(now) >= self.bytes_worth_starting()
    }

    fn bytes_worth_starting(&self) -> u64 {
        worth_starting(self.settings.bytes_per_day_max, self.settings.fetch_bytes_max)
    }

    pub(super) fn serve_stirred(&mut self, now: Time) {
        loop {
            while let Some(domain) = self.stirred.pop_first() {
                self.serve(&domain, now);
            }
            if !self.slots.is_any_waiting() {
                self.timers.clear(Alarm::Bytes);
                self.timers.clear(Alarm::Slow);
                self.jobs_changed = true;
                self.full_since = [None; SlotClass::COUNT];
                break;
            }
            if !self.has_bytes(now) {
                match self.budget.left_at(self.bytes_worth_starting(), now) {
                    Some(at) => self.timers.set(Alarm::Bytes, at),
                    None => self.timers.clear(Alarm::Bytes),
                }
                break;
            }
            match self.slots.first().cloned() {
                Some(Waits::Entry(number)) => self.start_in_turn(number, now),
                Some(Waits::Domain(domain, class)) => self.take_turn(&domain, class, now),
                None if self.make_room(now) => {}
                None => break,
            }
        }
    }

    /// Leave for those who run, a turn for those who wait, or an alarm.
    fn serve(&mut self, domain: &Domain, now: Time) {
        if self.neighbours.get(domain).is_some_and(|neighbour| !neighbour.asking.is_empty()) {
            self.let_send(domain, now);
            self.put_off_asking(domain, now);
        }
        let Some(neighbour) = self.neighbours.get_mut(domain) else { return };
        let (mut wake_at, mut is_open) = (None, false);
        if !neighbour.asking.is_empty() {
            wake_at = Some(neighbour.request_at(&self.settings, now));
        } else if neighbour.queue.has_ready() {
            match neighbour.opening(&self.settings, now) {
                Opening::Now => is_open = true,
                Opening::At(at) => wake_at = Some(at),
                Opening::AfterAJob => wake_at = self.make_room_on(domain, now),
            }
        }
        for class in SlotClass::ALL {
            let who = Waits::Domain(domain.clone(), class);
            let may_wait = is_open && !self.yields(domain, class);
            match self.first_on(domain, class, now).filter(|_| may_wait) {
                Some((_, owner)) => {
                    let late = self.neighbours.is_late(domain, now);
                    self.slots.join(who, SlotClaim { class, owner, late });
                }
                None => self.slots.leave(&who),
            }
        }
        let Some(neighbour) = self.neighbours.get_mut(domain) else { return };
        if neighbour.wake_at != wake_at {
            neighbour.wake_at = wake_at;
            match wake_at {
                Some(at) => self.timers.set(Alarm::Domain(domain.clone()), at),
                None => self.timers.clear(Alarm::Domain(domain.clone())),
            }
        }
    }

    /// Second tries wait for the first tries of other classes, if those have a slot. States of
    /// served repositories wait for no other class.
    fn yields(&self, domain: &Domain, class: SlotClass) -> bool {
        let Some(queue) = self.neighbours.get(domain).map(|it| &it.queue) else { return false };
        let goes_first = |other: SlotClass| queue.has_first(other) && !self.slots.is_full(other);
        class != SlotClass::Served
            && !queue.has_first(class)
            && SlotClass::ALL.into_iter().any(goes_first)
    }

    /// Whose turn it is on a domain among those that need such a slot.
    fn first_on(&mut self, domain: &Domain, class: SlotClass, now: Time) -> Option<(u64, PubKey)> {
        let neighbour = self.neighbours.get_mut(domain)?;
        neighbour.queue.age(self.settings.aged_after, now);
        let number = neighbour.queue.first(class, |it| self.slots.is_held_back(class, it))?;
        Some((number, neighbour.queue.owner_of(number)?))
    }

    /// Running jobs go before anybody who has not started.
    fn let_send(&mut self, domain: &Domain, now: Time) {
        let settings = &self.settings;
        let Some(neighbour) = self.neighbours.get_mut(domain) else { return };
        while neighbour.request_at(settings, now) <= now {
            let Some(job) = neighbour.asking.pop_front() else { return };
            neighbour.note_request(settings, now);
            self.totals.requests += 1;
            self.actions.push_back(HuntAction::MayRequest { job });
        }
    }

    fn put_off_asking(&mut self, domain: &Domain, now: Time) {
        let Some(neighbour) = self.neighbours.get(domain) else { return };
        if neighbour.paused_until > now.plus(PAUSE_WITH_SLOT_MAX) {
            let asking: Vec<Job> = neighbour.asking.iter().copied().collect();
            for job in asking {
                self.put_off(job, now);
            }
        }
    }

    /// One fetch of a domain; then it stands behind the others.
    fn take_turn(&mut self, domain: &Domain, class: SlotClass, now: Time) {
        let who = Waits::Domain(domain.clone(), class);
        let late = self.neighbours.is_late(domain, now);
        self.stirred.insert(domain.clone());
        if late && !self.slots.claim_of(&who).is_some_and(|it| it.late) {
            // It fell silent since it was looked at.
            return self.slots.leave(&who);
        }
        let open = self
            .neighbours
            .get(domain)
            .is_some_and(|it| it.opening(&self.settings, now) == Opening::Now);
        let first = self.first_on(domain, class, now).filter(|_| open);
        self.slots.leave(&who);
        if let Some((number, owner)) = first
            && self.start_from_queue(number, domain, class, now)
        {
            self.slots.charge(SlotClaim { class, owner, late });
        }
    }
}

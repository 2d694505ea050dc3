//! How long a slow fetch may hold a slot that others wait for. While none waits it may take all the
//! time it wants (S-37). Only bytes of packs count. Invariant: one is asked to give way at a time,
//! and the next when it has.

use super::Job;
use super::alarm::Alarm;
use super::jobs::Running;
use super::machine::Hunt;
use super::slot_class::SlotClass;
use super::slots::Demand;
use grasp_core::{Domain, Time};
use std::time::Duration;

/// One that is just fast enough is not looked at all the time.
const LOOK_EVERY_MIN: Duration = Duration::from_secs(1);

impl Hunt {
    /// Something waits for a slot. True if one that is slow was asked to give way.
    pub(super) fn make_room(&mut self, now: Time) -> bool {
        let demand = self.slots.demand();
        if !self.jobs_changed && self.room_for == demand {
            return false;
        }
        (self.jobs_changed, self.room_for) = (false, demand);
        self.note_full_slots(now);
        match self.slowest(demand) {
            Some((at, job)) if at <= now => {
                self.timers.clear(Alarm::Slow);
                self.give_way(job, now);
                true
            }
            Some((at, _)) => {
                self.timers.set(Alarm::Slow, at.max(now.plus(LOOK_EVERY_MIN)));
                false
            }
            None => {
                self.timers.clear(Alarm::Slow);
                false
            }
        }
    }

    /// Something waits for a domain on which everything is taken. Says when to look again.
    pub(super) fn make_room_on(&mut self, domain: &Domain, now: Time) -> Option<Time> {
        let jobs = || {
            let jobs = self.neighbours.get(domain).into_iter().flat_map(|it| &it.jobs);
            jobs.filter_map(|job| Some((*job, self.jobs.get(job)?)))
        };
        if jobs().any(|(_, it)| it.cancelled) {
            return None;
        }
        let slow_at = |it: &Running| match it.claim.class.is_by_strangers() {
            true => it.pace.slow_at(),
            false => it.pace.slow_on_domain_at(),
        };
        let (at, job) = jobs().map(|(job, it)| (slow_at(it), job)).min()?;
        if at > now {
            return Some(at.max(now.plus(LOOK_EVERY_MIN)));
        }
        self.give_way(job, now);
        None
    }

    /// Which has to give way first, and when. `None` while one is about to.
    fn slowest(&self, demand: [Demand; SlotClass::COUNT]) -> Option<(Time, Job)> {
        if self.leaving > 0 {
            return None;
        }
        let waiting = || SlotClass::ALL.into_iter().zip(demand);
        let is_in_the_way = |it: &Running| {
            waiting().any(|(class, demand)| match demand {
                Demand::None => false,
                // An owner that has its share is waited for by others of the same class alone.
                Demand::OfSharers => {
                    class == it.claim.class && self.slots.has_share(class, &it.claim.owner)
                }
                Demand::OfOthers => self.slots.would_help(class, it.claim.class),
            })
        };
        let jobs = self.jobs.iter().filter(|(_, it)| is_in_the_way(it));
        jobs.map(|(job, it)| (it.pace.slow_at(), *job)).min()
    }

    /// Since when there is no slot for fetches that wait.
    fn note_full_slots(&mut self, now: Time) {
        let classes = SlotClass::ALL.into_iter().zip(self.room_for);
        for ((class, demand), since) in classes.zip(&mut self.full_since) {
            match demand == Demand::OfOthers && self.slots.is_full(class) {
                true => drop(since.get_or_insert(now)),
                false => *since = None,
            }
        }
    }

    fn give_way(&mut self, job: Job, now: Time) {
        let Some(running) = self.jobs.get(&job) else { return };
        let number = running.entry;
        self.note_silence(job);
        self.cancel(job, "too slow while others waited");
        self.carry_on(number, now);
    }

    /// A domain that sent nothing of a pack comes after the others from now on.
    pub(super) fn note_silence(&mut self, job: Job) {
        if let Some(running) = self.jobs.get(&job).filter(|it| !it.pace.has_bytes())
            && let Some(neighbour) = self.neighbours.get_mut(&running.domain)
        {
            neighbour.failing = true;
        }
    }
}

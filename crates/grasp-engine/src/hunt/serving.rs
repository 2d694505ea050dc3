//! Domains and who waits for them. A domain is looked at when something about it changed or its
//! alarm rang, never otherwise (S-34). Invariant: afterwards nobody waits for what is free.

use super::alarm::Alarm;
use super::machine::Hunt;
use super::neighbour::Opening;
use super::{HuntAction, Job};
use grasp_core::{Domain, Time};
use std::time::Duration;

/// A job that would have to wait longer than this to send its next request gives up its slot.
const PAUSE_WITH_SLOT_MAX: Duration = Duration::from_secs(30);

impl Hunt {
    /// May one more be fetched, over all domains?
    pub(super) fn has_room(&self, now: Time) -> bool {
        self.has_slot() && self.budget.left(now) >= self.settings.bytes_worth_starting()
    }

    fn has_slot(&self) -> bool {
        self.totals.running < self.settings.concurrent_max.max(1) as usize
    }

    pub(super) fn serve_stirred(&mut self, now: Time) {
        loop {
            while let Some(domain) = self.stirred.pop_first() {
                self.serve(&domain, now);
            }
            if !self.has_room(now) {
                break;
            }
            let Some(domain) = self.turns.pop_front() else { break };
            self.take_turn(&domain, now);
        }
        if !self.turns.is_empty() && self.has_slot() {
            let bytes = self.settings.bytes_worth_starting();
            match self.budget.left_at(bytes, now) {
                Some(at) => self.timers.set(Alarm::Bytes, at),
                None => self.timers.clear(Alarm::Bytes),
            }
        }
    }

    /// Leave for those who run, a turn for those who wait, or an alarm.
    fn serve(&mut self, domain: &Domain, now: Time) {
        if self.neighbours.get(domain).is_some_and(|neighbour| !neighbour.asking.is_empty()) {
            self.let_send(domain, now);
            self.put_off_asking(domain, now);
        }
        let settings = &self.settings;
        let Some(neighbour) = self.neighbours.get_mut(domain) else { return };
        let mut wake_at = None;
        if !neighbour.asking.is_empty() {
            wake_at = Some(neighbour.request_at(settings, now));
        } else if neighbour.queue.has_ready() {
            match neighbour.opening(settings, now) {
                Opening::Now if neighbour.in_turn => {}
                Opening::Now => {
                    neighbour.in_turn = true;
                    self.turns.push_back(domain.clone());
                }
                Opening::At(at) => wake_at = Some(at),
                Opening::AfterAJob => {}
            }
        }
        if neighbour.wake_at != wake_at {
            neighbour.wake_at = wake_at;
            match wake_at {
                Some(at) => self.timers.set(Alarm::Domain(domain.clone()), at),
                None => self.timers.clear(Alarm::Domain(domain.clone())),
            }
        }
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
    fn take_turn(&mut self, domain: &Domain, now: Time) {
        let settings = &self.settings;
        let Some(neighbour) = self.neighbours.get_mut(domain) else { return };
        neighbour.in_turn = false;
        self.stirred.insert(domain.clone());
        if neighbour.opening(settings, now) == Opening::Now
            && let Some(number) = neighbour.queue.first(settings.aged_after, now)
        {
            self.start_from_queue(number, domain, now);
        }
    }
}

//! How long a slow fetch may hold a slot that others wait for. While nobody waits it may take all the
//! time it wants (S-37). Invariant: one is asked to give way at a time, and the next when it has.

use super::Job;
use super::alarm::Alarm;
use super::jobs::Running;
use super::machine::Hunt;
use grasp_core::{Domain, Time};
use std::time::Duration;

/// A fetch that brings less than this on average is slow.
const BYTES_PER_SEC_MIN: u64 = 10 << 10;
/// How long any fetch may be slow.
const PATIENCE: Duration = Duration::from_secs(600);
/// How long one that uses more than its owner's share, or a domain that fails, may be.
const PATIENCE_SHORT: Duration = Duration::from_secs(10);
/// Whoever is just fast enough is not looked at all the time.
const LOOK_EVERY_MIN: Duration = Duration::from_secs(1);

impl Hunt {
    /// Somebody waits for a slot. True if one who is slow was asked to give way.
    pub(super) fn make_room(&mut self, now: Time) -> bool {
        let entitled = self.slots.is_anybody_entitled();
        if !self.jobs_changed && self.room_for == entitled {
            return false;
        }
        (self.jobs_changed, self.room_for) = (false, entitled);
        match self.slowest(entitled) {
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

    /// Somebody waits for a domain on which everything is taken. Says when to look again.
    pub(super) fn make_room_on(&mut self, domain: &Domain, now: Time) -> Option<Time> {
        let jobs = || {
            let jobs = self.neighbours.get(domain).into_iter().flat_map(|it| &it.jobs);
            jobs.filter_map(|job| Some((*job, self.jobs.get(job)?)))
        };
        if jobs().any(|(_, it)| it.cancelled) {
            return None;
        }
        let (at, job) = jobs().map(|(job, it)| (slow_at(it, PATIENCE), job)).min()?;
        if at > now {
            return Some(at.max(now.plus(LOOK_EVERY_MIN)));
        }
        self.give_way(job, now);
        None
    }

    /// Who has to give way first, and when. `None` while somebody is about to.
    fn slowest(&self, (for_sound, for_any): (bool, bool)) -> Option<(Time, Job)> {
        if self.leaving > 0 {
            return None;
        }
        let any_short = for_any && self.slots.is_any_questionable();
        let is_short = |it: &Running| {
            any_short && ((for_sound && it.late) || self.slots.has_more_than_its_share(&it.owner))
        };
        let soonest = if any_short { PATIENCE_SHORT } else { PATIENCE };
        let mut first: Option<(Time, Job)> = None;
        // In the order in which they began.
        for (job, it) in &self.jobs {
            if first.is_some_and(|(at, _)| it.started.plus(soonest) > at) {
                break;
            }
            // Whoever has its share is waited for by others of the same owner alone.
            if for_any || self.slots.has_share(&it.owner) {
                let patience = if is_short(it) { PATIENCE_SHORT } else { PATIENCE };
                let mine = (slow_at(it, patience), *job);
                first = Some(first.map_or(mine, |first| first.min(mine)));
            }
        }
        first
    }

    fn give_way(&mut self, job: Job, now: Time) {
        let Some(running) = self.jobs.get(&job) else { return };
        let number = running.entry;
        if running.received == 0
            && let Some(neighbour) = self.neighbours.get_mut(&running.domain)
        {
            neighbour.failing = true;
        }
        self.cancel(job, "too slow while others waited");
        self.carry_on(number, now);
    }
}

/// When it will have been slow for so long, if nothing more comes.
fn slow_at(job: &Running, patience: Duration) -> Time {
    let worth = Duration::from_millis(job.received.saturating_mul(1_000) / BYTES_PER_SEC_MIN);
    job.started.plus(patience.max(worth))
}

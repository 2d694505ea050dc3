//! Others who would ask the same git servers, to see how they stand. They come last: never while
//! somebody looks for git data there, with no more than half of what a domain may be asked, and with
//! bytes of their own: however much somebody sends them, fetches have what they had.

use super::budget::Budget;
use super::neighbour::Neighbour;
use super::{Hunt, HuntAction, HuntNews, HuntSettings};
use grasp_core::{Domain, Time};
use std::time::Duration;

/// When nothing says how long, and when there is no room for one more domain.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(5);
/// Beside a day's bytes checks have this part of as many.
const BYTES_PART: u64 = 16;

/// What checks may receive in a day where fetches may so much.
pub fn check_bytes(per_day: u64) -> u64 {
    per_day / BYTES_PART
}

pub(super) fn check_budget(per_day: u64) -> Budget {
    Budget::new(check_bytes(per_day))
}

impl Hunt {
    pub(super) fn wants_check(&mut self, ticket: u64, domain: &Domain, again: bool, now: Time) {
        let settings = &self.settings;
        let later = now.plus(TRY_AGAIN_AFTER);
        let bytes_at = bytes_at(&self.check_budget, now);
        let leave = match self.neighbours.open(domain, None, settings, now) {
            None => Err(later),
            Some(_) if bytes_at > now => Err(bytes_at),
            Some(neighbour) => neighbour.check(settings, again, now),
        };
        self.actions.push_back(HuntAction::Checks { ticket, not_before: leave.err() });
    }

    /// What a check took other checks do not get.
    pub(super) fn check_received(&mut self, domain: &Domain, bytes: u64, now: Time) {
        self.check_budget.pay(bytes, now);
        if let Some(neighbour) = self.neighbours.get_mut(domain) {
            neighbour.check_budget.pay(bytes, now);
        }
    }

    /// A check is over. `pause`: it asked for less, for so long if it said so.
    pub(super) fn check_ended(
        &mut self,
        domain: Domain,
        objected: Option<Option<Duration>>,
        now: Time,
    ) {
        let settings = &self.settings;
        let Some(neighbour) = self.neighbours.get_mut(&domain) else { return };
        neighbour.checks = neighbour.checks.saturating_sub(1);
        if let Some(wait) = objected {
            let wait = wait.unwrap_or(settings.slow_down_for).min(settings.slow_down_max);
            neighbour.object(now.plus(wait), settings, now);
            let until = neighbour.paused_until;
            self.tell(HuntNews::SlowedDown { domain: domain.clone(), until });
        }
        self.stirred.insert(domain);
    }
}

impl Neighbour {
    /// Takes leave for one request, or says when to ask again. `again`: a check that has begun.
    fn check(&mut self, settings: &HuntSettings, again: bool, now: Time) -> Result<(), Time> {
        let (concurrent, starts) = self.limits(settings, now);
        let half = |limit: u32| (limit / 2).max(1);
        let busy = self.queue.has_ready() || !self.asking.is_empty();
        let under_way = self.jobs.len() + self.checks as usize;
        let crowded = under_way >= concurrent as usize || self.checks >= half(concurrent);
        if self.paused_until > now {
            return Err(self.paused_until);
        }
        if !again && (busy || crowded) {
            return Err(now.plus(TRY_AGAIN_AFTER));
        }
        let free_at = self.free_at(half(starts), settings, now);
        let free_at = free_at.max(bytes_at(&self.check_budget, now));
        if free_at > now {
            return Err(free_at);
        }
        self.checks += u32::from(!again);
        self.note_request(settings, now);
        Ok(())
    }
}

/// When there is anything left for a check. One that is let go takes what it may, which is little.
fn bytes_at(budget: &Budget, now: Time) -> Time {
    budget.left_at(1, now).unwrap_or(now.plus(TRY_AGAIN_AFTER))
}

//! Whose objects are doubted because a fetch from there was of no use: such a place is looked at
//! thoroughly, at growing distances, so that one that stays bad costs ever less. Bounded.

use super::Check;
use grasp_core::Time;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

const LEN_MAX: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Doubts(BTreeMap<Check, Doubt>);

#[derive(Debug, Default)]
struct Doubt {
    /// It was not looked at since.
    open: bool,
    /// It is being looked at for that.
    running: bool,
    looked: Option<Time>,
    gap: Duration,
}

impl Doubts {
    /// When it is to be looked at, not before `soon`; `None` if that is settled already, or no more can
    /// be remembered.
    pub(super) fn open(&mut self, check: &Check, soon: Time) -> Option<Time> {
        if self.0.len() >= LEN_MAX && !self.0.contains_key(check) {
            return None;
        }
        let doubt = self.0.entry(check.clone()).or_default();
        if std::mem::replace(&mut doubt.open, true) || doubt.running {
            return None;
        }
        Some(doubt.looked.map_or(soon, |looked| looked.plus(doubt.gap).max(soon)))
    }

    pub(super) fn is_running(&self, check: &Check) -> bool {
        self.0.get(check).is_some_and(|doubt| doubt.running)
    }

    /// A look begins. It is for that only once it is time; others come in between.
    pub(super) fn begin(&mut self, check: &Check, now: Time) {
        if let Some(doubt) = self.0.get_mut(check)
            && doubt.looked.is_none_or(|looked| looked.plus(doubt.gap) <= now)
        {
            // One that was put off is still for that.
            doubt.running |= std::mem::take(&mut doubt.open);
        }
    }

    /// It was looked at; the next time there is as long again between two looks, within `gaps`. When
    /// that is, if it was doubted again meanwhile.
    pub(super) fn end(
        &mut self,
        check: &Check,
        gaps: RangeInclusive<Duration>,
        now: Time,
    ) -> Option<Time> {
        let doubt = self.0.get_mut(check)?;
        if std::mem::take(&mut doubt.running) {
            doubt.looked = Some(now);
            doubt.gap = (doubt.gap * 2).max(*gaps.start()).min(*gaps.end());
            return doubt.open.then(|| now.plus(doubt.gap));
        }
        if !doubt.open && doubt.looked.is_none_or(|at| now.since(at) > *gaps.end()) {
            self.0.remove(check);
        }
        None
    }

    /// What came from there was good. How often it was looked at for nothing is remembered for a
    /// while, so that good and bad by turns are no reason for many looks.
    pub(super) fn trust(&mut self, check: &Check) {
        let Some(doubt) = self.0.get_mut(check) else { return };
        doubt.open = false;
        if doubt.looked.is_none() && !doubt.running {
            self.0.remove(check);
        }
    }

    pub(super) fn forget(&mut self, check: &Check) {
        self.0.remove(check);
    }
}

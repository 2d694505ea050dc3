//! Events that are wanted and for which this server has no room now. They are lacked here, so nothing that
//! brought them is confirmed; groups and single events are asked for again after a while.

use crate::groups::{Layer, Stage};
use crate::question::Work;
use crate::relay::{Around, Relay};
use crate::timers::Concern;
use crate::vocabulary::{Page, Sub};
use grasp_core::EventId;
use std::time::Duration;

/// How long a group waits for room: at first, and at most.
const ROOM_WAIT_MIN: Duration = Duration::from_secs(30);
const ROOM_WAIT_MAX: Duration = Duration::from_secs(1_800);
/// A verdict younger than this is not looked at again because of one event.
const VERDICT_AGE_MIN: Duration = Duration::from_secs(60);

impl Relay {
    /// A page of a batch brought events for which there was no room: the batch will not be confirmed.
    pub(crate) fn note_no_room(&mut self, work: &Work, page: &Page) {
        if page.no_room.is_empty() {
            return;
        }
        let batches = self.session_mut().map(|session| &mut session.batches);
        if let Some(batch) = batches.and_then(|all| all.get_mut(&work.batch?)) {
            batch.crowded = true;
        }
    }

    /// A group is not confirmed for want of room: it is asked for again, and its verdict is due.
    pub(crate) fn wait_for_room(&mut self, number: u32, around: &mut Around<'_>) {
        let now = around.now;
        let Some(group) = self.group_mut(number) else { return };
        group.room_wait = (group.room_wait * 2).clamp(ROOM_WAIT_MIN, ROOM_WAIT_MAX);
        let until = now.plus(group.room_wait);
        group.crowded_until = Some(until);
        group.is_due(now);
        around.timers.at_latest(self.alarm(Concern::Room), until);
    }

    /// There may be room by now.
    pub(crate) fn ask_for_crowded(&mut self, around: &mut Around<'_>) {
        let alarm = self.alarm(Concern::Room);
        for (number, group) in (0..).zip(&mut self.groups) {
            match group.crowded_until {
                Some(until) if until > around.now => around.timers.at_latest(alarm, until),
                Some(_) => {
                    group.crowded_until = None;
                    if group.stage == Stage::Missing && !group.shelved {
                        self.missing.push_back(number);
                    }
                }
                None => {}
            }
        }
    }

    /// One event that a live subscription brought found no room. It is owed, and the verdict about its
    /// repositories is due.
    pub(crate) fn handle_no_room(&mut self, sub: Sub, id: EventId, around: &mut Around<'_>) {
        self.owe(vec![(id, 1)], around);
        let now = around.now;
        let live = self.session().and_then(|session| session.live.get(&sub));
        let numbers: Vec<u32> =
            live.iter().flat_map(|live| &live.parts).map(|heard| heard.part.group).collect();
        for number in numbers {
            let Some(group) = self.group_mut(number) else { continue };
            let is_old = now.since(group.verified) >= VERDICT_AGE_MIN;
            if group.layer == Layer::Repos && is_old && group.recheck.is_none() {
                group.is_due(now);
                self.verify_soon(around);
            }
        }
    }
}

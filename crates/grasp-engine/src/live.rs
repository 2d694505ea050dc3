//! What is heard as it happens. Live subscriptions open before history (S-17), are not paced, and
//! stay as they are when something is added (S-9). When they have become many small ones they are
//! packed anew (S-10); what does not fit into what the relay allows is asked for in turn (S-11).

use crate::Settings;
use crate::groups::{Group, Item, Layer, Members, Part, Stage, grouped};
use crate::history::Haste;
use crate::question::Ask;
use crate::relay::{Around, Relay};
use crate::session::Session;
use crate::timers::Concern;
use crate::vocabulary::{Action, News, Page, Sub};
use crate::wanted::Wanted;
use grasp_core::{Filter, Time, Timestamp};
use std::collections::BTreeMap;

/// One subscription that stays.
#[derive(Debug)]
pub(crate) struct Live {
    pub(crate) parts: Vec<Heard>,
    pub(crate) bytes: usize,
    /// EOSE has come.
    pub(crate) open: bool,
}

impl Live {
    pub(crate) fn is_first_layer(&self) -> bool {
        self.parts.iter().all(|heard| heard.part.group < 2)
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Heard {
    pub(crate) part: Part,
    /// It was not heard since then; what was created meanwhile is asked for by itself.
    since: Option<Timestamp>,
}

impl Session {
    /// How many subscriptions the relay allows at once, and how many of them may stay (S-11).
    pub(crate) fn room(&self, relay_max: u32) -> Room {
        let reserve = (relay_max / 8).min(2);
        Room { all: relay_max - reserve, live: relay_max.saturating_sub(reserve + 1) }
    }

    fn live_bytes(&self) -> usize {
        self.live.values().map(|live| live.bytes).sum()
    }

    fn live_filters(&self) -> usize {
        self.live.values().map(|live| live.parts.len()).sum()
    }
}

/// Whatever a relay says it allows.
const SUBSCRIPTIONS_MAX: u32 = 2_000;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Room {
    pub(crate) all: u32,
    pub(crate) live: u32,
}

impl Relay {
    pub(crate) fn room(&self, around: &Around<'_>) -> Room {
        let told = self.session().and_then(|session| session.peer.subscriptions_max);
        let told = told.unwrap_or(around.settings.subscriptions_default).min(SUBSCRIPTIONS_MAX);
        let max = self.learned.subscriptions_max.map_or(told, |learned| learned.min(told)).max(1);
        self.session().map_or(Room { all: max, live: 0 }, |session| session.room(max))
    }

    /// Opens live subscriptions for all groups that have none, as far as they fit.
    pub(crate) fn hear_all(&mut self, around: &mut Around<'_>) {
        let deaf = |group: &Group| !group.is_listening() && !group.given_up;
        let groups: Vec<u32> =
            (0..).zip(&self.groups).filter(|(_, group)| deaf(group)).map(|(n, _)| n).collect();
        self.hear(&groups, around);
    }

    /// New groups: heard at once, unless packing everything anew would save a fifth.
    pub(crate) fn hear_new(&mut self, groups: &[u32], around: &mut Around<'_>) {
        let mut packed = false;
        if self.should_repack(groups, around) {
            if let Some(session) = self.session_mut() {
                session.repack_since.get_or_insert(around.now);
            }
            self.repack_if_wanted(around);
            packed = self.session().is_some_and(|session| session.repack_since.is_none());
        }
        // Also while that has to wait: one slow history never delays what happens now.
        if !packed {
            self.hear(groups, around);
        }
    }

    fn hear(&mut self, groups: &[u32], around: &mut Around<'_>) {
        if self.session().is_none() || groups.is_empty() {
            return;
        }
        let braked_until = self.brake.all_until();
        if braked_until > around.now {
            return around.timers.at_latest(self.alarm(Concern::Ask), braked_until);
        }
        let (filters_max, bytes_max) =
            (self.filters_max(around.settings), self.request_bytes_max(around.settings));
        let mut parts: Vec<Heard> = Vec::new();
        let mut bytes = 0;
        let (mut layer_one, mut alone) = (false, false);
        for number in groups {
            let Some(group) = self.group(*number) else { continue };
            let (first, each) = (group.layer <= Layer::States, group.filter_bytes(around.wanted));
            let long = group.long;
            let since = self.resumes_at(group, around);
            let listening = group.listening;
            for part in group.layer.live().filter(|part| listening & 1 << part == 0) {
                let full = parts.len() == filters_max || bytes + each > bytes_max;
                let apart = first != layer_one || long != alone;
                if (full || apart) && !parts.is_empty() {
                    if !self.listen(std::mem::take(&mut parts), bytes, around) {
                        return self.schedule_rotation(around);
                    }
                    bytes = 0;
                }
                alone = long;
                layer_one = first;
                parts.push(Heard { part: Part { group: *number, part }, since });
                bytes += each;
            }
        }
        if !parts.is_empty() {
            self.listen(parts, bytes, around);
        }
        self.schedule_rotation(around);
    }

    /// The gap of what was confirmed begins when it was last current, and a little before.
    fn resumes_at(&self, group: &Group, around: &Around<'_>) -> Option<Timestamp> {
        let from = match group.stage {
            Stage::Missing => None,
            // Its past is being read: what happens from then on would be in neither.
            Stage::Pending => Some(group.asked_at),
            Stage::Confirmed => Some(group.covered),
        };
        from.map(|from| around.since(from, around.settings.resume_within))
    }

    /// False: it does not fit.
    fn listen(&mut self, parts: Vec<Heard>, bytes: usize, around: &mut Around<'_>) -> bool {
        let room = self.room(around);
        let bytes_max = self.learned.live_bytes_max;
        let Some(session) = self.session() else { return false };
        let open = u32::try_from(session.live.len()).unwrap_or(u32::MAX);
        let asked = u32::try_from(session.asked.len()).unwrap_or(u32::MAX);
        let total = u64::try_from(session.live_bytes() + bytes).unwrap_or(u64::MAX);
        let allowed = open < room.live && bytes_max.is_none_or(|max| total <= max);
        let squeezed = open.saturating_add(asked) >= room.all;
        if allowed
            && squeezed
            && let Some(session) = self.session_mut()
        {
            session.squeezed = true;
        }
        if !allowed || squeezed {
            return false;
        }
        let sub = around.sub();
        let filter = |heard: &Heard| -> Option<Filter> {
            let mut filter = self.group(heard.part.group)?.filter(heard.part.part, around.wanted);
            // Never a `since`: with a clock that is ahead it would hide what happens now.
            filter.limit = Some(0);
            Some(filter)
        };
        let filters: Vec<Filter> = parts.iter().filter_map(filter).collect();
        for heard in &parts {
            if let Some(group) = self.group_mut(heard.part.group) {
                group.listening |= 1 << heard.part.part;
            }
        }
        let relay = self.url.clone();
        if let Some(session) = self.session_mut() {
            session.live.insert(sub, Live { parts, bytes, open: false });
        }
        around.act(Action::Listen { relay, sub, filters: filters.into() });
        true
    }

    /// EOSE of a live subscription: what it covers is heard from now on, and what was created since
    /// it was last heard is asked for. Not earlier: what comes between the two would be in neither.
    pub(crate) fn handle_listening(&mut self, sub: Sub, page: &Page, around: &mut Around<'_>) {
        let Some(session) = self.session_mut() else { return };
        let Some(live) = session.live.get_mut(&sub).filter(|live| !live.open) else { return };
        live.open = true;
        let parts = live.parts.clone();
        for id in &page.no_room {
            self.handle_no_room(sub, *id, around);
        }
        let mut behind = Vec::new();
        for heard in parts {
            let Some(group) = self.group_mut(heard.part.group) else { continue };
            group.heard |= 1 << heard.part.part;
            if group.is_heard() {
                group.live_since = Some(around.wall.to_wall(around.now).timestamp());
            }
            if heard.since.is_some() {
                behind.push(Ask { since: heard.since, ..Ask::of(heard.part) });
            }
        }
        if !behind.is_empty() {
            self.catch_up(behind, Haste::Now, around);
        }
    }

    /// The relay ended a live subscription: what it covered is not heard any more.
    pub(crate) fn lose_live(&mut self, sub: Sub, now: Time) -> Option<Live> {
        let live = self.session_mut()?.live.remove(&sub)?;
        for heard in &live.parts {
            if let Some(group) = self.group_mut(heard.part.group) {
                if group.is_current() && group.stage == Stage::Confirmed {
                    group.covered = now;
                }
                group.listening &= !(1 << heard.part.part);
                if live.open {
                    group.heard &= !(1 << heard.part.part);
                    group.live_since = None;
                }
            }
        }
        Some(live)
    }

    fn should_repack(&self, new: &[u32], around: &Around<'_>) -> bool {
        let Some(session) = self.session() else { return false };
        if session.repack_since.is_some() {
            return true;
        }
        let parts =
            |group: &Group| if group.given_up { 0 } else { usize::from(group.layer.live_parts()) };
        let added: usize = new.iter().filter_map(|n| self.group(*n)).map(parts).sum();
        let filters = session.live_filters() + added;
        let requests = added.div_ceil(self.filters_max(around.settings));
        let full = session.live.len() + requests > self.room(around).live as usize;
        if added == 0 || (filters <= around.settings.filters_before_repack && !full) {
            return false;
        }
        self.packed_filters(around) * 5 <= self.groups.iter().map(parts).sum::<usize>() * 4
    }

    /// How many live filters there would be if every group were full.
    fn packed_filters(&self, around: &Around<'_>) -> usize {
        let mut members: BTreeMap<Layer, usize> = BTreeMap::new();
        for group in &self.groups {
            *members.entry(group.layer).or_default() += group.members.len().max(1);
        }
        let filters = |(layer, members): (&Layer, &usize)| {
            let values_max = around.settings.values_per_filter_max.max(1);
            members.div_ceil(values_max) * usize::from(layer.live_parts())
        };
        members.iter().map(filters).sum()
    }

    /// Packs everything confirmed into full groups (S-10). Waits, as data, until nothing is
    /// pending; layer 1 stays open, and what happens meanwhile is asked for from 15 minutes back.
    pub(crate) fn repack_if_wanted(&mut self, around: &mut Around<'_>) {
        let braked = self.brake.history_until() > around.now;
        let Some(session) = self.session() else { return };
        let waits = !session.batches.is_empty() && !braked;
        if session.repack_since.is_none() || !session.asked.is_empty() || waits {
            return;
        }
        self.give_up_batches();
        let Some(session) = self.session_mut() else { return };
        let filters_before = session.live_filters();
        session.repack_since = None;
        let checks = session.checks_under_way().next().is_some();
        session.checks.clear();
        session.after_auth.retain(|work| work.question.check().is_none());
        let others = session.live.iter().filter(|(_, live)| !live.is_first_layer());
        let subs: Vec<Sub> = others.map(|(sub, _)| *sub).collect();
        let relay = self.url.clone();
        for sub in subs {
            self.lose_live(sub, around.now);
            around.act(Action::Close { relay: relay.clone(), sub });
        }
        // Whom somebody waited for is looked at anew: nobody knows in which group he is now.
        let anew = checks || self.groups.iter().any(|group| group.recheck.is_some());
        self.pack(around);
        if anew {
            self.groups.iter_mut().for_each(|group| group.is_due(around.now));
            self.verify_soon(around);
        }
        self.hear_all(around);
        let filters_after = self.session().map_or(0, Session::live_filters);
        let relay = self.url.clone();
        let news = News::Consolidated { relay, filters_before, filters_after };
        around.act(Action::Tell(news));
    }

    fn pack(&mut self, around: &Around<'_>) {
        let rest = self.groups.split_off(2.min(self.groups.len()));
        let covered = rest
            .iter()
            .filter(|group| group.stage == Stage::Confirmed && group.layer.live_parts() > 0)
            .map(|group| group.covered)
            .min();
        let verified = rest.iter().filter(|group| group.layer == Layer::Repos);
        let verified = verified.map(|group| group.verified).min().unwrap_or_default();
        let (confirmed, missing): (Vec<Group>, Vec<Group>) =
            rest.into_iter().partition(|group| group.stage == Stage::Confirmed);
        let number = self.number;
        let wanted = around.wanted;
        let items: Vec<Item> = confirmed
            .iter()
            .flat_map(|group| {
                group.members.iter().map(|number| Item { layer: group.layer, number: *number })
            })
            .filter(|item| item.is_wanted_on(number, wanted))
            .collect();
        for mut group in grouped(&items, wanted, self.size(around.settings), number) {
            group.stage = Stage::Confirmed;
            group.covered = covered.unwrap_or(around.now);
            group.verified = verified;
            self.groups.push(group);
        }
        self.groups.extend(missing);
        self.recount_members();
        self.requeue_missing();
    }

    /// Nobody is asked about what is not wanted of him any more. Only while nothing is open.
    pub(crate) fn drop_unwanted(&mut self, wanted: &Wanted) {
        let number = self.number;
        for group in self.groups.iter_mut().skip(2) {
            let layer = group.layer;
            group.members.retain(|it| Item { layer, number: *it }.is_wanted_on(number, wanted));
        }
        let mut at = 0;
        self.groups.retain(|group| {
            at += 1;
            at <= 2 || !group.members.is_empty()
        });
        self.recount_members();
        self.requeue_missing();
    }

    /// The relay takes less at a time than when these groups were made.
    pub(crate) fn split_large(&mut self, wanted: &Wanted, settings: &Settings) {
        let size = self.size(settings);
        let groups = std::mem::take(&mut self.groups);
        self.groups = groups.into_iter().flat_map(|group| group.split(wanted, size)).collect();
        self.requeue_missing();
    }

    fn recount_members(&mut self) {
        self.members = Members::default();
        for group in &self.groups {
            for number in &group.members {
                self.members.insert(group.layer, *number);
            }
        }
        // What is wanted again is asked for again, whatever an old group still holds.
        for item in &self.staged {
            self.members.remove(item.layer, item.number);
        }
    }

    /// Ends live subscriptions that are beyond what the relay allows, the last ones first; layer 1
    /// stays. What they covered is asked for in turn.
    pub(crate) fn trim_live(&mut self, around: &mut Around<'_>) {
        let relay = self.url.clone();
        loop {
            let room = self.room(around);
            let bytes_max = self.learned.live_bytes_max.unwrap_or(u64::MAX);
            let Some(session) = self.session() else { return };
            let bytes = u64::try_from(session.live_bytes()).unwrap_or(u64::MAX);
            let over = session.live.len() > room.live as usize || bytes > bytes_max;
            let last = session.live.iter().rev().find(|(_, live)| !live.is_first_layer());
            let Some(sub) = last.map(|(sub, _)| *sub).filter(|_| over) else { break };
            self.lose_live(sub, around.now);
            around.act(Action::Close { relay: relay.clone(), sub });
        }
        self.schedule_rotation(around);
    }

    /// Groups that are confirmed and not heard, so that somebody has to ask.
    pub(crate) fn uncovered(&self) -> impl Iterator<Item = u32> {
        let uncovered = |group: &Group| group.stage == Stage::Confirmed && !group.is_current();
        (0..).zip(&self.groups).filter(move |(_, group)| uncovered(group)).map(|(n, _)| n)
    }

    pub(crate) fn schedule_rotation(&mut self, around: &mut Around<'_>) {
        let alarm = self.alarm(Concern::Rotate);
        if self.session().is_none() || around.timers.is_set(alarm) {
            return;
        }
        let deaf = self.groups.iter().filter(|group| !group.is_listening() && !group.shelved);
        let deaf = deaf.count();
        if deaf == 0 && self.uncovered().next().is_none() {
            return;
        }
        around.timers.set(alarm, around.now.plus(around.settings.rotation_every));
        let relay = self.url.clone();
        if let Some(session) = self.session_mut()
            && deaf > 0
            && !session.told_rotating
        {
            session.told_rotating = true;
            around.act(Action::Tell(News::Rotating { relay, groups: deaf }));
        }
    }
}

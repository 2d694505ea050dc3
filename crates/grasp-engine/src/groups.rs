//! What is asked of one relay, in groups of up to a hundred values that live and are confirmed
//! together. New wants form new groups, so an open subscription never changes because something
//! was added (S-9); packing them anew is a decision of its own (S-10).

use crate::vocabulary::{Level, Purpose};
use crate::wanted::Wanted;
use grasp_core::{Filter, Kind, Time, Timestamp};
use std::collections::HashSet;
use std::time::Duration;

/// In the order in which they are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layer {
    /// Layer 1: every announcement the relay has.
    Announcements,
    /// Layer 1: every state the relay has.
    States,
    /// Announcements and states of our names, on a relay that is not asked for all of them (S-47).
    Named,
    /// Repositories that wait for git data: announcements and states of their names.
    Waiting,
    /// Layer 2: what refers to our repositories.
    Repos,
    /// Layer 3: what refers to our roots.
    Roots,
}

impl Layer {
    /// How many filters ask for a group's past.
    pub(crate) fn parts(self) -> u8 {
        match self {
            Self::Announcements | Self::States | Self::Named | Self::Waiting => 1,
            Self::Repos => 4,
            Self::Roots => 3,
        }
    }

    /// How many of them, from the last, are also heard live. The rest is in layer 1.
    pub(crate) fn live_parts(self) -> u8 {
        match self {
            Self::Announcements | Self::States | Self::Named => 1,
            Self::Waiting => 0,
            Self::Repos | Self::Roots => 3,
        }
    }

    pub(crate) fn live(self) -> impl Iterator<Item = u8> {
        (self.parts() - self.live_parts())..self.parts()
    }

    fn live_mask(self) -> u8 {
        self.live().fold(0, |mask, part| mask | 1 << part)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Wanted, and not asked for yet.
    Missing,
    /// A batch asks for it.
    Pending,
    Confirmed,
}

#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) layer: Layer,
    pub(crate) members: Vec<u32>,
    pub(crate) stage: Stage,
    /// Everything about it may be long known: compare before asking (S-18).
    pub(crate) reconcile: bool,
    pub(crate) purpose: Purpose,
    /// Which of its filters have a live subscription, one bit each, and which of these are
    /// answered.
    pub(crate) listening: u8,
    pub(crate) heard: u8,
    /// Since when all of them are.
    pub(crate) live_since: Option<Timestamp>,
    /// What was missed while it was not heard, and is asked for.
    pub(crate) behind: Behind,
    /// Up to then nothing was missed; not kept up to date while it is heard live.
    pub(crate) covered: Time,
    /// When it was last found out, or told, how the relay stands for these.
    pub(crate) verified: Time,
    /// It is looked at again then at the latest: somebody lacked something, or it was not found out.
    pub(crate) recheck: Option<Time>,
    /// A part of a check that is not through showed a difference.
    pub(crate) differs: bool,
    pub(crate) recheck_gap: Duration,
    /// The lowest serial of its members.
    pub(crate) serial_min: u64,
    /// Values so long that some relays refuse them; alone, so that they spoil nobody else's filter.
    pub(crate) long: bool,
    /// The relay will not have this filter; it is tried again with the daily sync.
    pub(crate) shelved: bool,
    /// There was no room here for some of its events; it is asked for again then.
    pub(crate) crowded_until: Option<Time>,
    /// How long it waited for room the last time.
    pub(crate) room_wait: Duration,
    /// When the batch that asks for it began.
    pub(crate) asked_at: Time,
    /// A live subscription for it was ended once already by the relay, without a reason.
    pub(crate) repaired: bool,
    /// It was ended a second time: not heard live in this session any more.
    pub(crate) given_up: bool,
}

/// A group is caught up when all that asked for what it missed have ended well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Behind {
    /// Batches that ask for it.
    pub(crate) batches: u32,
    /// One of them failed: it has to be asked for again.
    pub(crate) failed: bool,
    /// When the first of them began.
    pub(crate) since: Time,
    /// Not all of its filters were asked about.
    pub(crate) partly: bool,
}

impl Behind {
    pub(crate) fn asked(&mut self, partly: bool, now: Time) {
        // What failed before is still missing, unless everything is asked about now.
        if self.batches == 0 {
            let failed = self.failed && partly;
            *self = Self { since: now, failed, ..Self::default() };
        }
        self.batches += 1;
        self.partly |= partly;
    }

    /// The moment up to which nothing is missing any more, if this was the last.
    pub(crate) fn answered(&mut self, well: bool) -> Option<Time> {
        self.failed |= !well;
        self.batches = self.batches.saturating_sub(1);
        if self.batches > 0 || self.failed {
            return None;
        }
        let Self { since, partly, .. } = std::mem::take(self);
        (!partly).then_some(since)
    }

    /// Nobody asks for it any more, and it is still missing.
    pub(crate) fn given_up(&mut self) {
        if self.batches > 0 {
            *self = Self { batches: 0, failed: true, ..*self };
        }
    }
}

/// One filter of one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Part {
    pub(crate) group: u32,
    pub(crate) part: u8,
}

impl Group {
    pub(crate) fn new(layer: Layer, members: Vec<u32>) -> Self {
        Self {
            layer,
            members,
            stage: Stage::Missing,
            reconcile: false,
            purpose: Purpose::Backfill,
            listening: 0,
            heard: 0,
            live_since: None,
            behind: Behind::default(),
            covered: Time(0),
            verified: Time(0),
            recheck: None,
            differs: false,
            recheck_gap: Duration::ZERO,
            serial_min: 0,
            long: false,
            shelved: false,
            crowded_until: None,
            room_wait: Duration::ZERO,
            asked_at: Time(0),
            repaired: false,
            given_up: false,
        }
    }

    pub(crate) fn is_heard(&self) -> bool {
        self.heard == self.layer.live_mask()
    }

    /// Every live filter has its subscription, answered or not.
    pub(crate) fn is_listening(&self) -> bool {
        self.listening == self.layer.live_mask()
    }

    /// Nothing about it is being missed right now.
    pub(crate) fn is_current(&self) -> bool {
        self.is_heard() && self.behind == Behind::default()
    }

    pub(crate) fn filter(&self, part: u8, wanted: &Wanted) -> Filter {
        let mut filter = Filter::default();
        let letter = match (self.layer, part) {
            (Layer::Announcements, _) => {
                filter.kinds = Some([Kind::ANNOUNCEMENT].into());
                return filter;
            }
            (Layer::States, _) => {
                filter.kinds = Some([Kind::STATE].into());
                return filter;
            }
            (Layer::Waiting, _) => {
                filter.kinds = Some([Kind::STATE].into());
                b'd'
            }
            (Layer::Named, _) | (Layer::Repos, 0) => {
                filter.kinds = Some([Kind::ANNOUNCEMENT, Kind::STATE].into());
                b'd'
            }
            (Layer::Repos, 1) => b'a',
            (Layer::Repos, 2) => b'A',
            (Layer::Roots, 0) => b'e',
            (Layer::Roots, 1) => b'E',
            (Layer::Repos | Layer::Roots, _) => b'q',
        };
        let value = |number: &u32| match (self.layer, letter) {
            (Layer::Roots, _) => wanted.root(*number).map(|root| root.id.to_hex()),
            (_, b'd') => wanted.repo(*number).map(|repo| repo.id.identifier.to_string()),
            _ => wanted.repo(*number).map(|repo| repo.id.coordinate().to_string()),
        };
        filter.tags.insert(letter, self.members.iter().filter_map(value).collect());
        filter
    }

    /// How it stands is to be found out anew, though what is known may be young. Of other layers
    /// nobody asks how they stand.
    pub(crate) fn is_due(&mut self, at: Time) {
        if self.layer == Layer::Repos {
            self.recheck = Some(self.recheck.map_or(at, |recheck| recheck.min(at)));
        }
    }

    /// The same in groups that are not larger than this.
    pub(crate) fn split(mut self, wanted: &Wanted, size: Size) -> Vec<Self> {
        if self.filter_bytes(wanted) <= size.filter_bytes_max || self.members.len() < 2 {
            return vec![self];
        }
        let rest = self.members.split_off(self.members.len() / 2);
        let twin = Self { members: rest, ..Self::new(self.layer, Vec::new()) };
        let twin = Self {
            stage: self.stage,
            reconcile: self.reconcile,
            purpose: self.purpose,
            covered: self.covered,
            verified: self.verified,
            recheck: self.recheck,
            serial_min: self.serial_min,
            long: self.long,
            ..twin
        };
        let mut parts = self.split(wanted, size);
        parts.extend(twin.split(wanted, size));
        parts
    }

    /// Roughly what one of its filters takes on the wire.
    pub(crate) fn filter_bytes(&self, wanted: &Wanted) -> usize {
        let each = |number: &u32| member_bytes(self.layer, *number, wanted);
        64 + self.members.iter().map(each).sum::<usize>()
    }
}

fn member_bytes(layer: Layer, number: u32, wanted: &Wanted) -> usize {
    match layer {
        Layer::Roots => 67,
        // Escapes may double what an identifier takes.
        _ => 75 + 2 * wanted.repo(number).map_or(0, |repo| repo.id.identifier.as_str().len()),
    }
}

/// What has been put into groups, so that nothing is asked for twice.
#[derive(Debug, Default)]
pub(crate) struct Members {
    named: HashSet<u32>,
    waiting: HashSet<u32>,
    repos: HashSet<u32>,
    roots: HashSet<u32>,
}

impl Members {
    pub(crate) fn insert(&mut self, layer: Layer, number: u32) -> bool {
        match layer {
            Layer::Named => self.named.insert(number),
            Layer::Waiting => self.waiting.insert(number),
            Layer::Repos => self.repos.insert(number),
            Layer::Roots => self.roots.insert(number),
            Layer::Announcements | Layer::States => false,
        }
    }

    pub(crate) fn remove(&mut self, layer: Layer, number: u32) {
        match layer {
            Layer::Named => self.named.remove(&number),
            Layer::Waiting => self.waiting.remove(&number),
            Layer::Repos => self.repos.remove(&number),
            Layer::Roots => self.roots.remove(&number),
            Layer::Announcements | Layer::States => false,
        };
    }
}

/// Something new to be wanted of a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Item {
    pub(crate) layer: Layer,
    pub(crate) number: u32,
}

impl Item {
    pub(crate) fn repo(number: u32, level: Level) -> Self {
        let layer = match level {
            Level::StateOnly => Layer::Waiting,
            Level::Full => Layer::Repos,
        };
        Self { layer, number }
    }

    pub(crate) fn root(number: u32) -> Self {
        Self { layer: Layer::Roots, number }
    }

    pub(crate) fn is_wanted_on(self, relay: u32, wanted: &Wanted) -> bool {
        match self.layer {
            Layer::Announcements | Layer::States => true,
            Layer::Named => [Level::StateOnly, Level::Full]
                .into_iter()
                .any(|level| wanted.wants_repo_on(self.number, relay, level)),
            Layer::Waiting => wanted.wants_repo_on(self.number, relay, Level::StateOnly),
            Layer::Repos => wanted.wants_repo_on(self.number, relay, Level::Full),
            Layer::Roots => wanted.wants_root_on(self.number, relay),
        }
    }

    /// Since when it has been wanted of this relay, as a number of the store: a root cannot be
    /// older there than the announcement that lists the relay.
    pub(crate) fn serial_on(self, relay: u32, wanted: &Wanted) -> u64 {
        match self.layer {
            Layer::Roots => wanted.root_serial_on(self.number, relay),
            _ => wanted.repo(self.number).map_or(0, |repo| repo.serial),
        }
    }
}

/// How large a group may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) values_max: usize,
    pub(crate) filter_bytes_max: usize,
}

/// Values longer than this are refused by some relays.
const VALUE_BYTES_MAX: usize = 255;

fn value_bytes(layer: Layer, number: u32, wanted: &Wanted) -> usize {
    match layer {
        Layer::Roots => 64,
        _ => 71 + wanted.repo(number).map_or(0, |repo| repo.id.identifier.as_str().len()),
    }
}

/// Cuts items into groups, layer by layer, in the order given; long values by themselves.
pub(crate) fn grouped(items: &[Item], wanted: &Wanted, size: Size, relay: u32) -> Vec<Group> {
    let mut groups = Vec::new();
    for layer in [Layer::Named, Layer::Waiting, Layer::Repos, Layer::Roots] {
        for long in [false, true] {
            let bytes = |item: &&Item| value_bytes(layer, item.number, wanted) > VALUE_BYTES_MAX;
            let of_layer = items.iter().filter(|item| item.layer == layer);
            let items: Vec<&Item> = of_layer.filter(|item| bytes(item) == long).collect();
            groups.extend(cut(&items, layer, wanted, size).into_iter().map(|members| {
                let serial =
                    |number: &u32| Item { layer, number: *number }.serial_on(relay, wanted);
                let serial_min = members.iter().map(serial).min().unwrap_or(0);
                Group { long, serial_min, ..Group::new(layer, members) }
            }));
        }
    }
    groups
}

fn cut(items: &[&Item], layer: Layer, wanted: &Wanted, size: Size) -> Vec<Vec<u32>> {
    let mut cuts = Vec::new();
    let mut members = Vec::new();
    let mut bytes = 64;
    for item in items {
        let more = member_bytes(layer, item.number, wanted);
        let full = members.len() == size.values_max || bytes + more > size.filter_bytes_max;
        if full && !members.is_empty() {
            let mut full = std::mem::take(&mut members);
            full.shrink_to_fit();
            cuts.push(full);
            bytes = 64;
        }
        members.push(item.number);
        bytes += more;
    }
    if !members.is_empty() {
        members.shrink_to_fit();
        cuts.push(members);
    }
    cuts
}

//! How the table of waiting events is shared. Announcements have a room of their own; events about
//! served repositories have a reserve; no relay and no network fills what is left. Pure.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What an event counts as while it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldClass {
    Announcement,
    /// A state by someone with a say in a repository that is served.
    ServedState,
    /// Anything else about a repository that is served.
    Served,
    /// About a repository that waits itself.
    Other,
}

/// By which door an event came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldSide {
    Direct,
    Sync,
}

/// Who brought it, for counting.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeldSource {
    Relay(String),
    /// An IPv6 network of 48 bits.
    Network(String),
    /// An IPv4 address, or an IPv6 network of 56 bits.
    Address(String),
}

/// Events and their size; what is used, or what may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct HeldUse {
    pub events: u64,
    pub bytes: u64,
}

/// What is used on one side by each class, and by each source of a newcomer in its class.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HeldFill {
    pub announcements: HeldUse,
    pub served_states: HeldUse,
    pub served: HeldUse,
    pub others: HeldUse,
    pub sources: Vec<(HeldSource, HeldUse)>,
}

/// Which share has no room for a newcomer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FullShare {
    /// The room of announcements, or the one of everything else, on this side.
    Room,
    /// What one class may use of its room.
    Class,
    Source(HeldSource),
}

impl HeldClass {
    pub const ALL: [Self; 4] = [Self::Announcement, Self::ServedState, Self::Served, Self::Other];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Announcement => "announcements",
            Self::ServedState => "states of served repositories",
            Self::Served => "pull requests of served repositories",
            Self::Other => "events of repositories that wait",
        }
    }

    /// For figures; stable.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Announcement => "announcements",
            Self::ServedState => "served_states",
            Self::Served => "served",
            Self::Other => "others",
        }
    }

    /// How much of the table one side may fill with this class. A table of `E` has beside it a room for
    /// `E / 2` announcements; each room is halved between both sides, and half of what is left is the
    /// reserve of served repositories, of which half is for states alone.
    pub const fn limit(self, table: HeldUse) -> HeldUse {
        match self {
            Self::Announcement | Self::Other => table.part(1, 4),
            Self::ServedState => table.part(1, 2),
            Self::Served => table.part(1, 8),
        }
    }
}

impl HeldSide {
    pub const ALL: [Self; 2] = [Self::Direct, Self::Sync];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Sync => "sync",
        }
    }
}

impl HeldSource {
    pub fn name(&self) -> &str {
        match self {
            Self::Relay(name) | Self::Network(name) | Self::Address(name) => name,
        }
    }

    /// How much of its class's limit one source may use.
    pub const fn limit(&self, class_limit: HeldUse) -> HeldUse {
        match self {
            Self::Relay(_) | Self::Network(_) => class_limit.part(1, 10),
            Self::Address(_) => class_limit.part(1, 20),
        }
    }
}

impl fmt::Display for HeldSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Relay(relay) => write!(f, "the relay {relay}"),
            Self::Network(network) => write!(f, "the network {network}"),
            Self::Address(address) => write!(f, "the address {address}"),
        }
    }
}

impl HeldUse {
    const fn part(self, times: u64, of: u64) -> Self {
        Self { events: part(self.events, times, of), bytes: part(self.bytes, times, of) }
    }

    /// Is there no room for one more?
    pub const fn reaches(&self, limit: HeldUse) -> bool {
        self.events >= limit.events || self.bytes >= limit.bytes
    }

    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self {
            events: self.events.saturating_add(other.events),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }

    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self {
            events: self.events.saturating_sub(other.events),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }
}

/// At least one: a small table has room for one event.
const fn part(number: u64, times: u64, of: u64) -> u64 {
    let part = number / of * times;
    if part == 0 { 1 } else { part }
}

/// The share that is full, if there is no room for one more event of this class.
pub fn full_share(class: HeldClass, fill: &HeldFill, table: HeldUse) -> Option<FullShare> {
    let (used, room) = match class {
        HeldClass::Announcement => (fill.announcements, fill.announcements),
        HeldClass::ServedState => (fill.served_states, fill.beside_announcements()),
        HeldClass::Served => (fill.served, fill.beside_announcements()),
        HeldClass::Other => (fill.others, fill.beside_announcements()),
    };
    if room.reaches(table.part(1, 2)) {
        return Some(FullShare::Room);
    }
    let limit = class.limit(table);
    if used.reaches(limit) {
        return Some(FullShare::Class);
    }
    // Who has a say in a served repository is not one of many.
    if class == HeldClass::ServedState {
        return None;
    }
    let full = fill.sources.iter().find(|(source, used)| used.reaches(source.limit(limit)));
    full.map(|(source, _)| FullShare::Source(source.clone()))
}

impl HeldFill {
    fn beside_announcements(&self) -> HeldUse {
        self.served_states.plus(self.served).plus(self.others)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: HeldUse = HeldUse { events: 50_000, bytes: 64 << 20 };

    fn events(events: u64) -> HeldUse {
        HeldUse { events, bytes: events }
    }

    fn relay() -> HeldSource {
        HeldSource::Relay("wss://one.example".to_owned())
    }

    #[test]
    fn announcements_take_no_room_from_anything_else() {
        let fill = HeldFill { announcements: events(12_500), ..HeldFill::default() };
        let full = |class| full_share(class, &fill, TABLE);
        assert_eq!(full(HeldClass::Announcement), Some(FullShare::Class));
        for class in [HeldClass::ServedState, HeldClass::Served, HeldClass::Other] {
            assert_eq!(full(class), None, "{class:?}");
        }
    }

    #[test]
    fn half_of_a_side_is_for_served_repositories_and_half_of_that_for_their_states() {
        let mut fill = HeldFill { others: events(12_500), ..HeldFill::default() };
        assert_eq!(full_share(HeldClass::Other, &fill, TABLE), Some(FullShare::Class));
        assert_eq!(full_share(HeldClass::Served, &fill, TABLE), None);
        fill.served = events(6_250);
        assert_eq!(full_share(HeldClass::Served, &fill, TABLE), Some(FullShare::Class));
        assert_eq!(full_share(HeldClass::ServedState, &fill, TABLE), None);
        fill.served_states = events(6_250);
        assert_eq!(full_share(HeldClass::ServedState, &fill, TABLE), Some(FullShare::Room));
    }

    #[test]
    fn a_relay_has_a_tenth_and_an_address_a_twentieth() {
        let network = || HeldSource::Network("2001:db8:1::/48".to_owned());
        let address = || HeldSource::Address("203.0.113.7".to_owned());
        for (source, max) in [(relay(), 1_250), (network(), 1_250), (address(), 625)] {
            let fill = |used| {
                let sources = vec![(source.clone(), events(used))];
                HeldFill { sources, ..HeldFill::default() }
            };
            let full = Some(FullShare::Source(source.clone()));
            for class in [HeldClass::Announcement, HeldClass::Other] {
                assert_eq!(full_share(class, &fill(max - 1), TABLE), None);
                assert_eq!(full_share(class, &fill(max), TABLE), full);
            }
            assert_eq!(full_share(HeldClass::ServedState, &fill(max), TABLE), None);
        }
    }

    #[test]
    fn bytes_count_like_events_and_a_small_table_has_room_for_somebody() {
        let large = HeldUse { events: 1, bytes: 32 << 20 };
        let fill = HeldFill { others: large, ..HeldFill::default() };
        assert_eq!(full_share(HeldClass::Other, &fill, TABLE), Some(FullShare::Room));
        let tiny = HeldUse { events: 1, bytes: 1 << 20 };
        let fill = HeldFill { sources: vec![(relay(), events(0))], ..HeldFill::default() };
        assert_eq!(full_share(HeldClass::Announcement, &fill, tiny), None);
    }
}

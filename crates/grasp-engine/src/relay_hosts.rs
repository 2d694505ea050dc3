//! Relays by host and port. So many addresses of one are followed, and a failure of one makes all of
//! them wait: an event that names many paths of a host causes no more dials than one that names one.

use crate::vocabulary::Level;
use crate::{Health, Settings};
use grasp_core::{RelayUrl, Time};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Relay addresses that are followed for one host and port.
pub const RELAYS_PER_HOST_MAX: usize = 4;
/// Addresses that are remembered as not followed, to be shown.
const NOT_FOLLOWED_MAX: usize = 1_000;
/// Of those for addresses with a path, so that the host's own address always finds room.
const WITH_PATH_MAX: usize = RELAYS_PER_HOST_MAX - 1;
/// Of those for addresses with a path that only held announcements name.
const HELD_WITH_PATH_MAX: usize = 2;

/// Why an address that an announcement lists is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NotFollowed {
    /// As many addresses of its host and port are followed as may be.
    Host,
    /// The announcement lists more relays than are followed of one.
    Announcement,
    /// As many relays are followed as may be.
    Table,
}

#[derive(Debug, Default)]
pub(crate) struct RelayHosts {
    by_place: BTreeMap<String, RelayHost>,
    /// Addresses that are not followed, each with a repository that names it.
    not_followed: BTreeMap<RelayUrl, (u32, NotFollowed)>,
}

#[derive(Debug, Default)]
struct RelayHost {
    relays: BTreeSet<u32>,
    health: Health,
}

/// Is there room for one more address where so many are followed, and so many of them have a path?
pub(crate) fn has_room(url: &RelayUrl, level: Level, followed: usize, with_path: usize) -> bool {
    let with_path_max = match level {
        Level::Full => WITH_PATH_MAX,
        Level::StateOnly => HELD_WITH_PATH_MAX,
    };
    followed < RELAYS_PER_HOST_MAX && (is_main(url) || with_path < with_path_max)
}

/// The address of the host itself. One that speaks plainly where TLS is usual, or the other way
/// round, is not.
pub(crate) fn is_main(url: &RelayUrl) -> bool {
    let Some(parsed) = url.to_url() else { return false };
    let is_odd = matches!((url.is_secure(), parsed.port()), (false, Some(443)) | (true, Some(80)));
    parsed.path().trim_end_matches('/').is_empty() && parsed.query().is_none() && !is_odd
}

impl RelayHosts {
    pub(crate) fn insert(&mut self, place: &str, relay: u32) {
        self.by_place.entry(place.to_owned()).or_default().relays.insert(relay);
    }

    pub(crate) fn remove(&mut self, place: &str, relay: u32) {
        let Some(host) = self.by_place.get_mut(place) else { return };
        host.relays.remove(&relay);
        if host.relays.is_empty() {
            self.by_place.remove(place);
        }
    }

    pub(crate) fn note_not_followed(&mut self, url: &RelayUrl, repo: u32, why: NotFollowed) {
        if self.not_followed.len() < NOT_FOLLOWED_MAX {
            self.not_followed.insert(url.clone(), (repo, why));
        }
    }

    /// What a repository names is learnt anew, or it is gone.
    pub(crate) fn forget_not_followed(&mut self, repo: u32) {
        self.not_followed.retain(|_, (named_by, _)| *named_by != repo);
    }

    pub(crate) fn not_followed(&self) -> impl Iterator<Item = (&RelayUrl, NotFollowed)> {
        self.not_followed.iter().map(|(relay, (_, why))| (relay, *why))
    }

    pub(crate) fn relays(&self, place: &str) -> Vec<u32> {
        self.by_place.get(place).map(|it| it.relays.iter().copied().collect()).unwrap_or_default()
    }

    /// None of them is dialled before then.
    pub(crate) fn next_try(&self, place: &str) -> Time {
        self.by_place.get(place).map_or(Time(0), |it| it.health.next_try())
    }

    /// What an earlier run knew of one of them.
    pub(crate) fn recall(&mut self, place: &str, health: Health) {
        let Some(host) = self.by_place.get_mut(place) else { return };
        // A ban is about one address.
        if !matches!(health, Health::Banned { .. }) && health.next_try() > host.health.next_try() {
            host.health = health;
        }
    }

    /// One of them is dialled. While the host fails the others wait as if that had failed.
    pub(crate) fn dialled(&mut self, place: &str, now: Time, settings: &Settings) {
        if let Some(host) = self.by_place.get_mut(place)
            && host.health != Health::Healthy
        {
            let next_try = host.health.after_failure(now, settings).next_try();
            host.health = host.health.tried_at(next_try);
        }
    }

    pub(crate) fn failed(&mut self, place: &str, now: Time, settings: &Settings) {
        if let Some(host) = self.by_place.get_mut(place) {
            host.health = host.health.after_failure(now, settings);
        }
    }

    /// One of them answered, or a person asks for it: the others need not wait.
    pub(crate) fn may_be_dialled(&mut self, place: &str, now: Time) {
        if let Some(host) = self.by_place.get_mut(place) {
            host.health = host.health.tried_at(now);
        }
    }

    /// A link to one of them has held for long.
    pub(crate) fn recovered(&mut self, place: &str) {
        if let Some(host) = self.by_place.get_mut(place) {
            host.health = Health::Healthy;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> RelayUrl {
        text.parse().unwrap()
    }

    #[test]
    fn the_address_of_the_host_itself_always_finds_room() {
        let (main, path) = (url("wss://a.example"), url("wss://a.example/x"));
        assert!(has_room(&main, Level::StateOnly, WITH_PATH_MAX, WITH_PATH_MAX));
        assert!(!has_room(&path, Level::Full, WITH_PATH_MAX, WITH_PATH_MAX));
        assert!(has_room(&path, Level::Full, 2, 2) && !has_room(&path, Level::StateOnly, 2, 2));
        assert!(!has_room(&main, Level::Full, RELAYS_PER_HOST_MAX, WITH_PATH_MAX));
    }

    #[test]
    fn odd_spellings_of_an_address_are_not_the_host_itself() {
        for main in ["wss://a.example", "ws://a.example", "ws://a.example:7777"] {
            assert!(is_main(&url(main)), "{main}");
        }
        for other in ["ws://a.example:443", "wss://a.example/x", "wss://a.example/?x=1"] {
            assert!(!is_main(&url(other)), "{other}");
        }
    }
}

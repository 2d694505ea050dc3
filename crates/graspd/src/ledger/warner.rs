//! When to warn that a peer lacks events (S-42): at most once an hour for each peer. What was not
//! said meanwhile is counted, and told with the next warning.

use grasp_core::{RelayUrl, Time};
use std::collections::BTreeMap;
use std::time::Duration;

const EVERY: Duration = Duration::from_secs(3_600);
const PEERS_MAX: usize = 50_000;

#[derive(Debug, Default)]
pub struct LackWarner {
    warned: BTreeMap<RelayUrl, Warned>,
}

#[derive(Debug)]
struct Warned {
    at: Time,
    unsaid: Unsaid,
}

/// What was found since the last warning about the same peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unsaid {
    pub findings: u64,
    pub events: u64,
}

impl LackWarner {
    /// A repository was found of which this peer lacks so many events. `Some`: warn now.
    pub fn lacks(&mut self, relay: &RelayUrl, events: u64, now: Time) -> Option<Unsaid> {
        if events == 0 {
            return None;
        }
        if let Some(warned) = self.warned.get_mut(relay) {
            if now.since(warned.at) >= EVERY {
                warned.at = now;
                return Some(std::mem::take(&mut warned.unsaid));
            }
            warned.unsaid.findings += 1;
            warned.unsaid.events = warned.unsaid.events.saturating_add(events);
            return None;
        }
        if self.warned.len() >= PEERS_MAX {
            self.warned.retain(|_, warned| now.since(warned.at) < EVERY);
        }
        // So many warnings within an hour help nobody; better silence than a flood.
        if self.warned.len() >= PEERS_MAX {
            return None;
        }
        self.warned.insert(relay.clone(), Warned { at: now, unsaid: Unsaid::default() });
        Some(Unsaid::default())
    }

    /// The relay is not followed any more.
    pub fn forget(&mut self, relay: &RelayUrl) {
        self.warned.remove(relay);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relay(number: usize) -> RelayUrl {
        format!("wss://r{number}.example").parse().unwrap()
    }

    #[test]
    fn s42_a_peer_that_lacks_events_is_warned_about_once_an_hour_and_for_itself() {
        let mut warner = LackWarner::default();
        let at = Time::from_secs;
        let nothing = Unsaid::default();
        assert_eq!(warner.lacks(&relay(1), 0, at(0)), None, "nothing is lacking");
        assert_eq!(warner.lacks(&relay(1), 3, at(0)), Some(nothing));
        assert_eq!(warner.lacks(&relay(1), 3, at(1)), None);
        assert_eq!(warner.lacks(&relay(2), 3, at(1)), Some(nothing), "another peer");
        assert_eq!(warner.lacks(&relay(1), 4, at(3_599)), None);
        let unsaid = Unsaid { findings: 2, events: 7 };
        assert_eq!(warner.lacks(&relay(1), 3, at(3_600)), Some(unsaid));
        assert_eq!(warner.lacks(&relay(1), 3, at(7_199)), None);
        warner.forget(&relay(1));
        assert_eq!(warner.lacks(&relay(1), 3, at(7_199)), Some(nothing));
    }

    #[test]
    fn s42_warnings_are_remembered_for_a_bounded_number_of_peers() {
        let mut warner = LackWarner::default();
        for number in 0..PEERS_MAX {
            assert!(warner.lacks(&relay(number), 1, Time(0)).is_some());
        }
        assert_eq!(warner.lacks(&relay(PEERS_MAX), 1, Time(1)), None);
        let later = Time(0).plus(EVERY);
        assert!(warner.lacks(&relay(PEERS_MAX), 1, later).is_some());
        assert_eq!(warner.warned.len(), 1);
    }
}

//! How many requests one address gets in any minute, under however many names it goes; a network of
//! IPv6 is one address. Pure: it is told the time. Invariant: no span of the window's length ever
//! holds more starts than it may.

use crate::outbound::address::counted_as;
use grasp_core::Time;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartLimits {
    /// Per address, in any window.
    pub starts_max: usize,
    pub window: Duration,
    /// How many addresses are counted at a time. Who would be one more has to wait.
    pub addresses_max: usize,
}

impl Default for StartLimits {
    fn default() -> Self {
        Self { starts_max: 300, window: Duration::from_secs(60), addresses_max: 4_096 }
    }
}

/// Too many for now; at this time one more is fine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Until(pub Time);

#[derive(Debug)]
pub struct Starts {
    limits: StartLimits,
    /// The starts of the last window, oldest first. Never empty.
    taken: HashMap<IpAddr, VecDeque<Time>>,
}

impl Starts {
    pub fn new(limits: StartLimits) -> Self {
        Self { limits, taken: HashMap::new() }
    }

    /// Counts one request.
    pub fn take(&mut self, ip: IpAddr, now: Time) -> Result<(), Until> {
        self.look(ip, now)?;
        self.taken.entry(counted_as(ip)).or_default().push_back(now);
        Ok(())
    }

    /// Would one more be fine?
    pub fn look(&mut self, ip: IpAddr, now: Time) -> Result<(), Until> {
        let ip = counted_as(ip);
        let window = self.limits.window;
        if let Some(starts) = self.taken.get_mut(&ip) {
            forget(starts, window, now);
            let oldest = starts.front().copied().unwrap_or(now);
            return match starts.len() < self.limits.starts_max {
                true => Ok(()),
                false => Err(Until(oldest.plus(window))),
            };
        }
        if self.limits.starts_max == 0 {
            return Err(Until(now.plus(window)));
        }
        if self.taken.len() < self.limits.addresses_max {
            return Ok(());
        }
        self.taken.retain(|_, starts| {
            forget(starts, window, now);
            !starts.is_empty()
        });
        if self.taken.len() < self.limits.addresses_max {
            return Ok(());
        }
        let latest = self.taken.values().filter_map(|starts| starts.back());
        Err(Until(latest.min().map_or(now, |latest| latest.plus(window))))
    }
}

fn forget(starts: &mut VecDeque<Time>, window: Duration, now: Time) {
    // A clock that was set back leaves starts in the future; those do not count either.
    starts.retain(|start| *start <= now && start.plus(window) > now);
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn ip(last: u8) -> IpAddr {
        [9, 9, 9, last].into()
    }

    fn starts(starts_max: usize, addresses_max: usize) -> Starts {
        Starts::new(StartLimits { starts_max, addresses_max, window: 60 * SECOND })
    }

    #[test]
    fn s35_no_minute_ever_holds_more_than_it_may() {
        let mut it = starts(30, 10);
        let mut taken: Vec<Time> = Vec::new();
        for ms in (0..600_000).step_by(137) {
            let now = Time(ms);
            let within = taken.iter().filter(|start| now.since(**start) < 60 * SECOND).count();
            match it.take(ip(1), now) {
                Ok(()) => {
                    assert!(within < 30, "at {ms}");
                    taken.push(now);
                }
                Err(Until(until)) => {
                    assert_eq!(within, 30, "at {ms}, nobody waits for nothing");
                    let freed = taken.get(taken.len() - 30).unwrap().plus(60 * SECOND);
                    assert_eq!(until, freed);
                }
            }
        }
        assert!(taken.len() >= 300, "{}", taken.len());
    }

    #[test]
    fn an_address_is_one_under_all_its_spellings_and_others_are_not_held_up() {
        let mut it = starts(2, 10);
        let mapped: IpAddr = "::ffff:9.9.9.1".parse().unwrap();
        assert_eq!(it.take(ip(1), Time(0)), Ok(()));
        assert_eq!(it.take(mapped, Time(5)), Ok(()));
        assert_eq!(it.take(ip(1), Time(6)), Err(Until(Time(60_000))));
        assert_eq!(it.look(mapped, Time(6)), Err(Until(Time(60_000))));
        assert_eq!(it.take(ip(2), Time(6)), Ok(()));
        assert_eq!(it.take(ip(1), Time(59_999)), Err(Until(Time(60_000))));
        assert_eq!(it.take(ip(1), Time(60_000)), Ok(()));
    }

    #[test]
    fn s35_a_network_of_ipv6_is_one_address() {
        let mut it = starts(2, 10);
        let [one, two, other] =
            ["2a00:1::1", "2a00:1::2", "2a00:1:0:1::1"].map(|ip| ip.parse().unwrap());
        assert_eq!(it.take(one, Time(0)), Ok(()));
        assert_eq!(it.take(two, Time(0)), Ok(()));
        assert_eq!(it.take(one, Time(1)), Err(Until(Time(60_000))));
        assert_eq!(it.take(two, Time(1)), Err(Until(Time(60_000))));
        assert_eq!(it.take(other, Time(1)), Ok(()));
    }

    #[test]
    fn a_full_table_refuses_the_newcomer_until_somebody_is_forgotten() {
        let mut it = starts(5, 2);
        assert_eq!(it.take(ip(1), Time(0)), Ok(()));
        assert_eq!(it.take(ip(2), Time(1_000)), Ok(()));
        assert_eq!(it.take(ip(1), Time(2_000)), Ok(()));
        assert_eq!(it.take(ip(3), Time(3_000)), Err(Until(Time(61_000))));
        assert_eq!(it.take(ip(3), Time(61_000)), Ok(()));
        assert_eq!(it.taken.len(), 2);
    }

    #[test]
    fn a_clock_that_was_set_back_locks_nobody_out() {
        let mut it = starts(1, 1);
        assert_eq!(it.take(ip(1), Time(10_000_000)), Ok(()));
        assert_eq!(it.take(ip(1), Time(1_000)), Ok(()));
    }
}

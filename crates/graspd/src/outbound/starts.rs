//! How many connections and requests one address gets in any minute, under however many names it
//! goes; a network of IPv6 is one address. Git requests, relay dials and NIP-11 requests count
//! together. `Starts` is pure: it is told the time. Invariant: no span of the window's length ever
//! holds more starts than it may.

use crate::clock::Clock;
use crate::outbound::address::counted_as;
use grasp_core::Time;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// More git requests than this go to no address in a window, whatever its servers publish (S-56).
const PUBLISHED_STARTS_MAX: usize = 3_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartLimits {
    /// Per address, in any window.
    pub starts_max: usize,
    pub window: Duration,
    /// How many addresses are counted at a time. Who would be one more has to wait.
    pub addresses_max: usize,
    /// How long an address that objected gets no more than `starts_max`.
    pub objected_for: Duration,
}

impl Default for StartLimits {
    fn default() -> Self {
        Self {
            starts_max: 300,
            window: Duration::from_secs(60),
            addresses_max: 4_096,
            objected_for: Duration::from_secs(3_600),
        }
    }
}

/// What is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartKind {
    GitRequest,
    /// A link to a relay and the question what it is (NIP-11): two connections.
    RelayDial,
}

impl StartKind {
    pub const fn connections(self) -> usize {
        match self {
            Self::GitRequest => 1,
            Self::RelayDial => 2,
        }
    }
}

/// Too many for now; at this time one more is fine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Until(pub Time);

#[derive(Debug)]
pub struct Starts {
    limits: StartLimits,
    /// The addresses that had a start in the last window.
    taken: HashMap<IpAddr, AddressStarts>,
    published: HashMap<IpAddr, PublishedStarts>,
}

/// The starts of the last window, oldest first.
#[derive(Debug, Default)]
struct AddressStarts {
    all: VecDeque<Time>,
    /// Those of relay dials.
    dials: VecDeque<Time>,
}

/// What a server behind an address says it takes.
#[derive(Debug)]
struct PublishedStarts {
    starts_max: usize,
    objected_until: Time,
}

impl Starts {
    pub fn new(limits: StartLimits) -> Self {
        Self { limits, taken: HashMap::new(), published: HashMap::new() }
    }

    /// Counts all connections of a start, or none.
    pub fn take(&mut self, ip: IpAddr, kind: StartKind, now: Time) -> Result<(), Until> {
        self.look(ip, kind, now)?;
        let starts = self.taken.entry(counted_as(ip)).or_default();
        let added = || std::iter::repeat_n(now, kind.connections());
        starts.all.extend(added());
        if kind == StartKind::RelayDial {
            starts.dials.extend(added());
        }
        Ok(())
    }

    /// Would one more be fine? Relay dials never use more than the usual limit.
    pub fn look(&mut self, ip: IpAddr, kind: StartKind, now: Time) -> Result<(), Until> {
        let ip = counted_as(ip);
        let (window, max) = (self.limits.window, self.limits.starts_max);
        let all_max = self.starts_max(&ip, now);
        if let Some(starts) = self.taken.get_mut(&ip) {
            starts.forget(window, now);
            let dials_until = match kind {
                StartKind::RelayDial => free_at(&starts.dials, max, kind, window, now),
                StartKind::GitRequest => None,
            };
            let until = free_at(&starts.all, all_max, kind, window, now).max(dials_until);
            return until.map_or(Ok(()), |until| Err(Until(until)));
        }
        if max < kind.connections() {
            return Err(Until(now.plus(window)));
        }
        if self.taken.len() < self.limits.addresses_max {
            return Ok(());
        }
        self.taken.retain(|_, starts| {
            starts.forget(window, now);
            !starts.all.is_empty()
        });
        if self.taken.len() < self.limits.addresses_max {
            return Ok(());
        }
        let latest = self.taken.values().filter_map(|starts| starts.all.back());
        Err(Until(latest.min().map_or(now, |latest| latest.plus(window))))
    }

    /// A server behind this address publishes how many git requests it takes in a minute. Others may
    /// share the address, so a smaller number than the usual one says nothing here.
    pub fn publish(&mut self, ip: IpAddr, starts_max: usize, now: Time) {
        let ip = counted_as(ip);
        let starts_max = starts_max.min(PUBLISHED_STARTS_MAX);
        if starts_max <= self.limits.starts_max {
            return;
        }
        if self.published.len() >= self.limits.addresses_max && !self.published.contains_key(&ip) {
            let taken = &self.taken;
            self.published.retain(|ip, it| taken.contains_key(ip) || it.objected_until > now);
            if self.published.len() >= self.limits.addresses_max {
                return;
            }
        }
        let none = PublishedStarts { starts_max, objected_until: Time(0) };
        let published = self.published.entry(ip).or_insert(none);
        published.starts_max = published.starts_max.max(starts_max);
    }

    /// It was asked too often, so its published number does not count for a while.
    pub fn object(&mut self, ip: IpAddr, now: Time) {
        if let Some(published) = self.published.get_mut(&counted_as(ip)) {
            published.objected_until = now.plus(self.limits.objected_for);
        }
    }

    fn starts_max(&self, ip: &IpAddr, now: Time) -> usize {
        let published = self.published.get(ip).filter(|it| it.objected_until <= now);
        published.map_or(self.limits.starts_max, |it| it.starts_max)
    }
}

impl AddressStarts {
    fn forget(&mut self, window: Duration, now: Time) {
        for starts in [&mut self.all, &mut self.dials] {
            while starts.front().is_some_and(|start| start.plus(window) <= now) {
                starts.pop_front();
            }
        }
    }
}

/// When one more fits; `None` if it does now.
fn free_at(
    starts: &VecDeque<Time>,
    max: usize,
    kind: StartKind,
    window: Duration,
    now: Time,
) -> Option<Time> {
    let Some(taken_max) = max.checked_sub(kind.connections()) else {
        return Some(now.plus(window));
    };
    let too_many = starts.len().checked_sub(taken_max + 1)?;
    Some(starts.get(too_many).copied().unwrap_or(now).plus(window))
}

/// One count for everything that leaves this server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SharedStarts {
    starts: Arc<Mutex<Starts>>,
    clock: Arc<Clock>,
}

impl SharedStarts {
    pub fn new(limits: StartLimits, clock: Arc<Clock>) -> Self {
        Self { starts: Arc::new(Mutex::new(Starts::new(limits))), clock }
    }

    /// Counts all connections of a start at this moment, or none.
    pub fn take(&self, ip: IpAddr, kind: StartKind) -> Result<(), Until> {
        let mut starts = self.starts.lock();
        starts.take(ip, kind, self.clock.now())
    }

    pub fn publish(&self, ip: IpAddr, starts_max: u32) {
        let starts_max = usize::try_from(starts_max).unwrap_or(usize::MAX);
        self.starts.lock().publish(ip, starts_max, self.clock.now());
    }

    pub fn object(&self, ip: IpAddr) {
        self.starts.lock().object(ip, self.clock.now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use StartKind::{GitRequest, RelayDial};

    const SECOND: Duration = Duration::from_secs(1);

    fn ip(last: u8) -> IpAddr {
        [9, 9, 9, last].into()
    }

    fn starts(starts_max: usize, addresses_max: usize) -> Starts {
        let limits = StartLimits { starts_max, addresses_max, ..StartLimits::default() };
        Starts::new(limits)
    }

    #[test]
    fn s35_no_minute_ever_holds_more_than_it_may() {
        let mut it = starts(30, 10);
        let mut taken: Vec<Time> = Vec::new();
        for ms in (0..600_000).step_by(137) {
            let now = Time(ms);
            let within = taken.iter().filter(|start| now.since(**start) < 60 * SECOND).count();
            match it.take(ip(1), GitRequest, now) {
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
        assert_eq!(it.take(ip(1), GitRequest, Time(0)), Ok(()));
        assert_eq!(it.take(mapped, GitRequest, Time(5)), Ok(()));
        assert_eq!(it.take(ip(1), GitRequest, Time(6)), Err(Until(Time(60_000))));
        assert_eq!(it.look(mapped, GitRequest, Time(6)), Err(Until(Time(60_000))));
        assert_eq!(it.take(ip(2), GitRequest, Time(6)), Ok(()));
        assert_eq!(it.take(ip(1), GitRequest, Time(59_999)), Err(Until(Time(60_000))));
        assert_eq!(it.take(ip(1), GitRequest, Time(60_000)), Ok(()));
    }

    #[test]
    fn s35_a_network_of_ipv6_is_one_address() {
        let mut it = starts(2, 10);
        let [one, two, other] =
            ["2a00:1::1", "2a00:1::2", "2a00:1:0:1::1"].map(|ip| ip.parse().unwrap());
        assert_eq!(it.take(one, GitRequest, Time(0)), Ok(()));
        assert_eq!(it.take(two, GitRequest, Time(0)), Ok(()));
        assert_eq!(it.take(one, GitRequest, Time(1)), Err(Until(Time(60_000))));
        assert_eq!(it.take(two, GitRequest, Time(1)), Err(Until(Time(60_000))));
        assert_eq!(it.take(other, GitRequest, Time(1)), Ok(()));
    }

    #[test]
    fn a_full_table_refuses_the_newcomer_until_somebody_is_forgotten() {
        let mut it = starts(5, 2);
        assert_eq!(it.take(ip(1), GitRequest, Time(0)), Ok(()));
        assert_eq!(it.take(ip(2), GitRequest, Time(1_000)), Ok(()));
        assert_eq!(it.take(ip(1), GitRequest, Time(2_000)), Ok(()));
        assert_eq!(it.take(ip(3), GitRequest, Time(3_000)), Err(Until(Time(61_000))));
        assert_eq!(it.take(ip(3), GitRequest, Time(61_000)), Ok(()));
        assert_eq!(it.taken.len(), 2);
    }

    #[test]
    fn a_relay_dial_and_its_probe_count_as_two_or_not_at_all() {
        let mut it = starts(5, 10);
        assert_eq!(it.take(ip(1), RelayDial, Time(0)), Ok(()));
        assert_eq!(it.take(ip(1), RelayDial, Time(1_000)), Ok(()));
        assert_eq!(it.take(ip(1), RelayDial, Time(2_000)), Err(Until(Time(60_000))));
        assert_eq!(it.take(ip(1), GitRequest, Time(2_000)), Ok(()));
        let mut never = starts(1, 10);
        assert_eq!(never.take(ip(1), RelayDial, Time(2_000)), Err(Until(Time(62_000))));
    }

    /// Git requests that an address gets in the minute from this second on.
    fn taken_in_a_minute(it: &mut Starts, from_secs: u64) -> usize {
        let mut times = (0..60_000).step_by(10).map(|ms| Time::from_secs(from_secs).0 + ms);
        times.by_ref().filter(|ms| it.take(ip(1), GitRequest, Time(*ms)).is_ok()).count()
    }

    #[test]
    fn s56_an_address_gets_what_it_publishes_until_it_objects() {
        let mut it = starts(300, 10);
        assert_eq!(taken_in_a_minute(&mut it, 0), 300);
        it.publish(ip(1), 2_000, Time::from_secs(60));
        assert_eq!(taken_in_a_minute(&mut it, 60), 2_000);
        it.publish(ip(1), 1_000_000, Time::from_secs(120));
        assert_eq!(taken_in_a_minute(&mut it, 120), 3_000, "never more");
        it.publish(ip(1), 5, Time::from_secs(180));
        assert_eq!(taken_in_a_minute(&mut it, 180), 3_000, "others share the address");
        it.object(ip(1), Time::from_secs(240));
        it.publish(ip(1), 3_000, Time::from_secs(240));
        assert_eq!(taken_in_a_minute(&mut it, 240), 300);
        assert_eq!(taken_in_a_minute(&mut it, 240 + 3_540), 300, "for an hour");
        assert_eq!(taken_in_a_minute(&mut it, 240 + 3_600), 3_000);
    }

    #[test]
    fn s56_relay_dials_never_use_more_than_the_usual_number() {
        let mut it = starts(300, 10);
        it.publish(ip(1), 3_000, Time(0));
        let dials = (0..500).filter(|ms| it.take(ip(1), RelayDial, Time(*ms)).is_ok()).count();
        assert_eq!(dials, 150, "two connections each");
        let requests = (500..9_000).filter(|ms| it.take(ip(1), GitRequest, Time(*ms)).is_ok());
        assert_eq!(requests.count(), 2_700, "both count");
        assert!(it.take(ip(1), RelayDial, Time(59_999)).is_err());
        assert_eq!(it.take(ip(1), RelayDial, Time(60_002)), Ok(()));
    }
}

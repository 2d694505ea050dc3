//! What each address may use of this server, over all its connections. The table is bounded: when
//! it is full a newcomer is refused, and only entries that owe nothing are ever forgotten.

use crate::bucket::{Rate, TokenBucket};
use crate::limits::Limits;
use grasp_core::{Kind, Time};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

/// One customer of the network: an IPv4 address (also one inside a 6to4 address), or the /64 an IPv6 customer usually gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IpKey {
    V4(Ipv4Addr),
    V6([u16; 4]),
}

impl IpKey {
    /// What one customer may have at most: an IPv4 address, or an IPv6 network of 56 bits.
    pub fn customer(self) -> String {
        match self.customer_key() {
            Self::V4(ip) => ip.to_string(),
            Self::V6([a, b, c, d]) => format!("{}/56", Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0)),
        }
    }

    /// The same for all addresses of one customer.
    #[must_use]
    pub fn customer_key(self) -> Self {
        match self {
            Self::V4(_) => self,
            Self::V6([a, b, c, d]) => Self::V6([a, b, c, d & 0xff00]),
        }
    }

    /// What one site may have: an IPv6 network of 48 bits.
    pub fn site(self) -> Option<String> {
        match self {
            Self::V4(_) => None,
            Self::V6([a, b, c, _]) => Some(format!("{}/48", Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0))),
        }
    }

    fn is_loopback(self) -> bool {
        match self {
            Self::V4(ip) => ip.is_loopback(),
            // `::1` is the only loopback address; nobody else can come from its /64.
            Self::V6(net) => net == [0; 4],
        }
    }
}

impl From<IpAddr> for IpKey {
    fn from(ip: IpAddr) -> Self {
        match ip.to_canonical() {
            IpAddr::V4(ip) => Self::V4(ip),
            IpAddr::V6(ip) => sixtofour(ip).map_or_else(|| Self::V6(network(ip)), Self::V4),
        }
    }
}

/// The IPv4 address that a 6to4 network (`2002::/16`) belongs to: its owner has all 65,536 of its /64.
/// A loopback address in there is a forgery and gets no exemption.
fn sixtofour(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let [0x20, 0x02, a, b, c, d, ..] = ip.octets() else { return None };
    Some(Ipv4Addr::new(a, b, c, d)).filter(|ip| !ip.is_loopback())
}

fn network(ip: Ipv6Addr) -> [u16; 4] {
    let [a, b, c, d, ..] = ip.segments();
    [a, b, c, d]
}

/// Why an address gets nothing more for now. The sentence follows a `rate-limited:` prefix.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error("this server already talks to as many addresses as it can; try again later")]
    Full,
    #[error("your address already has {0} open connections; close one first")]
    Connections(u32),
    #[error("your address may send {} {what} {}; try again in {} s",
        rate.tokens, period(rate), wait.as_secs().saturating_add(1))]
    TooFast { what: &'static str, rate: Rate, wait: Duration },
    #[error("this server takes no {0} from clients")]
    Never(&'static str),
    #[error(
        "the open subscriptions of your address keep more than {0} bytes of filters; close some first"
    )]
    Filters(usize),
}

fn period(rate: &Rate) -> String {
    match rate.per_ms {
        60_000 => "per minute".to_owned(),
        3_600_000 => "per hour".to_owned(),
        86_400_000 => "per day".to_owned(),
        ms => format!("every {} s", ms / 1000),
    }
}

/// What a session asks of its address's budget.
pub trait Allowance {
    fn take_event(&mut self, kind: Kind, now: Time) -> Result<(), Refused>;
    fn retain(&mut self, bytes: usize) -> Result<(), Refused>;
    fn release(&mut self, bytes: usize);
}

/// For a peer that has no budget of its own.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unlimited;

impl Allowance for Unlimited {
    fn take_event(&mut self, _: Kind, _: Time) -> Result<(), Refused> {
        Ok(())
    }
    fn retain(&mut self, _: usize) -> Result<(), Refused> {
        Ok(())
    }
    fn release(&mut self, _: usize) {}
}

/// Whether peers on this machine have a budget. They have none while a proxy on the same host may
/// stand for all users at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loopback {
    Exempt,
    Counted,
}

#[derive(Debug, Default)]
struct Use {
    connections: u32,
    retained_bytes: usize,
    events: TokenBucket,
    announcements: TokenBucket,
    new_repositories: TokenBucket,
    held: TokenBucket,
    uploads: TokenBucket,
    git_requests: TokenBucket,
}

/// Connected addresses at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Crowd {
    pub ips: usize,
    pub crowded: usize,
}

#[derive(Debug)]
pub struct Budgets {
    limits: Arc<Limits>,
    loopback: Loopback,
    table: BTreeMap<IpKey, Use>,
}

impl Budgets {
    pub fn new(limits: Arc<Limits>, loopback: Loopback) -> Self {
        Self { limits, loopback, table: BTreeMap::new() }
    }

    pub fn len(&self) -> usize {
        self.table.len()
    }

    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    pub fn is_exempt(&self, ip: IpKey) -> bool {
        self.loopback == Loopback::Exempt && ip.is_loopback()
    }

    /// Every success must be met by one `disconnect`.
    pub fn connect(&mut self, ip: IpKey) -> Result<(), Refused> {
        let max = self.limits.connections_per_ip_max;
        let Some(used) = self.entry(ip)? else { return Ok(()) };
        if used.connections >= max {
            return Err(Refused::Connections(max));
        }
        used.connections += 1;
        Ok(())
    }

    pub fn disconnect(&mut self, ip: IpKey) {
        if let Some(used) = self.table.get_mut(&ip) {
            used.connections = used.connections.saturating_sub(1);
        }
    }

    /// An announcement costs both an event and an announcement.
    pub fn take_event(&mut self, ip: IpKey, kind: Kind, now: Time) -> Result<(), Refused> {
        let (events, announcements) = (self.limits.events_per_ip, self.limits.announcements_per_ip);
        let Some(used) = self.entry(ip)? else { return Ok(()) };
        take(&mut used.events, "events", events, now)?;
        if kind == Kind::ANNOUNCEMENT {
            take(&mut used.announcements, "announcements", announcements, now)?;
        }
        Ok(())
    }

    /// For an announcement that would make a repository this server does not have yet.
    pub fn take_new_repository(&mut self, ip: IpKey, now: Time) -> Result<(), Refused> {
        let rate = self.limits.new_repositories_per_ip;
        let Some(used) = self.entry(ip)? else { return Ok(()) };
        take(&mut used.new_repositories, "new repositories", rate, now)
    }

    /// For an event that will have to wait here.
    pub fn take_held(&mut self, ip: IpKey, now: Time) -> Result<(), Refused> {
        let rate = self.limits.held_per_ip;
        let Some(used) = self.entry(ip)? else { return Ok(()) };
        take(&mut used.held, "events that wait for git data", rate, now)
    }

    /// For commits of a pull request that nobody has published yet.
    pub fn take_upload(&mut self, ip: IpKey, now: Time) -> Result<(), Refused> {
        let rate = self.limits.uploads_per_ip;
        let Some(used) = self.entry(ip)? else { return Ok(()) };
        take(&mut used.uploads, "unpublished pull requests", rate, now)
    }

    /// For a request of git's smart HTTP. A whole minute's worth may come at once, so a client that
    /// counts requests in any minute is never refused.
    pub fn take_git_request(&mut self, ip: IpKey, now: Time) -> Result<(), Refused> {
        let rate = self.limits.git_requests_per_ip;
        let Some(used) = self.entry(ip)? else { return Ok(()) };
        take(&mut used.git_requests, "git requests", rate, now)
    }

    pub fn retain(&mut self, ip: IpKey, bytes: usize) -> Result<(), Refused> {
        let max = self.limits.retained_filter_bytes_per_ip_max;
        let Some(used) = self.entry(ip)? else { return Ok(()) };
        let after = used.retained_bytes.saturating_add(bytes);
        if after > max {
            return Err(Refused::Filters(max));
        }
        used.retained_bytes = after;
        Ok(())
    }

    pub fn release(&mut self, ip: IpKey, bytes: usize) {
        if let Some(used) = self.table.get_mut(&ip) {
            used.retained_bytes = used.retained_bytes.saturating_sub(bytes);
        }
    }

    /// How many addresses are connected, and how many of them with more than `threshold` sockets.
    pub fn crowd(&self, threshold: u32) -> Crowd {
        let connected = self.table.values().filter(|used| used.connections > 0);
        connected.fold(Crowd::default(), |crowd, used| Crowd {
            ips: crowd.ips + 1,
            crowded: crowd.crowded + usize::from(used.connections > threshold),
        })
    }

    /// One address's share, in the form a session asks for.
    pub fn of(&mut self, ip: IpKey) -> Share<'_> {
        Share { budgets: self, ip }
    }

    /// Forgets addresses that are gone and owe nothing; call it now and then.
    pub fn sweep(&mut self, now: Time) {
        let limits = &self.limits;
        self.table.retain(|_, used| !used.is_idle(limits, now));
    }

    /// Is anything counted for this address?
    pub fn counts(&self, ip: IpKey) -> bool {
        !self.is_exempt(ip)
    }

    /// `None` for an exempt address, which leaves no trace.
    fn entry(&mut self, ip: IpKey) -> Result<Option<&mut Use>, Refused> {
        if self.is_exempt(ip) {
            return Ok(None);
        }
        if self.table.len() >= self.limits.ips_max && !self.table.contains_key(&ip) {
            return Err(Refused::Full);
        }
        Ok(Some(self.table.entry(ip).or_default()))
    }
}

impl Refused {
    /// In how many whole seconds it is worth trying again.
    pub fn retry_after_secs(&self) -> Option<u64> {
        match self {
            Self::TooFast { wait, .. } => Some(wait.as_secs().saturating_add(1)),
            _ => None,
        }
    }
}

impl Use {
    fn is_idle(&mut self, limits: &Limits, now: Time) -> bool {
        self.connections == 0
            && self.retained_bytes == 0
            && self.events.is_full(&limits.events_per_ip, now)
            && self.announcements.is_full(&limits.announcements_per_ip, now)
            && self.new_repositories.is_full(&limits.new_repositories_per_ip, now)
            && self.held.is_full(&limits.held_per_ip, now)
            && self.uploads.is_full(&limits.uploads_per_ip, now)
            && self.git_requests.is_full(&limits.git_requests_per_ip, now)
    }
}

fn take(
    bucket: &mut TokenBucket,
    what: &'static str,
    rate: Rate,
    now: Time,
) -> Result<(), Refused> {
    bucket.take(&rate, now).map_err(|wait| match rate.grants_nothing() {
        true => Refused::Never(what),
        false => Refused::TooFast { what, rate, wait },
    })
}

#[derive(Debug)]
pub struct Share<'a> {
    budgets: &'a mut Budgets,
    ip: IpKey,
}

impl Allowance for Share<'_> {
    fn take_event(&mut self, kind: Kind, now: Time) -> Result<(), Refused> {
        self.budgets.take_event(self.ip, kind, now)
    }
    fn retain(&mut self, bytes: usize) -> Result<(), Refused> {
        self.budgets.retain(self.ip, bytes)
    }
    fn release(&mut self, bytes: usize) {
        self.budgets.release(self.ip, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time(1_700_000_000_000);
    const HOUR: Duration = Duration::from_secs(3_600);

    fn key(text: &str) -> IpKey {
        text.parse::<IpAddr>().unwrap().into()
    }

    fn budgets(limits: Limits) -> Budgets {
        Budgets::new(Arc::new(limits), Loopback::Exempt)
    }

    #[test]
    fn an_address_is_one_ipv4_or_one_ipv6_network() {
        assert_eq!(key("203.0.113.7"), key("::ffff:203.0.113.7"));
        assert_ne!(key("203.0.113.7"), key("203.0.113.8"));
        assert_eq!(key("2001:db8:1:2::1"), key("2001:db8:1:2:ffff::9"));
        assert_ne!(key("2001:db8:1:2::1"), key("2001:db8:1:3::1"));
    }

    #[test]
    fn addresses_of_one_customer_and_of_one_site_have_one_name() {
        assert_eq!(key("203.0.113.7").customer(), "203.0.113.7");
        assert_eq!(key("203.0.113.7").site(), None);
        assert_eq!(key("2001:db8:1:1234::1").customer(), "2001:db8:1:1200::/56");
        assert_eq!(key("2001:db8:1:12ff::9").customer(), "2001:db8:1:1200::/56");
        assert_eq!(key("2001:db8:1:1234::1").site().as_deref(), Some("2001:db8:1::/48"));
    }

    #[test]
    fn a_6to4_address_counts_as_the_ipv4_address_in_it() {
        assert_eq!(key("2002:cb00:7107::1"), key("203.0.113.7"));
        assert_eq!(key("2002:cb00:7107:ffff::9"), key("203.0.113.7"));
        assert_ne!(key("2002:cb00:7108::1"), key("203.0.113.7"));
        assert!(!key("2002:7f00:1::1").is_loopback(), "no exemption can be forged");
    }

    #[test]
    fn connections_are_counted_per_address_and_given_back() {
        let mut budgets = budgets(Limits { connections_per_ip_max: 2, ..Limits::default() });
        let ip = key("203.0.113.7");
        assert_eq!(budgets.connect(ip), Ok(()));
        assert_eq!(budgets.connect(ip), Ok(()));
        assert_eq!(budgets.connect(ip), Err(Refused::Connections(2)));
        assert_eq!(budgets.connect(key("203.0.113.8")), Ok(()));
        assert_eq!(budgets.crowd(1), Crowd { ips: 2, crowded: 1 });
        budgets.disconnect(ip);
        assert_eq!(budgets.crowd(1), Crowd { ips: 2, crowded: 0 });
        assert_eq!(budgets.connect(ip), Ok(()));
    }

    #[test]
    fn announcements_have_their_own_budget_besides_the_common_one() {
        let mut budgets = budgets(Limits::default());
        let ip = key("203.0.113.7");
        for _ in 0..120 {
            assert_eq!(budgets.take_event(ip, Kind::ANNOUNCEMENT, NOW), Ok(()));
        }
        let refused = budgets.take_event(ip, Kind::ANNOUNCEMENT, NOW).unwrap_err();
        let text = "your address may send 120 announcements per hour; try again in 31 s";
        assert_eq!(refused.to_string(), text);
        assert_eq!(budgets.take_event(ip, Kind::ISSUE, NOW), Ok(()));
        for _ in 0..100 {
            assert_eq!(budgets.take_new_repository(ip, NOW), Ok(()));
        }
        assert!(budgets.take_new_repository(ip, NOW).is_err());
    }

    #[test]
    fn a_rate_of_nothing_says_so_instead_of_naming_a_time() {
        let closed = Limits { announcements_per_ip: Rate::per_hour(0), ..Limits::default() };
        let refused = budgets(closed).take_event(key("203.0.113.7"), Kind::ANNOUNCEMENT, NOW);
        let text = "this server takes no announcements from clients";
        assert_eq!(refused.unwrap_err().to_string(), text);
    }

    #[test]
    fn filters_of_all_connections_of_an_address_share_one_budget() {
        let mut budgets = budgets(Limits::default());
        let ip = key("203.0.113.7");
        assert_eq!(budgets.retain(ip, 16 << 20), Ok(()));
        assert_eq!(budgets.retain(ip, 1), Err(Refused::Filters(16 << 20)));
        budgets.release(ip, 1);
        assert_eq!(budgets.retain(ip, 1), Ok(()));
    }

    #[test]
    fn this_machine_is_exempt_until_a_proxy_is_declared() {
        let strict = Limits { connections_per_ip_max: 0, ..Limits::default() };
        for local in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            let mut exempt = budgets(strict.clone());
            assert_eq!(exempt.connect(key(local)), Ok(()), "{local}");
            assert!(exempt.is_empty(), "an exempt address leaves no trace");
            let mut counted = Budgets::new(Arc::new(strict.clone()), Loopback::Counted);
            assert!(counted.connect(key(local)).is_err(), "{local}");
        }
    }

    #[test]
    fn a_full_table_refuses_newcomers_and_forgets_only_those_who_owe_nothing() {
        let mut budgets = budgets(Limits { ips_max: 3, ..Limits::default() });
        let [connected, spender, visitor] = ["203.0.113.1", "203.0.113.2", "203.0.113.3"].map(key);
        budgets.connect(connected).unwrap();
        budgets.take_event(spender, Kind::ANNOUNCEMENT, NOW).unwrap();
        budgets.connect(visitor).unwrap();
        budgets.disconnect(visitor);
        let newcomer = key("203.0.113.4");
        assert_eq!(budgets.connect(newcomer), Err(Refused::Full));
        assert_eq!(budgets.connect(spender), Ok(()), "who is known stays welcome");
        budgets.disconnect(spender);

        budgets.sweep(NOW);
        assert_eq!(budgets.len(), 2, "only the visitor left nothing behind");
        assert_eq!(budgets.connect(newcomer), Ok(()));
        budgets.sweep(NOW.plus(HOUR));
        assert_eq!(budgets.len(), 2, "the spender's tokens have come back");
    }
}

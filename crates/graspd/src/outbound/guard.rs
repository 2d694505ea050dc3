//! Whether a URL may be followed at all, before anybody is asked where it leads. Pure.
//! Names that only mean something inside a network, and addresses inside one, are for its operator.

use crate::outbound::address::{is_global, is_open_port};
use grasp_core::RelayUrl;
use std::net::{IpAddr, SocketAddr};
use url::{Host, Url};

/// Who chose the destination.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Anybody, in an event: only the public internet.
    Strangers,
    /// The operator, or an operator who trusts every event: no address is out of bounds.
    Operator,
}

/// What is spoken there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    /// `ws` and `wss`.
    Relay,
    /// `http` and `https`.
    Git,
}

/// A place that may be looked up, and connected to if `permits` agrees with what is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    pub host: Host<String>,
    pub port: u16,
    /// Through TLS?
    pub secure: bool,
    rule: Rule,
}

/// A URL that may not be followed; the text is a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Forbidden(pub String);

pub fn vet(relay: &RelayUrl, rule: Rule) -> Result<Target, Forbidden> {
    let url = relay.to_url().ok_or_else(|| Forbidden("this is not an address".into()))?;
    vet_url(&url, Protocol::Relay, rule)
}

pub fn vet_url(url: &Url, protocol: Protocol, rule: Rule) -> Result<Target, Forbidden> {
    let secure = match (protocol, url.scheme()) {
        (Protocol::Relay, "wss") | (Protocol::Git, "https") => true,
        (Protocol::Relay, "ws") | (Protocol::Git, "http") => false,
        (Protocol::Relay, _) => return refuse("only ws and wss are spoken with relays"),
        (Protocol::Git, _) => return refuse("only http and https are spoken with git servers"),
    };
    if !url.username().is_empty() || url.password().is_some() {
        return refuse("addresses with a user name or password are not followed");
    }
    if url.fragment().is_some() {
        return refuse("addresses with a fragment are not followed");
    }
    let port = url.port_or_known_default().unwrap_or(0);
    if port == 0 || (rule == Rule::Strangers && !is_open_port(port)) {
        return refuse(&format!("port {port} is not for relays or git servers"));
    }
    let host = match url.host() {
        Some(Host::Domain(name)) => Host::Domain(vet_name(name, rule)?),
        Some(Host::Ipv4(ip)) => Host::Ipv4(ip),
        Some(Host::Ipv6(ip)) => Host::Ipv6(ip),
        None => return refuse("the address has no host"),
    };
    let target = Target { host, port, secure, rule };
    match target.literal() {
        Some(ip) if !target.permits(ip) => refuse("this address is not on the public internet"),
        _ => Ok(target),
    }
}

impl Target {
    /// May we connect to this address for it?
    pub fn permits(&self, ip: IpAddr) -> bool {
        self.rule == Rule::Operator || is_global(ip)
    }

    /// The address, where the host is one and needs no lookup.
    pub fn literal(&self) -> Option<IpAddr> {
        match self.host {
            Host::Domain(_) => None,
            Host::Ipv4(ip) => Some(ip.into()),
            Host::Ipv6(ip) => Some(ip.into()),
        }
    }

    pub(super) fn literal_address(&self) -> Option<SocketAddr> {
        self.literal().map(|ip| SocketAddr::new(ip, self.port))
    }

    /// As the `Host` header has it.
    pub fn authority(&self) -> String {
        let default = if self.secure { 443 } else { 80 };
        match self.port == default {
            true => self.host.to_string(),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

fn refuse<T>(why: &str) -> Result<T, Forbidden> {
    Err(Forbidden(why.to_owned()))
}

/// A name as it is looked up: without the dot of the root.
fn vet_name(name: &str, rule: Rule) -> Result<String, Forbidden> {
    let name = name.strip_suffix('.').unwrap_or(name);
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
    };
    if name.len() > 253 || !name.split('.').all(is_label) {
        return refuse("the host is not a name that can be looked up");
    }
    let name = name.to_ascii_lowercase();
    if rule == Rule::Strangers && is_local(&name) {
        return refuse("this name is not one of the public internet");
    }
    Ok(name)
}

/// Names that the public does not share: without a dot, or below a name that is set aside or, to
/// keep numbers in disguise away from the system's resolver, does not begin with a letter.
fn is_local(name: &str) -> bool {
    name.rsplit_once('.').is_none_or(|(_, top)| {
        LOCAL_NAMES.contains(&top) || !top.starts_with(|c: char| c.is_ascii_alphabetic())
    })
}

/// Special-use names, and those that routers, clouds and containers give to their own.
const LOCAL_NAMES: [&str; 28] = [
    "alt",
    "arpa",
    "belkin",
    "bit",
    "consul",
    "corp",
    "domain",
    "example",
    "exit",
    "home",
    "i2p",
    "internal",
    "intranet",
    "invalid",
    "kubernetes",
    "lan",
    "local",
    "localdomain",
    "localdomain4",
    "localdomain6",
    "localhost",
    "mail",
    "onion",
    "private",
    "router",
    "svc",
    "test",
    "workgroup",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn target(text: &str, rule: Rule) -> Result<Target, Forbidden> {
        vet_url(&Url::parse(text).unwrap(), Protocol::Relay, rule)
    }

    #[test]
    fn s40_a_public_place_is_a_target() {
        let it = target("wss://Relay.Damus.io./x", Rule::Strangers).unwrap();
        assert_eq!(it.host, Host::Domain("relay.damus.io".to_owned()));
        assert_eq!((it.port, it.secure, it.authority().as_str()), (443, true, "relay.damus.io"));
        let it = target("ws://8.8.8.8:7777", Rule::Strangers).unwrap();
        assert_eq!(it.literal_address(), Some("8.8.8.8:7777".parse().unwrap()));
        assert_eq!((it.secure, it.authority().as_str()), (false, "8.8.8.8:7777"));
        let it = target("wss://[2606:4700::1]:443", Rule::Strangers).unwrap();
        assert_eq!(it.authority(), "[2606:4700::1]");
        assert!(it.permits("1.1.1.1".parse().unwrap()) && !it.permits("10.0.0.1".parse().unwrap()));
    }

    #[test]
    fn s40_the_operator_may_choose_addresses_but_not_other_protocols() {
        for mine in ["ws://localhost", "ws://relay:22", "ws://10.0.0.1:6379", "wss://[::1]:1"] {
            assert!(target(mine, Rule::Operator).is_ok(), "{mine}");
            assert!(target(mine, Rule::Strangers).is_err(), "{mine}");
        }
        for never in ["http://a.com", "ws://u@a.com", "ws://:p@a.com", "ws://a.com/#x", "ws://a:0"]
        {
            assert!(target(never, Rule::Operator).is_err(), "{never}");
        }
    }

    #[test]
    fn s40_git_servers_are_vetted_by_the_same_rule() {
        let git = |text: &str| vet_url(&Url::parse(text).unwrap(), Protocol::Git, Rule::Strangers);
        let it = git("https://example.com/a.git").unwrap();
        assert_eq!((it.port, it.secure), (443, true));
        assert!(!git("http://example.com/a.git").unwrap().secure);
        for bad in [
            "git://example.com/a",
            "ssh://example.com/a",
            "file:///etc/passwd",
            "ftp://a.com/",
            "wss://example.com",
            "https://u:p@example.com",
            "https://127.0.0.1/",
            "http://h/",
        ] {
            assert!(git(bad).is_err(), "{bad}");
        }
    }
}

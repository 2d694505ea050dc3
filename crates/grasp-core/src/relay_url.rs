//! The address of another relay, normalised when it is parsed, so that one relay has one name.
//! Whether it may be dialled is decided where the dialling is done.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use url::{Host, Url};

/// `wss://relay.example` or `ws://relay.example:7777/path`: host in lower case, no default port, no
/// trailing slash, no credentials. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayUrl(Arc<str>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a relay address; it should look like wss://relay.example")]
pub struct BadRelayUrl;

impl RelayUrl {
    pub const LEN_MAX: usize = 512;

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Is it spoken to through TLS?
    pub fn is_secure(&self) -> bool {
        self.0.starts_with("wss:")
    }

    pub fn to_url(&self) -> Option<Url> {
        Url::parse(&self.0).ok()
    }

    pub fn host(&self) -> String {
        self.to_url().and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default()
    }

    /// The host, and the port if it is not the usual one, as people name a server.
    pub fn host_and_port(&self) -> String {
        self.to_url().map(|url| host_and_port(&url)).unwrap_or_default()
    }

    /// Host and port, which is what a budget for one neighbour is counted by.
    pub fn place(&self) -> String {
        let Some(url) = self.to_url() else { return String::new() };
        let port = url.port_or_known_default().unwrap_or(0);
        format!("{}:{port}", url.host_str().unwrap_or(""))
    }
}

/// The host, and the port if it is not the scheme's own.
pub(crate) fn host_and_port(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}{port}", url.host_str().unwrap_or_default())
}

impl FromStr for RelayUrl {
    type Err = BadRelayUrl;

    fn from_str(text: &str) -> Result<Self, BadRelayUrl> {
        let text = text.trim();
        // Bytes that some parsers drop and others do not have no place in an address.
        let plain = text.len() <= Self::LEN_MAX && text.bytes().all(|b| (0x21..=0x7e).contains(&b));
        let url = Url::parse(text).ok().filter(|_| plain).ok_or(BadRelayUrl)?;
        let fit = matches!(url.scheme(), "ws" | "wss")
            && url.username().is_empty()
            && url.password().is_none()
            && url.fragment().is_none();
        let host = match url.host().filter(|_| fit).ok_or(BadRelayUrl)? {
            Host::Domain(name) => name.strip_suffix('.').unwrap_or(name).to_owned(),
            Host::Ipv4(ip) => ip.to_string(),
            Host::Ipv6(ip) => format!("[{ip}]"),
        };
        if host.is_empty() || host.ends_with('.') {
            return Err(BadRelayUrl);
        }
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let path = url.path().trim_end_matches('/');
        let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
        Ok(Self(format!("{}://{host}{port}{path}{query}", url.scheme()).into()))
    }
}

impl fmt::Display for RelayUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for RelayUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RelayUrl({})", self.0)
    }
}

impl Serialize for RelayUrl {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for RelayUrl {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(text: &str) -> Option<String> {
        text.parse::<RelayUrl>().ok().map(|url| url.to_string())
    }

    #[test]
    fn one_relay_has_one_name() {
        for same in [
            "wss://Relay.Example",
            "wss://relay.example/",
            "wss://relay.example:443",
            "wss://relay.example.//",
            " wss://relay.example ",
        ] {
            assert_eq!(normal(same).as_deref(), Some("wss://relay.example"), "{same}");
        }
        assert_eq!(normal("ws://[::1]:7777/a/").as_deref(), Some("ws://[::1]:7777/a"));
        assert_eq!(normal("ws://0x7f.1:80").as_deref(), Some("ws://127.0.0.1"));
    }

    #[test]
    fn a_server_is_named_with_its_port_unless_that_is_the_usual_one() {
        for (url, name) in [
            ("wss://relay.example", "relay.example"),
            ("wss://relay.example:443/x", "relay.example"),
            ("ws://127.0.0.1:7777/x", "127.0.0.1:7777"),
            ("ws://[::1]:80", "[::1]"),
        ] {
            assert_eq!(url.parse::<RelayUrl>().unwrap().host_and_port(), name);
        }
    }

    #[test]
    fn what_is_no_plain_relay_address_is_refused() {
        let long = format!("wss://{}", "a".repeat(600));
        for bad in [
            "",
            "relay.example",
            "https://relay.example",
            "wss://user@relay.example",
            "wss://user:pw@relay.example",
            "wss://relay.example/#x",
            "wss://",
            "wss://..",
            "wss://a b",
            "wss://a\u{7f}b",
            "wss://re\tlay.example",
            long.as_str(),
        ] {
            assert_eq!(normal(bad), None, "{bad}");
        }
    }
}

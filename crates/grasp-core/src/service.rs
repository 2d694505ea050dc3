//! This server's own address, and whether a URL found in an event means us. Compared by parsed
//! host, port and base path, never by substring: `good.example.evil.example` is not `good.example`.

use crate::id::{Identifier, PubKey};
use std::fmt;
use url::{Host, Url};

/// Public `host[:port]`, as written in a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    host: Host<String>,
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a host or host:port")]
pub struct BadAuthority(String);

impl Authority {
    /// `example.com`, `example.com:8080`, `127.0.0.1:7334`, `[::1]:7334`.
    pub fn parse(text: &str) -> Result<Self, BadAuthority> {
        let bad = || BadAuthority(text.to_owned());
        let plain = !text.is_empty() && !text.contains(['/', '@', '?', '#', '\\', ' ']);
        let url = Url::parse(&format!("http://{text}/")).ok().filter(|_| plain).ok_or_else(bad)?;
        let mut authority = Self::of(&url).ok_or_else(bad)?;
        // A configured 443 is the default port spelled out, just as 80 is.
        authority.port = authority.port.filter(|port| *port != 443);
        Ok(authority)
    }

    fn of(url: &Url) -> Option<Self> {
        let host = match url.host()?.to_owned() {
            Host::Domain(name) => {
                let name = name.strip_suffix('.').unwrap_or(&name);
                if name.is_empty() || name.ends_with('.') {
                    return None;
                }
                Host::Domain(name.to_owned())
            }
            ip => ip,
        };
        Some(Self { host, port: url.port() })
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => write!(f, "{}:{port}", self.host),
            None => write!(f, "{}", self.host),
        }
    }
}

/// Where the public finds this server: its name, its aliases, and the path it is mounted under.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    authority: Authority,
    aliases: Vec<Authority>,
    base_path: String,
}

impl Service {
    /// `base_path` is `""` or starts with a slash and does not end with one.
    pub fn new(authority: Authority, aliases: Vec<Authority>, base_path: &str) -> Self {
        Self { authority, aliases, base_path: base_path.trim_end_matches('/').to_owned() }
    }

    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    pub fn base_path(&self) -> &str {
        &self.base_path
    }

    /// Is the public address a bare IP address, where TLS is not to be expected?
    pub fn is_bare_address(&self) -> bool {
        !matches!(self.authority.host, Host::Domain(_))
    }

    /// `example.com/base`, for people.
    pub fn address(&self) -> String {
        format!("{}{}", self.authority, self.base_path)
    }

    /// Does this relay URL mean us? The path must be exactly our base path.
    pub fn names_relay(&self, text: &str) -> bool {
        let Some(url) = self.own_url(text, &["ws", "wss", "http", "https"]) else { return false };
        segments(&url).eq(self.base_segments())
    }

    /// Does this clone URL mean that very repository here?
    pub fn names_clone(&self, text: &str, owner: &PubKey, identifier: &Identifier) -> bool {
        let Some(url) = self.own_url(text, &["http", "https", "ws", "wss"]) else { return false };
        let file = format!("{identifier}.git");
        let expected = [owner.to_npub(), file];
        let expected = self.base_segments().chain(expected.iter().map(String::as_str));
        let mut found = segments(&url).map(percent_decoded);
        expected.map(Some).chain([None]).all(|want| match (want, found.next()) {
            (Some(want), Some(Some(got))) => got == want,
            (None, None) => true,
            _ => false,
        })
    }

    /// Does this URL lead to us at all, whatever is asked for?
    pub fn is_here(&self, text: &str) -> bool {
        let url = self.own_url(text, &["http", "https", "ws", "wss"]);
        url.is_some_and(|url| {
            let mut found = segments(&url);
            self.base_segments().all(|part| found.next() == Some(part))
        })
    }

    fn own_url(&self, text: &str, schemes: &[&str]) -> Option<Url> {
        let url = Url::parse(text.trim()).ok()?;
        let plain = schemes.contains(&url.scheme())
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        let authority = Authority::of(&url).filter(|_| plain)?;
        let known = std::iter::once(&self.authority).chain(&self.aliases);
        known.into_iter().any(|own| same_place(own, &authority, &url)).then_some(url)
    }

    fn base_segments(&self) -> impl Iterator<Item = &str> {
        self.base_path.split('/').filter(|part| !part.is_empty())
    }
}

/// A configured port must be met, spelled out or as the scheme's default; a configured name without
/// a port means the default ports.
fn same_place(own: &Authority, found: &Authority, url: &Url) -> bool {
    let same_port = match own.port {
        Some(port) => url.port_or_known_default() == Some(port),
        None => found.port.is_none(),
    };
    same_port && own.host == found.host
}

/// Path segments without empty ones: doubled and trailing slashes are only spelling.
fn segments(url: &Url) -> impl Iterator<Item = &str> {
    url.path().split('/').filter(|part| !part.is_empty())
}

/// Everything but RFC 3986 unreserved bytes escaped.
pub fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Decodes percent escapes exactly once; `None` if they are malformed or not UTF-8.
pub fn percent_decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = [bytes.next()?, bytes.next()?];
            let hex = digits.map(|d| char::from(d).to_digit(16));
            let [Some(high), Some(low)] = hex else { return None };
            out.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(authority: &str, base: &str) -> Service {
        let alias = Authority::parse("old.example").unwrap();
        Service::new(Authority::parse(authority).unwrap(), vec![alias], base)
    }

    #[test]
    fn a_relay_url_is_ours_by_host_port_and_path() {
        let git = service("git.example", "");
        for ours in [
            "wss://git.example",
            "ws://git.example/",
            "wss://GIT.example.:443/",
            "wss://git.example//",
            "https://git.example",
            "wss://old.example",
        ] {
            assert!(git.names_relay(ours), "{ours}");
        }
        for foreign in [
            "wss://git.example.evil.example",
            "wss://evilgit.example",
            "wss://git.example:7334",
            "wss://git.example/x",
            "wss://user@git.example",
            "ftp://git.example",
            "git.example",
            "wss://git.example?x=1",
            "wss://evil.example/git.example",
            "",
        ] {
            assert!(!git.names_relay(foreign), "{foreign}");
        }
    }

    #[test]
    fn a_configured_port_must_be_met() {
        let local = service("127.0.0.1:7334", "");
        assert!(local.names_relay("ws://127.0.0.1:7334"));
        assert!(local.names_relay("ws://0x7f.1:7334/"));
        assert!(!local.names_relay("ws://127.0.0.1"));
        for spelled_out in ["git.example:80", "git.example:443"] {
            assert!(service(spelled_out, "").names_relay("ws://git.example"));
            assert!(service(spelled_out, "").names_relay("wss://git.example:443"));
        }
    }

    #[test]
    fn a_clone_url_is_ours_only_for_that_owner_and_identifier() {
        let owner = PubKey::from_bytes([7; 32]);
        let npub = owner.to_npub();
        let id: Identifier = "a b".parse().unwrap();
        let git = service("git.example", "/grasp");
        for ours in [
            format!("https://git.example/grasp/{npub}/a%20b.git"),
            format!("http://git.example//grasp/{npub}/a%20b.git/"),
        ] {
            assert!(git.names_clone(&ours, &owner, &id), "{ours}");
        }
        for foreign in [
            format!("https://git.example/{npub}/a%20b.git"),
            format!("https://git.example/grasp/{npub}/ab.git"),
            format!("https://git.example/grasp/{npub}/a%2520b.git"),
            format!("https://git.example/grasp/{npub}/a%20b"),
            format!("https://git.example/grasp/{npub}/x/a%20b.git"),
            format!(
                "https://git.example/grasp/{}/a%20b.git",
                PubKey::from_bytes([8; 32]).to_npub()
            ),
            format!("https://git.example.evil/grasp/{npub}/a%20b.git"),
            format!("git@git.example:grasp/{npub}/a%20b.git"),
        ] {
            assert!(!git.names_clone(&foreign, &owner, &id), "{foreign}");
        }
    }

    #[test]
    fn authorities_are_hosts_not_urls() {
        for good in ["git.example", "127.0.0.1:7334", "[::1]:7334", "GIT.example"] {
            assert!(Authority::parse(good).is_ok(), "{good}");
        }
        for bad in ["", "http://x", "a/b", "a b", "u@h", "h:99999", ".", "..", "h..", "a?b"] {
            assert!(Authority::parse(bad).is_err(), "{bad}");
        }
    }
}

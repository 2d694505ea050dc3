//! The address of a repository on somebody's git server, normalised when it is parsed, and the
//! domain whose budget a request to it is counted by. Whether it may be dialled is decided where
//! the dialling is done.

use crate::relay_url::host_and_port;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use url::{Host, Url};

/// `https://git.example/alice/acme.git`: `http` or `https`, host in lower case, no default port, no
/// trailing slash, no credentials, query or fragment. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CloneUrl(Arc<str>);

/// Host and port, which is what a budget for one neighbour is counted by. Cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Domain(Arc<str>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a clone address; it should look like https://git.example/name.git")]
pub struct BadCloneUrl;

impl CloneUrl {
    pub const LEN_MAX: usize = 2_048;

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn to_url(&self) -> Option<Url> {
        Url::parse(&self.0).ok()
    }

    pub fn domain(&self) -> Domain {
        let Some(url) = self.to_url() else { return Domain("".into()) };
        let port = url.port_or_known_default().unwrap_or(0);
        Domain(format!("{}:{port}", url.host_str().unwrap_or("")).into())
    }

    /// The host, and the port if it is not the usual one, as people name a server.
    pub fn host_and_port(&self) -> String {
        self.to_url().map(|url| host_and_port(&url)).unwrap_or_default()
    }

    /// Where GRASP servers keep repositories: `<npub>/<identifier>.git`, also below `prs/`.
    pub fn has_grasp_form(&self) -> bool {
        let Some(url) = self.to_url() else { return false };
        let segments: Vec<&str> = url.path().split('/').filter(|part| !part.is_empty()).collect();
        match segments.as_slice() {
            [.., owner, name] => owner.starts_with("npub1") && name.ends_with(".git"),
            _ => false,
        }
    }
}

impl FromStr for CloneUrl {
    type Err = BadCloneUrl;

    fn from_str(text: &str) -> Result<Self, BadCloneUrl> {
        let text = text.trim();
        // Bytes that some parsers drop and others do not have no place in an address.
        let plain = text.len() <= Self::LEN_MAX && text.bytes().all(|b| (0x21..=0x7e).contains(&b));
        let url = Url::parse(text).ok().filter(|_| plain).ok_or(BadCloneUrl)?;
        let fit = matches!(url.scheme(), "http" | "https")
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none();
        let host = match url.host().filter(|_| fit).ok_or(BadCloneUrl)? {
            Host::Domain(name) => name.strip_suffix('.').unwrap_or(name).to_owned(),
            Host::Ipv4(ip) => ip.to_string(),
            Host::Ipv6(ip) => format!("[{ip}]"),
        };
        if host.is_empty() || host.ends_with('.') {
            return Err(BadCloneUrl);
        }
        let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
        let path = url.path().trim_end_matches('/');
        Ok(Self(format!("{}://{host}{port}{path}", url.scheme()).into()))
    }
}

impl Domain {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Domain {
    type Err = BadCloneUrl;

    /// `git.example` (the port of https) or `git.example:8080`.
    fn from_str(text: &str) -> Result<Self, BadCloneUrl> {
        let bare = !text.contains(['/', '@', '?', '#']);
        let url: CloneUrl = format!("https://{text}").parse()?;
        if bare { Ok(url.domain()) } else { Err(BadCloneUrl) }
    }
}

impl fmt::Display for CloneUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for CloneUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CloneUrl({})", self.0)
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Domain({})", self.0)
    }
}

impl Serialize for CloneUrl {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for CloneUrl {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(text: &str) -> Option<String> {
        text.parse::<CloneUrl>().ok().map(|url| url.to_string())
    }

    #[test]
    fn one_repository_has_one_address() {
        for same in [
            "https://Git.Example/a/b.git",
            "https://git.example:443/a/b.git/",
            "https://git.example./a/b.git",
            " https://git.example/a/b.git ",
        ] {
            assert_eq!(normal(same).as_deref(), Some("https://git.example/a/b.git"), "{same}");
        }
        assert_eq!(normal("http://[::1]:80/a").as_deref(), Some("http://[::1]/a"));
    }

    #[test]
    fn s37_only_plain_http_addresses_are_candidates() {
        let long = format!("https://a.example/{}", "a".repeat(3_000));
        for bad in [
            "",
            "git.example/a.git",
            "git@git.example:a.git",
            "ssh://git.example/a.git",
            "git://git.example/a.git",
            "file:///etc/passwd",
            "ext::sh -c id",
            "ftp://git.example/a.git",
            "nostr://npub/a",
            "https://user@git.example/a.git",
            "https://user:pw@git.example/a.git",
            "https://git.example/a.git#x",
            "https://git.example/a.git?x",
            "https://",
            "https://a b/",
            "https://a.example/\u{7f}",
            "https://a.example/a\nb",
            long.as_str(),
        ] {
            assert_eq!(normal(bad), None, "{bad}");
        }
    }

    #[test]
    fn s35_a_domain_is_host_and_port() {
        let domain = |text: &str| text.parse::<CloneUrl>().unwrap().domain().to_string();
        assert_eq!(domain("https://git.example/a.git"), "git.example:443");
        assert_eq!(domain("http://git.example/a.git"), "git.example:80");
        assert_eq!(domain("http://127.0.0.1:7334/a.git"), "127.0.0.1:7334");
        assert_eq!("Git.Example".parse::<Domain>().unwrap().as_str(), "git.example:443");
        assert_eq!("git.example:80".parse::<Domain>().unwrap().as_str(), "git.example:80");
        assert!("git.example/x".parse::<Domain>().is_err());
    }

    #[test]
    fn s37_grasp_servers_are_known_by_their_paths() {
        let is = |text: &str| text.parse::<CloneUrl>().unwrap().has_grasp_form();
        assert!(is("https://a.example/npub1xyz/acme.git"));
        assert!(is("https://a.example/base/prs/npub1xyz/acme.git"));
        assert!(!is("https://github.com/alice/acme.git"));
        assert!(!is("https://a.example/acme.git"));
    }
}

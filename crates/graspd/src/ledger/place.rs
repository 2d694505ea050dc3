//! Where a relay and a git server are one and the same place: same host, port and path before the
//! repository. Without its scheme, so that it can be told in one word.

use super::row::Peer;
use grasp_core::{CloneUrl, RelayUrl};
use url::Url;

pub(super) fn of_relay(relay: &RelayUrl) -> String {
    relay.to_url().map(|url| place(&url, url.path())).unwrap_or_default()
}

/// A repository in the form of GRASP lies two steps below; any other address is a place of its own.
pub(super) fn of_clone(clone: &CloneUrl) -> String {
    let Some(url) = clone.to_url() else { return String::new() };
    let path = match clone.has_grasp_form() {
        true => {
            let mut parts: Vec<&str> = url.path().split('/').collect();
            parts.truncate(parts.len().saturating_sub(2));
            parts.join("/")
        }
        false => url.path().to_owned(),
    };
    place(&url, &path)
}

/// Host and port alone.
pub(super) fn server(peer: &Peer) -> String {
    let url = match peer {
        Peer::Relay(relay) => relay.to_url(),
        Peer::Git(clone) => clone.to_url(),
    };
    url.map(|url| place(&url, "")).unwrap_or_default()
}

fn place(url: &Url, path: &str) -> String {
    let host = url.host_str().unwrap_or_default();
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    // Without TLS the usual port is another one, and so is the place.
    let port = match (url.scheme(), port.is_empty()) {
        ("http" | "ws", true) => ":80".to_owned(),
        _ => port,
    };
    format!("{host}{port}{}", path.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relay_and_a_clone_address_of_one_server_are_one_place() {
        let npub = grasp_core::PubKey::from_bytes([7; 32]).to_npub();
        for (relay, clone, same) in [
            ("wss://a.example", format!("https://a.example/{npub}/acme.git"), true),
            ("wss://a.example/grasp", format!("https://a.example/grasp/{npub}/acme.git"), true),
            ("ws://a.example:7334", format!("http://a.example:7334/{npub}/acme.git"), true),
            ("wss://a.example", format!("http://a.example/{npub}/acme.git"), false),
            ("wss://a.example", format!("https://b.example/{npub}/acme.git"), false),
            ("wss://a.example", "https://a.example/alice/acme.git".to_owned(), false),
            ("wss://a.example/grasp", format!("https://a.example/{npub}/acme.git"), false),
        ] {
            let (left, right) =
                (of_relay(&relay.parse().unwrap()), of_clone(&clone.parse().unwrap()));
            assert_eq!(left == right, same, "{left} {right}");
        }
    }
}

//! How people name things on the command line: a repository by its identifier, its address or its clone
//! URL, an event by its id, a relay by its URL. Pure.

use grasp_core::id::decode_bech32;
use grasp_core::service::percent_decoded;
use grasp_core::{EventId, Identifier, PubKey, RelayUrl, RepoId};
use url::Url;

pub(super) const HOW: &str = "name a repository as <npub>/<identifier> or by its clone URL";

/// What something may be about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Named {
    Repository(RepositoryName),
    Event(EventId),
    Relay(RelayUrl),
}

/// How a repository was named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepositoryName {
    Id(RepoId),
    /// Which server it means has to be found out.
    Url(Url, RepoId),
    /// An identifier alone: whose repository it is has to be found out.
    Identifier(String),
}

/// A name of any form.
pub fn repository_name(text: &str) -> Result<RepositoryName, String> {
    let text = text.trim();
    if text.contains('/') {
        let repo = repository(text)?;
        return Ok(match web_url(text) {
            Some(url) => RepositoryName::Url(url, repo),
            None => RepositoryName::Id(repo),
        });
    }
    let name = text.strip_suffix(".git").unwrap_or(text);
    let is_npub = PubKey::from_npub(name).is_ok();
    match name.parse::<Identifier>() {
        Ok(_) if !is_npub => Ok(RepositoryName::Identifier(name.to_owned())),
        _ => Err(HOW.to_owned()),
    }
}

fn web_url(text: &str) -> Option<Url> {
    Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"))
}

/// `<npub>/<identifier>`, the same with `.git`, or a URL that ends in it.
pub fn repository(text: &str) -> Result<RepoId, String> {
    let url = web_url(text);
    let (npub, name) = match &url {
        Some(url) => {
            let mut segments = url.path_segments().ok_or(HOW)?.rev().filter(|it| !it.is_empty());
            let name = segments.next().ok_or(HOW)?;
            let npub = segments.next().ok_or(HOW)?;
            (npub.to_owned(), percent_decoded(name).ok_or(HOW)?)
        }
        None => {
            let (npub, name) = text.trim().split_once('/').ok_or(HOW)?;
            (npub.to_owned(), name.to_owned())
        }
    };
    let owner = PubKey::from_npub(&npub).map_err(|_| format!("`{npub}` is not an npub; {HOW}"))?;
    let name = name.strip_suffix(".git").unwrap_or(&name);
    let identifier = name.parse().map_err(|error| format!("{error}; {HOW}"))?;
    Ok(RepoId { owner, identifier })
}

/// A repository or an event.
pub fn subject(text: &str) -> Result<Named, String> {
    let text = text.trim();
    let hex = text.to_ascii_lowercase().parse().ok();
    let id = hex.or_else(|| decode_bech32("note", text).map(EventId::from_bytes));
    match id {
        Some(id) => Ok(Named::Event(id)),
        None => match repository_name(text) {
            Ok(name) => Ok(Named::Repository(name)),
            Err(why) => Err(format!("{why}, an event by its id")),
        },
    }
}

/// A repository or a relay.
pub fn partner(text: &str) -> Result<Named, String> {
    match text.trim().parse() {
        Ok(relay) if text.trim().starts_with("ws") => Ok(Named::Relay(relay)),
        _ => match repository_name(text) {
            Ok(name) => Ok(Named::Repository(name)),
            Err(why) => Err(format!("{why}, a relay by its URL (wss://...)")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn acme(identifier: &str) -> RepoId {
        let owner = PubKey::from_bytes([7; 32]);
        RepoId { owner, identifier: identifier.parse().unwrap() }
    }

    #[test]
    fn a_repository_has_many_spellings() {
        let npub = PubKey::from_bytes([7; 32]).to_npub();
        for text in [
            format!("{npub}/acme"),
            format!("{npub}/acme.git"),
            format!("https://git.example/{npub}/acme.git"),
            format!("http://127.0.0.1:7334/base/{npub}/acme.git/"),
        ] {
            assert_eq!(repository(&text), Ok(acme("acme")), "{text}");
        }
        let url = format!("https://git.example/{npub}/two%20words.git");
        assert_eq!(repository(&url), Ok(acme("two words")));
        assert_eq!(repository(&format!("{npub}/two words")), Ok(acme("two words")));
        for text in ["", "acme", "npub1x/acme", "https://git.example", "a/b/c", "/acme"] {
            assert!(repository(text).is_err(), "{text}");
        }
        assert!(repository(&format!("{npub}/")).is_err());
        assert!(repository(&format!("{npub}/..")).is_err());
    }

    #[test]
    fn events_and_relays_are_told_apart_from_repositories() {
        let npub = PubKey::from_bytes([7; 32]).to_npub();
        let id = EventId::from_bytes([0xab; 32]);
        let named = |name: RepositoryName| Ok(Named::Repository(name));
        assert_eq!(subject(&id.to_hex()), Ok(Named::Event(id)));
        assert_eq!(subject(&id.to_hex().to_uppercase()), Ok(Named::Event(id)));
        assert_eq!(subject(&format!("{npub}/x")), named(RepositoryName::Id(acme("x"))));
        assert_eq!(subject("x"), named(RepositoryName::Identifier("x".into())));
        assert!(subject("").is_err());
        let relay = "wss://relay.example".parse().unwrap();
        assert_eq!(partner("wss://relay.example"), Ok(Named::Relay(relay)));
        assert_eq!(partner(&format!("{npub}/x")), named(RepositoryName::Id(acme("x"))));
        assert!(partner("https://relay.example").is_err());
    }

    #[test]
    fn a_repository_may_be_named_by_its_identifier_alone() {
        let npub = PubKey::from_bytes([7; 32]).to_npub();
        for (text, name) in [("acme", "acme"), (" acme.git ", "acme"), ("two words", "two words")] {
            assert_eq!(repository_name(text), Ok(RepositoryName::Identifier(name.into())));
        }
        let url = format!("https://git.example/{npub}/acme.git");
        let found = RepositoryName::Url(Url::parse(&url).unwrap(), acme("acme"));
        assert_eq!(repository_name(&url), Ok(found));
        for text in ["", npub.as_str(), "..", "npub1x/acme", "https://git.example"] {
            assert!(repository_name(text).is_err(), "{text}");
        }
    }
}

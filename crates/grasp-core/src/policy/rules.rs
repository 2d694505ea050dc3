//! What the operator decided, in typed form.

use crate::id::{BadName, Identifier, PubKey, RepoId};
use crate::maintainers::MaintainerRule;
use crate::nip34::Announcement;
use crate::service::Service;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

#[derive(Debug, Clone)]
pub struct Rules {
    pub service: Service,
    pub maintainer_rule: MaintainerRule,
    /// Empty means that everyone may bring a repository.
    pub repository_whitelist: Vec<RepoPattern>,
    pub repository_blacklist: Vec<RepoPattern>,
    pub event_blacklist: BTreeSet<PubKey>,
    /// False keeps requests to delete or vanish without acting on them.
    pub respect_deletions: bool,
    /// The server's own identity.
    pub relay_key: PubKey,
    pub created_at_ahead_secs_max: u64,
    pub grasp_lists_max: u64,
}

impl Rules {
    pub const CREATED_AT_AHEAD_SECS_MAX: u64 = 15 * 60;
    pub const GRASP_LISTS_MAX: u64 = 100_000;

    /// Do we keep a repository for this announcement? An invited maintainer's announcement can be
    /// served without this.
    pub fn hosts(&self, announcement: &Announcement) -> bool {
        let repo = &announcement.repo;
        let welcome = self.whitelists(repo) && !self.blacklists(repo) && !announcement.private;
        welcome && announcement.lists(&self.service)
    }

    /// Two equal ones mean that the same event gets the same verdict, other things being equal.
    /// Another version of the program may judge by other rules, so it counts as well.
    pub fn fingerprint(&self) -> [u8; 32] {
        Sha256::digest(format!("{} {self:?}", env!("CARGO_PKG_VERSION"))).into()
    }

    pub fn blacklists(&self, repo: &RepoId) -> bool {
        self.event_blacklist.contains(&repo.owner)
            || self.repository_blacklist.iter().any(|pattern| pattern.matches(repo))
    }

    pub fn whitelists(&self, repo: &RepoId) -> bool {
        self.repository_whitelist.is_empty()
            || self.repository_whitelist.iter().any(|pattern| pattern.matches(repo))
    }
}

/// Where an event came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A client sent it to us.
    Direct,
    /// We fetched it from another relay.
    Sync,
}

/// Which repositories an operator means: `npub1...`, `npub1.../identifier` or `identifier`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RepoPattern {
    Owner(PubKey),
    Repo(RepoId),
    Identifier(Identifier),
}

impl RepoPattern {
    pub fn matches(&self, repo: &RepoId) -> bool {
        match self {
            Self::Owner(owner) => *owner == repo.owner,
            Self::Repo(one) => one == repo,
            Self::Identifier(identifier) => *identifier == repo.identifier,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not npub, npub/identifier or identifier: {why}")]
pub struct BadPattern {
    text: String,
    why: WhyBad,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum WhyBad {
    #[error(transparent)]
    Name(#[from] BadName),
    #[error("write the key as npub1..., not in hex")]
    HexKey,
}

impl FromStr for RepoPattern {
    type Err = BadPattern;
    fn from_str(text: &str) -> Result<Self, BadPattern> {
        let text = text.trim();
        parse_pattern(text).map_err(|why| BadPattern { text: text.to_owned(), why })
    }
}

/// A hex key would read as an identifier and match nothing, which the operator would learn late.
fn parse_pattern(text: &str) -> Result<RepoPattern, WhyBad> {
    let (first, identifier) = match text.split_once('/') {
        Some((owner, identifier)) => (owner, Some(identifier)),
        None => (text, None),
    };
    if first.parse::<PubKey>().is_ok() {
        return Err(WhyBad::HexKey);
    }
    Ok(match identifier {
        Some(identifier) => RepoPattern::Repo(RepoId {
            owner: PubKey::from_npub(first)?,
            identifier: identifier.parse()?,
        }),
        None if first.starts_with("npub1") => RepoPattern::Owner(PubKey::from_npub(first)?),
        None => RepoPattern::Identifier(first.parse()?),
    })
}

impl fmt::Display for RepoPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner(owner) => f.write_str(&owner.to_npub()),
            Self::Repo(repo) => repo.fmt(f),
            Self::Identifier(identifier) => identifier.fmt(f),
        }
    }
}

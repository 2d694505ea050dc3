//! Kind 30617: a person says that a repository exists, where it can be found and who looks after
//! it. Only the identifier can make one unreadable.

use super::{roles::Roles, urls};
use crate::event::Event;
use crate::id::{BadName, RepoId};
use crate::service::Service;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Announcement {
    pub repo: RepoId,
    pub name: Option<String>,
    pub description: Option<String>,
    /// As written, each once, in order.
    pub clone: Vec<String>,
    /// As written, each once, in order.
    pub relays: Vec<String>,
    pub roles: Roles,
    /// Meant for the members of a private server only (GRASP-08).
    pub private: bool,
}

impl Announcement {
    pub fn parse(event: &Event) -> Result<Self, BadName> {
        let text = |name| event.tag(name).filter(|text| !text.is_empty()).map(str::to_owned);
        Ok(Self {
            repo: RepoId { owner: event.pubkey, identifier: event.d().parse()? },
            name: text("name"),
            description: text("description"),
            clone: urls(event, "clone"),
            relays: urls(event, "relays"),
            roles: Roles::of(event),
            private: event.tags_named("private").any(|tag| tag.value() == Some("true")),
        })
    }

    /// Where this announcement names us. A clone URL counts only for this very repository.
    pub fn listing(&self, service: &Service) -> Listing {
        let RepoId { owner, identifier } = &self.repo;
        Listing {
            in_clone: self.clone.iter().any(|url| service.names_clone(url, owner, identifier)),
            in_relays: self.relays.iter().any(|url| service.names_relay(url)),
        }
    }

    /// Does it ask us to host it? That takes both.
    pub fn lists(&self, service: &Service) -> bool {
        let Listing { in_clone, in_relays } = self.listing(service);
        in_clone && in_relays
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listing {
    pub in_clone: bool,
    pub in_relays: bool,
}

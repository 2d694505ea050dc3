//! Requests to forget: deletions (kind 5) and vanishing (kind 62). An author speaks for their own
//! events only, and a request cannot unmake another request.

use crate::event::Event;
use crate::id::{Coordinate, EventId, PubKey};
use crate::service::Service;
use crate::{Kind, Timestamp};
use std::collections::BTreeSet;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deletion {
    pub author: PubKey,
    /// Versions up to this moment go when an address is named.
    pub at: Timestamp,
    pub ids: BTreeSet<EventId>,
    /// The author's own addresses only; others' are skipped.
    pub coordinates: BTreeSet<Coordinate>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    #[error("a deletion may name at most {} events", Deletion::TARGETS_MAX)]
    TooManyTargets,
    #[error("the deletion names no event of its author")]
    NoTarget,
    #[error("the request to vanish is for other relays, not for this one")]
    OtherRelays,
}

impl Deletion {
    pub const TARGETS_MAX: usize = 2048;

    pub fn parse(event: &Event) -> Result<Self, BadRequest> {
        let targets = event.tags.iter().filter(|tag| matches!(tag.name(), "e" | "a")).count();
        if targets > Self::TARGETS_MAX {
            return Err(BadRequest::TooManyTargets);
        }
        let author = event.pubkey;
        let ids: BTreeSet<_> =
            event.tags_named("e").filter_map(|tag| tag.value()?.parse().ok()).collect();
        let named = event.tags_named("a").filter_map(|tag| tag.value()?.parse().ok());
        let own = |named: &Coordinate| named.pubkey == author && named.is_address();
        let coordinates: BTreeSet<_> = named.filter(own).collect();
        if ids.is_empty() && coordinates.is_empty() {
            return Err(BadRequest::NoTarget);
        }
        Ok(Self { author, at: event.created_at, ids, coordinates })
    }

    /// Does it take away an event that it names by id, of this author and kind?
    pub fn covers_named(&self, author: &PubKey, kind: Kind) -> bool {
        *author == self.author && !is_request(kind)
    }

    /// Does this request take that event away?
    pub fn covers(&self, event: &Event) -> bool {
        self.covers_named(&event.pubkey, event.kind) && self.names(event)
    }

    fn names(&self, event: &Event) -> bool {
        let by_address = || {
            let address = event.coordinate();
            address.is_some_and(|address| self.coordinates.contains(&address))
        };
        self.ids.contains(&event.id) || (event.created_at <= self.at && by_address())
    }
}

/// Requests are kept whatever a later one says, or what they removed could come back.
pub(crate) fn is_request(kind: Kind) -> bool {
    matches!(kind, Kind::DELETION | Kind::VANISH)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vanish {
    pub author: PubKey,
    /// Everything up to this moment goes.
    pub at: Timestamp,
}

impl Vanish {
    const ALL: &str = "ALL_RELAYS";

    pub fn parse(event: &Event, service: &Service) -> Result<Self, BadRequest> {
        let means_us = |url: &str| url == Self::ALL || service.names_relay(url);
        let meant = event.tags_named("relay").filter_map(|tag| tag.value()).any(means_us);
        let vanish = Self { author: event.pubkey, at: event.created_at };
        if meant { Ok(vanish) } else { Err(BadRequest::OtherRelays) }
    }

    /// Their own events, and the gift wraps addressed to them.
    pub fn covers(&self, event: &Event) -> bool {
        let own = event.pubkey == self.author && event.kind != Kind::VANISH;
        event.created_at <= self.at && (own || self.is_gift(event))
    }

    fn is_gift(&self, event: &Event) -> bool {
        let to_author = |value: &str| value.parse() == Ok(self.author);
        event.kind == Kind::GIFT_WRAP
            && event.tags_named("p").filter_map(|tag| tag.value()).any(to_author)
    }
}

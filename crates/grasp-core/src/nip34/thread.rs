//! Pull requests, and what any event points to. References are exact: an id is 64 hex characters,
//! a coordinate keeps every colon of its identifier, and nothing is matched by part of it.

use super::urls;
use crate::event::Event;
use crate::id::{Coordinate, EventId, Oid, RepoId};

/// Kinds 1618 and 1619.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullRequest {
    /// The repositories it is aimed at, from its `a` tags.
    pub targets: Vec<RepoId>,
    /// The commit it proposes. `None` if `c` is there but is no object id we could ever have.
    pub tip: Option<Oid>,
    /// Where else the commit may be found, as written.
    pub clone: Vec<String>,
    pub references: References,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a pull request needs a `c` tag with the commit it proposes")]
pub struct NoTip;

impl PullRequest {
    pub fn parse(event: &Event) -> Result<Self, NoTip> {
        let tip = event.tag("c").filter(|tip| !tip.is_empty()).ok_or(NoTip)?;
        Ok(Self {
            targets: targets(event),
            tip: tip.parse().ok().filter(|tip: &Oid| *tip != Oid::from_bytes([0; 20])),
            clone: urls(event, "clone"),
            references: References::of(event),
        })
    }
}

fn targets(event: &Event) -> Vec<RepoId> {
    let coordinates = event.tags_named("a").filter_map(|tag| tag.value()?.parse().ok());
    let mut repos: Vec<RepoId> = Vec::new();
    for repo in coordinates.filter_map(|coordinate: Coordinate| coordinate.repo()) {
        if repos.len() < References::LEN_MAX && !repos.contains(&repo) {
            repos.push(repo);
        }
    }
    repos
}

/// The events this one names, by id (`e`, `E`, `q`) or by address (`a`, `A`, `q`). A `p` tag names
/// a person and is no reference.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct References {
    pub ids: Vec<EventId>,
    pub coordinates: Vec<Coordinate>,
}

impl References {
    /// Each reference costs a lookup, so one event may not ask for thousands.
    pub const LEN_MAX: usize = 64;

    pub fn of(event: &Event) -> Self {
        let mut found = Self::default();
        for tag in &event.tags {
            if found.len() == Self::LEN_MAX {
                break;
            }
            match (tag.name(), tag.value()) {
                ("e" | "E", Some(value)) => found.add_id(value),
                ("a" | "A", Some(value)) => found.add_coordinate(value),
                ("q", Some(value)) if value.contains(':') => found.add_coordinate(value),
                ("q", Some(value)) => found.add_id(value),
                _ => {}
            }
        }
        found
    }

    pub fn len(&self) -> usize {
        self.ids.len() + self.coordinates.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn add_id(&mut self, text: &str) {
        if let Ok(id) = text.parse()
            && !self.ids.contains(&id)
        {
            self.ids.push(id);
        }
    }

    fn add_coordinate(&mut self, text: &str) {
        let Ok(coordinate) = text.parse::<Coordinate>() else { return };
        if coordinate.is_address() && !self.coordinates.contains(&coordinate) {
            self.coordinates.push(coordinate);
        }
    }
}

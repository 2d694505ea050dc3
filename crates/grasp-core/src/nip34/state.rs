//! Kind 30618: where an author says the branches and tags are. Values git could misread never
//! become an `Oid` or a `RefName`; a state with one of them can be kept but never be fulfilled.

use crate::event::{Event, Rank, Tag};
use crate::id::{BadName, Identifier, Oid, PubKey, RefName};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    pub author: PubKey,
    pub identifier: Identifier,
    /// Branches and tags by object id. Peeled and symbolic entries are not among them.
    pub refs: BTreeMap<RefName, Oid>,
    /// The branch HEAD points to; not necessarily one of `refs`.
    pub head: Option<RefName>,
    /// False if no repository can ever look like this.
    pub satisfiable: bool,
}

impl State {
    pub fn parse(event: &Event) -> Result<Self, BadName> {
        let identifier = event.d().parse()?;
        let mut refs = BTreeMap::new();
        let mut satisfiable = true;
        for (name, value) in ref_entries(event) {
            match (name.parse::<RefName>(), object_id(value)) {
                (Ok(name), Some(oid)) => {
                    refs.insert(name, oid);
                }
                _ => satisfiable = false,
            }
        }
        satisfiable &= !has_name_inside_name(&refs);
        let head = event.tag("HEAD").and_then(branch);
        Ok(Self { author: event.pubkey, identifier, refs, head, satisfiable })
    }

    /// Does it say where anything is? One that does not is served, but never governs refs.
    pub fn names_objects(&self) -> bool {
        !self.refs.is_empty() || !self.satisfiable
    }

    /// The branch HEAD shall point to: the one it names, the one it was, or one people expect.
    pub fn head_branch(&self, current: Option<&RefName>) -> Option<RefName> {
        let usual = ["refs/heads/main", "refs/heads/master"].map(|name| name.parse().ok());
        let wanted = [self.head.as_ref(), current].into_iter().flatten();
        let mut wanted = wanted.chain(usual.iter().flatten());
        let first = || self.refs.keys().find(|name| name.is_branch());
        wanted.find(|name| self.refs.contains_key(*name)).or_else(first).cloned()
    }

    /// The objects a repository needs before it can look like this.
    pub fn objects(&self) -> BTreeSet<Oid> {
        self.refs.values().copied().collect()
    }
}

/// The state that governs a view: the preferred one by its members, among those that name objects.
/// States by others, however new, do not count for this view.
pub fn governing<'a>(
    states: impl IntoIterator<Item = (&'a State, Rank)>,
    members: &BTreeSet<PubKey>,
) -> Option<&'a State> {
    let counts = |state: &State| members.contains(&state.author) && state.names_objects();
    let candidates = states.into_iter().filter(|(state, _)| counts(state));
    let preferred = |best: (&'a State, Rank), next: (&'a State, Rank)| {
        if next.1.beats(&best.1) { next } else { best }
    };
    candidates.reduce(preferred).map(|(state, _)| state)
}

/// Branch and tag entries, the first of each name, without peeled (`^{}`) and symbolic ones. A
/// missing value reads as empty, which is no object id.
fn ref_entries(event: &Event) -> impl Iterator<Item = (&str, &str)> {
    let mut seen = BTreeSet::new();
    let governed = |tag: &&Tag| {
        let name = tag.name();
        (name.starts_with("refs/heads/") || name.starts_with("refs/tags/"))
            && !name.ends_with("^{}")
    };
    let entries = event.tags.iter().filter(governed);
    let entries = entries.map(|tag| (tag.name(), tag.value().unwrap_or_default()));
    entries.filter(move |(name, _)| seen.insert(*name)).filter(|(_, at)| !at.starts_with("ref: "))
}

/// The all-zero id is git's word for "no object"; as the value of a ref it would mean deletion.
fn object_id(text: &str) -> Option<Oid> {
    text.parse().ok().filter(|oid: &Oid| oid.as_bytes().iter().any(|byte| *byte != 0))
}

fn branch(text: &str) -> Option<RefName> {
    let name = text.strip_prefix("ref: ").unwrap_or(text);
    name.parse().ok().filter(RefName::is_branch)
}

/// `refs/heads/a` beside `refs/heads/a/b`: git keeps refs like files, so it cannot have both.
fn has_name_inside_name(refs: &BTreeMap<RefName, Oid>) -> bool {
    let names: BTreeSet<&str> = refs.keys().map(RefName::as_str).collect();
    let is_file = |path: &str| names.contains(path);
    names
        .iter()
        .any(|name| name.match_indices('/').any(|(at, _)| name.get(..at).is_some_and(is_file)))
}

//! Where missing objects may be: the clone addresses of everybody with a say, and a pull request's
//! own. Whoever merely announces or proposes something cannot push the others off the list.

use super::Question;
use crate::ingest::views::announcement;
use grasp_core::maintainers::{Family, Standing};
use grasp_core::nip34::Announcement;
use grasp_core::policy::Rules;
use grasp_core::{CloneUrl, Identifier, Oid, PubKey, RepoId};
use grasp_engine::hunt::Source;
use grasp_store::{Result, Snapshot};
use std::collections::{BTreeMap, BTreeSet};

/// Addresses of people who list the author without being listed back.
const OTHERS_MAX: usize = 10;
/// Addresses that only pull requests name.
const PROPOSED_MAX: usize = 15;

/// Whose word it is, in the order in which it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    /// The author's own announcement.
    Own,
    /// That of somebody who has a say in the author's own view.
    Circle,
    /// That of somebody who gives the author a say.
    Others,
    /// Only a pull request's.
    Proposed,
}

pub(super) struct Sources<'a> {
    store: &'a dyn Snapshot,
    family: &'a Family,
    identifier: Identifier,
    rules: &'a Rules,
    urls_per_event_max: usize,
    turn: usize,
    /// Read once, however many events ask.
    announced: BTreeMap<PubKey, Vec<(Class, CloneUrl)>>,
    known: BTreeMap<CloneUrl, Known>,
    /// Addresses of pull requests, request by request.
    proposed: Vec<Vec<CloneUrl>>,
}

struct Known {
    class: Class,
    place: usize,
    covers: BTreeSet<Oid>,
}

impl<'a> Sources<'a> {
    pub(super) fn new(
        store: &'a dyn Snapshot,
        family: &'a Family,
        identifier: &Identifier,
        question: &Question<'a>,
    ) -> Self {
        Self {
            store,
            family,
            identifier: identifier.clone(),
            rules: question.rules,
            urls_per_event_max: question.urls_per_event_max,
            turn: question.turn,
            announced: BTreeMap::new(),
            known: BTreeMap::new(),
            proposed: Vec::new(),
        }
    }

    /// The clone addresses of all announcements in whose view this author has a say.
    pub(super) fn announced_for(&mut self, author: &PubKey, missing: &BTreeSet<Oid>) -> Result<()> {
        if !self.announced.contains_key(author) {
            let found = self.read(author)?;
            self.announced.insert(*author, found);
        }
        let urls = self.announced.get(author).cloned().unwrap_or_default();
        for (class, url) in urls {
            self.add(url, class, missing);
        }
        Ok(())
    }

    pub(super) fn proposed(&mut self, clone: &[String], missing: &BTreeSet<Oid>) {
        let urls = self.usable(clone);
        for url in &urls {
            self.add(url.clone(), Class::Proposed, missing);
        }
        self.proposed.push(urls);
    }

    fn add(&mut self, url: CloneUrl, class: Class, missing: &BTreeSet<Oid>) {
        let place = self.known.len();
        let fresh = || Known { class, place, covers: BTreeSet::new() };
        let known = self.known.entry(url).or_insert_with(fresh);
        known.class = known.class.min(class);
        known.covers.extend(missing);
    }

    fn read(&self, author: &PubKey) -> Result<Vec<(Class, CloneUrl)>> {
        let rule = self.rules.maintainer_rule;
        let circle = self.family.members_of(author, rule).unwrap_or_default();
        let mut lists: BTreeMap<Class, Vec<Vec<CloneUrl>>> = BTreeMap::new();
        let is_held = |owner: &&PubKey| {
            self.family.member(owner).is_some_and(|it| it.standing == Standing::Held)
        };
        let (held, served): (Vec<&PubKey>, Vec<&PubKey>) =
            self.family.keys().iter().partition(is_held);
        for owner in served.into_iter().chain(held) {
            let gives_a_say = || {
                self.family.members_of(owner, rule).is_ok_and(|members| members.contains(author))
            };
            let class = match owner {
                owner if owner == author => Class::Own,
                owner if circle.contains(owner) => Class::Circle,
                _ if gives_a_say() => Class::Others,
                _ => continue,
            };
            let repo = RepoId { owner: *owner, identifier: self.identifier.clone() };
            let Some((current, _)) = announcement(self.store, &repo)? else { continue };
            if let Ok(it) = Announcement::parse(&current.event) {
                lists.entry(class).or_default().push(self.usable(&it.clone));
            }
        }
        let in_turn = |(class, lists): (Class, Vec<Vec<CloneUrl>>)| {
            in_turn(&lists).into_iter().map(move |url| (class, url))
        };
        Ok(lists.into_iter().flat_map(in_turn).collect())
    }

    /// Of an event's addresses the first few that we may ask; ourselves are none of them.
    fn usable(&self, texts: &[String]) -> Vec<CloneUrl> {
        let few = texts.iter().take(self.urls_per_event_max);
        let others = few.filter(|text| !self.rules.service.is_here(text));
        others.filter_map(|text| text.parse().ok()).collect()
    }

    /// Best first; GRASP servers lead among equals, they have what was signed. Of what is only
    /// proposed, some at a time.
    pub(super) fn in_order(mut self, wants: &BTreeSet<Oid>) -> Vec<Source> {
        if !self.proposed.is_empty() {
            let first = self.turn % self.proposed.len();
            self.proposed.rotate_left(first);
        }
        let only = in_turn(&self.proposed);
        let only: BTreeMap<&CloneUrl, usize> =
            only.iter().enumerate().map(|(place, url)| (url, place)).rev().collect();
        let mut sorted: Vec<(CloneUrl, Known)> = self.known.into_iter().collect();
        sorted.sort_by_cached_key(|(url, known)| {
            let place = match known.class {
                Class::Proposed => only.get(url).copied().unwrap_or(usize::MAX),
                _ => known.place,
            };
            let grasp = known.class != Class::Proposed && url.has_grasp_form();
            (known.class, !grasp, place)
        });
        let (mut others, mut proposed) = (0, 0);
        sorted.retain(|(_, known)| {
            let (count, max) = match known.class {
                Class::Own | Class::Circle => return true,
                Class::Others => (&mut others, OTHERS_MAX),
                Class::Proposed => (&mut proposed, PROPOSED_MAX),
            };
            *count += 1;
            *count <= max
        });
        let source = |(url, known): (CloneUrl, Known)| {
            let covers = Some(known.covers).filter(|covers| covers.len() < wants.len());
            Source { url, covers, proposed: known.class == Class::Proposed }
        };
        sorted.into_iter().map(source).collect()
    }
}

/// The first of each list, then the second of each, and so on; each address once.
fn in_turn(lists: &[Vec<CloneUrl>]) -> Vec<CloneUrl> {
    let longest = lists.iter().map(Vec::len).max().unwrap_or(0);
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for round in 0..longest {
        for url in lists.iter().filter_map(|list| list.get(round)) {
            if seen.insert(url) {
                all.push(url.clone());
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s37_lists_of_many_are_taken_in_turn() {
        let list = |names: &[&str]| -> Vec<CloneUrl> {
            names.iter().map(|name| format!("https://{name}.one/x").parse().unwrap()).collect()
        };
        let merged = in_turn(&[list(&["a", "b", "c"]), list(&["d", "b"]), list(&[])]);
        assert_eq!(merged, list(&["a", "d", "b", "c"]));
    }
}

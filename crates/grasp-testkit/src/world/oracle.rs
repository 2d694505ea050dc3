//! What every server should have in the end, worked out from the shelves alone: whatever a relay
//! that keeps its word holds, that a server's questions can reach and its policy accepts, must be
//! on that server's shelf too. One step is enough: if something is still on its way anywhere, then
//! some single step is missing.

use super::clockwork::World;
use super::node::Node;
use super::policy::{ROOTS, Verdict, judge, repo_of, repos_of};
use crate::behaviour::Negentropy;
use grasp_core::{Event, Kind, RelayUrl};
use std::collections::{BTreeMap, BTreeSet};

/// The values that questions to one relay may carry.
#[derive(Debug, Default)]
struct Reach {
    repos: BTreeSet<String>,
    roots: BTreeSet<String>,
}

impl World {
    /// Sentences about what is not as it should be; none: all is well.
    pub fn missing(&self) -> Vec<String> {
        let mut missing = vec![];
        for server in 0..self.servers() {
            self.check_words(server, &mut missing);
            if self.nodes[server].server.as_ref().is_some_and(|it| it.mind.is_none()) {
                missing.push(format!("server {server} does not run"));
            }
            for (relay, reach) in self.reaches(server) {
                let Some(node) = self.node_at(&relay).filter(|node| *node != server) else {
                    continue;
                };
                self.compare(server, node, &reach, &mut missing);
            }
        }
        missing
    }

    /// Nothing but what somebody really wrote, word for word.
    fn check_words(&self, server: usize, missing: &mut Vec<String>) {
        for event in self.nodes[server].shelf.all() {
            if self.written.get(&event.id) != Some(event) {
                missing.push(format!("server {server} serves a forgery of {}", event.id));
            }
        }
    }

    fn compare(&self, server: usize, relay: usize, reach: &Reach, missing: &mut Vec<String>) {
        let (here, there) = (&self.nodes[server], &self.nodes[relay]);
        if !there.behaviour.keeps_its_word() && !there.only_floods() {
            return;
        }
        let Some(facts) = here.facts() else { return };
        let seconds = there.shelf.seconds();
        let compares = there.behaviour.negentropy == Negentropy::Speaks
            && here.server.as_ref().is_some_and(|server| server.settings.negentropy);
        let pages = if compares { u32::MAX } else { there.behaviour.limits.page_max };
        for event in there.shelf.all().filter(|event| reach.reaches(event)) {
            // What one question cannot show is not promised without NIP-77.
            let crowd = seconds.get(&event.created_at).copied().unwrap_or(0);
            let verdict = judge(event, facts, self.now);
            let due = matches!(verdict, Verdict::Accept | Verdict::Hold | Verdict::Leaves);
            if crowd < pages && due {
                missing.push(format!(
                    "server {server} lacks {} ({verdict:?}) of kind {}, {}, which {} ({}) has",
                    event.id,
                    event.kind,
                    about(event),
                    self.name(relay),
                    there.behaviour.name,
                ));
            }
        }
    }

    /// The relays a server should ask, and about what.
    fn reaches(&self, server: usize) -> BTreeMap<RelayUrl, Reach> {
        let node = &self.nodes[server];
        let mut reaches: BTreeMap<RelayUrl, Reach> = BTreeMap::new();
        let mut relays_of = BTreeMap::new();
        for announcement in node.shelf.of_kind(Kind::ANNOUNCEMENT) {
            let Some(repo) = repo_of(announcement) else { continue };
            let relays = node.followed(announcement);
            for relay in &relays {
                let reach = reaches.entry(relay.clone()).or_default();
                reach.repos.insert(repo.coordinate().to_string());
            }
            relays_of.insert(repo, relays);
        }
        for root in ROOTS.into_iter().flat_map(|kind| node.shelf.of_kind(kind)) {
            for relay in repos_of(root).iter().filter_map(|repo| relays_of.get(repo)).flatten() {
                reaches.entry(relay.clone()).or_default().roots.insert(root.id.to_hex());
            }
        }
        reaches
    }
}

fn about(event: &Event) -> String {
    let tags = event.tags.iter().map(|tag| tag.0.join("="));
    format!(
        "created {} s after the start, {}",
        since_start(event),
        tags.collect::<Vec<_>>().join(" ")
    )
}

fn since_start(event: &Event) -> i64 {
    let secs = |secs: u64| i64::try_from(secs).unwrap_or(i64::MAX);
    secs(event.created_at.0) - secs(super::START.timestamp().0)
}

impl Reach {
    fn reaches(&self, event: &Event) -> bool {
        if matches!(event.kind, Kind::ANNOUNCEMENT | Kind::STATE) {
            return true;
        }
        event.tags.iter().any(|tag| {
            let Some(value) = tag.value() else { return false };
            match tag.name() {
                "a" | "A" => self.repos.contains(value),
                "e" | "E" => self.roots.contains(value),
                "q" => self.repos.contains(value) || self.roots.contains(value),
                _ => false,
            }
        })
    }
}

impl Node {
    /// It keeps its word but for seconds that are too full.
    fn only_floods(&self) -> bool {
        let sane = crate::Behaviour { same_second: 0, ..self.behaviour.clone() };
        sane.keeps_its_word()
    }
}

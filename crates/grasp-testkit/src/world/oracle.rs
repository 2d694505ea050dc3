//! What every server should have in the end, worked out from the shelves alone: whatever a relay
//! that keeps its word holds, that a server's questions can reach and its policy accepts, must be
//! on that server's shelf too. One step is enough: if something is still on its way anywhere, then
//! some single step is missing.

use super::clockwork::World;
use super::node::Node;
use super::policy::{ROOTS, Verdict, judge, repo_of, repos_of};
use super::wire::LinkId;
use crate::behaviour::{Answers, Negentropy, Refuses};
use grasp_core::{Event, Kind, RelayUrl, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// An event is news for so long; less than what a catch-up reaches back, less what clocks differ.
const NEWS: Duration = Duration::from_secs(300);
/// A clock that is wrong by no more still takes all news and finds every gap.
const CLOCK_OFF_MS_MAX: i64 = 300_000;
const LONG_ABSENCE: Duration = Duration::from_secs(20 * 60);

/// The values that questions to one relay may carry.
#[derive(Debug, Default)]
struct Reach {
    repos: BTreeSet<String>,
    roots: BTreeSet<String>,
}

/// Something a relay has that a server should have too.
#[derive(Debug)]
struct Lack<'a> {
    server: usize,
    relay: usize,
    event: &'a Arc<Event>,
    verdict: Verdict,
}

impl World {
    /// Sentences about what is not as it should be; none: all is well.
    pub fn missing(&self) -> Vec<String> {
        let mut missing: Vec<String> = self.lacks().iter().map(|it| self.tell_lack(it)).collect();
        for server in 0..self.servers() {
            self.check_words(server, &mut missing);
            if self.nodes[server].server.as_ref().is_some_and(|it| it.mind.is_none()) {
                missing.push(format!("server {server} does not run"));
            }
        }
        missing
    }

    /// Of what is missing: that for which nobody should have to wait for a daily pass, because it
    /// was new when it came to a server, and servers hear each other live or catch up.
    pub fn gaps(&self) -> Vec<String> {
        let lacks = self.lacks().into_iter().filter(|it| self.is_gap(it));
        lacks.map(|lack| format!("gap: {}", self.tell_lack(&lack))).collect()
    }

    /// What stays missing although a link was there all the time since the last look.
    pub(crate) fn looks_for_gaps(&mut self) {
        let mut suspects = BTreeMap::new();
        let mut gaps = vec![];
        for lack in self.lacks().into_iter().filter(|it| self.is_gap(it)) {
            let Some(link) = self.link_between(lack.server, lack.relay) else { continue };
            let suspect = (lack.server, lack.relay, lack.event.id);
            if self.suspects.get(&suspect) == Some(&link) {
                gaps.push(format!("lasting gap: {}", self.tell_lack(&lack)));
            }
            suspects.insert(suspect, link);
        }
        self.suspects = suspects;
        if let Some(gap) = gaps.into_iter().next() {
            self.complain(gap);
        }
    }

    fn link_between(&self, server: usize, relay: usize) -> Option<LinkId> {
        let mind = self.nodes[server].server.as_ref()?.mind.as_ref()?;
        let id = *mind.links.get(&self.nodes[relay].url)?;
        self.links.get(&id).filter(|link| link.is_up && !link.is_cut).map(|_| id)
    }

    /// Servers that should have a link to another, and have none.
    pub(crate) fn unlinked(&self) -> Vec<String> {
        let mut unlinked = vec![];
        for server in 0..self.servers() {
            let Some(it) = &self.nodes[server].server else { continue };
            if it.settings.links_max < self.nodes.len() {
                continue;
            }
            for relay in self.reaches(server).into_keys() {
                let node = self.node_at(&relay).filter(|node| *node != server);
                let is_server = node.is_some_and(|node| self.nodes[node].server.is_some());
                let id = it.mind.as_ref().and_then(|mind| mind.links.get(&relay));
                let link = id.and_then(|id| self.links.get(id));
                if is_server && !link.is_some_and(|link| link.is_up && !link.is_cut) {
                    unlinked.push(format!("server {server} has no link to {relay}"));
                }
            }
        }
        unlinked
    }

    /// Links nobody has a use for.
    pub(crate) fn unwanted_links(&self) -> Vec<String> {
        let mut unwanted = vec![];
        for server in 0..self.servers() {
            let node = &self.nodes[server];
            let Some(it) = &node.server else { continue };
            let wanted = self.reaches(server);
            let held = it.durable.held.values().flat_map(|held| node.followed(held));
            let held: BTreeSet<RelayUrl> = held.collect();
            for relay in it.mind.iter().flat_map(|mind| mind.links.keys()) {
                if !wanted.contains_key(relay) && !held.contains(relay) {
                    unwanted.push(format!("server {server} keeps a link to {relay} for nothing"));
                }
            }
        }
        unwanted
    }

    fn is_gap(&self, lack: &Lack<'_>) -> bool {
        let (here, there) = (&self.nodes[lack.server], &self.nodes[lack.relay]);
        let Some(server) = &here.server else { return false };
        // Until its clock is set right it takes news for the future's, or gaps to begin too late.
        let late_ms = server.wall_ahead_ms.min(server.steady_ahead_ms);
        if server.wall_ahead_ms < -CLOCK_OFF_MS_MAX || late_ms > CLOCK_OFF_MS_MAX {
            return false;
        }
        let arrived = there.arrived.get(&lack.event.id).copied().unwrap_or_default();
        let was_new = arrived <= Time::from_secs(lack.event.created_at.0).plus(NEWS);
        // After a long absence everything is compared, however old.
        let link = self.link_between(lack.server, lack.relay).and_then(|id| self.links.get(&id));
        let is_fresh = link.is_some_and(|link| {
            link.away.is_none_or(|away| away > LONG_ABSENCE) && arrived < link.up_at
        });
        let page_max = there.behaviour.limits.page_max;
        let crowd = there.shelf.seconds().get(&lack.event.created_at).copied().unwrap_or(0);
        let is_dead = server.durable.records.get(&there.url).is_some_and(|it| it.health.is_dead());
        let has_links = server.settings.links_max >= self.nodes.len();
        // What is judged by what else is there may have come, and gone, too early.
        let is_plain = !matches!(lack.event.kind, Kind::ANNOUNCEMENT | Kind::STATE);
        let in_time = was_new || is_fresh;
        there.is_prompt() && in_time && crowd < page_max && !is_dead && has_links && is_plain
    }

    fn lacks(&self) -> Vec<Lack<'_>> {
        let mut lacks = vec![];
        for server in 0..self.servers() {
            for (relay, reach) in self.reaches(server) {
                if let Some(relay) = self.node_at(&relay).filter(|node| *node != server) {
                    lacks.extend(self.compare(server, relay, &reach));
                }
            }
        }
        lacks
    }

    fn tell_lack(&self, lack: &Lack<'_>) -> String {
        let Lack { server, relay, event, verdict } = lack;
        let there = &self.nodes[*relay];
        let arrived = there.arrived.get(&event.id).copied().unwrap_or_default();
        format!(
            "server {server} lacks {} ({verdict:?}) of kind {}, {}, which {} ({}) has since {}",
            event.id,
            event.kind,
            about(event),
            self.name(*relay),
            there.behaviour.name,
            arrived.since(super::START).as_secs(),
        )
    }

    /// Nothing but what somebody really wrote, word for word.
    fn check_words(&self, server: usize, missing: &mut Vec<String>) {
        for event in self.nodes[server].shelf.all() {
            if self.written.get(&event.id) != Some(event) {
                missing.push(format!("server {server} serves a forgery of {}", event.id));
            }
        }
    }

    fn compare(&self, server: usize, relay: usize, reach: &Reach) -> Vec<Lack<'_>> {
        let (here, there) = (&self.nodes[server], &self.nodes[relay]);
        // Where links are scarce, a relay that needs some time on each is not waited for.
        let is_scarce =
            here.server.as_ref().is_some_and(|it| it.settings.links_max < self.nodes.len());
        let is_slow = matches!(there.behaviour.refuses, Refuses::First(..));
        let promised = there.is_promising() && !(is_scarce && is_slow);
        let Some(facts) = here.facts().filter(|_| promised) else { return vec![] };
        let mut lacks = vec![];
        let others = there.shelf.all().filter(|event| !here.shelf.has(&event.id));
        for event in others.filter(|event| reach.reaches(event)) {
            let verdict = judge(event, facts, self.wall(server));
            if matches!(verdict, Verdict::Accept | Verdict::Hold | Verdict::Leaves) {
                lacks.push(Lack { server, relay, event, verdict });
            }
        }
        // What one question cannot show is not promised without NIP-77.
        let compares = there.behaviour.negentropy == Negentropy::Speaks
            && here.server.as_ref().is_some_and(|server| server.settings.negentropy);
        if !compares && !lacks.is_empty() {
            let seconds = there.shelf.seconds();
            let page_max = there.behaviour.limits.page_max;
            lacks.retain(|it| seconds.get(&it.event.created_at).is_some_and(|n| *n < page_max));
        }
        // What a relay hides from comparisons is not promised until the server has found that out.
        if self.believes_comparisons(server, relay) {
            lacks.retain(|it| !there.behaviour.negentropy.hides(&it.event.id));
        }
        lacks
    }

    /// Does this server compare with this relay, as far as it has written down?
    fn believes_comparisons(&self, server: usize, relay: usize) -> bool {
        let Some(it) = &self.nodes[server].server else { return false };
        let record = it.durable.records.get(&self.nodes[relay].url);
        let ignored_until = record.and_then(|record| record.negentropy.ignored_until);
        it.settings.negentropy && ignored_until.is_none_or(|until| until <= self.wall(server))
    }

    /// Events that relays hide from comparisons and servers that believe these still lack.
    pub(crate) fn hidden(&self) -> u64 {
        let mut hidden = 0;
        for server in 0..self.servers() {
            for (relay, reach) in self.reaches(server) {
                let Some(relay) = self.node_at(&relay).filter(|node| *node != server) else {
                    continue;
                };
                let (here, there) = (&self.nodes[server], &self.nodes[relay]);
                let Some(facts) = here.facts().filter(|_| there.is_promising()) else { continue };
                let is_hidden = |event: &&Arc<Event>| {
                    let verdict = judge(event, facts, self.wall(server));
                    !here.shelf.has(&event.id)
                        && there.behaviour.negentropy.hides(&event.id)
                        && reach.reaches(event)
                        && matches!(verdict, Verdict::Accept | Verdict::Hold | Verdict::Leaves)
                };
                hidden += there.shelf.all().filter(is_hidden).map(|_| 1).sum::<u64>();
            }
        }
        hidden
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
    /// It keeps its word without making anybody wait for long.
    fn is_prompt(&self) -> bool {
        let quick = matches!(self.behaviour.answers, Answers::Honest);
        let unhurried = matches!(
            self.behaviour.refuses,
            Refuses::RateByNotice { .. } | Refuses::RateByClosed { .. }
        );
        self.is_promising() && quick && !unhurried
    }

    /// It keeps its word, but for seconds that are too full.
    fn is_promising(&self) -> bool {
        let mut sane = crate::Behaviour { same_second: 0, ..self.behaviour.clone() };
        // Hidden events are an exception of their own.
        if matches!(sane.negentropy, Negentropy::Hides { .. }) {
            sane.negentropy = Negentropy::Speaks;
        }
        sane.keeps_its_word()
    }
}

//! People who write: they announce repositories, change their minds about relays, open issues and
//! answer, in bursts and at the wrong time. What they write goes to some relays, not to all.

use super::clockwork::{Happening, World};
use super::policy::{COMMENT, ROOTS};
use crate::behaviour::Door;
use grasp_core::id::Signature;
use grasp_core::{Event, EventId, Kind, PubKey, RelayUrl, RepoId, Tag, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct People {
    repos: Vec<Repo>,
    roots: Vec<(EventId, usize)>,
    replies: Vec<EventId>,
    /// Addresses that people list though nothing good is there.
    pub(crate) odd_addresses: Vec<RelayUrl>,
}

#[derive(Debug)]
struct Repo {
    id: RepoId,
    relays: Vec<RelayUrl>,
    announced_at: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Deed {
    Announce(usize),
    State(usize),
    Root,
    Reply,
    /// Many at once.
    Burst(u64),
    /// Many that claim the same second.
    OneSecond(u64),
    /// Many about one repository, written over days, that come all at once.
    Import(u64),
    /// As many in one second as this relay is to be stocked with.
    Stock(usize),
}

impl World {
    pub(crate) fn plans_deeds(&mut self, length: Duration) {
        let secs = length.as_secs();
        for number in 0..2 + self.random.index(6) {
            self.founds(number);
            // Some are there from the beginning, others come later.
            let first = if self.random.one_in(2) { 0 } else { self.random.below(secs) };
            self.does(first, Deed::Announce(number));
            for _ in 0..self.random.below(4) {
                let at = first + self.random.below(secs - first);
                self.does(at, Deed::Announce(number));
            }
            for _ in 0..self.random.below(5) {
                let at = self.random.below(secs);
                self.does(at, Deed::State(number));
            }
        }
        for _ in 0..5 + self.random.below(60) {
            let at = self.random.below(secs);
            self.does(at, Deed::Root);
        }
        for _ in 0..10 + self.random.below(200) {
            let at = self.random.below(secs);
            self.does(at, Deed::Reply);
        }
        for _ in 0..self.random.below(3) {
            let (at, many) = (self.random.below(secs), 20 + self.random.below(200));
            self.does(at, Deed::Burst(many));
        }
        if self.random.one_in(2) {
            let (at, many) = (self.random.below(secs), 20 + self.random.below(150));
            self.does(at, Deed::OneSecond(many));
        }
        if self.random.one_in(3) {
            let (at, many) = (self.random.below(secs), 60 + self.random.below(240));
            self.does(at, Deed::Import(many));
        }
        for node in 0..self.nodes.len() {
            if self.nodes[node].behaviour.same_second > 0 {
                let at = secs / 4 + self.random.below(secs / 2);
                self.does(at, Deed::Stock(node));
            }
        }
    }

    fn does(&mut self, after_secs: u64, deed: Deed) {
        let ms = after_secs * 1000 + self.random.below(1000);
        self.after_ms(ms, Happening::Done(deed));
    }

    fn founds(&mut self, number: usize) {
        let owner = PubKey::from_bytes(self.random.bytes32());
        // Two owners may use one name.
        let d = if self.random.one_in(3) { "shared".to_owned() } else { format!("repo{number}") };
        let Ok(identifier) = d.parse() else { return };
        let id = RepoId { owner, identifier };
        self.people.repos.push(Repo { id, relays: vec![], announced_at: None });
    }

    pub(crate) fn done(&mut self, deed: Deed) {
        self.note(|| format!("{deed:?}"));
        let now = self.now.timestamp();
        match deed {
            Deed::Announce(repo) => self.announce(repo),
            Deed::State(repo) => self.state(repo),
            Deed::Root => self.root(),
            Deed::Reply => self.reply(None),
            Deed::Burst(many) => {
                for _ in 0..many {
                    if self.random.one_in(4) { self.root() } else { self.reply(None) }
                }
            }
            Deed::OneSecond(many) => {
                for _ in 0..many {
                    self.reply(Some((now, None)));
                }
            }
            Deed::Import(many) => {
                let number = self.random.index(self.people.repos.len());
                let relays = self.relays_of(number);
                let to = self.some_of(&relays);
                for _ in 0..many {
                    let both = vec![self.a_tag("a", number), self.a_tag("A", number)];
                    let letter = *self.random.pick(&["a", "a", "a", "A", "q"]);
                    let one = vec![self.a_tag(letter, number)];
                    let tags = if self.random.one_in(10) { both } else { one };
                    let ago = self.random.below(2 * 24 * 3600);
                    let author = self.somebody();
                    let event = self.writes(author, COMMENT, Timestamp(now.0 - ago), tags);
                    self.publish(&event, to.clone());
                }
            }
            Deed::Stock(node) => {
                let limits = self.nodes[node].behaviour.limits;
                let many = self.nodes[node].behaviour.same_second.min(limits.page_max + 30);
                for _ in 0..many {
                    self.reply(Some((now, Some(node))));
                }
            }
        }
    }

    /// Everywhere, about everything that is served there: to be heard by all who listen.
    pub(crate) fn last_words(&mut self) {
        for node in 0..self.servers() {
            let served = self.nodes[node].shelf.of_kind(Kind::ANNOUNCEMENT);
            let served: Vec<String> =
                served.filter_map(|it| Some(it.coordinate()?.to_string())).collect();
            for at in served {
                let (author, now) = (self.somebody(), self.now.timestamp());
                let root = self.writes(author, Kind::ISSUE, now, vec![tag(&["a", &at])]);
                let reply = self.writes(author, COMMENT, now, vec![tag(&["A", &at])]);
                let answer = vec![tag(&["E", &root.id.to_hex()])];
                let answer = self.writes(author, COMMENT, now, answer);
                for event in [root, reply, answer] {
                    self.publish(&event, BTreeSet::from([node]));
                }
            }
        }
    }

    fn announce(&mut self, number: usize) {
        self.changes_relays(number);
        let repo = &self.people.repos[number];
        let (id, relays) = (repo.id.clone(), repo.relays.clone());
        let listed: Vec<&str> = relays.iter().map(RelayUrl::as_str).collect();
        let mut tags = vec![tag(&["d", id.identifier.as_str()])];
        tags.push(tag(&[&["relays"], listed.as_slice()].concat()));
        let invited = self.random.pick(&self.people.repos).id.clone();
        if invited.owner != id.owner && invited.identifier == id.identifier {
            tags.push(tag(&["maintainers", &invited.owner.to_hex()]));
        }
        let now = self.now.timestamp();
        let after = repo.announced_at.map_or(now, |last| last.plus_secs(1).max(now));
        self.people.repos[number].announced_at = Some(after);
        let event = self.writes(id.owner, Kind::ANNOUNCEMENT, after, tags);
        let mut to = self.some_of(&relays);
        if self.random.one_in(4) {
            to.insert(self.random.index(self.nodes.len()));
        }
        self.publish(&event, to);
    }

    /// At first some relays, later one more or one less.
    fn changes_relays(&mut self, number: usize) {
        let node = self.random.index(self.nodes.len());
        let server = self.random.index(self.servers());
        let one_more = match self.random.one_in(10) && !self.people.odd_addresses.is_empty() {
            true => self.random.pick(&self.people.odd_addresses).clone(),
            false => self.nodes[node].url.clone(),
        };
        let more = self.random.below(4);
        let relays = &mut self.people.repos[number].relays;
        if relays.is_empty() {
            relays.push(self.nodes[server].url.clone());
            for _ in 0..more {
                let other = self.random.index(self.nodes.len());
                relays.push(self.nodes[other].url.clone());
            }
        } else if self.random.one_in(3) && relays.len() > 1 {
            relays.remove(self.random.index(relays.len()));
        }
        relays.push(one_more);
        let mut seen = BTreeSet::new();
        relays.retain(|relay| seen.insert(relay.clone()));
    }

    fn state(&mut self, number: usize) {
        let (id, relays) = (self.people.repos[number].id.clone(), self.relays_of(number));
        let tags = vec![tag(&["d", id.identifier.as_str()])];
        let to = self.some_of(&relays);
        let created_at = self.moment(&to);
        let event = self.writes(id.owner, Kind::STATE, created_at, tags);
        self.publish(&event, to);
    }

    fn root(&mut self) {
        let number = self.random.index(self.people.repos.len());
        let mut tags = vec![self.a_tag("a", number)];
        let mut relays = self.relays_of(number);
        if self.random.one_in(4) {
            let other = self.random.index(self.people.repos.len());
            tags.push(self.a_tag("a", other));
            relays.extend(self.relays_of(other));
        }
        let kind = *self.random.pick(&ROOTS);
        let to = self.some_of(&relays);
        let (author, created_at) = (self.somebody(), self.moment(&to));
        let event = self.writes(author, kind, created_at, tags);
        self.people.roots.push((event.id, number));
        self.publish(&event, to);
    }

    /// Of a given second, at a given relay, if any.
    fn reply(&mut self, given: Option<(Timestamp, Option<usize>)>) {
        let fallback = self.random.index(self.people.repos.len());
        let root = match self.people.roots.as_slice() {
            [] => None,
            roots => Some(*self.random.pick(roots)),
        };
        let number = root.map_or(fallback, |(_, number)| number);
        let about_repo = self.a_tag("A", number);
        let id = root.map(|(id, _)| id.to_hex()).unwrap_or_default();
        let tags = match (self.random.below(10), root) {
            // Some are found by several questions at once.
            (8, Some(_)) => vec![tag(&["e", &id]), tag(&["E", &id]), tag(&["q", &id])],
            (9, _) => vec![self.a_tag("a", number), about_repo],
            (0, Some(_)) => vec![tag(&["E", &id]), about_repo],
            (1, Some(_)) => vec![tag(&["e", &id])],
            (2, Some(_)) => vec![tag(&["E", &id])],
            (3, Some(_)) => vec![tag(&["q", &id])],
            (4, Some(_)) => match self.people.replies.last() {
                // One that no question about roots or repositories can find.
                Some(reply) if self.random.one_in(4) => vec![tag(&["e", &reply.to_hex()])],
                Some(reply) => vec![tag(&["e", &reply.to_hex()]), tag(&["e", &id])],
                None => vec![about_repo],
            },
            (5, _) => vec![self.a_tag("a", number)],
            (6, _) => vec![self.a_tag("q", number)],
            _ => vec![about_repo],
        };
        let author = self.somebody();
        let relays = self.relays_of(number);
        let to = match given {
            Some((_, Some(node))) => BTreeSet::from([node]),
            _ => self.some_of(&relays),
        };
        let created_at = match given {
            Some((second, _)) => second,
            None => self.moment(&to),
        };
        let event = self.writes(author, COMMENT, created_at, tags);
        self.people.replies.push(event.id);
        self.publish(&event, to);
    }

    /// Now, by the clock that is used there; or, for one in ten, some time before.
    fn moment(&mut self, to: &BTreeSet<usize>) -> Timestamp {
        let skews = to.iter().map(|node| self.nodes[*node].behaviour.skew_secs);
        let skew = skews.max_by_key(|skew| skew.abs()).unwrap_or(0);
        let now = Timestamp(self.now.timestamp().0.saturating_add_signed(skew));
        match self.random.one_in(10) {
            true => Timestamp(now.0 - self.random.below(3 * 24 * 3600)),
            false => now,
        }
    }

    fn somebody(&mut self) -> PubKey {
        PubKey::from_bytes(self.random.bytes32())
    }

    fn relays_of(&self, repo: usize) -> Vec<RelayUrl> {
        self.people.repos[repo].relays.clone()
    }

    fn a_tag(&self, letter: &str, repo: usize) -> Tag {
        tag(&[letter, &self.people.repos[repo].id.coordinate().to_string()])
    }

    /// All of these relays, or some, or a stranger.
    fn some_of(&mut self, relays: &[RelayUrl]) -> BTreeSet<usize> {
        let all: Vec<usize> = relays.iter().filter_map(|relay| self.node_at(relay)).collect();
        let mut some: BTreeSet<usize> = match self.random.one_in(2) || all.is_empty() {
            true => all.into_iter().collect(),
            false => {
                (0..1 + self.random.index(all.len())).map(|_| *self.random.pick(&all)).collect()
            }
        };
        if self.random.one_in(12) {
            some.insert(self.random.index(self.nodes.len()));
        }
        some
    }

    fn writes(
        &mut self,
        pubkey: PubKey,
        kind: Kind,
        created_at: Timestamp,
        tags: Vec<Tag>,
    ) -> Arc<Event> {
        let id = EventId::from_bytes(self.random.bytes32());
        let sig = Signature::from_bytes([1; 64]);
        let content = String::new();
        let event = Arc::new(Event { id, pubkey, created_at, kind, tags, content, sig });
        self.written.insert(id, event.clone());
        event
    }

    /// Hands an event to some relays; a relay that is down or hidden misses it.
    pub(crate) fn publish(&mut self, event: &Arc<Event>, to: BTreeSet<usize>) {
        for node in to {
            let it = &mut self.nodes[node];
            let closed = matches!(it.behaviour.door, Door::BlackHole | Door::Refuses);
            if !it.is_up || closed {
                continue;
            }
            if it.server.is_some() {
                self.admits_event(node, event);
            } else if it.shelf.put(event) {
                it.arrived.insert(event.id, self.now);
                self.note(|| format!("relay {node} stores {}", event.id));
                self.resounds(node, event);
            }
        }
    }
}

fn tag(values: &[&str]) -> Tag {
    Tag(values.iter().map(|value| (*value).to_owned()).collect())
}

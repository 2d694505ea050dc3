//! People who write: they announce repositories, change their minds about relays, open issues and
//! answer, in bursts and at the wrong time. What they write goes to some relays, not to all.

use super::clockwork::World;
use super::policy::{COMMENT, ROOTS};
use crate::behaviour::Door;
use grasp_core::id::Signature;
use grasp_core::{Event, EventId, Kind, PubKey, RelayUrl, RepoId, Tag, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;

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
    /// Once listed, and not any more.
    former: Vec<RelayUrl>,
    announced_at: Option<Timestamp>,
}

impl World {
    pub(crate) fn founds(&mut self, number: usize) {
        let owner = PubKey::from_bytes(self.random.bytes32());
        // Two owners may use one name.
        let d = if self.random.one_in(3) { "shared".to_owned() } else { format!("repo{number}") };
        let Ok(identifier) = d.parse() else { return };
        let id = RepoId { owner, identifier };
        self.people.repos.push(Repo { id, relays: vec![], former: vec![], announced_at: None });
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

    pub(crate) fn announce(&mut self, number: usize) {
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

    /// At first some relays, later one less or one more, new or known from before.
    fn changes_relays(&mut self, number: usize) {
        let server = self.random.index(self.servers());
        let first = self.people.repos[number].relays.is_empty();
        let mut more = vec![];
        if first {
            more.push(self.nodes[server].url.clone());
            more.extend((0..self.random.below(4)).map(|_| self.some_address()));
        }
        if first || self.random.one_in(2) {
            more.push(self.some_address());
        }
        let less = self.random.one_in(2);
        let repo = &mut self.people.repos[number];
        if !first && !repo.former.is_empty() && self.random.one_in(2) {
            more.push(repo.former.remove(self.random.index(repo.former.len())));
        }
        if less && repo.relays.len() > 1 {
            let gone = repo.relays.remove(self.random.index(repo.relays.len()));
            repo.former.push(gone);
        }
        repo.relays.extend(more);
        let mut seen = BTreeSet::new();
        repo.relays.retain(|relay| seen.insert(relay.clone()));
    }

    fn some_address(&mut self) -> RelayUrl {
        if self.random.one_in(10) {
            return self.random.pick(&self.people.odd_addresses).clone();
        }
        let node = self.random.index(self.nodes.len());
        self.nodes[node].url.clone()
    }

    pub(crate) fn state(&mut self, number: usize) {
        let (id, relays) = (self.people.repos[number].id.clone(), self.relays_of(number));
        let tags = vec![tag(&["d", id.identifier.as_str()])];
        let to = self.some_of(&relays);
        let created_at = self.moment(&to);
        let event = self.writes(id.owner, Kind::STATE, created_at, tags);
        self.publish(&event, to);
    }

    pub(crate) fn root(&mut self) {
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

    /// Many about one repository, written over days.
    pub(crate) fn import(&mut self, many: u64) {
        let now = self.now.timestamp();
        let number = self.random.index(self.people.repos.len());
        let relays = self.relays_of(number);
        let to = self.some_of(&relays);
        for _ in 0..many {
            let both = vec![self.a_tag("a", number), self.a_tag("A", number)];
            let letter = *self.random.pick(&["a", "a", "a", "A", "q"]);
            let one = vec![self.a_tag(letter, number)];
            let tags = if self.random.one_in(10) { both } else { one };
            // Some of them within the same second.
            let ago = self.random.below(2 * 24 * 60) * 60;
            let author = self.somebody();
            let event = self.writes(author, COMMENT, Timestamp(now.0 - ago), tags);
            self.publish(&event, to.clone());
        }
    }

    /// Of a given second, at a given relay, if any.
    pub(crate) fn reply(&mut self, given: Option<(Timestamp, Option<usize>)>) {
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
        let mut some: BTreeSet<usize> = match self.random.one_in(3) || all.is_empty() {
            true => all.into_iter().collect(),
            false if self.random.one_in(2) => BTreeSet::from([*self.random.pick(&all)]),
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

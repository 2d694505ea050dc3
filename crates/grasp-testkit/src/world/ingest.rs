//! A simulated server's one door: verify, judge, store, tell. And its feed: what the engine learns
//! of the store, in order, now and again after every start.

use super::clockwork::{Happening, World};
use super::node::{Durable, Mind, Node};
use super::policy::{ROOTS, Verdict, judge, relays_of, repo_of, repos_of};
use super::watch::Watch;
use super::wire::{Copied, LinkId};
use grasp_core::{Event, Kind, RelayUrl, RepoId, WallOffset};
use grasp_engine::{Engine, Input, Level, Sub};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// How long something refused for want of a dependency is kept whole.
const SECOND_CHANCE: Duration = Duration::from_secs(120);
const SECOND_CHANCES_MAX: usize = 200;
const REFUSED_MAX: usize = 10_000;
const RELAYS_MAX: usize = 20;

impl World {
    pub(crate) fn judged(
        &mut self,
        server: usize,
        boot: u64,
        id: LinkId,
        sub: Sub,
        copies: &[Copied],
    ) {
        if self.boot_of(server) != Some(boot) {
            return;
        }
        for copied in copies {
            let was_known = self.nodes[server].knows(&copied.event.id);
            if !copied.forged {
                self.admits_event(server, &copied.event);
            }
            let (now, is_fresh) =
                (self.now, !was_known && self.nodes[server].keeps(&copied.event.id));
            // What was received is judged, also when its link is gone by now.
            let Some(link) = self.links.get_mut(&id) else { continue };
            if is_fresh && copied.past {
                link.reception.found_fresh(sub, (copied.event.created_at, copied.event.id));
            }
            let enough = copied.forged && link.reception.forged(sub, &copied.event.id);
            let report = link.reception.judged(sub, copied.past, now);
            if enough {
                self.cuts_off(id, "forgeries");
            } else {
                self.reports(id, sub, report);
            }
        }
        self.watches_silence(id);
    }

    /// True: it is served now.
    pub(crate) fn admits_event(&mut self, server: usize, event: &Arc<Event>) -> bool {
        let (now, wall) = (self.now, self.wall(server));
        let Some(facts) = self.nodes[server].facts() else { return false };
        match judge(event, facts, wall) {
            Verdict::Accept if event.kind == Kind::ANNOUNCEMENT => self.announces(server, event),
            Verdict::Accept => {
                self.serves(server, event);
                true
            }
            Verdict::Hold => {
                if let Some(durable) = self.durable(server) {
                    durable.waiting.insert(event.id, event.clone());
                }
                false
            }
            Verdict::Leaves => {
                self.withdraws(server, event);
                false
            }
            Verdict::NotYet => {
                if let Some(mind) = self.nodes[server].mind() {
                    mind.second_chances.push_back((now, event.clone()));
                    if mind.second_chances.len() > SECOND_CHANCES_MAX {
                        mind.second_chances.pop_front();
                    }
                }
                false
            }
            Verdict::Never => {
                if let Some(durable) = self.durable(server)
                    && durable.refused.len() < REFUSED_MAX
                {
                    durable.refused.insert(event.id);
                }
                false
            }
            Verdict::Refuse | Verdict::Known => false,
        }
    }

    fn announces(&mut self, server: usize, event: &Arc<Event>) -> bool {
        let Some(repo) = repo_of(event) else { return false };
        let (now, waits) = (self.now, self.waits_for_git());
        let Some(durable) = self.durable(server) else { return false };
        let ready_at = *durable.ready_at.entry(repo.clone()).or_insert(now.plus(waits));
        if ready_at <= now {
            self.serves(server, event);
            return true;
        }
        let Some(durable) = self.durable(server) else { return false };
        durable.next_serial(event.id);
        durable.held.insert(repo.clone(), event.clone());
        self.at(ready_at, Happening::GitArrived { server, repo });
        self.feeds(server, event, Level::StateOnly);
        self.second_chances(server);
        false
    }

    /// Most repositories come with their git data; some wait for minutes, or hours.
    fn waits_for_git(&mut self) -> Duration {
        match self.random.below(8) {
            0 => Duration::from_secs(self.random.below(1_800)),
            1 => Duration::from_secs(self.random.below(6 * 3600)),
            _ => Duration::ZERO,
        }
    }

    /// A held repository is served from now on, and what waited with it is judged again.
    pub(crate) fn git_arrived(&mut self, server: usize, repo: &RepoId) {
        if !self.nodes[server].is_up {
            return self.after_ms(60_000, Happening::GitArrived { server, repo: repo.clone() });
        }
        let Some(durable) = self.durable(server) else { return };
        let Some(event) = durable.held.remove(repo) else { return };
        let waiting = std::mem::take(&mut durable.waiting);
        self.serves(server, &event);
        let mut waiting: Vec<Arc<Event>> = waiting.into_values().collect();
        // A reply may wait for a root that waits too.
        waiting.sort_by_key(|event| (event.kind == super::policy::COMMENT, event.created_at));
        for event in waiting {
            self.admits_event(server, &event);
        }
    }

    fn serves(&mut self, server: usize, event: &Arc<Event>) {
        if !self.nodes[server].shelf.put(event) {
            return;
        }
        self.nodes[server].arrived.insert(event.id, self.now);
        self.note(|| format!("server {server} stores {} of kind {}", event.id, event.kind));
        if event.kind == Kind::ANNOUNCEMENT || ROOTS.contains(&event.kind) {
            if let Some(durable) = self.durable(server) {
                durable.next_serial(event.id);
            }
            self.feeds(server, event, Level::Full);
        }
        self.resounds(server, event);
        if event.kind == Kind::ANNOUNCEMENT {
            self.second_chances(server);
        }
    }

    fn withdraws(&mut self, server: usize, event: &Arc<Event>) {
        let (Some(repo), Some(at)) = (repo_of(event), event.coordinate()) else { return };
        let old = self.nodes[server].shelf.at(&at).map(|old| old.id);
        if let Some(old) = old {
            self.nodes[server].shelf.remove(&old);
        }
        if let Some(durable) = self.durable(server) {
            durable.held.remove(&repo);
            durable.left.insert(at, event.rank());
        }
        self.note(|| format!("server {server} is left by {repo}"));
        self.feeds_input(server, Input::Withdrawn(repo));
    }

    fn second_chances(&mut self, server: usize) {
        let now = self.now;
        let Some(mind) = self.nodes[server].mind() else { return };
        let kept = std::mem::take(&mut mind.second_chances);
        for (since, event) in kept {
            if now.since(since) <= SECOND_CHANCE {
                self.admits_event(server, &event);
            }
        }
    }

    fn feeds(&mut self, server: usize, event: &Arc<Event>, level: Level) {
        let Some(input) = self.nodes[server].input_of(event, level) else { return };
        self.feeds_input(server, input);
    }

    /// A moment later, and in order.
    fn feeds_input(&mut self, server: usize, input: Input) {
        let Some(boot) = self.boot_of(server) else { return };
        let at = self.now.plus(Duration::from_millis(self.random.below(100)));
        let Some(mind) = self.nodes[server].mind() else { return };
        mind.fed_at = mind.fed_at.max(at);
        let at = mind.fed_at;
        self.at(at, Happening::Fed { server, boot, input: Box::new(input) });
    }

    /// A new engine, told what was remembered and what is stored.
    pub(crate) fn starts(&mut self, server: usize) {
        let (now, clock, seed) = (self.now, self.wall(server), self.random.next_u64());
        self.nodes[server].is_up = true;
        let Some(it) = &mut self.nodes[server].server else { return };
        it.boots += 1;
        it.steady_ahead_ms = it.wall_ahead_ms;
        it.mind = Some(Mind {
            engine: Engine::new(it.settings.clone(), seed),
            watch: Watch::new(it.settings.clone()),
            links: BTreeMap::new(),
            wake_at: None,
            offset: WallOffset::default(),
            woken: (clock, 0),
            fed_at: now,
            second_chances: VecDeque::new(),
        });
        let records = it.durable.records.clone();
        self.note(|| format!("server {server} starts"));
        for (relay, record) in records {
            self.tell(server, Input::Recalled { relay, record: Box::new(record) });
        }
        for input in self.nodes[server].past() {
            self.tell(server, input);
        }
        self.tell(server, Input::Replayed);
    }

    pub(crate) fn durable(&mut self, server: usize) -> Option<&mut Durable> {
        Some(&mut self.nodes[server].server.as_mut()?.durable)
    }
}

impl Node {
    /// What the feed says of a stored or held event.
    fn input_of(&self, event: &Event, level: Level) -> Option<Input> {
        let serial = self.server.as_ref()?.durable.serial_of(&event.id);
        if event.kind == Kind::ANNOUNCEMENT {
            let relays = self.followed(event);
            return Some(Input::Announced { repo: repo_of(event)?, relays, level, serial });
        }
        ROOTS.contains(&event.kind).then(|| Input::Root {
            id: event.id,
            repos: repos_of(event),
            serial,
        })
    }

    /// The relays of an announcement, without ourselves.
    pub(crate) fn followed(&self, announcement: &Event) -> Vec<RelayUrl> {
        let mut relays = relays_of(announcement);
        relays.truncate(RELAYS_MAX);
        relays.retain(|relay| *relay != self.url);
        relays
    }

    /// All that the feed would have said, in order.
    fn past(&self) -> Vec<Input> {
        let Some(server) = &self.server else { return vec![] };
        let served = std::iter::once(Kind::ANNOUNCEMENT).chain(ROOTS);
        let served = served.flat_map(|kind| self.shelf.of_kind(kind)).map(|it| (it, Level::Full));
        let held = server.durable.held.values().map(|it| (it, Level::StateOnly));
        let mut all: Vec<_> = served.chain(held).collect();
        all.sort_by_key(|(event, _)| server.durable.serial_of(&event.id));
        all.into_iter().filter_map(|(event, level)| self.input_of(event, level)).collect()
    }
}

//! What a seed stands for: how many servers and strangers, how they behave, how tight the limits
//! are, and what a run of two days and its quiet end looks like.

use super::clockwork::{Address, World};
use super::faults::Fault;
use super::names::relay;
use super::node::{Durable, Node, Server};
use crate::behaviour::{Limits, Negentropy};
use crate::{Behaviour, Random};
use grasp_core::Time;
use grasp_engine::Settings;
use std::collections::BTreeMap;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// How far the clocks of servers are from those of authors.
const AHEAD_MS_MAX: u64 = 30_000;
pub(crate) const TROUBLE: Duration = Duration::from_secs(2 * 24 * 3600);

#[derive(Debug)]
pub(crate) struct Plan {
    servers: usize,
    strangers: Vec<Behaviour>,
    settings: Settings,
    /// What one question to a server brings at most.
    page_max: u32,
    subscriptions_max: u32,
    has_alias: bool,
}

impl Plan {
    pub(crate) fn random(random: &mut Random) -> Self {
        let strangers = (0..random.below(5)).map(|_| stranger(random)).collect();
        Self {
            servers: 3 + random.index(6),
            strangers,
            settings: settings(random),
            page_max: *random.pick(&[40, 100, 200, 5_000]),
            subscriptions_max: *random.pick(&[500, 500, 30, 12]),
            has_alias: random.one_in(4),
        }
    }

    pub(crate) fn build(self, world: &mut World) {
        let Self { page_max, subscriptions_max, .. } = self;
        let limits = Limits { page_max, subscriptions_max, ..Limits::grasp() };
        for number in 0..self.servers {
            let behaviour = Behaviour { limits, ..Behaviour::honest() };
            let mut node = Node::new(relay(&format!("s{number}")), behaviour);
            node.server = Some(Server {
                settings: self.settings.clone(),
                durable: Durable::default(),
                mind: None,
                boots: 0,
                wall_ahead_ms: world.random.below(AHEAD_MS_MAX).cast_signed(),
                steady_ahead_ms: 0,
            });
            node.is_up = false;
            world.nodes.push(node);
        }
        for (number, behaviour) in self.strangers.into_iter().enumerate() {
            world.nodes.push(Node::new(relay(&format!("r{number}")), behaviour));
        }
        for (number, node) in world.nodes.iter().enumerate() {
            world.addresses.insert(node.url.clone(), Address::Node(number));
        }
        world.addresses.insert(relay("local"), Address::Forbidden);
        world.people.odd_addresses = vec![relay("local"), relay("nowhere")];
        if self.has_alias {
            world.addresses.insert(relay("alias"), Address::Node(0));
            world.people.odd_addresses.push(relay("alias"));
        }
        world.plans_deeds(TROUBLE);
        world.plans_trouble(TROUBLE);
        for server in 0..self.servers {
            world.befalls(Fault::Start(server));
        }
    }
}

/// As often one who only has limits as one who may do anything.
fn stranger(random: &mut Random) -> Behaviour {
    match random.below(10) {
        0 => Behaviour::honest(),
        1 => Behaviour::common(),
        2 => Behaviour::strict(),
        3 => Behaviour::small_pages(),
        4 => Behaviour::slow_to_start(),
        _ => Behaviour::random(random),
    }
}

/// The real ones, sometimes so tight that a small world meets the limits of a large one.
fn settings(random: &mut Random) -> Settings {
    let mut settings = Settings::default();
    if random.one_in(3) {
        settings.values_per_filter_max = *random.pick(&[3, 10, 30]);
        settings.filters_before_repack = *random.pick(&[12, 30, 70]);
    }
    if random.one_in(5) {
        settings.links_max = 2 + random.index(3);
    }
    if random.one_in(4) {
        settings.ids_per_request_max = *random.pick(&[5, 50]);
    }
    if random.one_in(4) {
        settings.negentropy = false;
    }
    if random.one_in(8) {
        settings.needed_ids_max = 20;
    }
    if random.one_in(6) {
        settings.turns_max = 1 + random.index(2);
    }
    settings
}

/// What came of a world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    pub seed: u64,
    pub steps: u64,
    pub events: usize,
    /// How long after the trouble every server had what it should have.
    pub complete_after: Duration,
    /// What it was that came last.
    pub last: Option<String>,
    /// How often engines did what, for those who wonder whether it was hard enough.
    pub seen: BTreeMap<&'static str, u64>,
}

impl World {
    /// The same world, whose strangers keep one of three events from comparisons.
    pub fn hiding(seed: u64) -> Self {
        let mut world = Self::new(seed);
        for node in world.nodes.iter_mut().filter(|node| node.server.is_none()) {
            node.behaviour.negentropy = Negentropy::Hides { one_in: 3 };
        }
        world
    }

    pub(crate) fn servers(&self) -> usize {
        self.nodes.iter().filter(|node| node.server.is_some()).count()
    }

    pub(crate) fn node_at(&self, relay: &grasp_core::RelayUrl) -> Option<usize> {
        match self.addresses.get(relay) {
            Some(Address::Node(node)) => Some(*node),
            _ => None,
        }
    }

    /// Two days of trouble, then quiet until everybody has everything, and then some last words
    /// that must be heard at once; `Err` says what is wrong.
    pub fn run(&mut self, seed: u64) -> Result<Outcome, Vec<String>> {
        let quiet = super::START.plus(TROUBLE);
        while self.now < quiet && self.complaints.is_empty() {
            self.live_until(self.now.plus(LOOK_EVERY).min(quiet));
            self.looks_for_gaps();
            self.checks_waits();
        }
        let mut last = None;
        let complete_after = self.settles(quiet, |world| {
            let missing = world.missing();
            if world.now > quiet.plus(CATCH_UP) {
                last = missing.first().cloned().or(last.take());
                (world.gaps(), missing)
            } else {
                (vec![], missing)
            }
        })?;
        self.settles(self.now, |world| (vec![], world.unlinked()))?;
        self.last_words();
        self.live_until(self.now.plus(LAST_WORDS));
        let wrong = [self.complaints.clone(), self.gaps(), self.unwanted_links()].concat();
        if !wrong.is_empty() {
            return Err(wrong);
        }
        if let hidden @ 1.. = self.hidden() {
            self.seen.insert("event hidden from comparisons to the end", hidden);
        }
        let (steps, events) = (self.steps, self.written.len());
        Ok(Outcome { seed, steps, events, complete_after, last, seen: self.seen.clone() })
    }

    /// Lets time pass until nothing is left to be waited for, and says how long that took. `left`
    /// says what must not be at all, and what is still to come.
    fn settles(
        &mut self,
        from: Time,
        mut left: impl FnMut(&Self) -> (Vec<String>, Vec<String>),
    ) -> Result<Duration, Vec<String>> {
        let mut wait = Duration::from_secs(120);
        loop {
            self.live_until(from.plus(wait));
            self.checks_waits();
            if !self.complaints.is_empty() {
                return Err(self.complaints.clone());
            }
            let (wrong, awaited) = left(self);
            if !wrong.is_empty() {
                return Err(wrong);
            }
            if awaited.is_empty() {
                return Ok(wait);
            }
            if wait > PATIENCE {
                return Err(awaited);
            }
            wait += wait.min(Duration::from_secs(3600));
        }
    }
}

/// The batch window twice, and a rotation, for what cannot be heard live.
const LAST_WORDS: Duration = Duration::from_secs(420);

/// Longer than a relay is left alone that did not answer.
const LOOK_EVERY: Duration = Duration::from_secs(4_200);

/// The longest wait for a degraded relay, and some time for the rest.
const CATCH_UP: Duration = Duration::from_secs(3 * 3600);

/// A daily pass and the slowest retry of all, a dead relay's, and some hours for it to be worked off.
const PATIENCE: Duration = Duration::from_secs(2 * DAY.as_secs() + 6 * 3600);

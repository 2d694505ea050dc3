//! The world itself: who is in it, what time it is, and what happens next. One queue holds all that
//! is going to happen; the seed decides everything else, so a world can be lived through again.

use super::deeds::Deed;
use super::faults::Fault;
use super::node::Node;
use super::people::People;
use super::plan::Plan;
use super::story::short;
use super::wire::{Copied, Frame, Link, LinkId, Word};
use crate::Random;
use grasp_core::{Event, EventId, RelayUrl, RepoId, Time};
use grasp_engine::{Input, Loss, Record, Sub};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The busiest of a thousand worlds needs half of it.
const STEPS_MAX: u64 = 3_000_000;

#[derive(Debug)]
pub struct World {
    pub(crate) now: Time,
    pub(crate) random: Random,
    pub(crate) nodes: Vec<Node>,
    pub(crate) addresses: BTreeMap<RelayUrl, Address>,
    pub(crate) links: BTreeMap<LinkId, Link>,
    /// When a server last had a link to somebody.
    pub(crate) ended_at: BTreeMap<(usize, RelayUrl), Time>,
    /// Pairs that do not reach each other, the smaller number first.
    pub(crate) parted: BTreeSet<(usize, usize)>,
    /// Links break, dials fail and servers crash only while this is so.
    pub(crate) is_troubled: bool,
    pub(crate) people: People,
    /// Every event that was ever really written.
    pub(crate) written: BTreeMap<EventId, Arc<Event>>,
    /// What should not have happened.
    pub(crate) complaints: Vec<String>,
    /// What was missing at the last look, and the link that should have brought it.
    pub(crate) suspects: BTreeMap<(usize, usize, EventId), LinkId>,
    pub(crate) steps: u64,
    pub(crate) next_link: u64,
    /// What engines did, and what they told.
    pub(crate) seen: BTreeMap<&'static str, u64>,
    counts: BTreeMap<&'static str, u64>,
    queue: BinaryHeap<Reverse<Scheduled>>,
    scheduled: u64,
    trace: VecDeque<String>,
    trace_lines_max: usize,
}

/// Where an address leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Address {
    Node(usize),
    Forbidden,
}

#[derive(Debug)]
pub(crate) enum Happening {
    /// A server's engine wanted to be woken.
    Wake {
        server: usize,
        boot: u64,
    },
    Dialled {
        link: LinkId,
    },
    Asked {
        link: LinkId,
        word: Word,
    },
    Heard {
        link: LinkId,
        frame: Frame,
    },
    Judged {
        server: usize,
        boot: u64,
        link: LinkId,
        sub: Sub,
        copies: Vec<Copied>,
    },
    /// A question on this link may have been silent for too long.
    Impatient {
        link: LinkId,
    },
    /// The next event of a slow or endless answer.
    Drip {
        link: LinkId,
        relay: usize,
        sub: Sub,
    },
    /// The server notices that a link is over.
    Lost {
        link: LinkId,
        why: Loss,
    },
    /// The relay does.
    Gone {
        link: LinkId,
        relay: usize,
    },
    Fed {
        server: usize,
        boot: u64,
        input: Box<Input>,
    },
    Recorded {
        server: usize,
        boot: u64,
        relay: RelayUrl,
        record: Option<Box<Record>>,
    },
    /// A server looks at its wall clock.
    ClockSeen {
        server: usize,
        boot: u64,
    },
    GitArrived {
        server: usize,
        repo: RepoId,
    },
    Done(Deed),
    Befalls(Fault),
}

#[derive(Debug)]
struct Scheduled {
    at: Time,
    turn: u64,
    what: Happening,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut random = Random::seeded(seed);
        let plan = Plan::random(&mut random);
        let mut world = Self {
            now: super::START,
            random,
            nodes: vec![],
            addresses: BTreeMap::new(),
            links: BTreeMap::new(),
            ended_at: BTreeMap::new(),
            parted: BTreeSet::new(),
            is_troubled: true,
            people: People::default(),
            written: BTreeMap::new(),
            complaints: vec![],
            suspects: BTreeMap::new(),
            steps: 0,
            next_link: 0,
            seen: BTreeMap::new(),
            counts: BTreeMap::new(),
            queue: BinaryHeap::new(),
            scheduled: 0,
            trace: VecDeque::new(),
            trace_lines_max: 0,
        };
        plan.build(&mut world);
        world
    }

    /// Keeps so many lines about what happened last.
    #[must_use]
    pub fn traced(mut self, lines_max: usize) -> Self {
        self.trace_lines_max = lines_max;
        self
    }

    pub fn trace(&self) -> impl Iterator<Item = &str> {
        self.trace.iter().map(String::as_str)
    }

    /// Lets time pass up to this moment, or until something went wrong.
    pub(crate) fn live_until(&mut self, end: Time) {
        while self.complaints.is_empty()
            && let Some(Reverse(next)) = self.queue.peek()
            && next.at <= end
            && let Some(Reverse(next)) = self.queue.pop()
        {
            self.now = self.now.max(next.at);
            self.steps += 1;
            *self.counts.entry(next.what.name()).or_default() += 1;
            self.happens(next.what);
            if self.steps > STEPS_MAX {
                self.complain(format!("more happens than two days could need: {:?}", self.counts));
            }
        }
        self.now = self.now.max(end);
    }

    pub(crate) fn at(&mut self, at: Time, what: Happening) {
        self.scheduled += 1;
        self.queue.push(Reverse(Scheduled { at, turn: self.scheduled, what }));
    }

    pub(crate) fn after_ms(&mut self, ms: u64, what: Happening) {
        self.at(self.now.plus(Duration::from_millis(ms)), what);
    }

    pub(crate) fn note(&mut self, what: impl FnOnce() -> String) {
        if self.trace_lines_max == 0 {
            return;
        }
        if self.trace.len() >= self.trace_lines_max {
            self.trace.pop_front();
        }
        let ms = self.now.since(super::START).as_millis();
        self.trace.push_back(format!("{:>7}.{:03} {}", ms / 1000, ms % 1000, short(&what())));
    }

    pub(crate) fn complain(&mut self, what: String) {
        self.note(|| what.clone());
        self.complaints.push(what);
    }

    pub(crate) fn name(&self, node: usize) -> String {
        let url = self.nodes.get(node).map_or("?", |node| node.url.as_str());
        url.trim_start_matches("wss://").trim_end_matches(".example").to_owned()
    }

    fn happens(&mut self, what: Happening) {
        match what {
            Happening::Wake { server, boot } => self.wakes(server, boot),
            Happening::Dialled { link } => self.dialled(link),
            Happening::Asked { link, word } => self.asked(link, word),
            Happening::Heard { link, frame } => self.heard(link, frame),
            Happening::Judged { server, boot, link, sub, copies } => {
                self.judged(server, boot, link, sub, &copies);
            }
            Happening::Impatient { link } => self.impatient(link),
            Happening::Drip { link, relay, sub } => self.drips(link, relay, sub),
            Happening::Lost { link, why } => self.loses(link, why),
            Happening::Gone { link, relay } => {
                self.nodes[relay].sessions.remove(&link);
            }
            Happening::Fed { server, boot, input } => self.tell_boot(server, boot, *input),
            Happening::Recorded { server, boot, relay, record } => {
                self.recorded(server, boot, relay, record);
            }
            Happening::ClockSeen { server, boot } => self.sees_clock(server, boot),
            Happening::GitArrived { server, repo } => self.git_arrived(server, &repo),
            Happening::Done(deed) => self.done(deed),
            Happening::Befalls(fault) => self.befalls(fault),
        }
    }
}

impl Happening {
    fn name(&self) -> &'static str {
        match self {
            Self::Wake { .. } => "wakes",
            Self::Dialled { .. } => "dials",
            Self::Asked { .. } => "questions",
            Self::Heard { frame: Frame::Events { .. }, .. } => "lots of events",
            Self::Heard { .. } => "answers",
            Self::Judged { .. } => "judgements",
            Self::Impatient { .. } => "silences",
            Self::Drip { .. } => "drips",
            Self::Lost { .. } | Self::Gone { .. } => "losses",
            Self::Fed { .. } => "feeds",
            Self::Recorded { .. } => "records",
            Self::ClockSeen { .. } => "looks at clocks",
            Self::GitArrived { .. } | Self::Done(_) | Self::Befalls(_) => "deeds",
        }
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Scheduled {}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.turn).cmp(&(other.at, other.turn))
    }
}

//! The promise behind all others: what was published while anything at all went wrong is here after
//! an hour of quiet, without the daily sync. One relay that tells the truth, has bounds, and breaks.

use super::kit::*;
use grasp_core::id::{PubKey, Signature};
use grasp_core::{Event, EventId, Filter, Kind, Tag};
use grasp_engine::{End, Input, Page, Peer, Settings, Sub, Tally};
use grasp_testkit::Random;
use grasp_testkit::world::Bench;
use grasp_testkit::world::names::{event_id, repo};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const REPOS: u64 = 9;
const ROOTS: u64 = 6;
/// Refusals after which we are still welcome.
const TEXTS: [&str; 4] =
    ["", "error: internal", "rate-limited: slow down", "error: too many concurrent REQs"];

struct Relay {
    net: Bench,
    random: Random,
    stored: Vec<Event>,
    delivered: BTreeSet<EventId>,
    /// Repositories that are not here at the moment: what comes about them is refused.
    gone: BTreeSet<u64>,
    /// What it was sent and has not looked at yet.
    waiting: BTreeMap<Sub, Sent>,
    /// Live subscriptions it has taken.
    live: BTreeMap<Sub, Vec<Filter>>,
    page_max: usize,
    filters_max: usize,
    subscriptions: u32,
    compares: bool,
    behaves: bool,
}

enum Sent {
    Listen(Vec<Filter>),
    Ask(Vec<Filter>),
    Compare(Filter),
}

impl Relay {
    fn seeded(seed: u64) -> Self {
        let mut random = Random::seeded(seed);
        let settings = Settings {
            values_per_filter_max: 1 + random.index(3),
            filters_before_repack: 10 + random.index(60),
            ..Settings::default()
        };
        let mut net = Bench::seeded(settings, seed);
        for n in 0..REPOS {
            net.announce(&name(n), &["one"]);
        }
        net.replayed();
        Self {
            net,
            stored: Vec::new(),
            delivered: BTreeSet::new(),
            gone: BTreeSet::new(),
            waiting: BTreeMap::new(),
            live: BTreeMap::new(),
            page_max: *random.pick(&[60, 100, 500]),
            filters_max: *random.pick(&[1, 2, 4, 10, 10, 10]),
            subscriptions: *random.pick(&[1, 2, 3, 5, 8, 20, 500]),
            compares: random.one_in(2),
            behaves: false,
            random,
        }
    }

    /// Somebody writes about a repository or a root.
    fn publishes(&mut self) {
        let n = u64::try_from(self.stored.len()).unwrap();
        let (letters, about, value) = match self.random.below(2) {
            0 => {
                let about = self.random.below(REPOS);
                (["a", "A", "q"], about, repo(&name(about)).coordinate().to_string())
            }
            _ => {
                let about = self.random.below(ROOTS);
                (["e", "E", "q"], about, root(about).to_hex())
            }
        };
        let letter = *self.random.pick(&letters);
        let event = Event {
            id: event_id(1_000_000 + n),
            pubkey: PubKey::from_bytes([9; 32]),
            created_at: self.net.now.timestamp(),
            kind: Kind(1111),
            tags: vec![Tag(vec![letter.to_owned(), value])],
            content: about.to_string(),
            sig: Signature::from_bytes([0; 64]),
        };
        if self.live.values().flatten().any(|filter| filter.matches(&event)) {
            self.takes(&event);
        }
        self.stored.push(event);
    }

    fn takes(&mut self, event: &Event) {
        let about: u64 = event.content.parse().unwrap();
        if !self.gone.contains(&about) {
            self.delivered.insert(event.id);
        }
    }

    /// A repository goes, or comes back with its root.
    fn goes_or_comes(&mut self, n: u64) {
        if self.gone.insert(n) {
            return self.net.withdraw(&name(n));
        }
        self.gone.remove(&n);
        self.net.announce(&name(n), &["one"]);
        if n < ROOTS {
            let repos = vec![repo(&name(n))];
            self.net.input(Input::Root { id: root(n), repos, serial: 100 + n });
        }
    }

    fn is_good(&mut self) -> bool {
        self.behaves || !self.random.one_in(12)
    }

    /// Gives out what matches, the newest first, so many for each filter.
    fn page(&mut self, filters: &[Filter]) -> Page {
        let mut page = Page::default();
        let mut came: BTreeMap<EventId, Event> = BTreeMap::new();
        for filter in filters {
            let newest = self.stored.iter().rev().filter(|it| filter.matches(it));
            let found: Vec<&Event> = match filter.limit {
                Some(0) => vec![],
                _ => newest.take(self.page_max).collect(),
            };
            let received = u32::try_from(found.len()).unwrap();
            page.tallies
                .push(Tally { received, oldest: found.iter().map(|it| it.created_at).min() });
            came.extend(found.into_iter().map(|it| (it.id, it.clone())));
        }
        let named = filters.iter().filter_map(|filter| filter.ids.as_ref()).flatten();
        page.missing = named.filter(|id| !came.contains_key(*id)).copied().collect();
        came.values().for_each(|event| self.takes(event));
        page
    }

    /// Takes what it was sent in the order in which it was sent, sometimes not all of it at once.
    fn step(&mut self) {
        if self.net.is_dialled("one") && self.is_good() {
            self.hears();
            self.waiting.clear();
            let subscriptions_max = Some(self.subscriptions);
            self.net.connect_with("one", Peer { subscriptions_max, ..Peer::default() });
        }
        self.hears();
        if !self.net.is_connected("one") {
            self.live.clear();
            self.waiting.clear();
        }
        while let Some((sub, sent)) = self.waiting.pop_first() {
            if self.random.one_in(4) {
                self.waiting.insert(sub, sent);
                return;
            }
            self.answers(sub, &sent);
            self.hears();
        }
    }

    fn hears(&mut self) {
        for (sub, filters) in self.net.listens("one") {
            if !self.live.contains_key(&sub) {
                self.waiting.insert(sub, Sent::Listen(filters.to_vec()));
            }
        }
        let requests = self.net.requests("one");
        self.waiting.extend(requests.iter().map(|it| (it.sub, Sent::Ask(it.filters.to_vec()))));
        let reconciles = self.net.reconciles("one");
        self.waiting.extend(reconciles.into_iter().map(|it| (it.sub, Sent::Compare(it.filter))));
        for closed in self.net.closes("one") {
            self.waiting.remove(&closed);
            self.live.remove(&closed);
        }
    }

    fn answers(&mut self, sub: Sub, sent: &Sent) {
        match sent {
            Sent::Listen(filters) | Sent::Ask(filters) if filters.len() > self.filters_max => {
                self.net.closed("one", sub, "max filter count exceeded");
            }
            Sent::Listen(_) | Sent::Ask(_) if !self.is_good() => self.refuses(sub),
            Sent::Listen(filters) => {
                let page = self.page(filters);
                self.live.insert(sub, filters.clone());
                self.net.listening("one", sub, page);
            }
            Sent::Ask(filters) => {
                let page = self.page(filters);
                self.net.completes("one", sub, page);
            }
            Sent::Compare(_) if !self.compares => self.net.ends("one", sub, End::NoNegentropy),
            Sent::Compare(filter) => {
                let theirs = self.stored.iter().filter(|it| filter.matches(it)).map(|it| it.id);
                let need = theirs.filter(|id| !self.delivered.contains(id)).collect();
                self.net.reconciled("one", sub, need);
            }
        }
    }

    fn refuses(&mut self, sub: Sub) {
        let text = TEXTS[self.random.index(TEXTS.len())];
        match self.random.one_in(4) {
            true if !self.live.contains_key(&sub) && !self.is_live(sub) => {
                self.net.ends("one", sub, End::Silent);
            }
            _ => self.net.closed("one", sub, text),
        }
    }

    fn is_live(&self, sub: Sub) -> bool {
        self.net.listens("one").iter().any(|(live, _)| *live == sub)
    }

    /// Something breaks, now and then.
    fn breaks(&mut self) {
        match self.random.below(250) {
            0 => {
                self.live.clear();
                self.waiting.clear();
                self.net.fails("one");
            }
            1 => {
                self.live.clear();
                self.waiting.clear();
                let pause = Duration::from_secs(self.random.below(20 * 60));
                self.net.restart_after(pause);
            }
            2 if self.net.is_connected("one") => self.net.says_slow_down("one"),
            3 | 4 => {
                let live: Vec<Sub> = self.live.keys().copied().collect();
                if !live.is_empty() {
                    let sub = *self.random.pick(&live);
                    self.live.remove(&sub);
                    self.refuses(sub);
                }
            }
            5 => {
                let n = self.random.below(REPOS);
                if self.gone.contains(&n) || self.gone.len() < 4 {
                    self.goes_or_comes(n);
                }
            }
            _ => {}
        }
    }

    fn lives(&mut self, steps: u64, troubled: bool) {
        self.behaves = !troubled;
        for _ in 0..steps {
            if troubled {
                self.breaks();
                if self.random.one_in(3) {
                    self.publishes();
                }
            }
            self.step();
            let pause = 200 + self.random.below(10_000);
            self.net.elapse(Duration::from_millis(pause));
        }
    }
}

fn name(n: u64) -> String {
    format!("repo{n}")
}

fn root(n: u64) -> EventId {
    event_id(500_000 + n)
}

#[test]
fn nothing_that_was_published_is_missed_whatever_breaks() {
    for seed in 1..=30 {
        let mut relay = Relay::seeded(seed);
        for n in 0..ROOTS {
            relay.net.root(500_000 + n, &name(n));
        }
        relay.lives(3_000, true);
        for n in relay.gone.clone() {
            relay.goes_or_comes(n);
        }
        relay.lives(1_500, false);
        let missed: Vec<&Event> =
            relay.stored.iter().filter(|it| !relay.delivered.contains(&it.id)).collect();
        let first = missed.first().map(|it| (it.created_at, &it.tags));
        let seen = view(&relay.net, "one");
        assert!(missed.is_empty(), "seed {seed}: {} missed, first {first:?}; {seen}", missed.len());
    }
}

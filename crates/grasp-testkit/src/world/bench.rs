//! One engine on a bench, its relays played by hand: say what happens, let time pass, look at what
//! it does. Every action passes the `Watch`, so each story also checks limits, pace and deadlines.

use super::names::{event_id, relay, repo};
use super::watch::Watch;
use grasp_core::{EventId, Filter, RelayUrl, RepoId, Time, Timestamp, WallOffset};
use grasp_engine::{
    Action, Doubt, End, Engine, Errand, Input, Level, Loss, News, Page, Peer, Reconciliation,
    Record, Settings, Sub, Tally,
};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Every story starts here.
pub const START: Time = Time::from_secs(1_700_000_000);

#[derive(Debug)]
pub struct Bench {
    pub engine: Engine,
    pub now: Time,
    pub(super) settings: Settings,
    pub(super) watch: Watch,
    pub(super) desks: BTreeMap<RelayUrl, Desk>,
    pub(super) news: Vec<News>,
    pub(super) serial: u64,
    /// What a restart replays, by serial.
    pub(super) past: BTreeMap<u64, Input>,
    pub(super) records: BTreeMap<RelayUrl, Record>,
    pub(super) dials: Vec<(Time, RelayUrl)>,
}

/// What one relay has been asked.
#[derive(Debug, Default)]
pub(super) struct Desk {
    pub(super) dialling: bool,
    pub(super) connected: bool,
    pub(super) listens: BTreeMap<Sub, Arc<[Filter]>>,
    pub(super) open_requests: BTreeMap<Sub, Asked>,
    pub(super) open_reconciles: BTreeMap<Sub, Compared>,
    pub(super) new_requests: Vec<Asked>,
    pub(super) new_reconciles: Vec<Compared>,
    pub(super) new_listens: Vec<(Sub, Arc<[Filter]>)>,
    pub(super) closes: Vec<Sub>,
    pub(super) abandoned: Vec<Sub>,
    pub(super) hangups: usize,
    pub(super) authentications: usize,
    pub(super) doubts: Vec<(Time, RepoId, Doubt)>,
    pub(super) standings: Vec<RepoId>,
}

/// A question that ends by itself.
#[derive(Debug, Clone)]
pub struct Asked {
    pub sub: Sub,
    pub filters: Arc<[Filter]>,
    pub errand: Errand,
    pub at: Time,
}

/// A reconciliation.
#[derive(Debug, Clone)]
pub struct Compared {
    pub sub: Sub,
    pub filter: Filter,
    pub errand: Errand,
    pub answer_within: Option<Duration>,
    pub at: Time,
}

impl Bench {
    pub fn new(settings: Settings) -> Self {
        Self::seeded(settings, 1)
    }

    /// Stories about something else are not disturbed by how a relay stands.
    pub fn seeded(mut settings: Settings, seed: u64) -> Self {
        settings.verdict_age_max = Duration::ZERO;
        Self::verifying(settings, seed)
    }

    pub fn verifying(settings: Settings, seed: u64) -> Self {
        Self {
            engine: Engine::new(settings.clone(), seed),
            now: START,
            watch: Watch::new(settings.clone()),
            settings,
            desks: BTreeMap::new(),
            news: vec![],
            serial: 0,
            past: BTreeMap::new(),
            records: BTreeMap::new(),
            dials: vec![],
        }
    }

    /// A running server that follows repositories on relays: pairs of (relay, repository).
    pub fn tracking<const N: usize>(pairs: [(&str, &str); N]) -> Self {
        let mut bench = Self::new(Settings::default());
        let mut repos: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (relay, repo) in pairs {
            repos.entry(repo).or_default().push(relay);
        }
        for (repo, relays) in repos {
            bench.announce(repo, &relays);
        }
        bench.replayed();
        bench
    }

    // What the feed tells.

    /// A served repository; a second announcement replaces the first.
    pub fn announce(&mut self, name: &str, relays: &[&str]) {
        self.announce_at(name, relays, Level::Full);
    }

    /// A repository that waits for its git data.
    pub fn announce_held(&mut self, name: &str, relays: &[&str]) {
        self.announce_at(name, relays, Level::StateOnly);
    }

    fn announce_at(&mut self, name: &str, relays: &[&str], level: Level) {
        let serial = self.next_serial();
        let relays = relays.iter().map(|name| relay(name)).collect();
        let input = Input::Announced { repo: repo(name), relays, level, serial };
        self.past.retain(
            |_, old| !matches!(old, Input::Announced { repo: old, .. } if *old == repo(name)),
        );
        self.past.insert(serial, input.clone());
        self.input(input);
    }

    pub fn withdraw(&mut self, name: &str) {
        self.past.retain(
            |_, old| !matches!(old, Input::Announced { repo: old, .. } if *old == repo(name)),
        );
        self.input(Input::Withdrawn(repo(name)));
    }

    /// Root number `n` of one repository.
    pub fn root(&mut self, n: u64, name: &str) {
        self.root_of(n, &[name]);
    }

    /// A root that names several repositories.
    pub fn root_of(&mut self, n: u64, names: &[&str]) {
        let serial = self.next_serial();
        let repos = names.iter().map(|name| repo(name)).collect();
        let input = Input::Root { id: event_id(n), repos, serial };
        self.past.insert(serial, input.clone());
        self.input(input);
    }

    pub fn replayed(&mut self) {
        self.input(Input::Replayed);
    }

    /// What an earlier run knew of a relay.
    pub fn recall(&mut self, name: &str, record: Record) {
        self.records.insert(relay(name), record.clone());
        self.input(Input::Recalled { relay: relay(name), record: Box::new(record) });
    }

    /// The process ends without warning and starts again after `pause`: only what the feed tells
    /// again and what was remembered is left.
    pub fn restart_after(&mut self, pause: Duration) {
        self.now = self.now.plus(pause);
        self.engine = Engine::new(self.settings.clone(), self.now.0);
        self.watch.restarts();
        self.desks.clear();
        for (relay, record) in self.records.clone() {
            self.input(Input::Recalled { relay, record: Box::new(record) });
        }
        // As the feed tells it: repositories first, so that each root finds those it belongs to.
        let is_root = |input: &Input| matches!(input, Input::Root { .. });
        let (roots, repos): (Vec<Input>, Vec<Input>) =
            self.past.clone().into_values().partition(is_root);
        for input in repos.into_iter().chain(roots) {
            self.input(input);
        }
        self.replayed();
    }

    // What relays do.

    pub fn connect(&mut self, name: &str) {
        self.connect_with(name, Peer::default());
    }

    /// Waits until the relay is dialled, and lets it answer.
    pub fn connect_with(&mut self, name: &str, peer: Peer) {
        self.connect_at(name, peer, None);
    }

    /// Likewise, at this network address.
    pub fn connect_at(&mut self, name: &str, peer: Peer, address: Option<IpAddr>) {
        let give_up = self.now.plus(Duration::from_secs(60));
        while !self.is_dialled(name) {
            assert!(self.now < give_up, "{name} is not dialled within a minute");
            self.elapse(Duration::from_millis(50));
        }
        let relay = relay(name);
        let desk = self.desks.entry(relay.clone()).or_default();
        desk.dialling = false;
        desk.connected = true;
        self.input(Input::Connected { relay, peer, address });
    }

    /// The link ends, or the dial fails.
    pub fn lose(&mut self, name: &str, why: Loss) {
        let relay = relay(name);
        self.desks.entry(relay.clone()).or_default().forgets();
        self.input(Input::Lost { relay, why });
    }

    pub fn fails(&mut self, name: &str) {
        self.lose(name, Loss::Failed("connection refused".to_owned()));
    }

    /// EOSE of a live subscription.
    pub fn listening(&mut self, name: &str, sub: Sub, page: Page) {
        self.input(Input::Listening { relay: relay(name), sub, page });
    }

    pub fn completes(&mut self, name: &str, sub: Sub, page: Page) {
        self.ends(name, sub, End::Complete(page));
    }

    pub fn closed(&mut self, name: &str, sub: Sub, text: &str) {
        self.ends(name, sub, End::Closed(text.to_owned()));
    }

    pub fn reconciled(&mut self, name: &str, sub: Sub, need: Vec<EventId>) {
        self.ends(name, sub, End::Reconciled(Reconciliation { need, ..Default::default() }));
    }

    /// Both sides are compared, nothing differs, and these it may be asked for.
    pub fn reconciled_saying(&mut self, name: &str, sub: Sub, sample: Vec<EventId>) {
        self.ends(name, sub, End::Reconciled(Reconciliation { sample, ..Default::default() }));
    }

    /// Both sides are compared: so many of ours they lack.
    pub fn reconciled_lacking(&mut self, name: &str, sub: Sub, lacking: usize) {
        self.ends(name, sub, End::Reconciled(Reconciliation { lacking, ..Default::default() }));
    }

    pub fn ends(&mut self, name: &str, sub: Sub, end: End) {
        let relay = relay(name);
        let desk = self.desks.entry(relay.clone()).or_default();
        desk.drops(sub);
        self.input(Input::Ended { relay, sub, end });
    }

    pub fn says(&mut self, name: &str, text: &str) {
        self.input(Input::Notice { relay: relay(name), text: text.to_owned() });
    }

    pub fn says_slow_down(&mut self, name: &str) {
        self.says(name, "rate limited: too many queries, slow down");
    }

    pub fn authenticated(&mut self, name: &str, ok: bool) {
        self.input(Input::Authenticated { relay: relay(name), ok });
    }

    /// Answers all that is open on this relay as one that has nothing new: live subscriptions that
    /// were not told yet are, questions end empty, reconciliations find nothing missing.
    pub fn answers_all(&mut self, name: &str) -> usize {
        let Some(desk) = self.desks.get_mut(&relay(name)) else { return 0 };
        let listens = std::mem::take(&mut desk.new_listens);
        let requests: Vec<Asked> = desk.open_requests.values().cloned().collect();
        let reconciles: Vec<Sub> = desk.open_reconciles.keys().copied().collect();
        desk.new_requests.clear();
        desk.new_reconciles.clear();
        let answered = listens.len() + requests.len() + reconciles.len();
        for (sub, filters) in listens {
            if self.is_open(name, sub) {
                self.listening(name, sub, empty_page(filters.len()));
            }
        }
        for asked in requests {
            if self.is_open(name, asked.sub) {
                self.completes(name, asked.sub, empty_page(asked.filters.len()));
            }
        }
        for sub in reconciles {
            if self.is_open(name, sub) {
                self.reconciled(name, sub, vec![]);
            }
        }
        answered
    }

    /// Answers everything until nothing was asked for a minute.
    pub fn settle(&mut self, name: &str) {
        let mut quiet = Duration::ZERO;
        let step = Duration::from_millis(500);
        while quiet < Duration::from_secs(60) {
            quiet = if self.answers_all(name) > 0 { Duration::ZERO } else { quiet + step };
            self.elapse(step);
        }
    }

    // Time.

    /// The wall clock is set so far ahead of the engine's own, and the engine's driver looks at it.
    pub fn set_wall_ahead(&mut self, ahead_ms: i64) {
        self.input(Input::WallClock(WallOffset(ahead_ms)));
    }

    /// Lets time pass; every deadline on the way is met, in order.
    pub fn elapse(&mut self, time: Duration) {
        let end = self.now.plus(time);
        let mut wakes = 0;
        while let Some((at, why)) = self.engine.next_deadline()
            && at <= end
        {
            wakes = if at > self.now { 0 } else { wakes + 1 };
            assert!(wakes < 1_000, "the engine wants to be woken without an end: {why}");
            self.now = self.now.max(at);
            self.engine.handle_deadline(self.now);
            self.carry_out();
        }
        self.now = end;
    }

    pub fn input(&mut self, input: Input) {
        self.watch.hears(&input, self.now);
        self.engine.handle(input, self.now);
        self.carry_out();
    }

    fn carry_out(&mut self) {
        let mut actions = 0;
        while let Some(action) = self.engine.poll_action() {
            actions += 1;
            assert!(actions < 1_000_000, "the engine does not stop acting");
            if let Err(complaint) = self.watch.sees(&action, self.now) {
                panic!("{complaint}, by {action:?}");
            }
            self.notes(action);
        }
        let overdue = self.watch.deadline(self.engine.next_deadline(), self.now);
        assert_eq!(overdue, Ok(()), "deadline");
    }

    fn notes(&mut self, action: Action) {
        let (now, url) = (self.now, action.relay().clone());
        let desk = self.desks.entry(url.clone()).or_default();
        match action {
            Action::Connect(_) => {
                desk.dialling = true;
                self.dials.push((now, url));
            }
            Action::Hangup(_) => {
                desk.forgets();
                desk.hangups += 1;
            }
            Action::Listen { sub, filters, .. } => {
                desk.listens.insert(sub, filters.clone());
                desk.new_listens.push((sub, filters));
            }
            Action::Request { sub, filters, errand, .. } => {
                let asked = Asked { sub, filters, errand, at: now };
                desk.open_requests.insert(sub, asked.clone());
                desk.new_requests.push(asked);
            }
            Action::Reconcile { sub, filter, errand, answer_within, .. } => {
                let compared = Compared { sub, filter, errand, answer_within, at: now };
                desk.open_reconciles.insert(sub, compared.clone());
                desk.new_reconciles.push(compared);
            }
            Action::Close { sub, .. } => {
                desk.drops(sub);
                desk.closes.push(sub);
            }
            Action::Abandon { sub, .. } => {
                desk.drops(sub);
                desk.abandoned.push(sub);
            }
            Action::Authenticate(_) => desk.authentications += 1,
            Action::Remember(_) => {
                if let Some(record) = self.engine.record(&url, now) {
                    self.records.insert(url, record);
                }
            }
            Action::Forget(_) => {
                self.records.remove(&url);
            }
            Action::Stands { repos, .. } => desk.standings.extend(repos),
            Action::Doubt { repos, doubt, .. } => {
                desk.doubts.extend(repos.into_iter().map(|repo| (now, repo, doubt)));
            }
            Action::Tell(news) => self.news.push(news),
        }
    }

    pub(super) fn desk(&mut self, name: &str) -> Option<&mut Desk> {
        self.desks.get_mut(&relay(name))
    }

    fn is_open(&self, name: &str, sub: Sub) -> bool {
        self.desks.get(&relay(name)).is_some_and(|desk| {
            desk.listens.contains_key(&sub)
                || desk.open_requests.contains_key(&sub)
                || desk.open_reconciles.contains_key(&sub)
        })
    }

    fn next_serial(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }
}

impl Desk {
    fn forgets(&mut self) {
        self.dialling = false;
        self.connected = false;
        self.listens.clear();
        self.open_requests.clear();
        self.open_reconciles.clear();
        self.new_listens.clear();
    }

    fn drops(&mut self, sub: Sub) {
        self.listens.remove(&sub);
        self.open_requests.remove(&sub);
        self.open_reconciles.remove(&sub);
    }
}

/// Nothing came, for so many filters.
pub fn empty_page(filters: usize) -> Page {
    Page { tallies: vec![Tally::default(); filters], ..Page::default() }
}

/// The same tally for each of so many filters.
pub fn full_page(filters: usize, received: u32, oldest: Timestamp) -> Page {
    let tally = Tally { received, oldest: Some(oldest) };
    let bytes = u64::from(received) * 400;
    Page { tallies: vec![tally; filters], bytes, ..Page::default() }
}

//! Words the stories share: short names for settings, filters and relays that follow simple rules.

use grasp_core::{EventId, Filter, Timestamp};
use grasp_engine::{Peer, RelayView, Settings, Sub};
use grasp_testkit::world::names::{event_id, relay, repo};
use grasp_testkit::world::{Asked, Bench, Compared, empty_page};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_secs(60);
pub(super) const HOUR: Duration = Duration::from_secs(3600);
pub(super) const DAY: Duration = Duration::from_secs(24 * 3600);
/// What a short absence is, and how far a resumption reaches back.
pub(super) const RESUME_SECS: u64 = 15 * 60;

/// Every repository and every root is a group of its own.
pub(super) fn tiny_filters() -> Settings {
    Settings { values_per_filter_max: 1, ..Settings::default() }
}

pub(super) fn pages_only() -> Settings {
    Settings { negentropy: false, ..Settings::default() }
}

pub(super) fn allowing(subscriptions: u32) -> Peer {
    Peer { subscriptions_max: Some(subscriptions), ..Peer::default() }
}

/// A relay that says in NIP-11 that it does not speak NIP-77.
pub(super) fn without_nip77() -> Peer {
    Peer { nip77: Some(false), ..Peer::default() }
}

/// Served repositories, each on one relay, told as the past of a server that starts.
pub(super) fn following(settings: Settings, repos: &[String], on: &str) -> Bench {
    let mut net = Bench::new(settings);
    for name in repos {
        net.announce(name, &[on]);
    }
    net.replayed();
    net
}

pub(super) fn named(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("repo{n}")).collect()
}

/// A relay that is linked and has confirmed everything.
pub(super) fn settled(pairs: &[(&str, &str)]) -> Bench {
    let mut net = Bench::new(Settings::default());
    let mut repos: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (relay, repo) in pairs {
        repos.entry(repo).or_default().push(relay);
    }
    for (repo, relays) in repos {
        net.announce(repo, &relays);
    }
    net.replayed();
    let relays: BTreeSet<&str> = pairs.iter().map(|(relay, _)| *relay).collect();
    for relay in &relays {
        net.connect(relay);
    }
    for relay in relays {
        net.settle(relay);
    }
    net
}

pub(super) fn view(net: &Bench, name: &str) -> RelayView {
    net.engine.relay_view(&relay(name), net.now).unwrap()
}

pub(super) fn ids(range: std::ops::Range<u64>) -> Vec<EventId> {
    range.map(event_id).collect()
}

pub(super) fn secs_ago(net: &Bench, secs: u64) -> Timestamp {
    Timestamp(net.now.timestamp().0 - secs)
}

// ---- filters

/// Does any of these ask about this repository, by any letter?
pub(super) fn about(filters: &[Filter], name: &str) -> bool {
    let wanted = repo(name).coordinate().to_string();
    filters.iter().any(|filter| filter.tags.values().flatten().any(|value| *value == wanted))
}

pub(super) fn about_root(filters: &[Filter], n: u64) -> bool {
    let wanted = event_id(n).to_hex();
    filters.iter().any(|filter| filter.tags.values().flatten().any(|value| *value == wanted))
}

/// All values that are asked for under a letter.
pub(super) fn values(filters: &[Filter], letter: u8) -> BTreeSet<String> {
    let lists = filters.iter().filter_map(|filter| filter.tags.get(&letter));
    lists.flatten().cloned().collect()
}

/// Is a repository heard live on a relay, whichever way it is referred to?
pub(super) fn hears(net: &Bench, on: &str, name: &str) -> bool {
    let (live, wanted) = (net.live_filters(on), repo(name).coordinate().to_string());
    b"aAq".iter().all(|letter| values(&live, *letter).contains(&wanted))
}

pub(super) fn hears_root(net: &Bench, on: &str, n: u64) -> bool {
    let (live, wanted) = (net.live_filters(on), event_id(n).to_hex());
    b"eEq".iter().all(|letter| values(&live, *letter).contains(&wanted))
}

pub(super) fn hears_layer_one(net: &Bench, on: &str) -> bool {
    let kinds = |filter: &Filter| match filter.tags.is_empty() {
        true => filter.kinds.clone().unwrap_or_default(),
        false => [].into(),
    };
    let live = net.live_filters(on);
    let kinds: BTreeSet<u16> =
        live.iter().flat_map(|filter| Vec::from(kinds(filter))).map(|kind| kind.0).collect();
    kinds == BTreeSet::from([30_617, 30_618])
}

// ---- history

/// Every filter of the past that was asked about since the last look, in the order of asking.
pub(super) fn history(net: &mut Bench, on: &str) -> Vec<Filter> {
    let mut asked: Vec<(Sub, Vec<Filter>)> = Vec::new();
    asked.extend(net.requests(on).into_iter().map(|it| (it.sub, it.filters.to_vec())));
    asked.extend(net.reconciles(on).into_iter().map(|it| (it.sub, vec![it.filter])));
    asked.sort_by_key(|(sub, _)| *sub);
    asked.into_iter().flat_map(|(_, filters)| filters).collect()
}

/// The one question asked since the last look.
pub(super) fn request(net: &mut Bench, on: &str) -> Asked {
    let mut requests = net.requests(on);
    assert_eq!(requests.len(), 1, "{on} is asked one question");
    requests.remove(0)
}

pub(super) fn reconcile(net: &mut Bench, on: &str) -> Compared {
    let mut reconciles = net.reconciles(on);
    assert_eq!(reconciles.len(), 1, "{on} is compared with once");
    reconciles.remove(0)
}

/// Answers as a relay that has nothing new until nothing was asked for two minutes; returns every
/// filter of the past that was asked about.
pub(super) fn drained(net: &mut Bench, on: &str) -> Vec<Filter> {
    let mut asked = history(net, on);
    let mut quiet = Duration::ZERO;
    while quiet < 2 * MINUTE {
        quiet = if net.answers_all(on) > 0 { Duration::ZERO } else { quiet + SECOND };
        net.elapse(SECOND);
        asked.extend(history(net, on));
    }
    asked
}

/// Answers likewise, and returns the filters that ask for what was missed since some moment.
pub(super) fn gap(net: &mut Bench, on: &str) -> Vec<Filter> {
    drained(net, on).into_iter().filter(|it| it.since.is_some()).collect()
}

/// Answers as a relay that has nothing new, for so long.
pub(super) fn answers_for(net: &mut Bench, on: &[&str], time: Duration) {
    let end = net.now.plus(time);
    while net.now < end {
        for name in on {
            net.answers_all(name);
        }
        net.elapse(SECOND);
    }
}

/// Compares and confirms layer 1; what comes next is open.
pub(super) fn layer_one_confirmed(net: &mut Bench, on: &str) {
    for _ in 0..2 {
        let first = reconcile(net, on);
        net.reconciled(on, first.sub, vec![]);
    }
}

// ---- relays with rules

/// A relay that has nothing new to tell, and rules of its own.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    pub(super) filters_max: usize,
    pub(super) too_many_filters: &'static str,
    pub(super) open_max: usize,
    pub(super) too_many_open: &'static str,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            filters_max: usize::MAX,
            too_many_filters: "error: invalid number of filters: 12",
            open_max: usize::MAX,
            too_many_open: "error: too many concurrent REQs",
        }
    }
}

/// One conversation with such a relay.
#[derive(Debug, Default)]
pub(super) struct Played {
    rules: Rules,
    open: BTreeSet<Sub>,
    /// Sizes of the requests in the order in which they came.
    pub(super) sizes: Vec<usize>,
    pub(super) refused: usize,
}

impl Played {
    pub(super) fn by(rules: Rules) -> Self {
        Self { rules, ..Self::default() }
    }

    pub(super) fn plays(&mut self, net: &mut Bench, on: &str, time: Duration) {
        let end = net.now.plus(time);
        while net.now < end {
            while self.round(net, on) {}
            net.elapse(SECOND / 2);
        }
    }

    /// Everything that was sent is looked at in order, and then answered.
    fn round(&mut self, net: &mut Bench, on: &str) -> bool {
        let listens = net.listens(on);
        let (requests, reconciles) = (net.requests(on), net.reconciles(on));
        self.open.retain(|sub| listens.iter().any(|(live, _)| live == sub));
        let mut came: Vec<(Sub, usize)> = listens
            .iter()
            .filter(|(sub, _)| !self.open.contains(sub))
            .map(|(sub, filters)| (*sub, filters.len()))
            .collect();
        let stays: BTreeSet<Sub> = came.iter().map(|(sub, _)| *sub).collect();
        came.extend(requests.iter().map(|it| (it.sub, it.filters.len())));
        came.extend(reconciles.iter().map(|it| (it.sub, 1)));
        came.sort_unstable();
        let (mut taken, mut refused) = (Vec::new(), Vec::new());
        for (sub, filters) in came {
            self.sizes.push(filters);
            if filters > self.rules.filters_max {
                refused.push((sub, self.rules.too_many_filters));
            } else if self.open.len() >= self.rules.open_max {
                refused.push((sub, self.rules.too_many_open));
            } else {
                self.open.insert(sub);
                taken.push((sub, filters));
            }
        }
        let any = !taken.is_empty() || !refused.is_empty();
        self.refused += refused.len();
        for (sub, text) in refused {
            net.closed(on, sub, text);
        }
        for (sub, filters) in taken {
            if stays.contains(&sub) {
                net.listening(on, sub, empty_page(filters));
                continue;
            }
            self.open.remove(&sub);
            match reconciles.iter().any(|it| it.sub == sub) {
                true => net.reconciled(on, sub, vec![]),
                false => net.completes(on, sub, empty_page(filters)),
            }
        }
        any
    }
}

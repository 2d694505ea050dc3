//! Promises that hold whatever happens: nothing overdue, no limit exceeded (the watch looks), the
//! same story for the same inputs, and after quiet everything confirmed.

use super::kit::*;
use grasp_core::{Filter, Timestamp};
use grasp_engine::{End, Hint, Loss, Page, Peer, Reconciliation, RelayView, Settings, Tally};
use grasp_testkit::Random;
use grasp_testkit::world::names::{event_id, relay};
use grasp_testkit::world::{Asked, Bench, empty_page, full_page};
use std::time::Duration;

const RELAYS: [&str; 4] = ["one", "two", "three", "four"];
const TEXTS: [&str; 8] = [
    "",
    "error: internal",
    "rate-limited: slow down",
    "invalid number of filters",
    "error: too many concurrent REQs",
    "active subscriptions exceed max size 9 bytes",
    "auth-required: x",
    "blocked: x",
];

/// A day or two among relays that do anything at all; what was done comes back as lines.
fn lives(seed: u64, steps: u64) -> (Bench, Vec<String>) {
    let mut random = Random::seeded(seed);
    let settings = Settings { values_per_filter_max: 3, links_max: 3, ..Settings::default() };
    let mut net = Bench::seeded(settings, seed);
    net.announce("first", &RELAYS);
    net.replayed();
    let mut lines = Vec::new();
    for step in 0..steps {
        happens(&mut net, &mut random, step);
        for name in RELAYS {
            does(&mut net, &mut random, name, &mut lines);
        }
        net.elapse(Duration::from_millis(random.below(20_000)));
        lines.extend(net.news().into_iter().map(|it| format!("{:?} {it:?}", net.now)));
    }
    (net, lines)
}

fn happens(net: &mut Bench, random: &mut Random, step: u64) {
    let repo = format!("repo{}", random.below(12));
    let listed: Vec<&str> = RELAYS.into_iter().filter(|_| random.one_in(2)).collect();
    match random.below(12) {
        0..=2 => net.announce(&repo, &listed),
        3 => net.announce_held(&repo, &listed),
        4 => net.withdraw(&repo),
        5..=8 => net.root(step, &repo),
        9 => net.root_of(step, &[&repo, "first"]),
        _ => {}
    }
}

fn does(net: &mut Bench, random: &mut Random, name: &str, lines: &mut Vec<String>) {
    if net.is_dialled(name) && random.one_in(2) {
        if random.one_in(4) {
            return net.fails(name);
        }
        let allowed = *random.pick(&[None, Some(1), Some(3), Some(30)]);
        let peer = Peer { subscriptions_max: allowed, grasp: random.one_in(3), ..Peer::default() };
        net.connect_with(name, peer);
    }
    if !net.is_connected(name) {
        return;
    }
    match random.below(60) {
        0 => return net.lose(name, Loss::Failed("gone".to_owned())),
        1 => return net.lose(name, Loss::Crowded),
        2 => net.says_slow_down(name),
        3 => net.says(name, "unknown envelope"),
        4 => net.authenticated(name, random.one_in(2)),
        5 => {
            let listens = net.listens(name);
            if !listens.is_empty() {
                let (sub, _) = random.pick(&listens).clone();
                let text: &str = TEXTS[random.index(TEXTS.len())];
                net.closed(name, sub, text);
            }
        }
        _ => {}
    }
    for asked in net.requests(name) {
        lines.push(format!("{:?} {name} {asked:?}", net.now));
        let count = asked.filters.len();
        let end = match random.below(20) {
            0 => End::Silent,
            1 => End::Closed(TEXTS[random.index(TEXTS.len())].to_owned()),
            2 => End::Flood(some_page(&asked, 50_001, random)),
            3 => continue,
            4 => End::Complete(Page { hint: Some(Hint::More), ..empty_page(count) }),
            5..=9 => End::Complete(some_page(&asked, 500, random)),
            10 => End::Complete(Page {
                missing: asked.filters[0].ids.clone().unwrap_or_default().to_vec(),
                ..empty_page(count)
            }),
            _ => End::Complete(empty_page(count)),
        };
        net.ends(name, asked.sub, end);
    }
    for asked in net.reconciles(name) {
        lines.push(format!("{:?} {name} {asked:?}", net.now));
        let need = (0..random.below(50)).map(event_id).collect();
        let end = match random.below(12) {
            0 => End::Silent,
            1 => End::NoNegentropy,
            2 => End::NegentropyFailed(TEXTS[random.index(TEXTS.len())].to_owned()),
            3 => continue,
            _ => End::Reconciled(Reconciliation { need, ..Default::default() }),
        };
        net.ends(name, asked.sub, end);
    }
    for (sub, filters) in net.listens(name) {
        lines.push(format!("{name} {sub:?} {filters:?}"));
        if random.one_in(2) {
            net.listening(name, sub, full_page(filters.len(), 3, net.now.timestamp()));
        }
    }
}

/// Events within the time that was asked for.
fn some_page(asked: &Asked, received: u32, random: &mut Random) -> Page {
    let tally = |filter: &Filter| {
        let from = filter.since.map_or(1_600_000_000, |it| it.0);
        let to = filter.until.map_or(1_700_000_000, |it| it.0).max(from);
        Tally { received, oldest: Some(Timestamp(from + random.below(to - from + 1))) }
    };
    let tallies = asked.filters.iter().map(tally).collect();
    Page { tallies, bytes: 400 * u64::from(received), ..Page::default() }
}

#[test]
fn the_same_inputs_give_the_same_actions() {
    for seed in 1..=3 {
        let (_, first) = lives(seed, 400);
        let (_, second) = lives(seed, 400);
        assert!(first.len() > 400);
        assert_eq!(first, second, "seed {seed}");
    }
}

#[test]
fn no_limit_is_exceeded_and_no_deadline_overdue_whatever_relays_do() {
    // The bench asserts both after every single step.
    for seed in 100..140 {
        lives(seed, 300);
    }
}

#[test]
fn after_quiet_everything_is_confirmed() {
    for seed in 200..208 {
        let (mut net, _) = lives(seed, 300);
        // From now on all of them behave; what was paused is asked again after a day.
        behaves(&mut net, 25 * 60, MINUTE);
        let open = behaves(&mut net, 2 * 3600, SECOND);
        assert_eq!(open, Vec::<&str>::new(), "seed {seed}: never complete within two hours");
    }
}

/// Answers as often as said; returns the relays that were not complete at any time. There are more
/// relays than links, so they take turns.
fn behaves(net: &mut Bench, times: u64, step: Duration) -> Vec<&'static str> {
    let mut open: Vec<&str> = RELAYS.to_vec();
    for _ in 0..times {
        for name in RELAYS {
            if net.is_dialled(name) {
                net.connect(name);
            }
            if net.authentications(name) > 0 {
                net.authenticated(name, true);
            }
            net.answers_all(name);
        }
        net.elapse(step);
        open.retain(|name| {
            let seen = net.engine.relay_view(&relay(name), net.now);
            let done = |it: RelayView| it.connected && it.missing + it.pending == 0;
            !seen.is_none_or(done)
        });
    }
    open
}

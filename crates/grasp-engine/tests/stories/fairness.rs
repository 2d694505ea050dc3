//! Section 5: no relay, repository or batch makes another one wait (S-24).

use super::kit::*;
use grasp_core::{Time, Timestamp};
use grasp_engine::{End, Settings};
use grasp_testkit::world::{Bench, empty_page, full_page};

/// Two relays, and only one may be asked for history at a time.
fn one_turn() -> Bench {
    let settings = Settings { turns_max: 1, ..pages_only() };
    let mut net = Bench::new(settings);
    net.announce("acme", &["one", "two"]);
    net.replayed();
    net.connect("one");
    net.connect("two");
    net
}

#[test]
fn s24_a_silent_relay_does_not_keep_others_history_waiting() {
    let mut net = one_turn();
    assert_eq!((net.requests("one").len(), net.requests("two").len()), (1, 0), "one has the turn");
    net.elapse(2 * SECOND);
    assert_eq!(net.requests("two").len(), 1, "and shows no progress");
    for _ in 0..60 {
        net.answers_all("two");
        net.elapse(SECOND);
    }
    assert_eq!(view(&net, "two").confirmed, 3);
    assert_eq!(view(&net, "one").confirmed, 0);
}

#[test]
fn s24_a_relay_that_brings_very_much_lets_others_go_first() {
    let mut net = one_turn();
    let first = request(&mut net, "one");
    net.completes("one", first.sub, full_page(1, 30_000, Timestamp(9_000)));
    let second = request(&mut net, "one");
    assert_eq!(net.requests("two").len(), 0);
    net.completes("one", second.sub, full_page(1, 30_000, Timestamp(8_000)));
    assert_eq!(net.requests("two").len(), 1, "fifty thousand events are a turn");
}

#[test]
fn s24_a_relay_that_brings_very_large_events_lets_others_go_first() {
    let mut net = one_turn();
    let large = |oldest: u64| grasp_engine::Page {
        bytes: 40 << 20,
        ..full_page(1, 500, Timestamp(oldest))
    };
    let first = request(&mut net, "one");
    net.completes("one", first.sub, large(9_000));
    let second = request(&mut net, "one");
    assert_eq!(net.requests("two").len(), 0);
    net.completes("one", second.sub, large(8_000));
    assert_eq!(net.requests("two").len(), 1, "64 MiB are a turn");
}

#[test]
fn s24_every_relay_gets_its_turn() {
    let settings = Settings { turns_max: 2, ..pages_only() };
    let names: Vec<String> = (0..12).map(|n| format!("r{n}")).collect();
    let list: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut net = Bench::new(settings);
    net.announce("acme", &list);
    net.replayed();
    for name in &list {
        net.connect(name);
    }
    // A third of them never answer.
    let answering: Vec<&str> = list.iter().copied().skip(4).collect();
    answers_for(&mut net, &answering, 3 * MINUTE);
    for name in answering {
        assert_eq!(view(&net, name).confirmed, 3, "{name}");
    }
}

#[test]
fn s24_a_batch_that_always_fails_does_not_starve_the_others() {
    let settings = Settings { negentropy: false, ..tiny_filters() };
    let mut net = following(settings, &named(30), "one");
    net.connect_with("one", allowing(500));
    for _ in 0..(4 * 3600) {
        for asked in net.requests("one") {
            match about(&asked.filters, "repo0") {
                true => net.ends("one", asked.sub, End::Silent),
                false => net.completes("one", asked.sub, empty_page(asked.filters.len())),
            }
        }
        net.elapse(SECOND);
    }
    let seen = view(&net, "one");
    // It may take its neighbour in the same request with it, and nobody else.
    assert!(seen.confirmed >= 30, "{seen}");
}

#[test]
fn s24_a_relay_that_never_answers_gives_its_link_to_those_who_wait() {
    let mut net = Bench::new(Settings { links_max: 1, ..Settings::default() });
    net.announce("acme", &["mute", "fine"]);
    net.replayed();
    net.connect("mute");
    for _ in 0..(24 * 60) {
        if net.is_dialled("fine") {
            return;
        }
        // The link reports silence, as it does after half a minute.
        let (asked, compared) = (net.requests("mute"), net.reconciles("mute"));
        for sub in asked.iter().map(|it| it.sub).chain(compared.iter().map(|it| it.sub)) {
            net.ends("mute", sub, End::Silent);
        }
        net.elapse(MINUTE);
    }
    panic!("a day has passed and the other one was never dialled");
}

#[test]
fn s24_a_relay_that_does_not_want_us_gives_its_link_to_those_who_wait() {
    let mut net = Bench::new(Settings { links_max: 1, ..Settings::default() });
    net.announce("acme", &["closed", "fine"]);
    net.replayed();
    net.connect("closed");
    for (sub, _) in net.listens("closed") {
        net.closed("closed", sub, "restricted: members only");
    }
    net.elapse(HOUR);
    assert_eq!(net.dials_of("fine"), 1, "an hour of nothing is enough");
}

#[test]
fn s24_links_go_round_when_there_are_more_relays_than_links() {
    let names: Vec<String> = (0..8).map(|n| format!("r{n}")).collect();
    let list: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut net = Bench::new(Settings { links_max: 3, ..Settings::default() });
    net.announce("acme", &list);
    net.replayed();
    for _ in 0..(2 * 3600) {
        for name in &list {
            if net.is_dialled(name) {
                net.connect(name);
            }
            net.answers_all(name);
        }
        net.elapse(SECOND);
    }
    for name in &list {
        assert!(net.dials_of(name) >= 2, "{name} was linked {} times", net.dials_of(name));
    }
}

#[test]
fn s24_what_a_relay_missed_between_its_turns_is_made_up_for() {
    let names: Vec<String> = (0..4).map(|n| format!("r{n}")).collect();
    let list: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut net = Bench::new(Settings { links_max: 2, ..Settings::default() });
    net.announce("acme", &list);
    net.replayed();
    let mut away_since: std::collections::BTreeMap<String, Time> = Default::default();
    let mut returned = 0;
    for _ in 0..(2 * 3600) {
        for name in &list {
            if net.is_dialled(name) {
                net.connect(name);
                let Some(left) = away_since.remove(*name) else { continue };
                returned += 1;
                for (sub, filters) in net.listens(name) {
                    net.listening(name, sub, empty_page(filters.len()));
                }
                let gap = net.requests(name).into_iter().flat_map(|it| it.filters.to_vec());
                let from = gap.map(|it| it.since).min().flatten();
                let fresh = !net.reconciles(name).is_empty();
                let covered = from.is_some_and(|from| from <= left.timestamp());
                assert!(fresh || covered, "{name} left at {left:?}, is asked from {from:?}");
            }
            net.answers_all(name);
        }
        net.elapse(SECOND);
        for name in &list {
            if !net.is_connected(name) && net.dials_of(name) > 0 && !net.is_dialled(name) {
                let now = net.now;
                away_since.entry((*name).to_owned()).or_insert(now);
            }
        }
    }
    assert!(returned >= 4, "{returned}");
}

#[test]
fn s24_a_large_repository_does_not_keep_a_small_one_waiting() {
    let settings = Settings { negentropy: false, ..Settings::default() };
    let mut net = Bench::new(settings);
    net.announce("large", &["one"]);
    for n in 0..3_000 {
        net.root(n, "large");
    }
    net.replayed();
    net.connect_with("one", allowing(500));
    let mut asked_at = None;
    let mut announced_at = None;
    let mut second = 0;
    // Every page about the large one is full, and there is always another.
    while asked_at.is_none() && second < 3_600 {
        second += 1;
        for asked in net.requests("one") {
            let count = asked.filters.len();
            if about(&asked.filters, "small") {
                asked_at = Some(net.now);
            }
            let first_layer = asked.filters.iter().all(|it| it.tags.is_empty());
            let oldest = Timestamp(1_600_000_000 - second);
            match first_layer {
                true => net.completes("one", asked.sub, empty_page(count)),
                false => net.completes("one", asked.sub, full_page(count, 500, oldest)),
            }
        }
        if second == 60 {
            net.announce("small", &["one"]);
            announced_at = Some(net.now);
        }
        net.elapse(SECOND);
    }
    let waited = asked_at.map(|at| at.since(announced_at.unwrap()));
    assert!(waited.is_some_and(|it| it <= 5 * MINUTE), "it waited {waited:?}");
}

#[test]
fn s24_what_is_asked_for_in_turn_does_not_wait_for_a_large_history() {
    let settings = Settings { negentropy: false, ..tiny_filters() };
    let mut net = following(settings, &named(10), "one");
    net.connect_with("one", allowing(3));
    answers_for(&mut net, &["one"], 10 * MINUTE);
    net.announce("large", &["one"]);
    let mut last = net.now;
    for second in 0..3_600 {
        for asked in net.requests("one") {
            let count = asked.filters.len();
            if about(&asked.filters, "repo9") {
                last = net.now;
            }
            // There is always another page of the large one.
            let oldest = Timestamp(1_600_000_000 - second);
            let large = |it: &grasp_core::Filter| about(std::slice::from_ref(it), "large");
            match asked.filters.iter().any(large) && asked.filters[0].since.is_none() {
                true => net.completes("one", asked.sub, full_page(count, 500, oldest)),
                false => net.completes("one", asked.sub, empty_page(count)),
            }
        }
        net.elapse(SECOND);
        let waited = net.now.since(last);
        assert!(waited <= 10 * MINUTE, "not asked about for {waited:?}");
    }
}

#[test]
fn s24_strangers_cannot_take_the_places_of_relays_we_serve_from() {
    let mut net = Bench::new(Settings { relays_max: 50, ..Settings::default() });
    for n in 0..10 {
        let spam: Vec<String> = (0..20).map(|m| format!("spam{n}x{m}")).collect();
        let spam: Vec<&str> = spam.iter().map(String::as_str).collect();
        net.announce_held(&format!("waits{n}"), &spam);
    }
    net.replayed();
    net.elapse(MINUTE);
    net.announce("acme", &["good"]);
    net.elapse(10 * SECOND);
    assert_eq!(net.dials_of("good"), 1, "it is served here");
}

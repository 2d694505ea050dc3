//! S-45: "nothing differs" is checked. A relay whose comparisons hide events that it gives out is read by
//! pages for a day.

use super::kit::*;
use grasp_core::{EventId, Filter, Timestamp};
use grasp_engine::{Doubt, End, News, Page, Peer, Reconciliation, Settings, Sub};
use grasp_testkit::world::names::{event_id, relay, repo};
use grasp_testkit::world::{Asked, Bench, Compared, empty_page};
use std::collections::BTreeSet;
use std::time::Duration;

/// A relay that has one event which it does not name in comparisons.
struct Hiding {
    event: (Timestamp, EventId),
    /// It says that it lacks the event once we have it, instead of agreeing to everything.
    denies: bool,
    /// Do we have the event?
    known: bool,
    probes: Vec<Asked>,
    again: Vec<Compared>,
    pages: Vec<Filter>,
    heard: BTreeSet<Sub>,
}

impl Hiding {
    fn new(net: &Bench, age_secs: u64) -> Self {
        let event = (secs_ago(net, age_secs), event_id(7));
        let (probes, again, pages) = (Vec::new(), Vec::new(), Vec::new());
        let (known, heard) = (false, BTreeSet::new());
        Self { event, denies: true, known, probes, again, pages, heard }
    }

    fn plays(&mut self, net: &mut Bench, on: &str, time: Duration) {
        let end = net.now.plus(time);
        while net.now < end {
            for (sub, filters) in net.listens(on) {
                if self.heard.insert(sub) {
                    net.listening(on, sub, empty_page(filters.len()));
                }
            }
            net.reconciles(on).into_iter().for_each(|it| self.compares(net, on, &it));
            net.requests(on).into_iter().for_each(|it| self.answers(net, on, &it));
            net.elapse(SECOND / 4);
        }
    }

    fn compares(&mut self, net: &mut Bench, on: &str, compared: &Compared) {
        let mut found = Reconciliation::default();
        if compared.filter.since.is_some() && compared.filter.since == compared.filter.until {
            self.again.push(compared.clone());
            if self.denies && self.known {
                (found.lacks, found.lacking) = (vec![self.event], 1);
            }
        }
        net.ends(on, compared.sub, End::Reconciled(found));
    }

    /// A probe of any filter brings the event.
    fn answers(&mut self, net: &mut Bench, on: &str, asked: &Asked) {
        let mut page = empty_page(asked.filters.len());
        match asked.filters[0].limit {
            Some(_) => {
                if !self.known {
                    page.fresh = vec![self.event];
                    self.known = true;
                }
                self.probes.push(asked.clone());
            }
            None => self.pages.extend(asked.filters.iter().cloned()),
        }
        net.completes(on, asked.sub, page);
    }
}

fn watched(settings: Settings, seed: u64) -> Bench {
    let mut net = Bench::verifying(settings, seed);
    net.announce("acme", &["one"]);
    net.replayed();
    net
}

fn hides(net: &mut Bench) -> Vec<EventId> {
    let (news, now) = (net.news(), net.now);
    let hides = |news: News| match news {
        News::HidesEvents { relay: of, id, until } => {
            assert_eq!(of, relay("one"));
            assert!(until > now.plus(23 * HOUR));
            Some(id)
        }
        _ => None,
    };
    news.into_iter().filter_map(hides).collect()
}

#[test]
fn s45_after_a_comparison_that_found_nothing_the_newest_events_and_a_random_window_are_read() {
    let mut windows = BTreeSet::new();
    for seed in 1..=20 {
        let mut net = watched(Settings::default(), seed);
        net.connect("one");
        let mut relay = Hiding::new(&net, HOUR.as_secs());
        relay.known = true;
        relay.plays(&mut net, "one", MINUTE);
        // Announcements, states, and what is about the repository: one batch each.
        assert_eq!(relay.probes.len(), 3, "one probe for each batch");
        for probe in &relay.probes {
            let [window, newest] = &probe.filters[..] else { panic!("two filters") };
            assert_eq!((window.limit, newest.limit), (Some(500), Some(20)));
            assert_eq!((newest.since, newest.until), (None, None));
            assert!(window.until.unwrap() <= net.now.timestamp());
            assert_eq!((&window.kinds, &window.tags), (&newest.kinds, &newest.tags));
            windows.insert(window.until);
        }
        assert!(hides(&mut net).is_empty() && view(&net, "one").negentropy);
    }
    assert!(windows.len() > 50, "windows are drawn by chance: {}", windows.len());
}

#[test]
fn s45_a_relay_that_hides_an_event_it_gives_out_is_read_by_pages_for_a_day() {
    let mut net = watched(Settings::default(), 1);
    net.connect("one");
    let mut relay = Hiding::new(&net, 10);
    relay.plays(&mut net, "one", MINUTE);
    assert_eq!(relay.again.len(), 1, "the second of the event is compared again");
    assert_eq!(relay.again[0].filter.since, Some(relay.event.0));
    assert_eq!(hides(&mut net), [event_id(7)]);
    assert!(!view(&net, "one").negentropy);
    let told: BTreeSet<_> = net
        .doubts("one")
        .into_iter()
        .map(|(_, repo, doubt)| (repo, format!("{doubt:?}")))
        .collect();
    assert!(told.contains(&(repo("acme"), format!("{:?}", Doubt::Hides))), "the verdict says so");
    let kinds = |filter: &Filter| filter.kinds.as_ref().map_or(0, |kinds| kinds[0].0);
    for layer in [30_617, 30_618] {
        assert!(relay.pages.iter().any(|it| kinds(it) == layer), "{layer} is read by pages");
    }
    assert!(about(&relay.pages, "acme"));
    assert_eq!(view(&net, "one").confirmed, 3, "and confirmed by them");
}

#[test]
fn s45_a_restart_and_a_reconnect_remember_it_for_a_day_and_then_compare_again() {
    let mut net = watched(Settings::default(), 1);
    net.connect("one");
    Hiding::new(&net, 10).plays(&mut net, "one", MINUTE);
    assert_eq!(hides(&mut net).len(), 1);
    net.restart_after(20 * HOUR);
    net.connect("one");
    net.settle("one");
    assert!(!view(&net, "one").negentropy, "remembered");
    net.restart_after(5 * HOUR);
    net.connect("one");
    assert!(view(&net, "one").negentropy, "a day later it is believed again");
}

#[test]
fn s45_a_link_that_lasts_is_compared_with_again_when_the_day_is_over() {
    let mut net = watched(Settings::default(), 1);
    net.connect("one");
    let mut relay = Hiding::new(&net, 10);
    relay.plays(&mut net, "one", 10 * MINUTE);
    assert!(!view(&net, "one").negentropy);
    for _ in 0..60 {
        relay.plays(&mut net, "one", 10 * SECOND);
        net.elapse(HOUR);
    }
    assert!(view(&net, "one").negentropy, "asked again when the day is over");
}

#[test]
fn s45_a_new_event_that_the_second_comparison_names_accuses_nobody() {
    let mut net = watched(Settings::default(), 1);
    net.connect("one");
    let mut relay = Hiding::new(&net, 10);
    relay.denies = false;
    relay.plays(&mut net, "one", MINUTE);
    assert_eq!(relay.again.len(), 1);
    assert!(hides(&mut net).is_empty(), "it arrived at the relay after the comparison");
    assert!(view(&net, "one").negentropy);
}

#[test]
fn s45_a_relay_that_always_agrees_is_found_out_by_old_events_that_keep_coming() {
    for (age, found) in [(HOUR.as_secs(), 1), (60, 0)] {
        let mut net = watched(Settings::default(), 1);
        net.connect("one");
        let mut relay = Hiding::new(&net, age);
        relay.denies = false;
        for _ in 0..240 {
            relay.known = false;
            relay.plays(&mut net, "one", SECOND / 4);
        }
        assert_eq!(hides(&mut net).len(), found, "events of {age} s ago");
    }
}

#[test]
fn s45_what_others_delivered_is_looked_for_at_a_relay_that_is_said_to_lack_it() {
    for (gives, denies, found) in [(true, true, 1), (true, false, 0), (false, true, 0)] {
        let mut net = watched(Settings::default(), 1);
        net.connect("one");
        let lacks = vec![(secs_ago(&net, 3_600), event_id(1)), (secs_ago(&net, 60), event_id(2))];
        let first = reconcile(&mut net, "one");
        let found_lacking =
            Reconciliation { lacks: lacks.clone(), lacking: 2, ..Default::default() };
        net.ends("one", first.sub, End::Reconciled(found_lacking));
        let mut asked_by_id = Vec::new();
        for _ in 0..120 {
            for asked in net.requests("one") {
                let ids = asked.filters[0].ids.clone();
                let mut page = empty_page(asked.filters.len());
                if let Some(ids) = ids {
                    page.missing = if gives { vec![ids[0]] } else { ids.to_vec() };
                    asked_by_id.push(ids.to_vec());
                }
                net.completes("one", asked.sub, page);
            }
            for compared in net.reconciles("one") {
                let one_second =
                    compared.filter.since.filter(|it| Some(*it) == compared.filter.until);
                let lacks = match one_second.filter(|_| denies) {
                    Some(at) => lacks.iter().copied().filter(|(it, _)| *it == at).collect(),
                    None => Vec::new(),
                };
                let found = Reconciliation { lacking: lacks.len(), lacks, ..Default::default() };
                net.ends("one", compared.sub, End::Reconciled(found));
            }
            net.elapse(SECOND / 2);
        }
        assert_eq!(asked_by_id, [vec![event_id(1), event_id(2)]], "asked once, by id");
        assert_eq!(hides(&mut net).len(), found, "gives {gives}, denies {denies}");
    }
}

#[test]
fn s45_a_probe_that_is_refused_or_not_answered_harms_nobody() {
    for end in [
        End::Silent,
        End::Closed("invalid: limit too large".to_owned()),
        End::Closed("blocked: nope".to_owned()),
        End::Closed("error: internal".to_owned()),
        End::Flood(Page::default()),
    ] {
        let mut net = watched(Settings::default(), 1);
        net.connect_with("one", Peer { limit_default: Some(100), ..Peer::default() });
        let mut probes = 0;
        for _ in 0..240 {
            for asked in net.requests("one") {
                let is_probe = asked.filters[0].limit.is_some();
                assert!(asked.filters[0].limit.is_none_or(|limit| limit <= 100), "its own limit");
                probes += usize::from(is_probe);
                let page = End::Complete(empty_page(asked.filters.len()));
                net.ends("one", asked.sub, if is_probe { end.clone() } else { page });
            }
            for compared in net.reconciles("one") {
                net.reconciled("one", compared.sub, vec![]);
            }
            net.elapse(SECOND / 4);
        }
        assert_eq!(probes, 3, "asked once each: {end:?}");
        let view = view(&net, "one");
        assert!(view.negentropy && view.waits.is_none() && view.confirmed == 3, "{end:?}");
    }
}

#[test]
fn s45_a_comparison_that_named_something_and_one_of_a_gap_are_not_probed() {
    let mut net = watched(Settings::default(), 1);
    net.connect("one");
    let first = reconcile(&mut net, "one");
    net.reconciled("one", first.sub, vec![event_id(3)]);
    let asked = request(&mut net, "one");
    net.completes("one", asked.sub, empty_page(1));
    let mut relay = Hiding::new(&net, 10);
    relay.known = true;
    relay.plays(&mut net, "one", MINUTE);
    assert_eq!(relay.probes.len(), 2, "states, and what is about the repository");
    relay.probes.clear();
    net.fails("one");
    net.elapse(10 * SECOND);
    net.connect("one");
    relay.plays(&mut net, "one", MINUTE);
    assert_eq!(relay.probes.len(), 0, "a quick reconnect is not probed");
}

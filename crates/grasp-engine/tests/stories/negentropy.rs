//! S-44, S-52 and S-61: NIP-77 with relays in the field. Comparisons that are too large, relays that do
//! not speak NIP-77, and what a restart remembers of both.

use super::kit::*;
use grasp_core::Filter;
use grasp_engine::{End, Peer, Reconciliation, Record, Settings, Sub};
use grasp_testkit::world::names::event_id;
use grasp_testkit::world::{Bench, Compared, empty_page};
use std::collections::BTreeSet;
use std::time::Duration;

/// A relay that has announcements at these times and compares at most so many of them at once. What is
/// compared is fetched.
struct Limited {
    times: Vec<u64>,
    limit: usize,
    hint: Option<u64>,
    words: &'static str,
    /// Windows of announcements that were accepted, in order, and how many were refused.
    accepted: Vec<Filter>,
    refused: usize,
    pages: usize,
    heard: BTreeSet<Sub>,
}

const WORDS: &str = "blocked: too many query results";

impl Limited {
    fn new(times: Vec<u64>, limit: usize) -> Self {
        let (accepted, heard) = (Vec::new(), BTreeSet::new());
        let (refused, pages) = (0, 0);
        Self { times, limit, hint: None, words: WORDS, accepted, refused, pages, heard }
    }

    fn inside(&self, filter: &Filter) -> Vec<u64> {
        let inside = |at: &u64| {
            filter.since.is_none_or(|since| *at >= since.0)
                && filter.until.is_none_or(|until| *at <= until.0)
        };
        let announces = filter.kinds.as_deref().is_some_and(|kinds| kinds[0].0 == 30_617);
        match announces && filter.tags.is_empty() {
            true => self.times.iter().copied().filter(inside).collect(),
            false => Vec::new(),
        }
    }

    /// Answers for so long.
    fn plays(&mut self, net: &mut Bench, on: &str, time: Duration) {
        let end = net.now.plus(time);
        while net.now < end {
            for (sub, filters) in net.listens(on) {
                if self.heard.insert(sub) {
                    net.listening(on, sub, empty_page(filters.len()));
                }
            }
            net.reconciles(on).into_iter().for_each(|it| self.compares(net, on, &it));
            for asked in net.requests(on) {
                self.pages += 1;
                net.completes(on, asked.sub, empty_page(asked.filters.len()));
            }
            net.elapse(SECOND / 20);
        }
    }

    fn compares(&mut self, net: &mut Bench, on: &str, compared: &Compared) {
        let theirs = self.inside(&compared.filter).len();
        let end = if theirs > self.limit {
            self.refused += 1;
            grasp_engine::end_of_neg_err(self.words.to_owned(), self.hint)
        } else {
            if theirs > 0 {
                self.accepted.push(compared.filter.clone());
            }
            End::Reconciled(Reconciliation { theirs, ..Default::default() })
        };
        net.ends(on, compared.sub, end);
    }

    fn compared(&self) -> usize {
        self.accepted.iter().map(|filter| self.inside(filter).len()).sum()
    }
}

/// One announcement a minute.
fn minutes(net: &Bench, count: u64) -> Vec<u64> {
    (0..count).map(|n| net.now.timestamp().0 - 60 - n * 60).collect()
}

fn tracking(settings: Settings) -> Bench {
    let mut net = Bench::new(settings);
    net.announce("acme", &["one"]);
    net.replayed();
    net
}

/// Fast enough that no question waits for the pace.
fn fast() -> Settings {
    Settings { pace_per_second: 100, pace_grasp_per_second: 100, ..Settings::default() }
}

#[test]
fn s44_a_comparison_that_is_too_large_is_made_in_windows_without_a_pause() {
    for (words, hint) in [
        (WORDS, None),
        (WORDS, Some(1_000)),
        ("blocked: this query is too big", Some(u64::MAX)),
        ("RESULTS_TOO_BIG", Some(0)),
        ("blocked: more than 1000 events match; narrow the filter, for example by time", None),
    ] {
        let mut net = tracking(fast());
        net.connect("one");
        let mut relay = Limited::new(minutes(&net, 10_000), 1_000);
        (relay.words, relay.hint) = (words, hint);
        relay.plays(&mut net, "one", 2 * MINUTE);
        assert_eq!(relay.compared(), 10_000, "every event was in one accepted window: {words}");
        assert!(relay.accepted.len() < 40, "{} windows", relay.accepted.len());
        assert_eq!(view(&net, "one").confirmed, 3, "{words}");
        assert_eq!(view(&net, "one").waits, None, "the relay is not paused for it");
        assert!(view(&net, "one").negentropy);
        let cooled = net.news().iter().any(|it| format!("{it:?}").contains("Cooling"));
        assert!(!cooled, "it is no rate limit");
    }
}

#[test]
fn s44_a_restart_uses_the_window_that_worked_at_once() {
    let mut net = tracking(fast());
    net.connect("one");
    let mut relay = Limited::new(minutes(&net, 10_000), 1_000);
    relay.plays(&mut net, "one", 2 * MINUTE);
    assert!(relay.refused > 3, "it had to be found out");
    let first = relay.accepted[0].clone();
    net.restart_after(HOUR);
    net.connect("one");
    (relay.refused, relay.accepted) = (0, Vec::new());
    relay.plays(&mut net, "one", 2 * MINUTE);
    assert_eq!(relay.refused, 0, "nothing is refused any more");
    assert_eq!(relay.compared(), 10_000);
    let length = |filter: &Filter, end: u64| end - filter.since.unwrap().0;
    let (now, hour) = (net.now.timestamp().0, 3_600);
    let (before, after) = (length(&first, now - hour), length(&relay.accepted[0], now));
    assert!(before.abs_diff(after) < 600, "{before} and {after} seconds");
}

#[test]
fn s44_a_limit_that_changes_between_windows_is_followed() {
    let mut net = tracking(fast());
    net.connect("one");
    let mut relay = Limited::new(minutes(&net, 5_000), 1_000);
    for (limit, time) in [(1_000, 2), (100, 20), (700, 20), (30, 600)] {
        relay.limit = limit;
        relay.plays(&mut net, "one", time * SECOND);
    }
    assert_eq!(relay.compared(), 5_000);
    assert_eq!(view(&net, "one").confirmed, 3);
}

#[test]
fn s44_a_relay_that_refuses_even_one_second_is_read_and_not_asked_for_ever() {
    let mut net = tracking(fast());
    net.connect("one");
    let mut relay = Limited::new(minutes(&net, 100), 1_000);
    relay.times.extend(vec![net.now.timestamp().0 - 30; 2_000]);
    relay.plays(&mut net, "one", MINUTE);
    assert!(relay.refused < 60, "{} refusals", relay.refused);
    assert!(relay.pages > 0, "what is left is read page by page");
    assert_eq!(view(&net, "one").confirmed, 3);
}

#[test]
fn s44_ids_outside_of_the_window_asked_for_are_not_believed() {
    let mut net = tracking(fast());
    net.connect("one");
    let first = reconcile(&mut net, "one");
    net.ends("one", first.sub, End::TooManyEvents { limit: None });
    let half = reconcile(&mut net, "one");
    let need: Vec<_> = (0..30).map(event_id).collect();
    net.reconciled("one", half.sub, need.clone());
    let asked = request(&mut net, "one");
    let filter = &asked.filters[0];
    assert_eq!((filter.since, filter.until), (half.filter.since, half.filter.until));
    assert!(filter.since.is_some(), "an event of another time does not match what was asked for");
    // None of them is of that time, so none of them came: its comparisons are not believed.
    let page = grasp_engine::Page { missing: need, ..empty_page(1) };
    net.completes("one", asked.sub, page);
    assert!(!view(&net, "one").negentropy, "it is read instead");
    assert_eq!(request(&mut net, "one").filters[0].ids, None);
}

#[test]
fn s61_a_list_of_nips_without_77_starts_with_pages() {
    let mut net = tracking(Settings::default());
    let peer = |nip77| Peer { nip77, ..Peer::default() };
    net.connect_with("one", peer(Some(false)));
    net.answers_all("one");
    assert_eq!(net.reconciles("one").len(), 0);
    net.settle("one");
    assert_eq!(view(&net, "one").confirmed, 3);
    net.fails("one");
    net.elapse(HOUR);
    net.connect_with("one", peer(None));
    assert_eq!(net.reconciles("one").len(), 0, "the answer is kept for a day");
}

#[test]
fn s61_a_relay_that_lists_nip_77_or_has_spoken_it_may_take_its_time() {
    let mut net = tracking(Settings::default());
    net.connect_with("one", Peer { nip77: Some(true), ..Peer::default() });
    let first = reconcile(&mut net, "one");
    assert_eq!(first.answer_within, None);
    net.reconciled("one", first.sub, vec![]);
    net.settle("one");
    net.fails("one");
    net.elapse(HOUR);
    net.connect("one");
    assert_eq!(reconcile(&mut net, "one").answer_within, None, "it has spoken it before");
}

#[test]
fn s61_one_question_shows_whether_a_relay_compares() {
    let mut net = following(fast(), &named(30), "one");
    net.connect("one");
    layer_one_confirmed(&mut net, "one");
    assert_eq!(net.reconciles("one").len(), 4, "it has answered, so several at once are fine");
    let mut net = following(fast(), &named(30), "one");
    net.connect("one");
    for _ in 0..20 {
        assert!(net.open_count("one") - net.listens("one").len() <= 1);
        net.elapse(SECOND);
    }
}

#[test]
fn s61_any_notice_while_only_comparisons_are_unanswered_denies_them() {
    let listening = |net: &mut Bench| {
        for (sub, filters) in net.listens("one") {
            net.listening("one", sub, empty_page(filters.len()));
        }
    };
    for (text, denies) in [
        ("I do not get it", true),
        ("blocked: nope", true),
        ("rate-limited: slow down", false),
        ("error: too many concurrent REQs", false),
    ] {
        let mut net = tracking(Settings::default());
        net.connect("one");
        listening(&mut net);
        net.says("one", text);
        assert_eq!(net.abandoned("one").len(), usize::from(denies), "{text}");
    }
    let mut net = tracking(Settings::default());
    net.connect("one");
    net.says("one", "welcome to our relay");
    assert_eq!(net.abandoned("one").len(), 0, "live subscriptions are unanswered too");
    // A relay that has compared before says nothing about that by a word about something else.
    let first = reconcile(&mut net, "one");
    net.reconciled("one", first.sub, vec![]);
    listening(&mut net);
    net.says("one", "we restart in five minutes");
    assert!(view(&net, "one").negentropy);
}

#[test]
fn s44_what_is_remembered_is_bounded_and_read_by_older_and_newer_records() {
    let mut record = Record::default();
    record.negentropy.windows = (0..=255).map(|key| (key, u64::from(key) * 60)).collect();
    record.negentropy.denied_until = Some(grasp_core::Time(u64::MAX / 4));
    let mut net = Bench::new(fast());
    net.recall("one", record);
    net.announce("acme", &["one"]);
    net.replayed();
    net.connect("one");
    assert_eq!(net.reconciles("one").len(), 0, "denied");
    let kept = net.remembered("one").unwrap().negentropy.clone();
    assert!(kept.windows.len() <= 40, "{}", kept.windows.len());
    assert!(kept.denied_until.unwrap() <= net.now.plus(7 * DAY), "a clock that was wrong");
}

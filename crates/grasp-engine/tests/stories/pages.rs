//! Section 4, reading page by page (S-19): where the next page starts, and that it always ends.

use super::kit::*;
use grasp_core::Timestamp;
use grasp_engine::{End, Hint, News, Page, Peer, Tally};
use grasp_testkit::world::names::relay;
use grasp_testkit::world::{Asked, Bench, empty_page, full_page};

/// A relay without NIP-77; its announcements are asked for first.
fn reading(peer: Peer) -> Bench {
    let mut net = following(pages_only(), &named(1), "one");
    net.connect_with("one", peer);
    net.news();
    net
}

fn page(received: u32, oldest: u64) -> Page {
    full_page(1, received, Timestamp(oldest))
}

fn brings(net: &mut Bench, asked: &Asked, page: Page) {
    assert_eq!(asked.filters.len(), 1);
    net.completes("one", asked.sub, page);
}

fn until(asked: &Asked) -> Option<u64> {
    asked.filters[0].until.map(|it| it.0)
}

fn confirmed(net: &Bench) -> usize {
    view(net, "one").confirmed
}

#[test]
fn s19_the_next_page_starts_at_the_oldest_event_and_includes_it() {
    let mut net = reading(Peer::default());
    let first = request(&mut net, "one");
    assert_eq!((until(&first), first.filters[0].limit), (None, None), "no limit of ours");
    brings(&mut net, &first, page(500, 9_000));
    let second = request(&mut net, "one");
    assert_eq!(until(&second), Some(9_000));
    brings(&mut net, &second, page(500, 7_000));
    let third = request(&mut net, "one");
    assert_eq!(until(&third), Some(7_000));
    assert_eq!(confirmed(&net), 0);
    // Only the event at the edge, which is known.
    brings(&mut net, &third, page(1, 7_000));
    assert_eq!(confirmed(&net), 1);
}

#[test]
fn s19_an_empty_page_is_the_end() {
    let mut net = reading(Peer::default());
    let first = request(&mut net, "one");
    brings(&mut net, &first, empty_page(1));
    assert_eq!(confirmed(&net), 1);
}

#[test]
fn s19_a_small_page_is_not_taken_for_the_last() {
    // Some relays give out as little as a hundred, and do not say so.
    let mut net = reading(Peer::default());
    let first = request(&mut net, "one");
    brings(&mut net, &first, page(100, 9_000));
    assert_eq!(until(&request(&mut net, "one")), Some(9_000));
    assert_eq!(confirmed(&net), 0);
}

#[test]
fn s19_each_filter_of_a_request_has_its_own_pages() {
    let mut net = reading(Peer::default());
    for _ in 0..2 {
        let layer_one = request(&mut net, "one");
        brings(&mut net, &layer_one, empty_page(1));
    }
    let asked = request(&mut net, "one");
    let count = asked.filters.len();
    assert!(count >= 3);
    let mut page = empty_page(count);
    page.tallies[1] = Tally { received: 500, oldest: Some(Timestamp(9_000)) };
    page.tallies[2] = Tally { received: 20, oldest: Some(Timestamp(8_000)) };
    net.completes("one", asked.sub, page);
    let next = request(&mut net, "one");
    let untils: Vec<u64> = next.filters.iter().map(|it| it.until.unwrap().0).collect();
    assert_eq!(untils, [9_000, 8_000], "only the two that brought something");
    assert_eq!(next.filters[0].tags, asked.filters[1].tags);
    assert_eq!(confirmed(&net), 2);
    net.completes("one", next.sub, empty_page(2));
    assert_eq!(confirmed(&net), 3);
}

#[test]
fn s19_a_hint_that_nothing_older_matches_saves_a_page() {
    let mut net = reading(Peer::default());
    let first = request(&mut net, "one");
    brings(&mut net, &first, Page { hint: Some(Hint::Finish), ..page(500, 9_000) });
    assert_eq!(confirmed(&net), 1);
}

#[test]
fn s19_a_hint_that_there_is_more_is_believed() {
    let mut net = reading(Peer::default());
    let first = request(&mut net, "one");
    brings(&mut net, &first, Page { hint: Some(Hint::More), ..page(3, 9_000) });
    assert_eq!(until(&request(&mut net, "one")), Some(9_000));
}

#[test]
fn s19_a_second_with_more_events_than_a_page_is_stepped_over_and_told() {
    let mut net = reading(Peer::default());
    let first = request(&mut net, "one");
    brings(&mut net, &first, page(100, 9_000));
    let second = request(&mut net, "one");
    brings(&mut net, &second, page(100, 9_000));
    let told = News::SecondTooFull { relay: relay("one"), second: Timestamp(9_000) };
    assert!(net.news().contains(&told));
    let third = request(&mut net, "one");
    assert_eq!(until(&third), Some(8_999), "what is older is not lost");
    assert_eq!(confirmed(&net), 0);
    brings(&mut net, &third, empty_page(1));
    assert_eq!(confirmed(&net), 1);
}

#[test]
fn s19_a_dozen_events_of_one_second_are_no_alarm() {
    // No relay gives out fewer than ninety at a time; these twelve are all it has.
    let mut net = reading(Peer::default());
    let first = request(&mut net, "one");
    brings(&mut net, &first, page(12, 9_000));
    for _ in 0..3 {
        for asked in net.requests("one") {
            let came = if until(&asked) == Some(9_000) { page(12, 9_000) } else { empty_page(1) };
            brings(&mut net, &asked, came);
        }
    }
    assert!(confirmed(&net) >= 1);
    let told = |it: &News| matches!(it, News::SecondTooFull { .. });
    assert!(!net.news().iter().any(told));
}

#[test]
fn s19_a_relay_that_always_brings_the_same_page_is_not_asked_for_ever() {
    let mut net = reading(Peer::default());
    for (sub, filters) in net.listens("one") {
        net.listening("one", sub, empty_page(filters.len()));
    }
    let mut asked = 0;
    for _ in 0..600 {
        for request in net.requests("one") {
            asked += 1;
            // What is newer than `until` does not match and is not counted.
            let came = match until(&request) {
                Some(until) if until < 9_000 => empty_page(request.filters.len()),
                _ => full_page(request.filters.len(), 100, Timestamp(9_000)),
            };
            net.completes("one", request.sub, came);
        }
        net.elapse(SECOND);
    }
    assert_eq!(view(&net, "one").confirmed, 3);
    assert!(asked <= 12, "{asked}");
}

#[test]
fn s19_a_flood_goes_on_from_the_oldest_event_it_brought() {
    let mut net = reading(Peer::default());
    let first = request(&mut net, "one");
    net.ends("one", first.sub, End::Flood(page(50_001, 9_000)));
    assert_eq!(confirmed(&net), 0);
    let second = request(&mut net, "one");
    assert_eq!(until(&second), Some(9_000));
    brings(&mut net, &second, page(10, 9_000));
    assert_eq!(confirmed(&net), 1);
}

#[test]
fn s19_an_endless_flood_of_one_second_ends_and_is_told() {
    let mut net = reading(Peer::default());
    for (sub, filters) in net.listens("one") {
        net.listening("one", sub, empty_page(filters.len()));
    }
    let mut asked = 0;
    for _ in 0..300 {
        for request in net.requests("one") {
            asked += 1;
            let count = request.filters.len();
            match request.filters[0].until {
                Some(until) if until.0 < 9_000 => {
                    net.completes("one", request.sub, empty_page(count));
                }
                _ => net.ends(
                    "one",
                    request.sub,
                    End::Flood(full_page(count, 50_001, Timestamp(9_000))),
                ),
            }
        }
        net.elapse(SECOND);
    }
    assert!(asked < 20, "{asked}");
    let told = |it: &News| matches!(it, News::SecondTooFull { .. } | News::Paused { .. });
    assert!(net.news().iter().any(told));
}

#[test]
fn s19_a_relay_without_any_limit_is_read_to_its_end_however_much_it_has() {
    // A million and a half events, fifty thousand at a time, as the scale asks for.
    let mut net = reading(Peer::default());
    for (sub, filters) in net.listens("one") {
        net.listening("one", sub, empty_page(filters.len()));
    }
    for _ in 0..300 {
        for request in net.requests("one") {
            let until = request.filters[0].until.map_or(1_000_000, |it| it.0);
            let first_layer = request.filters[0].tags.is_empty();
            match first_layer && until > 970_000 {
                true => {
                    let page = full_page(1, 50_001, Timestamp(until - 1_000));
                    net.ends("one", request.sub, End::Flood(page));
                }
                false => net.completes("one", request.sub, empty_page(request.filters.len())),
            }
        }
        net.elapse(SECOND);
    }
    assert_eq!(view(&net, "one").waits, None);
    assert_eq!(confirmed(&net), 3);
}

#[test]
fn s19_a_page_size_the_relay_states_is_believed_once_it_was_seen_to_be_true() {
    let peer = Peer { limit_default: Some(500), ..Peer::default() };
    let mut net = reading(peer);
    let first = request(&mut net, "one");
    brings(&mut net, &first, page(100, 9_000));
    let second = request(&mut net, "one");
    assert_eq!(until(&second), Some(9_000), "verified by one extra page");
    brings(&mut net, &second, page(1, 9_000));
    let states = request(&mut net, "one");
    assert_eq!(until(&states), None);
    brings(&mut net, &states, page(100, 9_000));
    assert_eq!(confirmed(&net), 2, "a page well below the stated size is all there is");
}

#[test]
fn s19_a_page_at_the_stated_size_is_never_the_last() {
    let peer = Peer { limit_default: Some(500), ..Peer::default() };
    let mut net = reading(peer);
    let first = request(&mut net, "one");
    brings(&mut net, &first, page(100, 9_000));
    let second = request(&mut net, "one");
    brings(&mut net, &second, page(1, 9_000));
    let states = request(&mut net, "one");
    brings(&mut net, &states, page(450, 9_000));
    assert_eq!(until(&request(&mut net, "one")), Some(9_000));
}

#[test]
fn s19_a_relay_that_gives_less_than_it_states_is_not_believed_again() {
    let peer = Peer { limit_default: Some(500), ..Peer::default() };
    let mut net = reading(peer);
    let first = request(&mut net, "one");
    brings(&mut net, &first, page(100, 9_000));
    let second = request(&mut net, "one");
    brings(&mut net, &second, page(100, 8_000));
    let third = request(&mut net, "one");
    brings(&mut net, &third, page(1, 8_000));
    let states = request(&mut net, "one");
    brings(&mut net, &states, page(100, 9_000));
    assert_eq!(until(&request(&mut net, "one")), Some(9_000));
}

#[test]
fn s19_a_hint_of_more_is_believed_before_a_stated_page_size() {
    let peer = Peer { limit_default: Some(500), ..Peer::default() };
    let mut net = reading(peer);
    let first = request(&mut net, "one");
    brings(&mut net, &first, page(100, 9_000));
    let second = request(&mut net, "one");
    brings(&mut net, &second, page(1, 9_000));
    let states = request(&mut net, "one");
    brings(&mut net, &states, Page { hint: Some(Hint::More), ..page(100, 9_000) });
    assert_eq!(confirmed(&net), 1, "it says itself that there is more");
    assert_eq!(until(&request(&mut net, "one")), Some(9_000));
}

#[test]
fn s19_a_default_limit_of_nonsense_does_no_harm() {
    for limit in [0, 1, u32::MAX] {
        let peer = Peer { limit_default: Some(limit), ..Peer::default() };
        let mut net = reading(peer);
        let first = request(&mut net, "one");
        brings(&mut net, &first, page(100, 9_000));
        assert_eq!(until(&request(&mut net, "one")), Some(9_000), "{limit}");
    }
}

#[test]
fn s19_no_page_is_asked_for_before_the_moment_it_should_start_from() {
    // Away for a minute; what comes back is all of the very second we ask from.
    let mut net = settled(&[("one", "acme")]);
    history(&mut net, "one");
    net.fails("one");
    net.connect_with("one", without_nip77());
    let (sub, filters) = net.listens("one")[0].clone();
    net.listening("one", sub, empty_page(filters.len()));
    let asked = request(&mut net, "one");
    let since = asked.filters[0].since.unwrap();
    net.completes("one", asked.sub, full_page(asked.filters.len(), 100, since));
    for _ in 0..10 {
        for asked in net.requests("one") {
            for filter in asked.filters.iter() {
                assert!(filter.until >= filter.since, "this asks for nothing: {filter:?}");
            }
            net.completes("one", asked.sub, full_page(asked.filters.len(), 100, since));
        }
        net.elapse(SECOND);
    }
    net.settle("one");
    assert_eq!(view(&net, "one").last_alive, Some(net.now), "and it ends");
}

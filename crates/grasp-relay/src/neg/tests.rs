use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

const FRAME: usize = 4096;

fn item(n: u64) -> (Timestamp, EventId) {
    // Several in each second. Fingerprints are sums of ids, so the ids must not be linear in `n`:
    // an event's id is a hash.
    let mut id = [0; 32];
    for (lane, part) in id.chunks_mut(8).enumerate() {
        part.copy_from_slice(&scattered(n * 4 + lane as u64).to_be_bytes());
    }
    (Timestamp(1_700_000_000 + n / 3), EventId::from_bytes(id))
}

fn scattered(n: u64) -> u64 {
    let n = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    n ^ (n >> 31)
}

fn set(of: impl IntoIterator<Item = u64>) -> IdSet {
    IdSet::collect(of.into_iter().map(item), 1_000_000).unwrap()
}

fn ids(of: impl IntoIterator<Item = u64>) -> Vec<EventId> {
    of.into_iter().map(|n| item(n).1).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Runs a whole reconciliation; returns what the asking side learned and the rounds it took.
fn reconcile(
    ours: IdSet,
    theirs: IdSet,
    ask_frame: usize,
    answer_frame: usize,
) -> (Difference, u32) {
    let mut asking = Initiator::new(ours, ask_frame).unwrap();
    let mut answering = Reconciler::new(theirs, answer_frame, 64).unwrap();
    let mut message = asking.initiate().unwrap();
    for round in 1.. {
        let answer = answering.answer(&message).unwrap();
        assert!(answer.len() <= answer_frame, "{} bytes", answer.len());
        match asking.handle_answer(&answer).unwrap() {
            Step::Send(next) => message = next,
            Step::Done(difference) => return (difference, round),
        }
    }
    unreachable!()
}

#[test]
fn equal_sets_are_found_equal_at_once() {
    let (difference, rounds) = reconcile(set(0..10_000), set(0..10_000), FRAME, FRAME);
    assert_eq!((difference, rounds), (Difference::default(), 1));
}

#[test]
fn a_few_missing_events_among_many_cost_few_rounds() {
    let lacking = (0..100_000).filter(|n| n % 10_000 != 7);
    let (difference, rounds) = reconcile(set(lacking), set(0..100_000), 60_000, 60_000);
    assert_eq!(difference.have, []);
    assert_eq!(difference.need, ids((0..100_000).filter(|n| n % 10_000 == 7)));
    assert!(rounds < 8, "{rounds}");
}

#[test]
fn a_client_with_nothing_gets_everything_in_more_frames_than_it_may_waste() {
    let (difference, rounds) = reconcile(IdSet::default(), set(0..30_000), FRAME, FRAME);
    assert_eq!(difference.need.len(), 30_000);
    assert!(rounds > 64, "continuations are not charged: {rounds}");
}

#[test]
fn a_difference_spread_over_everything_is_found_although_both_sides_cut_their_frames() {
    let ours = || (0..40_000).filter(|n| n % 2 == 0 || n % 3 == 0);
    let theirs = || (0..40_000).filter(|n| n % 2 == 1 || n % 3 == 0);
    for (ask, answer) in [(FRAME, FRAME), (FRAME, 60_000), (60_000, FRAME), (60_000, 60_000)] {
        let (difference, _) = reconcile(set(ours()), set(theirs()), ask, answer);
        assert_eq!(difference.have, ids((0..40_000).filter(|n| n % 6 == 2 || n % 6 == 4)));
        assert_eq!(difference.need, ids((0..40_000).filter(|n| n % 6 == 1 || n % 6 == 5)));
    }
}

#[test]
fn a_client_that_makes_no_headway_is_stopped() {
    let mut answering = Reconciler::new(set(0..1_000), FRAME, 64).unwrap();
    let message = Initiator::new(set(500..1_500), FRAME).unwrap().initiate().unwrap();
    for _ in 0..64 {
        answering.answer(&message).unwrap();
    }
    assert_eq!(answering.answer(&message), Err(NegError::TooManyRounds(64)));
    // Claiming to have settled the same part again is no headway either.
    let mut answering = Reconciler::new(set(0..1_000), FRAME, 3).unwrap();
    let skip_all = [0x61, 0, 0, 0];
    for _ in 0..3 {
        answering.answer(&skip_all).unwrap();
    }
    assert_eq!(answering.answer(&skip_all), Err(NegError::TooManyRounds(3)));
}

#[test]
fn a_set_that_is_too_large_is_refused_and_not_cut() {
    let limit = |max| IdSet::collect((0..10).map(item), max).map(|set| set.len());
    assert_eq!(limit(10), Ok(10));
    assert_eq!(limit(9), Err(NegError::TooManyItems(9)));
}

#[test]
fn another_version_is_told_ours() {
    let mut answering = Reconciler::new(set(0..10), FRAME, 64).unwrap();
    assert_eq!(answering.answer(&[0x62, 1, 2, 3]), Ok(vec![0x61]));
    assert!(matches!(answering.answer(&[0x01]), Err(NegError::Protocol(_))));
    assert!(matches!(answering.answer(&[]), Err(NegError::Protocol(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_two_sets_learn_exactly_their_difference(
        ours in prop::collection::btree_set(0u64..3_000, 0..800),
        theirs in prop::collection::btree_set(0u64..3_000, 0..800),
        ask in 4_096usize..9_000, answer in 4_096usize..9_000,
    ) {
        let (difference, _) =
            reconcile(set(ours.iter().copied()), set(theirs.iter().copied()), ask, answer);
        prop_assert_eq!(difference.have, ids(ours.difference(&theirs).copied()));
        prop_assert_eq!(difference.need, ids(theirs.difference(&ours).copied()));
    }

    #[test]
    fn no_message_whatsoever_makes_the_answer_long_or_the_answerer_fall(
        tail in prop::collection::vec(any::<u8>(), 0..400), version in 0x60u8..0x63,
    ) {
        let mut answering = Reconciler::new(set(0..2_000), FRAME, 64).unwrap();
        let message: Vec<u8> = std::iter::once(version).chain(tail).collect();
        if let Ok(answer) = answering.answer(&message) {
            prop_assert!(answer.len() <= FRAME);
        }
    }
}

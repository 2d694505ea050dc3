//! T 4: a graph of 100,000 maintainers costs no more than its bounds.

use crate::world::{Draft, NOW, OID, oid, rules, states};
use grasp_core::PubKey;
use grasp_core::maintainers::{Family, Member, Standing};
use grasp_core::nip34::Roles;
use grasp_core::policy::{About, Facts, Origin, StateFacts, Subject, Verdict, judge};
use std::time::{Duration, Instant};

const NODES: u64 = 100_000;

/// Spread over the key space, as real keys are.
fn nth(n: u64) -> PubKey {
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes());
    bytes[24..].copy_from_slice(&n.to_be_bytes());
    PubKey::from_bytes(bytes)
}

fn number(key: &PubKey) -> u64 {
    u64::from_be_bytes(key.as_bytes()[24..].try_into().unwrap())
}

fn member(lead: Option<u64>, lists: impl Iterator<Item = u64>) -> Member {
    let mut active: Vec<PubKey> = lists.map(|n| nth(n % NODES)).collect();
    active.sort_unstable();
    active.dedup();
    let leads = lead.into_iter().map(nth).collect();
    Member { roles: Roles { leads, active, author_active: true }, standing: Standing::Served }
}

/// A hundred each, both ways, all over the graph.
fn dense(n: u64) -> Member {
    let step = |i: u64| n + NODES + i * i * 7 - 50;
    member(None, (1..=50).flat_map(move |i| [step(i), n + NODES - i * i * 7 + 50]))
}

fn chain(n: u64) -> Member {
    member(None, [n + 1, n + NODES - 1].into_iter())
}

/// Everyone points at one lead who has never heard of them.
fn hopeless(n: u64) -> Member {
    let lead = if n < 100 { n } else { n % 100 };
    member(Some(lead), (0..100).map(move |i| i * 997 + n))
}

#[test]
fn a_hundred_thousand_maintainers_are_judged_in_no_time() {
    for (name, graph) in
        [("dense", dense as fn(u64) -> Member), ("chain", chain), ("hopeless", hopeless)]
    {
        let known: Vec<Member> = (0..NODES).map(graph).collect();
        let (fastest, lookups) = best_of_ten(|| judged(&known));
        assert!(lookups <= Family::KEYS_MAX + 256, "{name}: {lookups} lookups");
        let limit = if cfg!(debug_assertions) { 100 } else { 10 };
        assert!(fastest < Duration::from_millis(limit), "{name}: {fastest:?}");
    }
}

#[test]
fn a_hundred_thousand_admirers_cost_no_more_than_a_few() {
    let mut lookups = 0;
    let famous = nth(0);
    let family = Family::gather(
        [famous],
        |key| {
            lookups += 1;
            Some(if *key == famous {
                member(None, [].into_iter())
            } else {
                member(None, [0].into_iter())
            })
        },
        |_| (1..NODES).map(nth).collect(),
    );
    assert!(lookups <= 257, "{lookups} lookups");
    assert_eq!(family.invited(&famous).map(|by| by.standing), Some(Standing::Served));
}

/// Seven levels down a chain of leads and back: the bound must not cut off honest people.
#[test]
fn a_small_family_is_gathered_whole() {
    let known = |key: &PubKey| (number(key) < 9).then(|| chain_of_nine(number(key)));
    let family = Family::gather([nth(8)], known, |_| Vec::new());
    assert_eq!(family.keys().len(), 9);
    assert_eq!(family.confirmed(&nth(0)).unwrap().len(), 9);
}

fn chain_of_nine(n: u64) -> Member {
    let next = (n < 8).then_some(n + 1);
    member(None, next.into_iter().chain(n.checked_sub(1)))
}

fn judged(known: &[Member]) -> usize {
    let mut lookups = 0;
    let state = states('a').tag(&["refs/heads/main", OID]);
    let author = nth(NODES / 2);
    let state = grasp_core::Event { pubkey: author, ..state };
    let announcement_of = |key: &PubKey| {
        lookups += 1;
        usize::try_from(number(key)).ok().and_then(|n| known.get(n).cloned())
    };
    let family = Family::gather([author], announcement_of, |_| Vec::new());
    let facts = StateFacts { announced: true, family, present: [oid()].into(), unfit: None };
    let subject = Subject::of(&state, &rules()).unwrap();
    let facts = Facts::new(About::State(facts));
    let verdict = judge(&state, &subject, &facts, &rules(), Origin::Direct, NOW);
    assert!(matches!(verdict, Verdict::Accept | Verdict::Reject(_)));
    lookups
}

#[expect(clippy::disallowed_methods, reason = "this test is about elapsed time")]
fn best_of_ten(work: impl Fn() -> usize) -> (Duration, usize) {
    let timed = || {
        let start = Instant::now();
        let lookups = work();
        (start.elapsed(), lookups)
    };
    (0..10).map(|_| timed()).min().unwrap()
}

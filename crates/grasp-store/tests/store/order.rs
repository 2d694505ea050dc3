//! Order independence (threats.md, G17): a history of announcements, states, threads and deletions
//! leaves the same store behind in whatever order it arrives.

use crate::world::{Draft, address, event, permutations, received, temporary, who};
use grasp_core::nip09::Deletion;
use grasp_core::policy::Erased;
use grasp_core::{Event, EventId, Filter, Kind, VerifiedEvent};
use grasp_store::{Cursor, EventStore, LmdbStore, Result, Space, StoreError, Transaction, Want};
use grasp_testkit::Random;

const HISTORIES: u64 = 250;
const LEN: usize = 5;

#[test]
fn every_order_of_arrival_leaves_the_same_store() {
    let store = temporary();
    for seed in 0..HISTORIES {
        let history = history(&mut Random::seeded(seed));
        let mut orders = permutations(&history).into_iter();
        let expected = outcome(&store, &orders.next().unwrap());
        for order in orders {
            assert_eq!(outcome(&store, &order), expected, "seed {seed}, {order:#?}");
        }
    }
}

/// Few times, few authors, few names: most histories collide somewhere.
fn history(random: &mut Random) -> Vec<VerifiedEvent> {
    let mut events: Vec<Event> = Vec::new();
    for number in 0..LEN {
        let id = u8::try_from(number * 40 + random.index(40)).unwrap();
        let at = 100 + random.below(3);
        let author = *random.pick(&['a', 'a', 'b']);
        let name = *random.pick(&["x", "x", "y:z"]);
        events.push(match random.below(5) {
            0 => event(30617, author, at, id).d(name),
            1 => event(30618, author, at, id).d(name).tag(&["HEAD", "ref: refs/heads/main"]),
            2 => event(1621, author, at, id).tag(&["a", &address(30617, 'a', name).to_string()]),
            // A clock that is an hour ahead.
            3 => event(30617, author, at + 3_600, id).d(name),
            _ => deletion(random, &events, author, at, id, name),
        });
    }
    events.iter().map(Draft::verified).collect()
}

/// By id for what stands alone, by address for what has versions.
fn deletion(
    random: &mut Random,
    earlier: &[Event],
    author: char,
    at: u64,
    id: u8,
    name: &str,
) -> Event {
    let kind = *random.pick(&[30617, 30618]);
    let request = event(5, author, at, id).tag(&["a", &address(kind, author, name).to_string()]);
    let alone: Vec<&Event> = earlier.iter().filter(|event| event.coordinate().is_none()).collect();
    if alone.is_empty() {
        return request;
    }
    request.tag(&["e", &random.pick(&alone).id.to_hex()])
}

/// What is served in the end, and what the tombstones say about each event of the history.
type Outcome = (Vec<EventId>, Vec<(EventId, Erased)>);

/// Plays a history in a transaction that is thrown away afterwards.
fn outcome(store: &LmdbStore, history: &[VerifiedEvent]) -> Outcome {
    let mut outcome = None;
    let undone = store.write(&mut |txn| {
        for event in history {
            admit(txn, event)?;
        }
        outcome = Some((served(txn)?, erased(txn, history)?));
        Err(StoreError::Damaged("only played"))
    });
    assert!(matches!(undone, Err(StoreError::Damaged("only played"))));
    outcome.unwrap()
}

fn served(txn: &dyn Transaction) -> Result<Vec<EventId>> {
    let mut cursor =
        Cursor::new([Filter::default()].into(), Want::Positions, u64::MAX, crate::world::NOW);
    let mut ids = Vec::new();
    let mut sink = |hit: grasp_store::Hit<'_>| ids.push(hit.position.id());
    txn.advance(Space::Served, &mut cursor, &mut crate::world::boundless(), &mut sink)?;
    Ok(ids)
}

fn erased(txn: &dyn Transaction, history: &[VerifiedEvent]) -> Result<Vec<(EventId, Erased)>> {
    let mut all = Vec::new();
    for event in history {
        all.push((event.id, txn.erased(event)?));
    }
    all.sort_by_key(|(id, _)| *id);
    Ok(all)
}

/// The smallest admission there is: what was taken back stays out, what is taken back goes.
fn admit(txn: &mut dyn Transaction, event: &VerifiedEvent) -> Result<()> {
    if event.kind == Kind::DELETION {
        let deletion = Deletion::parse(event).unwrap();
        take_back(txn, &deletion)?;
    } else {
        let erased = txn.erased(event)?;
        if erased.id || erased.coordinate_until.is_some_and(|until| event.created_at <= until) {
            return Ok(());
        }
    }
    txn.put(Space::Served, event, &received()).map(|_| ())
}

fn take_back(txn: &mut dyn Transaction, deletion: &Deletion) -> Result<()> {
    let mut named = Vec::new();
    for id in &deletion.ids {
        txn.bury_event(id, &deletion.author, deletion.at)?;
        named.extend(txn.get(Space::Served, id)?);
    }
    for coordinate in &deletion.coordinates {
        txn.bury_coordinate(coordinate, deletion.at)?;
        named.extend(txn.current(Space::Served, coordinate)?);
    }
    for found in named.iter().filter(|found| deletion.covers(&found.event)) {
        txn.remove(Space::Served, &found.event.id)?;
    }
    Ok(())
}

#[test]
fn no_author_ever_loses_an_event_to_another() {
    let store = temporary();
    for seed in 0..HISTORIES {
        let history = history(&mut Random::seeded(seed));
        let (own, others): (Vec<_>, Vec<_>) =
            history.iter().cloned().partition(|event| event.pubkey == who('b'));
        let alone = outcome(&store, &own).0;
        let both = outcome(&store, &[others, own].concat()).0;
        assert!(alone.iter().all(|id| both.contains(id)), "seed {seed}");
    }
}

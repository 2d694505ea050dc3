//! Remembered ids: what they save, what they never replace, and what ends them.

use super::crash_tests::machine::Disk;
use super::refused::{self, Counts, RefusedShare, is_refused, positions};
use super::second_chance_tests::{Project, THEN, came};
use super::{SecondChance, inventory, unknown};
use crate::clock::Clock;
use grasp_core::event::Forged;
use grasp_core::id::Signature;
use grasp_core::{Event, EventId, Filter, Kind, RepoId, Time, Timestamp, VerifiedEvent};
use grasp_store::{EventStore, Options, Provenance, Shelf, Space, Transaction, in_memory};
use grasp_testkit::{Author, Repository};

#[test]
fn s18_a_forged_copy_leaves_no_trace_and_a_remembered_id_saves_no_check() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let state = Project::new().others_state();
    let forged = Event { sig: Signature::from_bytes([7; 64]), ..state.event().clone() };
    let copy = || forged.clone();
    assert_eq!(machine.is_offered(copy(), came(0)), Err(Forged::Signature), "row 30");
    assert_eq!((machine.counts(), machine.second_chance.sizes()), Default::default());
    assert!(!machine.is_synced(&state) && machine.refuses(&state));
    assert_eq!(machine.is_offered(copy(), came(0)), Err(Forged::Signature), "D 2");
}

#[test]
fn s18_the_inventory_is_what_is_served_what_waits_and_what_was_refused() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let project = Project::new();
    let served = Repository::new(Author::number(7), "tool").announcement(THEN + 5);
    let from = Provenance::direct(Time(1));
    let put = |space, event: &VerifiedEvent| {
        machine.store.write(&mut |txn| txn.put(space, event, &from).map(drop)).unwrap();
    };
    put(Space::Served, &served);
    let former = Repository::new(Author::number(7), "tool").announcement(THEN + 4);
    put(Space::History, &former);
    let held = project.announcement();
    assert!(machine.publishes(&held).ok);
    let refused = Project::new().acme.state(&Author::number(8), THEN + 9, &[], None);
    assert!(!machine.is_synced(&refused));
    let now = Clock::default().now().timestamp();
    let both = [Kind::ANNOUNCEMENT, Kind::STATE].into();
    let all = Filter { kinds: Some(both), limit: Some(1), ..Filter::default() };
    let has = |filter: &Filter| inventory(&*machine.store, filter, now, 100).unwrap();
    let of = |events: &[&VerifiedEvent]| -> Vec<(Timestamp, EventId)> {
        events.iter().map(|event| (event.created_at, event.id)).collect()
    };
    assert_eq!(has(&all), of(&[&held, &served, &refused]));
    let late = Filter { since: Some(Timestamp(THEN + 6)), ..all.clone() };
    assert_eq!(has(&late), of(&[&refused]));
    let early = Filter { until: Some(Timestamp(THEN)), ..all.clone() };
    assert_eq!(has(&early), of(&[&held]));
    let named = Filter { tags: [(b'd', ["acme".to_owned()].into())].into(), ..all.clone() };
    assert_eq!(has(&named), of(&[&held]), "nobody knows what a refused event was tagged with");
    let any = inventory(&*machine.store, &all, now, 1).unwrap();
    assert_eq!(any.len(), 2, "one more than fits says that there are too many");
    let strange = EventId::from_bytes([5; 32]);
    let ids = vec![served.id, former.id, held.id, refused.id, strange];
    assert_eq!(unknown(&*machine.store, ids).unwrap(), [strange]);
    machine.gives_up(&held);
    assert!(!machine.has(Space::Held, &held));
    assert_eq!(unknown(&*machine.store, vec![held.id]).unwrap(), [], "row 33");
}

#[test]
fn s29_other_rules_or_a_week_make_us_forget() {
    let store = in_memory(&Options::default()).unwrap();
    let rules = super::tests::rules();
    let project = Project::new();
    let (until, forever) = (project.others_state(), project.issue());
    let week = SecondChance::IDS_FOR;
    let repo = RepoId { owner: until.pubkey, identifier: "acme".parse().unwrap() };
    let remembers = || {
        let snapshot = store.read().unwrap();
        [&until, &forever].map(|it| is_refused(&*snapshot, &it.id).unwrap())
    };
    let write = |work: &mut dyn FnMut(&mut dyn Transaction)| {
        store
            .write(&mut |txn| {
                work(txn);
                Ok(())
            })
            .unwrap();
    };
    write(&mut |txn| {
        refused::tie_to(txn, &rules).unwrap();
        refused::remember(txn, &until, Some(&repo), RefusedShare::of(None), Time(1)).unwrap();
        refused::remember(txn, &forever, None, RefusedShare::of(None), Time(1)).unwrap();
    });
    write(&mut |txn| refused::tie_to(txn, &rules).unwrap());
    assert_eq!(remembers(), [true, true], "the same rules");
    let mut pruned = Counts::default();
    write(&mut |txn| pruned = refused::prune(txn, Time(1).plus(week), week).unwrap());
    assert_eq!((remembers(), pruned), ([true, true], Counts::default()));
    write(&mut |txn| pruned = refused::prune(txn, Time(2).plus(week), week).unwrap());
    assert_eq!(pruned, Counts { states: 1, ..Counts::default() });
    assert_eq!(remembers(), [false, true], "what cannot change is not forgotten by age");
    let mut others = rules;
    others.repository_blacklist = vec!["acme".parse().unwrap()];
    write(&mut |txn| refused::tie_to(txn, &others).unwrap());
    assert_eq!(remembers(), [false, false]);
    let kept = store.read().unwrap().notes(Shelf::Refused, &[], 10).unwrap();
    assert_eq!(kept.len(), 1, "nothing but the rules themselves");
}

/// An event like any other, with a number for its id.
fn numbered(template: &Event, number: u64) -> Event {
    let mut id = [0; 32];
    id[..8].copy_from_slice(&number.to_be_bytes());
    Event { id: EventId::from_bytes(id), created_at: Timestamp(number), ..template.clone() }
}

#[test]
fn s29_the_set_of_refused_ids_is_bounded_and_the_oldest_go() {
    let store = in_memory(&Options::default()).unwrap();
    let template = Project::new().others_state().event().clone();
    let numbered = |number: u64| numbered(&template, number);
    let share = RefusedShare::of(Some("ws://one"));
    let remember = &mut |txn: &mut dyn Transaction| {
        (0..100_010).try_for_each(|n| refused::remember(txn, &numbered(n), None, share, Time(n)))
    };
    store.write(remember).unwrap();
    let snapshot = store.read().unwrap();
    assert_eq!(refused::counts(&*snapshot).unwrap().total(), 100_000);
    assert!(!is_refused(&*snapshot, &numbered(9).id).unwrap());
    assert!(is_refused(&*snapshot, &numbered(10).id).unwrap());
    let filter = Filter { kinds: Some([Kind::STATE].into()), ..Filter::default() };
    assert_eq!(positions(&*snapshot, &filter).unwrap().len(), 100_000);
}

#[test]
fn s47_a_relay_that_floods_pushes_out_only_its_own_refused_ids() {
    const OTHERS: u64 = 500;
    let store = in_memory(&Options::default()).unwrap();
    let template = Project::new().others_state().event().clone();
    let (small, large) =
        (RefusedShare::of(Some("ws://small")), RefusedShare::of(Some("ws://large")));
    let mut flood = |txn: &mut dyn Transaction| {
        for n in 0..OTHERS {
            refused::remember(txn, &numbered(&template, n), None, small, Time(n))?;
        }
        for n in OTHERS..100_000 + 2 * OTHERS {
            refused::remember(txn, &numbered(&template, n), None, large, Time(n))?;
        }
        // The same events once more, by the relay that floods: they stay where they are.
        for n in 0..OTHERS {
            refused::remember(txn, &numbered(&template, n), None, large, Time(200_000 + n))?;
        }
        Ok(())
    };
    store.write(&mut flood).unwrap();
    let snapshot = store.read().unwrap();
    assert_eq!(refused::counts(&*snapshot).unwrap().total(), 100_000);
    let is_kept = |n: u64| is_refused(&*snapshot, &numbered(&template, n).id).unwrap();
    assert!((0..OTHERS).all(is_kept), "what is remembered of the other relay is untouched");
    assert!(!(OTHERS..3 * OTHERS).any(is_kept) && is_kept(3 * OTHERS), "its own oldest went");
}

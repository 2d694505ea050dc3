use crate::world::{Draft, Verbs, address, event, permutations, temporary, who};
use grasp_core::policy::Erased;
use grasp_core::{Event, Timestamp};
use grasp_store::{EventStore, LmdbStore};

fn erased(store: &LmdbStore, event: &Event) -> Erased {
    store.read().unwrap().erased(event).unwrap()
}

fn buried_until(store: &LmdbStore, event: &Event) -> Option<u64> {
    erased(store, event).coordinate_until.map(|until| until.0)
}

#[test]
fn a_deletion_is_remembered_before_its_target_was_ever_seen() {
    let store = temporary();
    let note = event(1621, 'a', 5, 1);
    store.change(|txn| txn.bury_event(&note.id, &who('a'), Timestamp(9)));
    assert!(erased(&store, &note).id);
    assert!(!store.has(&note));
}

#[test]
fn nothing_is_erased_that_nobody_asked_for() {
    let store = temporary();
    for kind in [1, 0, 30617] {
        assert_eq!(erased(&store, &event(kind, 'a', 5, 1).d("x")), Erased::default());
    }
}

#[test]
fn a_tombstone_speaks_for_its_own_author_only() {
    let store = temporary();
    let of_b = event(1621, 'b', 5, 1);
    let address_of_b = event(30617, 'b', 5, 2).d("acme");
    store.change(|txn| {
        txn.bury_event(&of_b.id, &who('a'), Timestamp(9))?;
        txn.bury_coordinate(&address(30617, 'a', "acme"), Timestamp(9))?;
        txn.bury_author(&who('a'), Timestamp(9))
    });
    assert_eq!(erased(&store, &of_b), Erased::default());
    assert_eq!(erased(&store, &address_of_b), Erased::default());
}

#[test]
fn a_deleted_address_reaches_versions_up_to_its_time_and_names_no_other_address() {
    let store = temporary();
    store.change(|txn| txn.bury_coordinate(&address(30617, 'a', "acme"), Timestamp(7)));
    let announced = |d: &str| event(30617, 'a', 5, 1).d(d);
    assert_eq!(buried_until(&store, &announced("acme")), Some(7));
    for other in ["acme ", "acm", "acme:", "", "Acme"] {
        assert_eq!(buried_until(&store, &announced(other)), None, "{other:?}");
    }
    assert_eq!(buried_until(&store, &event(30618, 'a', 5, 1).d("acme")), None);
    assert!(!erased(&store, &announced("acme")).id, "the address is buried, not one version");
}

#[test]
fn the_latest_request_counts_in_whatever_order_requests_arrive() {
    let announced = event(30617, 'a', 5, 1).d("acme");
    for order in permutations(&[3, 9, 9, 6]) {
        let store = temporary();
        for at in order.iter().copied().map(Timestamp) {
            store.change(|txn| {
                txn.bury_coordinate(&address(30617, 'a', "acme"), at)?;
                txn.bury_author(&who('a'), at)
            });
        }
        assert_eq!(buried_until(&store, &announced), Some(9), "{order:?}");
        assert_eq!(erased(&store, &announced).vanished_until, Some(Timestamp(9)), "{order:?}");
    }
}

#[test]
fn a_replaceable_event_is_addressed_with_an_empty_identifier() {
    let store = temporary();
    store.change(|txn| txn.bury_coordinate(&address(10317, 'a', ""), Timestamp(7)));
    assert_eq!(buried_until(&store, &event(10317, 'a', 5, 1)), Some(7));
    assert_eq!(buried_until(&store, &event(10317, 'a', 5, 1).d("ignored")), Some(7));
    assert_eq!(buried_until(&store, &event(1, 'a', 5, 1)), None);
}

#[test]
fn burials_are_counted_per_author_and_each_target_once() {
    let store = temporary();
    store.change(|txn| {
        for (author, id) in [('a', 1), ('a', 2), ('a', 2), ('b', 1)] {
            txn.bury_event(&event(1, 'a', 1, id).id, &who(author), Timestamp(9))?;
        }
        for (author, name) in [('a', "x"), ('a', "x"), ('c', "x")] {
            txn.bury_coordinate(&address(30617, author, name), Timestamp(9))?;
        }
        Ok(())
    });
    let count = |author, max| store.read().unwrap().burials_by(&who(author), max).unwrap();
    let counts = ['a', 'b', 'c', 'd'].map(|author| count(author, 100));
    assert_eq!(counts, [3, 1, 1, 0], "ids and addresses count alike");
    assert_eq!(count('a', 1), 1, "counting stops where the caller stops caring");
}

#[test]
fn a_failed_transaction_buries_nothing() {
    let store = temporary();
    let note = event(1, 'a', 5, 1);
    let failed = store.write(&mut |txn| {
        txn.bury_event(&note.id, &who('a'), Timestamp(9))?;
        txn.put(grasp_store::Space::Served, &note.verified(), &crate::world::received())?;
        Err(grasp_store::StoreError::Damaged("a neighbour failed"))
    });
    assert!(failed.is_err());
    assert_eq!(erased(&store, &note), Erased::default());
    assert!(!store.has(&note));
}

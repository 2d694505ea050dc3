use crate::world::{Draft, NOW, Verbs, address, event, ids, temporary, who};
use grasp_core::terms::Term;
use grasp_core::{Filter, Kind};
use grasp_store::{EventStore, Put, Space};

#[test]
fn an_event_in_one_space_does_not_exist_in_another() {
    let store = temporary();
    let announced = event(30617, 'a', 5, 1).d("acme").tag(&["maintainers", &who('b').to_hex()]);
    store.put_in(Space::Held, &announced);
    let snapshot = store.read().unwrap();
    let coordinate = address(30617, 'a', "acme");
    for space in Space::ALL {
        let here = space == Space::Held;
        let count = u64::from(here);
        assert_eq!(snapshot.contains(space, &announced.id).unwrap(), here);
        assert_eq!(snapshot.get(space, &announced.id).unwrap().is_some(), here);
        assert_eq!(snapshot.current(space, &coordinate).unwrap().is_some(), here);
        let position = snapshot.current_position(space, &coordinate).unwrap();
        assert_eq!(position.map(|position| position.id()), here.then_some(announced.id));
        let header = snapshot.header(space, &announced.id).unwrap();
        assert_eq!(header.map(|it| (it.author, it.kind)), here.then_some((who('a'), Kind(30617))));
        assert_eq!(snapshot.has_author(space, &who('a')).unwrap(), here);
        assert_eq!(snapshot.has_author_beyond(space, &who('a'), &[Kind(1)]).unwrap(), here);
        assert!(!snapshot.has_author_beyond(space, &who('a'), &[Kind(30617)]).unwrap());
        let own = snapshot.by_author(space, &who('a'), Kind(30617), 9).unwrap();
        assert_eq!(!own.is_empty(), here);
        assert_eq!(snapshot.events_in(space).unwrap(), count);
        assert_eq!(snapshot.bytes_in(space).unwrap() > 0, here);
        assert_eq!(snapshot.events_of_kind(space, Kind(30617)).unwrap(), count);
        assert_eq!(!store.find_at(space, Filter::default(), NOW).is_empty(), here);
        for term in
            [Term::tag(b'd', "acme"), Term::announces("acme"), Term::lists(&who('b'), "acme")]
        {
            assert_eq!(snapshot.has_term(space, &term).unwrap(), here, "{term:?}");
            assert_eq!(!snapshot.newest(space, &term, 9).unwrap().is_empty(), here);
            let authors = snapshot.authors(space, &term, 9).unwrap();
            assert_eq!(authors, if here { vec![who('a')] } else { vec![] });
        }
    }
}

#[test]
fn versions_compete_within_a_space_and_not_across() {
    let store = temporary();
    let older = event(30617, 'a', 5, 1).d("acme");
    let newer = event(30617, 'a', 6, 2).d("acme");
    store.put_in(Space::Held, &newer);
    assert!(matches!(store.put_in(Space::Served, &older), Put::Stored { replaced: None, .. }));
    assert!(matches!(store.put_in(Space::Aside, &older), Put::Stored { .. }));
    assert_eq!(store.put_in(Space::Held, &older), Put::Superseded);
    assert!(store.has_in(Space::Held, &newer) && store.has_in(Space::Served, &older));
}

#[test]
fn an_event_moves_from_held_to_served_in_one_step() {
    let store = temporary();
    let announced = event(30617, 'a', 5, 1).d("acme");
    store.put_in(Space::Held, &announced);
    store.change(|txn| {
        let mut waiting = txn.remove(Space::Held, &announced.id)?.unwrap();
        waiting.provenance.released = Some(grasp_core::Time(99));
        txn.put(Space::Served, &waiting.event, &waiting.provenance).map(|_| ())
    });
    assert!(!store.has_in(Space::Held, &announced));
    assert_eq!(store.find(Filter::default()), ids([&announced]));
    let served = store.read().unwrap().get(Space::Served, &announced.id).unwrap().unwrap();
    assert_eq!(served.provenance.released, Some(grasp_core::Time(99)));
}

#[test]
fn removing_what_is_not_there_changes_nothing() {
    let store = temporary();
    let note = event(1, 'a', 5, 1);
    store.put_in(Space::Held, &note);
    assert!(!store.remove(&note));
    assert!(!store.remove(&event(1, 'a', 5, 2)));
    assert!(store.has_in(Space::Held, &note));
}

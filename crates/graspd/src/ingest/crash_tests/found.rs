//! Objects that another server had: a crash at every step of taking them in.

use super::machine::Machine;
use super::scene::{MAIN, Scene, id, proposal};
use super::{Picture, after, endures, holds, publishes};
use crate::ingest::Purpose;
use grasp_core::VerifiedEvent;

/// What a hunt brings for the first owner's repository.
struct Find {
    pack: Vec<u8>,
    purpose: Purpose,
}

impl Find {
    /// What was taken once is not wanted a second time.
    fn lands(&self, scene: &Scene, machine: &mut Machine) -> bool {
        let before = Picture::of(machine, scene);
        machine.fetches(&id(&scene.acme), &self.pack, self.purpose)
            || before.events.values().all(|place| *place == "served")
    }
}

fn waiting_project(scene: &mut Scene) -> (VerifiedEvent, VerifiedEvent) {
    let announcement = scene.names("announcement", scene.announcement());
    (announcement, scene.names("state", scene.state(1, &[(MAIN, scene.first)])))
}

#[test]
fn s39_a_state_whose_objects_were_found_elsewhere() {
    let mut scene = Scene::new();
    let (announcement, state) = waiting_project(&mut scene);
    let before = after(|machine| {
        holds(machine, &announcement);
        holds(machine, &state);
    });
    let pack = scene.pack(&[scene.first], &[]);
    let find = Find { pack, purpose: Purpose::State };
    let (was, is) = endures(&before, &scene, &|machine| find.lands(&scene, machine));
    assert_eq!((was.says("announcement"), was.says("state")), ("held", "held"));
    assert_eq!((is.says("announcement"), is.says("state")), ("served", "served"));
    assert_eq!(is.shows(&scene.acme), [("HEAD", MAIN), (MAIN, &*scene.first.to_hex())]);
}

#[test]
fn s33_a_state_that_had_given_up_waiting() {
    let mut scene = Scene::new();
    let (announcement, state) = waiting_project(&mut scene);
    let before = after(|machine| {
        holds(machine, &announcement);
        holds(machine, &state);
        machine.gives_up(&state);
    });
    let pack = scene.pack(&[scene.first], &[]);
    let find = Find { pack, purpose: Purpose::State };
    let (was, is) = endures(&before, &scene, &|machine| find.lands(&scene, machine));
    assert_eq!((was.says("announcement"), was.says("state")), ("held", "wanted"));
    assert_eq!((is.says("announcement"), is.says("state")), ("served", "served"));
}

#[test]
fn s39_a_pull_request_whose_commit_was_found_elsewhere() {
    let mut scene = Scene::new();
    let before = after(|machine| {
        publishes(&mut scene, machine);
        holds(machine, &scene.names("request", scene.pull_request(&[&scene.acme])));
    });
    let request = scene.pull_request(&[&scene.acme]).id;
    let pack = scene.pack(&[scene.proposed], &[scene.first]);
    let find = Find { pack, purpose: Purpose::Proposal };
    let (was, is) = endures(&before, &scene, &|machine| find.lands(&scene, machine));
    assert_eq!((was.says("request"), is.says("request")), ("held", "served"));
    let (first, proposed) = (scene.first.to_hex(), scene.proposed.to_hex());
    let name = proposal(&request);
    assert_eq!(is.shows(&scene.acme), [("HEAD", MAIN), (MAIN, &*first), (&*name, &*proposed)]);
}

/// The seed's timeline B, with the objects here through the other owner.
#[test]
fn s36_timeline_b_a_state_whose_objects_came_first_is_served_at_once() {
    let mut scene = Scene::new();
    let twins = scene.names("twin's announcement", scene.twins_announcement());
    let announcement = scene.names("announcement", scene.announcement());
    let before = after(|machine| {
        holds(machine, &announcement);
        holds(machine, &twins);
        // The twin's view gets the commit by a state of the twin's own.
        let theirs = scene.twin.state(
            &scene.twin.owner,
            1_700_000_000,
            &[(MAIN, &scene.second.to_hex())],
            None,
        );
        holds(machine, &theirs);
        let pack = scene.pack(&[scene.second], &[]);
        assert!(machine.fetches(&id(&scene.twin), &pack, Purpose::State));
    });
    let state = scene.names("state", scene.state(5, &[(MAIN, scene.second)]));
    let (_, is) = endures(&before, &scene, &|machine| {
        let answer = machine.publishes(&state);
        answer.ok
    });
    assert_eq!(is.says("state"), "served", "without a push and without a hunt");
    assert_eq!(is.shows(&scene.acme), [("HEAD", MAIN), (MAIN, &*scene.second.to_hex())]);
}

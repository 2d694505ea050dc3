//! What a wrong clock must not delete: a step forward, or a start with another time, takes nothing
//! away that its owner could still want.

use super::crash_tests::machine::{DOMAIN, Disk, Machine};
use super::crash_tests::scene::{MAIN, Scene, proposal};
use super::land::Outcome;
use grasp_core::{EventId, Kind, VerifiedEvent};
use grasp_store::{Shelf, Space};
use grasp_testkit::{Author, Draft, Repository, now};
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
const DAY_MS: i64 = 24 * 3_600_000;
const OID: &str = "1111111111111111111111111111111111111111";

fn is_in(machine: &Machine, space: Space, id: &EventId) -> bool {
    machine.store.read().unwrap().contains(space, id).unwrap()
}

fn uploads(machine: &Machine) -> usize {
    machine.store.read().unwrap().notes(Shelf::Uploads, &[], 10).unwrap().len()
}

/// A served repository, an issue that expires in an hour, an unpublished pull request's commits and
/// a state that waits for git data.
struct Things {
    expiring: VerifiedEvent,
    waiting: VerifiedEvent,
}

impl Things {
    fn on(machine: &mut Machine) -> Self {
        let scene = Scene::new();
        assert!(machine.publishes(&scene.announcement()).ok);
        assert!(machine.publishes(&scene.state(1, &[(MAIN, scene.first)])).ok);
        let push = scene.push(&[(MAIN, Some(scene.first))], &[scene.first], &[]);
        assert_eq!(machine.pushes(&push), Outcome::Done);
        let request = scene.pull_request(&[&scene.acme]);
        let proposed = scene.proposed;
        let refs = [(&*proposal(&request.id), Some(proposed))];
        let push = scene.push(&refs, &[proposed], &[scene.first]);
        assert_eq!(machine.pushes(&push), Outcome::Done);
        let in_an_hour = (now() + 3_600).to_string();
        let draft = Draft::new(Kind(1621), now()).tag(&["a", &scene.acme.coordinate()]);
        let expiring = Author::number(7).signs(draft.tag(&["expiration", &in_an_hour]));
        assert!(machine.publishes(&expiring).ok);
        let other = Repository::new(Author::number(8), "other");
        assert!(machine.publishes(&other.announcement_listing(DOMAIN, now())).ok);
        let waiting = other.state(&other.owner, now(), &[(MAIN, OID)], None);
        assert!(machine.publishes(&waiting).ok);
        let things = Self { expiring, waiting };
        things.are_all_there(machine);
        things
    }

    fn are_all_there(&self, machine: &Machine) {
        assert!(is_in(machine, Space::Served, &self.expiring.id), "what expires");
        assert!(is_in(machine, Space::Held, &self.waiting.id), "what waits");
        assert_eq!(uploads(machine), 1, "what was uploaded");
    }
}

#[test]
fn after_a_clock_is_set_forward_nothing_is_deleted_for_an_hour() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let things = Things::on(&mut machine);
    machine.clock.set_wall(DAY_MS);
    machine.sweeps();
    things.are_all_there(&machine);
    machine.clock.elapse(59 * MINUTE);
    machine.sweeps();
    things.are_all_there(&machine);
    machine.clock.elapse(2 * MINUTE);
    machine.sweeps();
    assert!(!is_in(&machine, Space::Served, &things.expiring.id), "the clock is believed by now");
    assert!(!is_in(&machine, Space::Held, &things.waiting.id), "it waited for more than its time");
    assert_eq!(uploads(&machine), 0);
}

#[test]
fn a_restart_while_the_clock_is_in_doubt_deletes_nothing() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let things = Things::on(&mut machine);
    machine.sweeps();
    machine.clock.set_wall(DAY_MS);
    machine.sweeps();
    machine.clock.elapse(6 * MINUTE);
    machine.sweeps();
    drop(machine);
    let mut machine = disk.boots_ahead(DAY_MS);
    assert!(machine.recovers());
    machine.sweeps();
    things.are_all_there(&machine);
}

#[test]
fn a_clock_that_is_set_right_within_the_hour_has_deleted_nothing() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let things = Things::on(&mut machine);
    machine.clock.set_wall(DAY_MS);
    machine.sweeps();
    machine.clock.elapse(10 * MINUTE);
    machine.clock.set_wall(-DAY_MS);
    machine.sweeps();
    things.are_all_there(&machine);
    machine.clock.elapse(HOUR);
    machine.sweeps();
    assert!(!is_in(&machine, Space::Served, &things.expiring.id), "its time has come");
}

#[test]
fn a_clock_that_is_set_back_neither_deletes_nor_keeps_what_waits() {
    let disk = Disk::new();
    let mut machine = disk.boots();
    let things = Things::on(&mut machine);
    machine.clock.set_wall(-DAY_MS);
    let other = Repository::new(Author::number(8), "other");
    let late = other.state(&other.owner, now() - 86_000, &[("refs/heads/next", OID)], None);
    assert!(!machine.publishes(&late).text.is_empty());
    machine.sweeps();
    things.are_all_there(&machine);
    machine.clock.elapse(19 * MINUTE);
    machine.sweeps();
    things.are_all_there(&machine);
    machine.clock.elapse(12 * MINUTE);
    machine.sweeps();
    assert!(!is_in(&machine, Space::Held, &things.waiting.id), "it waited for its time");
    assert_eq!(uploads(&machine), 0);
    assert!(is_in(&machine, Space::Served, &things.expiring.id), "its time has not come");
}

#[test]
fn after_a_start_everything_has_its_full_time_whatever_the_clock_says() {
    for ahead_ms in [-DAY_MS, DAY_MS] {
        let disk = Disk::new();
        let mut machine = disk.boots();
        let things = Things::on(&mut machine);
        machine.sweeps();
        machine.clock.elapse(15 * MINUTE);
        drop(machine);
        let mut machine = disk.boots_ahead(ahead_ms);
        assert!(machine.recovers());
        machine.sweeps();
        things.are_all_there(&machine);
        machine.clock.elapse(19 * MINUTE);
        machine.sweeps();
        things.are_all_there(&machine);
    }
}

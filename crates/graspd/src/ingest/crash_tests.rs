//! A crash at every step of a release, and another at every step of the recovery from it: in the
//! end it is as if there had been none. Events and refs never tell two stories.

mod found;
pub(crate) mod machine;
pub(crate) mod scene;

use super::Outcome;
use grasp_core::VerifiedEvent;
use grasp_core::policy::PURGATORY;
use grasp_store::{Shelf, Space};
use grasp_testkit::Repository;
use machine::{Disk, Machine, Push, git};
use scene::{MAIN, Scene, id, proposal};
use std::collections::BTreeMap;

/// All that the world can tell about a server.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Picture {
    events: BTreeMap<&'static str, &'static str>,
    /// Every ref and HEAD of every repository, as git reads them.
    refs: BTreeMap<String, String>,
    uploads: usize,
    incoming: usize,
    begun: usize,
}

impl Picture {
    fn of(machine: &Machine, scene: &Scene) -> Self {
        let store = machine.store.read().unwrap();
        let place = |id| {
            let spaces = [(Space::Served, "served"), (Space::Held, "held")];
            let later =
                [(Space::History, "history"), (Space::Aside, "aside"), (Space::Wanted, "wanted")];
            let mut all = spaces.into_iter().chain(later);
            all.find(|(space, _)| store.contains(*space, id).unwrap()).map_or("", |it| it.1)
        };
        let count = |shelf| store.notes(shelf, &[], usize::MAX).unwrap().len();
        Self {
            events: scene.events.iter().map(|(name, it)| (*name, place(&it.id))).collect(),
            refs: refs(machine),
            uploads: count(Shelf::Uploads),
            incoming: std::fs::read_dir(machine.host.layout.incoming()).unwrap().count(),
            begun: count(Shelf::Intents),
        }
    }

    fn says(&self, name: &str) -> &str {
        self.events[name]
    }

    /// What a visitor of a repository sees; hidden refs are left out.
    fn shows(&self, repository: &Repository) -> Vec<(&str, &str)> {
        let owner = repository.owner.key.to_hex();
        let lines = self.refs.get(&owner).map_or("", String::as_str).lines();
        let split = lines.filter_map(|line| line.split_once(' '));
        split.filter(|(name, _)| !name.starts_with("refs/internal/")).collect()
    }
}

/// Read by git itself.
fn refs(machine: &Machine) -> BTreeMap<String, String> {
    let layout = &machine.host.layout;
    let mut all = BTreeMap::new();
    for repo in layout.repositories().unwrap() {
        let dir = layout.repository(&repo);
        for lock in ["packed-refs.lock", "packed-refs.new", "HEAD.lock"] {
            assert!(!dir.join(lock).exists(), "{lock} is left");
        }
        let listed = git(&dir, &["for-each-ref", "--format=%(refname) %(objectname)"], b"");
        let head = git(&dir, &["symbolic-ref", "HEAD"], b"");
        let text = [b"HEAD ", &head[..], &listed].concat();
        all.insert(repo.owner.to_hex(), String::from_utf8(text).unwrap());
    }
    all
}

/// Git finds every object in place.
fn assert_sound(machine: &Machine) {
    let layout = &machine.host.layout;
    for repo in layout.repositories().unwrap() {
        git(&layout.repository(&repo), &["fsck", "--full", "--no-dangling"], b"");
    }
}

/// What is done while the power may fail. True if the answer was yes.
type Act<'a> = &'a dyn Fn(&mut Machine) -> bool;

/// Tries every step, and every step of the recovery. Returns how it was before and is afterwards.
fn endures(before: &Disk, scene: &Scene, act: Act<'_>) -> (Picture, Picture) {
    let at_rest = |disk: &Disk| Picture::of(&disk.boots(), scene);
    let undisturbed = before.duplicate();
    let mut machine = undisturbed.boots();
    assert!(act(&mut machine));
    machine.does_chores();
    drop(machine);
    let (was, is) = (at_rest(before), at_rest(&undisturbed));
    assert_ne!(was, is, "the story changes something");
    assert_eq!((is.begun, is.incoming), (0, is.uploads), "nothing is left to do: {is:#?}");
    for steps in 0.. {
        let disk = before.duplicate();
        let mut machine = disk.boots_to_die_at(steps);
        act(&mut machine);
        let died = machine.is_dead();
        drop(machine);
        recovers(&disk, scene, act, &is, steps);
        falters(before, scene, act, &is, steps);
        if !died {
            assert!(steps > 1, "there was something to interrupt");
            break;
        }
    }
    (was, is)
}

fn recovers(disk: &Disk, scene: &Scene, act: Act<'_>, is: &Picture, steps: usize) {
    for again in 0.. {
        let disk = disk.duplicate();
        let died = !disk.boots_to_die_at(again).recovers();
        let mut machine = disk.boots();
        assert!(machine.recovers());
        machine.does_chores();
        assert_eq!(Picture::of(&machine, scene), *is, "after {steps} steps, then {again}");
        if !died {
            assert!(act(&mut machine), "who heard nothing tries again");
            machine.does_chores();
            assert_eq!(Picture::of(&machine, scene), *is, "tried again after {steps}");
            assert_sound(&machine);
            break;
        }
    }
}

/// The step failed, and the server lived on: the next sweep finishes it.
fn falters(before: &Disk, scene: &Scene, act: Act<'_>, is: &Picture, steps: usize) {
    let disk = before.duplicate();
    let mut machine = disk.boots_to_die_at(steps);
    act(&mut machine);
    machine.revives();
    machine.sweeps();
    machine.does_chores();
    assert_eq!(Picture::of(&machine, scene), *is, "after {steps} steps and a sweep");
    assert!(act(&mut machine), "who was told no tries again");
}

/// A disk on which these things have happened.
fn after(happened: impl FnOnce(&mut Machine)) -> Disk {
    let disk = Disk::new();
    let mut machine = disk.boots();
    happened(&mut machine);
    machine.does_chores();
    drop(machine);
    disk
}

fn is_done(machine: &mut Machine, push: &Push) -> bool {
    machine.pushes(push) == Outcome::Done
}

/// It waits for git data.
fn holds(machine: &mut Machine, event: &VerifiedEvent) {
    let answer = machine.publishes(event);
    assert!(answer.ok && answer.text.starts_with(PURGATORY), "{answer:?}");
}

/// The project is served, with one commit.
fn publishes(scene: &mut Scene, machine: &mut Machine) {
    let announcement = scene.names("announcement", scene.announcement());
    let state = scene.names("first state", scene.state(1, &[(MAIN, scene.first)]));
    holds(machine, &announcement);
    holds(machine, &state);
    let push = scene.push(&[(MAIN, Some(scene.first))], &[scene.first], &[]);
    assert!(is_done(machine, &push));
}

#[test]
fn the_first_push_of_a_repository() {
    let mut scene = Scene::new();
    let announcement = scene.names("announcement", scene.announcement());
    let state = scene.names("state", scene.state(1, &[(MAIN, scene.first)]));
    let push = scene.push(&[(MAIN, Some(scene.first))], &[scene.first], &[]);
    let before = after(|machine| {
        holds(machine, &announcement);
        holds(machine, &state);
    });
    let (was, is) = endures(&before, &scene, &|machine| is_done(machine, &push));
    assert_eq!((was.says("announcement"), was.says("state")), ("held", "held"));
    assert_eq!((is.says("announcement"), is.says("state")), ("served", "served"));
    assert_eq!(is.shows(&scene.acme), [("HEAD", MAIN), (MAIN, &*scene.first.to_hex())]);
}

#[test]
fn a_push_for_two_owners() {
    let mut scene = Scene::new();
    let announcement = scene.names("announcement", scene.announcement());
    let twins = scene.names("twin's announcement", scene.twins_announcement());
    let state = scene.names("state", scene.state(1, &[(MAIN, scene.first)]));
    let mut push = scene.push(&[(MAIN, Some(scene.first))], &[scene.first], &[]);
    push.others.push((id(&scene.twin), scene.pack(&[scene.first], &[])));
    let before = after(|machine| {
        [&announcement, &twins, &state].iter().for_each(|event| holds(machine, event));
    });
    let (_, is) = endures(&before, &scene, &|machine| is_done(machine, &push));
    assert!(is.events.values().all(|place| *place == "served"), "{is:#?}");
    assert_eq!(is.shows(&scene.acme), is.shows(&scene.twin));
    assert_eq!(is.shows(&scene.twin), [("HEAD", MAIN), (MAIN, &*scene.first.to_hex())]);
}

#[test]
fn a_push_of_branches_and_a_published_pull_request_at_once() {
    let mut scene = Scene::new();
    let before = after(|machine| {
        publishes(&mut scene, machine);
        let side = [("refs/heads/side", scene.second)];
        holds(machine, &scene.names("state", scene.state(2, &side)));
        holds(machine, &scene.names("request", scene.pull_request(&[&scene.acme])));
    });
    let name = proposal(&scene.pull_request(&[&scene.acme]).id);
    let (second, proposed) = (scene.second, scene.proposed);
    let refs = [(MAIN, None), ("refs/heads/side", Some(second)), (&*name, Some(proposed))];
    let push = scene.push(&refs, &[second, proposed], &[scene.first]);
    let (was, is) = endures(&before, &scene, &|machine| is_done(machine, &push));
    assert_eq!((was.says("state"), was.says("request")), ("held", "held"));
    assert_eq!((is.says("state"), is.says("request")), ("served", "served"));
    assert_eq!(is.says("first state"), "history");
    let (second, proposed) = (second.to_hex(), proposed.to_hex());
    let side = "refs/heads/side";
    assert_eq!(is.shows(&scene.acme), [("HEAD", side), (side, &*second), (&*name, &*proposed)]);
}

#[test]
fn a_state_whose_objects_are_all_here() {
    let mut scene = Scene::new();
    let before = after(|machine| publishes(&mut scene, machine));
    let refs = [(MAIN, scene.first), ("refs/tags/v1", scene.first)];
    let state = scene.names("state", scene.state(2, &refs));
    let (was, is) = endures(&before, &scene, &|machine| machine.publishes(&state).ok);
    assert_eq!((was.says("state"), is.says("state")), ("", "served"));
    let first = scene.first.to_hex();
    let shown = [("HEAD", MAIN), (MAIN, &*first), ("refs/tags/v1", &*first)];
    assert_eq!(is.shows(&scene.acme), shown);
}

#[test]
fn a_deletion_that_rolls_refs_back() {
    let mut scene = Scene::new();
    let mut deletion = None;
    let before = after(|machine| {
        publishes(&mut scene, machine);
        let state = scene.names("state", scene.state(2, &[(MAIN, scene.second)]));
        holds(machine, &state);
        let second = scene.second;
        let push = scene.push(&[(MAIN, Some(second))], &[second], &[scene.first]);
        assert!(is_done(machine, &push));
        deletion = Some(scene.names("deletion", scene.deletion(&state)));
    });
    let deletion = deletion.unwrap();
    let (was, is) = endures(&before, &scene, &|machine| machine.publishes(&deletion).ok);
    assert_eq!((was.says("state"), was.says("first state")), ("served", "history"));
    assert_eq!((is.says("state"), is.says("first state")), ("", "served"));
    assert_eq!(is.shows(&scene.acme), [("HEAD", MAIN), (MAIN, &*scene.first.to_hex())]);
}

#[test]
fn a_deletion_of_the_only_state() {
    let mut scene = Scene::new();
    let before = after(|machine| publishes(&mut scene, machine));
    let state = scene.state(1, &[(MAIN, scene.first)]);
    let deletion = scene.names("deletion", scene.deletion(&state));
    let (was, is) = endures(&before, &scene, &|machine| machine.publishes(&deletion).ok);
    assert_eq!(was.says("announcement"), "served");
    assert_eq!((is.says("announcement"), is.says("first state")), ("held", ""));
    assert_eq!(is.shows(&scene.acme), [("HEAD", MAIN)]);
}

#[test]
fn a_pull_request_for_what_was_uploaded_before() {
    let mut scene = Scene::new();
    let request = scene.names("request", scene.pull_request(&[&scene.acme]));
    let name = proposal(&request.id);
    let proposed = scene.proposed;
    let before = after(|machine| {
        publishes(&mut scene, machine);
        let push = scene.push(&[(&*name, Some(proposed))], &[proposed], &[scene.first]);
        assert!(is_done(machine, &push));
    });
    let (was, is) = endures(&before, &scene, &|machine| machine.publishes(&request).ok);
    assert_eq!((was.uploads, was.incoming, is.uploads), (1, 1, 0));
    assert_eq!(is.says("request"), "served");
    let (first, proposed) = (scene.first.to_hex(), proposed.to_hex());
    let shown = [("HEAD", MAIN), (MAIN, &*first), (&*name, &*proposed)];
    assert_eq!(is.shows(&scene.acme), shown);
}

#[test]
fn a_second_owner_who_comes_later() {
    let mut scene = Scene::new();
    let before = after(|machine| publishes(&mut scene, machine));
    let twins = scene.names("twin's announcement", scene.twins_announcement());
    let (_, is) = endures(&before, &scene, &|machine| machine.publishes(&twins).ok);
    assert_eq!(is.says("twin's announcement"), "served");
    assert_eq!(is.shows(&scene.twin), is.shows(&scene.acme));
}

#[test]
fn a_pull_request_to_two_owners_pushed_to_one() {
    let mut scene = Scene::new();
    let request = scene.names("request", scene.pull_request(&[&scene.acme, &scene.twin]));
    let before = after(|machine| {
        publishes(&mut scene, machine);
        let twins = scene.names("twin's announcement", scene.twins_announcement());
        assert!(machine.publishes(&twins).ok);
        machine.does_chores();
        holds(machine, &request);
    });
    let (name, proposed) = (proposal(&request.id), scene.proposed);
    let push = scene.push(&[(&*name, Some(proposed))], &[proposed], &[scene.first]);
    let (_, is) = endures(&before, &scene, &|machine| is_done(machine, &push));
    assert_eq!(is.says("request"), "served");
    assert_eq!(is.shows(&scene.twin), is.shows(&scene.acme));
}

#[test]
fn a_pack_that_came_without_its_end_leaves_nothing() {
    let mut scene = Scene::new();
    let before = after(|machine| publishes(&mut scene, machine));
    let was = Picture::of(&before.boots(), &scene);
    before.boots().receives_and_forgets(&id(&scene.acme), &scene.pack(&[scene.second], &[]));
    let mut machine = before.boots();
    assert_eq!(Picture::of(&machine, &scene).incoming, 1);
    assert!(machine.recovers());
    assert_eq!(Picture::of(&machine, &scene), was);
}

/// Between two checkpoints: some files moved, some not, locks left, a directory half made.
#[test]
fn a_landing_cut_short_between_two_files() {
    let mut scene = Scene::new();
    let mut push = None;
    let before = after(|machine| {
        publishes(&mut scene, machine);
        holds(machine, &scene.names("state", scene.state(2, &[(MAIN, scene.second)])));
        let second = scene.second;
        push = Some(scene.push(&[(MAIN, Some(second))], &[second], &[scene.first]));
    });
    let push = push.unwrap();
    for files in 0..=3 {
        let disk = before.duplicate();
        disk.boots_to_die_at(0).pushes(&push);
        moves_by_hand(&disk, &scene, files);
        let mut machine = disk.boots();
        assert!(machine.recovers());
        let is = Picture::of(&machine, &scene);
        assert_eq!((is.says("state"), is.begun, is.incoming), ("served", 0, 0));
        let second = scene.second.to_hex();
        assert_eq!(is.shows(&scene.acme), [("HEAD", MAIN), (MAIN, &*second)], "{files} moved");
        assert!(is_done(&mut machine, &push));
    }
}

fn moves_by_hand(disk: &Disk, scene: &Scene, files: usize) {
    let layout = disk.layout();
    let repository = layout.repository(&id(&scene.acme));
    for lock in ["packed-refs.lock", "HEAD.lock"] {
        std::fs::write(repository.join(lock), "half").unwrap();
    }
    std::fs::create_dir_all(layout.tmp().join("new-repository/objects")).unwrap();
    let quarantine = std::fs::read_dir(layout.incoming()).unwrap().next().unwrap().unwrap().path();
    let packs = std::fs::read_dir(quarantine.join("objects/pack")).unwrap();
    let mut packs: Vec<_> = packs.map(|file| file.unwrap().path()).collect();
    packs.sort_by_key(|file| file.extension() == Some("idx".as_ref()));
    for file in packs.iter().take(files) {
        let name = file.file_name().unwrap();
        std::fs::rename(file, repository.join("objects/pack").join(name)).unwrap();
    }
}

#[test]
fn a_full_store_refuses_or_finishes_and_nothing_between() {
    let mut scene = Scene::new();
    let mut story = None;
    let before = after(|machine| {
        publishes(&mut scene, machine);
        let second = scene.second;
        let state = scene.names("state", scene.state(2, &[(MAIN, second)]));
        holds(machine, &state);
        let push = scene.push(&[(MAIN, Some(second))], &[second], &[scene.first]);
        story = Some((push, scene.names("deletion", scene.deletion(&state))));
    });
    let (push, deletion) = story.unwrap();
    let pushed = is_whole(&before, &scene, &|machine| is_done(machine, &push));
    is_whole(&pushed, &scene, &|machine| machine.publishes(&deletion).ok);
}

/// As it was or as it should be, whichever the answer says. Returns the disk as it should be.
fn is_whole(before: &Disk, scene: &Scene, act: Act<'_>) -> Disk {
    let with_room = before.duplicate();
    let mut machine = with_room.boots();
    assert!(act(&mut machine));
    drop(machine);
    let (was, is) = (Picture::of(&before.boots(), scene), Picture::of(&with_room.boots(), scene));
    let full = before.duplicate();
    let mut machine = full.boots_full();
    let expected = if act(&mut machine) { is } else { was };
    assert_eq!(Picture::of(&machine, scene), expected);
    with_room
}

#[test]
fn a_state_that_is_deleted_while_its_release_is_stuck_leaves_no_refs() {
    let mut scene = Scene::new();
    let announcement = scene.names("announcement", scene.announcement());
    let state = scene.names("state", scene.state(1, &[(MAIN, scene.first)]));
    let push = scene.push(&[(MAIN, Some(scene.first))], &[scene.first], &[]);
    let deletion = scene.deletion(&state);
    let before = after(|machine| {
        holds(machine, &announcement);
        holds(machine, &state);
    });
    // Journalled, landed, aligned: the event is not served yet.
    for steps in 0..3 {
        let disk = before.duplicate();
        let mut machine = disk.boots_to_die_at(steps);
        machine.pushes(&push);
        machine.revives();
        assert!(machine.publishes(&deletion).ok);
        machine.sweeps();
        let is = Picture::of(&machine, &scene);
        assert_eq!((is.says("state"), is.says("announcement")), ("", "held"), "{steps} steps");
        let shown = is.shows(&scene.acme);
        assert!(shown.iter().all(|(name, _)| *name == "HEAD"), "{steps} steps: {shown:?}");
    }
}

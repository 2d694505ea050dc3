//! Git data that came and may not be taken: of the wrong kind, too large, damaged, or not asked for.
//! It keeps nothing else away, is not fetched again and again, and none of it stays.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the lints' exception for tests misses their helpers"
)]

mod sources;

use grasp_core::{Oid, RepoId};
use grasp_engine::hunt::Outcome;
use grasp_testkit::forge::{Forge, Manner, What};
use grasp_testkit::{Git, Random, WorkTree};
use graspd::fetch::{HAVES_MAX, Part};
use sources::{MIB, Place, acme, nowhere, part, repo, set, task, without_port};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

const PATH: &str = "alice/acme.git";

async fn story() -> (WorkTree, Forge, Oid) {
    let tree = WorkTree::init(&Git::any()).await;
    let first = tree.commit("README", "hello").await;
    (tree, Forge::start().await, first)
}

/// Text that does not get much smaller.
fn noise(seed: u64, len: usize) -> String {
    let mut random = Random::seeded(seed);
    let mut text = String::new();
    while text.len() < len {
        text.push_str(&format!("{:016x}", random.next_u64()));
    }
    text
}

/// A commit beside all others.
async fn branch(tree: &WorkTree, name: &str, text: &str, first: &Oid) -> Oid {
    tree.git(&["checkout", "-q", "-b", name, &first.to_hex()]).await;
    tree.commit(name, text).await
}

fn unacceptable(why: &str) -> Outcome {
    Outcome::Unacceptable(format!("127.0.0.1: {why}"))
}

fn commits(wants: &[Oid]) -> Part {
    Part { commits: set(wants), ..part(wants) }
}

/// How many objects it has, whether anything leads to them or not.
fn objects_of(place: &Place, repo: &RepoId) -> usize {
    let mut git = Command::new(Git::any().binary);
    git.arg("--git-dir").arg(place.layout.repository(repo));
    let listed = git.args(["cat-file", "--batch-all-objects", "--batch-check"]).output().unwrap();
    String::from_utf8(listed.stdout).unwrap().lines().count()
}

#[tokio::test]
async fn s38_what_a_branch_needs_is_a_commit_and_nothing_else_counts_as_found() {
    let (tree, forge, tip) = story().await;
    forge.mirrors(PATH, &tree).await;
    let blob: Oid = tree.git(&["rev-parse", "HEAD:README"]).await.trim().parse().unwrap();
    let why = "what should be a commit is something else";
    let place = Place::new().await;
    for requests in [1, 1] {
        let mut desk = place.desk();
        let wants = task(&forge.url(PATH), vec![commits(&[blob])]);
        let end = place.fetcher.fetch(&wants, &mut desk).await;
        assert_eq!(without_port(end.outcome), unacceptable(why));
        assert!(end.found.is_empty() && end.absent.is_empty() && desk.brought.is_empty());
        assert_eq!(forge.log().len(), requests, "the second time it is known");
    }
    place.leaves_nothing_behind().await;
    assert!(!place.layout.repository(&acme()).exists());

    let both = Part { to: repo(2), ..commits(&[tip, blob]) };
    let mut desk = place.desk();
    let end = place.fetcher.fetch(&task(&forge.url(PATH), vec![both]), &mut desk).await;
    assert_eq!((without_port(end.outcome), end.found), (unacceptable(why), set(&[tip])));
    assert_eq!(desk.brought, [(repo(2), set(&[tip]))]);
    let as_a_tag = Part { to: repo(3), ..part(&[blob]) };
    let end = place.fetch(&task(&forge.url(PATH), vec![as_a_tag])).await;
    assert_eq!((end.outcome, end.found), (Outcome::Answered, set(&[blob])));
}

#[tokio::test]
async fn s36_one_that_is_too_large_keeps_no_other_away_and_is_not_fetched_again() {
    let (tree, forge, first) = story().await;
    let mut small = Vec::new();
    for n in 0..7 {
        small.push(branch(&tree, &format!("small-{n}"), &noise(n, 2_000), &first).await);
    }
    let large = branch(&tree, "large", &noise(99, 200_000), &first).await;
    forge.mirrors(PATH, &tree).await;
    let place = Place::new().await;
    let mut proposals = commits(&[&small[..], &[large]].concat());
    proposals.limits.bytes_max = 50_000;
    let mut desk = place.desk();
    let end =
        place.fetcher.fetch(&task(&forge.url(PATH), vec![proposals.clone()]), &mut desk).await;
    assert_eq!(without_port(end.outcome), unacceptable("its pack is larger than 50000 bytes"));
    assert_eq!((&end.found, &end.absent), (&set(&small), &set(&[])));
    assert_eq!(forge.log().len(), 7, "three times halved, and all the other halves");
    assert!(!place.has(&acme(), &large) && place.is_sound(&acme()));
    place.leaves_nothing_behind().await;

    let new = branch(&tree, "new", "later", &first).await;
    forge.mirrors(PATH, &tree).await;
    (proposals.wants, proposals.commits) = (set(&[large, new]), set(&[large, new]));
    let end = place.fetch(&task(&forge.url(PATH), vec![proposals.clone()])).await;
    assert_eq!(without_port(end.outcome), unacceptable("its pack is larger than 50000 bytes"));
    assert_eq!(end.found, set(&[new]));
    let log = forge.log();
    assert_eq!((log.len(), &log[7].wants), (8, &set(&[new])));
    proposals.limits.bytes_max = MIB;
    let end = place.fetch(&task(&forge.url(PATH), vec![proposals])).await;
    assert_eq!(end.outcome, Outcome::Answered, "with more room it is another question");
}

#[tokio::test]
async fn where_much_may_not_be_taken_only_that_is_left_alone() {
    let (tree, forge, first) = story().await;
    let (mut good, mut large) = (Vec::new(), Vec::new());
    for n in 0..12 {
        good.push(branch(&tree, &format!("good-{n}"), "good", &first).await);
        large.push(branch(&tree, &format!("large-{n}"), &noise(n, 20_000), &first).await);
    }
    forge.mirrors(PATH, &tree).await;
    let place = Place::new().await;
    let (mut wants, mut refused) = (set(&[&good[..], &large[..]].concat()), 0);
    for attempt in 1.. {
        let mut proposals = commits(&wants.iter().copied().collect::<Vec<_>>());
        proposals.limits.bytes_max = 5_000;
        let before = forge.log().len();
        let end = place.fetch(&task(&forge.url(PATH), vec![proposals])).await;
        assert_eq!(without_port(end.outcome), unacceptable("its pack is larger than 5000 bytes"));
        assert!(forge.log().len() - before <= 17);
        // As the hunt sees it: what is neither here nor absent was refused.
        let bad = &wants - &(&end.found | &end.absent);
        assert!(bad.len() > refused && bad.iter().all(|oid| large.contains(oid)), "{attempt}");
        refused = bad.len();
        wants.retain(|oid| !end.found.contains(oid));
        if wants.iter().all(|oid| large.contains(oid)) {
            break;
        }
    }
    assert!(good.iter().all(|oid| place.has(&acme(), oid)));
}

#[tokio::test]
async fn s36_what_is_too_much_at_once_comes_in_parts() {
    let (tree, forge, first) = story().await;
    let mut tips = Vec::new();
    for n in 0..4 {
        tips.push(branch(&tree, &format!("b-{n}"), &noise(n, 40_000), &first).await);
    }
    forge.mirrors(PATH, &tree).await;
    let place = Place::new().await;
    let mut proposals = commits(&tips);
    proposals.limits.bytes_max = 60_000;
    let end = place.fetch(&task(&forge.url(PATH), vec![proposals])).await;
    assert_eq!((end.outcome, end.found), (Outcome::Answered, set(&tips)));
    assert_eq!(forge.log().len(), 3);
    assert!(place.is_sound(&acme()));
}

#[tokio::test]
async fn a_damaged_object_stays_out_and_other_parts_still_come() {
    let (tree, forge, first) = story().await;
    let root = tree.git(&["rev-parse", "HEAD^{tree}"]).await;
    let text = format!("tree {}\nauthor nobody\ncommitter nobody\n\nx\n", root.trim());
    let write = ["hash-object", "-t", "commit", "-w", "--literally", "--stdin"];
    let bad = tree.git_reading(&write, text.as_bytes()).await;
    let bad: Oid = bad.trim().parse().unwrap();
    tree.git(&["update-ref", "refs/nostr/bad", &bad.to_hex()]).await;
    forge.mirrors(PATH, &tree).await;
    let place = Place::new().await;
    let parts = vec![commits(&[bad]), Part { to: repo(2), ..commits(&[first]) }];
    let mut desk = place.desk();
    let end = place.fetcher.fetch(&task(&forge.url(PATH), parts), &mut desk).await;
    assert_eq!(without_port(end.outcome), unacceptable("its pack is damaged"));
    assert_eq!((end.found, desk.brought.len()), (set(&[first]), 1));
    assert!(!place.layout.repository(&acme()).exists() && place.is_sound(&repo(2)));
    place.leaves_nothing_behind().await;
}

#[tokio::test]
async fn s38_what_comes_along_with_the_wanted_objects_stays_out() {
    let (tree, forge, first) = story().await;
    let tip = tree.commit("src/lib.rs", "fn main() {}\n").await;
    forge.mirrors(PATH, &tree).await;
    forge.behave(Manner::Smuggles);
    let place = Place::new().await;
    let end = place.fetch(&task(&forge.url(PATH), vec![commits(&[first])])).await;
    assert_eq!((end.outcome, end.found), (Outcome::Answered, set(&[first])));
    assert_eq!(objects_of(&place, &acme()), 3);
    let more = Part { haves: vec![first], ..commits(&[tip]) };
    let end = place.fetch(&task(&forge.url(PATH), vec![more])).await;
    assert_eq!((end.outcome, end.found), (Outcome::Answered, set(&[tip])));
    assert_eq!(objects_of(&place, &acme()), 3 + 4);
    assert!(place.is_sound(&acme()));
    place.leaves_nothing_behind().await;
}

#[tokio::test]
async fn a_disk_that_fills_up_meanwhile_ends_a_fetch() {
    static LOOKS: AtomicUsize = AtomicUsize::new(0);
    fn filling_up(_: &Path) -> Option<u64> {
        Some(if LOOKS.fetch_add(1, Ordering::Relaxed) < 9 { 2 << 30 } else { 1 << 20 })
    }
    let (tree, forge, first) = story().await;
    forge.mirrors(PATH, &tree).await;
    forge.behave(Manner::EndlessPack);
    let mut place = Place::new().await;
    place.measures(filling_up, 1 << 30);
    let mut desk = place.desk();
    let end = place.fetcher.fetch(&task(&forge.url(PATH), vec![part(&[first])]), &mut desk).await;
    let Outcome::Failed(why) = end.outcome else { panic!("{end:?}") };
    assert!(why.contains("1 MiB free on this server's disk, 1 GiB kept in reserve"), "{why}");
    let bytes = desk.received + end.bytes;
    assert!((MIB..4 * MIB).contains(&bytes), "while it streams, and soon: {bytes}");
    place.leaves_nothing_behind().await;
}

#[tokio::test]
async fn who_has_no_such_repository_is_asked_once_and_lacks_all_parts() {
    let (tree, forge, first) = story().await;
    forge.mirrors(PATH, &tree).await;
    let place = Place::new().await;
    let parts = || vec![part(&[first]), Part { to: repo(2), ..part(&[nowhere(1)]) }];
    for (status, why) in [
        (401, "it asks for a login (status 401)"),
        (403, "it asks for a login (status 403)"),
        (404, "it has no such repository (status 404)"),
        (410, "it has no such repository (status 410)"),
    ] {
        forge.behave(Manner::Status(status, None));
        let before = forge.log().len();
        let end = place.fetch(&task(&forge.url(PATH), parts())).await;
        assert_eq!(without_port(end.outcome), Outcome::Lacks(format!("127.0.0.1: {why}")));
        assert_eq!((end.absent, end.found), (set(&[first, nowhere(1)]), set(&[])));
        assert_eq!(forge.log().len() - before, 1);
    }
    forge.behave(Manner::V0Only);
    let end = place.fetch(&task(&forge.url(PATH), vec![part(&[first])])).await;
    assert_eq!((end.outcome, end.found), (Outcome::Answered, set(&[first])));
    forge.behave(Manner::Lacks);
    let end = place.fetch(&task(&forge.url(PATH), parts())).await;
    assert!(matches!(end.outcome, Outcome::Lacks(_)), "{end:?}");
    assert_eq!(forge.log().last().unwrap().what, What::InfoRefs, "whatever the first question is");
}

#[tokio::test]
async fn s36_a_server_may_be_told_of_much_that_is_here() {
    for manner in [Manner::Honest, Manner::V0Only] {
        let (tree, forge, _) = story().await;
        let large = tree.commit("noise", &noise(1, 60_000)).await;
        forge.mirrors(PATH, &tree).await;
        forge.behave(manner.clone());
        let place = Place::new().await;
        place.fetch(&task(&forge.url(PATH), vec![part(&[large])])).await;
        let next = tree.commit("README", "hello again").await;
        forge.mirrors(PATH, &tree).await;
        // The one that helps is the last that is told.
        let mut haves: Vec<Oid> = (1..HAVES_MAX).map(|n| random_oid(n as u64)).collect();
        haves.push(large);
        haves.push(nowhere(1));
        let more = Part { haves, ..part(&[next]) };
        let end = place.fetch(&task(&forge.url(PATH), vec![more])).await;
        assert_eq!((end.outcome, end.found), (Outcome::Answered, set(&[next])), "{manner:?}");
        let last = forge.log().pop().unwrap();
        assert_eq!((last.haves.len(), last.haves.last()), (HAVES_MAX, Some(&large)));
        assert!(last.bytes_sent < 5_000, "{}", last.bytes_sent);
        assert!(place.is_sound(&acme()));
    }
}

fn random_oid(seed: u64) -> Oid {
    let mut random = Random::seeded(seed);
    let mut bytes = [0; 20];
    bytes.fill_with(|| random.next_u64().to_le_bytes()[0]);
    Oid::from_bytes(bytes)
}

//! Packs with several names: shared where the other repository stays closed, left alone by maintenance.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod packs;
mod real_git;
mod rig;

use grasp_core::{Oid, RepoId};
use grasp_git::{Quarantine, SharePlan, land, packs as count_packs, reachable, tidy};
use packs::snapshot;
use real_git::gits;
use rig::{Author, Rig, fsck, noise, oids, repo};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Shares what `wants` lead to; false if that was not possible.
async fn share(rig: &Rig, from: &Path, to: &RepoId, wants: &[&Oid], has: &[&Oid]) -> bool {
    let (wants, has) = (oids(wants), oids(has));
    let missing = reachable(&rig.git, from, &wants, &has, 1_000).await.unwrap().unwrap();
    let mut quarantine = Quarantine::open(&rig.layout, to).unwrap();
    let plan = SharePlan::new(from, &missing, quarantine.path()).unwrap();
    let is_shared = plan.is_some_and(|plan| plan.link_into(quarantine.path()).unwrap());
    if is_shared {
        quarantine.keep();
        land(&rig.layout, to, quarantine.name()).unwrap();
    }
    is_shared
}

/// The packs of a repository that have so many names.
fn packs_with_names(dir: &Path, names: u64) -> BTreeSet<PathBuf> {
    let files = std::fs::read_dir(dir.join("objects/pack")).unwrap().map(|it| it.unwrap().path());
    let is_pack = |path: &PathBuf| path.extension().is_some_and(|it| it == "pack");
    files.filter(is_pack).filter(|path| path.metadata().unwrap().nlink() == names).collect()
}

#[tokio::test]
async fn packs_are_shared_as_further_names_and_outlive_the_repository_they_came_from() {
    for real in gits() {
        let (rig, author) = (Rig::new(&real).await, Author::new(&real));
        let first = author.commit(&[("large", &noise(1, 100_000))], &[]);
        let from = rig.push(&repo("from"), &author.pack(&[&first], &[]), &first).await;
        let (stray, stray_tip) = snapshot(&[("100644", "stray", b"stray\n")]);
        rig.push(&repo("from"), &stray.bytes(), &stray_tip).await;
        assert!(share(&rig, &from, &repo("to"), &[&first], &[]).await);
        let to = rig.layout.repository(&repo("to"));
        assert_eq!(packs_with_names(&to, 2).len(), 1, "nothing but what was wanted");

        // The next pack is thin and names objects that both have by now.
        let large = [noise(1, 100_000), b"more".to_vec()].concat();
        let tip = author.commit(&[("large", &large)], &[&first]);
        let thin = author.pack(&[&tip], &[&first]);
        assert!(thin.len() < 10_000);
        let waiting = rig.receive(&repo("from"), &thin).await.unwrap().quarantine;
        assert!(share(&rig, waiting.path(), &repo("to"), &[&tip], &[&first]).await);
        assert_eq!(packs_with_names(&to, 2).len(), 2);
        std::fs::remove_dir_all(&from).unwrap();
        drop(waiting);
        let dir = rig.layout.repository(&repo("to"));
        grasp_testkit::until("the quarantine is gone", || async { rig.waiting() == 0 }).await;
        assert_eq!(packs_with_names(&dir, 1).len(), 2);
        fsck(&real, &dir);
    }
}

#[tokio::test]
async fn a_pack_that_would_leave_the_other_repository_open_is_not_shared_alone() {
    for real in gits() {
        let (rig, author) = (Rig::new(&real).await, Author::new(&real));
        let first = author.commit(&[("a", b"first")], &[]);
        let from = rig.push(&repo("from"), &author.pack(&[&first], &[]), &first).await;
        assert!(share(&rig, &from, &repo("to"), &[&first], &[]).await);
        // One pack with what is wanted and with a commit whose parent only the source has.
        let elsewhere = author.commit(&[("b", b"b")], &[&first]);
        rig.push(&repo("from"), &author.pack(&[&elsewhere], &[&first]), &elsewhere).await;
        let beyond = author.commit(&[("b", b"c")], &[&elsewhere]);
        let tip = author.commit(&[("a", b"tip")], &[&first]);
        let both = author.pack(&[&tip, &beyond], &[&first, &elsewhere]);
        rig.push(&repo("from"), &both, &tip).await;
        assert!(!share(&rig, &from, &repo("to"), &[&tip], &[&first]).await);
        assert!(share(&rig, &from, &repo("to"), &[&tip, &beyond], &[&first]).await);
        fsck(&real, &rig.layout.repository(&repo("to")));
        // Who lacks half of what is there gets all of it.
        assert!(share(&rig, &from, &repo("new"), &[&tip, &first], &[]).await);
        let new = rig.layout.repository(&repo("new"));
        fsck(&real, &new);
        assert_eq!(count_packs(&new).unwrap(), count_packs(&from).unwrap(), "closed as a whole");
    }
}

#[tokio::test]
async fn maintenance_leaves_shared_packs_alone_and_rolls_the_others_together() {
    for real in gits() {
        let (rig, author) = (Rig::new(&real).await, Author::new(&real));
        let (mut tips, mut dir) = (Vec::<Oid>::new(), rig.home.path().to_owned());
        for round in 0..12_u8 {
            let parents: Vec<&Oid> = tips.last().into_iter().collect();
            let tip = author.commit(&[("a", &[round])], &parents);
            dir = rig.push(&repo("from"), &author.pack(&[&tip], &parents), &tip).await;
            tips.push(tip);
            if round == 2 {
                assert!(share(&rig, &dir, &repo("to"), &[&tip], &[]).await);
            }
        }
        let shared = packs_with_names(&dir, 2);
        assert_eq!(shared.len(), 3);
        let done = tidy(&rig.git, &dir).await.unwrap();
        assert_eq!((done.packs_before, done.packs_after), (12, 4));
        assert_eq!(packs_with_names(&dir, 2), shared, "not one was rewritten");
        assert_eq!(grasp_git::new_packs(&dir).unwrap(), 0, "the index over all packs has them");
        fsck(&real, &dir);
        // Nothing else is left to roll together.
        let again = tidy(&rig.git, &dir).await.unwrap();
        assert_eq!((again.packs_before, again.packs_after), (4, 4));
        // Alone again, they are packs like any other.
        std::fs::remove_dir_all(rig.layout.repository(&repo("to"))).unwrap();
        let alone = tidy(&rig.git, &dir).await.unwrap();
        assert!(alone.packs_after < 4, "{alone:?}");
        fsck(&real, &dir);
    }
}

#[tokio::test]
async fn of_many_shared_packs_the_small_ones_are_rolled_together() {
    let real = gits().remove(0);
    let (rig, author) = (Rig::new(&real).await, Author::new(&real));
    let (mut tip, mut dir) = (None::<Oid>, rig.home.path().to_owned());
    for round in 0..101_u8 {
        let size = if round == 50 { 100_000 } else { 10 };
        let parents: Vec<&Oid> = tip.iter().collect();
        let next = author.commit(&[("a", &noise(round.into(), size))], &parents);
        dir = rig.push(&repo("from"), &author.pack(&[&next], &parents), &next).await;
        tip = Some(next);
    }
    let tip = tip.unwrap();
    assert!(share(&rig, &dir, &repo("to"), &[&tip], &[]).await);
    assert_eq!(packs_with_names(&dir, 2).len(), 101);
    let done = tidy(&rig.git, &dir).await.unwrap();
    assert_eq!((done.packs_before, done.packs_after), (101, 2));
    assert_eq!(packs_with_names(&dir, 2).len(), 1, "the large one is still shared");
    assert_eq!(packs_with_names(&rig.layout.repository(&repo("to")), 1).len(), 100);
    fsck(&real, &dir);
    fsck(&real, &rig.layout.repository(&repo("to")));
}

//! From quarantine into the served repository, whatever happens on the way.
#![allow(clippy::unwrap_used, reason = "a test tells by panicking that it failed")]

mod packs;
mod real_git;
mod rig;

use grasp_core::unfit::Unfit;
use grasp_core::{Oid, RefName, RepoId};
use grasp_git::{
    ObjectKind, Objects, Quarantine, copy, discard, ensure_repository, land, reachable_count,
    sweep_incoming,
};
use packs::{Pack, TAG, delta, oid_of, snapshot};
use real_git::gits;
use rig::{Author, Pending, Rig, fsck, noise, oids, repo};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// A kept quarantine with one pack, and the tip in it.
async fn waiting(rig: &Rig, repo: &RepoId) -> (String, Oid) {
    let (pack, tip) = snapshot(&[("100644", "README", b"hello\n")]);
    let mut pending = rig.receive(repo, &pack.bytes()).await.unwrap();
    pending.quarantine.keep();
    (pending.quarantine.name().to_owned(), tip)
}

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[tokio::test]
async fn the_first_landing_makes_a_plain_bare_repository() {
    for real in gits() {
        let rig = Rig::new(&real).await;
        let (name, tip) = waiting(&rig, &repo("acme")).await;
        let dir = rig.layout.repository(&repo("acme"));
        assert!(!dir.exists(), "nothing is there before objects are");
        land(&rig.layout, &repo("acme"), &name).unwrap();
        let expected = ["HEAD", "config", "objects", "refs"].map(str::to_owned);
        assert_eq!(names(&dir), BTreeSet::from(expected));
        assert_eq!(Objects::open(&dir).unwrap().kind(&tip), Some(ObjectKind::Commit));
        assert_eq!(rig.waiting(), 0);
        assert_eq!(names(&rig.layout.tmp()).len(), 0);
        assert_eq!(rig.layout.repositories().unwrap(), [repo("acme")]);
        fsck(&real, &dir);
        let git_dir = format!("--git-dir={}", dir.display());
        assert_eq!(real.run(&[&git_dir, "rev-parse", "--is-bare-repository"]), b"true\n");
    }
}

/// Every state a crash can leave, made by hand; landing again must end in the same place.
#[tokio::test]
async fn landing_again_after_a_crash_finishes_the_job() {
    let real = gits().remove(0);
    for crash in 0..8 {
        let rig = Rig::new(&real).await;
        let (acme, layout) = (repo("acme"), &rig.layout);
        let (name, tip) = waiting(&rig, &acme).await;
        let quarantine = layout.quarantine(&name).unwrap();
        let mut files: Vec<PathBuf> = fs::read_dir(quarantine.join("objects/pack"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort_by_key(|file| file.extension().unwrap() == "idx");
        let move_some = |count: usize| {
            let to = ensure_repository(layout, &acme).unwrap().join("objects/pack");
            for file in files.iter().take(count) {
                fs::rename(file, to.join(file.file_name().unwrap())).unwrap();
            }
        };
        match crash {
            0 => {}
            1 => fs::create_dir_all(layout.tmp().join("new-repository/objects")).unwrap(),
            2 => fs::create_dir_all(layout.repository(&acme).parent().unwrap()).unwrap(),
            3..=6 => move_some(crash - 3),
            _ => {
                move_some(files.len());
                fs::remove_dir_all(quarantine.join("objects")).unwrap();
            }
        }
        for again in 0..3 {
            land(layout, &acme, &name).unwrap();
            let dir = layout.repository(&acme);
            assert!(Objects::open(&dir).unwrap().contains(&tip), "crash {crash}, again {again}");
            assert_eq!(names(&dir.join("objects/pack")).len(), files.len());
            assert!(!quarantine.exists());
            fsck(&real, &dir);
        }
    }
}

#[tokio::test]
async fn a_pack_that_was_never_finished_does_not_land() {
    let real = gits().remove(0);
    let rig = Rig::new(&real).await;
    let (name, tip) = waiting(&rig, &repo("acme")).await;
    let packs = rig.layout.quarantine(&name).unwrap().join("objects/pack");
    fs::write(packs.join("pack-0000000000000000000000000000000000000000.pack"), "half").unwrap();
    land(&rig.layout, &repo("acme"), &name).unwrap();
    let dir = rig.layout.repository(&repo("acme"));
    assert!(Objects::open(&dir).unwrap().contains(&tip));
    assert!(names(&dir.join("objects/pack")).iter().all(|name| !name.contains("0000000000000000")));
}

#[tokio::test]
async fn what_leans_on_one_repository_does_not_land_in_another() {
    let real = gits().remove(0);
    let rig = Rig::new(&real).await;
    let (name, _) = waiting(&rig, &repo("acme")).await;
    land(&rig.layout, &repo("acme"), &name).unwrap();
    let (second, _) = waiting(&rig, &repo("acme")).await;
    let wrong = land(&rig.layout, &repo("other"), &second).unwrap_err().to_string();
    assert!(wrong.contains("push again"), "{wrong}");
    assert!(!rig.layout.repository(&repo("other")).exists());
    fs::remove_dir_all(rig.layout.repository(&repo("acme"))).unwrap();
    assert!(land(&rig.layout, &repo("acme"), &second).is_err(), "its lender is gone");
    discard(&rig.layout, &second).unwrap();
    discard(&rig.layout, &second).unwrap();
    assert_eq!(rig.waiting(), 0);
}

#[tokio::test]
async fn a_start_sweeps_what_nobody_keeps() {
    let real = gits().remove(0);
    let rig = Rig::new(&real).await;
    let (kept, _) = waiting(&rig, &repo("acme")).await;
    waiting(&rig, &repo("acme")).await;
    fs::create_dir(rig.layout.incoming().join("not ours")).unwrap();
    fs::create_dir_all(rig.layout.tmp().join("new-repository/refs")).unwrap();
    let keep = BTreeSet::from([kept.clone()]);
    assert_eq!(sweep_incoming(&rig.layout, &keep).unwrap(), 1);
    assert_eq!(sweep_incoming(&rig.layout, &keep).unwrap(), 0);
    assert_eq!(names(&rig.layout.incoming()), BTreeSet::from([kept.clone(), "not ours".into()]));
    assert_eq!(names(&rig.layout.tmp()).len(), 0);
    assert!(Quarantine::reopen(&rig.layout, &kept).unwrap().path().is_dir());
}

#[tokio::test]
async fn an_open_reader_sees_what_lands_later() {
    let real = gits().remove(0);
    let (rig, author) = (Rig::new(&real).await, Author::new(&real));
    let first = author.commit(&[("a", b"0")], &[]);
    let dir = rig.push(&repo("acme"), &author.pack(&[&first], &[]), &first).await;
    let objects = Objects::open(&dir).unwrap();
    let mut tip = first;
    for round in 1..40_u8 {
        let next = author.commit(&[("a", &[round])], &[&tip]);
        assert!(!objects.contains(&next));
        rig.push(&repo("acme"), &author.pack(&[&next], &[&tip]), &next).await;
        assert!(objects.contains(&next), "round {round}");
        tip = next;
    }
}

#[tokio::test]
async fn tags_are_peeled_to_their_end() {
    for real in gits() {
        let (rig, author) = (Rig::new(&real).await, Author::new(&real));
        let tip = author.commit(&[("README", b"hello\n")], &[]);
        let tag = author.0.tag("v1", &tip.to_hex(), "commit");
        let outer: Oid = author.0.tag("v1-signed", &tag, "tag").parse().unwrap();
        let pack = author.pack(&[&outer], &[]);
        let pending = rig.receive(&repo("acme"), &pack).await.unwrap();
        let objects = Objects::open(pending.quarantine.path()).unwrap();
        let entry = objects.peel(&outer).unwrap();
        assert_eq!((entry.oid, entry.peeled), (outer, Some(tip)));
        assert_eq!(objects.peel(&tip).unwrap().peeled, None);
        assert_eq!(objects.kind(&outer), Some(ObjectKind::Tag));
        assert_eq!(objects.peel(&Oid::from_bytes([9; 20])), Err(Unfit::Absent));
    }
}

/// The content of a tag object.
fn tag_of(target: &Oid, kind: &str, message: &[u8]) -> Vec<u8> {
    let head = format!(
        "object {target}\ntype {kind}\ntag t\ntagger A <a@example.com> 1700000000 +0000\n\n"
    );
    [head.as_bytes(), message].concat()
}

/// So many tags, each of the one before; the last one is returned.
fn nested(mut pack: Pack, of: &Oid, mut kind: &str, count: usize) -> (Pack, Oid) {
    let mut at = *of;
    for _ in 0..count {
        let tag = tag_of(&at, kind, b"nested\n");
        (at, kind) = (oid_of("tag", &tag), "tag");
        pack = pack.object(TAG, &tag);
    }
    (pack, at)
}

/// A tag that takes so many deltas to read.
fn deltas(mut pack: Pack, tip: &Oid, count: usize) -> (Pack, Oid) {
    let mut tag = tag_of(tip, "commit", format!("{count} deltas\n").as_bytes());
    let mut base_at = pack.end();
    pack = pack.object(TAG, &tag);
    for _ in 0..count {
        let at = pack.end();
        pack = pack.delta_back(at - base_at, &delta(tag.len() as u64, b"x\n"));
        tag.extend_from_slice(b"x\n");
        base_at = at;
    }
    (pack, oid_of("tag", &tag))
}

#[tokio::test]
async fn a_tag_is_shown_however_odd_or_named_as_unfit_with_the_reason() {
    let real = gits().remove(0);
    let rig = Rig::new(&real).await;
    let (pack, tip) = snapshot(&[("100644", "README", b"hello\n")]);
    let (pack, nested_100) = nested(pack, &tip, "commit", 100);
    let (pack, too_nested) = nested(pack, &nested_100, "tag", 901);
    let (pack, deltas_300) = deltas(pack, &tip, 300);
    let (pack, too_many_deltas) = deltas(pack, &tip, 4_100);
    let huge = tag_of(&tip, "commit", &noise(3, 2 << 20));
    let too_huge = tag_of(&tip, "commit", &vec![b'x'; 33 << 20]);
    let pack = pack.object(TAG, &huge).object(TAG, &too_huge);
    let (huge, too_huge) = (oid_of("tag", &huge), oid_of("tag", &too_huge));
    let pending = rig.receive(&repo("acme"), &pack.bytes()).await.unwrap();
    let objects = Objects::open(pending.quarantine.path()).unwrap();

    let named = |name: &str| name.parse::<RefName>().unwrap();
    let shown = [
        ("refs/heads/main", tip, None),
        ("refs/tags/deltas", deltas_300, Some(tip)),
        ("refs/tags/huge", huge, Some(tip)),
        ("refs/tags/nested", nested_100, Some(tip)),
    ];
    let bytes_max = 32 << 20;
    let unfit = [
        ("refs/heads/tag", huge, Unfit::NotACommit("tag")),
        ("refs/tags/absent", Oid::from_bytes([9; 20]), Unfit::Absent),
        ("refs/tags/too-huge", too_huge, Unfit::Large { bytes_max }),
        ("refs/tags/too-many-deltas", too_many_deltas, Unfit::Deltas { max: 4_095 }),
        ("refs/tags/too-nested", too_nested, Unfit::Nested { max: 1_000 }),
    ];
    let all = shown.iter().map(|(name, oid, _)| (name, oid));
    let all = all.chain(unfit.iter().map(|(name, oid, _)| (name, oid)));
    let refs = all.map(|(name, oid)| (named(name), *oid)).collect();
    for round in 0..2 {
        let entries = objects.entries(&refs);
        let fit = entries.fit.iter().map(|(name, entry)| (name.as_str(), entry.oid, entry.peeled));
        assert_eq!(fit.collect::<Vec<_>>(), shown, "round {round}");
        let said = entries.unfit.iter().map(|it| (it.name.as_str(), it.oid, it.why));
        assert_eq!(said.collect::<Vec<_>>(), unfit, "round {round}");
    }
    // A hundred tags of a tag each: 300 names of them are 30,000 steps from tag to tag.
    let many = (0..300).map(|number| (named(&format!("refs/tags/t{number:03}")), nested_100));
    let entries = objects.entries(&many.collect());
    assert!(!entries.is_complete(), "all tags of one state together have a limit");
    assert!(entries.unfit.iter().all(|it| it.why == Unfit::TooManySteps));
}

#[tokio::test]
async fn objects_are_copied_from_one_owner_to_another() {
    for real in gits() {
        let (rig, author) = (Rig::new(&real).await, Author::new(&real));
        let text = noise(2, 50_000);
        let first = author.commit(&[("big", &text)], &[]);
        let changed = [text.as_slice(), b"more"].concat();
        let tip = author.commit(&[("big", &changed)], &[&first]);
        let from = rig.push(&repo("acme"), &author.pack(&[&tip], &[]), &tip).await;

        let empty = Quarantine::open(&rig.layout, &repo("fork")).unwrap();
        let none = BTreeSet::new();
        let all = copy(&rig.git, &from, &empty, &oids(&[&first]), &none, &rig.limits).await;
        assert_eq!(all.unwrap().objects, 3);
        land(&rig.layout, &repo("fork"), empty.name()).unwrap();
        // What is there already is not copied again.
        let rest = Quarantine::open(&rig.layout, &repo("fork")).unwrap();
        let (wants, has) = (oids(&[&tip]), oids(&[&first]));
        let rest_of = copy(&rig.git, &from, &rest, &wants, &has, &rig.limits).await.unwrap();
        assert_eq!((rest_of.objects, rest_of.bytes < 10_000), (3, true), "{rest_of:?}");
        land(&rig.layout, &repo("fork"), rest.name()).unwrap();
        let fork = rig.layout.repository(&repo("fork"));
        assert!(Objects::open(&fork).unwrap().contains(&tip));
        fsck(&real, &fork);

        let absent = oids(&[&Oid::from_bytes([1; 20])]);
        let failed = copy(&rig.git, &from, &rest, &absent, &none, &rig.limits).await;
        let told = failed.unwrap_err().to_string();
        assert!(told.contains("bad object") || told.contains("not a valid"), "{told}");
    }
}

#[tokio::test]
async fn what_came_along_uninvited_is_not_counted_as_wanted() {
    for real in gits() {
        let (rig, author) = (Rig::new(&real).await, Author::new(&real));
        let text = noise(3, 50_000);
        let first = author.commit(&[("big", &text)], &[]);
        let changed = [text.as_slice(), b"more"].concat();
        let tip = author.commit(&[("big", &changed)], &[&first]);
        let junk = author.commit(&[("junk", b"junk")], &[]);
        let all = rig.receive(&repo("acme"), &author.pack(&[&tip, &junk], &[])).await.unwrap();
        assert_eq!(all.received.objects, 9);
        assert_eq!(count(&rig, &all, &[&tip, &junk], &[]).await, 9);
        assert_eq!(count(&rig, &all, &[&tip], &[]).await, 6);
        assert_eq!(count(&rig, &all, &[&first], &[]).await, 3);

        // Neither what is here already counts, nor what completes a thin pack.
        rig.push(&repo("acme"), &author.pack(&[&first], &[]), &first).await;
        let thin = author.pack(&[&tip, &junk], &[&first]);
        let more = rig.receive(&repo("acme"), &thin).await.unwrap();
        assert_eq!(more.received.objects, 6);
        assert!(more.received.disk_bytes > 50_000, "it was thin");
        assert_eq!(count(&rig, &more, &[&tip], &[&first]).await, 3);
        let absent = oids(&[&Oid::from_bytes([1; 20])]);
        let failed = reachable_count(&rig.git, &more.quarantine, &absent, &BTreeSet::new()).await;
        let told = failed.unwrap_err().to_string();
        assert!(told.contains("rev-list") && told.contains("bad object"), "{told}");
    }
}

async fn count(rig: &Rig, it: &Pending, wants: &[&Oid], has: &[&Oid]) -> u64 {
    let (wants, has) = (oids(wants), oids(has));
    reachable_count(&rig.git, &it.quarantine, &wants, &has).await.unwrap()
}

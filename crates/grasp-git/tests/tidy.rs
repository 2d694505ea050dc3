//! Maintenance: less to look through, nothing lost, nobody in the way.

mod packs;
mod real_git;
mod rig;

use grasp_core::Oid;
use grasp_git::{Objects, RefTable, packs as count_packs, tidy};
use packs::snapshot;
use real_git::gits;
use rig::{Author, Rig, fsck, repo};
use std::sync::atomic::{AtomicBool, Ordering};

#[tokio::test]
async fn many_packs_become_few_and_nothing_is_lost() {
    for real in gits() {
        let (rig, author) = (Rig::new(&real).await, Author::new(&real));
        let (mut tips, mut dir) = (Vec::<Oid>::new(), rig.home.path().to_owned());
        for round in 0..12_u8 {
            let parents: Vec<&Oid> = tips.last().into_iter().collect();
            let tip = author.commit(&[("a", &[round])], &parents);
            dir = rig.push(&repo("acme"), &author.pack(&[&tip], &parents), &tip).await;
            tips.push(tip);
        }
        // Nothing refers to these: a rolled back branch, a blob.
        let (stray, stray_tip) = snapshot(&[("100644", "stray", b"stray\n")]);
        let main = *tips.last().unwrap();
        rig.push(&repo("acme"), &stray.bytes(), &stray_tip).await;
        rig.push(&repo("acme"), &packs::small().bytes(), &main).await;
        tips.extend([stray_tip, packs::oid_of("blob", b"hello\n")]);

        assert_eq!(count_packs(&dir).unwrap(), 14);
        let done = tidy(&rig.git, &dir).await.unwrap();
        assert_eq!((done.packs_before, done.packs_after), (14, 1));
        let objects = Objects::open(&dir).unwrap();
        for tip in &tips {
            assert!(objects.contains(tip), "{tip} survives");
        }
        let files: Vec<String> = std::fs::read_dir(dir.join("objects/pack"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert!(files.iter().any(|name| name == "multi-pack-index"), "{files:?}");
        assert!(files.iter().any(|name| name.ends_with(".bitmap")), "{files:?}");
        assert!(dir.join("objects/info/commit-graphs").is_dir());
        assert!(!dir.join("objects/info/packs").exists(), "nothing for dumb clients");
        fsck(&real, &dir);
        let again = tidy(&rig.git, &dir).await.unwrap();
        assert_eq!((again.packs_before, again.packs_after), (1, 1));
        for tip in &tips {
            assert!(objects.contains(tip), "{tip} survives twice");
        }
    }
}

#[tokio::test]
async fn a_repository_without_refs_or_commits_can_be_tidied() {
    for real in gits() {
        let rig = Rig::new(&real).await;
        let blob = packs::oid_of("blob", b"hello\n");
        let dir = rig.push(&repo("acme"), &packs::small().bytes(), &blob).await;
        RefTable::default().write(&dir).unwrap();
        rig.receive(&repo("acme"), &packs::small().bytes()).await.unwrap();
        tidy(&rig.git, &dir).await.unwrap();
        assert!(Objects::open(&dir).unwrap().contains(&blob));
        let empty = grasp_git::ensure_repository(&rig.layout, &repo("empty")).unwrap();
        let done = tidy(&rig.git, &empty).await.unwrap();
        assert_eq!((done.packs_before, done.packs_after), (0, 0));
    }
}

#[tokio::test]
async fn maintenance_that_was_ended_is_taken_up_again() {
    for real in gits() {
        let rig = Rig::new(&real).await;
        let (pack, tip) = snapshot(&[("100644", "README", b"hello\n")]);
        let dir = rig.push(&repo("acme"), &pack.bytes(), &tip).await;
        let objects = dir.join("objects");
        std::fs::create_dir(objects.join("info/commit-graphs")).unwrap();
        let left = [
            "pack/multi-pack-index.lock",
            "pack/.tmp-123-pack-0123.pack",
            "pack/tmp_pack_x1y2z3",
            "info/commit-graphs/commit-graph-chain.lock",
            "info/commit-graphs/tmp_graph_x1y2z3",
        ];
        for name in left {
            std::fs::write(objects.join(name), "half").unwrap();
        }
        tidy(&rig.git, &dir).await.unwrap();
        for name in left {
            assert!(!objects.join(name).exists(), "{name}");
        }
        fsck(&real, &dir);
    }
}

/// Pushes land, people clone and someone holds objects open, while maintenance runs again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn maintenance_is_in_nobodys_way() {
    for real in gits() {
        let (rig, author) = (Rig::new(&real).await, Author::new(&real));
        let first = author.commit(&[("a", b"first")], &[]);
        let dir = rig.push(&repo("acme"), &author.pack(&[&first], &[]), &first).await;
        let reader = Objects::open(&dir).unwrap();
        let over = AtomicBool::new(false);
        let pushing = async {
            let mut tips = vec![first];
            for round in 0..30_u8 {
                let parent = tips.last().unwrap();
                let tip = author.commit(&[("a", &[round]), ("b", &[round; 99])], &[parent]);
                rig.push(&repo("acme"), &author.pack(&[&tip], &[parent]), &tip).await;
                tips.push(tip);
            }
            over.store(true, Ordering::Relaxed);
            tips
        };
        let tidying = async {
            let mut rounds = 0;
            while !over.load(Ordering::Relaxed) {
                tidy(&rig.git, &dir).await.unwrap();
                rounds += 1;
            }
            rounds
        };
        let cloning = async {
            let mut clones = 0;
            while !over.load(Ordering::Relaxed) {
                let (real, from) = (real.clone(), format!("file://{}", dir.display()));
                let to = rig.home.path().join(format!("clone-{clones}"));
                let clone = move || {
                    real.run(&["clone", "-q", "--bare", &from, to.to_str().unwrap()]);
                };
                tokio::task::spawn_blocking(clone).await.unwrap();
                clones += 1;
            }
            clones
        };
        let (tips, rounds, clones) = tokio::join!(pushing, tidying, cloning);
        assert!(rounds > 1 && clones > 1, "{rounds} rounds, {clones} clones: all at once");
        for tip in &tips {
            assert!(reader.contains(tip), "{tip} is there after {rounds} rounds");
        }
        fsck(&real, &dir);
        assert!(count_packs(&dir).unwrap() < 30);
    }
}

//! What may come in and what may not, judged by our gate and by every git of this machine.

mod packs;
mod real_git;
mod rig;

use grasp_core::{EventId, Oid};
use grasp_git::{
    DiskReserve, GitLimits, ObjectKind, Objects, PackLimits, Protocol, Quarantine, ReceiveError,
    Received, RefTable, land,
};
use packs::{BLOB, COMMIT, EMPTY_TREE, Pack, TREE, commit, delta, oid_of, snapshot};
use real_git::gits;
use rig::{Author, MIB, Rig, free_of, fsck, noise, repo};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A bomb may not cost more than this, all included; it is refused far earlier.
const QUICK: Duration = Duration::from_secs(5);

async fn refused(rig: &Rig, pack: &[u8], words: &str) {
    let began = Instant::now();
    let why = rig.receive(&repo("acme"), pack).await.expect_err(words).to_string();
    assert!(why.contains(words), "{why} does not say {words}");
    assert!(began.elapsed() < QUICK, "{words} took {:?}", began.elapsed());
    grasp_testkit::until("the quarantine is gone", || async { rig.waiting() == 0 }).await;
}

#[tokio::test]
async fn a_full_history_comes_in_and_can_be_read() {
    for real in gits() {
        let (rig, author) = (Rig::new(&real).await, Author::new(&real));
        let first = author.commit(&[("README", b"hello\n")], &[]);
        let tip = author.commit(&[("README", b"hello\nworld\n")], &[&first]);
        let pack = author.pack(&[&tip], &[]);
        let pending = rig.receive(&repo("acme"), &pack).await.unwrap();
        let Received { bytes, objects, disk_bytes } = pending.received;
        assert_eq!((bytes, objects), (pack.len() as u64, 6));
        assert!(disk_bytes > bytes, "the index counts too");
        let objects = Objects::open(pending.quarantine.path()).unwrap();
        assert_eq!(objects.kind(&tip), Some(ObjectKind::Commit));
        assert!(!objects.contains(&Oid::from_bytes([1; 20])));
        fsck(&real, pending.quarantine.path());
        drop(pending);
        grasp_testkit::until("the quarantine is gone", || async { rig.waiting() == 0 }).await;
    }
}

#[tokio::test]
async fn nothing_and_an_empty_pack_need_no_process() {
    for real in gits() {
        let rig = Rig::new(&real).await;
        for (pack, bytes) in [(Vec::new(), 0), (Pack::default().bytes(), 32)] {
            let pending = rig.receive(&repo("acme"), &pack).await.unwrap();
            assert_eq!(pending.received, Received { bytes, ..Received::default() });
            let packs = pending.quarantine.path().join("objects/pack");
            assert_eq!(std::fs::read_dir(packs).unwrap().count(), 0);
        }
    }
}

#[tokio::test]
async fn a_thin_pack_is_completed_from_the_repository() {
    for real in gits() {
        let (rig, author) = (Rig::new(&real).await, Author::new(&real));
        let mut text = noise(1, 200_000);
        let first = author.commit(&[("big", &text)], &[]);
        rig.push(&repo("acme"), &author.pack(&[&first], &[]), &first).await;
        text.extend_from_slice(b"one more line\n");
        let tip = author.commit(&[("big", &text)], &[&first]);
        let thin = author.pack(&[&tip], &[&first]);
        assert!(thin.len() < 10_000, "a delta, not a copy: {}", thin.len());

        let pending = rig.receive(&repo("acme"), &thin).await.unwrap();
        assert!(pending.received.disk_bytes > 200_000, "completed: {:?}", pending.received);
        fsck(&real, pending.quarantine.path());
        let elsewhere = rig.receive(&repo("other"), &thin).await.unwrap_err().to_string();
        assert!(elsewhere.contains("fetch first"), "{elsewhere}");
        let name = pending.quarantine.name().to_owned();
        grasp_git::land(&rig.layout, &repo("acme"), &name).unwrap();
        let dir = rig.layout.repository(&repo("acme"));
        assert!(Objects::open(&dir).unwrap().contains(&tip));
        fsck(&real, &dir);
    }
}

#[tokio::test]
async fn a_pack_that_leans_on_what_is_not_here_is_refused() {
    for real in gits() {
        let (rig, author) = (Rig::new(&real).await, Author::new(&real));
        let absent = "1111111111111111111111111111111111111111";
        let empty_tree = Pack::default().object(TREE, b"");
        let orphan = empty_tree.clone().object(COMMIT, &commit(EMPTY_TREE, &[absent], "x"));
        refused(&rig, &orphan.bytes(), "fetch first").await;
        let no_tree = Pack::default().object(COMMIT, &commit(absent, &[], "x"));
        refused(&rig, &no_tree.bytes(), "fetch first").await;
        let root = packs::tree(&[("100644", "README", &absent.parse().unwrap())]);
        let no_blob = Pack::default().object(TREE, &root);
        let no_blob = no_blob.object(COMMIT, &commit(&oid_of("tree", &root).to_hex(), &[], "x"));
        refused(&rig, &no_blob.bytes(), "fetch first").await;
        // The parent is known to the author only.
        let first = author.commit(&[("README", b"1")], &[]);
        let tip = author.commit(&[("README", b"2")], &[&first]);
        refused(&rig, &author.pack(&[&tip], &[&first]), "fetch first").await;
    }
}

#[tokio::test]
async fn bombs_are_refused_quickly() {
    let (delta_bomb, zip_bomb) = (packs::delta_bomb(), packs::zip_bomb());
    for real in gits() {
        let mut rig = Rig::new(&real).await;
        refused(&rig, &delta_bomb, "deltas make more than").await;
        refused(&rig, &zip_bomb, "inflates to more than").await;
        refused(&rig, &packs::small().bytes_claiming(u32::MAX), "more than 5000000").await;
        rig.limits = PackLimits::proposal(32 * MIB);
        let large = Pack::default().object(BLOB, &vec![0; 33 << 20]).bytes();
        refused(&rig, &large, "keep large files elsewhere").await;
        rig.limits = PackLimits::push(1_000);
        let long = Pack::default().object(BLOB, &noise(1, 2_000)).bytes();
        refused(&rig, &long, "larger than 1000 bytes").await;
    }
}

/// git looks at each object once; so do we.
#[tokio::test]
async fn many_commits_on_one_large_tree_cost_little() {
    let names: Vec<String> = (0..20_000).map(|number| format!("file{number:06}")).collect();
    let blob = oid_of("blob", b"x");
    let files: Vec<_> = names.iter().map(|name| ("100644", name.as_str(), &blob)).collect();
    let root = packs::tree(&files);
    let root_id = oid_of("tree", &root).to_hex();
    let pack = Pack::default().object(BLOB, b"x").object(TREE, &root);
    let add =
        |pack: Pack, number| pack.object(COMMIT, &commit(&root_id, &[], &format!("{number}")));
    let pack = (0..5_000).fold(pack, add).bytes();
    for real in gits() {
        let rig = Rig::new(&real).await;
        let began = Instant::now();
        rig.receive(&repo("acme"), &pack).await.unwrap();
        assert!(began.elapsed() < QUICK, "took {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn trees_that_are_too_much_work_for_their_pack_are_refused() {
    let real = gits().remove(0);
    let mut rig = Rig::new(&real).await;
    rig.limits = PackLimits { delta_base_bytes: 200, delta_ratio_max: 0, ..rig.limits };
    let (pack, _) = snapshot(&[("100644", "a", b"x"), ("100644", "b", b"y")]);
    refused(&rig, &pack.bytes(), "too much work").await;
}

#[tokio::test]
async fn damaged_packs_are_refused() {
    for real in gits() {
        let rig = Rig::new(&real).await;
        let pack = packs::small();
        refused(&rig, &pack.bytes_claiming(1), "behind the end").await;
        refused(&rig, &pack.bytes_claiming(3), "damaged").await;
        refused(&rig, &[pack.bytes(), vec![0]].concat(), "behind the end").await;
        let whole = pack.bytes();
        refused(&rig, &whole[..whole.len() - 1], "before it was complete").await;
        refused(&rig, &whole[..5], "before it was complete").await;
        refused(&rig, b"0000", "before it was complete").await;
        refused(&rig, b"GET / HTTP/1.1\r\n\r\n", "not a pack").await;
        let mut wrong_sum = whole.clone();
        *wrong_sum.last_mut().unwrap() ^= 1;
        refused(&rig, &wrong_sum, "git does not accept").await;
        let absent = Oid::from_bytes([1; 20]);
        let no_base = Pack::default().delta_named(&absent, &delta(3, b"x"));
        refused(&rig, &no_base.bytes(), "fetch first").await;
        refused(&rig, &packs::cyclic_deltas(), "unresolved delta").await;
        let wrong_base = pack.clone().delta_named(&oid_of("blob", b"hello\n"), &delta(99, b"x"));
        refused(&rig, &wrong_base.bytes(), "git does not accept").await;
        let bad_commit = Pack::default().object(COMMIT, b"tree of life\n");
        refused(&rig, &bad_commit.bytes(), "git does not accept").await;
    }
}

#[tokio::test]
async fn what_would_hurt_a_client_is_refused() {
    for real in gits() {
        let rig = Rig::new(&real).await;
        let module = |text: &str| {
            let text = format!("[submodule \"a\"]\n\tpath = a\n{text}\n");
            snapshot(&[("100644", ".gitmodules", text.as_bytes())]).0.bytes()
        };
        refused(&rig, &module("\turl = -u./payload"), "gitmodulesUrl").await;
        refused(&rig, &module("\tpath = \"x\r\""), "control characters").await;
        refused(&rig, &module("\tpath = \"x\\b\""), "control characters").await;
        let link = snapshot(&[("120000", ".gitmodules", b"elsewhere")]).0;
        refused(&rig, &link.bytes(), "gitmodulesSymlink").await;
        let dot_git = snapshot(&[("100644", ".git", b"x")]).0;
        refused(&rig, &dot_git.bytes(), "hasDotgit").await;
        let honest = module("\turl = https://example.com/a.git");
        assert!(rig.receive(&repo("acme"), &honest).await.is_ok());
    }
}

/// git finds a bad .gitmodules only after it has written everything.
#[tokio::test]
async fn what_was_refused_does_not_land_with_what_came_before() {
    for real in gits() {
        for line in ["\turl = -u./payload", "\tpath = \"x\r\""] {
            let rig = Rig::new(&real).await;
            let (good, tip) = snapshot(&[("100644", "README", b"hello\n")]);
            let pending = rig.receive(&repo("acme"), &good.bytes()).await.unwrap();
            let text = format!("[submodule \"a\"]\n{line}\n");
            let (bad, bad_tip) = snapshot(&[("100644", ".gitmodules", text.as_bytes())]);
            let bad = bad.bytes();
            let refused = pending.quarantine.receive(&rig.git, &rig.limits, &mut &*bad).await;
            assert!(refused.unwrap_err().is_refusal());
            land(&rig.layout, &repo("acme"), pending.quarantine.name()).unwrap();
            let objects = Objects::open(&rig.layout.repository(&repo("acme"))).unwrap();
            assert!(objects.contains(&tip) && !objects.contains(&bad_tip));
        }
    }
}

/// The bad tree comes first, as something nobody checks out; then a commit makes it a root.
#[tokio::test]
async fn a_bad_file_that_came_earlier_is_found_when_a_commit_leads_to_it() {
    for real in gits() {
        let rig = Rig::new(&real).await;
        let module = b"[submodule \"a\"]\n\tpath = \"x\r\"\n";
        let root = packs::tree(&[("100644", ".gitmodules", &oid_of("blob", module))]);
        let tree = oid_of("tree", &root);
        let pack = Pack::default().object(BLOB, module).object(TREE, &root);
        rig.push(&repo("acme"), &pack.bytes(), &tree).await;
        let pack = Pack::default().object(COMMIT, &commit(&tree.to_hex(), &[], "x"));
        refused(&rig, &pack.bytes(), "control characters").await;
    }
}

#[tokio::test]
async fn a_quarantine_can_be_served_by_itself() {
    for real in gits() {
        let rig = Rig::new(&real).await;
        let (first, tip) = snapshot(&[("100644", "README", b"hello\n")]);
        rig.push(&repo("acme"), &first.bytes(), &tip).await;
        let change = commit(EMPTY_TREE, &[&tip.to_hex()], "x");
        let pack = Pack::default().object(TREE, b"").object(COMMIT, &change).bytes();
        let pending = rig.receive(&repo("acme"), &pack).await.unwrap();
        let new = oid_of("commit", &change);
        let mut refs = RefTable::default();
        let entry = Objects::open(pending.quarantine.path()).unwrap().peel(&new).unwrap();
        refs.proposals.insert(EventId::from_bytes([5; 32]), entry);
        refs.write(pending.quarantine.path()).unwrap();
        let mut running = rig.git.upload_pack(pending.quarantine.path(), Protocol::V2).unwrap();
        let want = format!("0032want {new}\n");
        let request = format!("0012command=fetch\n0001{want}0009done\n0000");
        running.stdin.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        running.stdout.read_to_end(&mut answer).await.unwrap();
        assert!(String::from_utf8_lossy(&answer).contains("PACK"));
        running.finish().await.unwrap();
    }
}

/// libgit2 names the bases of its deltas, so that what is a commit shows only in the end.
#[tokio::test]
async fn a_bad_file_is_found_behind_deltas_too() {
    for real in gits() {
        let (rig, author) = (Rig::new(&real).await, Author::new(&real));
        let good = b"[submodule \"a\"]\n\tpath = a\n\turl = https://example.com/a\n".to_vec();
        let bad = [good.as_slice(), b"\tpath = \"x\r\"\n"].concat();
        let mut tip = None;
        for round in 0..30 {
            let content = if round == 12 { &bad } else { &good };
            let other = format!("{round}").repeat(50);
            let files = [(".gitmodules", content.as_slice()), ("other", other.as_bytes())];
            let parents: Vec<&Oid> = tip.iter().collect();
            tip = Some(author.commit(&files, &parents));
        }
        let tip = tip.unwrap();
        for options in [["--delta-base-offset"].as_slice(), &["--no-reuse-delta"]] {
            let pack = author.pack_with(&[&tip], &[], options);
            refused(&rig, &pack, "control characters").await;
        }
    }
}

#[tokio::test]
async fn old_faults_that_hurt_nobody_are_accepted() {
    for real in gits() {
        let rig = Rig::new(&real).await;
        let zone = String::from_utf8(commit(EMPTY_TREE, &[], "x")).unwrap();
        let zone = zone.replace("+0000", "+051800");
        let pack = Pack::default().object(TREE, b"").object(COMMIT, zone.as_bytes());
        assert!(rig.receive(&repo("acme"), &pack.bytes()).await.is_ok());
    }
}

#[tokio::test]
async fn a_pack_that_needs_more_memory_than_there_is_is_refused() {
    for real in gits() {
        let limits = GitLimits { memory_bytes_max: 128 * MIB, ..GitLimits::default() };
        let rig = Rig::with(&real, limits).await;
        let commit = [commit(EMPTY_TREE, &[], "x"), vec![b'x'; 200 << 20]].concat();
        let pack = Pack::default().object(TREE, b"").object(COMMIT, &commit).bytes();
        refused(&rig, &pack, "too much memory").await;
    }
}

#[tokio::test]
async fn a_full_disk_is_told_and_leaves_no_trace() {
    for real in gits() {
        let home = tempfile::tempdir().unwrap();
        let Some(disk) = SmallDisk::mount(&home.path().join("disk"), "4m") else { return };
        let root = disk.0.join("data");
        let rig = Rig::at(&real, home, root, GitLimits::default()).await;
        let (large, _) = snapshot(&[("100644", "large", &noise(1, 8 << 20))]);
        refused(&rig, &large.bytes(), "disk is full").await;
        let (small, _) = snapshot(&[("100644", "small", b"fits\n")]);
        assert!(rig.receive(&repo("acme"), &small.bytes()).await.is_ok(), "and it goes on");
        drop(disk);
    }
}

/// A file system with little room; only root can make one.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path, size: &str) -> Option<Self> {
        std::fs::create_dir(at).expect("a new directory");
        let size = format!("size={size}");
        let mounted = Self::run("mount", &["-t", "tmpfs", "-o", &size, "none"], at);
        mounted.map(|()| Self(at.to_owned()))
    }

    #[allow(clippy::disallowed_methods, reason = "mounting is not git's work")]
    fn run(program: &str, args: &[&str], at: &Path) -> Option<()> {
        let output = std::process::Command::new(program).args(args).arg(at).output().ok()?;
        if !output.status.success() {
            println!("skipped: {program}: {}", String::from_utf8_lossy(&output.stderr));
        }
        output.status.success().then_some(())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        Self::run("umount", &["--lazy"], &self.0);
    }
}

#[tokio::test]
async fn the_rest_of_a_refused_upload_is_left_to_the_caller() {
    let real = gits().remove(0);
    let rig = Rig::new(&real).await;
    let bomb = packs::small().bytes_claiming(u32::MAX);
    let mut upload = bomb.as_slice().chain(tokio::io::repeat(0));
    let quarantine = Quarantine::open(&rig.layout, &repo("acme")).unwrap();
    let received = quarantine.receive(&rig.git, &rig.limits, &mut upload).await;
    assert!(matches!(received, Err(ReceiveError::Refused(_))), "an endless upload has an answer");
}

#[tokio::test]
async fn a_client_that_stalls_is_given_up_on() {
    let real = gits().remove(0);
    let mut rig = Rig::new(&real).await;
    rig.limits.deadline = Duration::from_millis(300);
    let (pack, _) = snapshot(&[("100644", "a", &noise(1, 600_000))]);
    let pack = pack.bytes();
    let (mut client, mut upload) = tokio::io::duplex(1 << 20);
    let part = &pack[..pack.len() - 1];
    client.write_all(part).await.unwrap();
    let quarantine = Quarantine::open(&rig.layout, &repo("acme")).unwrap();
    let received = quarantine.receive(&rig.git, &rig.limits, &mut upload).await;
    assert!(matches!(received, Err(ReceiveError::Late { .. })), "{received:?}");
    drop(quarantine);
    grasp_testkit::until("the quarantine is gone", || async { rig.waiting() == 0 }).await;
    drop(client);
}

#[tokio::test]
async fn a_client_that_leaves_leaves_nothing() {
    let real = gits().remove(0);
    let rig = Rig::new(&real).await;
    let (pack, _) = snapshot(&[("100644", "a", &noise(1, 600_000))]);
    let pack = pack.bytes();
    let quarantine = Quarantine::open(&rig.layout, &repo("acme")).unwrap();
    let mut upload = pack[..500_000].chain(Broken);
    let received = quarantine.receive(&rig.git, &rig.limits, &mut upload).await;
    assert!(matches!(received, Err(ReceiveError::Upload(_))), "{received:?}");
    drop(quarantine);
    grasp_testkit::until("the quarantine is gone", || async { rig.waiting() == 0 }).await;
}

/// A connection that was reset.
struct Broken;

impl tokio::io::AsyncRead for Broken {
    fn poll_read(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        _: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Err(std::io::ErrorKind::ConnectionReset.into()))
    }
}

#[tokio::test]
async fn a_pack_that_would_reach_into_the_disk_reserve_is_ended_while_it_streams() {
    for real in gits() {
        let (mut rig, author) = (Rig::new(&real).await, Author::new(&real));
        let disk = DiskReserve::measured_by(free_of::<10>, rig.layout.root(), 5 * MIB);
        rig.git = rig.git.with_disk_reserve(disk.clone());
        let small = author.commit(&[("small", &noise(1, 1 << 20))], &[]);
        rig.receive(&repo("acme"), &author.pack(&[&small], &[])).await.unwrap();
        // What others may still write is not there for this one.
        let others = disk.try_reserve(3 * MIB).unwrap();
        let large = author.commit(&[("large", &noise(2, 3 << 20))], &[]);
        let pack = author.pack(&[&large], &[]);
        refused(&rig, &pack, "MiB free on this server's disk, 5 MiB kept in reserve").await;
        drop(others);
        rig.receive(&repo("acme"), &pack).await.unwrap();
        let all = || async { disk.try_reserve(4 * MIB).is_ok() };
        grasp_testkit::until("everything is given back", all).await;
    }
}

#[tokio::test]
async fn a_thin_pack_that_grows_into_the_disk_reserve_is_ended() {
    for real in gits() {
        let (mut rig, author) = (Rig::new(&real).await, Author::new(&real));
        let old = noise(3, 12 << 20);
        let first = author.commit(&[("large", &old)], &[]);
        rig.push(&repo("acme"), &author.pack(&[&first], &[]), &first).await;
        let tip = author.commit(&[("large", &[&old[..], b"and a line"].concat())], &[&first]);
        let pack = author.pack(&[&tip], &[&first]);
        assert!(pack.len() < 1 << 20, "a small delta: {}", pack.len());
        let unlimited = rig.git.clone();
        let disk = DiskReserve::measured_by(free_of::<118>, rig.layout.root(), 100 * MIB);
        rig.git = rig.git.with_disk_reserve(disk.clone());
        refused(&rig, &pack, "kept in reserve").await;
        rig.git = unlimited;
        rig.receive(&repo("acme"), &pack).await.unwrap();
    }
}

//! A small disk: free space stays above the reserve under every load, one pack serves a whole group, and
//! a full disk is told. Runs on a tmpfs in a mount namespace of its own.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::hosted::{DOMAIN, MAIN};
use common::mirrors::announcement;
use common::{THEN, home};
use grasp_core::Oid;
use grasp_testkit::{
    Author, Client, Forge, Git, Ran, Random, Repository, Server, WorkTree, http, until,
};
use rustix::fs::statvfs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;

const MIB: u64 = 1 << 20;
/// The most that free space may ever lie below the reserve.
const SLACK: u64 = MIB;
/// Set for the test process inside the namespace.
const INSIDE: &str = "GRASPD_TEST_NAMESPACE";

/// Runs a test of this file again where it may mount a disk. False if this is that run.
fn is_run_in_a_namespace(test: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return false;
    }
    let probe = Command::new("unshare").args(["-rm", "true"]).output();
    match probe {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            println!("skipped: no mount namespace: {why}");
            return true;
        }
        Err(error) => {
            println!("skipped: no unshare: {error}");
            return true;
        }
    }
    let mut again = Command::new("unshare");
    again.arg("-rm").arg(std::env::current_exe().unwrap());
    again.args(["--exact", test, "--nocapture", "--test-threads", "1"]).env(INSIDE, "1");
    assert!(again.status().unwrap().success(), "{test} failed in its namespace");
    true
}

/// A disk of so many MiB, gone with the namespace.
struct SmallDisk {
    path: PathBuf,
    lowest: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    watcher: Option<JoinHandle<()>>,
    _home: TempDir,
}

impl SmallDisk {
    fn mount(mib: u64) -> Self {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("disk");
        std::fs::create_dir(&path).unwrap();
        let size = format!("size={mib}m");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &size, "none"])
            .arg(&path)
            .status()
            .unwrap();
        assert!(mounted.success());
        let (lowest, over) = (Arc::new(AtomicU64::new(u64::MAX)), Arc::default());
        let (seen, ended, at) = (Arc::clone(&lowest), Arc::clone(&over), path.clone());
        let watch = move || {
            while !AtomicBool::load(&ended, Ordering::Relaxed) {
                seen.fetch_min(free(&at), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let watcher = Some(std::thread::spawn(watch));
        Self { path, lowest, over, watcher, _home: home }
    }

    fn free(&self) -> u64 {
        free(&self.path)
    }

    /// Since the last time.
    fn lowest(&self) -> u64 {
        self.lowest.swap(u64::MAX, Ordering::Relaxed).min(self.free())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.watcher.take().map(JoinHandle::join);
        let _ = Command::new("umount").arg("--lazy").arg(&self.path).status();
    }
}

fn free(path: &Path) -> u64 {
    let disk = statvfs(path).unwrap();
    disk.f_bavail * disk.f_frsize
}

/// A server whose git data is on the disk.
async fn serve(disk: &SmallDisk, reserve: u64, settings: &[(&str, &str)]) -> Server {
    let git = disk.path.join("git").display().to_string();
    let common = [
        ("NGIT_DOMAIN_ALIASES", DOMAIN),
        ("NGIT_GIT_DATA_PATH", &git),
        ("NGIT_GIT_MIN_FREE_BYTES", &reserve.to_string()),
        ("NGIT_MAINTAINER_RULE", "listed"),
        ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
        ("NGIT_SYNC_HUNT_DELAY_SECS", "0"),
    ];
    home(&[&common, settings].concat()).serve().await
}

/// An author with a commit of so many MiB that do not compress.
struct Pusher {
    repository: Repository,
    tree: WorkTree,
    tip: Oid,
}

impl Pusher {
    async fn new(number: u64, mib: u64) -> Self {
        let repository = Repository::new(Author::number(number), "acme");
        let tree = WorkTree::init(&Git::any()).await;
        tree.git(&["symbolic-ref", "HEAD", MAIN]).await;
        let mut random = Random::seeded(number);
        let noise: Vec<u8> =
            (0..mib * MIB / 8).flat_map(|_| random.next_u64().to_le_bytes()).collect();
        std::fs::write(tree.path().join("large"), noise).unwrap();
        tree.git(&["add", "large"]).await;
        let tip = tree.commit("README", "hello").await;
        Self { repository, tree, tip }
    }

    async fn announces(&self, server: &Server, clones: &[String]) {
        let clones = [vec![self.repository.clone_url(DOMAIN)], clones.to_vec()].concat();
        let event = announcement(&self.repository, &clones, &[format!("ws://{DOMAIN}")]);
        let mut client = Client::connect(&server.url()).await;
        assert!(client.publishes(&event).await.ok);
        self.signs(&mut client).await;
    }

    async fn signs(&self, client: &mut Client) {
        let (owner, tip) = (&self.repository.owner, self.tip.to_hex());
        let state = self.repository.state(owner, THEN + 1, &[(MAIN, &tip)], Some("main"));
        let answer = client.publishes(&state).await;
        assert!(answer.ok, "{answer:?}");
    }

    async fn pushes(&self, server: &Server) -> Ran {
        self.tree.push(&self.repository.clone_url(&server.address), &["main"]).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushes_and_fetches_never_take_free_space_below_the_reserve() {
    if is_run_in_a_namespace("pushes_and_fetches_never_take_free_space_below_the_reserve") {
        return;
    }
    let (disk, reserve) = (SmallDisk::mount(80), 60 * MIB);
    let server = serve(&disk, reserve, &[]).await;
    let holds = |what: &str| {
        let lowest = disk.lowest();
        println!(
            "{what}: {} KiB above the reserve at the lowest",
            (lowest as i64 - reserve as i64) / 1024
        );
        assert!(lowest + SLACK >= reserve, "{what}: {lowest} of {reserve}");
    };
    let is_clean = || async { disk.free() + MIB > 80 * MIB };

    let large = Pusher::new(1, 30).await;
    large.announces(&server, &[]).await;
    let refused = large.pushes(&server).await;
    assert!(!refused.ok && refused.says("60 MiB kept in reserve"), "{refused:?}");
    holds("a push of 30 MiB");
    until("nothing of it stays", is_clean).await;

    let mut three = Vec::new();
    for number in 2..5 {
        let pusher = Pusher::new(number, 9).await;
        pusher.announces(&server, &[]).await;
        three.push(pusher);
    }
    let [a, b, c] = &three[..] else { unreachable!() };
    let (a, b, c) = tokio::join!(a.pushes(&server), b.pushes(&server), c.pushes(&server));
    let taken = [a, b, c].iter().filter(|ran| ran.ok).count();
    assert!(taken < 3, "27 MiB do not fit into 20");
    holds("three pushes of 9 MiB at once");

    let forge = Forge::start().await;
    let far = Pusher::new(5, 30).await;
    forge.mirrors("acme.git", &far.tree).await;
    far.announces(&server, &[forge.url("acme.git")]).await;
    let place = format!("{}/api/v1/purgatory", server.address);
    until("the fetch has failed", || async {
        http("GET", &place, &[]).await.body.contains("kept in reserve")
    })
    .await;
    holds("a fetch of 30 MiB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_push_to_a_group_of_a_hundred_repositories_takes_the_room_of_one() {
    if is_run_in_a_namespace("a_push_to_a_group_of_a_hundred_repositories_takes_the_room_of_one") {
        return;
    }
    let (disk, reserve) = (SmallDisk::mount(100), 60 * MIB);
    let server = serve(&disk, reserve, &[]).await;
    let owner = Pusher::new(1, 12).await;
    let others: Vec<Author> = (2..101).map(Author::number).collect();
    let mut client = Client::connect(&server.url()).await;
    announce_group(&mut client, &owner.repository, &others).await;
    owner.signs(&mut client).await;
    let before = disk.free();
    let pushed = owner.pushes(&server).await;
    assert!(pushed.ok, "{pushed:?}");
    let git = disk.path.join("git");
    let incoming = git.join(".graspd/incoming");
    let all_are_there = || async {
        let twins = others.iter().filter(|other| packs(&git, other) > 0).count();
        twins == others.len() && std::fs::read_dir(&incoming).unwrap().next().is_none()
    };
    until("everybody has it", all_are_there).await;
    let (used, pack) = (before - disk.free(), packs(&git, &owner.repository.owner));
    println!(
        "100 repositories: {used} bytes for a pack of {pack}, {:.3} x",
        used as f64 / pack as f64
    );
    assert!(used * 10 <= pack * 12, "{used} bytes for a pack of {pack}");
    assert!(disk.lowest() + SLACK >= reserve);
    let twin = Repository::new(others[98].clone(), "acme").clone_url(&server.address);
    let copy = WorkTree::clone(&Git::any(), &twin, &[]).await;
    assert_eq!(copy.read("README"), "hello");

    // A maintainer who comes later gets the same pack.
    let before = disk.free();
    let late = Author::number(200);
    let named: Vec<&Author> = others.iter().chain([&late]).collect();
    let own = owner.repository.announcement_naming(DOMAIN, THEN + 5, &named);
    let accepts = Repository::new(late.clone(), "acme");
    let accepts = accepts.announcement_naming(DOMAIN, THEN + 5, &[&owner.repository.owner]);
    for event in [&own, &accepts] {
        assert!(client.publishes(event).await.ok);
    }
    until("the new maintainer has it", || async { packs(&git, &late) > 0 }).await;
    assert!(before - disk.free() < MIB, "{} bytes for one more", before - disk.free());
}

/// The owner names the other maintainers, and each of them announces the repository too.
async fn announce_group(client: &mut Client, repository: &Repository, others: &[Author]) {
    let named: Vec<&Author> = others.iter().collect();
    let own = repository.announcement_naming(DOMAIN, THEN, &named);
    assert!(client.publishes(&own).await.ok);
    for other in others {
        let twin = Repository::new(other.clone(), "acme");
        let event = twin.announcement_naming(DOMAIN, THEN, &[&repository.owner]);
        assert!(client.publishes(&event).await.ok);
    }
}

/// A library that, loaded before the C library, makes every hard link fail as on a file system without them.
fn build_library_without_hard_links(directory: &Path) -> PathBuf {
    let (source, library) = (directory.join("no_links.c"), directory.join("no_links.so"));
    let code = "#include <errno.h>\n\
        int link(const char *a, const char *b) { errno = EPERM; return -1; }\n\
        int linkat(int a, const char *b, int c, const char *d, int e) { errno = EPERM; return -1; }\n";
    std::fs::write(&source, code).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source);
    assert!(compiler.status().unwrap().success());
    library
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_copies_without_hard_links_stop_at_the_reserve() {
    if is_run_in_a_namespace("a_hundred_copies_without_hard_links_stop_at_the_reserve") {
        return;
    }
    let (disk, reserve, tools) = (SmallDisk::mount(100), 60 * MIB, tempfile::tempdir().unwrap());
    let library = build_library_without_hard_links(tools.path()).display().to_string();
    let server = serve(&disk, reserve, &[("LD_PRELOAD", &library)]).await;
    let owner = Pusher::new(1, 4).await;
    let others: Vec<Author> = (2..101).map(Author::number).collect();
    let mut client = Client::connect(&server.url()).await;
    announce_group(&mut client, &owner.repository, &others).await;
    owner.signs(&mut client).await;
    let pushed = owner.pushes(&server).await;
    assert!(pushed.ok, "copies that find no room delay no push: {pushed:?}");
    let git = disk.path.join("git");
    assert!(packs(&git, &owner.repository.owner) > 4 * MIB);
    let log_says_why =
        || async { server.log().iter().any(|line| line.contains("kept in reserve")) };
    until("a copy that found no room is reported", log_says_why).await;
    let copies = others.iter().filter(|other| packs(&git, other) > 0).count();
    let lowest = disk.lowest();
    println!(
        "{copies} of 99 copies, {} KiB above the reserve",
        (lowest as i64 - reserve as i64) / 1024
    );
    assert!(lowest + SLACK >= reserve, "{lowest} of {reserve}");
    // 40 MiB hold ten packs of 4 MiB at the most, of which one is the owner's.
    assert!((1..=9).contains(&copies), "{copies} copies");
}

/// Bytes of all packs in one owner's repository.
fn packs(git: &Path, owner: &Author) -> u64 {
    let dir = git.join(owner.key.to_npub()).join("acme.git/objects/pack");
    let files = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let packs = files.filter(|it| it.path().extension().is_some_and(|it| it == "pack"));
    packs.map(|it| it.metadata().unwrap().len()).sum()
}

#[tokio::test]
async fn a_server_with_a_full_disk_is_alive_and_not_ready_and_says_why() {
    let huge = "9223372036854775807";
    let server = home(&[("NGIT_GIT_MIN_FREE_BYTES", huge)]).serve().await;
    let ready = http("GET", &format!("{}/readyz", server.address), &[]).await;
    assert_eq!(ready.status, 503);
    let text = &ready.body;
    assert!(text.contains("the disk of the git data has "), "{text}");
    assert!(
        text.contains("B free, less than its reserve of 8191 PiB, so pushes are refused"),
        "{text}"
    );
    assert!(text.contains("NGIT_GIT_MIN_FREE_BYTES"), "{text}");
    assert_eq!(http("GET", &format!("{}/healthz", server.address), &[]).await.status, 200);
}

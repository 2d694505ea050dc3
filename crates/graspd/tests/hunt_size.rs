//! The hunt when there is a lot of it: many events that wait, a large repository, and a pack without
//! an end. Small here; the sizes to be proud of are played by `scripts/hunt-size`.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;
mod workshop;

use common::hosted::{DOMAIN, MAIN};
use common::mirrors::{announcement, holds, metric};
use common::{THEN, acme, home};
use grasp_core::{Kind, Oid, VerifiedEvent};
use grasp_testkit::forge::Manner;
use grasp_testkit::{Author, Client, Draft, Forge, Random, Repository, Server, now};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use workshop::{Refs, Story, Workshop, disk_bytes, hex, noise};

const MIB: u64 = 1 << 20;
/// Of resident memory, whatever it is for.
const HELD_KIB_MAX: u64 = 300 << 10;
/// Above what it needs when nothing happens.
const LARGE_KIB_MAX: u64 = 100 << 10;
const MAINTAINERS: u64 = 10;
const BRANCHES: u64 = 5;
/// Only ends a broken test.
const CAP: Duration = Duration::from_secs(600);

const SETTINGS: [(&str, &str); 3] = [
    ("NGIT_DOMAIN_ALIASES", DOMAIN),
    ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
    ("NGIT_SYNC_HUNT_DELAY_SECS", "0"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_thousand_states_that_wait_fit_into_little_memory() {
    many_wait(400, 2).await;
}

/// `scripts/hunt-size`
#[ignore = "takes minutes"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_thousand_states_that_wait_fit_into_little_memory() {
    many_wait(2_000, 5).await;
}

/// So many repositories with ten maintainers each, who all said something about commits that nobody
/// has: one server knows nothing, one is silent, and the rest are gone.
async fn many_wait(repositories: u64, attempts: u64) {
    let lacking = Forge::start_with(Manner::Lacks).await;
    let silent = Forge::start_with(Manner::Stall).await;
    let places = [lacking.origin().to_owned(), silent.origin().to_owned()];
    let often = [("NGIT_MAINTAINER_RULE", "listed"), ("NGIT_SYNC_HUNT_RETRY_MIN_SECS", "5")];
    let home = home(&[&SETTINGS[..], &often].concat());
    for first in (0..repositories).step_by(200) {
        let numbers = first..(first + 200).min(repositories);
        let events: Vec<VerifiedEvent> = numbers.flat_map(|n| waiting(n, &places)).collect();
        home.imports(&events).await;
    }
    let began = Instant::now();
    let server = home.serve().await;
    eprintln!("ready after {:?} with {} KiB", began.elapsed(), status_kib(&server, "VmHWM"));
    patiently("each was looked for", || async {
        metric(&server, "purgatory_sync_attempts_total").await >= repositories
    })
    .await;
    patiently("all are being looked for", || async {
        metric(&server, "purgatory_sync_queue_size").await == repositories
    })
    .await;
    eprintln!("{repositories} looked for after {:?}", began.elapsed());
    patiently("all were looked for again", || async {
        metric(&server, "purgatory_sync_attempts_total").await >= repositories * attempts
    })
    .await;
    let (peak, rss) = (status_kib(&server, "VmHWM"), status_kib(&server, "VmRSS"));
    let own = server.anonymous_kib();
    eprintln!("after {:?}: peak {peak} KiB, now {rss} KiB, {own} of them its own", began.elapsed());
    assert!(peak < HELD_KIB_MAX, "{peak} KiB");
    assert!(lacking.concurrent_max() > 0 && silent.dials() > 0);
}

/// One announcement and a state of each maintainer.
fn waiting(number: u64, places: &[String]) -> Vec<VerifiedEvent> {
    let people: Vec<Author> =
        (0..MAINTAINERS).map(|n| Author::number(1_000_000 + number * MAINTAINERS + n)).collect();
    let name = format!("project-{number}");
    let repository = Repository::new(people[0].clone(), &name);
    let [high, low] = u16::try_from(number).unwrap().to_be_bytes();
    let gone = (1..=3).map(|n| format!("http://127.{}.{low}.{n}:9", high + 1));
    let mut clones = vec!["clone".to_owned(), repository.clone_url(DOMAIN)];
    clones.extend(places.iter().cloned().chain(gone).map(|place| format!("{place}/{name}.git")));
    let keys = people[1..].iter().map(|it| it.key.to_hex());
    let maintainers: Vec<String> = std::iter::once("maintainers".to_owned()).chain(keys).collect();
    let mut draft = Draft::new(Kind::ANNOUNCEMENT, now()).tag(&["d", &name]);
    for values in [&clones, &maintainers] {
        draft = draft.tag(&values.iter().map(String::as_str).collect::<Vec<_>>());
    }
    let draft = draft.tag(&["relays", &format!("ws://{DOMAIN}")]);
    let mut random = Random::seeded(number);
    let mut events = vec![people[0].signs(draft)];
    for person in &people {
        let refs = (0..BRANCHES).map(|n| {
            let name = if n == 0 { MAIN.to_owned() } else { format!("refs/heads/topic-{n}") };
            let [oid @ .., _, _, _, _, _, _, _, _, _, _, _, _] = random.bytes32();
            (name, Oid::from_bytes(oid))
        });
        events.push(signed(&repository, person, &refs.collect()));
    }
    events
}

fn signed(repository: &Repository, by: &Author, refs: &Refs) -> VerifiedEvent {
    let hex = hex(refs);
    let named: Vec<(&str, &str)> = hex.iter().map(|(name, oid)| (&**name, &**oid)).collect();
    repository.state(by, THEN, &named, Some("main"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_of_sixty_megabytes_is_fetched_in_little_memory() {
    large(60).await;
}

/// `scripts/hunt-size`
#[ignore = "takes a gigabyte of disk"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_of_five_hundred_megabytes_is_fetched_in_little_memory() {
    large(500).await;
}

async fn large(mib: u64) {
    let (shop, forge) = (Workshop::open().await, Forge::start().await);
    let mut random = Random::seeded(mib);
    let story = Story::default().commit("main", None, "README", b"large");
    let story = (0..mib)
        .fold(story, |story, n| story.file(&format!("file-{n}"), &noise(&mut random, 1 << 20)));
    let source = shop.makes("large", &story).await;
    drop(story);
    forge.serve("acme.git", &source);
    let far = Far::listing(&[forge.url("acme.git")], &[]).await;
    let idle = status_kib(&far.server, "VmHWM");
    let began = Instant::now();
    far.says(&shop.refs(&source).await).await;
    let peak = status_kib(&far.server, "VmHWM");
    eprintln!("{mib} MiB in {:?}: idle {idle} KiB, peak {peak} KiB", began.elapsed());
    assert!(peak - idle < LARGE_KIB_MAX, "{idle} KiB, then {peak} KiB");
    shop.inspects(&far.directory()).await;
    assert!(disk_bytes(&far.directory()) >= mib * MIB);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_without_an_end_is_cut_off_and_leaves_nothing() {
    endless(20 * MIB).await;
}

/// `scripts/hunt-size`: with the default, as much as it is.
#[ignore = "takes two gigabytes of disk"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pack_without_an_end_is_cut_off_at_two_gigabytes() {
    endless(2 << 30).await;
}

async fn endless(budget: u64) {
    let shop = Workshop::open().await;
    let (evil, good) = (Forge::start_with(Manner::EndlessPack).await, Forge::start().await);
    let story = Story::default().commit("main", None, "README", b"hello");
    let source = shop.makes("acme", &story).await;
    evil.serve("acme.git", &source);
    good.serve("acme.git", &source);
    let bytes = budget.to_string();
    let urls = [evil.url("acme.git"), good.url("acme.git")];
    // As long as it brings something it is not joined by another.
    let settings = [("NGIT_SYNC_FETCH_BYTES_MAX", &*bytes), ("NGIT_SYNC_HEDGE_SECS", "3600")];
    let far = Far::listing(&urls, &settings).await;
    let git_root = far.server.data_path().join("git");
    let (before, idle) = (disk_bytes(&git_root), status_kib(&far.server, "VmHWM"));
    let gauge = Gauge::on(&git_root);
    let began = Instant::now();
    far.says(&shop.refs(&source).await).await;
    patiently("nothing is on its way", || async {
        disk_bytes(&git_root.join(".graspd/incoming")) == 0
    })
    .await;
    let (most, after) = (gauge.most(), disk_bytes(&git_root));
    let sent: u64 = evil.log().iter().map(|asked| asked.bytes_sent).sum();
    let peak = status_kib(&far.server, "VmHWM");
    eprintln!(
        "{budget} bytes in {:?}: {sent} sent, {before} bytes on disk, then {most}, then {after}; \
         idle {idle} KiB, peak {peak} KiB",
        began.elapsed()
    );
    // What is on its way in the sockets between them was sent, too.
    assert!((budget - MIB..budget + 16 * MIB).contains(&sent), "{sent} bytes");
    assert!((before + budget / 4..before + budget + 4 * MIB).contains(&most), "{most} bytes");
    assert!(after < before + MIB, "{before} bytes before, {after} after");
    assert!(peak - idle < LARGE_KIB_MAX, "{idle} KiB, then {peak} KiB");
    // A large one is asked for its commits, and then for everything once more.
    assert!(evil.log().len() <= 3, "the other one was asked next");
    shop.inspects(&far.directory()).await;
}

/// A server, and a repository that is said to be elsewhere.
struct Far {
    server: Server,
    acme: Repository,
}

impl Far {
    async fn listing(clones: &[String], settings: &[(&str, &str)]) -> Self {
        let acme = acme();
        let clones = [&[acme.clone_url(DOMAIN)], clones].concat();
        let home = home(&[&SETTINGS, settings].concat());
        home.imports(&[announcement(&acme, &clones, &[format!("ws://{DOMAIN}")])]).await;
        let far = Self { server: home.serve().await, acme };
        // Whoever says something for the first time needs more than for the second.
        let mut client = Client::connect(&far.server.url()).await;
        assert!(client.publishes(&far.acme.issue(&far.acme.owner, THEN, "hello")).await.ok);
        metric(&far.server, "purgatory_sync_queue_size").await;
        far
    }

    /// The owner says what there is; waits until it is here.
    async fn says(&self, refs: &Refs) {
        let state = signed(&self.acme, &self.acme.owner, refs);
        let mut client = Client::connect(&self.server.url()).await;
        let answer = client.publishes(&state).await;
        assert!(answer.ok, "{answer:?}");
        let state = [state.id];
        patiently("the state is served", || holds(&self.server, &state)).await;
    }

    fn directory(&self) -> PathBuf {
        let owner = self.server.data_path().join("git").join(self.acme.owner.key.to_npub());
        owner.join(format!("{}.git", self.acme.identifier))
    }
}

/// How much there ever is below a directory.
struct Gauge {
    most: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
}

impl Gauge {
    fn on(directory: &Path) -> Self {
        let (most, over) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (directory, seen, done) = (directory.to_owned(), Arc::clone(&most), Arc::clone(&over));
        std::thread::spawn(move || {
            while !done.load(Ordering::SeqCst) {
                seen.fetch_max(disk_bytes(&directory), Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        Self { most, over }
    }

    fn most(self) -> u64 {
        self.over.store(true, Ordering::SeqCst);
        self.most.load(Ordering::SeqCst)
    }
}

/// What the kernel says about the server alone, without the gits it starts.
fn status_kib(server: &Server, what: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(what)?.strip_prefix(':'));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap()
}

/// Asks again and again until the answer is yes; large things take long.
async fn patiently<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    assert!(tokio::time::timeout(CAP, waiting).await.is_ok(), "not seen in time: {what}");
}

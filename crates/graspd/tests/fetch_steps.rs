//! Large histories through connections that break (S-51): fetched in steps, each of which is promoted,
//! so that no byte is fetched much more than once. Small here; `scripts/fetch-steps` plays the size
//! that it is made for.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "the lints' exception for tests misses their helpers"
)]

mod common;
mod sources;
mod workshop;

use common::hosted::{DOMAIN, MAIN};
use common::mirrors::{announcement, holds};
use common::{THEN, acme as acme_repository, home};
use grasp_core::{Oid, VerifiedEvent};
use grasp_engine::hunt::Outcome;
use grasp_testkit::forge::{Forge, Manner};
use grasp_testkit::{Client, Git, Random, Repository, Server, WorkTree};
use graspd::fetch::{FetchSettings, Part};
use graspd::outbound::CallLimits;
use sources::{Place, acme, part, set, task};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use workshop::{Refs, Story, Workshop, disk_bytes, hex, noise};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const PATH: &str = "acme.git";
/// Only ends a broken test.
const CAP: Duration = Duration::from_secs(1_800);

/// A line of commits with so much noise in each.
struct History {
    shop: Workshop,
    dir: PathBuf,
    /// Oldest first.
    commits: Vec<Oid>,
}

impl History {
    async fn of(commits: usize, bytes_each: usize) -> Self {
        let (shop, mut random) = (Workshop::open().await, Random::seeded(51));
        let mut dir = PathBuf::new();
        // A part at a time, so that a large one does not have to fit into memory.
        for number in 0..commits {
            let on = (number > 0).then_some("main^0");
            let file = noise(&mut random, bytes_each);
            let story = Story::default().commit("main", on, &format!("file-{number}"), &file);
            match number {
                0 => dir = shop.makes("acme", &story).await,
                _ => shop.adds(&dir, &story).await,
            }
        }
        let tree = WorkTree::init(&Git::any()).await;
        let path = dir.display().to_string();
        let listed = tree.git(&["--git-dir", &path, "rev-list", "--reverse", "main"]).await;
        let commits = listed.lines().map(|line| line.parse().unwrap()).collect();
        let it = Self { shop, dir, commits };
        // Otherwise git looks for deltas in noise for minutes before its first byte.
        it.git(&["config", "core.bigFileThreshold", "32k"]).await;
        it.git(&["config", "pack.compression", "0"]).await;
        it
    }

    /// Commits without their trees are given out from now on.
    async fn filters(self) -> Self {
        self.git(&["config", "uploadpack.allowFilter", "true"]).await;
        self
    }

    async fn git(&self, args: &[&str]) -> String {
        let (tree, path) = (WorkTree::init(&Git::any()).await, self.dir.display().to_string());
        tree.git(&[&["--git-dir", &path], args].concat()).await
    }

    fn tip(&self) -> Oid {
        *self.commits.last().unwrap()
    }

    fn bytes(&self, each: usize) -> f64 {
        (self.commits.len() * each) as f64
    }
}

fn steppable(wants: &[Oid]) -> Part {
    Part { may_step: true, ..part(wants) }
}

fn bytes_sent(forge: &Forge) -> f64 {
    forge.log().iter().map(|asked| asked.bytes_sent).sum::<u64>() as f64
}

async fn cut_off(history: &History, bytes: usize) -> Forge {
    let forge = Forge::start_with(Manner::HangUpMidPack(bytes)).await;
    forge.serve(PATH, &history.dir);
    forge
}

#[tokio::test]
async fn s51_a_pack_that_always_breaks_completes_in_steps() {
    let history = History::of(16, 256 * KIB).await.filters().await;
    for (step_bytes, factor_max) in [(256 * KIB as u64, 1.3), (32 << 20, 1.6)] {
        let forge = cut_off(&history, MIB).await;
        let settings = FetchSettings { step_bytes, ..FetchSettings::default() };
        let place = Place::with(CallLimits::default(), settings).await;
        let mut desk = place.desk();
        let task = task(&forge.url(PATH), vec![steppable(&[history.tip()])]);
        let end = place.fetcher.fetch(&task, &mut desk).await;
        assert_eq!((end.outcome, end.found), (Outcome::Answered, set(&[history.tip()])));
        assert!(place.is_sound(&acme()) && place.has(&acme(), &history.commits[0]));
        place.leaves_nothing_behind().await;
        let factor = bytes_sent(&forge) / history.bytes(256 * KIB);
        eprintln!("{} steps, every byte {factor:.2} times", desk.steps.len());
        assert!((1.0..factor_max).contains(&factor), "{factor}");
        assert!(
            desk.steps.is_sorted_by_key(|step| history.commits.iter().position(|it| it == step))
        );
        let last = forge.log().pop().unwrap();
        assert_eq!(last.haves.first(), desk.steps.last(), "each step is told as `have`");
    }
}

#[tokio::test]
async fn s51_what_is_too_large_for_one_go_is_fetched_in_steps() {
    let history = History::of(16, 64 * KIB).await.filters().await;
    let forge = Forge::start().await;
    forge.serve(PATH, &history.dir);
    let (step_bytes, whole_bytes_max) = (64 * KIB as u64, 256 * KIB as u64);
    let settings = FetchSettings { step_bytes, whole_bytes_max, ..FetchSettings::default() };
    let place = Place::with(CallLimits::default(), settings).await;
    let mut desk = place.desk();
    let task = task(&forge.url(PATH), vec![steppable(&[history.tip()])]);
    let end = place.fetcher.fetch(&task, &mut desk).await;
    assert_eq!((end.outcome, end.found), (Outcome::Answered, set(&[history.tip()])));
    assert!(desk.steps.len() >= 12 && place.is_sound(&acme()), "{:?}", desk.steps);
    let received = (desk.received + end.bytes) as f64 / history.bytes(64 * KIB);
    assert!((1.0..1.4).contains(&received), "every byte {received} times");
}

#[tokio::test]
async fn s51_a_fetch_that_was_killed_goes_on_after_its_last_step() {
    let history = History::of(16, 256 * KIB).await.filters().await;
    let forge = cut_off(&history, MIB).await;
    let settings = FetchSettings { step_bytes: 256 * KIB as u64, ..FetchSettings::default() };
    let place = Place::with(CallLimits::default(), settings.clone()).await;
    let mut desk = place.desk();
    desk.leaves = 7;
    let first = task(&forge.url(PATH), vec![steppable(&[history.tip()])]);
    let end = place.fetcher.fetch(&first, &mut desk).await;
    assert_eq!((end.outcome, desk.steps.len()), (Outcome::Cancelled, 6), "all but the commits");
    let asked = forge.log().len();
    let haves = vec![*desk.steps.last().unwrap()];
    let rest = Part { haves, is_resuming: true, ..steppable(&[history.tip()]) };
    let mut desk = place.desk();
    let second = task(&forge.url(PATH), vec![rest]);
    let end = place.fetcher.fetch(&second, &mut desk).await;
    assert_eq!((end.outcome, end.found), (Outcome::Answered, set(&[history.tip()])));
    let again: u64 = forge.log()[asked..].iter().map(|it| it.bytes_sent).sum();
    assert!(again as f64 <= 10.5 * 256.0 * KIB as f64, "{again} bytes for ten commits");
    assert!(place.is_sound(&acme()));
}

#[tokio::test]
async fn s51_without_a_filter_tags_are_the_way_the_oldest_first() {
    let history = History::of(16, 128 * KIB).await;
    let mut tags = Vec::new();
    for number in [3, 7, 11] {
        let commit = history.commits[number];
        history.git(&["tag", &format!("v0.{number}"), &commit.to_hex()]).await;
        tags.push(commit);
    }
    let forge = cut_off(&history, 700 * KIB).await;
    let place = Place::new().await;
    let mut desk = place.desk();
    let wants = [&tags[..], &[history.tip()]].concat();
    let it = Part { tags: tags.clone(), ..steppable(&wants) };
    let end = place.fetcher.fetch(&task(&forge.url(PATH), vec![it]), &mut desk).await;
    assert_eq!((end.outcome, end.found), (Outcome::Answered, set(&wants)));
    assert_eq!(desk.steps, tags);
    assert!(place.is_sound(&acme()));
}

#[tokio::test]
async fn s51_commits_without_their_trees_never_land() {
    let history = History::of(4, 256 * KIB).await.filters().await;
    let forge = cut_off(&history, 300 * KIB).await;
    let place = Place::new().await;
    let mut desk = place.desk();
    desk.leaves = 1;
    let it = task(&forge.url(PATH), vec![steppable(&[history.tip()])]);
    let end = place.fetcher.fetch(&it, &mut desk).await;
    assert_eq!((end.outcome, forge.log().len()), (Outcome::Cancelled, 2), "only the commits came");
    assert!(desk.steps.is_empty() && !place.has(&acme(), &history.commits[0]));
    place.leaves_nothing_behind().await;
}

// ---- with a whole server

/// Passes connections on and cuts each after so many bytes of answers.
struct CuttingProxy {
    address: String,
    bytes: Arc<AtomicU64>,
}

impl CuttingProxy {
    async fn to(target: String, cut_after: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let bytes = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&bytes);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(passes(client, target.clone(), cut_after, Arc::clone(&counted)));
            }
        });
        Self { address, bytes }
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::SeqCst)
    }
}

async fn passes(client: TcpStream, target: String, cut_after: u64, counted: Arc<AtomicU64>) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    let ((mut asks, mut answers_to), (mut answers, mut asks_to)) =
        (client.into_split(), server.into_split());
    let asking = tokio::spawn(async move { tokio::io::copy(&mut asks, &mut asks_to).await });
    let mut piece = vec![0; 64 * KIB];
    let mut left = cut_after;
    while left > 0
        && let Ok(count @ 1..) = answers.read(&mut piece).await
    {
        let count = u64::try_from(count).unwrap().min(left);
        left -= count;
        counted.fetch_add(count, Ordering::SeqCst);
        let passed = usize::try_from(count).unwrap();
        if answers_to.write_all(&piece[..passed]).await.is_err() {
            break;
        }
    }
    asking.abort();
}

struct Mirror {
    server: Server,
    acme: Repository,
    state: VerifiedEvent,
}

impl Mirror {
    /// A server that hears of a repository whose git data is at this address.
    async fn hears_of(url: String, refs: &Refs) -> Self {
        let acme = acme_repository();
        let settings = [
            ("NGIT_DOMAIN_ALIASES", DOMAIN),
            ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
            ("NGIT_SYNC_HUNT_DELAY_SECS", "0"),
            ("NGIT_SYNC_HUNT_RETRY_MIN_SECS", "1"),
            ("NGIT_SYNC_DOMAIN_RATE_LIMIT", "1000"),
        ];
        let clones = [acme.clone_url(DOMAIN), url];
        let home = home(&settings);
        home.imports(&[announcement(&acme, &clones, &[format!("ws://{DOMAIN}")])]).await;
        let server = home.serve().await;
        let hex = hex(refs);
        let named: Vec<(&str, &str)> = hex.iter().map(|(name, oid)| (&**name, &**oid)).collect();
        let state = acme.state(&acme.owner, THEN, &named, Some("main"));
        let answer = Client::connect(&server.url()).await.publishes(&state).await;
        assert!(answer.ok, "{answer:?}");
        Self { server, acme, state }
    }

    fn packs(&self) -> PathBuf {
        let owner = self.server.data_path().join("git").join(self.acme.owner.key.to_npub());
        owner.join(format!("{}.git/objects/pack", self.acme.identifier))
    }

    async fn is_complete(&self) -> bool {
        holds(&self.server, &[self.state.id]).await
    }
}

fn pack_count(dir: &Path) -> usize {
    let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    entries.filter(|it| it.path().extension().is_some_and(|it| it == "idx")).count()
}

async fn patiently<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(CAP, waiting).await.is_ok(), "not seen in time: {what}");
}

/// What is between a mirror and the server that has everything.
struct Obstacles {
    cut_after: usize,
    /// The mirror is killed after a few steps.
    kill: bool,
}

/// Complete with a kill and cuts on the way; says how often every byte was fetched.
async fn is_mirrored(history: &History, server: &str, obstacles: Obstacles) -> f64 {
    let cut_after = u64::try_from(obstacles.cut_after).unwrap();
    let proxy = CuttingProxy::to(server.to_owned(), cut_after).await;
    let refs = history.shop.refs(&history.dir).await;
    assert_eq!(refs[MAIN], history.tip());
    let url = format!("http://{}/{PATH}", proxy.address);
    let mut mirror = Mirror::hears_of(url, &refs).await;
    if obstacles.kill {
        let packs = mirror.packs();
        patiently("some steps are promoted", || async { pack_count(&packs) >= 3 }).await;
        mirror.server.kill().await;
        mirror.server.restart().await;
    }
    patiently("the state is served", || mirror.is_complete()).await;
    history.shop.inspects(mirror.packs().parent().unwrap().parent().unwrap()).await;
    let size = disk_bytes(&history.dir.join("objects"));
    let factor = proxy.bytes() as f64 / size as f64;
    eprintln!("{size} bytes, cut after {cut_after}: every byte {factor:.2} times");
    factor
}

/// The same from a forge.
async fn through_cuts(commits: usize, bytes_each: usize, obstacles: Obstacles) -> f64 {
    let history = History::of(commits, bytes_each).await.filters().await;
    let forge = Forge::start().await;
    forge.serve(PATH, &history.dir);
    is_mirrored(&history, forge.address(), obstacles).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s51_a_history_comes_through_cut_connections_and_a_kill() {
    let factor = through_cuts(16, 256 * KIB, Obstacles { cut_after: MIB, kill: true }).await;
    assert!(factor < 2.5, "{factor}");
}

/// `scripts/fetch-steps`
#[ignore = "takes three gigabytes of disk"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s51_a_gigabyte_comes_through_connections_cut_after_200_mib() {
    let factor = through_cuts(64, 16 * MIB, Obstacles { cut_after: 200 * MIB, kill: false }).await;
    assert!(factor <= 1.3, "{factor}");
}

/// `scripts/fetch-steps`: besides the step in which it is killed, as above.
#[ignore = "takes three gigabytes of disk"]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s51_a_kill_in_the_middle_of_a_gigabyte_costs_one_step() {
    let factor = through_cuts(64, 16 * MIB, Obstacles { cut_after: 200 * MIB, kill: true }).await;
    assert!(factor <= 1.3 + 32.0 / 1_024.0, "{factor}");
}

// ---- a git server that we did not write: `git http-backend` behind nginx

const BACKEND: &str = "/usr/lib/git-core/git-http-backend";

/// nginx and the process that runs CGI programs for it; both end when this is dropped.
struct HttpBackend {
    address: String,
    running: Vec<Child>,
    _home: TempDir,
}

impl HttpBackend {
    /// Serves the repositories below this directory; `None` where a program is not installed.
    async fn serving(root: &Path) -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let is_there =
            |name: &str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
        for name in ["nginx", "fcgiwrap", BACKEND] {
            if !is_there(name) {
                eprintln!("skipped: {name} is not installed; scripts/real-git installs it");
                return None;
            }
        }
        let home = tempfile::tempdir().unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap().to_string();
        drop(free);
        let socket = home.path().join("cgi");
        let configuration = nginx_configuration(&address, &socket, root);
        std::fs::write(home.path().join("nginx.conf"), configuration).unwrap();
        let cgi =
            Command::new("fcgiwrap").arg("-s").arg(format!("unix:{}", socket.display())).spawn();
        let mut nginx = Command::new("nginx");
        nginx.arg("-p").arg(home.path()).args(["-c", "nginx.conf", "-e", "stderr"]);
        let running = vec![cgi.unwrap(), nginx.spawn().unwrap()];
        let it = Self { address, running, _home: home };
        let is_up = || async { TcpStream::connect(&it.address).await.is_ok() && socket.exists() };
        patiently("nginx answers", is_up).await;
        Some(it)
    }
}

impl Drop for HttpBackend {
    fn drop(&mut self) {
        for process in &mut self.running {
            let _ = process.kill().and_then(|()| process.wait().map(drop));
        }
    }
}

fn nginx_configuration(address: &str, socket: &Path, root: &Path) -> String {
    let (socket, root) = (socket.display(), root.display());
    let places = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
    let places: String = places.map(|it| format!("  {it}_temp_path {it};\n")).concat();
    format!(
        "daemon off;\nmaster_process off;\nworker_processes 1;\npid nginx.pid;\n\
         events {{ worker_connections 64; }}\nhttp {{\n{places}  access_log off;\n  server {{\n\
         listen {address};\n client_max_body_size 0;\n location / {{\n\
         fastcgi_pass unix:{socket};\n\
         fastcgi_param SCRIPT_FILENAME {BACKEND};\n fastcgi_param GIT_PROJECT_ROOT {root};\n\
         fastcgi_param GIT_HTTP_EXPORT_ALL \"\";\n fastcgi_param PATH_INFO $uri;\n\
         fastcgi_param QUERY_STRING $query_string;\n fastcgi_param REQUEST_METHOD $request_method;\n\
         fastcgi_param CONTENT_TYPE $content_type;\n fastcgi_param CONTENT_LENGTH $content_length;\n\
         fastcgi_param GIT_PROTOCOL $http_git_protocol;\n fastcgi_param REMOTE_ADDR $remote_addr;\n\
         }}\n }}\n}}\n"
    )
}

/// A bare repository that this server finds at the usual path.
async fn served_history(commits: usize) -> (TempDir, History) {
    let mut history = History::of(commits, 64 * KIB).await;
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join(PATH);
    std::fs::rename(&history.dir, &dir).unwrap();
    history.dir = dir;
    (root, history)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_backend_behind_nginx_gives_out_a_repository() {
    let (root, history) = served_history(4).await;
    let Some(backend) = HttpBackend::serving(root.path()).await else { return };
    let whole = Obstacles { cut_after: usize::MAX, kill: false };
    let factor = is_mirrored(&history, &backend.address, whole).await;
    assert!(factor < 1.2, "{factor}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s51_http_backend_behind_nginx_that_is_cut_off_is_fetched_in_steps() {
    for filters in [true, false] {
        let (root, mut history) = served_history(16).await;
        let Some(backend) = HttpBackend::serving(root.path()).await else { return };
        if filters {
            history = history.filters().await;
        } else {
            for number in [3, 7, 11] {
                let commit = history.commits[number].to_hex();
                history.git(&["tag", &format!("v0.{number}"), &commit]).await;
            }
        }
        let obstacles = Obstacles { cut_after: 400 * KIB, kill: false };
        let factor = is_mirrored(&history, &backend.address, obstacles).await;
        assert!(factor < 4.0, "{factor}");
    }
}

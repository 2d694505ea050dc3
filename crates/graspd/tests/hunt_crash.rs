//! Power cuts while git data is looked for: what waited waits on or is served, and is looked for again
//! without anybody's help; refs and events tell the same story; nothing half done is left.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;
mod workshop;

use common::hosted::{DOMAIN, PURGATORY};
use common::mirrors::{announcement, holds};
use common::{THEN, alice, home};
use grasp_core::{EventId, Kind, Oid, VerifiedEvent};
use grasp_testkit::forge::Manner;
use grasp_testkit::{Author, Client, Draft, Forge, Home, Random, Repository, Server, until};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;
use workshop::{Refs, Story, Workshop, hex, noise};

const REPOSITORIES: usize = 20;
const ROUNDS: usize = 10;
const KILLS_MIN: usize = 20;
const SEED: u64 = 0x4a17;
/// Between two states, so that the later one is newer.
const STEP: u64 = 10;

const SETTINGS: [(&str, &str); 7] = [
    ("NGIT_DOMAIN_ALIASES", DOMAIN),
    ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
    ("NGIT_SYNC_HUNT_DELAY_SECS", "0"),
    ("NGIT_SYNC_HUNT_RETRY_MIN_SECS", "1"),
    ("NGIT_SYNC_DOMAIN_RATE_LIMIT", "100000"),
    ("NGIT_SYNC_ADDRESS_RATE_LIMIT", "100000"),
    ("NGIT_RELAY_MAX_IP_HELD_PER_HOUR", "100000"),
];

/// A number in the environment plays another story.
fn seed() -> u64 {
    std::env::var("GRASPD_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(SEED)
}

struct Project {
    repository: Repository,
    /// Where its git data is.
    source: PathBuf,
    /// Where proposals to it are.
    fork: PathBuf,
    refs: Refs,
    /// By the ids of their events.
    proposals: BTreeMap<EventId, Oid>,
}

struct Ordeal {
    server: Server,
    forge: Forge,
    shop: Workshop,
    projects: Vec<Project>,
    random: Random,
    /// Everything that was promised in this round.
    promised: BTreeSet<EventId>,
    told: Told,
}

/// What it was all about.
#[derive(Debug, Default)]
struct Told {
    hunts: usize,
    kills: usize,
    /// Of these, while something was on its way.
    in_a_fetch: usize,
    /// Events that waited, over all kills.
    waited: usize,
}

impl Ordeal {
    async fn begins(seed: u64) -> Self {
        eprintln!("seed {seed}");
        let (forge, shop) = (Forge::start().await, Workshop::open().await);
        let (mut projects, mut announcements) = (Vec::new(), Vec::new());
        for number in 0..REPOSITORIES {
            let name = format!("project-{number}");
            let owner = Author::number(1 + number as u64 % 4);
            let repository = Repository::new(owner, &name);
            let (path, fork) = (format!("{name}.git"), format!("forks/{name}.git"));
            let story = Story::default().commit("main", None, "README", name.as_bytes());
            let source = shop.makes(&name, &story).await;
            let copy = shop.makes(&format!("{name}-fork"), &story).await;
            forge.serve(&path, &source);
            forge.serve(&fork, &copy);
            let clones = [repository.clone_url(DOMAIN), forge.url(&path)];
            announcements.push(announcement(&repository, &clones, &[format!("ws://{DOMAIN}")]));
            let (refs, proposals) = (Refs::new(), BTreeMap::new());
            projects.push(Project { repository, source, fork: copy, refs, proposals });
        }
        let home = home(&SETTINGS);
        home.imports(&announcements).await;
        let (server, random) = (home.serve().await, Random::seeded(seed));
        let (promised, told) = (BTreeSet::new(), Told::default());
        Self { server, forge, shop, projects, random, promised, told }
    }

    /// Every repository moves on, somewhere else, and its owner says so here.
    async fn moves_on(&mut self, round: usize) {
        self.promised.clear();
        let mut client = Client::connect(&self.server.url()).await;
        for number in 0..REPOSITORIES {
            let project = &mut self.projects[number];
            let (topic, file) = (format!("topic-{round}"), format!("file-{round}"));
            let bulk = noise(&mut self.random, 30_000);
            let story = Story::default().commit("main", Some("main^0"), &file, &bulk);
            let story = story.commit(&topic, Some("main"), &topic, b"a topic");
            self.shop.adds(&project.source, &story).await;
            project.refs = self.shop.refs(&project.source).await;
            let at = THEN + round as u64 * STEP;
            let mut said = vec![project.state(at)];
            if (number + round).is_multiple_of(4) {
                said.push(self.proposes(number, round, at).await);
            }
            for event in said {
                let answer = client.publishes(&event).await;
                assert!(answer.ok && answer.text.starts_with(PURGATORY), "{answer:?}");
                self.promised.insert(event.id);
            }
            self.told.hunts += 1;
        }
    }

    async fn proposes(&mut self, number: usize, round: usize, at: u64) -> VerifiedEvent {
        let project = &mut self.projects[number];
        let name = format!("proposal-{round}");
        let story = Story::default().commit(&name, Some("main^0"), &name, b"try this");
        self.shop.adds(&project.fork, &story).await;
        let tip = self.shop.refs(&project.fork).await[&format!("refs/heads/{name}")];
        let url = self.forge.url(&format!("forks/{}.git", project.repository.identifier));
        let draft = Draft::new(Kind::PULL_REQUEST, at).tag(&["clone", &url]);
        let draft = draft.tag(&["a", &project.repository.coordinate()]).tag(&["c", &tip.to_hex()]);
        let event = alice().signs(draft);
        project.proposals.insert(event.id, tip);
        event
    }

    /// Dead and alive again, on the same port; nobody says anything anew.
    async fn suffers(&mut self, moment_ms: u64) {
        let moment = Duration::from_micros(self.random.below(moment_ms * 1_000));
        tokio::time::sleep(moment).await;
        self.server.kill().await;
        let on_its_way = entries(&self.git_root().join(".graspd/incoming"));
        let waits = self.nothing_is_lost().await;
        self.told.kills += 1;
        self.told.in_a_fetch += usize::from(!on_its_way.is_empty());
        self.told.waited += waits;
        self.server.restart_in_place().await;
    }

    /// What was promised waits or is served, whatever the server was doing when it died.
    async fn nothing_is_lost(&self) -> usize {
        let home = self.server.home();
        let (held, served) = (ids(home, &["events", "held"]).await, exported(home).await);
        let lost: Vec<_> = self.promised.iter().filter(|id| !held.contains(id)).collect();
        let lost: Vec<_> = lost.into_iter().filter(|id| !served.contains(id)).collect();
        assert!(lost.is_empty(), "{:?}: {lost:?} lost", self.told);
        self.promised.iter().filter(|id| held.contains(id)).count()
    }

    async fn comes_to_rest(&self) {
        let promised: Vec<EventId> = self.promised.iter().copied().collect();
        until("everything is found", || holds(&self.server, &promised)).await;
        for project in &self.projects {
            let directory = self.directory(project);
            let mut refs = self.shop.refs(&directory).await;
            // Its own, for what somebody may still be fetching.
            refs.retain(|name, _| !name.starts_with("refs/internal/"));
            assert_eq!(refs, project.expected(), "{}", directory.display());
        }
        let root = self.git_root();
        let leftovers = || async { leftovers(&root).is_empty() };
        until(&format!("no leftovers, such as {:?}", self::leftovers(&root)), leftovers).await;
    }

    /// As a visitor and git itself see it.
    async fn is_looked_over(&self) {
        for project in &self.projects {
            self.shop.inspects(&self.directory(project)).await;
            let url = project.repository.clone_url(&self.server.address);
            assert_eq!(self.shop.clones(&url).await, project.expected(), "{url}");
        }
    }

    fn git_root(&self) -> PathBuf {
        self.server.data_path().join("git")
    }

    fn directory(&self, of: &Project) -> PathBuf {
        let owner = self.git_root().join(of.repository.owner.key.to_npub());
        owner.join(format!("{}.git", of.repository.identifier))
    }
}

impl Project {
    /// Everything its events name, and nothing else.
    fn expected(&self) -> Refs {
        let proposals = self.proposals.iter();
        let proposals = proposals.map(|(id, tip)| (format!("refs/nostr/{id}"), *tip));
        self.refs.clone().into_iter().chain(proposals).collect()
    }

    fn state(&self, at: u64) -> VerifiedEvent {
        let hex = hex(&self.refs);
        let named: Vec<(&str, &str)> = hex.iter().map(|(name, oid)| (&**name, &**oid)).collect();
        self.repository.state(&self.repository.owner, at, &named, Some("main"))
    }
}

/// The first word of every line that a command prints.
async fn ids(home: &Home, args: &[&str]) -> BTreeSet<EventId> {
    let output = home.runs(args).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| line.split(' ').next().unwrap().parse().unwrap()).collect()
}

async fn exported(home: &Home) -> BTreeSet<EventId> {
    let file = home.path().join("export.jsonl");
    let output = home.runs(&["events", "export", &file.display().to_string()]).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = std::fs::read_to_string(file).unwrap();
    let events = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    events.map(|event| event["id"].as_str().unwrap().parse().unwrap()).collect()
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    entries.filter_map(|entry| Some(entry.ok()?.path())).collect()
}

/// Quarantines, and files that mean somebody is in the middle of something.
fn leftovers(root: &Path) -> Vec<PathBuf> {
    let own = root.join(".graspd");
    let mut found = [entries(&own.join("incoming")), entries(&own.join("tmp"))].concat();
    let mut todo = entries(root);
    while let Some(path) = todo.pop() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            todo.extend(entries(&path));
        } else if path.parent() == Some(root) && name == "graspd.lock" {
            // Its own, for as long as it runs.
        } else if name.ends_with(".lock") || name.starts_with("tmp_") || name.ends_with(".partial")
        {
            found.push(path);
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s31_kills_at_random_moments_of_two_hundred_hunts_lose_nothing() {
    let mut ordeal = Ordeal::begins(seed()).await;
    for round in 1..=ROUNDS {
        // Long fetches are cut in the middle; with short ones it hits what comes before and after.
        let (manner, moment_ms) = match round % 3 {
            0 => (Manner::Drip(100_000), 900),
            1 => (Manner::Honest, 500),
            _ => (Manner::Drip(30_000), 1_600),
        };
        ordeal.forge.behave(manner);
        ordeal.moves_on(round).await;
        for _ in 0..2 + ordeal.random.index(2) {
            ordeal.suffers(moment_ms).await;
        }
        ordeal.comes_to_rest().await;
    }
    ordeal.is_looked_over().await;
    eprintln!("{:?}", ordeal.told);
    let Told { hunts, kills, in_a_fetch, waited } = ordeal.told;
    assert!(hunts >= 200 && kills >= KILLS_MIN, "{hunts} hunts, {kills} kills");
    assert!(in_a_fetch >= 5 && waited > kills, "{in_a_fetch} hit a fetch, {waited} events waited");
}

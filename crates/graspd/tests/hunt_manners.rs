//! Forty repositories, and five servers that are said to have them: one has everything, one a part,
//! one is silent, one wants to be left alone, and one means no good. Everything is found, and none of
//! the five has a reason to complain.
#![allow(clippy::unwrap_used, reason = "the lints' exception for tests misses their helpers")]

mod common;
mod manners;
mod snare;
mod workshop;

use common::hosted::DOMAIN;
use common::mirrors::{announcement, holds, metric};
use common::{THEN, alice, home};
use grasp_core::{EventId, Kind, Oid, VerifiedEvent};
use grasp_testkit::forge::{Forge, Manner};
use grasp_testkit::{Author, Client, Draft, Random, Repository, Server, now, until};
use manners::{Watched, second_tries};
use serde_json::json;
use snare::Traps;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;
use workshop::{Refs, Story, Workshop, hex, noise};

const REPOSITORIES: usize = 40;
/// Of one owner, who comes first; the last repository is another's.
const OF_ONE: usize = REPOSITORIES - 1;
/// Those that somebody proposes something to.
const PROPOSED_TO: [usize; 5] = [0, 8, 16, 24, 32];
const TOPICS: usize = 8;
/// The server with a part of each has `main` and these.
const TOPICS_OF_A_PART: usize = 3;
const CONCURRENT_MAX: usize = 5;
const STARTS_MAX: usize = 120;
const WINDOW: Duration = Duration::from_secs(60);
const RETRY_AFTER_SECS: u64 = 2;
/// Two rounds of the server that has everything, and what ended at the same moment.
const TWO_ROUNDS: usize = 2 * CONCURRENT_MAX + 2;

/// Such that all of it is over soon; the limits under test are told in words.
const SETTINGS: [(&str, &str); 12] = [
    ("NGIT_SYNC_DOMAIN_RATE_LIMIT", "120"),
    ("NGIT_SYNC_DOMAIN_CONCURRENT", "5"),
    ("NGIT_DOMAIN_ALIASES", DOMAIN),
    ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
    ("NGIT_SYNC_HUNT_DELAY_SECS", "0"),
    // All of them live at one address.
    ("NGIT_SYNC_ADDRESS_RATE_LIMIT", "100000"),
    ("NGIT_SYNC_HEDGE_SECS", "2"),
    ("NGIT_SYNC_FETCH_SILENCE_SECS", "3"),
    ("NGIT_SYNC_FETCH_BYTES_MAX", "4194304"),
    ("NGIT_SYNC_HUNT_RETRY_MIN_SECS", "3"),
    ("NGIT_SYNC_HUNT_RETRY_MAX_SECS", "4"),
    ("NGIT_SYNC_HUNT_ABSENT_SECS", "1"),
];

/// A repository, what it should look like here, and what there is to say about it.
struct Project {
    repository: Repository,
    refs: Refs,
    announcement: VerifiedEvent,
    state: VerifiedEvent,
    proposal: Option<(VerifiedEvent, Oid)>,
}

/// The five, and the one where proposals are.
struct Village {
    complete: Watched,
    partial: Watched,
    silent: Watched,
    busy: Watched,
    hostile: Watched,
    own: Watched,
    shop: Workshop,
}

impl Village {
    async fn founded() -> Self {
        let since = Instant::now();
        let watched = |manner| Watched::start(since, manner);
        Self {
            // The good ones take their time, so that others have to wait.
            complete: watched(Manner::Drip(20_000)).await,
            partial: watched(Manner::Drip(40_000)).await,
            silent: watched(Manner::Stall).await,
            busy: watched(Manner::Status(429, Some(RETRY_AFTER_SECS))).await,
            hostile: watched(Manner::Honest).await,
            own: watched(Manner::Lacks).await,
            shop: Workshop::open().await,
        }
    }

    fn five(&self) -> [Watched; 5] {
        [&self.hostile, &self.partial, &self.silent, &self.busy, &self.complete].map(Watched::clone)
    }

    async fn settles(&self, number: usize) -> Project {
        let name = format!("project-{number}");
        let path = format!("{name}.git");
        let whole = story(number, TOPICS);
        let dir = self.shop.makes(&name, &whole).await;
        let part = story(number, TOPICS_OF_A_PART);
        let part = self.shop.makes(&format!("{name}-part"), &part).await;
        for watched in [&self.complete, &self.silent, &self.busy, &self.hostile] {
            watched.forge.serve(&path, &dir);
        }
        if number % 4 == 3 {
            self.hostile.forge.serve(&path, &part);
        }
        self.partial.forge.serve(&path, &part);
        let owner = Author::number(if number < OF_ONE { 1 } else { 2 });
        let repository = Repository::new(owner, &name);
        let refs = self.shop.refs(&dir).await;
        let mut clones: Vec<String> = self.five().iter().map(|it| it.forge.url(&path)).collect();
        clones.rotate_left(number % 5);
        clones.insert(0, repository.clone_url(DOMAIN));
        let announcement = announcement(&repository, &clones, &[format!("ws://{DOMAIN}")]);
        let state = signed(&repository, &refs);
        let proposal = match PROPOSED_TO.contains(&number) {
            true => Some(self.proposes(&repository, &path, whole).await),
            false => None,
        };
        Project { repository, refs, announcement, state, proposal }
    }

    /// Its commit is nowhere but where only the proposal says.
    async fn proposes(&self, to: &Repository, path: &str, story: Story) -> (VerifiedEvent, Oid) {
        let story = story.commit("proposal", Some("main"), "try-this", b"a proposal");
        let dir = self.shop.makes(&format!("fork-of-{path}"), &story).await;
        let tip = self.shop.refs(&dir).await["refs/heads/proposal"];
        self.own.forge.serve(path, &dir);
        let draft = Draft::new(Kind::PULL_REQUEST, now()).tag(&["a", &to.coordinate()]);
        let draft = draft.tag(&["c", &tip.to_hex()]).tag(&["clone", &self.own.forge.url(path)]);
        (alice().signs(draft), tip)
    }
}

fn story(number: usize, topics: usize) -> Story {
    let mut random = Random::seeded(number as u64);
    let main = Story::default().commit("main", None, "README", &noise(&mut random, 20_000));
    (0..topics).fold(main, |story, topic| {
        let name = format!("topic-{topic}");
        story.commit(&name, Some("main"), &name, format!("{number} {topic}").as_bytes())
    })
}

fn signed(repository: &Repository, refs: &Refs) -> VerifiedEvent {
    let hex = hex(refs);
    let named: Vec<(&str, &str)> = hex.iter().map(|(name, oid)| (&**name, &**oid)).collect();
    repository.state(&repository.owner, THEN, &named, Some("main"))
}

/// One trick after the other, each at least once shown to somebody.
async fn plays_tricks(forge: Arc<Forge>, tricks: Vec<Manner>, shown: Arc<AtomicUsize>) {
    for trick in tricks.iter().cycle() {
        forge.behave(trick.clone());
        let before = forge.log().len();
        while forge.log().len() == before {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        shown.fetch_add(1, Ordering::SeqCst);
    }
}

fn tricks(projects: &[Project], traps: &Traps) -> Vec<Manner> {
    let all = projects.iter().flat_map(|it| it.refs.values().copied()).collect();
    vec![
        Manner::Redirect(format!("http://127.0.0.1:{}", traps.port)),
        Manner::EndlessProgress,
        Manner::CorruptPack,
        Manner::Unrelated,
        Manner::Html,
        Manner::GzipBomb,
        Manner::LiesAboutRefs(all),
        Manner::EndlessPack,
    ]
}

/// All that was said is there before anybody looks for anything.
async fn starts(projects: &[Project]) -> Server {
    let home = home(&SETTINGS);
    let proposals = projects.iter().filter_map(|it| it.proposal.as_ref().map(|it| &it.0));
    let events = projects.iter().flat_map(|it| [&it.announcement, &it.state]).chain(proposals);
    home.imports(&events.cloned().collect::<Vec<_>>()).await;
    home.serve().await
}

/// The states in the order in which they are served.
async fn released(server: &Server, count: usize) -> Vec<EventId> {
    let mut client = Client::connect(&server.url()).await;
    let mut heard = client.subscribes("states", &[json!({"kinds": [30618]})]).await;
    let mut order = Vec::new();
    loop {
        let events = heard.drain(..).filter(|message| message[0] == "EVENT");
        let ids = events.map(|message| message[2]["id"].as_str().unwrap().parse().unwrap());
        order.extend(ids.collect::<Vec<EventId>>());
        if order.len() >= count {
            return order;
        }
        heard.push(client.heard().await);
    }
}

fn directory(server: &Server, of: &Repository) -> PathBuf {
    let owner = server.data_path().join("git").join(of.owner.key.to_npub());
    owner.join(format!("{}.git", of.identifier))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s35_forty_repositories_are_found_among_five_servers_without_a_burden_to_any() {
    let began = Instant::now();
    let village = Village::founded().await;
    let traps = Traps::set().await;
    let mut projects = Vec::new();
    for number in 0..REPOSITORIES {
        projects.push(village.settles(number).await);
    }
    eprintln!("ready after {:?}", began.elapsed());
    let shown = Arc::new(AtomicUsize::new(0));
    let tricks = tricks(&projects, &traps);
    let tricks_count = tricks.len();
    let evil = plays_tricks(Arc::clone(&village.hostile.forge), tricks, Arc::clone(&shown));
    let evil = tokio::spawn(evil);

    let server = starts(&projects).await;
    let order = released(&server, REPOSITORIES).await;
    eprintln!("all states are served after {:?}", began.elapsed());
    // Whoever still lacks something comes back until then.
    let all_seen = || async { shown.load(Ordering::SeqCst) >= tricks_count };
    until("every trick was seen", all_seen).await;
    village.own.forge.behave(Manner::Honest);
    let proposals = projects.iter().filter_map(|it| it.proposal.as_ref().map(|it| it.0.id));
    let proposals: Vec<EventId> = proposals.collect();
    until("the proposals are served", || holds(&server, &proposals)).await;
    eprintln!("all proposals are served after {:?}", began.elapsed());
    until("nothing is looked for", || async {
        metric(&server, "purgatory_sync_queue_size").await == 0
    })
    .await;
    evil.abort();

    is_polite(&village);
    let lone = projects[OF_ONE].state.id;
    let before = order.iter().position(|id| *id == lone).unwrap();
    eprintln!("{before} were served before the one of the other owner");
    assert!(before < TWO_ROUNDS, "{before} of the other owner's were served before");
    assert_eq!(traps.caught().await, 0, "nobody is led astray");
    is_all_here(&village, &server, &projects).await;
    eprintln!("over after {:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s35_what_one_server_may_not_be_asked_any_more_is_asked_of_another() {
    const STARTS_MAX: usize = 10;
    const REPOSITORIES: usize = 16;
    let (shop, since) = (Workshop::open().await, Instant::now());
    let quick = Watched::start(since, Manner::Honest).await;
    let slow = Watched::start(since, Manner::Drip(12_000)).await;
    let mut events = Vec::new();
    for number in 0..REPOSITORIES {
        let name = format!("project-{number}");
        let dir = shop.makes(&name, &story(number, 1)).await;
        let path = format!("{name}.git");
        let repository = Repository::new(Author::number(1), &name);
        let mut clones = vec![repository.clone_url(DOMAIN)];
        for watched in [&quick, &slow] {
            watched.forge.serve(&path, &dir);
            clones.push(watched.forge.url(&path));
        }
        events.push(announcement(&repository, &clones, &[format!("ws://{DOMAIN}")]));
        events.push(signed(&repository, &shop.refs(&dir).await));
    }
    let mut home = home(&SETTINGS);
    home.set("NGIT_SYNC_DOMAIN_RATE_LIMIT", &STARTS_MAX.to_string());
    // Whoever asks two has none to spare.
    home.set("NGIT_SYNC_HEDGE_SECS", "60");
    home.imports(&events).await;
    let server = home.serve().await;
    let ids: Vec<EventId> = events.iter().map(|event| event.id).collect();
    until("all is served", || holds(&server, &ids)).await;
    assert_eq!(quick.requests(), STARTS_MAX, "as much as it may be asked");
    assert!(slow.requests() <= STARTS_MAX, "{} requests", slow.requests());
}

/// From what the five wrote down.
fn is_polite(village: &Village) {
    let five = village.five();
    for (number, watched) in five.iter().enumerate() {
        let (concurrent, starts) = (watched.concurrent_max(), watched.starts_in_any(WINDOW));
        let (visits, requests) = (watched.visits().len(), watched.requests());
        eprintln!(
            "forge {number}: {visits} visits, {requests} requests, {concurrent} at once \
             (as it counts {}), {starts} in a minute",
            watched.forge.concurrent_max()
        );
        assert!((1..=CONCURRENT_MAX).contains(&concurrent), "forge {number}: {concurrent} at once");
        assert!(starts <= STARTS_MAX, "forge {number}: {starts} in a minute");
    }
    // Nobody starts between the first answer and the moment it names.
    let left_alone = Duration::from_secs(RETRY_AFTER_SECS);
    let burst = village.busy.starts_in_any(left_alone);
    assert!(burst <= CONCURRENT_MAX, "{burst} while it wanted to be left alone");
    let mut seconds = second_tries(&five, std::slice::from_ref(&village.own));
    // Pull requests have slots of their own, so they wait for no state of another repository.
    let of_proposal = |it: &String| {
        PROPOSED_TO.iter().any(|number| it.contains(&format!("{{ path: \"project-{number}.git\"")))
    };
    seconds.unfair.retain(|it| !of_proposal(it));
    eprintln!("{} second tries, {} before a first", seconds.count, seconds.before_a_first);
    assert!(seconds.count > 0 && seconds.unfair.is_empty(), "{seconds:?}");
}

async fn is_all_here(village: &Village, server: &Server, projects: &[Project]) {
    for project in projects {
        let url = project.repository.clone_url(&server.address);
        let mut expected = project.refs.clone();
        if let Some((event, tip)) = &project.proposal {
            expected.insert(format!("refs/nostr/{}", event.id.to_hex()), *tip);
        }
        assert_eq!(village.shop.clones(&url).await, expected, "{url}");
        village.shop.inspects(&directory(server, &project.repository)).await;
    }
    let incoming = server.data_path().join("git/.graspd/incoming");
    until("nothing is on its way", || async {
        std::fs::read_dir(&incoming).map_or(true, |mut it| it.next().is_none())
    })
    .await;
}

//! What strangers' events make this server do to others, and what slow hosts of strangers do to it:
//! connections to one address are limited for all events that name it, and served repositories are fetched on.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::hosted::{DOMAIN, MAIN};
use common::mirrors::{announcement, holds};
use common::{THEN, home};
use grasp_core::{Kind, Oid, PubKey, RelayUrl, RepoId, Time, VerifiedEvent};
use grasp_engine::hunt::{
    Brought, FamilyId, Hunt, HuntAction, HuntInput, HuntSettings, JobEnd, Lack, Outcome, Source,
};
use grasp_engine::{Action, Engine, Input, Level, Loss, Settings};
use grasp_testkit::{
    Author, Client, Draft, Forge, Git, Repository, Server, WorkTree, http, now, until,
};
use graspd::outbound::{StartKind, StartLimits, Starts, Until};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Instant, sleep};

const MINUTE: Duration = Duration::from_secs(60);
const STARTS_MAX: usize = 300;
const ANNOUNCEMENTS: u32 = 1_000;
const URLS_EACH: u32 = 20;

/// The most of these within any minute.
fn most_in_a_minute(times: &[Duration]) -> usize {
    let within = |at: usize| {
        let begin = times.get(at).copied().unwrap_or_default();
        times.iter().skip(at).take_while(|it| **it < begin + MINUTE).count()
    };
    (0..times.len()).map(within).max().unwrap_or(0)
}

// ---- one address, in the engines with a driven clock

const START: Time = Time::from_secs(1_700_000_000);
const VICTIM: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 7));

/// Both engines, and an address that refuses every connection.
struct Victim {
    engine: Engine,
    hunt: Hunt,
    starts: Starts,
    now: Time,
    lacks: BTreeMap<FamilyId, Lack>,
    later: BTreeMap<(Time, u64), Answer>,
    serial: u64,
    connections: Vec<Duration>,
}

enum Answer {
    Relay(Input),
    Git(HuntInput),
}

impl Victim {
    fn new() -> Self {
        Self {
            engine: Engine::new(Settings::default(), 1),
            hunt: Hunt::new(HuntSettings::default(), 1),
            starts: Starts::new(StartLimits::default()),
            now: START,
            lacks: BTreeMap::new(),
            later: BTreeMap::new(),
            serial: 0,
            connections: Vec::new(),
        }
    }

    /// A served repository whose announcement names so many relays and git servers there.
    fn announced(&mut self, n: u32) {
        let mut key = [0; 32];
        key[..4].copy_from_slice(&n.to_be_bytes());
        let owner = PubKey::from_bytes(key);
        let identifier: grasp_core::Identifier = "repo".parse().unwrap();
        let repo = RepoId { owner, identifier: identifier.clone() };
        let host = |i: u32| format!("h{}.victim.example:{}", n % 50, 7_000 + i);
        let relay = |i: u32| format!("wss://{}/{n}", host(i)).parse::<RelayUrl>().unwrap();
        let relays = (0..URLS_EACH).map(relay).collect();
        let level = Level::Full;
        let serial = u64::from(n) + 1;
        self.engine.handle(Input::Announced { repo, relays, level, serial }, self.now);
        let source = |i: u32| {
            let url = format!("https://{}/{n}.git", host(i)).parse().unwrap();
            Source { url, covers: None, proposed: false }
        };
        let family = FamilyId { owner, identifier };
        let mut oid = [0; 20];
        oid[..4].copy_from_slice(&n.to_be_bytes());
        let lack = Lack {
            wants: BTreeSet::from([Oid::from_bytes(oid)]),
            sources: (0..URLS_EACH).map(source).collect(),
            held: true,
            ..Lack::default()
        };
        self.lacks.insert(family.clone(), lack);
        let (brought, since) = (Brought::BySync, self.now);
        self.hunt.handle(HuntInput::Held { family, brought, since }, self.now);
    }

    fn connects(&mut self, kind: StartKind) -> Result<(), Time> {
        self.starts.take(VICTIM, kind, self.now).map_err(|Until(until)| until)?;
        let at = self.now.since(START);
        self.connections.extend(std::iter::repeat_n(at, kind.connections()));
        Ok(())
    }

    fn answers(&mut self, answer: Answer) {
        self.serial += 1;
        self.later.insert((self.now.plus(Duration::from_millis(20)), self.serial), answer);
    }

    fn carries_out(&mut self) {
        loop {
            if let Some(action) = self.engine.poll_action() {
                if let Action::Connect(relay) = action {
                    let why = match self.connects(StartKind::RelayDial) {
                        Ok(()) => Loss::Failed("refused".to_owned()),
                        Err(_) => Loss::Crowded,
                    };
                    self.answers(Answer::Relay(Input::Lost { relay, why }));
                }
            } else if let Some(action) = self.hunt.poll_action() {
                match action {
                    HuntAction::Look { family } => {
                        let lack = self.lacks.get(&family).unwrap().clone();
                        self.hunt.handle(HuntInput::Looked { family, lack }, self.now);
                    }
                    HuntAction::Fetch { job, .. } => {
                        let outcome = match self.connects(StartKind::GitRequest) {
                            Ok(()) => Outcome::Failed("refused".to_owned()),
                            Err(until) => Outcome::Crowded { until },
                        };
                        let (found, absent) = (BTreeSet::new(), BTreeSet::new());
                        let end = JobEnd { outcome, found, absent, bytes: 0 };
                        self.answers(Answer::Git(HuntInput::Ended { job, end }));
                    }
                    _ => {}
                }
            } else {
                return;
            }
        }
    }

    fn lives(&mut self, time: Duration) {
        let end = self.now.plus(time);
        loop {
            self.carries_out();
            let engines = [self.engine.next_deadline(), self.hunt.next_deadline()];
            let wakes = engines.into_iter().flatten().map(|(at, _)| at);
            let answer = self.later.keys().next().map(|(at, _)| *at);
            let Some(at) = wakes.chain(answer).min().filter(|at| *at <= end) else { return };
            self.now = self.now.max(at);
            while let Some(first) = self.later.first_entry()
                && first.key().0 <= self.now
            {
                match first.remove() {
                    Answer::Relay(input) => self.engine.handle(input, self.now),
                    Answer::Git(input) => self.hunt.handle(input, self.now),
                }
            }
            self.engine.handle_deadline(self.now);
            self.hunt.handle_deadline(self.now);
        }
    }
}

#[test]
fn an_address_named_by_a_thousand_announcements_gets_300_connections_a_minute_in_the_engines() {
    let mut victim = Victim::new();
    for n in 0..ANNOUNCEMENTS {
        victim.announced(n);
    }
    victim.engine.handle(Input::Replayed, victim.now);
    victim.lives(10 * MINUTE);
    let most = most_in_a_minute(&victim.connections);
    println!("{} connections in 10 minutes, at most {most} in a minute", victim.connections.len());
    assert!((STARTS_MAX / 2..=STARTS_MAX).contains(&most), "{most}");
}

// ---- one address, with sockets

/// Many ports of one address, where every connection is counted and closed.
async fn victim_ports(count: usize) -> (Vec<u16>, Arc<parking_lot::Mutex<Vec<Duration>>>) {
    let began = Instant::now();
    let counted = Arc::<parking_lot::Mutex<Vec<Duration>>>::default();
    let mut ports = Vec::new();
    for _ in 0..count {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        ports.push(listener.local_addr().unwrap().port());
        let counted = Arc::clone(&counted);
        tokio::spawn(async move {
            while let Ok((_, _)) = listener.accept().await {
                counted.lock().push(began.elapsed());
            }
        });
    }
    (ports, counted)
}

#[tokio::test]
async fn an_address_named_by_a_thousand_announcements_gets_300_connections_a_minute() {
    let (ports, counted) = victim_ports(60).await;
    let home =
        home(&[("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"), ("NGIT_DOMAIN_ALIASES", DOMAIN)]);
    let mut events = Vec::new();
    for n in 0..ANNOUNCEMENTS {
        let repository = Repository::new(Author::number(1 + u64::from(n % 40)), &format!("r{n}"));
        let port = |i: u32| ports.get(((n + 3 * i) as usize) % ports.len()).copied().unwrap();
        let relay = |i: u32| format!("ws://127.0.0.1:{}/{n}", port(i));
        let clone = |i: u32| format!("http://127.0.0.1:{}/{n}.git", port(i));
        let own = [repository.clone_url(DOMAIN)];
        let clones: Vec<String> = own.into_iter().chain((0..URLS_EACH).map(clone)).collect();
        let here = [format!("ws://{DOMAIN}")];
        let relays: Vec<String> = here.into_iter().chain((0..URLS_EACH).map(relay)).collect();
        events.push(announcement(&repository, &clones, &relays));
    }
    home.imports(&events).await;
    let _server = home.serve().await;
    sleep(MINUTE + Duration::from_secs(2)).await;
    let times = counted.lock().clone();
    let most = most_in_a_minute(&times);
    println!("{} connections, at most {most} in a minute", times.len());
    assert!((STARTS_MAX / 3..=STARTS_MAX).contains(&most), "{most}");
}

// ---- slow hosts

/// A git server that answers a fetch with a progress packet each second, and never with a pack.
async fn chatters(mut stream: TcpStream) -> std::io::Result<()> {
    let mut request = [0; 4_096];
    let _ = stream.read(&mut request).await?;
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    chunk(&mut stream, b"000dpackfile\n").await?;
    loop {
        let words = format!("\u{2}{:<294}\n", "Counting objects");
        chunk(&mut stream, format!("{:04x}{words}", words.len() + 4).as_bytes()).await?;
        sleep(Duration::from_secs(1)).await;
    }
}

async fn chunk(stream: &mut TcpStream, bytes: &[u8]) -> std::io::Result<()> {
    stream.write_all(format!("{:x}\r\n", bytes.len()).as_bytes()).await?;
    stream.write_all(bytes).await?;
    stream.write_all(b"\r\n").await
}

async fn slow_host() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(chatters(stream));
        }
    });
    format!("http://{address}")
}

/// A repository on an honest git server, and this server that serves it.
struct Honest {
    repository: Repository,
    tree: WorkTree,
    forge: Forge,
}

impl Honest {
    async fn new(number: u64, name: &str) -> Self {
        let tree = WorkTree::init(&Git::any()).await;
        tree.git(&["symbolic-ref", "HEAD", MAIN]).await;
        let repository = Repository::new(Author::number(number), name);
        Self { repository, tree, forge: Forge::start().await }
    }

    async fn is_announced(&self, client: &mut Client) {
        let clones = [self.repository.clone_url(DOMAIN), self.forge.url("r.git")];
        publish(client, &announcement(&self.repository, &clones, &[format!("ws://{DOMAIN}")]))
            .await;
    }

    /// A new commit, and a state that names it.
    async fn signs(&self, client: &mut Client, at: u64) -> VerifiedEvent {
        let tip = self.tree.commit("README", &at.to_string()).await;
        self.forge.mirrors("r.git", &self.tree).await;
        let owner = &self.repository.owner;
        let state = self.repository.state(owner, at, &[(MAIN, &tip.to_hex())], Some("main"));
        publish(client, &state).await;
        state
    }
}

async fn publish(client: &mut Client, event: &VerifiedEvent) {
    let answer = client.publishes(event).await;
    assert!(answer.ok, "{answer:?}");
}

async fn served(server: &Server, event: &VerifiedEvent) {
    let ids = [event.id];
    until("the state is served", || holds(server, &ids)).await;
}

/// A commit that no repository has.
fn invented(n: u64) -> String {
    format!("{n:040x}")
}

#[tokio::test]
async fn a_hundred_slow_hosts_of_a_hundred_keys_do_not_delay_served_repositories() {
    let server = home(&[
        ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
        ("NGIT_SYNC_HUNT_DELAY_SECS", "0"),
        // All hosts of this test share one address, so its limit of starts would count slow and honest ones together.
        ("NGIT_SYNC_ADDRESS_RATE_LIMIT", "100000"),
        ("NGIT_DOMAIN_ALIASES", DOMAIN),
    ])
    .serve()
    .await;
    let mut client = Client::connect(&server.url()).await;
    let (one, other) = (Honest::new(1, "one").await, Honest::new(2, "other").await);
    for honest in [&one, &other] {
        honest.is_announced(&mut client).await;
        let state = honest.signs(&mut client, THEN).await;
        served(&server, &state).await;
    }
    for n in 0..100 {
        let (key, host) = (Author::number(1_000 + n), slow_host().await);
        let draft = Draft::new(Kind::PULL_REQUEST, now()).tag(&["a", &one.repository.coordinate()]);
        let draft = draft.tag(&["c", &invented(1 + n)]).tag(&["clone", &format!("{host}/pr.git")]);
        publish(&mut client, &key.signs(draft)).await;
        let repository = Repository::new(key, "slow");
        let clones = [repository.clone_url(DOMAIN), format!("{host}/slow.git")];
        let relays = [format!("ws://{DOMAIN}")];
        publish(&mut client, &announcement(&repository, &clones, &relays)).await;
        let tip = invented(1_000 + n);
        let state = repository.state(&repository.owner, THEN, &[(MAIN, &tip)], Some("main"));
        publish(&mut client, &state).await;
    }
    until("the slots of unknown owners are full for a while", || slots_are_full(&server)).await;
    for (honest, name) in [(&one, "the repository with the pull requests"), (&other, "another")] {
        let state = honest.signs(&mut client, THEN + 1).await;
        let signed = Instant::now();
        served(&server, &state).await;
        println!("{name}: served after {:?}", signed.elapsed());
        assert!(signed.elapsed() < Duration::from_secs(10), "{name}: {:?}", signed.elapsed());
    }
}

async fn slots_are_full(server: &Server) -> bool {
    let page = http("GET", &format!("{}/api/v1/status", server.address), &[]).await;
    let status: Value = serde_json::from_str(&page.body).unwrap_or_default();
    let problems = status.get("problems").and_then(Value::as_array).cloned().unwrap_or_default();
    let is_it =
        |it: &Value| it.as_str().is_some_and(|it| it.contains("all fetch slots for owners"));
    problems.iter().any(is_it)
}

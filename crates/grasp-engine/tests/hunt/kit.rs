//! A hunt on a bench: families that lack something, servers that have it or not, and a shell that
//! carries out what the hunt says. Times are milliseconds since the story began.

use crate::watch::Watch;
use grasp_core::{CloneUrl, Domain, Oid, PubKey, Time};
use grasp_engine::hunt::{
    Brought, FamilyId, FamilyStanding, Hunt, HuntAction, HuntInput, HuntNews, HuntSettings,
    HuntView, Job, JobEnd, Lack, Outcome, Source,
};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub(crate) const START: Time = Time::from_secs(1_700_000_000);
pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3600);
/// How long a silent server is listened to (S-37); the shell decides that.
pub(crate) const SILENCE: Duration = Duration::from_secs(300);

/// How a server treats a fetch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Gives what it has.
    Answers,
    /// Never says anything.
    Stalls,
    /// Ends in this way.
    Ends(Outcome),
    /// Has no room for another for so long.
    Crowded(Duration),
    /// Takes what it has and then breaks off.
    BreaksOff,
    /// Sends so much at a time, again and again, and never ends.
    Drips(u64, Duration),
    /// The same, but nothing of it belongs to a pack.
    Chatters(u64, Duration),
}

#[derive(Debug, Clone)]
pub(crate) struct Server {
    pub(crate) has: BTreeSet<Oid>,
    pub(crate) manner: Manner,
    /// For each request.
    pub(crate) latency: Duration,
    /// That one fetch takes.
    pub(crate) requests: u32,
    pub(crate) bytes: u64,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Lacking {
    pub(crate) wants: BTreeSet<Oid>,
    pub(crate) sources: Vec<Source>,
    pub(crate) held: bool,
    pub(crate) proposed: BTreeSet<Oid>,
    pub(crate) standing: FamilyStanding,
}

#[derive(Debug, Clone)]
pub(crate) struct Open {
    pub(crate) family: FamilyId,
    pub(crate) server: String,
    pub(crate) wants: BTreeSet<Oid>,
    pub(crate) bytes_max: u64,
    requests_left: u32,
    /// What has come, if it comes in drips.
    dripped: Option<u64>,
    /// It waits for leave.
    pub(crate) asks: bool,
}

/// A fetch that was started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fetched {
    pub(crate) at_ms: u64,
    pub(crate) family: FamilyId,
    pub(crate) from: String,
    pub(crate) url: CloneUrl,
    pub(crate) wants: BTreeSet<Oid>,
    pub(crate) bytes_max: u64,
    /// Families for which something was being fetched at that moment.
    pub(crate) busy: BTreeSet<FamilyId>,
}

#[derive(Debug)]
enum Happening {
    Look(FamilyId, Lack),
    Step(Job),
    Drip(Job, (u64, u64), Duration),
    End(Job, Outcome),
}

pub(crate) struct Net {
    pub(crate) hunt: Hunt,
    pub(crate) now: Time,
    pub(crate) servers: BTreeMap<String, Server>,
    pub(crate) families: BTreeMap<FamilyId, Lacking>,
    /// What landed in our repositories.
    pub(crate) here: BTreeSet<Oid>,
    pub(crate) looking: BTreeSet<FamilyId>,
    pub(crate) jobs: BTreeMap<Job, Open>,
    pub(crate) fetches: Vec<Fetched>,
    pub(crate) looks: Vec<(u64, FamilyId)>,
    pub(crate) news: Vec<(u64, HuntNews)>,
    /// Answers to those who would only look.
    pub(crate) checks: Vec<(u64, Option<Time>)>,
    pub(crate) cancelled: Vec<Job>,
    /// Times at which the hunt was woken because it asked to be.
    pub(crate) wakes: Vec<u64>,
    pub(crate) look_takes: Duration,
    pub(crate) watch: Watch,
    happens: BTreeMap<(Time, u64), Happening>,
    serial: u64,
}

impl Net {
    pub(crate) fn new(settings: HuntSettings) -> Self {
        Self::seeded(settings, 1)
    }

    pub(crate) fn seeded(settings: HuntSettings, seed: u64) -> Self {
        Self {
            hunt: Hunt::new(settings.clone(), seed),
            now: START,
            servers: BTreeMap::new(),
            families: BTreeMap::new(),
            here: BTreeSet::new(),
            looking: BTreeSet::new(),
            jobs: BTreeMap::new(),
            fetches: Vec::new(),
            looks: Vec::new(),
            news: Vec::new(),
            checks: Vec::new(),
            cancelled: Vec::new(),
            wakes: Vec::new(),
            look_takes: Duration::ZERO,
            watch: Watch::new(settings),
            happens: BTreeMap::new(),
            serial: 0,
        }
    }

    /// A server that answers in 100 ms.
    pub(crate) fn server(&mut self, name: &str, has: &[u64]) -> &mut Server {
        let server = Server {
            has: oids(has),
            manner: Manner::Answers,
            latency: Duration::from_millis(100),
            requests: 1,
            bytes: 1_000,
        };
        self.servers.insert(name.to_owned(), server);
        self.servers.get_mut(name).unwrap()
    }

    /// A family of this name lacks these objects and lists these servers.
    pub(crate) fn lacks(&mut self, name: &str, wants: &[u64], servers: &[&str]) -> FamilyId {
        let id = family(name);
        let sources = servers.iter().map(|server| everything(url(server, name))).collect();
        let (wants, standing) = (oids(wants), FamilyStanding::Served);
        let lacking = Lacking { wants, sources, held: true, standing, ..Lacking::default() };
        self.families.insert(id.clone(), lacking);
        id
    }

    /// ... and one of its events begins to wait now.
    pub(crate) fn held(&mut self, name: &str, brought: Brought) {
        self.held_since(name, brought, self.now);
    }

    pub(crate) fn held_since(&mut self, name: &str, brought: Brought, since: Time) {
        self.says(HuntInput::Held { family: family(name), brought, since });
    }

    /// Lacks it, and that is known by sync.
    pub(crate) fn misses(&mut self, name: &str, wants: &[u64], servers: &[&str]) {
        self.lacks(name, wants, servers);
        self.held(name, Brought::BySync);
    }

    pub(crate) fn says(&mut self, input: HuntInput) {
        self.watch.hears(&input, self.now);
        self.hunt.handle(input, self.now);
        self.carry_out();
    }

    pub(crate) fn view(&self, name: &str) -> Option<HuntView> {
        self.hunt.view(&family(name))
    }

    pub(crate) fn at_ms(&self) -> u64 {
        self.now.0.saturating_sub(START.0)
    }

    pub(crate) fn elapse(&mut self, time: Duration) {
        let end = self.now.plus(time);
        while self.step(end) {}
    }

    pub(crate) fn elapse_to(&mut self, at_ms: u64) {
        self.elapse(Duration::from_millis(at_ms - self.at_ms()));
    }

    /// The next thing that happens until then, if anything does.
    pub(crate) fn step(&mut self, end: Time) -> bool {
        let happens = self.happens.keys().next().map(|(at, _)| *at);
        let wakes = self.hunt.next_deadline().map(|(at, _)| at.max(self.now));
        let Some(at) = happens.into_iter().chain(wakes).min().filter(|at| *at <= end) else {
            self.now = end;
            return false;
        };
        self.now = at;
        if happens == Some(at) {
            let ((..), happening) = self.happens.pop_first().unwrap();
            self.happened(happening);
        } else {
            self.wakes.push(self.at_ms());
            self.hunt.handle_deadline(self.now);
            self.carry_out();
        }
        true
    }

    /// Whatever drips ends.
    pub(crate) fn stops_dripping(&mut self) {
        let drips = |(job, open): (&Job, &Open)| open.dripped.map(|_| *job);
        for job in self.jobs.iter().filter_map(drips).collect::<Vec<Job>>() {
            let broken = Outcome::Failed("broke off".to_owned());
            self.later(SECOND, Happening::End(job, broken));
        }
    }

    /// Everything that was fetched, as (ms, server).
    pub(crate) fn asked(&self) -> Vec<(u64, &str)> {
        self.fetches.iter().map(|it| (it.at_ms, it.from.as_str())).collect()
    }

    pub(crate) fn look_times(&self) -> Vec<u64> {
        self.looks.iter().map(|(at, _)| *at).collect()
    }

    pub(crate) fn told(&self, wanted: impl Fn(&HuntNews) -> bool) -> usize {
        self.news.iter().filter(|(_, news)| wanted(news)).count()
    }

    pub(crate) fn is_complete(&self, name: &str) -> bool {
        let lacks = self.families.get(&family(name)).unwrap();
        lacks.wants.is_subset(&self.here) && self.view(name).is_none()
    }

    fn carry_out(&mut self) {
        while let Some(action) = self.hunt.poll_action() {
            self.watch.sees(&action, self.now);
            match action {
                HuntAction::Look { family } => {
                    self.looks.push((self.at_ms(), family.clone()));
                    assert!(self.looking.insert(family.clone()), "one look at a time");
                    let lack = self.lack(&family);
                    self.later(self.look_takes, Happening::Look(family, lack));
                }
                HuntAction::Fetch { job, family, url, wants, bytes_max } => {
                    assert!(!wants.is_empty(), "nothing is asked for");
                    let from = server_of(&url);
                    let server = self.servers.get(&from).unwrap();
                    self.jobs.insert(
                        job,
                        Open {
                            family: family.clone(),
                            server: from.clone(),
                            wants: wants.clone(),
                            bytes_max,
                            requests_left: server.requests - 1,
                            dripped: None,
                            asks: false,
                        },
                    );
                    let (at_ms, busy) = (self.at_ms(), self.busy());
                    let fetch = Fetched { at_ms, family, from, url, wants, bytes_max, busy };
                    self.fetches.push(fetch);
                    self.answer_request(job);
                }
                HuntAction::MayRequest { job } => {
                    let open = self.jobs.get_mut(&job).unwrap();
                    assert!(open.asks, "leave nobody asked for");
                    open.asks = false;
                    open.requests_left -= 1;
                    self.answer_request(job);
                }
                HuntAction::Cancel { job } => {
                    self.cancelled.push(job);
                    self.later(Duration::from_millis(5), Happening::End(job, Outcome::Cancelled));
                }
                HuntAction::Checks { ticket, not_before } => {
                    self.checks.push((ticket, not_before));
                }
                HuntAction::Tell(news) => self.news.push((self.at_ms(), news)),
            }
        }
    }

    fn answer_request(&mut self, job: Job) {
        let open = self.jobs.get(&job).unwrap();
        let server = self.servers.get(&open.server).unwrap();
        let (wait, manner) = (server.latency, server.manner.clone());
        match manner {
            Manner::Stalls => {
                let silent = Outcome::Failed("silent for five minutes".to_owned());
                self.later(SILENCE, Happening::End(job, silent));
            }
            Manner::Ends(outcome) => self.later(wait, Happening::End(job, outcome)),
            Manner::Crowded(time) => {
                let until = self.now.plus(time);
                self.later(Duration::ZERO, Happening::End(job, Outcome::Crowded { until }));
            }
            Manner::BreaksOff => {
                self.later(wait, Happening::End(job, Outcome::Failed("broke off".to_owned())));
            }
            Manner::Answers => self.later(wait, Happening::Step(job)),
            Manner::Drips(bytes, every) => {
                self.jobs.get_mut(&job).unwrap().dripped = Some(0);
                self.later(every, Happening::Drip(job, (bytes, bytes), every));
            }
            Manner::Chatters(bytes, every) => {
                self.jobs.get_mut(&job).unwrap().dripped = Some(0);
                self.later(every, Happening::Drip(job, (bytes, 0), every));
            }
        }
    }

    fn happened(&mut self, happening: Happening) {
        match happening {
            Happening::Look(family, lack) => {
                self.looking.remove(&family);
                self.says(HuntInput::Looked { family, lack });
            }
            Happening::Step(job) => {
                let Some(open) = self.jobs.get_mut(&job) else { return };
                match open.requests_left {
                    0 => self.happened(Happening::End(job, Outcome::Answered)),
                    _ => {
                        open.asks = true;
                        self.says(HuntInput::WantsRequest { job });
                    }
                }
            }
            Happening::Drip(job, (bytes, pack_bytes), every) => {
                let Some(open) = self.jobs.get_mut(&job) else { return };
                let dripped = open.dripped.unwrap_or(0) + bytes;
                open.dripped = Some(dripped);
                match dripped > open.bytes_max {
                    true => self.happened(Happening::End(job, Outcome::TooLarge)),
                    false => {
                        self.says(HuntInput::Received { job, bytes, pack_bytes });
                        self.later(every, Happening::Drip(job, (bytes, pack_bytes), every));
                    }
                }
            }
            Happening::End(job, mut outcome) => {
                let Some(open) = self.jobs.remove(&job) else { return };
                let server = self.servers.get(&open.server).unwrap();
                let gives = outcome == Outcome::Answered || server.manner == Manner::BreaksOff;
                let (mut found, mut absent) = (BTreeSet::new(), BTreeSet::new());
                let mut bytes = 0;
                if gives && server.bytes > open.bytes_max {
                    (bytes, outcome) = (open.bytes_max, Outcome::TooLarge);
                } else if gives {
                    bytes = server.bytes;
                    found = open.wants.intersection(&server.has).copied().collect();
                    absent = open.wants.difference(&server.has).copied().collect();
                }
                self.here.extend(found.iter().copied());
                let half = bytes / 2;
                self.says(HuntInput::Received { job, bytes: half, pack_bytes: half });
                let bytes = bytes - half;
                self.says(HuntInput::Ended { job, end: JobEnd { outcome, found, absent, bytes } });
            }
        }
    }

    pub(crate) fn busy(&self) -> BTreeSet<FamilyId> {
        self.jobs.values().map(|job| job.family.clone()).collect()
    }

    fn lack(&self, family: &FamilyId) -> Lack {
        let Lacking { wants, sources, held, proposed, standing } =
            self.families.get(family).cloned().unwrap_or_default();
        let wants = wants.difference(&self.here).copied().collect();
        Lack { wants, sources, held, proposed, standing }
    }

    fn later(&mut self, wait: Duration, happening: Happening) {
        self.serial += 1;
        self.happens.insert((self.now.plus(wait), self.serial), happening);
    }
}

/// `alice/acme`, or `acme` of somebody of that name.
pub(crate) fn family(name: &str) -> FamilyId {
    let (owner, identifier) = name.split_once('/').unwrap_or((name, name));
    let mut key = [7; 32];
    for (byte, letter) in key.iter_mut().zip(owner.bytes()) {
        *byte = letter;
    }
    FamilyId { owner: PubKey::from_bytes(key), identifier: identifier.parse().unwrap() }
}

pub(crate) fn url(server: &str, name: &str) -> CloneUrl {
    format!("https://{server}.example/{name}.git").parse().unwrap()
}

pub(crate) fn everything(url: CloneUrl) -> Source {
    Source { url, covers: None, proposed: false }
}

pub(crate) fn domain(server: &str) -> Domain {
    format!("{server}.example").parse().unwrap()
}

pub(crate) fn server_of(url: &CloneUrl) -> String {
    name_of(&url.domain())
}

pub(crate) fn name_of(domain: &Domain) -> String {
    domain.as_str().split('.').next().unwrap().to_owned()
}

pub(crate) fn oid(n: u64) -> Oid {
    let mut bytes = [0; 20];
    bytes[..8].copy_from_slice(&n.to_be_bytes());
    Oid::from_bytes(bytes)
}

pub(crate) fn oids(numbers: &[u64]) -> BTreeSet<Oid> {
    numbers.iter().copied().map(oid).collect()
}

pub(crate) fn slow_down(retry_after: Option<Duration>) -> Manner {
    Manner::Ends(Outcome::SlowDown { retry_after })
}

pub(crate) fn fails() -> Manner {
    Manner::Ends(Outcome::Failed("connection refused".to_owned()))
}

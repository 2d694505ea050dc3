//! A place for repositories with everything a fetch needs, and somebody who takes what it brings.
#![allow(dead_code, reason = "each file of tests needs its own part of this")]

use grasp_core::{Oid, PubKey, RepoId};
use grasp_engine::hunt::{JobEnd, Outcome};
use grasp_git::{
    DiskReserve, Git, GitLimits, Layout, MeasureFree, Objects, PackLimits, Quarantine, land,
};
use grasp_testkit::until;
use graspd::clock::Clock;
use graspd::fetch::{Desk, FetchSettings, Fetcher, Part, Task};
use graspd::outbound::{CallLimits, Caller, DialLimits, Dialer, Instance, Rule, Silence};
use std::collections::BTreeSet;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

pub(crate) const MIB: u64 = 1 << 20;

pub(crate) struct Place {
    pub(crate) layout: Layout,
    pub(crate) instance: Instance,
    pub(crate) fetcher: Fetcher,
    pub(crate) git: Git,
    caller: Caller,
    home: TempDir,
}

impl Place {
    pub(crate) async fn new() -> Self {
        Self::with(CallLimits::default(), FetchSettings::default()).await
    }

    /// One that gives up on silence soon.
    pub(crate) async fn hasty() -> Self {
        let silence = Silence { span: Duration::from_secs(2), ..Silence::default() };
        let limits = CallLimits { silence, ..CallLimits::default() };
        Self::with(limits, FetchSettings::default()).await
    }

    pub(crate) async fn with(limits: CallLimits, settings: FetchSettings) -> Self {
        let home = tempfile::tempdir().unwrap();
        let layout = Layout::new(home.path().join("git data"));
        layout.prepare().unwrap();
        let program = grasp_testkit::Git::any().binary;
        let git = Git::find(&program, &layout, GitLimits::default()).await.unwrap();
        let instance = Instance::random().unwrap();
        let dialer = Dialer::new(instance.clone(), DialLimits::default()).unwrap();
        let caller = Caller::new(dialer, Arc::new(Clock::default()), limits);
        let fetcher = Fetcher::new(caller.clone(), layout.clone(), git.clone(), settings);
        Self { layout, instance, fetcher, git, caller, home }
    }

    /// From now on this is what the disk has left, and that the least it may have.
    pub(crate) fn measures(&mut self, free: MeasureFree, reserve_bytes: u64) {
        let disk = DiskReserve::measured_by(free, self.layout.root(), reserve_bytes);
        let (caller, git) = (self.caller.clone(), self.git.clone().with_disk_reserve(disk));
        let settings = FetchSettings::default();
        self.fetcher = Fetcher::new(caller, self.layout.clone(), git, settings);
    }

    pub(crate) fn desk(&self) -> Counter<'_> {
        Counter {
            place: self,
            leaves: usize::MAX,
            asked: 0,
            brought: vec![],
            steps_left: usize::MAX,
            steps: vec![],
            received: 0,
        }
    }

    /// With leave for whatever it takes, and landing what it brings.
    pub(crate) async fn fetch(&self, task: &Task) -> JobEnd {
        self.fetcher.fetch(task, &mut self.desk()).await
    }

    pub(crate) fn has(&self, repo: &RepoId, oid: &Oid) -> bool {
        let dir = self.layout.repository(repo);
        dir.is_dir() && Objects::open(&dir).unwrap().contains(oid)
    }

    /// Nothing that any object refers to is missing, and everything is what it says.
    pub(crate) fn is_sound(&self, repo: &RepoId) -> bool {
        let mut git = Command::new(grasp_testkit::Git::any().binary);
        git.arg("--git-dir").arg(self.layout.repository(repo)).args(["fsck", "--full", "--strict"]);
        git.output().unwrap().status.success()
    }

    /// Quarantines go on a thread of their own.
    pub(crate) async fn leaves_nothing_behind(&self) {
        let incoming = self.layout.incoming();
        let is_empty = || async { std::fs::read_dir(&incoming).unwrap().next().is_none() };
        until("no quarantine is left", is_empty).await;
    }
}

pub(crate) fn acme() -> RepoId {
    repo(1)
}

pub(crate) fn repo(owner: u8) -> RepoId {
    let owner = PubKey::from_bytes([owner; 32]);
    RepoId { owner, identifier: "acme".parse().unwrap() }
}

pub(crate) fn part(wants: &[Oid]) -> Part {
    Part {
        to: acme(),
        wants: wants.iter().copied().collect(),
        commits: BTreeSet::new(),
        limits: PackLimits::push(64 * MIB),
        haves: Vec::new(),
        whole: false,
        may_step: false,
        is_resuming: false,
        tags: Vec::new(),
    }
}

pub(crate) fn task(url: &str, parts: Vec<Part>) -> Task {
    let url = url.parse().unwrap();
    Task { url, rule: Rule::Operator, parts, bytes_max: 64 * MIB, turn: 0 }
}

pub(crate) fn set(oids: &[Oid]) -> BTreeSet<Oid> {
    oids.iter().copied().collect()
}

/// An id that nothing has.
pub(crate) fn nowhere(n: u8) -> Oid {
    Oid::from_bytes([n; 20])
}

/// Lands what it gets, and counts.
pub(crate) struct Counter<'a> {
    place: &'a Place,
    /// For how many further requests there is leave.
    pub(crate) leaves: usize,
    pub(crate) asked: usize,
    pub(crate) brought: Vec<(RepoId, BTreeSet<Oid>)>,
    /// How many steps it takes; then it takes no more.
    pub(crate) steps_left: usize,
    pub(crate) steps: Vec<Oid>,
    pub(crate) received: u64,
}

impl Desk for Counter<'_> {
    async fn may_request(&mut self) -> bool {
        self.asked += 1;
        self.asked <= self.leaves
    }

    fn received(&mut self, bytes: u64, _: u64) {
        self.received += bytes;
    }

    async fn brought(
        &mut self,
        part: &Part,
        mut quarantine: Quarantine,
        found: BTreeSet<Oid>,
    ) -> bool {
        self.brought.push((part.to.clone(), found));
        quarantine.keep();
        land(&self.place.layout, &part.to, quarantine.name()).unwrap();
        true
    }

    async fn stepped(&mut self, part: &Part, mut quarantine: Quarantine, tip: Oid) -> bool {
        if self.steps_left == 0 {
            return false;
        }
        self.steps_left -= 1;
        self.steps.push(tip);
        quarantine.keep();
        land(&self.place.layout, &part.to, quarantine.name()).unwrap();
        true
    }
}

/// The outcome with the host's port left out of its reason: each test server has another one.
pub(crate) fn without_port(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Failed(why) => Outcome::Failed(text_without_port(&why)),
        Outcome::Lacks(why) => Outcome::Lacks(text_without_port(&why)),
        Outcome::Unacceptable(why) => Outcome::Unacceptable(text_without_port(&why)),
        other => other,
    }
}

pub(crate) fn text_without_port(why: &str) -> String {
    let Some(rest) = why.strip_prefix("127.0.0.1:") else { return why.to_owned() };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    format!("127.0.0.1:{}", rest.trim_start_matches(':'))
}

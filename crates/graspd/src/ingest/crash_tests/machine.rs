//! A server without sockets that dies at a step of one's choice, and the disk that outlives it.

use super::super::{
    Asker, Bounds, Copied, Delivery, Fetched, Ingest, Offer, Outcome, Purpose, SecondChance,
};
use super::super::{SameSecondStates, Taken, UploadLimits, WantedLimits, Writer, holds};
use crate::clock::Clock;
use crate::feed::Wake;
use crate::host::{Chore, DiskUse, Host, InFlight};
use crate::hub::Hub;
use crate::metrics::Metrics;
use crate::repos::Repos;
use crate::sharing::{ObjectNeed, PackSharing};
use grasp_core::event::Forged;
use grasp_core::hold::{Hold, Patience, Phase};
use grasp_core::maintainers::MaintainerRule;
use grasp_core::policy::{Answer, Rules};
use grasp_core::proposal_share::ProposalLimits;
use grasp_core::push::{Command, Target};
use grasp_core::service::{Authority, Service};
use grasp_core::{Event, EventId, Oid, PubKey, RepoId, Time, VerifiedEvent};
use grasp_git::{DiskReserve, Git, GitLimits, Layout, PackLimits, Quarantine};
use grasp_relay::{Budgets, Limits, Loopback};
use grasp_store::{EventStore, LmdbStore, Options, Provenance, Usage};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{Receiver, channel};

pub(crate) const DOMAIN: &str = "git.example";
const MIB: u64 = 1 << 20;

/// What a crash leaves. Copies share nothing.
#[derive(Debug)]
pub(crate) struct Disk(TempDir);

impl Disk {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for root in ["events", "git"] {
            std::fs::create_dir(dir.path().join(root)).unwrap();
        }
        Self(dir)
    }

    pub(crate) fn duplicate(&self) -> Self {
        let twin = tempfile::tempdir().unwrap();
        let from = format!("{}/.", self.0.path().display());
        let copied = std::process::Command::new("cp").arg("-a").arg(from).arg(twin.path()).status();
        assert!(copied.unwrap().success());
        Self(twin)
    }

    pub(crate) fn layout(&self) -> Layout {
        Layout::new(self.0.path().join("git").canonicalize().unwrap())
    }

    pub(crate) fn boots(&self) -> Machine {
        self.boots_to_die_at(usize::MAX)
    }

    /// Does `steps` steps of releases and then nothing more.
    pub(crate) fn boots_to_die_at(&self, steps: usize) -> Machine {
        let clock = Arc::new(Clock::default());
        Machine::start(self, self.store(&Options::default()), steps, clock)
    }

    /// Boots while the wall clock is so far ahead.
    pub(crate) fn boots_ahead(&self, ahead_ms: i64) -> Machine {
        let clock = Arc::new(Clock::started_ahead(ahead_ms));
        Machine::start(self, self.store(&Options::default()), usize::MAX, clock)
    }

    /// Boots with a disk budget that is spent, but for what deletions may use.
    pub(crate) fn boots_full(&self) -> Machine {
        let used = self.store(&Options::default()).usage().unwrap().used_bytes;
        // A few pages more than what counts as full, so that transactions may grow.
        let budget_bytes = used * 100 / Usage::FULL_PERCENT;
        let store = self.store(&Options { budget_bytes, ..Options::default() });
        assert!(store.usage().unwrap().is_full());
        Machine::start(self, store, usize::MAX, Arc::new(Clock::default()))
    }

    fn store(&self, options: &Options) -> LmdbStore {
        LmdbStore::open(&self.0.path().join("events"), options).unwrap()
    }
}

pub(crate) struct Machine {
    pub(crate) store: Arc<dyn EventStore>,
    pub(crate) host: Arc<Host>,
    pub(crate) clock: Arc<Clock>,
    pub(crate) second_chance: Arc<SecondChance>,
    pub(crate) wake: Arc<Wake>,
    writer: Option<Writer>,
    running: Option<(Ingest, Vec<JoinHandle<()>>)>,
    chores: Receiver<Chore>,
    taken: Arc<AtomicUsize>,
    steps: Arc<AtomicUsize>,
    runtime: Runtime,
}

impl Machine {
    fn start(disk: &Disk, store: LmdbStore, steps: usize, clock: Arc<Clock>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let layout = disk.layout();
        layout.prepare().unwrap();
        let program = grasp_testkit::Git::any().binary;
        let git = runtime.block_on(Git::find(&program, &layout, GitLimits::default())).unwrap();
        let (send, chores) = channel(1_024);
        let taken = Arc::new(AtomicUsize::new(0));
        let steps = Arc::new(AtomicUsize::new(steps));
        let (counted, limit) = (Arc::clone(&taken), Arc::clone(&steps));
        let host = Arc::new(Host {
            repos: Arc::new(Repos::new(layout.clone())),
            layout,
            git,
            patience: Patience::default(),
            uploads: uploads(),
            pack: PackLimits::push(64 * MIB),
            proposal_pack: PackLimits::proposal(64 * MIB),
            disk: DiskReserve::unlimited(),
            git_used: DiskUse::default(),
            retention: Duration::from_secs(1),
            cleanup_every: Duration::from_secs(1),
            in_flight: InFlight::default(),
            fetching: InFlight::default(),
            upkeep: tokio::sync::Mutex::default(),
            wanted: WantedLimits::default(),
            same_second: SameSecondStates::default(),
            checkpoint: Box::new(move |_| {
                counted.fetch_add(1, Ordering::Relaxed) < limit.load(Ordering::Relaxed)
            }),
            chores: send,
        });
        let store: Arc<dyn EventStore> = Arc::new(store);
        let writer = writer(&store, &host, &clock);
        let (second_chance, wake) = (Arc::clone(&writer.second_chance), Arc::clone(&writer.wake));
        let writer = Some(writer);
        let running = None;
        Self {
            store,
            host,
            clock,
            second_chance,
            wake,
            writer,
            running,
            chores,
            taken,
            steps,
            runtime,
        }
    }

    /// False if it died of that.
    pub(crate) fn recovers(&mut self) -> bool {
        let recovered = self.writer.as_ref().unwrap().recover();
        assert!(recovered.is_ok() || self.is_dead(), "{recovered:?}");
        !self.is_dead()
    }

    /// What failed was not the power after all: from now on every step can be done.
    pub(crate) fn revives(&mut self) {
        self.steps.store(usize::MAX, Ordering::Relaxed);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.taken.load(Ordering::Relaxed) > self.steps.load(Ordering::Relaxed)
    }

    fn ingest(&mut self) -> Ingest {
        if let Some(writer) = self.writer.take() {
            self.running = Some(writer.start(1).unwrap());
        }
        self.running.as_ref().unwrap().0.clone()
    }

    pub(crate) fn publishes(&mut self, event: &VerifiedEvent) -> Answer {
        self.is_offered(event.event().clone(), Provenance::direct(Time(1))).unwrap()
    }

    /// Somebody brings an event, and it is dealt with together with all that follows from it.
    pub(crate) fn is_offered(&mut self, event: Event, from: Provenance) -> Result<Answer, Forged> {
        let heard = Arc::new(Heard::default());
        let (ingest, asker) = (self.ingest(), Arc::clone(&heard) as Arc<dyn Asker>);
        let offer = Offer { event: Box::new(event), from, ip: None, asker };
        self.runtime.block_on(async {
            ingest.offer(0, offer).await;
            heard.told.notified().await;
            ingest.extend(Vec::new()).await;
        });
        heard.answer.lock().take().unwrap()
    }

    /// All that can be waited for an event has been waited.
    pub(crate) fn gives_up(&mut self, event: &VerifiedEvent) {
        let over = Hold { since: Time(0), deadline: Time(0), phase: Phase::Asleep };
        self.store.write(&mut |txn| holds::set(txn, &event.id, &over)).unwrap();
        self.sweeps();
    }

    /// Pushes a pack with the commands for these refs, as they are to be afterwards.
    pub(crate) fn pushes(&mut self, it: &Push) -> Outcome {
        let quarantine = self.receives(&it.repo, &it.pack);
        let others = it.others.iter().map(|(repo, pack)| (repo.clone(), self.receives(repo, pack)));
        let others = others.collect();
        let shown = self.host.repos.shown(&it.repo).unwrap();
        let commands = it.refs.iter().map(|(name, new)| {
            let target = Target::parse(name);
            let old = target.as_ref().and_then(|target| shown.refs.get(target)).map(|it| it.oid);
            Command { name: name.as_str().into(), target, old, new: *new }
        });
        let commands = commands.collect();
        let (repo, from) = (it.repo.clone(), String::new());
        let delivery = Delivery { repo, commands, quarantine, bytes: 1, others, from };
        let ingest = self.ingest();
        self.runtime.block_on(ingest.land(delivery))
    }

    /// A hunt brings these objects for a repository; false if they were not taken.
    pub(crate) fn fetches(&mut self, to: &RepoId, pack: &[u8], purpose: Purpose) -> bool {
        let fetched =
            Fetched { to: to.clone(), purpose, quarantine: self.receives(to, pack), step: None };
        let ingest = self.ingest();
        self.runtime.block_on(ingest.fetched(fetched)) != Taken::No
    }

    /// These lack nothing, as somebody noticed.
    pub(crate) fn completes(&mut self, ids: &[EventId]) {
        let ingest = self.ingest();
        self.runtime.block_on(async {
            ingest.complete(ids.to_vec()).await;
            ingest.extend(Vec::new()).await;
        });
    }

    pub(crate) fn rules(&self) -> Rules {
        rules()
    }

    fn receives(&self, repo: &RepoId, pack: &[u8]) -> Quarantine {
        let quarantine = Quarantine::open(&self.host.layout, repo).unwrap();
        let receiving = async {
            quarantine.receive(&self.host.git, &self.host.pack, &mut &*pack).await.unwrap();
        };
        self.runtime.block_on(receiving);
        quarantine
    }

    /// A pack that is here when the power fails, and nothing else of its push.
    pub(crate) fn receives_and_forgets(&self, repo: &RepoId, pack: &[u8]) {
        self.receives(repo, pack).keep();
    }

    /// Lets time pass: what could not be finished is tried again.
    pub(crate) fn sweeps(&mut self) {
        let ingest = self.ingest();
        // The writer takes one thing after the other, so the second ends after the first.
        self.runtime.block_on(async {
            ingest.sweep().await;
            ingest.extend(Vec::new()).await;
        });
    }

    /// Does what the keeper does, until there is nothing left to do.
    pub(crate) fn does_chores(&mut self) {
        let ingest = self.ingest();
        while let Ok(chore) = self.chores.try_recv() {
            match chore {
                Chore::Discard(name) => grasp_git::discard(&self.host.layout, &name).unwrap(),
                Chore::Tidy(_) => {}
                Chore::Copy(it) => {
                    let from = self.host.repos.directory(&it.from);
                    let lacks = ObjectNeed { wants: it.wants, has: BTreeSet::new(), refs: 1 };
                    self.runtime.block_on(async {
                        let mut sharing = PackSharing::new(&self.host, &from);
                        let brought = sharing.bring(&it.to, lacks, &self.host.pack).await;
                        let (to, proposals, quarantine) = (it.to, it.proposals, brought.unwrap());
                        ingest.copied(Copied { to, quarantine, proposals }).await;
                        ingest.extend(Vec::new()).await;
                    });
                }
            }
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let Some((ingest, threads)) = self.running.take() else { return };
        drop(ingest);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

/// What somebody pushes; `None` deletes.
#[derive(Debug, Clone)]
pub(crate) struct Push {
    pub(crate) repo: RepoId,
    pub(crate) refs: Vec<(String, Option<Oid>)>,
    pub(crate) pack: Vec<u8>,
    /// The same for other owners.
    pub(crate) others: Vec<(RepoId, Vec<u8>)>,
}

#[derive(Default)]
struct Heard {
    answer: Mutex<Option<Result<Answer, Forged>>>,
    told: tokio::sync::Notify,
}

impl Asker for Heard {
    fn answer(&self, _: &EventId, answer: &Answer) {
        *self.answer.lock() = Some(Ok(answer.clone()));
        self.told.notify_one();
    }

    fn answer_forged(&self, _: &EventId, why: Forged) {
        *self.answer.lock() = Some(Err(why));
        self.told.notify_one();
    }
}

fn writer(store: &Arc<dyn EventStore>, host: &Arc<Host>, clock: &Arc<Clock>) -> Writer {
    Writer {
        store: Arc::clone(store),
        rules: Arc::new(rules()),
        bounds: Bounds {
            held_events_max: 1_000,
            held_bytes_max: 64 << 20,
            held_per_key_max: 500,
            aside_events_max: 100,
            aside_bytes_max: 1 << 20,
            burials_per_author_max: 100,
            proposals: ProposalLimits::default(),
        },
        budgets: Arc::new(Mutex::new(Budgets::new(Arc::new(Limits::default()), Loopback::Exempt))),
        host: Arc::clone(host),
        hub: Arc::new(Hub::default()),
        clock: Arc::clone(clock),
        metrics: Arc::new(Metrics::new().unwrap()),
        second_chance: Arc::default(),
        wake: Arc::default(),
    }
}

fn rules() -> Rules {
    Rules {
        service: Service::new(Authority::parse(DOMAIN).unwrap(), vec![], ""),
        maintainer_rule: MaintainerRule::Confirmed,
        repository_whitelist: vec![],
        repository_blacklist: vec![],
        event_blacklist: [].into(),
        respect_deletions: true,
        relay_key: PubKey::from_bytes([9; 32]),
        created_at_ahead_secs_max: 900,
        grasp_lists_max: 10,
    }
}

fn uploads() -> UploadLimits {
    UploadLimits {
        patience: Duration::from_secs(20 * 60),
        bytes_per_ip_max: MIB,
        bytes_per_repository_max: MIB,
        bytes_max: MIB,
        count_per_repository_max: 10,
    }
}

/// A git command that must succeed, in some bare repository.
pub(crate) fn git(dir: &Path, args: &[&str], input: &[u8]) -> Vec<u8> {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut git = Command::new(grasp_testkit::Git::any().binary);
    let envs = [
        ("GIT_CONFIG_NOSYSTEM", "1"),
        ("HOME", "/nonexistent"),
        ("GIT_AUTHOR_NAME", "A"),
        ("GIT_AUTHOR_EMAIL", "a@example.com"),
        ("GIT_AUTHOR_DATE", "1700000000 +0000"),
        ("GIT_COMMITTER_NAME", "A"),
        ("GIT_COMMITTER_EMAIL", "a@example.com"),
        ("GIT_COMMITTER_DATE", "1700000000 +0000"),
    ];
    git.env_clear().envs(envs).arg("--git-dir").arg(dir).args(args);
    git.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = git.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    output.stdout
}

//! The wiring: everything one running server consists of, put together on one page.

use crate::activity::{self, Activities};
use crate::clock::Clock;
use crate::config::{Backend, Config, ForwardingHeader};
use crate::errand::Desk;
use crate::feed::Wake;
use crate::host::Host;
use crate::http::address;
use crate::http::git::Turnstile;
use crate::http::live::Listeners;
use crate::hub::Hub;
use crate::hunt::HuntWatch;
use crate::ingest::{Bounds, Ingest, SecondChance, Writer, withdraw_blacklisted};
use crate::keeper;
use crate::log_table::LogWriter;
use crate::metrics::Metrics;
use crate::neg_pool::NegPool;
use crate::outbound::{Instance, SharedStarts, StartLimits};
use crate::readers::Readers;
use crate::report::{Identity, Reports, watch_problems};
use crate::sync::Watch;
use crate::web::{Readmes, Site};
use grasp_core::held_share::HeldUse;
use grasp_core::policy::Rules;
use grasp_core::proposal_share::ProposalLimits;
use grasp_core::{Kind, PubKey, Service, human_bytes};
use grasp_git::{DiskReserve, NoRoom};
use grasp_relay::info::{self, Info};
use grasp_relay::{Budgets, IpKey, Limits, Loopback, Rate, Refused};
use grasp_store::{EventStore, Space};
use hyper::HeaderMap;
use ipnet::IpNet;
use parking_lot::Mutex;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::rand::{GetRandomFlags, getrandom};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

#[derive(Debug)]
pub struct Node {
    pub service: Arc<Service>,
    pub rules: Arc<Rules>,
    pub name: String,
    pub description: String,
    /// The NIP-11 document.
    pub info: String,
    /// Tells this process from every other server.
    pub instance: Instance,
    pub limits: NodeLimits,
    pub trusted_proxies: Vec<IpNet>,
    pub forwarding_header: ForwardingHeader,
    pub metrics_enabled: bool,
    pub clock: Arc<Clock>,
    pub metrics: Arc<Metrics>,
    pub log: LogWriter,
    pub budgets: Arc<Mutex<Budgets>>,
    pub hub: Arc<Hub>,
    pub readers: Readers,
    /// Threads for long questions of our own, so that no client waits for them.
    pub explorers: Readers,
    /// And for reports: whoever looks at pages keeps no client of the relay waiting.
    pub tellers: Readers,
    pub ingest: Ingest,
    /// Refused events that may still be welcome.
    pub second_chance: Arc<SecondChance>,
    /// Rung whenever something was stored.
    pub wake: Arc<Wake>,
    pub host: Arc<Host>,
    /// Where events are stored; `None` if they are not kept.
    events_disk: Option<DiskReserve>,
    /// Who may fetch and push right now.
    pub turnstile: Turnstile,
    pub desk: Arc<Desk>,
    /// Connections and requests to each address, of sync and of the hunt together.
    pub outbound_starts: SharedStarts,
    /// A look at the sync engine, once it runs.
    pub sync: OnceLock<Watch>,
    /// A look at the hunt for git data, once it runs.
    pub hunt: OnceLock<HuntWatch>,
    /// A verdict about a peer that is older than this says nothing any more.
    pub verdict_age_max: Duration,
    pub reports: Reports,
    /// What happened lately.
    pub activity: Arc<Activities>,
    /// Those who listen to it.
    pub listeners: Listeners,
    pub site: Site,
    pub readmes: Readmes,
    /// Cancelled when the server begins to stop.
    pub closing: CancellationToken,
    pub tasks: TaskTracker,
    seats: Arc<Seats>,
    chairs: Arc<Seats>,
    started: Instant,
}

/// Limits the shell itself keeps; the conversation keeps its own.
#[derive(Debug)]
pub struct NodeLimits {
    pub relay: Arc<Limits>,
    pub outbox_bytes_max: usize,
    pub ping_after: Duration,
    pub idle_timeout: Duration,
    /// More sockets than this from one address are worth a look; nothing is refused for it.
    pub crowded_connections: u32,
    /// How many events may wait.
    pub held_table: HeldUse,
}

#[derive(Debug)]
pub enum Ready {
    Yes,
    No(String),
}

/// Totals for pages and metrics.
#[derive(Debug, Clone, Copy, Default)]
pub struct Figures {
    pub events: u64,
    pub repositories: u64,
    pub store_used_bytes: u64,
    pub store_budget_bytes: u64,
}

const READER_THREADS: usize = 3;
/// For questions of our own: comparisons, the feed, status. They may be long.
const EXPLORER_THREADS: usize = 2;
const TELLER_THREADS: usize = 2;
/// Copies, repackings and leftovers that may wait for their turn.
const CHORES_MAX: usize = 4_096;
/// Free disk space below which the next commits of the event store may fail.
const EVENTS_FREE_BYTES_MIN: u64 = 16 << 20;
const SWEEP_EVERY: Duration = Duration::from_secs(10);
const READY_TIMEOUT: Duration = Duration::from_secs(2);

impl Node {
    /// Starts all threads and tasks behind the port. The handles end once the node is dropped.
    pub async fn start(
        config: &Config,
        store: &Arc<dyn EventStore>,
        git_root: PathBuf,
        relay_key: PubKey,
    ) -> anyhow::Result<(Arc<Self>, Vec<JoinHandle<()>>)> {
        let relay = Arc::new(relay_limits(config));
        let rules = Arc::new(rules(config, relay_key));
        let clock = Arc::new(Clock::default());
        let withdrawn = withdraw_blacklisted(&**store, &rules, clock.wall())?;
        if withdrawn > 0 {
            tracing::info!(withdrawn, "blacklisted repositories are no longer served");
        }
        let metrics = Arc::new(Metrics::new()?);
        let starts_max = config.hunt.address_starts_max;
        let objected_for = config.hunt.settings.objected_for;
        let start_limits = StartLimits { starts_max, objected_for, ..StartLimits::default() };
        let outbound_starts = SharedStarts::new(start_limits, Arc::clone(&clock));
        metrics.care.blacklisted(withdrawn);
        let instance = Instance::random()?;
        let loopback = match config.trusted_proxies.is_empty() {
            true => Loopback::Exempt,
            false => Loopback::Counted,
        };
        let budgets = Arc::new(Mutex::new(Budgets::new(Arc::clone(&relay), loopback)));
        let (chores, inbox) = mpsc::channel(CHORES_MAX);
        let host = Arc::new(Host::open(config, git_root, chores).await?);
        let sync = &config.sync;
        let second_chance = Arc::new(SecondChance::new(sync.rejected_hot, sync.rejected_cold));
        let wake = Arc::new(Wake::default());
        let writer = |hub: &Arc<Hub>| Writer {
            store: Arc::clone(store),
            rules: Arc::clone(&rules),
            bounds: bounds(config),
            budgets: Arc::clone(&budgets),
            host: Arc::clone(&host),
            hub: Arc::clone(hub),
            clock: Arc::clone(&clock),
            metrics: Arc::clone(&metrics),
            second_chance: Arc::clone(&second_chance),
            wake: Arc::clone(&wake),
        };
        writer(&Arc::default()).recover()?;
        let hub = Arc::new(Hub::starting_at(store.read()?.last_serial()?));
        let (ingest, threads) = writer(&hub).start(verify_threads(config))?;
        let node = Arc::new(Self {
            service: Arc::new(config.service.clone()),
            info: info::document(&about(config, relay_key, &instance), &relay),
            instance,
            rules,
            name: config.relay_name.clone(),
            description: config.relay_description.clone(),
            desk: Arc::new(Desk {
                limits: Arc::clone(&relay),
                query_time_max: config.relay.query_budget,
                neg_items: NegPool::of(config.relay.negentropy.items_total_max),
            }),
            limits: NodeLimits {
                relay,
                outbox_bytes_max: config.relay.outbox_bytes_max,
                ping_after: config.connections.ping_after,
                idle_timeout: config.connections.idle_timeout,
                held_table: bounds(config).held_table(),
                crowded_connections: u32::try_from(config.metrics.connections_per_ip_suspicious)
                    .unwrap_or(u32::MAX),
            },
            trusted_proxies: config.trusted_proxies.clone(),
            forwarding_header: config.forwarding_header,
            metrics_enabled: config.metrics.enabled,
            clock,
            metrics,
            log: LogWriter::default(),
            budgets,
            hub,
            readers: Readers::start(store, "read", READER_THREADS)?,
            explorers: Readers::start(store, "explore", EXPLORER_THREADS)?,
            tellers: Readers::start(store, "report", TELLER_THREADS)?,
            ingest,
            second_chance,
            wake,
            turnstile: Turnstile::new(
                config.git.clone(),
                &host,
                config.metrics.busiest_repositories_max,
            ),
            host,
            outbound_starts,
            events_disk: (config.backend == Backend::Lmdb)
                .then(|| DiskReserve::new(&config.relay_data_path, EVENTS_FREE_BYTES_MIN)),
            sync: OnceLock::new(),
            hunt: OnceLock::new(),
            verdict_age_max: config.sync.verdict_age_max,
            reports: Reports::new(Identity::of(config)),
            activity: Arc::default(),
            listeners: Listeners::default(),
            site: Site {
                name: config.relay_name.clone(),
                base_path: config.service.base_path().to_owned(),
            },
            readmes: Readmes::default(),
            closing: CancellationToken::new(),
            tasks: TaskTracker::new(),
            seats: Seats::of(descriptors_for_sockets(config)),
            chairs: Seats::of(config.connections.connections_max.unwrap_or(usize::MAX)),
            started: Instant::now(),
        });
        node.tasks.spawn(keep_house(Arc::clone(&node)));
        node.tasks.spawn(activity::run(Arc::clone(&node)));
        node.tasks.spawn(keeper::run(Arc::clone(&node), inbox));
        node.tasks.spawn(keeper::watch(Arc::clone(&node)));
        node.tasks.spawn(watch_problems(Arc::clone(&node)));
        node.tasks.spawn(keeper::measure(Arc::clone(&node)));
        Ok((node, threads))
    }

    pub fn uptime(&self) -> Duration {
        self.started.elapsed()
    }

    pub async fn ready(&self) -> Ready {
        if self.closing.is_cancelled() {
            return Ready::No("the server is stopping".into());
        }
        if let Some(why) = self.full_disk() {
            return Ready::No(why);
        }
        let usage = self.readers.ask(|store| store.usage());
        match tokio::time::timeout(READY_TIMEOUT, usage).await {
            Ok(Ok(Ok(usage))) if usage.is_full() => Ready::No(format!(
                "the event store is full: {} of {} are used; raise NGIT_RELAY_DISK_BUDGET_BYTES \
                 or delete events",
                human_bytes(usage.used_bytes),
                human_bytes(usage.budget_bytes)
            )),
            Ok(Ok(Ok(_))) => Ready::Yes,
            Ok(Ok(Err(error))) => Ready::No(error.to_string()),
            _ => Ready::No("the event store does not answer".into()),
        }
    }

    /// What cannot be stored for want of disk space, with what to do.
    pub fn full_disk(&self) -> Option<String> {
        if let Some(NoRoom { free_bytes, reserve_bytes, .. }) = self.host.disk.shortage() {
            return Some(format!(
                "the disk of the git data has {} free, less than its reserve of {}, so pushes are \
                 refused; free some space, or lower NGIT_GIT_MIN_FREE_BYTES",
                human_bytes(free_bytes),
                human_bytes(reserve_bytes)
            ));
        }
        let NoRoom { free_bytes, .. } = self.events_disk.as_ref()?.shortage()?;
        Some(format!(
            "the disk of the event store has {} free, so events can soon not be stored; free some \
             space",
            human_bytes(free_bytes)
        ))
    }

    pub async fn figures(&self) -> Figures {
        let counted = self.readers.ask(|store| {
            let snapshot = store.read()?;
            let events = snapshot.events_in(Space::Served)?;
            let repositories = snapshot.events_of_kind(Space::Served, Kind::ANNOUNCEMENT)?;
            let usage = store.usage()?;
            Ok::<_, grasp_store::StoreError>(Figures {
                events,
                repositories,
                store_used_bytes: usage.used_bytes,
                store_budget_bytes: usage.budget_bytes,
            })
        });
        counted.await.ok().and_then(Result::ok).unwrap_or_default()
    }

    /// The address of the client that sent a request, which may have come through a proxy.
    pub fn client_address(&self, peer: IpAddr, headers: &HeaderMap) -> IpKey {
        address::client(peer, headers, self.forwarding_header, &self.trusted_proxies).into()
    }

    /// Room for one more socket, of whatever kind.
    pub fn seat(&self) -> Option<Seat> {
        Seats::take(&self.seats)
    }

    /// Room for one more WebSocket.
    pub fn chair(&self) -> Option<Chair> {
        let seat = Seats::take(&self.chairs)?;
        self.metrics.connections_active.inc();
        Some(Chair { metrics: Arc::clone(&self.metrics), _seat: seat })
    }

    /// Counts a connection against its address until the visit ends.
    pub fn visit(&self, ip: IpKey) -> Result<Visit, Refused> {
        self.budgets.lock().connect(ip)?;
        Ok(Visit { budgets: Arc::clone(&self.budgets), ip })
    }

    /// What a client signs to prove who it is; new for every connection.
    pub fn challenge(&self) -> String {
        let mut bytes = [0_u8; 16];
        // Never fails for so few bytes once the machine is up, and then only the challenge is weak:
        // it still has to be signed for this relay and this minute.
        let _ = getrandom(&mut bytes, GetRandomFlags::empty());
        grasp_core::id::hex_encode(&bytes)
    }

    /// Chance for the machines that decide; from then on they do the same with the same inputs.
    pub fn seed(&self) -> u64 {
        let mut bytes = [0_u8; 8];
        let _ = getrandom(&mut bytes, GetRandomFlags::empty());
        u64::from_be_bytes(bytes)
    }
}

/// Expiry, vanished authors, and addresses that owe nothing any more.
async fn keep_house(node: Arc<Node>) {
    let mut tick = tokio::time::interval(SWEEP_EVERY);
    loop {
        tokio::select! {
            () = node.closing.cancelled() => return,
            _ = tick.tick() => {}
        }
        node.ingest.sweep().await;
        node.turnstile.sweep();
        let now = node.clock.now();
        node.budgets.lock().sweep(now);
    }
}

/// A countable number of places.
#[derive(Debug)]
struct Seats {
    free: AtomicUsize,
}

#[derive(Debug)]
pub struct Seat(Arc<Seats>);

impl Seats {
    fn of(count: usize) -> Arc<Self> {
        Arc::new(Self { free: AtomicUsize::new(count) })
    }

    fn take(seats: &Arc<Self>) -> Option<Seat> {
        let take = |free: usize| free.checked_sub(1);
        seats.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).ok()?;
        Some(Seat(Arc::clone(seats)))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.free.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub struct Chair {
    metrics: Arc<Metrics>,
    _seat: Seat,
}

impl Drop for Chair {
    fn drop(&mut self) {
        self.metrics.connections_active.dec();
    }
}

#[derive(Debug)]
pub struct Visit {
    budgets: Arc<Mutex<Budgets>>,
    ip: IpKey,
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.budgets.lock().disconnect(self.ip);
    }
}

fn relay_limits(config: &Config) -> Limits {
    let (relay, connections) = (&config.relay, &config.connections);
    Limits {
        message_bytes_max: relay.message_bytes_max,
        event_bytes_max: relay.event_bytes_max,
        tags_max: relay.event_tags_max,
        subscriptions_max: relay.subscriptions_max,
        filters_per_req_max: relay.filters_per_req_max,
        subid_chars_max: relay.subid_chars_max,
        limit_default: relay.query_events_max,
        limit_max: relay.query_events_max,
        retained_filter_bytes_max: relay.filter_bytes_per_connection_max,
        retained_filter_bytes_per_ip_max: relay.filter_bytes_per_ip_max,
        neg_sessions_max: relay.negentropy.sessions_max,
        neg_items_max: relay.negentropy.items_max,
        neg_frame_bytes: relay.negentropy.frame_bytes_max,
        neg_rounds_max: relay.negentropy.rounds_max,
        bad_signatures_max: connections.bad_events_max,
        auth_keys_max: relay.auth_keys_max,
        auth_skew_secs_max: relay.auth_skew_secs_max,
        created_at_ahead_secs_max: config.policy.event_future_secs_max,
        ips_max: connections.ips_max,
        connections_per_ip_max: connections.connections_per_ip_max,
        events_per_ip: Rate::per_minute(
            connections.ip.events_per_minute,
            connections.ip.events_burst,
        ),
        announcements_per_ip: Rate::per_hour(connections.ip.announcements_per_hour),
        new_repositories_per_ip: Rate::per_day(connections.ip.repositories_per_day),
        held_per_ip: Rate::per_hour(config.store.held_per_ip_per_hour),
        uploads_per_ip: Rate::per_hour(config.git.unclaimed.per_ip_per_hour),
        git_requests_per_ip: Rate::per_minute(
            config.git.requests_per_minute_per_ip,
            config.git.requests_per_minute_per_ip,
        ),
    }
}

/// The acceptance policy's part of the configuration.
pub fn rules(config: &Config, relay_key: PubKey) -> Rules {
    Rules {
        service: config.service.clone(),
        maintainer_rule: config.policy.maintainer_rule,
        repository_whitelist: config.policy.repository_whitelist.clone(),
        repository_blacklist: config.policy.repository_blacklist.clone(),
        event_blacklist: config.policy.event_blacklist.iter().copied().collect(),
        respect_deletions: config.policy.respect_deletions,
        relay_key,
        created_at_ahead_secs_max: config.policy.event_future_secs_max,
        grasp_lists_max: config.policy.grasp_lists_max,
    }
}

fn bounds(config: &Config) -> Bounds {
    Bounds {
        held_events_max: config.store.held_events_max,
        held_bytes_max: config.store.held_bytes_max,
        held_per_key_max: usize::try_from(config.store.held_per_key_max).unwrap_or(usize::MAX),
        aside_events_max: config.store.aside_events_max,
        aside_bytes_max: config.store.aside_bytes_max,
        burials_per_author_max: config.store.tombstones_per_author_max,
        proposals: ProposalLimits::default(),
    }
}

/// What the NIP-11 document says: only what works.
fn about(config: &Config, relay_key: PubKey, instance: &Instance) -> Info {
    let mut nips = vec![1, 11, 34, 40, 42, 45, 67, 70, 77];
    if config.service.base_path().is_empty() {
        nips.push(5);
    }
    if config.policy.respect_deletions {
        nips.extend([9, 62]);
    }
    nips.sort_unstable();
    let whitelist = !config.policy.repository_whitelist.is_empty();
    let criteria = match whitelist {
        true => "Repositories chosen by the operator that list this server in clone and relays.",
        false => "Any repository whose announcement lists this server in clone and relays.",
    };
    let curated =
        !config.policy.repository_blacklist.is_empty() || !config.policy.event_blacklist.is_empty();
    Info {
        name: config.relay_name.clone(),
        description: config.relay_description.clone(),
        pubkey: relay_key,
        software: "graspd".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        supported_nips: nips,
        supported_grasps: match config.sync.enabled {
            true => vec!["GRASP-01".into(), "GRASP-02".into()],
            false => vec!["GRASP-01".into()],
        },
        repo_acceptance_criteria: criteria.into(),
        curation: curated.then(|| "Some authors or repositories are excluded.".into()),
        icon: None,
        instance: Some(instance.as_str().to_owned()),
    }
}

fn verify_threads(config: &Config) -> usize {
    match config.relay.verify_threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    }
}

/// All descriptors but a reserve for files and emergencies. The soft limit is only a default meant
/// for old programs, so it is raised to the hard one.
fn descriptors_for_sockets(config: &Config) -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = if raised.is_ok() { maximum } else { current };
    let limit = limit.unwrap_or(u64::MAX);
    let reserve = limit / 100 * config.connections.descriptor_reserve_percent
        + limit % 100 * config.connections.descriptor_reserve_percent / 100;
    usize::try_from(limit - reserve).unwrap_or(usize::MAX)
}

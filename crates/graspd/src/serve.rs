//! The life of the server: claim the data, open the store, listen, say so, and leave in order.

use crate::config::{Backend, Config, configured_owner_key};
use crate::control::Control;
use crate::datadir::{DataDir, RelayKey, Root};
use crate::http::accept;
use crate::hunt;
use crate::node::Node;
use crate::sync;
use crate::temporary::TemporaryData;
use anyhow::{Context, Result};
use grasp_store::{EventStore, LmdbStore, Options};
use sd_notify::NotifyState;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// The event store and everything that must outlive it.
pub struct Opened {
    pub store: Arc<dyn EventStore>,
    pub relay_key: RelayKey,
    /// Where the repositories are.
    pub git_root: PathBuf,
    _claims: Vec<DataDir>,
    _temporary: Option<TemporaryData>,
}

impl std::fmt::Debug for Opened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Opened").finish_non_exhaustive()
    }
}

/// Claims the data directories and opens the store in them.
pub fn open(config: &Config) -> Result<Opened> {
    let options = Options { budget_bytes: config.store.disk_budget_bytes, ..Options::default() };
    if config.backend == Backend::Memory {
        return open_in_memory(config, &options);
    }
    let events = DataDir::claim(&config.relay_data_path, Root::Events)?;
    let git = DataDir::claim(&config.git_data_path, Root::Git)?;
    let relay_key = events.relay_key(configured_key(config)?)?;
    events.mark()?;
    git.mark()?;
    let store = Arc::new(LmdbStore::open(events.path(), &options)?);
    let git_root = git.path().to_owned();
    let _claims = vec![events, git];
    Ok(Opened { store, relay_key, git_root, _claims, _temporary: None })
}

/// Events go with the process. So do repositories, unless a place for them was named.
fn open_in_memory(config: &Config, options: &Options) -> Result<Opened> {
    let relay_key = match configured_key(config)? {
        Some(secret) => RelayKey::from_secret(secret)?,
        None => RelayKey::generate()?,
    };
    let temporary = TemporaryData::create()?;
    let store = Arc::new(LmdbStore::open(&temporary.make("events")?, options)?);
    let (git_root, _claims) = match config.git_data_path_is_set {
        true => {
            let git = DataDir::claim(&config.git_data_path, Root::Git)?;
            git.mark()?;
            (git.path().to_owned(), vec![git])
        }
        false => (temporary.make("git")?, Vec::new()),
    };
    Ok(Opened { store, relay_key, git_root, _claims, _temporary: Some(temporary) })
}

fn configured_key(config: &Config) -> Result<Option<[u8; 32]>> {
    let read = |path: &Path| match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    Ok(configured_owner_key(config, read)?.map(|secret| *secret.as_bytes()))
}

/// Serves until SIGTERM or SIGINT.
pub async fn run(mut config: Config) -> Result<()> {
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let opened = open(&config)?;
    let listener = TcpListener::bind(config.bind_address).await.with_context(|| {
        format!(
            "cannot listen on {}; is another program using it? Set NGIT_BIND_ADDRESS",
            config.bind_address
        )
    })?;
    config.bound_to(listener.local_addr()?);
    let (git_root, key) = (opened.git_root.clone(), opened.relay_key.public);
    let (node, threads) = Node::start(&config, &opened.store, git_root, key).await?;
    if config.sync.enabled {
        // First, so that it hears from the very beginning which relays are GRASP servers.
        hunt::start(&config, &node)?;
        sync::start(&config, &node, opened.relay_key.clone()).await?;
    }
    open_control(&config, &node)?;
    let accepting = tokio::spawn(accept::serve(listener, Arc::clone(&node), config.http.clone()));
    announce(&config, &opened.relay_key);
    let _ = sd_notify::notify(&[NotifyState::Ready]);
    let watchdog = tokio::spawn(feed_watchdog());
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    let _ = sd_notify::notify(&[NotifyState::Stopping]);
    tracing::info!("stopping: no new connections, finishing what is under way");
    watchdog.abort();
    node.closing.cancel();
    node.tasks.close();
    let tasks = node.tasks.clone();
    // A push that began may take longer than a socket: what it does ends up durable or not at all.
    let _ = tokio::time::timeout(config.push_drain, node.turnstile.pushes_done()).await;
    drop(node);
    let drained = tokio::time::timeout(config.drain, async {
        let _ = accepting.await;
        tasks.wait().await;
    });
    match drained.await {
        // The last holder of the ingest is gone, so its threads run dry and end.
        Ok(()) => threads.into_iter().for_each(|thread| drop(thread.join())),
        Err(_) => tracing::warn!("some connections did not end in time; what was answered is kept"),
    }
    Ok(())
}

/// The lock of the data is ours, so its control socket is, too. What keeps nothing has no place for one.
fn open_control(config: &Config, node: &Arc<Node>) -> Result<()> {
    if config.backend == Backend::Lmdb {
        let root = &config.relay_data_path;
        let control = Control::open(root)
            .with_context(|| format!("cannot open a socket in {}", root.display()))?;
        node.tasks.spawn(control.serve(Arc::clone(node)));
    }
    Ok(())
}

/// Plain words for whoever started this, and what to do next. A closed standard output is no
/// reason to stop.
fn announce(config: &Config, key: &RelayKey) {
    let _ = greet(&mut io::stdout().lock(), config, key);
    for note in &config.notes {
        tracing::warn!("{note}");
    }
}

fn greet(out: &mut impl Write, config: &Config, key: &RelayKey) -> io::Result<()> {
    let address = config.service.address();
    let (version, npub) = (env!("CARGO_PKG_VERSION"), key.public.to_npub());
    let data = match config.backend {
        Backend::Memory => "in memory; nothing is kept after this process ends".to_owned(),
        Backend::Lmdb => config.relay_data_path.display().to_string(),
    };
    writeln!(
        out,
        "graspd {version} is running: a Nostr relay for git repositories (GRASP).\n\
         \n\
         \x20 relay   ws://{address}\n\
         \x20 page    http://{address}/\n\
         \x20 events  {data}\n\
         \x20 key     {npub}\n"
    )?;
    if config.bind_address.ip().is_loopback() {
        writeln!(
            out,
            "Only this machine can reach it. To let others in, put a TLS proxy in front and set\n\
             NGIT_DOMAIN to the public name and NGIT_TRUSTED_PROXY_CIDRS to the proxy's address.\n"
        )?;
    }
    writeln!(
        out,
        "Next: announce a repository that lists ws://{address} as relay and\n\
         http://{address}/<npub>/<identifier>.git as clone URL.\n\
         Settings: `graspd config print`, `graspd --help`. Stop with Ctrl-C."
    )
}

/// Tells systemd that we are alive, if it asked to be told.
async fn feed_watchdog() {
    let Some(period) = sd_notify::watchdog_enabled() else { return };
    let mut tick = tokio::time::interval(period / 2);
    loop {
        tick.tick().await;
        let _ = sd_notify::notify(&[NotifyState::Watchdog]);
    }
}

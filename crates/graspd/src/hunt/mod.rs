//! The hunt for git data (GRASP-02): the machine decides, one light task per fetch talks. What is
//! found goes through the same quarantine and the same writer as a push; refs move only because
//! somebody signed for them.

mod drive;
mod feed;
mod job;
mod repair;
mod status;

pub use drive::HuntWatch;
pub use status::hunts;

use crate::config::Config;
use crate::fetch::{FetchSettings, Fetcher};
use crate::node::Node;
use crate::outbound::{CallLimits, Caller, DialLimits, Dialer, Rule, Silence, StartLimits};
use grasp_core::RepoId;
use grasp_engine::hunt::Hunt;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// What every job needs.
#[derive(Debug)]
struct Ground {
    node: Arc<Node>,
    fetcher: Fetcher,
    rule: Rule,
    urls_per_event_max: usize,
    /// Repositories whose own objects cannot be relied upon.
    damaged: Mutex<BTreeSet<RepoId>>,
}

/// A request reaches its server a little after it got leave; the server counts what reaches it.
const UNDER_WAY_MAX: Duration = Duration::from_secs(5);
/// Events that lack something, between the store and the hunt.
const FEED_LEN: usize = 1_024;

/// Starts the feed, the driver, the watch over what is served and, as the hunt asks for them, the
/// jobs. They end with the node.
pub fn start(config: &Config, node: &Arc<Node>) -> anyhow::Result<()> {
    let rule = match config.sync.allow_non_global {
        true => Rule::Operator,
        false => Rule::Strangers,
    };
    let ground = Arc::new(Ground {
        node: Arc::clone(node),
        fetcher: fetcher(config, node)?,
        rule,
        urls_per_event_max: config.hunt.urls_per_event_max,
        damaged: Mutex::default(),
    });
    let (sender, inbox) = mpsc::channel(FEED_LEN);
    node.tasks.spawn(feed::run(Arc::clone(&ground), sender));
    let mut settings = config.hunt.settings.clone();
    settings.window += UNDER_WAY_MAX;
    let hunt = Hunt::new(settings, node.seed());
    let watch = drive::start(hunt, inbox, Arc::clone(&ground));
    node.tasks.spawn(repair::run(ground, watch.clone(), config.hunt.repair_every));
    // Started once, so nobody was there before.
    let _ = node.hunt.set(watch);
    Ok(())
}

/// The guarded way out, for git.
fn fetcher(config: &Config, node: &Arc<Node>) -> anyhow::Result<Fetcher> {
    let hunt = &config.hunt;
    let limits = CallLimits {
        starts: StartLimits { starts_max: hunt.address_starts_max, ..StartLimits::default() },
        silence: Silence { span: hunt.silence, bytes_min: hunt.silence_bytes },
        ..CallLimits::default()
    };
    let dialer = Dialer::new(node.instance.clone(), DialLimits::default())?;
    let caller = Caller::new(dialer, Arc::clone(&node.clock), limits);
    let host = &node.host;
    let settings =
        FetchSettings { free_bytes_min: host.free_bytes_min, ..FetchSettings::default() };
    Ok(Fetcher::new(caller, host.layout.clone(), host.git.clone(), settings))
}

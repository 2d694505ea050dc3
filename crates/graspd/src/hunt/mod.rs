//! The hunt for git data (GRASP-02): the machine decides, one light task per fetch talks. What is
//! found goes through the same quarantine and the same writer as a push; refs move only because
//! somebody signed for them.

mod drive;
mod feed;
mod job;
mod look;
mod mend;
pub mod news;
mod repair;
mod status;

pub use drive::{HuntWatch, Snapshot};
pub use status::hunts;

use crate::config::Config;
use crate::fetch::{FetchSettings, Fetcher};
use crate::ledger::checks::{self, Guide};
use crate::node::Node;
use crate::outbound::{CallLimits, Caller, DialLimits, Dialer, Rule, Silence};
use grasp_core::RepoId;
use grasp_engine::hunt::HuntSettings;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, mpsc};

/// What every job needs.
#[derive(Debug)]
struct Ground {
    node: Arc<Node>,
    fetcher: Fetcher,
    rule: Rule,
    urls_per_event_max: usize,
    /// Repositories whose own objects cannot be relied upon.
    damaged: Mutex<BTreeSet<RepoId>>,
    /// Few looks at a time: others ask the same readers.
    looks: Semaphore,
    /// Somebody found no room in the queue.
    passed_over: AtomicBool,
    /// There is room again: everything is to be told once more.
    tell_again: Notify,
}

/// A request reaches its server a little after it got leave; the server counts what reaches it.
const UNDER_WAY_MAX: Duration = Duration::from_secs(5);
/// Looks at what a family lacks, at a time; after a start there may be as many as families.
const LOOKS_MAX: usize = 8;
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
        looks: Semaphore::new(LOOKS_MAX),
        passed_over: AtomicBool::new(false),
        tell_again: Notify::new(),
    });
    let (sender, inbox) = mpsc::channel(FEED_LEN);
    node.tasks.spawn(feed::run(Arc::clone(&ground), sender));
    let mut settings = config.hunt.settings.clone();
    settings.window += UNDER_WAY_MAX;
    let bytes_per_day = grasp_engine::hunt::check_bytes(settings.bytes_per_day_max);
    let watch = drive::start(settings, inbox, Arc::clone(&ground));
    node.tasks.spawn(repair::run(Arc::clone(&ground), watch.clone(), config.hunt.repair_every));
    let (hunt, fetcher) = (watch.clone(), ground.fetcher.clone());
    let guide = Guide { hunt, fetcher, rule, bytes_per_day };
    let _ = watch.checks.set(checks::start(guide, node));
    // Started once, so nobody was there before.
    let _ = node.hunt.set(watch);
    Ok(())
}

/// The guarded way out, for git.
fn fetcher(config: &Config, node: &Arc<Node>) -> anyhow::Result<Fetcher> {
    let hunt = &config.hunt;
    let limits = CallLimits {
        silence: Silence { span: hunt.silence, bytes_min: hunt.silence_bytes },
        connections_per_address_max: connections_max(&hunt.settings),
        ..CallLimits::default()
    };
    let dialer = Dialer::new(node.instance.clone(), DialLimits::default())?;
    let dialer = dialer.counting(node.outbound_starts.clone());
    let caller = Caller::new(dialer, Arc::clone(&node.clock), limits);
    let host = &node.host;
    Ok(Fetcher::new(caller, host.layout.clone(), host.git.clone(), FetchSettings::default()))
}

/// What the hunt allows one host must not stand in its own way: a connection that is being closed
/// still has its place when the next one is made.
fn connections_max(hunt: &HuntSettings) -> usize {
    let decided = hunt.overrides.values().map(|(at_once, _)| *at_once);
    let at_once = decided.chain([hunt.domain_concurrent_max]).max().unwrap_or(0);
    let usual = CallLimits::default().connections_per_address_max;
    usize::try_from(at_once).map_or(usual, |at_once| usual.max(2 * at_once))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_room_for_all_that_an_operator_allows_one_host() {
        let usual = HuntSettings::default();
        assert_eq!(connections_max(&usual), 20);
        let more = HuntSettings { domain_concurrent_max: 20, ..usual.clone() };
        assert_eq!(connections_max(&more), 40);
        let host = "git.example".parse().unwrap();
        let one = HuntSettings { overrides: [(host, (50, 60))].into(), ..usual };
        assert_eq!(connections_max(&one), 100);
    }
}

//! Proactive sync (GRASP-02): the engine decides, one light task per relay talks. What other relays
//! say enters by the same door as everything else; what we learn about them outlives a restart.

mod compare;
mod drive;
mod hands;
mod history;
mod link;
mod memory;
pub mod news;
mod offer;
mod standing;
mod wire;

pub use drive::Watch;
pub use standing::served;

use crate::config::Config;
use crate::datadir::RelayKey;
use crate::feed::{self, Feed};
use crate::node::Node;
use crate::outbound::{DialLimits, Dialer, Rule};
use grasp_core::RelayUrl;
use grasp_engine::{Engine, Input, Patience};
use history::History;
use std::sync::Arc;
use tokio::sync::mpsc;

/// What every link needs.
#[derive(Debug)]
struct Ground {
    node: Arc<Node>,
    dialer: Dialer,
    key: RelayKey,
    patience: Patience,
    bootstrap: Option<RelayUrl>,
    allow_non_global: bool,
    history: Arc<History>,
}

/// Announcements and roots between the store and the engine.
const FEED_LEN: usize = 1_024;

/// Starts the feed, the driver and, as the engine asks for them, the links. They end with the node.
pub async fn start(config: &Config, node: &Arc<Node>, key: RelayKey) -> anyhow::Result<()> {
    let sync = &config.sync;
    let limits = DialLimits {
        probe: sync.probe_timeout,
        probe_bytes_max: sync.probe_bytes_max,
        links_per_address_max: sync.engine.links_per_address_max,
        ..DialLimits::default()
    };
    let ground = Arc::new(Ground {
        dialer: Dialer::new(node.instance.clone(), limits)?.counting(node.outbound_starts.clone()),
        key,
        patience: sync.patience.clone(),
        bootstrap: sync.bootstrap.clone(),
        allow_non_global: sync.allow_non_global,
        history: Arc::default(),
        node: Arc::clone(node),
    });
    let now = node.clock.now();
    let mut engine = Engine::new(sync.engine.clone(), node.seed());
    if let Some(relay) = &sync.bootstrap {
        engine = engine.with_bootstrap(relay, now);
    }
    for (relay, record, chronicle) in memory::recall(&node.explorers).await? {
        ground.history.recall(&relay, chronicle);
        engine.handle(Input::Recalled { relay, record: Box::new(record) }, now);
    }
    let (sender, feed) = mpsc::channel(FEED_LEN);
    node.tasks.spawn(feed::run(
        Feed {
            service: Arc::clone(&node.service),
            readers: node.explorers.clone(),
            clock: Arc::clone(&node.clock),
            wake: Arc::clone(&node.wake),
            relays_max: sync.engine.relays_per_announcement_max,
        },
        sender,
        node.closing.clone(),
    ));
    // Started once, so nobody was there before.
    let _ = node.sync.set(drive::start(engine, feed, ground));
    Ok(())
}

impl Ground {
    /// What the operator chose may be anywhere; what strangers name may not.
    fn rule(&self, relay: &RelayUrl) -> Rule {
        match self.allow_non_global || self.bootstrap.as_ref() == Some(relay) {
            true => Rule::Operator,
            false => Rule::Strangers,
        }
    }
}

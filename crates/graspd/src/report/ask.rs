//! The reports of a running server. The machines are looked at once for all who ask within a second;
//! the store is read on threads of their own, so that no client of the relay waits for them.

use super::held::{Draft, Hunts, Shaper};
use super::shapes::{EventReport, Purgatory, Relays, Repo, Repos, Status};
use super::sight::{Identity, Live, Sight};
use super::{Page, problem_list};
use crate::node::{Node, Ready};
use grasp_core::{EventId, RepoId, Time};
use grasp_engine::hunt::FamilyId;
use grasp_store::Result;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// What is kept between two reports.
#[derive(Debug)]
pub struct Reports {
    pub identity: Arc<Identity>,
    /// Held while it is made, so that it is made once.
    seen: Mutex<Option<(Time, Arc<Live>)>>,
    status: Mutex<Option<(Time, Status)>>,
}

const SEEN_FOR: Duration = Duration::from_secs(1);
/// Relays in trouble that are read for the list of problems.
const TROUBLES_MAX: usize = 1_000;

impl Reports {
    pub fn new(identity: Identity) -> Self {
        Self { identity: Arc::new(identity), seen: Mutex::default(), status: Mutex::default() }
    }

    async fn live(&self, node: &Node) -> Arc<Live> {
        let mut seen = self.seen.lock().await;
        let now = node.clock.now();
        if let Some((at, live)) = &*seen
            && now.since(*at) < SEEN_FOR
        {
            return Arc::clone(live);
        }
        let live = Arc::new(look(node).await);
        *seen = Some((now, Arc::clone(&live)));
        live
    }
}

async fn look(node: &Node) -> Live {
    let mut live = Live {
        uptime: Some(node.uptime()),
        activity: node.activity.latest(),
        full_tables: node.metrics.full.lately(node.clock.now()),
        ..Live::default()
    };
    if let Some(watch) = node.sync.get() {
        (live.totals, live.relay_troubles) = watch.troubles(TROUBLES_MAX).await.unwrap_or_default();
    }
    if let Some(watch) = node.hunt.get() {
        let hunts = watch.look_at_stuck(problem_list::NAMED_MAX).await.unwrap_or_default();
        (live.hunts, live.stuck, live.stuck_total) = (hunts.totals, hunts.stuck, hunts.stuck_total);
        live.full_slots = hunts.full_slots;
    }
    live.git_used_bytes = node.host.git_used.get();
    live.disk_shortage = node.host.disk.shortage();
    // A full disk is a problem of its own.
    if let (Ready::No(why), None) = (node.ready().await, live.disk_shortage) {
        live.not_ready = Some(why);
    }
    let step = node.clock.recent_step();
    live.clock_step = step.map(|step| (step.by_ms, node.clock.now().since(step.at)));
    live
}

async fn hunts(node: &Node, families: Vec<FamilyId>) -> Hunts {
    match node.hunt.get() {
        Some(watch) => watch.look_at(families).await.unwrap_or_default(),
        None => Hunts::default(),
    }
}

/// `None` while the server stops, or if the store cannot be read, which the log then says.
async fn ask<T: Send + 'static>(
    node: &Arc<Node>,
    question: impl FnOnce(&Sight<'_>) -> Result<T> + Send + 'static,
) -> Option<T> {
    let live = node.reports.live(node).await;
    let (rules, host) = (Arc::clone(&node.rules), Arc::clone(&node.host));
    let (identity, at) = (Arc::clone(&node.reports.identity), node.clock.read());
    let answer = node.tellers.ask(move |store| {
        let (rules, repos) = (&*rules, &*host.repos);
        let (now, offset) = (at.wall, at.offset());
        question(&Sight { store, rules, repos, identity: &identity, live: &live, now, offset })
    });
    match answer.await.ok()? {
        Ok(told) => Some(told),
        Err(error) => {
            tracing::error!(%error, "a report could not be read");
            None
        }
    }
}

/// What was read, and what the hunt says of it.
async fn told<D: Draft>(node: &Arc<Node>, draft: D) -> D::Told {
    let hunts = hunts(node, draft.families()).await;
    let (identity, now) = (&node.reports.identity, node.clock.wall());
    draft.told(&Shaper { identity, hunts: &hunts, now })
}

/// The same for all who ask within a second.
pub async fn status(node: &Arc<Node>) -> Option<Status> {
    let mut made = node.reports.status.lock().await;
    let now = node.clock.now();
    if let Some((at, status)) = &*made
        && now.since(*at) < SEEN_FOR
    {
        return Some(status.clone());
    }
    let status = ask(node, |sight| sight.status()).await;
    *made = status.clone().map(|status| (now, status));
    status
}

pub async fn relays(node: &Arc<Node>, page: Page) -> Option<Relays> {
    let watch = node.sync.get().cloned();
    let views = match &watch {
        // One to see whether there are more, and one that is not shown among the others.
        Some(watch) => {
            watch.relays_after(page.after.as_deref().unwrap_or(""), page.limit + 2).await?.1
        }
        None => Vec::new(),
    };
    ask(node, move |sight| sight.relays(&page, &views, watch.as_ref())).await
}

pub async fn repos(node: &Arc<Node>, page: Page) -> Option<Repos> {
    ask(node, move |sight| sight.repos(&page)).await
}

/// `Some(None)` if it is not hosted here.
pub async fn repo(node: &Arc<Node>, repo: &RepoId) -> Option<Option<Repo>> {
    let repo = repo.clone();
    match ask(node, move |sight| sight.repo(&repo)).await? {
        Some(draft) => Some(Some(told(node, draft).await)),
        None => Some(None),
    }
}

pub async fn purgatory(node: &Arc<Node>, page: Page) -> Option<Purgatory> {
    let draft = ask(node, move |sight| sight.purgatory(&page)).await?;
    Some(told(node, draft).await)
}

/// `Some(None)` if it is not known here.
pub async fn event(node: &Arc<Node>, id: &EventId) -> Option<Option<EventReport>> {
    let id = *id;
    match ask(node, move |sight| sight.event(&id)).await? {
        Some(draft) => Some(Some(told(node, draft).await)),
        None => Some(None),
    }
}

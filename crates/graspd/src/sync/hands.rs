//! Carries out what the engine says: starts work, never waits for it. Keeps one link per relay and
//! what has to be written down about relays.

use super::Ground;
use super::drive::Word;
use super::link::{self, Order};
use super::{memory, news, standing};
use crate::metrics::Status;
use grasp_core::{Domain, RelayUrl, RepoId, Time, WallOffset};
use grasp_engine::{Action, Doubt, Engine, Input, Peer, Refusal};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

pub(super) struct Hands {
    ground: Arc<Ground>,
    words: mpsc::Sender<Word>,
    links: BTreeMap<RelayUrl, Handle>,
    next_generation: u64,
    /// From when to when each relay was last linked, or since when it is.
    sessions: BTreeMap<RelayUrl, (Time, Option<Time>)>,
    /// Relays whose record changed, and when to write that down.
    changed: BTreeSet<RelayUrl>,
    forgotten: BTreeSet<RelayUrl>,
    /// Relays that cannot be compared with, for these repositories.
    doubts: Vec<(RelayUrl, Vec<RepoId>, Doubt)>,
    write_at: Option<Time>,
    /// Refused bytes about which the engine decided and whose links do not know it yet.
    decided: Vec<(RelayUrl, u64)>,
}

/// A running link. The engine's ledger bounds what is ordered of it.
struct Handle {
    generation: u64,
    orders: mpsc::UnboundedSender<Order>,
    hangup: CancellationToken,
}

/// Records wait for each other so that many share one transaction.
const WRITE_AFTER: Duration = Duration::from_secs(2);
/// Records in one transaction.
const WRITTEN_MAX: usize = 500;

impl Hands {
    pub(super) fn new(ground: Arc<Ground>, words: mpsc::Sender<Word>) -> Self {
        Self {
            ground,
            words,
            links: BTreeMap::new(),
            next_generation: 0,
            sessions: BTreeMap::new(),
            changed: BTreeSet::new(),
            forgotten: BTreeSet::new(),
            doubts: Vec::new(),
            write_at: None,
            decided: Vec::new(),
        }
    }

    pub(super) fn is_current(&self, word: &Word) -> bool {
        let Some(relay) = relay_of(&word.input) else { return false };
        self.links.get(relay).is_some_and(|link| link.generation == word.generation)
    }

    /// Counts what happens, before the engine hears of it.
    pub(super) fn notice(&mut self, input: &Input, now: Time) {
        let metrics = &self.ground.node.metrics.sync;
        match input {
            Input::Connected { relay, peer, .. } => {
                self.tell_the_hunt(relay, peer);
                metrics.attempt(relay, true);
                metrics.connected(relay, true);
                self.sessions.insert(relay.clone(), (now, None));
            }
            Input::Lost { relay, .. } => {
                // The end of a link that was is no failed attempt.
                if !matches!(self.sessions.get(relay), Some((_, None))) {
                    metrics.attempt(relay, false);
                }
                metrics.connected(relay, false);
                if let Some((_, end)) = self.sessions.get_mut(relay) {
                    end.get_or_insert(now);
                }
                self.links.remove(relay);
            }
            Input::Ended { relay, end: grasp_engine::End::Closed(text), .. } => {
                metrics.refused(relay, Refusal::of(text).name());
            }
            Input::Judged { relay, judged } if judged.refused_bytes > 0 => {
                self.decided.push((relay.clone(), judged.refused_bytes));
            }
            _ => {}
        }
    }

    /// After all actions were carried out.
    pub(super) fn tell_decided(&mut self) {
        for (relay, bytes) in std::mem::take(&mut self.decided) {
            self.order(&relay, Order::RefusedDecided { bytes });
        }
    }

    /// What a relay is says how often its git side may be asked (S-35).
    fn tell_the_hunt(&self, relay: &RelayUrl, peer: &Peer) {
        let Some(hunt) = self.ground.node.hunt.get() else { return };
        let Ok(domain) = relay.place().parse::<Domain>() else { return };
        if peer.grasp {
            hunt.is_grasp(domain.clone());
            hunt.publishes(domain, peer.git_requests_per_minute);
        }
    }

    pub(super) fn carry_out(&mut self, action: Action, engine: &Engine, now: Time) {
        tracing::debug!(?action, "sync");
        match action {
            Action::Connect(relay) => self.connect(relay),
            Action::Hangup(relay) => {
                self.ground.node.metrics.sync.connected(&relay, false);
                if let Some((_, end)) = self.sessions.get_mut(&relay) {
                    end.get_or_insert(now);
                }
                if let Some(link) = self.links.remove(&relay) {
                    link.hangup.cancel();
                }
            }
            Action::Listen { relay, sub, filters } => {
                self.order(&relay, Order::Listen { sub, filters });
            }
            Action::Request { relay, sub, filters, errand } => {
                self.order(&relay, Order::Request { sub, filters, errand });
            }
            Action::Reconcile { relay, sub, filter, errand, standing, answer_within } => {
                let order = Order::Reconcile { sub, filter, errand, standing, answer_within };
                self.order(&relay, order);
            }
            Action::Stands { relay, repos } => self.order(&relay, Order::Stands(repos)),
            Action::Close { relay, sub } => self.order(&relay, Order::Close(sub)),
            Action::Abandon { relay, sub } => self.order(&relay, Order::Abandon(sub)),
            Action::Authenticate(relay) => self.order(&relay, Order::Authenticate),
            Action::Remember(relay) => {
                self.show(&relay, engine, now);
                self.forgotten.remove(&relay);
                self.changed.insert(relay);
                self.write_at.get_or_insert(now.plus(WRITE_AFTER));
            }
            Action::Forget(relay) => {
                self.ground.node.metrics.sync.forget(&relay);
                self.ground.history.forget(&relay);
                self.sessions.remove(&relay);
                self.changed.remove(&relay);
                self.forgotten.insert(relay);
                self.write_at.get_or_insert(now.plus(WRITE_AFTER));
            }
            Action::Doubt { relay, repos, doubt } => self.doubts.push((relay, repos, doubt)),
            Action::Tell(told) => {
                self.ground.node.log.write(&news::log_line(&told, now), now);
                news::show(&self.ground.node, &told);
            }
        }
    }

    fn connect(&mut self, relay: RelayUrl) {
        self.next_generation += 1;
        let (orders, inbox) = mpsc::unbounded_channel();
        let hangup = self.ground.node.closing.child_token();
        let generation = self.next_generation;
        let line = link::Line {
            ground: Arc::clone(&self.ground),
            relay: relay.clone(),
            generation,
            words: self.words.clone(),
            before: self.sessions.get(&relay).and_then(|(from, to)| Some((*from, (*to)?))),
        };
        self.ground.node.tasks.spawn(link::run(line, inbox, hangup.clone()));
        if let Some(old) = self.links.insert(relay, Handle { generation, orders, hangup }) {
            old.hangup.cancel();
        }
    }

    /// A link that is just ending does not listen; the engine hears of its end soon.
    fn order(&self, relay: &RelayUrl, order: Order) {
        if let Some(link) = self.links.get(relay) {
            let _ = link.orders.send(order);
        }
    }

    /// Takes in how long relays were linked; what ended a quarter hour is written down.
    pub(super) fn measure(&mut self, engine: &Engine, now: Time) {
        let wall = self.ground.node.clock.to_wall(now);
        for (relay, account) in engine.accounts(now) {
            if self.ground.history.measure(relay, &account, wall) {
                self.changed.insert(relay.clone());
                self.write_at.get_or_insert(now.plus(WRITE_AFTER));
            }
        }
    }

    fn show(&self, relay: &RelayUrl, engine: &Engine, now: Time) {
        let Some(view) = engine.relay_view(relay, now) else { return };
        let status = Status::from(&view.health);
        self.ground.node.metrics.sync.status(relay, status, view.health.failures());
    }

    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.write_at
    }

    pub(super) async fn write_down(&mut self, engine: &Engine, now: Time) {
        for (relay, repos, doubt) in self.doubts.drain(..) {
            let desk = (&self.ground.node.ingest, &self.ground.node.metrics.ledger);
            let at = self.ground.node.clock.read();
            standing::doubt(desk, &relay, repos, in_wall_time(doubt, at.offset()).into(), at.wall)
                .await;
        }
        if self.write_at.is_none_or(|at| at > now) {
            return;
        }
        self.write_at = None;
        // After a quarter hour all of them have changed; nobody should wait for that.
        let mut changed = std::mem::take(&mut self.changed);
        if let Some(rest) = changed.iter().nth(WRITTEN_MAX).cloned() {
            self.changed = changed.split_off(&rest);
            self.write_at = Some(now.plus(WRITE_AFTER));
        }
        let records: Vec<_> = changed
            .into_iter()
            .filter_map(|relay| Some((engine.record(&relay, now)?, relay)))
            .map(|(record, relay)| {
                let chronicle = self.ground.history.of(&relay).unwrap_or_default();
                (relay, record, chronicle)
            })
            .collect();
        let forgotten = std::mem::take(&mut self.forgotten);
        memory::write(&self.ground.node.ingest, &records, &forgotten).await;
    }

    /// The last word: what every link knows is written down before the process ends.
    pub(super) async fn stop(&mut self, engine: &Engine, now: Time) {
        self.changed.extend(self.links.keys().cloned());
        self.write_at = Some(now);
        self.write_down(engine, now).await;
        self.links.clear();
    }
}

/// Rows of the ledger outlive this run.
fn in_wall_time(doubt: Doubt, offset: WallOffset) -> Doubt {
    match doubt {
        Doubt::Unreachable { since } => Doubt::Unreachable { since: offset.to_wall(since) },
        Doubt::RateLimited { until } => Doubt::RateLimited { until: offset.to_wall(until) },
        other => other,
    }
}

fn relay_of(input: &Input) -> Option<&RelayUrl> {
    match input {
        Input::Recalled { relay, .. }
        | Input::Connected { relay, .. }
        | Input::Lost { relay, .. }
        | Input::Listening { relay, .. }
        | Input::Ended { relay, .. }
        | Input::NoRoom { relay, .. }
        | Input::Judged { relay, .. }
        | Input::Notice { relay, .. }
        | Input::Authenticated { relay, .. } => Some(relay),
        Input::Announced { .. }
        | Input::Withdrawn(_)
        | Input::Root { .. }
        | Input::Replayed
        | Input::WallClock(_)
        | Input::Refresh { .. } => None,
    }
}

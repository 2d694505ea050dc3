//! What we say to a relay.

use super::{Link, Step, name};
use crate::sync::compare::Comparison;
use crate::sync::standing;
use grasp_core::{EventId, Filter, RepoId, Time};
use grasp_engine::{Errand, Input, Loss, Sub};
use grasp_relay::client;
use std::sync::Arc;
use std::time::Duration;
use tokio_tungstenite::tungstenite::Message;

/// What the engine wants of a link.
#[derive(Debug)]
pub(in crate::sync) enum Order {
    Listen {
        sub: Sub,
        filters: Arc<[Filter]>,
    },
    Request {
        sub: Sub,
        filters: Arc<[Filter]>,
        errand: Errand,
    },
    Reconcile {
        sub: Sub,
        filter: Filter,
        errand: Errand,
        standing: Vec<RepoId>,
        answer_within: Option<Duration>,
    },
    /// The relay refused this comparison by a NOTICE.
    Abandon(Sub),
    /// What comparisons showed of these may be written down.
    Stands(Vec<RepoId>),
    Close(Sub),
    /// The engine decided about all refused events of which it was told; orders before this one follow
    /// from that.
    RefusedDecided {
        bytes: u64,
    },
    Authenticate,
}

const CHALLENGE_WAIT: Duration = Duration::from_secs(10);

#[derive(Debug, Default)]
pub(super) struct Auth {
    pub(super) challenge: Option<String>,
    /// We were told to answer, by then; there was no challenge yet.
    pub(super) wanted_by: Option<Time>,
    /// Our answer, until it is judged, which must be by then.
    pub(super) sent: Option<EventId>,
    pub(super) answered_by: Option<Time>,
}

impl Link<'_> {
    pub(super) async fn obey(&mut self, order: Order) -> Step {
        let now = self.line.now();
        match order {
            Order::Listen { sub, filters } => {
                let frame = client::req(&name(sub), &filters);
                self.reception.opens(sub, filters, true, now);
                self.say(frame)
            }
            Order::Request { sub, filters, errand } => {
                let frame = client::req(&name(sub), &filters);
                self.reception.opens(sub, filters, false, now);
                self.errands.insert(sub, errand);
                self.say(frame)
            }
            Order::Reconcile { sub, filter, errand, standing, answer_within } => {
                self.reception.opens(sub, [filter.clone()].into(), false, now);
                if let Some(time) = answer_within {
                    self.reception.must_answer_within(sub, time);
                }
                self.errands.insert(sub, errand);
                let frame_bytes = Comparison::frame_bytes(self.peer.message_bytes_max);
                let comparison = Comparison::new(filter, standing);
                comparison.prepare(&self.line.ground.node, sub, frame_bytes, &self.compared);
                self.comparisons.insert(sub, comparison);
                Ok(())
            }
            Order::Stands(repos) => {
                let found = self.found.take(repos);
                let node = &self.line.ground.node;
                let desk = (&node.ingest, &node.metrics.ledger);
                standing::keep(desk, &node.log, &self.line.relay, found, now).await;
                Ok(())
            }
            Order::Abandon(sub) => {
                self.reception.closes(sub);
                self.errands.remove(&sub);
                self.comparisons.remove(&sub);
                Ok(())
            }
            Order::Close(sub) => {
                self.reception.closes(sub);
                self.close(sub)
            }
            Order::RefusedDecided { bytes } => {
                self.undecided_bytes = self.undecided_bytes.saturating_sub(bytes);
                Ok(())
            }
            Order::Authenticate => match self.auth.challenge.take() {
                Some(challenge) => self.authenticate(&challenge),
                None => {
                    self.auth.wanted_by = Some(now.plus(CHALLENGE_WAIT));
                    Ok(())
                }
            },
        }
    }

    pub(super) fn say(&mut self, frame: String) -> Step {
        self.send(Message::Text(frame.into()))
    }

    pub(super) fn send(&mut self, frame: Message) -> Step {
        match self.outgoing.push(frame) {
            true => Ok(()),
            false => Err(Loss::Failed("it does not read what we send".into())),
        }
    }

    pub(super) fn close(&mut self, sub: Sub) -> Step {
        self.errands.remove(&sub);
        let frame = match self.comparisons.remove(&sub) {
            Some(_) => client::neg_close(&name(sub)),
            None => client::close(&name(sub)),
        };
        self.say(frame)
    }

    /// NIP-42: as the relay's own key, for the address we dialled.
    pub(super) fn authenticate(&mut self, challenge: &str) -> Step {
        let now = self.line.ground.node.clock.wall().timestamp();
        let event = self.line.ground.key.answers(self.line.relay.as_str(), challenge, now);
        self.auth.sent = Some(event.id);
        self.auth.answered_by = Some(self.line.now().plus(CHALLENGE_WAIT));
        self.say(client::auth(&event))
    }

    pub(super) async fn authenticated(&mut self, ok: bool) {
        let relay = self.line.relay.clone();
        self.line.say(Input::Authenticated { relay, ok }).await;
    }
}

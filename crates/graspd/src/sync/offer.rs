//! One event from another relay on its way through the door, and what came of it.

use crate::ingest::{Asker, Offer};
use grasp_core::event::Forged;
use grasp_core::policy::Answer;
use grasp_core::{Event, EventId, Kind, RelayUrl, Time, Timestamp};
use grasp_engine::{Errand, Sub};
use grasp_store::{Provenance, SourceKind};
use std::sync::Arc;
use tokio::sync::mpsc;

/// What came of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Stored or held, and not known before.
    New,
    Known,
    Refused,
    /// Our own store could not take it.
    Failed,
    Forged,
}

#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) id: EventId,
    pub(super) fate: Fate,
    pub(super) sub: Sub,
    pub(super) source: SourceKind,
    pub(super) past: bool,
    pub(super) kind: Kind,
    pub(super) created_at: Timestamp,
    pub(super) errand: Option<Errand>,
    /// What it occupied on its way.
    pub(super) bytes: usize,
}

/// How an event came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Way {
    pub(super) sub: Sub,
    pub(super) source: SourceKind,
    pub(super) bytes: usize,
    /// It came before the end of what was stored.
    pub(super) past: bool,
    /// Why it was asked for; nothing for what is heard live.
    pub(super) errand: Option<Errand>,
}

/// Waits for the answer, and passes it on to the link.
struct Waiting {
    verdicts: mpsc::UnboundedSender<Verdict>,
    way: Way,
    kind: Kind,
    created_at: Timestamp,
}

pub(super) fn offer(
    event: Box<Event>,
    relay: &RelayUrl,
    way: Way,
    verdicts: &mpsc::UnboundedSender<Verdict>,
    now: Time,
) -> Offer {
    let (kind, created_at) = (event.kind, event.created_at);
    let waiting = Waiting { verdicts: verdicts.clone(), way, kind, created_at };
    let relay = Some(relay.as_str().to_owned());
    let from = Provenance { source: way.source, relay, received: now, released: None };
    Offer { event, from, ip: None, asker: Arc::new(waiting) }
}

impl Waiting {
    fn send(&self, id: &EventId, fate: Fate) {
        let Way { sub, source, bytes, past, errand } = self.way;
        let (id, kind, created_at) = (*id, self.kind, self.created_at);
        // A link that ended does not want to know any more.
        let _ = self.verdicts.send(Verdict {
            id,
            fate,
            sub,
            source,
            past,
            errand,
            kind,
            created_at,
            bytes,
        });
    }
}

impl Asker for Waiting {
    fn answer(&self, id: &EventId, answer: &Answer) {
        let fate = match answer.ok {
            true if answer.text.starts_with("duplicate:") => Fate::Known,
            true => Fate::New,
            false if answer.text.starts_with("error:") => Fate::Failed,
            false => Fate::Refused,
        };
        self.send(id, fate);
    }

    fn answer_forged(&self, id: &EventId, why: Forged) {
        tracing::debug!(%id, %why, "a forged copy");
        self.send(id, Fate::Forged);
    }
}

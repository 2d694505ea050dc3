//! From a socket to the writer: events of one sender keep their order, signatures are checked off
//! the network threads, and what waits is bounded in bytes, so a fast sender waits instead.

use super::found::{Fetched, Mended, Taken};
use super::gather::known;
use super::land::{Copied, Delivery, Outcome};
use crate::threads::essential;
use grasp_core::event::{Forged, KeyRing};
use grasp_core::maintainers::Standing;
use grasp_core::policy::{Answer, Reason};
use grasp_core::{Event, EventId, RepoId, Tag, VerifiedEvent};
use grasp_relay::IpKey;
use grasp_store::{EventStore, Provenance, SourceKind, StoreError, Transaction};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// Whoever handed an event in, and is owed exactly one answer for it.
pub trait Asker: Send + Sync {
    fn answer(&self, id: &EventId, answer: &Answer);
    /// The event was not what it claimed to be.
    fn answer_forged(&self, id: &EventId, why: Forged);
}

/// An event on its way in.
pub struct Offer {
    pub event: Box<Event>,
    pub from: Provenance,
    pub ip: Option<IpKey>,
    pub asker: Arc<dyn Asker>,
}

impl std::fmt::Debug for Offer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Offer").field("id", &self.event.id).finish_non_exhaustive()
    }
}

/// A verified event for the writer.
pub(super) struct Sealed {
    pub(super) event: Arc<VerifiedEvent>,
    pub(super) from: Provenance,
    pub(super) ip: Option<IpKey>,
    pub(super) asker: Arc<dyn Asker>,
    /// Given back when the sender has its answer.
    pub(super) room: OwnedSemaphorePermit,
}

/// What the writer is asked to do.
pub(super) enum Work {
    Admit(Sealed),
    /// Remove what expired and what belongs to vanished authors.
    Sweep,
    /// A push whose objects are in quarantine.
    Land(Box<Delivery>, oneshot::Sender<Outcome>),
    /// Objects that another server had.
    Fetched(Box<Fetched>, oneshot::Sender<Taken>),
    /// Damaged packs may go.
    Mend(Mended),
    /// Events that lack nothing any more.
    Complete(Vec<EventId>),
    /// Objects copied from another repository here.
    Copied(Copied),
    /// That failed; it may be asked for again.
    NotCopied {
        to: RepoId,
        proposals: BTreeSet<EventId>,
    },
    /// A push is under way for these: they wait for the full time again.
    Extend(Vec<EventId>, oneshot::Sender<()>),
    /// Bring a repository in line with what was signed.
    Settle(RepoId),
    /// Small records that belong to no event.
    Jot(Jotting),
}

/// Writes notes in a transaction; may be run more than once.
pub type Jotting = Box<dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError> + Send>;

struct Waiting {
    offer: Offer,
    room: OwnedSemaphorePermit,
}

#[derive(Debug, Clone)]
pub struct Ingest {
    lanes: Arc<[mpsc::Sender<Waiting>]>,
    room: Arc<Semaphore>,
    sync_room: Arc<Semaphore>,
    writer: mpsc::Sender<Work>,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.offer.fmt(f)
    }
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Work::Admit(_) => "Admit",
            Work::Sweep => "Sweep",
            Work::Land(..) => "Land",
            Work::Fetched(..) => "Fetched",
            Work::Mend(_) => "Mend",
            Work::Complete(_) => "Complete",
            Work::Copied(_) => "Copied",
            Work::NotCopied { .. } => "NotCopied",
            Work::Extend(..) => "Extend",
            Work::Settle(_) => "Settle",
            Work::Jot(_) => "Jot",
        })
    }
}

/// Events between a socket and the disk, all together.
const ROOM_KIB: u32 = 64 << 10;
/// The same for events from other relays, so that no client waits for them.
const SYNC_ROOM_KIB: u32 = 16 << 10;
const LANE_LEN: usize = 512;
/// Verified per wake-up; small enough that a lane's snapshot stays fresh.
const HELPING: usize = 64;

impl Ingest {
    pub(super) fn start(
        store: &Arc<dyn EventStore>,
        threads: usize,
        writer: mpsc::Sender<Work>,
    ) -> std::io::Result<Self> {
        let mut lanes = Vec::new();
        for number in 0..threads.max(1) {
            let (sender, inbox) = mpsc::channel(LANE_LEN);
            let lane = Lane { inbox, store: Arc::clone(store), writer: writer.clone() };
            essential(&format!("verify-{number}"), move || lane.run())?;
            lanes.push(sender);
        }
        Ok(Self {
            lanes: lanes.into(),
            room: Arc::new(Semaphore::new(ROOM_KIB as usize)),
            sync_room: Arc::new(Semaphore::new(SYNC_ROOM_KIB as usize)),
            writer,
        })
    }

    /// Hands an event in; waits while there is no room. `sender` keeps one sender's events in order.
    pub async fn offer(&self, sender: u64, offer: Offer) {
        let kib = u32::try_from(weight(&offer.event) / 1024 + 1).unwrap_or(u32::MAX);
        // Neither fails while this value lives: the semaphore is never closed, the lanes never end.
        let (room, max) = match offer.from.source {
            SourceKind::Direct => (&self.room, ROOM_KIB),
            _ => (&self.sync_room, SYNC_ROOM_KIB),
        };
        let Ok(room) = Arc::clone(room).acquire_many_owned(kib.min(max)).await else { return };
        let lane = usize::try_from(sender).unwrap_or(0) % self.lanes.len();
        if let Some(lane) = self.lanes.get(lane) {
            let _ = lane.send(Waiting { offer, room }).await;
        }
    }

    pub async fn sweep(&self) {
        let _ = self.writer.send(Work::Sweep).await;
    }

    /// Hands in what a push brought; returns once it is served, or refused.
    pub async fn land(&self, delivery: Delivery) -> Outcome {
        let (answer, outcome) = oneshot::channel();
        let _ = self.writer.send(Work::Land(Box::new(delivery), answer)).await;
        outcome.await.unwrap_or_else(|_| Outcome::failed())
    }

    /// Returns once what these objects complete is served.
    pub async fn fetched(&self, fetched: Fetched) -> Taken {
        let (done, served) = oneshot::channel();
        let _ = self.writer.send(Work::Fetched(Box::new(fetched), done)).await;
        served.await.unwrap_or(Taken::No)
    }

    pub async fn mend(&self, mended: Mended) {
        let _ = self.writer.send(Work::Mend(mended)).await;
    }

    /// All these lack is here.
    pub async fn complete(&self, ids: Vec<EventId>) {
        let _ = self.writer.send(Work::Complete(ids)).await;
    }

    pub async fn copied(&self, copied: Copied) {
        let _ = self.writer.send(Work::Copied(copied)).await;
    }

    pub async fn not_copied(&self, to: RepoId, proposals: BTreeSet<EventId>) {
        let _ = self.writer.send(Work::NotCopied { to, proposals }).await;
    }

    /// Returns once the new deadlines are on the disk.
    pub async fn extend(&self, ids: Vec<EventId>) {
        let (done, extended) = oneshot::channel();
        let _ = self.writer.send(Work::Extend(ids, done)).await;
        let _ = extended.await;
    }

    /// Writes notes down, in their turn.
    pub async fn jot(&self, jotting: Jotting) {
        let _ = self.writer.send(Work::Jot(jotting)).await;
    }

    pub async fn settle(&self, repo: RepoId) {
        let _ = self.writer.send(Work::Settle(repo)).await;
    }
}

/// What an event occupies on its way, parsed and as JSON.
fn weight(event: &Event) -> usize {
    let value = |value: &String| value.len() + size_of::<String>();
    let tag = |tag: &Tag| tag.0.iter().map(value).sum::<usize>() + size_of::<Tag>();
    let parsed = event.content.len() + event.tags.iter().map(tag).sum::<usize>();
    2 * (parsed + size_of::<Event>())
}

struct Lane {
    inbox: mpsc::Receiver<Waiting>,
    store: Arc<dyn EventStore>,
    writer: mpsc::Sender<Work>,
}

impl Lane {
    fn run(mut self) {
        let mut ring = KeyRing::default();
        let mut waiting = Vec::with_capacity(HELPING);
        while self.inbox.blocking_recv_many(&mut waiting, HELPING) > 0 {
            let standings = self.look_up(&waiting);
            for (Waiting { offer, room }, standing) in waiting.drain(..).zip(standings) {
                self.check(offer, room, standing, &mut ring);
            }
        }
    }

    /// A claimed id that is already here saves the signature check, and proves nothing else.
    fn look_up(&self, waiting: &[Waiting]) -> Vec<Option<Standing>> {
        let Ok(snapshot) = self.store.read() else { return vec![None; waiting.len()] };
        waiting.iter().map(|w| known(&*snapshot, &w.offer.event.id).unwrap_or(None)).collect()
    }

    fn check(
        &self,
        offer: Offer,
        room: OwnedSemaphorePermit,
        standing: Option<Standing>,
        ring: &mut KeyRing,
    ) {
        let Offer { event, from, ip, asker } = offer;
        let id = event.id;
        let duplicate = match standing {
            Some(Standing::Served) => Some(Reason::ALREADY_HERE),
            Some(Standing::Held) => Some(Reason::ALREADY_HELD),
            None => None,
        };
        if let Some(reason) = duplicate {
            return asker.answer(&id, &Answer::refused(&reason));
        }
        match event.verify_with(ring) {
            Err(forged) => asker.answer_forged(&id, forged),
            Ok(event) => {
                let event = Arc::new(event);
                let sealed = Sealed { event, from, ip, asker, room };
                // The writer outlives the lanes; it ends only when they are gone.
                let _ = self.writer.blocking_send(Work::Admit(sealed));
            }
        }
    }
}

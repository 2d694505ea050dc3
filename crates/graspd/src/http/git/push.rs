//! The second request of a push. Its commands are read and judged before its pack is looked at; the
//! pack goes into quarantine as it arrives. Once the writer has it the push runs to its end, whether
//! or not somebody still listens; before that, a client that leaves takes everything along.

use super::body::{BadBody, Drain, Inbound};
use super::outbound::{Outbound, outbound};
use super::slots::{Busy, Slot};
use super::{Guest, UNREAD, unreadable};
use crate::http::respond::{self, Answer};
use crate::ingest::Outcome;
use crate::landing::{self, Allowed, Permit};
use crate::metrics::{Authorization, Direction, Operation};
use bytes::Bytes;
use grasp_git::{
    BadPush, HeadLimits, HeadReader, PushHead, Quarantine, ReceiveError, Received, Service, Step,
    advertise, report,
};
use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// For the whole list of commands.
const HEAD_SECS_MAX: u64 = 60;
/// How long a client may prepare its pack after it has said what it wants.
const PACK_WAIT: Duration = Duration::from_secs(5 * 60);
/// The same, where the pack will not be looked at.
const NO_PACK_WAIT: Duration = Duration::from_secs(40);
/// What is let in of a push that is refused already, so that its client hears why.
const REFUSED: Drain = Drain { bytes: 256 << 20, time: Duration::from_secs(60) };
/// Clients give up after 15 s of silence.
const MENTION_EVERY: Duration = Duration::from_secs(5);
const WORKING: &str = "checking and storing what you sent";

pub(super) async fn serve(guest: Guest, mut body: Inbound) -> Answer {
    let started = Instant::now();
    let head = match head(&guest, &mut body).await {
        Ok(head) => head,
        Err(Unread::Body(bad)) => return unreadable(&bad),
        Err(Unread::Push(why)) => {
            return drained(&mut body, || report::refused_unread(&why)).await;
        }
    };
    if head.commands.is_empty() {
        return result(Bytes::new());
    }
    if guest.node.closing.is_cancelled() {
        let _ = body.drain(UNREAD).await;
        return respond::busy("the server is stopping");
    }
    let permit = landing::permit(&guest.node, &guest.repo, &head.commands, guest.ip).await;
    guest.node.metrics.git.push_judged(match permit {
        Permit::Unchanged => Authorization::Unchanged,
        Permit::Allowed(_) => Authorization::Allowed,
        Permit::Refused { .. } => Authorization::Refused,
    });
    let is_fine = matches!(permit, Permit::Unchanged);
    let answer = match permit {
        Permit::Allowed(allowed) => return begin(guest, head, body, allowed, started).await,
        Permit::Unchanged => drained(&mut body, || report::accepted(&head)).await,
        Permit::Refused { reason, advice } => {
            drained(&mut body, || report::refused(&head, &reason, &advice)).await
        }
    };
    count(&guest, is_fine, started, body.wire_bytes());
    answer
}

fn result(body: impl Into<axum::body::Body>) -> Answer {
    respond::git(advertise::result_type(Service::ReceivePack), body)
}

/// Clients listen only once they have said everything; the answer is made when they do.
async fn drained(body: &mut Inbound, answer: impl FnOnce() -> Bytes) -> Answer {
    let begun = body.expect_more(NO_PACK_WAIT).await;
    let drained = match begun {
        Ok(_) => body.drain(REFUSED).await,
        Err(bad) => Err(bad),
    };
    drained.map_or_else(|bad| unreadable(&bad), |_| result(answer()))
}

enum Unread {
    Body(BadBody),
    Push(BadPush),
}

async fn head(guest: &Guest, body: &mut Inbound) -> Result<PushHead, Unread> {
    let late = |_| Unread::Body(BadBody::Late { secs: HEAD_SECS_MAX });
    let reading = read_head(guest, body);
    timeout(Duration::from_secs(HEAD_SECS_MAX), reading).await.map_err(late)?
}

async fn read_head(guest: &Guest, body: &mut Inbound) -> Result<PushHead, Unread> {
    let commands_max = guest.node.turnstile.limits.refs_max;
    let mut reader = HeadReader::new(HeadLimits { commands_max, ..HeadLimits::default() });
    while let Some(piece) = body.piece().await.map_err(Unread::Body)? {
        match reader.feed(&piece).map_err(Unread::Push)? {
            Step::More => {}
            Step::Done { head, rest } => {
                body.unread(piece.slice(piece.len().saturating_sub(rest)..));
                return Ok(head);
            }
        }
    }
    Err(Unread::Push(BadPush::Truncated))
}

async fn begin(
    guest: Guest,
    head: PushHead,
    mut body: Inbound,
    allowed: Allowed,
    started: Instant,
) -> Answer {
    if let Err(bad) = body.expect_more(PACK_WAIT).await {
        return unreadable(&bad);
    }
    let slot = match guest.node.turnstile.pushes.take(guest.payer()).await {
        Ok(slot) => slot,
        Err(busy) => {
            // Whether or not all of it could be let in, this is the answer.
            let _ = body.drain(REFUSED).await;
            return guest.without_slot(busy);
        }
    };
    let (to, mut answering) = outbound(slot.meter());
    let (said_all, ended) = (body.ended(), slot.ended());
    body.measure_with(slot.meter());
    let push = Push { guest, head, to, said_all: said_all.clone(), started };
    let tasks = push.guest.node.tasks.clone();
    tasks.spawn(push.run(slot, body, allowed));
    tokio::select! {
        biased;
        () = ended.cancelled() => return respond::busy(&Busy::Slowest.to_string()),
        () = said_all.cancelled() => {}
        () = answering.begun() => {}
    }
    result(answering.into_body())
}

struct Push {
    guest: Guest,
    head: PushHead,
    to: Outbound,
    /// The client has sent its last byte and listens now.
    said_all: CancellationToken,
    started: Instant,
}

/// Why a pack was not taken in.
enum Stop {
    Left,
    /// Another client needs the slot more.
    Ended,
    Body(BadBody),
    Receive(ReceiveError),
}

impl Push {
    async fn run(self, slot: Slot, mut body: Inbound, allowed: Allowed) {
        let mut mention = pin!(self.keep_mentioning());
        let ended = slot.ended();
        let taken = tokio::select! {
            taken = self.take_in(&mut body, &allowed, mention.as_mut()) => taken,
            () = ended.cancelled() => Err(Stop::Ended),
        };
        let taken = taken.and_then(|it| slot.keep_to_the_end().then_some(it).ok_or(Stop::Ended));
        let answer = match taken {
            Ok((quarantine, received)) => {
                let delivery = self.deliver(quarantine, received, allowed);
                let outcome = beside(mention.as_mut(), delivery).await;
                drop(slot);
                Some(outcome)
            }
            Err(stop) => {
                // Others need not wait for what is not looked at.
                drop((allowed, slot));
                self.stopped(stop, &mut body).await
            }
        };
        let is_done = matches!(answer, Some(Outcome::Done));
        if let Some(outcome) = answer {
            // Who does not take the answer has it from the refs.
            let _ = self.to.send(self.report(&outcome)).await;
        }
        count(&self.guest, is_done, self.started, body.wire_bytes());
    }

    /// The pack, whole and checked, in a directory of its own that goes when it is dropped.
    async fn take_in(
        &self,
        body: &mut Inbound,
        allowed: &Allowed,
        mention: Pin<&mut impl Future<Output = Infallible>>,
    ) -> Result<(Quarantine, Received), Stop> {
        let receiving = async {
            let host = Arc::clone(&self.guest.node.host);
            let limits = if allowed.unclaimed { &host.proposal_pack } else { &host.pack };
            let (repo, refs) = (&self.guest.repo, self.head.commands.len());
            let quarantine = landing::open_quarantine(&host, repo, refs).await?;
            let received = quarantine.receive(&host.git, limits, body).await?;
            Ok((quarantine, received))
        };
        let taken = tokio::select! {
            taken = beside(mention, receiving) => taken,
            () = self.to.left() => return Err(Stop::Left),
        };
        taken.map_err(|error| match body.failed() {
            Some(bad) => Stop::Body(bad.clone()),
            None => Stop::Receive(error),
        })
    }

    async fn deliver(&self, quarantine: Quarantine, received: Received, by: Allowed) -> Outcome {
        let Guest { node, repo, ip, .. } = &self.guest;
        landing::deliver(node, repo, &self.head, quarantine, received, *ip, by).await
    }

    /// What to tell a client whose pack did not make it, if it is still there.
    async fn stopped(&self, stop: Stop, body: &mut Inbound) -> Option<Outcome> {
        let error = match stop {
            Stop::Left | Stop::Body(BadBody::Gone) => return None,
            Stop::Ended => {
                // Until the client has heard it: a closed connection could take the answer back.
                let _ = body.drain(UNREAD).await;
                return Some(refused("the server is busy", Busy::Slowest));
            }
            Stop::Body(bad @ BadBody::Slow(_)) => {
                tracing::debug!(repo = %self.guest.repo, why = %bad, "a push was ended");
                self.to.break_off();
                self.guest.hang_up.cancel();
                return None;
            }
            Stop::Body(bad) => {
                body.drain(REFUSED).await.ok()?;
                return Some(refused("the request is damaged", bad));
            }
            Stop::Receive(error) => error,
        };
        let repo = &self.guest.repo;
        if error.is_refusal() {
            tracing::debug!(%repo, why = %error, "a pack was refused");
        } else {
            tracing::warn!(%repo, %error, "a pack could not be stored");
        }
        body.drain(REFUSED).await.ok()?;
        let reason = if error.is_for_want_of_room() {
            "the server's disk is full"
        } else if error.is_refusal() {
            "the pack was refused"
        } else {
            "the pack could not be stored"
        };
        Some(refused(reason, error))
    }

    fn report(&self, outcome: &Outcome) -> Bytes {
        match outcome {
            Outcome::Done => report::accepted(&self.head),
            Outcome::Refused { reason, advice } => report::refused(&self.head, reason, advice),
        }
    }

    /// Something now and then, from when the client listens; without end.
    async fn keep_mentioning(&self) -> Infallible {
        self.said_all.cancelled().await;
        let mut words = WORKING;
        loop {
            tokio::time::sleep(MENTION_EVERY).await;
            if let Some(piece) = report::progress(&self.head, words) {
                self.to.mention(piece);
            }
            words = "";
        }
    }
}

fn count(guest: &Guest, is_fine: bool, started: Instant, wire_bytes: u64) {
    let Guest { node, repo, .. } = guest;
    node.metrics.git.done(Operation::Push, is_fine, started.elapsed());
    node.metrics.git.moved(Direction::In, wire_bytes);
    node.turnstile.traffic.moved(repo, wire_bytes);
}

fn refused(reason: &str, advice: impl std::fmt::Display) -> Outcome {
    Outcome::Refused { reason: reason.to_owned(), advice: advice.to_string() }
}

/// Does `work`, with something endless beside it.
async fn beside<T>(
    endless: Pin<&mut impl Future<Output = Infallible>>,
    work: impl Future<Output = T>,
) -> T {
    tokio::select! {
        done = work => done,
        never = endless => match never {},
    }
}

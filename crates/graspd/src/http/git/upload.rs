//! The second request of a clone or fetch. Listing refs is answered here; objects are packed by a
//! git process of its own, whose input and output flow at the same time and are never whole in
//! memory. The process lives no longer than somebody wants its answer.

use super::body::{BadBody, Inbound};
use super::outbound::{Gone, Outbound, outbound};
use super::slots::{Busy, Slot};
use super::spool::{SpoolError, SpoolKey};
use super::spooled::{self, Filling};
use super::{Guest, unreadable};
use crate::http::respond::{self, Answer};
use crate::metrics::{Direction, Operation};
use crate::repos::Shown;
use bytes::{Bytes, BytesMut};
use grasp_git::upload::{self, V2Command, V2Reader};
use grasp_git::{GitError, Protocol, Running, Service, advertise};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::time::Instant;

/// How much of a request is read before it takes a place: most are shorter, so that a slow sender
/// waits for itself and not with a git process at its side.
const OPENING_BYTES: usize = 64 << 10;
/// One piece of the answer.
const PIECE_BYTES: usize = 64 << 10;

/// Shown by git as `remote error: ...`.
const EMPTY: &str = "this repository waits for its git data: nothing has been pushed here yet, so \
                     there is nothing to fetch";
const BROKEN_OFF: &str = "the request ends in the middle; try again";
const NO_WORDS: &str = "git could not answer this request; fetch everything, or try again later";
const NO_GIT: &str = "the server could not start git; try again later";
const LATE: &str = "the request took too long; fetch less at a time";

pub(super) async fn serve(
    guest: Guest,
    protocol: Protocol,
    shown: &Arc<Shown>,
    mut body: Inbound,
) -> Answer {
    let (opening, is_whole) = match opening(protocol, shown, &mut body).await {
        Ok(Opening::Fetch { bytes, is_whole }) if shown.exists => (bytes, is_whole),
        Ok(Opening::Fetch { .. }) => return result(upload::error(EMPTY)),
        Ok(Opening::Answer(answer)) => return result(answer),
        Err(bad) => return unreadable(&bad),
    };
    let plain = is_whole.then(|| upload::request_without_haves(&opening)).flatten();
    let mut key = plain.map(|plain| SpoolKey::new(guest.repo.clone(), protocol, plain, shown));
    let (spool, payer) = (guest.node.turnstile.spool.clone(), guest.payer());
    if let Some(reader) = key.as_ref().and_then(|key| spool.join(key, payer)) {
        if reader.has_begun().await {
            return spooled::serve(guest, reader, body.wire_bytes()).await;
        }
        // Another client's answer failed before its first byte. This client gets its own.
        key = None;
    }
    let slot = match guest.node.turnstile.uploads.take(payer).await {
        Ok(slot) => slot,
        Err(busy) => return guest.without_slot(busy),
    };
    let spooling = match key {
        Some(key) => spool.open(key, Arc::clone(shown), payer).await,
        None => None,
    };
    // The same answer may have been begun while this request waited.
    if let Some((reader, None)) = spooling {
        drop(slot);
        return spooled::serve(guest, reader, body.wire_bytes()).await;
    }
    let host = &guest.node.host;
    let running = match host.git.upload_pack(&host.layout.repository(&guest.repo), protocol) {
        Ok(running) => running,
        Err(error) => {
            tracing::error!(%error, "cannot serve a fetch");
            return result(upload::error(NO_GIT));
        }
    };
    if let Some((reader, Some(writer))) = spooling {
        let limit = guest.node.turnstile.limits.timeout;
        let filling = Filling { slot, writer, limit };
        guest.node.tasks.spawn(filling.run(running, opening));
        return spooled::serve(guest, reader, body.wire_bytes()).await;
    }
    stream(guest, slot, running, FetchRequest { opening, body }).await
}

/// What is said to git: the start of the request, and where the rest of it comes from.
struct FetchRequest {
    opening: Bytes,
    body: Inbound,
}

/// An answer for this client alone.
async fn stream(guest: Guest, slot: Slot, running: Running, mut request: FetchRequest) -> Answer {
    let (to, mut answering) = outbound(slot.meter());
    let ended = slot.ended();
    request.body.measure_with(slot.meter());
    let fetch = Fetch { guest, to, has_some: false, sent_bytes: 0 };
    let tasks = fetch.guest.node.tasks.clone();
    tasks.spawn(fetch.run(slot, running, request));
    tokio::select! {
        biased;
        () = ended.cancelled() => respond::busy(&Busy::Slowest.to_string()),
        () = answering.begun() => result(answering.into_body()),
    }
}

pub(super) fn result(body: impl Into<axum::body::Body>) -> Answer {
    respond::git(advertise::result_type(Service::UploadPack), body)
}

enum Opening {
    /// For git: the start of the request, all of it if it is short.
    Fetch {
        bytes: Bytes,
        is_whole: bool,
    },
    Answer(Bytes),
}

async fn opening(
    protocol: Protocol,
    shown: &Shown,
    body: &mut Inbound,
) -> Result<Opening, BadBody> {
    let (mut so_far, mut reader) = (BytesMut::new(), V2Reader::default());
    let mut is_known = protocol != Protocol::V2;
    loop {
        let piece = body.piece().await?;
        let is_whole = piece.is_none();
        so_far.extend_from_slice(&piece.unwrap_or_default());
        if !is_known {
            match reader.read(&so_far) {
                Ok(V2Command::Fetch) => is_known = true,
                Ok(V2Command::LsRefs(asked)) => {
                    return Ok(Opening::Answer(upload::ls_refs(&asked, &shown.refs)));
                }
                Ok(V2Command::Nothing) => return Ok(Opening::Answer(Bytes::new())),
                Ok(V2Command::Incomplete) if is_whole => {
                    return Ok(Opening::Answer(upload::error(BROKEN_OFF)));
                }
                Ok(V2Command::Incomplete) => {}
                Err(bad) => return Ok(Opening::Answer(upload::error(&bad.to_string()))),
            }
        }
        if is_whole || (is_known && so_far.len() >= OPENING_BYTES) {
            return Ok(Opening::Fetch { bytes: so_far.freeze(), is_whole });
        }
    }
}

/// Why a fetch ended before git was done with it.
pub(super) enum Stop {
    Body(BadBody),
    Left,
    /// Another client needs the slot more.
    Ended,
    Late,
    /// The answer that it read is not whole.
    Spool(SpoolError),
}

pub(super) struct Fetch {
    pub(super) guest: Guest,
    pub(super) to: Outbound,
    /// The client named objects it already has.
    pub(super) has_some: bool,
    pub(super) sent_bytes: u64,
}

impl Fetch {
    async fn run(mut self, slot: Slot, running: Running, request: FetchRequest) {
        let FetchRequest { opening, mut body } = request;
        let started = Instant::now();
        let limit = self.guest.node.turnstile.limits.timeout;
        let ended = slot.ended();
        let done = tokio::select! {
            done = self.talk(running, opening, &mut body, limit) => done,
            () = ended.cancelled() => Err(Stop::Ended),
        };
        let is_fine = matches!(done, Ok(Ok(())));
        match done {
            Ok(Ok(())) => {}
            Ok(Err(error)) => self.git_failed(&error).await,
            Err(stop) => self.stopped(&stop).await,
        }
        drop(slot);
        self.count(is_fine, started.elapsed(), body.wire_bytes());
    }

    /// Until git has said everything and has ended. Dropping it on the way ends git.
    async fn talk(
        &mut self,
        running: Running,
        opening: Bytes,
        body: &mut Inbound,
        limit: Duration,
    ) -> Result<Result<(), GitError>, Stop> {
        let Running { stdin, stdout, exit } = running;
        let feed = feed(stdin, opening, body, &mut self.has_some);
        let pump = pump(stdout, &self.to, &mut self.sent_bytes);
        tokio::select! {
            both = async { tokio::try_join!(feed, pump) } => both.map(drop)?,
            () = self.to.left() => return Err(Stop::Left),
            () = tokio::time::sleep(limit) => return Err(Stop::Late),
        }
        Ok(exit.finish().await)
    }

    /// What git has to say to the client it says itself; this is for when it could not.
    async fn git_failed(&self, error: &GitError) {
        tracing::debug!(repo = %self.guest.repo, %error, "git ended a fetch");
        let in_order = matches!(error, GitError::Failed { code: Some(_), .. });
        match (self.sent_bytes, in_order) {
            (0, _) => self.last_words(NO_WORDS).await,
            (_, true) => {}
            (_, false) => self.to.break_off(),
        }
    }

    pub(super) async fn stopped(&self, stop: &Stop) {
        let words = match stop {
            Stop::Left | Stop::Body(BadBody::Gone) => return,
            Stop::Ended => Busy::Slowest.to_string(),
            Stop::Body(bad) => bad.to_string(),
            Stop::Late => LATE.to_owned(),
            Stop::Spool(error) => format!("{error}; try again later"),
        };
        tracing::debug!(repo = %self.guest.repo, why = words, "a fetch was ended");
        if self.sent_bytes == 0 {
            return self.last_words(&words).await;
        }
        // What a slow client has not taken yet is in the way of any word.
        self.to.break_off();
        self.guest.hang_up.cancel();
    }

    async fn last_words(&self, words: &str) {
        // The channel is empty, so this waits for nobody.
        let _ = self.to.send(upload::error(words)).await;
    }

    pub(super) fn count(&self, is_fine: bool, took: Duration, wire_bytes: u64) {
        let (metrics, turnstile) = (&self.guest.node.metrics, &self.guest.node.turnstile);
        let operation = if self.has_some { Operation::Fetch } else { Operation::Clone };
        metrics.git.done(operation, is_fine, took);
        metrics.git.moved(Direction::In, wire_bytes);
        metrics.git.moved(Direction::Out, self.sent_bytes);
        turnstile.traffic.moved(&self.guest.repo, wire_bytes.saturating_add(self.sent_bytes));
    }
}

/// The request to git. If git stops listening it has its reasons, and will tell them.
async fn feed(
    mut stdin: ChildStdin,
    opening: Bytes,
    body: &mut Inbound,
    has_some: &mut bool,
) -> Result<(), Stop> {
    let mut piece = Some(opening);
    while let Some(bytes) = piece {
        *has_some = *has_some || bytes.windows(HAVE.len()).any(|at| at == HAVE);
        if stdin.write_all(&bytes).await.is_err() {
            break;
        }
        piece = body.piece().await.map_err(Stop::Body)?;
    }
    Ok(())
}

const HAVE: &[u8] = b"have ";

/// Git's answer to the client.
async fn pump(mut stdout: ChildStdout, to: &Outbound, sent_bytes: &mut u64) -> Result<(), Stop> {
    let mut piece = BytesMut::with_capacity(PIECE_BYTES);
    // A pipe that cannot be read has ended; why is for the exit to say.
    while stdout.read_buf(&mut piece).await.is_ok_and(|read| read > 0) {
        let len = piece.len() as u64;
        to.send(piece.split().freeze()).await.map_err(|Gone| Stop::Left)?;
        *sent_bytes = sent_bytes.saturating_add(len);
        piece.reserve(PIECE_BYTES);
    }
    Ok(())
}

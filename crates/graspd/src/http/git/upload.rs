//! The second request of a clone or fetch. Listing refs is answered here; objects are packed by a
//! git process of its own, whose input and output flow at the same time and are never whole in
//! memory. The process lives no longer than somebody wants its answer.

use super::body::{BadBody, Inbound};
use super::outbound::{Lost, Outbound, outbound};
use super::pace::Pace;
use super::slots::Slot;
use super::{Guest, unreadable};
use crate::http::respond::{self, Answer};
use crate::metrics::{Direction, Operation};
use crate::repos::Shown;
use bytes::{Bytes, BytesMut};
use grasp_git::upload::{self, V2Command, V2Reader};
use grasp_git::{GitError, Protocol, Running, Service, advertise};
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
const EMPTY: &str = "this repository has no objects yet; there is nothing to fetch";
const BROKEN_OFF: &str = "the request ends in the middle; try again";
const NO_WORDS: &str = "git could not answer this request; fetch everything, or try again later";
const NO_GIT: &str = "the server could not start git; try again later";
const LATE: &str = "the request took too long; fetch less at a time";

pub(super) async fn serve(
    guest: Guest,
    protocol: Protocol,
    shown: &Shown,
    mut body: Inbound,
) -> Answer {
    let opening = match opening(protocol, shown, &mut body).await {
        Ok(Opening::Fetch(opening)) if shown.exists => opening,
        Ok(Opening::Fetch(_)) => return result(upload::error(EMPTY)),
        Ok(Opening::Answer(answer)) => return result(answer),
        Err(bad) => return unreadable(&bad),
    };
    let slot = match guest.node.turnstile.uploads.take(guest.payer()).await {
        Ok(slot) => slot,
        Err(busy) => return respond::busy(&busy.to_string()),
    };
    let host = &guest.node.host;
    let running = match host.git.upload_pack(&host.layout.repository(&guest.repo), protocol) {
        Ok(running) => running,
        Err(error) => {
            tracing::error!(%error, "cannot serve a fetch");
            return result(upload::error(NO_GIT));
        }
    };
    let (to, answering) = outbound();
    let fetch = Fetch { guest, to, has_some: false, sent_bytes: 0 };
    let tasks = fetch.guest.node.tasks.clone();
    tasks.spawn(fetch.run(slot, running, opening, body));
    result(answering.into_body())
}

fn result(body: impl Into<axum::body::Body>) -> Answer {
    respond::git(advertise::result_type(Service::UploadPack), body)
}

enum Opening {
    /// For git: the start of the request, all of it if it is short.
    Fetch(Bytes),
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
            return Ok(Opening::Fetch(so_far.freeze()));
        }
    }
}

/// Why a fetch ended before git was done with it.
enum Stop {
    Body(BadBody),
    Lost(Lost),
    Late,
}

struct Fetch {
    guest: Guest,
    to: Outbound,
    /// The client named objects it already has.
    has_some: bool,
    sent_bytes: u64,
}

impl Fetch {
    async fn run(mut self, slot: Slot, running: Running, opening: Bytes, mut body: Inbound) {
        let started = Instant::now();
        let limit = self.guest.node.turnstile.limits.timeout;
        let done = self.talk(running, opening, &mut body, limit).await;
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
            () = self.to.left() => return Err(Stop::Lost(Lost::Gone)),
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

    async fn stopped(&self, stop: &Stop) {
        let words = match stop {
            Stop::Lost(Lost::Gone) | Stop::Body(BadBody::Gone) => return,
            Stop::Lost(Lost::Slow) => return self.guest.hang_up.cancel(),
            Stop::Body(bad) => bad.to_string(),
            Stop::Late => LATE.to_owned(),
        };
        tracing::debug!(repo = %self.guest.repo, why = words, "a fetch was ended");
        match self.sent_bytes {
            0 => self.last_words(&words).await,
            _ => self.to.break_off(),
        }
    }

    async fn last_words(&self, words: &str) {
        // The channel is empty, so this waits for nobody.
        let _ = self.to.send(upload::error(words), &mut Pace::default()).await;
    }

    fn count(&self, is_fine: bool, took: Duration, wire_bytes: u64) {
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
    let mut pace = Pace::default();
    let mut piece = BytesMut::with_capacity(PIECE_BYTES);
    // A pipe that cannot be read has ended; why is for the exit to say.
    while stdout.read_buf(&mut piece).await.is_ok_and(|read| read > 0) {
        let len = piece.len() as u64;
        to.send(piece.split().freeze(), &mut pace).await.map_err(Stop::Lost)?;
        *sent_bytes = sent_bytes.saturating_add(len);
        piece.reserve(PIECE_BYTES);
    }
    Ok(())
}

//! Clones by way of the spool: one task lets git fill a pack at its own speed, and one task for each
//! client reads it at the client's.

use super::Guest;
use super::outbound::{Gone, outbound};
use super::slots::{Busy, Slot};
use super::spool::{PackReader, PackWriter, SpoolError};
use super::upload::{Fetch, Stop, result};
use crate::http::respond::{self, Answer};
use bytes::{Bytes, BytesMut};
use grasp_git::{GitError, Running};
use std::convert::Infallible;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::ChildStdout;
use tokio::time::Instant;

/// What is written at a time.
const PIECE_BYTES: usize = 256 << 10;
/// An answer of git that is no pack but says what is wrong is not longer than this.
const ERROR_BYTES_MAX: u64 = 4 << 10;

/// The answer to one client, as far as it is in the spool.
pub(super) async fn serve(guest: Guest, reader: PackReader, wire_bytes: u64) -> Answer {
    let slot = match guest.node.turnstile.readers.take(guest.payer()).await {
        Ok(slot) => slot,
        Err(busy) => return guest.without_slot(busy),
    };
    let (to, mut answering) = outbound(slot.meter());
    let ended = slot.ended();
    let fetch = Fetch { guest, to, has_some: false, sent_bytes: 0 };
    let tasks = fetch.guest.node.tasks.clone();
    tasks.spawn(fetch.read(slot, reader, wire_bytes));
    tokio::select! {
        biased;
        () = ended.cancelled() => respond::busy(&Busy::Slowest.to_string()),
        () = answering.begun() => result(answering.into_body()),
    }
}

impl Fetch {
    async fn read(mut self, slot: Slot, mut reader: PackReader, wire_bytes: u64) {
        let (started, ended) = (Instant::now(), slot.ended());
        let done = tokio::select! {
            done = self.pass_on(&mut reader) => done,
            () = ended.cancelled() => Err(Stop::Ended),
        };
        drop((reader, slot));
        if let Err(stop) = &done {
            self.stopped(stop).await;
        }
        self.count(done.is_ok(), started.elapsed(), wire_bytes);
    }

    async fn pass_on(&mut self, reader: &mut PackReader) -> Result<(), Stop> {
        loop {
            let piece = tokio::select! {
                piece = reader.next() => piece.map_err(Stop::Spool)?,
                () = self.to.left() => return Err(Stop::Left),
            };
            let Some(piece) = piece else { return Ok(()) };
            let len = piece.len() as u64;
            self.to.send(piece).await.map_err(|Gone| Stop::Left)?;
            self.sent_bytes = self.sent_bytes.saturating_add(len);
        }
    }
}

/// Git at work on a pack of the spool.
pub(super) struct Filling {
    pub(super) slot: Slot,
    pub(super) writer: PackWriter,
    pub(super) limit: Duration,
}

impl Filling {
    /// Until git is done, or no client reads any more. Dropping what runs ends git.
    pub(super) async fn run(self, running: Running, request: Bytes) {
        let ended = self.slot.ended();
        let end = tokio::select! {
            end = self.fill(running, request) => end,
            () = self.writer.abandoned() => Err(SpoolError::Unfinished),
            () = ended.cancelled() => Err(SpoolError::Unfinished),
            () = tokio::time::sleep(self.limit) => Err(SpoolError::Unfinished),
            // Git may be silent for long while it counts objects.
            never = self.keep_while_shared() => match never {},
        };
        let Self { slot, writer, .. } = self;
        // Readers need no slot of git.
        drop(slot);
        writer.finish(end);
    }

    async fn keep_while_shared(&self) -> Infallible {
        self.writer.shared().await;
        self.slot.set_can_end(self.writer.is_ring());
        std::future::pending().await
    }

    async fn fill(&self, running: Running, request: Bytes) -> Result<(), SpoolError> {
        let Running { mut stdin, stdout, exit } = running;
        let feed = async move {
            // If git stops listening it has its reasons, and will tell them.
            let _ = stdin.write_all(&request).await;
            Ok(())
        };
        tokio::try_join!(feed, self.pump(stdout))?;
        match exit.finish().await {
            Ok(()) => Ok(()),
            // Git has told the client itself.
            Err(GitError::Failed { code: Some(_), .. })
                if (1..ERROR_BYTES_MAX).contains(&self.writer.written_bytes()) =>
            {
                Ok(())
            }
            Err(error) => {
                tracing::debug!(%error, "git ended a clone");
                Err(SpoolError::Unfinished)
            }
        }
    }

    async fn pump(&self, mut stdout: ChildStdout) -> Result<(), SpoolError> {
        let meter = self.slot.meter();
        let mut piece = BytesMut::with_capacity(PIECE_BYTES);
        // A pipe that cannot be read has ended; why is for the exit to say.
        while stdout.read_buf(&mut piece).await.is_ok_and(|read| read > 0) {
            // Clients that share an answer do not lose it because of its first reader's share. A
            // ring is as slow as its slowest reader.
            self.slot.set_can_end(self.writer.is_ring() || !self.writer.is_shared());
            meter.add_bytes(piece.len());
            self.writer.write(piece.split().freeze(), &meter).await?;
            piece.reserve(PIECE_BYTES);
        }
        Ok(())
    }
}

//! A pack on its way from a client to git, past the gate: while one piece is read, the one before it
//! is checked and the one before that is handed to git. git never sees a byte the gate has not passed.

use super::{Gate, Git, PackLimits, ReceiveError, Seen};
use crate::gate::PackRefused;
use crate::process::Running;
use bytes::{Bytes, BytesMut};
use std::io;
use std::path::Path;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

const PIECE_LEN: usize = 256 << 10;

type Source<'a> = dyn AsyncRead + Send + Unpin + 'a;

/// Why the stream stopped before its end.
enum Stop {
    Refused(ReceiveError),
    /// git does not listen any more; it will say why.
    GitLeft,
}

pub(super) async fn take(
    git: &Git,
    limits: &PackLimits,
    pack: &mut Source<'_>,
    dir: &Path,
    file: &Path,
) -> Result<Seen, ReceiveError> {
    let first = read(pack).await.map_err(ReceiveError::Upload)?;
    if first.is_empty() {
        return Ok(Seen::default());
    }
    let (gate, first) = pass(Gate::new(limits), first).await?;
    if matches!(gate.promised(), None | Some(0)) {
        return rest_of_nothing(gate, pack).await;
    }
    let mut running = git.index_pack(dir, file, limits)?;
    match stream(gate, first, pack, &mut running).await {
        Ok(seen) => {
            running.finish().await?;
            Ok(seen)
        }
        Err(Stop::Refused(why)) => Err(why),
        Err(Stop::GitLeft) => match running.finish().await {
            Err(why) => Err(why.into()),
            Ok(()) => Err(ReceiveError::GitLeft),
        },
    }
}

/// A pack without objects, or a few bytes that are none: not worth a process.
async fn rest_of_nothing(mut gate: Gate, pack: &mut Source<'_>) -> Result<Seen, ReceiveError> {
    loop {
        let piece = read(pack).await.map_err(ReceiveError::Upload)?;
        if piece.is_empty() {
            return Ok(gate.finish()?);
        }
        (gate, _) = pass(gate, piece).await?;
    }
}

async fn stream(
    mut gate: Gate,
    mut passed: Bytes,
    pack: &mut Source<'_>,
    running: &mut Running,
) -> Result<Seen, Stop> {
    let mut piece = read_next(pack).await?;
    while !piece.is_empty() {
        let stdin = &mut running.stdin;
        let write = async { stdin.write_all(&passed).await.map_err(|_| Stop::GitLeft) };
        let check = async { pass(gate, piece).await.map_err(Stop::Refused) };
        let ((), (gate_after, checked), next) =
            tokio::try_join!(write, check, read_next(&mut *pack))?;
        (gate, passed, piece) = (gate_after, checked, next);
    }
    // Before the last piece: with it git begins to work, so the pack must be known to be whole.
    let seen = gate.finish().map_err(|why| Stop::Refused(why.into()))?;
    running.stdin.write_all(&passed).await.map_err(|_| Stop::GitLeft)?;
    Ok(seen)
}

async fn read_next(pack: &mut Source<'_>) -> Result<Bytes, Stop> {
    read(pack).await.map_err(|error| Stop::Refused(ReceiveError::Upload(error)))
}

/// A full piece, or what was left; empty at the end.
async fn read(pack: &mut Source<'_>) -> io::Result<Bytes> {
    let mut piece = BytesMut::with_capacity(PIECE_LEN);
    while piece.len() < PIECE_LEN && pack.read_buf(&mut piece).await? > 0 {}
    Ok(piece.freeze())
}

/// Inflating takes milliseconds, so it happens off the network threads.
async fn pass(gate: Gate, piece: Bytes) -> Result<(Gate, Bytes), ReceiveError> {
    let passed = tokio::task::spawn_blocking(move || feed(gate, piece)).await;
    passed.map_err(|error| ReceiveError::Io(io::Error::other(error)))?.map_err(Into::into)
}

fn feed(mut gate: Gate, piece: Bytes) -> Result<(Gate, Bytes), PackRefused> {
    gate.feed(&piece)?;
    Ok((gate, piece))
}

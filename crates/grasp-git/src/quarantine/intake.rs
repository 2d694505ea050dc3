//! A pack on its way from a client to git, past the gate: while one piece is read, the one before it
//! is checked and the one before that is handed to git. git never sees a byte the gate has not passed.

use super::pack_room::PackRoom;
use super::{Gate, Git, PackLimits, PackLinks, ReceiveError, Seen};
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

/// What a piece passes before git gets it: is it a pack, and is there room for it?
struct Checks {
    gate: Gate,
    room: PackRoom,
}

/// Where a pack goes.
#[derive(Clone, Copy)]
pub(super) struct PackPlace<'a> {
    pub(super) dir: &'a Path,
    pub(super) file: &'a Path,
    pub(super) links: PackLinks,
}

pub(super) async fn take(
    git: &Git,
    limits: &PackLimits,
    pack: &mut Source<'_>,
    place: PackPlace<'_>,
) -> Result<Seen, ReceiveError> {
    let PackPlace { dir, file, links } = place;
    let first = read(pack).await.map_err(ReceiveError::Upload)?;
    if first.is_empty() {
        return Ok(Seen::default());
    }
    let checks = Checks { gate: Gate::new(limits), room: PackRoom::open(git.disk())? };
    let (checks, first) = pass(checks, first).await?;
    if matches!(checks.gate.promised(), None | Some(0)) {
        return rest_of_nothing(checks, pack).await;
    }
    let mut running = git.index_pack(dir, file, limits, links)?;
    match stream(checks, first, pack, &mut running).await {
        Ok((seen, mut room)) => {
            tokio::select! {
                ended = running.finish() => ended?,
                no_room = room.follow_growth(file, seen.bytes) => return Err(no_room.into()),
            }
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
async fn rest_of_nothing(mut checks: Checks, pack: &mut Source<'_>) -> Result<Seen, ReceiveError> {
    loop {
        let piece = read(pack).await.map_err(ReceiveError::Upload)?;
        if piece.is_empty() {
            return Ok(checks.gate.finish()?);
        }
        (checks, _) = pass(checks, piece).await?;
    }
}

async fn stream(
    mut checks: Checks,
    mut passed: Bytes,
    pack: &mut Source<'_>,
    running: &mut Running,
) -> Result<(Seen, PackRoom), Stop> {
    let mut piece = read_next(pack).await?;
    while !piece.is_empty() {
        let stdin = &mut running.stdin;
        let write = async { stdin.write_all(&passed).await.map_err(|_| Stop::GitLeft) };
        let check = async { pass(checks, piece).await.map_err(Stop::Refused) };
        let ((), (checks_after, checked), next) =
            tokio::try_join!(write, check, read_next(&mut *pack))?;
        let taken_bytes = len(&passed);
        (checks, passed, piece) = (checks_after, checked, next);
        checks.room.taken(taken_bytes);
    }
    // Before the last piece: with it git begins to work, so the pack must be known to be whole.
    let Checks { gate, mut room } = checks;
    let seen = gate.finish().map_err(|why| Stop::Refused(why.into()))?;
    if !seen.unsure.is_empty() {
        room.expect_growth().map_err(|why| Stop::Refused(why.into()))?;
    }
    running.stdin.write_all(&passed).await.map_err(|_| Stop::GitLeft)?;
    Ok((seen, room))
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
async fn pass(checks: Checks, piece: Bytes) -> Result<(Checks, Bytes), ReceiveError> {
    let passed = tokio::task::spawn_blocking(move || feed(checks, piece)).await;
    passed.map_err(|error| ReceiveError::Io(io::Error::other(error)))?
}

fn feed(mut checks: Checks, piece: Bytes) -> Result<(Checks, Bytes), ReceiveError> {
    checks.gate.feed(&piece)?;
    checks.room.reserve(len(&piece), checks.gate.begun())?;
    Ok((checks, piece))
}

fn len(piece: &Bytes) -> u64 {
    u64::try_from(piece.len()).unwrap_or(u64::MAX)
}

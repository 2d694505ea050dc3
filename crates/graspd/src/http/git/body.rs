//! The body of a request, read as it comes: decompressed if need be, never faster than it is used,
//! and not for ever. It knows nothing of git. Whoever sends too little, too much or nonsense is told
//! so once, and gets no further.

use super::inflate::{BadGzip, Inflater};
use super::pace::{Pace, TooSlow};
use super::rate::RateMeter;
use axum::body::{Body, BodyDataStream};
use bytes::{Buf, Bytes, BytesMut};
use futures_util::Stream;
use hyper::{HeaderMap, header};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_util::sync::CancellationToken;

/// How much is read at a time where the reader does not say.
const PIECE_BYTES: usize = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Encoding {
    Identity,
    Gzip,
}

impl Encoding {
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut named = headers.get_all(header::CONTENT_ENCODING).iter();
        match (named.next().map(|value| value.as_bytes().to_ascii_lowercase()), named.next()) {
            (None, _) => Some(Self::Identity),
            (Some(name), None) => match name.as_slice() {
                b"" | b"identity" => Some(Self::Identity),
                b"gzip" | b"x-gzip" => Some(Self::Gzip),
                _ => None,
            },
            (Some(_), Some(_)) => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadBody {
    #[error("the connection broke in the middle of the request")]
    Gone,
    #[error("the request came too slowly: {0}; try again on a better line")]
    Slow(#[from] TooSlow),
    #[error("the request took longer than {secs} s to say what it wants; try again")]
    Late { secs: u64 },
    #[error("the request is larger than {max} bytes; ask for less at a time")]
    Long { max: u64 },
    #[error("{0}")]
    Gzip(#[from] BadGzip),
}

/// How much of a request is let in that nobody will look at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drain {
    pub(super) bytes: u64,
    pub(super) time: Duration,
}

/// Read it as [`AsyncRead`], or in pieces.
pub(super) struct Inbound {
    source: BodyDataStream,
    /// Arrived, not yet decompressed.
    wire: Bytes,
    /// Ready, and handed back.
    back: Bytes,
    inflater: Option<Inflater>,
    pace: Pace,
    /// Told how fast the client sends, once it holds a slot.
    meter: Option<Arc<RateMeter>>,
    waiting: Option<Waiting>,
    wire_bytes: u64,
    /// How much may still come out.
    left_bytes: u64,
    bytes_max: u64,
    /// Cancelled once the last byte has arrived.
    ended: CancellationToken,
    failed: Option<BadBody>,
}

struct Waiting {
    since: Instant,
    alarm: Pin<Box<Sleep>>,
}

impl std::fmt::Debug for Inbound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Inbound").field("wire_bytes", &self.wire_bytes).finish_non_exhaustive()
    }
}

impl Inbound {
    /// At most `bytes_max` bytes will come out.
    pub(super) fn new(body: Body, encoding: Encoding, bytes_max: u64) -> Self {
        Self {
            source: body.into_data_stream(),
            wire: Bytes::new(),
            back: Bytes::new(),
            inflater: (encoding == Encoding::Gzip).then(Inflater::default),
            pace: Pace::default(),
            meter: None,
            waiting: None,
            wire_bytes: 0,
            left_bytes: bytes_max,
            bytes_max,
            ended: CancellationToken::new(),
            failed: None,
        }
    }

    pub(super) fn measure_with(&mut self, meter: Arc<RateMeter>) {
        self.meter = Some(meter);
    }

    /// The next piece; `None` at the end.
    pub(super) async fn piece(&mut self) -> Result<Option<Bytes>, BadBody> {
        let mut piece = BytesMut::with_capacity(PIECE_BYTES);
        let read = self.read_buf(&mut piece).await;
        match read {
            Ok(0) => Ok(None),
            Ok(_) => Ok(Some(piece.freeze())),
            Err(_) => Err(self.failed.clone().unwrap_or(BadBody::Gone)),
        }
    }

    /// Gives back the end of the last piece, to be read again.
    pub(super) fn unread(&mut self, rest: Bytes) {
        self.back = rest;
    }

    /// Waits until there is more or the end is reached; is there more? For a client that has to
    /// think before it goes on: what it moved so far does not count against it.
    pub(super) async fn expect_more(&mut self, patience: Duration) -> Result<bool, BadBody> {
        if !self.back.is_empty() {
            return Ok(true);
        }
        self.pace = Pace::patient(patience);
        let piece = self.piece().await;
        self.pace = Pace::default();
        Ok(piece?.map(|piece| self.unread(piece)).is_some())
    }

    /// Lets the rest of the body arrive and forgets it, so that a client that only listens once it
    /// has said everything gets its answer. False if it had more to say, or took longer.
    pub(super) async fn drain(&mut self, most: Drain) -> Result<bool, BadBody> {
        self.back.clear();
        let limit = self.wire_bytes.saturating_add(most.bytes);
        timeout(most.time, self.drain_up_to(limit)).await.unwrap_or(Ok(false))
    }

    async fn drain_up_to(&mut self, limit: u64) -> Result<bool, BadBody> {
        loop {
            self.wire.clear();
            match std::future::poll_fn(|cx| self.poll_wire(cx)).await {
                Ok(false) => return Ok(true),
                Ok(true) if self.wire_bytes > limit => return Ok(false),
                Ok(true) => {}
                Err(bad) => return Err(self.fail(bad)),
            }
        }
    }

    /// What came over the network so far.
    pub(super) fn wire_bytes(&self) -> u64 {
        self.wire_bytes
    }

    /// Why reading ended early, if it did.
    pub(super) fn failed(&self) -> Option<&BadBody> {
        self.failed.as_ref()
    }

    /// Tells when the client has said everything.
    pub(super) fn ended(&self) -> CancellationToken {
        self.ended.clone()
    }

    fn fail(&mut self, bad: BadBody) -> BadBody {
        self.failed = Some(bad.clone());
        bad
    }

    /// Something in `wire`, or the end (false).
    fn poll_wire(&mut self, cx: &mut Context<'_>) -> Poll<Result<bool, BadBody>> {
        while self.wire.is_empty() && !self.ended.is_cancelled() {
            match Pin::new(&mut self.source).poll_next(cx) {
                Poll::Ready(arrived) => {
                    self.stop_waiting()?;
                    match arrived {
                        Some(Ok(piece)) => self.arrived(piece),
                        Some(Err(_)) => return Poll::Ready(Err(BadBody::Gone)),
                        None => self.ended.cancel(),
                    }
                }
                Poll::Pending => ready!(self.poll_patience(cx))?,
            }
        }
        Poll::Ready(Ok(!self.wire.is_empty()))
    }

    fn arrived(&mut self, piece: Bytes) {
        self.wire_bytes = self.wire_bytes.saturating_add(piece.len() as u64);
        self.pace.moved(piece.len());
        if let Some(meter) = &self.meter {
            meter.add_bytes(piece.len());
        }
        self.wire = piece;
    }

    fn stop_waiting(&mut self) -> Result<(), TooSlow> {
        if let Some(meter) = &self.meter {
            meter.end_wait();
        }
        match self.waiting.take() {
            Some(waiting) => self.pace.waited(waiting.since.elapsed()),
            None => Ok(()),
        }
    }

    /// Ready when it is time to look at the pace, and the pace is good enough to go on.
    fn poll_patience(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TooSlow>> {
        if let Some(meter) = &self.meter {
            meter.begin_wait();
        }
        let patience = self.pace.patience();
        let begin = || Waiting { since: Instant::now(), alarm: Box::pin(sleep(patience)) };
        let waiting = self.waiting.get_or_insert_with(begin);
        ready!(waiting.alarm.as_mut().poll(cx));
        Poll::Ready(self.stop_waiting())
    }

    fn poll_some(
        &mut self,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<Result<(), BadBody>> {
        if !self.back.is_empty() {
            put(&mut self.back, room);
            return Poll::Ready(Ok(()));
        }
        let before = room.filled().len();
        while room.filled().len() == before {
            if let Some(inflater) = &mut self.inflater {
                let made = inflater.inflate(&mut self.wire, room.initialize_unfilled())?;
                room.advance(made);
                if made > 0 {
                    break;
                }
            } else {
                put(&mut self.wire, room);
            }
            if room.filled().len() == before && !ready!(self.poll_wire(cx))? {
                self.inflater.as_ref().map_or(Ok(()), Inflater::finish)?;
                break;
            }
        }
        let came = (room.filled().len() - before) as u64;
        let left = self.left_bytes.checked_sub(came);
        self.left_bytes = left.ok_or(BadBody::Long { max: self.bytes_max })?;
        Poll::Ready(Ok(()))
    }
}

fn put(from: &mut Bytes, room: &mut ReadBuf<'_>) {
    let len = from.len().min(room.remaining());
    room.put_slice(from.get(..len).unwrap_or_default());
    from.advance(len);
}

impl AsyncRead for Inbound {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(bad) = &self.failed {
            return Poll::Ready(Err(io::Error::other(bad.clone())));
        }
        if room.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        let read = ready!(self.poll_some(cx, room));
        Poll::Ready(read.map_err(|bad| io::Error::other(self.fail(bad))))
    }
}

#[cfg(test)]
mod tests;

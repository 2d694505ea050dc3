//! A connection whose first bytes were read already, that counts what passes, and that may let its
//! own bytes out one by one.

use super::room::Room;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

#[derive(Debug)]
pub(super) struct Socket {
    inner: TcpStream,
    room: Arc<Room>,
    /// Read before, to be read again.
    head: Vec<u8>,
    drip: Option<(Duration, Pin<Box<Sleep>>)>,
}

impl Socket {
    pub(super) fn new(inner: TcpStream, head: Vec<u8>, room: Arc<Room>) -> Self {
        Self { inner, room, head, drip: None }
    }

    /// From now on.
    pub(super) fn drips(&mut self, every: Duration) {
        self.drip = Some((every, Box::pin(sleep(every))));
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.head.is_empty() {
            let len = self.head.len().min(buf.remaining());
            let head: Vec<u8> = self.head.drain(..len).collect();
            buf.put_slice(&head);
            return Poll::Ready(Ok(()));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        let read = buf.filled().len() - before;
        self.room.notes(|seen| seen.bytes_received += bytes(read));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut part = buf;
        if let Some((every, pause)) = &mut self.drip {
            ready!(pause.as_mut().poll(cx));
            *pause = Box::pin(sleep(*every));
            part = &buf[..buf.len().min(1)];
        }
        let written = ready!(Pin::new(&mut self.inner).poll_write(cx, part))?;
        self.room.notes(|seen| seen.bytes_sent += bytes(written));
        Poll::Ready(Ok(written))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

fn bytes(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

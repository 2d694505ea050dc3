//! A socket whose peer has to take what it is sent. It counts no bytes and knows no protocol: a write
//! that cannot go on for too long fails, and with it the connection.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

#[derive(Debug)]
pub struct Unstuck<S> {
    stream: S,
    patience: Duration,
    /// Set while the peer takes nothing.
    alarm: Option<Pin<Box<Sleep>>>,
}

impl<S> Unstuck<S> {
    pub fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, alarm: None }
    }

    fn poll_patience<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.alarm = None;
            return written;
        }
        let patience = self.patience;
        let alarm = self.alarm.get_or_insert_with(|| Box::pin(sleep(patience)));
        alarm.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Unstuck<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, room)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Unstuck<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.poll_patience(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.poll_patience(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_peer_that_takes_nothing_is_given_up() {
        let (near, mut far) = tokio::io::duplex(4);
        let mut near = Unstuck::new(near, Duration::from_millis(10));
        near.write_all(b"1234").await.unwrap();
        let stuck = near.write_all(b"5").await.unwrap_err();
        assert_eq!(stuck.kind(), io::ErrorKind::TimedOut);
        let mut taken = [0; 4];
        far.read_exact(&mut taken).await.unwrap();
        near.write_all(b"5678").await.unwrap();
    }
}

//! A socket whose peer has to take what it is sent. A peer has time for silence, which it spends by
//! waiting and earns by taking bytes, so a slow one that goes on is never cut, however unevenly
//! buffers on the way let bytes through. A peer that takes nothing fails its connection.

use super::idle::HttpConnection;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// Who takes this much on average is never cut.
const BYTES_PER_SEC_MIN: u64 = 1024;
/// The silence every peer has, also one that took nothing before.
const SILENCE_MIN: Duration = Duration::from_secs(60);
/// The silence a peer can earn. Buffers of several MB open in steps of more than 1 MB.
const SILENCE_MAX: Duration = Duration::from_secs(30 * 60);

/// The silence a peer may still keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SilenceCredit(Duration);

impl SilenceCredit {
    fn earn(&mut self, bytes: usize, max: Duration) {
        let earned = Duration::from_millis(bytes as u64 * 1_000 / BYTES_PER_SEC_MIN);
        self.0 = self.0.saturating_add(earned).min(max);
    }

    fn spend(&mut self, waited: Duration) {
        self.0 = self.0.saturating_sub(waited);
    }
}

#[derive(Debug)]
pub struct Unstuck<S> {
    stream: S,
    connection: Arc<HttpConnection>,
    credit: SilenceCredit,
    /// Set while the peer takes nothing.
    alarm: Option<(Instant, Pin<Box<Sleep>>)>,
}

impl<S> Unstuck<S> {
    pub fn new(stream: S, connection: Arc<HttpConnection>) -> Self {
        Self { stream, connection, credit: SilenceCredit(SILENCE_MIN), alarm: None }
    }

    fn poll_patience(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        let Poll::Ready(written) = written else {
            let credit = self.credit.0;
            let begin = || (Instant::now(), Box::pin(sleep(credit)));
            let (_, alarm) = self.alarm.get_or_insert_with(begin);
            return alarm.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()));
        };
        if let Some((since, _)) = self.alarm.take() {
            self.credit.spend(since.elapsed());
        }
        if let Ok(bytes) = written {
            self.credit.earn(bytes, self.silence_max());
        }
        Poll::Ready(written)
    }

    /// A WebSocket is watched by its own pings.
    fn silence_max(&self) -> Duration {
        if self.connection.is_upgraded() { SILENCE_MIN } else { SILENCE_MAX }
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
    use super::super::idle::ConnectionPlaces;
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    #[tokio::test]
    async fn a_peer_that_takes_nothing_is_given_up() {
        let (near, mut far) = tokio::io::duplex(4);
        let places = ConnectionPlaces::default();
        let connection = HttpConnection::new(Duration::from_secs(10), None, places);
        let mut near = Unstuck::new(near, connection);
        near.write_all(b"1234").await.unwrap();
        near.credit = SilenceCredit(Duration::from_millis(10));
        let stuck = near.write_all(b"5").await.unwrap_err();
        assert_eq!(stuck.kind(), io::ErrorKind::TimedOut);
        let mut taken = [0; 4];
        far.read_exact(&mut taken).await.unwrap();
        near.write_all(b"5678").await.unwrap();
    }

    /// Waits and takes by turns until the credit is spent: after how many turns?
    fn turns_until_given_up(wait: Duration, bytes: usize) -> Option<usize> {
        let mut credit = SilenceCredit(SILENCE_MIN);
        credit.earn(bytes, SILENCE_MAX);
        (0..1_000).find(|_| {
            credit.spend(wait);
            let is_over = credit.0.is_zero();
            credit.earn(bytes, SILENCE_MAX);
            is_over
        })
    }

    /// Full buffers of several MB on the way open rarely, and then by more than a megabyte.
    #[test]
    fn a_slow_peer_is_not_cut_although_buffers_let_bytes_through_in_large_steps() {
        for bytes in [1_448, 65_536, 262_144, 1_400_000] {
            let wait = Duration::from_millis(bytes as u64 * 1_000 / 1_100);
            assert_eq!(turns_until_given_up(wait, bytes), None, "{bytes} bytes");
        }
    }

    #[test]
    fn a_peer_that_drips_a_byte_now_and_then_is_given_up() {
        assert_eq!(turns_until_given_up(Duration::from_secs(5), 1), Some(11));
    }

    #[test]
    fn no_burst_pays_for_more_than_half_an_hour_of_silence() {
        assert!(turns_until_given_up(Duration::from_secs(31 * 60), 1 << 30).is_some());
        assert_eq!(turns_until_given_up(Duration::from_secs(29 * 60), 1 << 30), None);
    }
}

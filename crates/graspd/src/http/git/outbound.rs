//! An answer on its way out, piece by piece, from a task to the connection that sends it. The task
//! learns when the client has left. A client that takes too little loses its connection elsewhere
//! (`http/unstuck.rs`), and has then left.

use super::rate::RateMeter;
use axum::body::Body;
use bytes::Bytes;
use std::io;
use std::sync::Arc;
use tokio::sync::mpsc::{self, error::TrySendError};

/// Pieces between the task and the socket.
const PIECES_MAX: usize = 2;

/// The client has left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gone;

#[derive(Debug)]
pub(super) struct Outbound {
    pieces: mpsc::Sender<io::Result<Bytes>>,
    meter: Arc<RateMeter>,
}

/// The other end, to become a body.
#[derive(Debug)]
pub(super) struct Answering {
    first: Option<io::Result<Bytes>>,
    pieces: mpsc::Receiver<io::Result<Bytes>>,
}

/// `meter` learns how fast the client takes it.
pub(super) fn outbound(meter: Arc<RateMeter>) -> (Outbound, Answering) {
    let (sender, receiver) = mpsc::channel(PIECES_MAX);
    (Outbound { pieces: sender, meter }, Answering { first: None, pieces: receiver })
}

impl Answering {
    /// Waits until there is something to say, or everything has been said.
    pub(super) async fn begun(&mut self) {
        if self.first.is_none() {
            self.first = self.pieces.recv().await;
        }
    }

    pub(super) fn into_body(self) -> Body {
        let Self { mut first, mut pieces } = self;
        Body::from_stream(futures_util::stream::poll_fn(move |cx| match first.take() {
            Some(piece) => std::task::Poll::Ready(Some(piece)),
            None => pieces.poll_recv(cx),
        }))
    }
}

impl Outbound {
    /// Resolves when the client has left.
    pub(super) async fn left(&self) {
        self.pieces.closed().await;
    }

    /// Hands one piece over once there is room for it.
    pub(super) async fn send(&self, piece: Bytes) -> Result<(), Gone> {
        let len = piece.len();
        let place = match self.pieces.try_reserve() {
            Ok(place) => place,
            Err(TrySendError::Closed(())) => return Err(Gone),
            Err(TrySendError::Full(())) => {
                self.meter.begin_wait();
                let place = self.pieces.reserve().await;
                self.meter.end_wait();
                place.map_err(|_| Gone)?
            }
        };
        place.send(Ok(piece));
        self.meter.add_bytes(len);
        Ok(())
    }

    /// If there is room; nothing depends on it.
    pub(super) fn mention(&self, piece: Bytes) {
        let _ = self.pieces.try_send(Ok(piece));
    }

    /// The answer is not whole, and the client shall not think so.
    pub(super) fn break_off(&self) {
        let _ = self.pieces.try_send(Err(io::Error::other("broken off")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_sent_is_the_body_in_order() {
        let (to, mut answering) = outbound(Arc::default());
        let sending = tokio::spawn(async move {
            for number in 0..10_u8 {
                to.send(Bytes::from(vec![number])).await.unwrap();
            }
        });
        answering.begun().await;
        let body = axum::body::to_bytes(answering.into_body(), 100).await.unwrap();
        assert_eq!(body.as_ref(), (0..10).collect::<Vec<u8>>());
        sending.await.unwrap();
    }

    #[tokio::test]
    async fn a_client_that_takes_nothing_has_a_rate_of_nothing_until_it_leaves() {
        let meter = Arc::<RateMeter>::default();
        let (to, answering) = outbound(Arc::clone(&meter));
        for _ in 0..PIECES_MAX {
            assert_eq!(to.send(Bytes::from_static(b"x")).await, Ok(()));
        }
        assert_eq!(meter.bytes_per_sec(), None);
        let mut sending = std::pin::pin!(to.send(Bytes::from_static(b"x")));
        assert!(futures_util::future::poll_immediate(sending.as_mut()).await.is_none());
        let measured = async {
            while meter.bytes_per_sec().is_none() {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(20), measured).await.unwrap();
        assert!(meter.bytes_per_sec().unwrap() <= PIECES_MAX as u64);
        drop(answering);
        assert_eq!(sending.await, Err(Gone));
        to.left().await;
    }

    #[tokio::test]
    async fn an_answer_that_broke_off_does_not_end_well() {
        let (to, answering) = outbound(Arc::default());
        to.mention(Bytes::from_static(b"half"));
        to.break_off();
        drop(to);
        assert!(axum::body::to_bytes(answering.into_body(), 100).await.is_err());
    }
}

//! An answer on its way out, piece by piece, from a task to the connection that sends it. The task
//! learns when the client has left, or takes so little that it might as well have.

use super::pace::{Pace, TooSlow};
use axum::body::Body;
use bytes::Bytes;
use std::io;
use tokio::sync::mpsc::{self, error::TrySendError};
use tokio::time::{Instant, timeout};

/// Pieces between the task and the socket.
const PIECES_MAX: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lost {
    Gone,
    Slow,
}

impl From<TooSlow> for Lost {
    fn from(_: TooSlow) -> Self {
        Self::Slow
    }
}

#[derive(Debug)]
pub(super) struct Outbound {
    pieces: mpsc::Sender<io::Result<Bytes>>,
}

/// The other end, to become a body.
#[derive(Debug)]
pub(super) struct Answering {
    first: Option<io::Result<Bytes>>,
    pieces: mpsc::Receiver<io::Result<Bytes>>,
}

pub(super) fn outbound() -> (Outbound, Answering) {
    let (sender, receiver) = mpsc::channel(PIECES_MAX);
    (Outbound { pieces: sender }, Answering { first: None, pieces: receiver })
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
    pub(super) async fn send(&self, piece: Bytes, pace: &mut Pace) -> Result<(), Lost> {
        let len = piece.len();
        let place = match self.pieces.try_reserve() {
            Ok(place) => place,
            Err(TrySendError::Closed(())) => return Err(Lost::Gone),
            Err(TrySendError::Full(())) => self.room(pace).await?,
        };
        place.send(Ok(piece));
        pace.moved(len);
        Ok(())
    }

    async fn room(&self, pace: &mut Pace) -> Result<mpsc::Permit<'_, io::Result<Bytes>>, Lost> {
        loop {
            let since = Instant::now();
            let place = timeout(pace.patience(), self.pieces.reserve()).await;
            pace.waited(since.elapsed())?;
            match place {
                Ok(Ok(place)) => return Ok(place),
                Ok(Err(_)) => return Err(Lost::Gone),
                Err(_) => {}
            }
        }
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
    use std::time::Duration;

    #[tokio::test]
    async fn what_is_sent_is_the_body_in_order() {
        let (to, mut answering) = outbound();
        let sending = tokio::spawn(async move {
            let mut pace = Pace::default();
            for number in 0..10_u8 {
                to.send(Bytes::from(vec![number]), &mut pace).await.unwrap();
            }
        });
        answering.begun().await;
        let body = axum::body::to_bytes(answering.into_body(), 100).await.unwrap();
        assert_eq!(body.as_ref(), (0..10).collect::<Vec<u8>>());
        sending.await.unwrap();
    }

    #[tokio::test]
    async fn who_left_is_told_from_who_dawdles() {
        let (to, answering) = outbound();
        let mut pace = Pace::patient(Duration::from_millis(1));
        for _ in 0..PIECES_MAX {
            assert_eq!(to.send(Bytes::from_static(b"x"), &mut pace).await, Ok(()));
        }
        assert_eq!(to.send(Bytes::from_static(b"x"), &mut pace).await, Err(Lost::Slow));
        drop(answering);
        to.left().await;
        assert_eq!(to.send(Bytes::from_static(b"x"), &mut pace).await, Err(Lost::Gone));
    }

    #[tokio::test]
    async fn an_answer_that_broke_off_does_not_end_well() {
        let (to, answering) = outbound();
        to.mention(Bytes::from_static(b"half"));
        to.break_off();
        drop(to);
        assert!(axum::body::to_bytes(answering.into_body(), 100).await.is_err());
    }
}

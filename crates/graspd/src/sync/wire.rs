//! The writing half of a link: frames go out one after the other, and a relay that does not read
//! them is given up. The reading half never waits for it.

use crate::outbound::Stream;
use futures_util::SinkExt;
use futures_util::stream::SplitSink;
use std::collections::VecDeque;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_util::sync::CancellationToken;

type Sink = SplitSink<WebSocketStream<Stream>, Message>;

/// Frames on their way to the relay.
#[derive(Debug)]
pub(super) struct Outgoing {
    sender: mpsc::Sender<Message>,
    waiting: VecDeque<Message>,
    waiting_bytes: usize,
}

const FRAMES_LEN: usize = 16;
const WRITE_TIMEOUT: Duration = Duration::from_secs(20);
/// Questions the relay has not even read; beyond that there is no point in asking.
const WAITING_BYTES_MAX: usize = 64 << 20;

impl Outgoing {
    /// `broken` is cancelled when nothing can be written any more.
    pub(super) fn start(sink: Sink, broken: CancellationToken) -> Self {
        let (sender, frames) = mpsc::channel(FRAMES_LEN);
        tokio::spawn(write(sink, frames, broken));
        Self { sender, waiting: VecDeque::new(), waiting_bytes: 0 }
    }

    /// False: too much is waiting already.
    pub(super) fn push(&mut self, frame: Message) -> bool {
        self.waiting_bytes += frame.len();
        self.waiting.push_back(frame);
        self.flush();
        self.waiting_bytes <= WAITING_BYTES_MAX
    }

    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Resolves when another frame can be handed over.
    pub(super) async fn ready(&self) {
        // An error means that the writer has ended; the link notices by itself.
        if self.sender.reserve().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    pub(super) fn flush(&mut self) {
        while let Some(frame) = self.waiting.pop_front() {
            let bytes = frame.len();
            match self.sender.try_send(frame) {
                Ok(()) => self.waiting_bytes -= bytes,
                Err(mpsc::error::TrySendError::Full(frame)) => {
                    self.waiting.push_front(frame);
                    return;
                }
                Err(mpsc::error::TrySendError::Closed(_)) => return,
            }
        }
    }
}

async fn write(mut sink: Sink, mut frames: mpsc::Receiver<Message>, broken: CancellationToken) {
    let _gone = broken.clone().drop_guard();
    let mut waiting = Vec::new();
    while frames.recv_many(&mut waiting, FRAMES_LEN).await > 0 {
        for frame in waiting.drain(..) {
            let fed = tokio::time::timeout(WRITE_TIMEOUT, sink.feed(frame));
            if !matches!(fed.await, Ok(Ok(()))) {
                return;
            }
        }
        // One flush for as many frames as were there.
        let flushed = tokio::time::timeout(WRITE_TIMEOUT, sink.flush());
        if !matches!(flushed.await, Ok(Ok(()))) {
            return;
        }
    }
    // The link has ended on our side: say so, if anybody listens.
    let _ = tokio::time::timeout(Duration::from_secs(1), sink.close()).await;
}

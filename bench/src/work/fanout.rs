//! One event, many live subscribers, each on a connection of its own.

use crate::stats::Latencies;
use crate::wire::{Socket, accepted, connect, connect_many, hear, hear_until, say};
use anyhow::{Context, Result, ensure};
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::time::Instant;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Utf8Bytes;

#[derive(Debug, Default)]
pub(crate) struct Spread {
    /// From handing the event to our socket until the last subscriber has it.
    pub(crate) from_publish: Latencies,
    /// From its OK on; zero if everybody was faster than the OK.
    pub(crate) from_ok: Latencies,
}

/// Subscribers to all issues; nothing else is published meanwhile.
pub(crate) async fn spread(
    address: &str,
    subscribers: usize,
    messages: &[Utf8Bytes],
) -> Result<Spread> {
    let sockets = subscribed(address, subscribers).await?;
    let mut audience = Audience::of(sockets);
    let mut publisher = connect(address).await?;
    let mut spread = Spread::default();
    for message in messages {
        let started = Instant::now();
        say(&mut publisher, message.clone()).await?;
        accepted(&hear(&mut publisher).await?)?;
        let stored = Instant::now();
        let last = audience.last_arrival().await?;
        spread.from_publish.add(last.saturating_duration_since(started));
        spread.from_ok.add(last.saturating_duration_since(stored));
    }
    Ok(spread)
}

async fn subscribed(address: &str, count: usize) -> Result<Vec<Socket>> {
    let subscribe = |mut socket: Socket| async move {
        say(&mut socket, "[\"REQ\",\"live\",{\"kinds\":[1621],\"limit\":0}]").await?;
        hear_until(&mut socket, "[\"EOSE\"").await?;
        Ok::<_, anyhow::Error>(socket)
    };
    let sockets = connect_many(address, count).await?;
    let subscribing: FuturesUnordered<_> = sockets.into_iter().map(subscribe).collect();
    subscribing.collect::<Vec<_>>().await.into_iter().collect()
}

/// Sockets that only listen, each in a task of its own that ends with this value.
#[derive(Debug)]
pub(crate) struct Audience {
    size: usize,
    arrivals: mpsc::UnboundedReceiver<Result<Instant>>,
    _listening: JoinSet<()>,
}

impl Audience {
    pub(crate) fn of(sockets: Vec<Socket>) -> Self {
        let (arrived, arrivals) = mpsc::unbounded_channel();
        let size = sockets.len();
        let mut listening = JoinSet::new();
        for socket in sockets {
            listening.spawn(listen(socket, arrived.clone()));
        }
        Self { size, arrivals, _listening: listening }
    }

    /// When the last one had the next message.
    pub(crate) async fn last_arrival(&mut self) -> Result<Instant> {
        let mut last = None;
        for _ in 0..self.size {
            last = last.max(Some(self.arrivals.recv().await.context("nobody listens")??));
        }
        last.context("an audience of nobody")
    }
}

async fn listen(mut socket: Socket, arrived: mpsc::UnboundedSender<Result<Instant>>) {
    loop {
        let heard = hear(&mut socket).await.and_then(|text| {
            ensure!(text.starts_with("[\"EVENT\""), "a subscriber was told {}", text.as_str());
            Ok(Instant::now())
        });
        let is_over = heard.is_err();
        if arrived.send(heard).is_err() || is_over {
            return;
        }
    }
}

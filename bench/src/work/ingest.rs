//! Publishing over several connections, many events on their way at a time. An event counts once
//! its OK is here, and an OK means that it is on the disk.

use crate::stats::Latencies;
use crate::wire::{Socket, accepted, connect, connect_many, hear, publication, say};
use anyhow::{Context, Result};
use futures_util::{FutureExt, SinkExt, StreamExt};
use grasp_core::VerifiedEvent;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// The time from the first event sent to the last OK received.
pub(crate) async fn publish_all(
    address: &str,
    events: &[VerifiedEvent],
    connections: usize,
    in_flight_max: usize,
) -> Result<Duration> {
    let messages: Vec<Utf8Bytes> = events.iter().map(message_of).collect::<Result<_>>()?;
    let share = messages.len().div_ceil(connections).max(1);
    let sockets = connect_many(address, connections).await?;
    let shares: Vec<Vec<Utf8Bytes>> = messages.chunks(share).map(<[_]>::to_vec).collect();
    let started = Instant::now();
    let mut publishing = JoinSet::new();
    for (socket, share) in sockets.into_iter().zip(shares) {
        publishing.spawn(publish(socket, share, in_flight_max));
    }
    while let Some(done) = publishing.join_next().await {
        done??;
    }
    Ok(started.elapsed())
}

/// One event at a time on one connection: what a single person waits for.
pub(crate) async fn publish_alone(address: &str, events: &[VerifiedEvent]) -> Result<Latencies> {
    let mut socket = connect(address).await?;
    let mut latencies = Latencies::default();
    for event in events {
        let message = message_of(event)?;
        let started = Instant::now();
        say(&mut socket, message).await?;
        accepted(&hear(&mut socket).await?)?;
        latencies.add(started.elapsed());
    }
    Ok(latencies)
}

pub(crate) fn message_of(event: &VerifiedEvent) -> Result<Utf8Bytes> {
    Ok(publication(std::str::from_utf8(event.json())?))
}

async fn publish(mut socket: Socket, messages: Vec<Utf8Bytes>, in_flight_max: usize) -> Result<()> {
    let total = messages.len();
    let mut waiting = messages.into_iter();
    let (mut sent, mut answered) = (0, 0);
    while answered < total {
        for message in waiting.by_ref().take(in_flight_max - (sent - answered)) {
            socket.feed(Message::Text(message)).await?;
            sent += 1;
        }
        socket.flush().await?;
        accepted(&hear(&mut socket).await?)?;
        answered += 1 + take_ready(&mut socket)?;
    }
    Ok(())
}

/// Takes the answers that are already here, so that the next events leave together.
fn take_ready(socket: &mut Socket) -> Result<usize> {
    let mut taken = 0;
    while let Some(message) = socket.next().now_or_never() {
        if let Message::Text(text) = message.context("the server closed the connection")?? {
            accepted(&text)?;
            taken += 1;
        }
    }
    Ok(taken)
}

//! A process that does nothing but answer WebSocket messages, over loopback. Two floors rest on it:
//! a round trip with messages as long as those of the queries, and one message to many.

use crate::process;
use crate::stats::Latencies;
use crate::wire::{Socket, connect_many, hear, say};
use crate::work::fanout;
use anyhow::{Context, Result};
use futures_util::{SinkExt, StreamExt};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, Command};
use tokio::sync::broadcast;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::{Message, Utf8Bytes};

/// Bytes of one exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exchange {
    pub(crate) request: usize,
    pub(crate) answer: usize,
}

/// The hidden subcommand: serves until its standard input ends.
pub(crate) async fn serve() -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let everybody = broadcast::Sender::new(16);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(answer(stream, everybody.clone()));
        }
    });
    process::input_ended().await
}

/// A number and a space ask for that many bytes; anything else is for everybody.
async fn answer(stream: TcpStream, everybody: broadcast::Sender<Utf8Bytes>) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut socket = tokio_tungstenite::accept_async(stream).await?;
    let mut news = everybody.subscribe();
    loop {
        tokio::select! {
            text = news.recv() => socket.send(Message::Text(text?)).await?,
            message = socket.next() => match message {
                Some(Ok(Message::Text(text))) => {
                    match text.split_once(' ').and_then(|(wanted, _)| wanted.parse().ok()) {
                        Some(wanted) => socket.send(Message::text("x".repeat(wanted))).await?,
                        None => drop(everybody.send(text)),
                    }
                }
                _ => return Ok(()),
            }
        }
    }
}

/// One message to everybody, several times: from sending it to the last one having it.
pub(crate) async fn spread(subscribers: usize, messages: Vec<Utf8Bytes>) -> Result<Latencies> {
    let (_server, address) = start().await?;
    let mut sockets = connect_many(&address, subscribers + 1).await?;
    // A socket whose echo came back has joined; only then does it hear what is for everybody.
    for socket in &mut sockets {
        say(socket, "1 ").await?;
        hear(socket).await?;
    }
    let mut publisher = sockets.pop().context("a publisher")?;
    let mut audience = fanout::Audience::of(sockets);
    let mut latencies = Latencies::default();
    for message in messages {
        let started = Instant::now();
        say(&mut publisher, message).await?;
        latencies.add(audience.last_arrival().await? - started);
    }
    Ok(latencies)
}

/// Each connection repeats all exchanges, one at a time.
pub(crate) async fn latencies(connections: usize, exchanges: Vec<Exchange>) -> Result<Latencies> {
    let (_server, address) = start().await?;
    let exchanges: Arc<[Exchange]> = exchanges.into();
    let mut talks = JoinSet::new();
    for socket in connect_many(&address, connections).await? {
        talks.spawn(talk(socket, Arc::clone(&exchanges)));
    }
    let mut latencies = Latencies::default();
    while let Some(one) = talks.join_next().await {
        latencies.append(one??);
    }
    Ok(latencies)
}

async fn start() -> Result<(Child, String)> {
    let mut server = Command::new(std::env::current_exe()?)
        .arg("echo")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let stdout = server.stdout.take().context("its output is piped")?;
    let mut lines = BufReader::new(stdout).lines();
    let address = lines.next_line().await?.context("the echo server says where it listens")?;
    Ok((server, address))
}

async fn talk(mut socket: Socket, exchanges: Arc<[Exchange]>) -> Result<Latencies> {
    let mut latencies = Latencies::default();
    for Exchange { request, answer } in exchanges.iter() {
        let text = Utf8Bytes::from(format!("{answer} {}", "x".repeat(request.saturating_sub(6))));
        let started = Instant::now();
        say(&mut socket, text).await?;
        hear(&mut socket).await?;
        latencies.add(started.elapsed());
    }
    Ok(latencies)
}

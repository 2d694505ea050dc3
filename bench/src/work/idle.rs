//! Many connections that do nothing, held by a process of their own so that the generator's memory
//! and descriptors stay out of the picture.

use crate::process;
use crate::wire::connect_many;
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use std::process::Stdio;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio_tungstenite::tungstenite::Message;

/// The hidden subcommand: connects, says so, and holds on until its standard input ends.
pub(crate) async fn sit(address: &str, count: usize) -> Result<()> {
    let mut sockets = connect_many(address, count).await?;
    // An answered ping: the server has not only accepted but talks to each of them.
    for socket in &mut sockets {
        socket.send(Message::Ping(Bytes::new())).await?;
    }
    for socket in &mut sockets {
        let answer = socket.next().await.context("the server closed the connection")??;
        ensure!(answer.is_pong(), "a ping was answered with {answer:?}");
    }
    println!("{}", sockets.len());
    process::input_ended().await
}

/// A process with that many open connections; they end with it.
pub(crate) async fn start(address: &str, count: usize) -> Result<Child> {
    let mut sitting = Command::new(std::env::current_exe()?)
        .args(["idle", address, &count.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let stdout = sitting.stdout.take().context("its output is piped")?;
    let line = BufReader::new(stdout).lines().next_line().await?;
    let open = line.context("the idle connections could not be opened")?;
    ensure!(open.trim() == count.to_string(), "only {open} idle connections could be opened");
    Ok(sitting)
}

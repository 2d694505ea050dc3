//! A plain HTTP/1.1 client that wastes little: the same question again and again over connections
//! that stay open, and single posts.

use crate::stats::rate;
use anyhow::{Context, Result, bail, ensure};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

#[derive(Debug)]
pub(crate) struct Question {
    pub(crate) address: String,
    pub(crate) request: String,
}

impl Question {
    pub(crate) fn get(address: &str, target: &str, header: &str) -> Arc<Self> {
        let request = format!("GET {target} HTTP/1.1\r\nHost: {address}\r\n{header}\r\n");
        Arc::new(Self { address: address.to_owned(), request })
    }

    /// Answers per second, each connection asking again as soon as it has one. All are the same.
    pub(crate) async fn per_second(
        self: &Arc<Self>,
        connections: usize,
        time: Duration,
    ) -> Result<f64> {
        let expected: Arc<[u8]> = self.answer().await?.into();
        let started = Instant::now();
        let mut asking = JoinSet::new();
        for _ in 0..connections {
            asking.spawn(Arc::clone(self).ask(Arc::clone(&expected), started + time));
        }
        let mut count = 0;
        while let Some(asked) = asking.join_next().await {
            count += asked??;
        }
        Ok(rate(count, started.elapsed()))
    }

    /// One answer's body.
    pub(crate) async fn answer(&self) -> Result<Vec<u8>> {
        let mut line = Line::open(&self.address).await?;
        Ok(line.ask(&self.request).await?.to_vec())
    }

    async fn ask(self: Arc<Self>, expected: Arc<[u8]>, until: Instant) -> Result<usize> {
        let mut line = Line::open(&self.address).await?;
        let mut count = 0;
        while Instant::now() < until {
            if line.is_over {
                line = Line::open(&self.address).await?;
            }
            ensure!(line.ask(&self.request).await? == &*expected, "the answer changed");
            count += 1;
        }
        Ok(count)
    }
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Line {
    stream: TcpStream,
    answer: Vec<u8>,
    /// The server wants no more requests on it.
    pub(crate) is_over: bool,
}

impl Line {
    pub(crate) async fn open(address: &str) -> Result<Self> {
        let stream = TcpStream::connect(address).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, answer: Vec::with_capacity(16 << 10), is_over: false })
    }

    pub(crate) async fn ask(&mut self, request: &str) -> Result<&[u8]> {
        self.stream.write_all(request.as_bytes()).await?;
        self.answer.clear();
        let start = loop {
            ensure!(self.stream.read_buf(&mut self.answer).await? > 0, "no whole answer");
            if let Some(end) = self.answer.windows(4).position(|four| four == b"\r\n\r\n") {
                break end + 4;
            }
        };
        let head = std::str::from_utf8(self.answer.get(..start).unwrap_or_default())?;
        let head = head.to_ascii_lowercase();
        ensure!(head.starts_with("http/1.1 200 "), "the answer is {head}");
        self.is_over = head.contains("\r\nconnection: close\r\n");
        let len = head.split_once("\r\ncontent-length: ").and_then(|(_, rest)| rest.lines().next());
        let len: usize = len.context("an answer without its length")?.parse()?;
        while self.answer.len() < start + len {
            ensure!(self.stream.read_buf(&mut self.answer).await? > 0, "half an answer");
        }
        self.answer.get(start..).context("a body")
    }
}

/// One post on a connection of its own; the status and all that was said.
pub(crate) async fn post(
    address: &str,
    target: &str,
    headers: &str,
    body: &[u8],
) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(address).await?;
    let head = format!(
        "POST {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    // A server that has heard enough may answer and hang up before it has everything.
    let _ = stream.write_all(body).await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let status = answer.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    match status {
        Some(status) => Ok((status, answer)),
        None => bail!("a post was answered with {answer:?}"),
    }
}

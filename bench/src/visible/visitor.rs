//! Somebody who reads pages or reports, one after the other on a connection that stays open.

use crate::git::http::Line;
use crate::stats::Latencies;
use anyhow::{Context, Result};
use serde_json::Value;
use std::time::{Duration, Instant};

/// The answer that costs nothing.
const FLOOR: &str = "/healthz";

#[derive(Debug, Clone)]
pub(super) struct Target {
    pub(super) name: &'static str,
    pub(super) path: String,
    pub(super) limit_ms: f64,
}

pub(super) struct Visitor {
    address: String,
    line: Line,
}

/// How long the answers took, and how long those took that cost nothing.
#[derive(Debug, Default)]
pub(super) struct Waits {
    pub(super) target: Latencies,
    pub(super) floor: Latencies,
    /// Of one answer.
    pub(super) bytes: usize,
}

impl Visitor {
    pub(super) async fn to(address: &str) -> Result<Self> {
        Ok(Self { address: address.to_owned(), line: Line::open(address).await? })
    }

    /// How long it took until all of the answer was here, and how long the answer is.
    pub(super) async fn asks(&mut self, path: &str) -> Result<(Duration, usize)> {
        let request = self.request(path).await?;
        let started = Instant::now();
        let answer = self.line.ask(&request).await.with_context(|| format!("GET {path}"))?;
        Ok((started.elapsed(), answer.len()))
    }

    pub(super) async fn reads(&mut self, path: &str) -> Result<Value> {
        let request = self.request(path).await?;
        let answer = self.line.ask(&request).await.with_context(|| format!("GET {path}"))?;
        serde_json::from_slice(answer).with_context(|| format!("GET {path}"))
    }

    /// The floor and the target in turns, so that both meet the same machine.
    pub(super) async fn compares(&mut self, path: &str, times: usize) -> Result<Waits> {
        let mut waits = Waits::default();
        for _ in 0..times {
            waits.floor.add(self.asks(FLOOR).await?.0);
            let (took, bytes) = self.asks(path).await?;
            waits.target.add(took);
            waits.bytes = bytes;
        }
        Ok(waits)
    }

    async fn request(&mut self, path: &str) -> Result<String> {
        if self.line.is_over {
            self.line = Line::open(&self.address).await?;
        }
        let host = &self.address;
        Ok(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n"))
    }
}

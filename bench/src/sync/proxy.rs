//! A door in front of a relay: others know the relay by the door's address, and what comes out of
//! it is counted.

use super::plan::Pauses;
use crate::stats::number;
use anyhow::{Result, ensure};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

#[derive(Debug)]
pub(crate) struct Proxy {
    /// `127.0.0.1:port`.
    pub(crate) address: String,
    inside: Arc<Mutex<Inside>>,
    listening: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct Inside {
    target: String,
    /// Of the connections opened since it was last begun.
    count: Arc<AtomicU64>,
}

const PIECE: usize = 64 << 10;
const LOOK_EVERY: Duration = Duration::from_millis(100);

impl Proxy {
    pub(crate) async fn open() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let inside = Arc::new(Mutex::new(Inside::default()));
        let listening = tokio::spawn(listen(listener, Arc::clone(&inside)));
        Ok(Self { address, inside, listening })
    }

    pub(crate) async fn leading_to(target: &str) -> Result<Self> {
        let proxy = Self::open().await?;
        proxy.leads_to(target);
        Ok(proxy)
    }

    pub(crate) fn url(&self) -> String {
        format!("ws://{}", self.address)
    }

    /// From the next connection on.
    pub(crate) fn leads_to(&self, target: &str) {
        target.clone_into(&mut lock(&self.inside).target);
    }

    /// Counts from nothing, and only what is opened from now on.
    pub(crate) fn count_anew(&self) {
        lock(&self.inside).count = Arc::default();
    }

    /// What came out to those who dialled, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        lock(&self.inside).count.load(Ordering::Relaxed)
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// Waits until something has come out and then nothing for a while; all bytes until then.
pub(super) async fn quiet(proxies: &[&Proxy], pauses: &Pauses) -> Result<f64> {
    let total = || proxies.iter().map(|proxy| proxy.bytes()).sum::<u64>();
    let started = Instant::now();
    let (mut seen, mut since) = (total(), started);
    while seen == 0 || since.elapsed() < pauses.quiet {
        ensure!(started.elapsed() < pauses.patience, "after {seen} bytes there is no end to it");
        sleep(LOOK_EVERY).await;
        let now = total();
        if now != seen {
            (seen, since) = (now, Instant::now());
        }
    }
    mega(seen)
}

pub(crate) fn mega(bytes: u64) -> Result<f64> {
    Ok(number(usize::try_from(bytes)?) / 1e6)
}

async fn listen(listener: TcpListener, inside: Arc<Mutex<Inside>>) {
    while let Ok((client, _)) = listener.accept().await {
        let (target, count) = {
            let inside = lock(&inside);
            (inside.target.clone(), Arc::clone(&inside.count))
        };
        // Whatever ends a connection ends it for both sides.
        tokio::spawn(async move { pass(client, &target, &count).await });
    }
}

async fn pass(client: TcpStream, target: &str, count: &AtomicU64) -> io::Result<()> {
    let server = TcpStream::connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let questions = async {
        copy(&mut from_client, &mut to_server).await?;
        to_server.shutdown().await
    };
    let answers = async {
        let mut piece = vec![0; PIECE];
        loop {
            let len = from_server.read(&mut piece).await?;
            let Some(read) = piece.get(..len).filter(|read| !read.is_empty()) else { break };
            count.fetch_add(len as u64, Ordering::Relaxed);
            to_client.write_all(read).await?;
        }
        to_client.shutdown().await
    };
    tokio::try_join!(questions, answers)?;
    Ok(())
}

fn lock(inside: &Mutex<Inside>) -> std::sync::MutexGuard<'_, Inside> {
    inside.lock().unwrap_or_else(PoisonError::into_inner)
}

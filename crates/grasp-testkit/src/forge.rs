//! A git server on a real socket that does what it is told, good or bad. What is honest comes from a
//! real `git upload-pack`; what is not is made of that. Everything it is asked is kept, so that a test
//! can ask how others treated it.

mod answers;
mod door;
mod git;
mod house;
mod log;
mod manner;
mod noise;
mod packets;
mod request;

pub use log::{Asked, What};
pub use manner::Manner;

use crate::{WorkTree, until};
use house::House;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Gone, with all its connections, when it is dropped.
#[derive(Debug)]
pub struct Forge {
    house: Arc<House>,
    listening: JoinHandle<()>,
}

impl Forge {
    pub async fn start() -> Self {
        Self::start_with(Manner::Honest).await
    }

    pub async fn start_with(manner: Manner) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let house = Arc::new(House::new(format!("http://{address}"), manner));
        let listening = tokio::spawn(door::listens(listener, Arc::clone(&house)));
        Self { house, listening }
    }

    /// `http://127.0.0.1:port`.
    pub fn origin(&self) -> &str {
        &self.house.origin
    }

    /// `127.0.0.1:port`.
    pub fn address(&self) -> &str {
        self.origin().trim_start_matches("http://")
    }

    /// Where the repository at this path is cloned from.
    pub fn url(&self, path: &str) -> String {
        format!("{}/{}", self.origin(), path.trim_matches('/'))
    }

    /// From now on a bare repository is found at this path.
    pub fn serve(&self, path: &str, dir: &Path) {
        self.house.serves(path, dir);
    }

    /// A copy of all refs of a working copy, as they are now, is found at this path. Says where the
    /// copy is.
    pub async fn mirrors(&self, path: &str, tree: &WorkTree) -> PathBuf {
        let name = path.trim_matches('/').replace('/', "+");
        let dir = self.house.home.path().join("mirrors").join(name);
        git::makes(&self.house, &dir).await;
        tree.git(&["push", "-q", "--mirror", &dir.display().to_string()]).await;
        self.serve(path, &dir);
        dir
    }

    /// From the next request on.
    pub fn behave(&self, manner: Manner) {
        self.house.behaves(manner);
    }

    /// Every request so far, in the order they came.
    pub fn log(&self) -> Vec<Asked> {
        self.house.log()
    }

    /// TCP connections, whatever became of them.
    pub fn dials(&self) -> usize {
        self.house.dials()
    }

    /// The most requests that went on at once.
    pub fn concurrent_max(&self) -> usize {
        self.log().iter().map(|asked| asked.concurrent).max().unwrap_or(0)
    }

    /// The most requests that began within any stretch of this length.
    pub fn starts_in_any(&self, window: Duration) -> usize {
        log::starts_in_any(&self.log(), window)
    }

    /// Waits until so many requests have come, however they ended.
    pub async fn until_asked(&self, count: usize) {
        self.until(&format!("{count} requests"), |log| log.len() >= count).await;
    }

    /// Waits until so many requests have ended.
    pub async fn until_ended(&self, count: usize) {
        let ended = |asked: &&Asked| asked.ended_ms.is_some();
        let enough = |log: &[Asked]| log.iter().filter(ended).count() >= count;
        self.until(&format!("the end of {count} requests"), enough).await;
    }

    /// Waits until this is true of the log.
    pub async fn until(&self, what: &str, holds: impl Fn(&[Asked]) -> bool) {
        until(what, || std::future::ready(holds(&self.log()))).await;
    }

    /// Every connection ends without a goodbye; new ones are welcome.
    pub fn drops_everyone(&self) {
        self.house.drops_everyone();
    }
}

impl Drop for Forge {
    fn drop(&mut self) {
        self.listening.abort();
        self.house.drops_everyone();
    }
}

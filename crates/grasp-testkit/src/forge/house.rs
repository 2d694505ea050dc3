//! What all connections to a forge share: the repositories, how it behaves now, and what it was asked.

use super::request::Request;
use super::{Asked, Manner, What};
use crate::Git;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;
use tempfile::TempDir;
use tokio::task::AbortHandle;

#[derive(Debug)]
pub(super) struct House {
    pub(super) origin: String,
    pub(super) git: Git,
    pub(super) home: TempDir,
    began: Instant,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    manner: Manner,
    repositories: BTreeMap<String, PathBuf>,
    log: Vec<Asked>,
    dials: usize,
    visits: Vec<AbortHandle>,
}

impl House {
    pub(super) fn new(origin: String, manner: Manner) -> Self {
        let home = tempfile::tempdir().expect("a temporary directory");
        let state = Mutex::new(State { manner, ..State::default() });
        Self { origin, git: Git::any(), home, began: Instant::now(), state }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nobody panicked")
    }

    pub(super) fn manner(&self) -> Manner {
        self.state().manner.clone()
    }

    pub(super) fn behaves(&self, manner: Manner) {
        self.state().manner = manner;
    }

    pub(super) fn serves(&self, path: &str, dir: &Path) {
        self.state().repositories.insert(trimmed(path).to_owned(), dir.to_owned());
    }

    pub(super) fn repository(&self, path: &str) -> Option<PathBuf> {
        self.state().repositories.get(trimmed(path)).cloned()
    }

    pub(super) fn log(&self) -> Vec<Asked> {
        self.state().log.clone()
    }

    pub(super) fn dials(&self) -> usize {
        self.state().dials
    }

    pub(super) fn is_dialled(&self, visit: AbortHandle) {
        let mut state = self.state();
        state.dials += 1;
        state.visits.retain(|visit| !visit.is_finished());
        state.visits.push(visit);
    }

    pub(super) fn is_left(&self, visit: usize) {
        let now_ms = self.now_ms();
        let mut state = self.state();
        state
            .log
            .iter_mut()
            .filter(|it| it.visit == visit)
            .for_each(|it| it.left_ms = Some(now_ms));
    }

    pub(super) fn drops_everyone(&self) {
        self.state().visits.drain(..).for_each(|visit| visit.abort());
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

fn trimmed(path: &str) -> &str {
    path.trim_matches('/')
}

/// One request on its way; it has ended when this is dropped.
#[derive(Debug)]
pub(super) struct Entry {
    house: Arc<House>,
    at: usize,
}

impl Entry {
    pub(super) fn new(house: &Arc<House>, request: &Request, visit: usize) -> Self {
        let mut state = house.state();
        let going = state.log.iter().filter(|asked| asked.ended_ms.is_none()).count();
        let asked = Asked {
            what: What::Other,
            method: request.method.clone(),
            path: request.target(),
            visit,
            headers: request.headers.clone(),
            wants: BTreeSet::new(),
            haves: Vec::new(),
            // Under the lock, so that the log is in order.
            started_ms: house.now_ms(),
            ended_ms: None,
            left_ms: None,
            status: None,
            concurrent: going + 1,
            bytes_sent: 0,
        };
        state.log.push(asked);
        let at = state.log.len() - 1;
        drop(state);
        Self { house: Arc::clone(house), at }
    }

    /// All of the request is here.
    pub(super) fn is_read(&self, request: &Request) {
        self.notes(|asked| {
            asked.what = request.what();
            asked.wants = request.oids("want").into_iter().collect();
            asked.haves = request.oids("have");
        });
    }

    pub(super) fn is_answered(&self, status: u16) {
        self.notes(|asked| asked.status = Some(status));
    }

    pub(super) fn sent(&self, bytes: usize) {
        self.notes(|asked| asked.bytes_sent += u64::try_from(bytes).unwrap_or(u64::MAX));
    }

    fn notes(&self, what: impl FnOnce(&mut Asked)) {
        what(&mut self.house.state().log[self.at]);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let now_ms = self.house.now_ms();
        self.notes(|asked| asked.ended_ms = Some(now_ms));
    }
}

//! The README at HEAD of a repository, made fit for a page. Found and read outside of the network's
//! threads, a few at a time and within bounds; what was made of a commit's is remembered.

mod find;
mod markdown;

use super::markup::Markup;
use crate::repos::Repos;
use grasp_core::{Oid, RepoId};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// What is remembered: so many, and so much of it.
const KEPT_MAX: usize = 256;
const KEPT_BYTES_MAX: usize = 16 << 20;
/// Read and rendered at the same time.
const WORKERS: usize = 2;
/// A page does without rather than wait any longer.
const WAIT_MAX: Duration = Duration::from_secs(2);

/// Safe to be put into a page as it is.
#[derive(Debug)]
pub struct Readme {
    name: String,
    html: Markup,
    bytes: usize,
}

impl Readme {
    /// `html` went through [`markdown`], or is made of our own words.
    fn new(name: &str, html: String) -> Self {
        let bytes = name.len() + html.len();
        Self { name: name.to_owned(), html: Markup::vouched(html), bytes }
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn html(&self) -> &Markup {
        &self.html
    }
}

/// Those made lately.
#[derive(Debug)]
pub struct Readmes {
    kept: Arc<Mutex<Kept>>,
    workers: Arc<Semaphore>,
}

impl Default for Readmes {
    fn default() -> Self {
        Self { kept: Arc::default(), workers: Arc::new(Semaphore::new(WORKERS)) }
    }
}

impl Readmes {
    /// `None` as well if it cannot be read, or not soon enough; it is then ready for the next.
    pub async fn of(&self, repos: &Arc<Repos>, repo: &RepoId) -> Option<Arc<Readme>> {
        let (repos, repo, kept) = (Arc::clone(repos), repo.clone(), Arc::clone(&self.kept));
        if let Some(known) = self.remembered(&repos, &repo).await {
            return known;
        }
        let work = async {
            let permit = Arc::clone(&self.workers).acquire_owned().await.ok()?;
            let look = move || {
                let _held_until_done = permit;
                look(&repos, &repo, &kept)
            };
            tokio::task::spawn_blocking(look).await.ok()?
        };
        tokio::time::timeout(WAIT_MAX, work).await.ok()?
    }
}

impl Readmes {
    /// Whoever renders for others keeps nobody waiting whose page was made before.
    async fn remembered(&self, repos: &Arc<Repos>, repo: &RepoId) -> Option<Option<Arc<Readme>>> {
        let (repos, repo, kept) = (Arc::clone(repos), repo.clone(), Arc::clone(&self.kept));
        let look = move || {
            let shown = repos.shown(&repo).ok().filter(|shown| shown.exists)?;
            kept.lock().recall(&find::head(&shown.refs)?)
        };
        tokio::task::spawn_blocking(look).await.ok()?
    }
}

fn look(repos: &Repos, repo: &RepoId, kept: &Mutex<Kept>) -> Option<Arc<Readme>> {
    let shown = repos.shown(repo).ok().filter(|shown| shown.exists)?;
    let head = find::head(&shown.refs)?;
    if let Some(known) = kept.lock().recall(&head) {
        return known;
    }
    // Objects of our own: the repository's may be needed by the writer meanwhile.
    let objects = grasp_git::Objects::open(&repos.directory(repo)).ok()?;
    // What could not be read once is not tried again for this commit.
    let readme = find::readme(&objects, &head).ok().flatten().map(Arc::new);
    kept.lock().keep(head, readme.clone());
    readme
}

/// By commit: what it has, or that it has none. The one used last is last.
#[derive(Debug, Default)]
struct Kept {
    rows: VecDeque<(Oid, Option<Arc<Readme>>)>,
    bytes: usize,
}

impl Kept {
    fn recall(&mut self, head: &Oid) -> Option<Option<Arc<Readme>>> {
        let place = self.rows.iter().position(|(oid, _)| oid == head)?;
        let row = self.rows.remove(place)?;
        let readme = row.1.clone();
        self.rows.push_back(row);
        Some(readme)
    }

    fn keep(&mut self, head: Oid, readme: Option<Arc<Readme>>) {
        if self.rows.iter().any(|(oid, _)| *oid == head) {
            return;
        }
        self.bytes += weight(readme.as_ref());
        self.rows.push_back((head, readme));
        while self.rows.len() > KEPT_MAX || self.bytes > KEPT_BYTES_MAX {
            let Some((_, gone)) = self.rows.pop_front() else { return };
            self.bytes -= weight(gone.as_ref());
        }
    }
}

fn weight(readme: Option<&Arc<Readme>>) -> usize {
    readme.map_or(0, |readme| readme.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_longest_ago_is_forgotten_first_and_bytes_are_counted() {
        let oid = |number: u32| {
            let mut bytes = [0; 20];
            bytes[..4].copy_from_slice(&number.to_be_bytes());
            Oid::from_bytes(bytes)
        };
        let large = || Some(Arc::new(Readme::new("README", "x".repeat(5 << 20))));
        let mut kept = Kept::default();
        for number in 0..3 {
            kept.keep(oid(number), large());
        }
        assert!(kept.recall(&oid(0)).is_some());
        kept.keep(oid(3), large());
        assert!(kept.recall(&oid(1)).is_none(), "the least lately used made room");
        assert!(kept.recall(&oid(0)).flatten().is_some());
        for number in 10..10 + u32::try_from(KEPT_MAX).unwrap() {
            kept.keep(oid(number), None);
        }
        assert_eq!((kept.rows.len(), kept.bytes), (KEPT_MAX, 0));
        assert!(kept.recall(&oid(10)).is_some_and(|none| none.is_none()), "that there is none");
    }
}

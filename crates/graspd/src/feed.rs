//! What we want from others is learnt from our own store alone (S-5): announcements and roots, from
//! the first to the newest and then as they come, told to the engine in order. A start, a restart
//! and an empty store are the same walk. What was told is corrected when it is no longer so.

mod reading;
#[cfg(test)]
mod tests;
mod wake;

pub use wake::Wake;

use crate::clock::Clock;
use crate::readers::Readers;
use grasp_core::{Kind, RepoId, Service};
use grasp_engine::{Input, Level};
use grasp_store::{EventStore, Result};
use reading::{ANNOUNCEMENTS, Eyes, ROOTS, Root, RootsOf, Seen, Standing, last_serial};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at, sleep};
use tokio_util::sync::CancellationToken;
use wake::Touched;

/// What the feed needs to know.
#[derive(Debug)]
pub struct Feed {
    pub service: Arc<Service>,
    pub readers: Readers,
    pub clock: Arc<Clock>,
    pub wake: Arc<Wake>,
    /// Relays followed per announcement, the first it names.
    pub relays_max: usize,
}

/// Whatever escaped the writer's calls is found by looking; so many at a time, this often.
const CHECK_EVERY: Duration = Duration::from_secs(60);
const CHECKED_MAX: usize = 2_000;
/// A store that cannot be read is asked again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Tells until nobody listens any more, or the server stops.
pub async fn run(feed: Feed, sender: mpsc::Sender<Input>, closing: CancellationToken) {
    let mut teller = Teller::new(feed, sender);
    tokio::select! {
        () = closing.cancelled() => {}
        _ = teller.run() => {}
    }
}

/// Nobody listens, or nobody reads any more.
#[derive(Debug)]
struct Over;

type Told<T = ()> = std::result::Result<T, Over>;

struct Teller {
    feed: Feed,
    eyes: Eyes,
    sender: mpsc::Sender<Input>,
    /// What the engine believes to be there.
    told: BTreeMap<RepoId, (u64, Level)>,
    /// How far the slow check has come.
    checked: Option<RepoId>,
    /// Everything up to this serial has been told.
    line: u64,
    replayed: bool,
}

impl Teller {
    fn new(feed: Feed, sender: mpsc::Sender<Input>) -> Self {
        let eyes = Eyes { service: Arc::clone(&feed.service), relays_max: feed.relays_max };
        let told = BTreeMap::new();
        Self { feed, eyes, sender, told, checked: None, line: 0, replayed: false }
    }

    async fn run(&mut self) -> Told {
        self.replay().await?;
        let mut check = interval_at(Instant::now() + CHECK_EVERY, CHECK_EVERY);
        loop {
            tokio::select! {
                () = self.feed.wake.rung() => self.catch_up().await?,
                _ = check.tick() => self.check_some().await?,
            }
        }
    }

    /// The past: first all repositories, so that each root finds those it belongs to.
    async fn replay(&mut self) -> Told {
        let line = self.ask(last_serial).await?;
        for kinds in [&ANNOUNCEMENTS[..], &ROOTS[..]] {
            self.tell(1, line, kinds).await?;
        }
        self.line = line;
        self.replayed = true;
        self.send(Input::Replayed).await
    }

    /// What went, and what came since the last time.
    async fn catch_up(&mut self) -> Told {
        let repos = match self.feed.wake.take() {
            Touched::These(repos) => repos.into_iter().collect(),
            Touched::All => self.told.keys().cloned().collect(),
        };
        self.look_at(repos).await?;
        const BOTH: [Kind; 5] = {
            let [patch, pull, update, issue] = ROOTS;
            [Kind::ANNOUNCEMENT, patch, pull, update, issue]
        };
        self.line = self.tell(self.line + 1, u64::MAX, &BOTH).await?;
        Ok(())
    }

    async fn check_some(&mut self) -> Told {
        let after = self.checked.take().map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.told.range((after, Bound::Unbounded)).map(|(repo, _)| repo.clone());
        let some: Vec<RepoId> = rest.take(CHECKED_MAX).collect();
        // After the last comes the first again.
        self.checked = some.last().filter(|_| some.len() == CHECKED_MAX).cloned();
        self.look_at(some).await
    }

    /// Tells what was stored between two serials; returns how far it came.
    async fn tell(&mut self, mut first: u64, last: u64, kinds: &'static [Kind]) -> Told<u64> {
        loop {
            let eyes = self.eyes.clone();
            let page = self.ask(move |store| eyes.page(store, first..=last, kinds)).await?;
            for seen in page.seen {
                match seen {
                    Seen::Repository(repo, standing) => self.repository(repo, standing).await?,
                    Seen::Root(root) => self.root(root).await?,
                }
            }
            match page.next {
                Some(next) => first = next,
                None => return Ok(page.until),
            }
        }
    }

    async fn look_at(&mut self, repos: Vec<RepoId>) -> Told {
        for some in repos.chunks(CHECKED_MAX) {
            let (eyes, some) = (self.eyes.clone(), some.to_vec());
            let looked = self.ask(move |store| eyes.look(store, some.clone())).await?;
            for (repo, standing) in looked {
                self.repository(repo, standing).await?;
            }
        }
        Ok(())
    }

    /// Says how a repository stands, if that is news.
    async fn repository(&mut self, repo: RepoId, standing: Option<Standing>) -> Told {
        let before = self.told.get(&repo).copied();
        let Some(Standing { serial, level, relays }) = standing else {
            return match self.told.remove(&repo) {
                Some(_) => self.send(Input::Withdrawn(repo)).await,
                None => Ok(()),
            };
        };
        if before == Some((serial, level)) {
            return Ok(());
        }
        self.told.insert(repo.clone(), (serial, level));
        self.send(Input::Announced { repo: repo.clone(), relays, level, serial }).await?;
        match before.is_none() && self.replayed {
            true => self.roots_of(&repo).await,
            false => Ok(()),
        }
    }

    /// A repository that is new here may already have threads: they were told when nobody knew it.
    async fn roots_of(&mut self, repo: &RepoId) -> Told {
        let now = self.feed.clock.wall().timestamp();
        let mut walk = Some(RootsOf::new(repo, self.line, now));
        while let Some(from) = walk.take() {
            let (roots, rest) = self.ask(move |store| from.clone().page(store)).await?;
            for root in roots {
                self.root(root).await?;
            }
            walk = rest;
        }
        Ok(())
    }

    async fn root(&mut self, Root { id, repos, serial }: Root) -> Told {
        self.send(Input::Root { id, repos, serial }).await
    }

    async fn send(&mut self, input: Input) -> Told {
        self.sender.send(input).await.map_err(|_| Over)
    }

    /// Asks a reader, again and again if need be: what is not told is never fetched.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl Fn(&dyn EventStore) -> Result<T> + Clone + Send + 'static,
    ) -> Told<T> {
        loop {
            match self.feed.readers.ask(question.clone()).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => tracing::error!(%error, "what we want cannot be read"),
                Err(_) => return Err(Over),
            }
            sleep(RETRY_AFTER).await;
        }
    }
}

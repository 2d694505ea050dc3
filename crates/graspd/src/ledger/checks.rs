//! Keeps looking how others stand with their refs: follows what is served, lets [`Rounds`] say what is
//! next, and starts one task for each look. It asks nobody itself.

use super::ends::Report;
use super::look::{Done, look};
use super::news::{self, Named, News};
use super::rounds::{Check, Finding, RoundSettings, Rounds};
use super::row::Peer;
use super::{keep_only, tell};
use crate::fetch::Fetcher;
use crate::hunt::HuntWatch;
use crate::node::Node;
use crate::outbound::Rule;
use grasp_core::nip34::Announcement;
use grasp_core::{CloneUrl, RepoId, Time};
use grasp_store::{EventStore, Result, Transaction};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// How git servers are asked.
#[derive(Debug)]
pub struct Guide {
    pub hunt: HuntWatch,
    pub fetcher: Fetcher,
    pub rule: Rule,
    /// What all looks together may receive.
    pub bytes_per_day: u64,
}

/// A word to those who look.
#[derive(Debug, Clone)]
pub struct CheckWatch(mpsc::UnboundedSender<Word>);

#[derive(Debug)]
pub(super) enum Word {
    Now(Option<RepoId>),
    /// What was fetched from there was of no use, or was good.
    Doubt(Check),
    Trust(Check),
    /// A look is over, and so many bytes came in.
    Done(Check, Done, u64),
}

impl CheckWatch {
    /// Looks at all mirrors of a repository, or of all of them, as soon as may be.
    pub fn now(&self, repo: Option<RepoId>) {
        let _ = self.0.send(Word::Now(repo));
    }

    /// What was fetched from there was broken, or what it lists was not there.
    pub fn doubts(&self, repo: RepoId, url: CloneUrl) {
        let _ = self.0.send(Word::Doubt(Check { repo, url }));
    }

    /// What was fetched from there was good.
    pub fn trusts(&self, repo: RepoId, url: CloneUrl) {
        let _ = self.0.send(Word::Trust(Check { repo, url }));
    }
}

/// The part of it that the looks of one owner may take.
const OWNERS_SHARE: u64 = 8;
const SLEEP_MAX: Duration = Duration::from_secs(5);
const TIDY_EVERY: Duration = Duration::from_secs(60);
const FORGOTTEN_MAX: usize = 1_000;

pub fn start(guide: Guide, node: &Arc<Node>) -> CheckWatch {
    let (words, said) = mpsc::unbounded_channel();
    let settings = RoundSettings {
        age_max: node.reports.identity.verdict_age_max,
        bytes_per_owner: guide.bytes_per_day / OWNERS_SHARE,
        ..RoundSettings::default()
    };
    let checker = Checker {
        node: Arc::clone(node),
        guide: Arc::new(guide),
        rounds: Rounds::new(settings),
        words: words.clone(),
        line: 0,
        began: None,
        started: node.clock.now(),
        tidy_at: Time(0),
    };
    node.tasks.spawn(checker.run(said));
    CheckWatch(words)
}

struct Checker {
    node: Arc<Node>,
    guide: Arc<Guide>,
    rounds: Rounds,
    words: mpsc::UnboundedSender<Word>,
    /// The last serial that was read, and the last there was when this run began.
    line: u64,
    began: Option<u64>,
    started: Time,
    tidy_at: Time,
}

impl Checker {
    async fn run(mut self, mut said: mpsc::UnboundedReceiver<Word>) {
        let closing = self.node.closing.clone();
        let mut word = None;
        loop {
            if let Some(word) = word.take() {
                self.hear(word).await;
            }
            let is_behind = self.catch_up().await.unwrap_or(false);
            self.work();
            if is_behind && !closing.is_cancelled() {
                word = said.try_recv().ok();
                continue;
            }
            let now = self.node.clock.now();
            self.tidy(now).await;
            let wait = self.rounds.next_deadline(now).map_or(SLEEP_MAX, |at| at.since(now));
            word = tokio::select! {
                () = closing.cancelled() => return,
                () = self.node.wake.rung_for_the_ledger() => None,
                word = said.recv() => word,
                () = tokio::time::sleep(wait.clamp(Duration::from_millis(10), SLEEP_MAX)) => None,
            };
        }
    }

    async fn hear(&mut self, word: Word) {
        let now = self.node.clock.now();
        if let Word::Done(check, _, bytes) = &word {
            self.rounds.received(check, *bytes, now);
        }
        match word {
            Word::Now(Some(repo)) => self.rounds.now(&repo, now),
            Word::Now(None) => self.rounds.everything_now(now),
            Word::Doubt(check) => self.rounds.doubt(&check, now),
            Word::Trust(check) => self.rounds.trust(&check),
            Word::Done(check, Done::Looked(found, pause), _) => {
                self.rounds.done(&check, found, pause, now);
            }
            Word::Done(check, Done::PutOff(until), _) => self.rounds.put_off(&check, until),
            Word::Done(check, Done::Gone, _) => {
                self.rounds.done(&check, Finding::Nothing, None, now);
                self.look_at(check.repo).await;
            }
        }
    }

    /// A page of what was served since: new mirrors are looked at soon, and old ones after a state. Is
    /// there more? What was signed before this run is looked at when it is due.
    async fn catch_up(&mut self) -> Option<bool> {
        let last = self.ask(|store| store.read()?.last_serial()).await?;
        let began = *self.began.get_or_insert(last);
        let is_new = self.line >= began;
        let serials = self.line + 1..=if is_new { last } else { began };
        if serials.is_empty() {
            return Some(false);
        }
        let (node, upto) = (Arc::clone(&self.node), *serials.end());
        let (found, next) =
            self.ask(move |store| news::page(store, &node, serials, is_new)).await?;
        for it in found {
            self.learn(it).await;
        }
        self.line = next.map_or(upto, |next| next - 1);
        Some(self.line < last)
    }

    async fn learn(&mut self, news: News) {
        let now = self.node.clock.now();
        match news {
            News::Signed(repo) => self.rounds.changed(&repo, now),
            News::Named(repo, Some(named)) => {
                let Named { announcement, clones } = *named;
                self.rounds.follow(&repo, &clones, now);
                self.keep_named(repo, Some(announcement)).await;
            }
            News::Named(repo, None) => {
                self.rounds.forget(&repo);
                self.keep_named(repo, None).await;
            }
        }
    }

    /// Follows a repository as it stands now, or not any more.
    async fn look_at(&mut self, repo: RepoId) {
        let node = Arc::clone(&self.node);
        if let Some(news) = self.ask(move |store| news::of_repo(store, &node, &repo)).await {
            self.learn(news).await;
        }
    }

    /// Rows of addresses that are not named any more go.
    async fn keep_named(&self, repo: RepoId, announcement: Option<Announcement>) {
        let service = Arc::clone(&self.node.service);
        let peers: BTreeSet<Peer> = match &announcement {
            None => BTreeSet::new(),
            Some(it) => {
                let relays = tell::relays(&service, it).into_iter().map(Peer::Relay);
                relays.chain(tell::clones(&service, it, &repo).into_iter().map(Peer::Git)).collect()
            }
        };
        let (asked, named) = (repo.clone(), peers.clone());
        let stale = self.ask(move |store| {
            let rows = super::shelf::of_repo(&*store.read()?, &asked, usize::MAX)?;
            Ok(rows.iter().any(|row| !named.contains(&row.peer)))
        });
        if stale.await == Some(true) {
            let jotting = move |txn: &mut dyn Transaction| {
                keep_only(txn, &repo, &|peer| peers.contains(peer)).map(drop)
            };
            self.node.ingest.jot(Box::new(jotting)).await;
        }
    }

    fn work(&mut self) {
        let now = self.node.clock.now();
        while let Some(check) = self.rounds.poll(now) {
            let (node, guide) = (Arc::clone(&self.node), Arc::clone(&self.guide));
            let report = Report::new(self.words.clone(), check.clone());
            let care = self.rounds.care(&check);
            self.node.tasks.spawn(async move {
                let closing = node.closing.clone();
                let done = tokio::select! {
                    done = look(&node, &guide, &check, care) => Some(done),
                    () = closing.cancelled() => None,
                };
                report.end(done);
            });
        }
    }

    /// What nobody has renewed for long is not followed any more. And the figures are told.
    async fn tidy(&mut self, now: Time) {
        if now < self.tidy_at {
            return;
        }
        let wall = self.node.clock.wall();
        let age_max = self.node.reports.identity.verdict_age_max;
        self.tidy_at = now.plus(TIDY_EVERY.min(age_max / 4));
        let found = self.ask(move |store| tell::summary(&*store.read()?, wall, age_max)).await;
        if let Some(ledger) = found {
            self.node.metrics.ledger.tell(&ledger);
        }
        if self.ask(|store| super::has_old_shapes(&*store.read()?)).await == Some(true) {
            let jotting = |txn: &mut dyn Transaction| super::forget_old_shapes(txn, FORGOTTEN_MAX);
            self.node.ingest.jot(Box::new(jotting)).await;
        }
        // Only once everything that is followed had its turn.
        if now.since(self.started) > age_max * 2 && self.node.clock.may_delete() {
            let age_ms = u64::try_from(age_max.as_millis()).unwrap_or(u64::MAX);
            let than = Time(wall.0.saturating_sub(age_ms.saturating_mul(2)));
            let jotting = move |txn: &mut dyn Transaction| {
                super::forget_older(txn, than, FORGOTTEN_MAX).map(drop)
            };
            self.node.ingest.jot(Box::new(jotting)).await;
        }
    }

    async fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&dyn EventStore) -> Result<T> + Send + 'static,
    ) -> Option<T> {
        ask(&self.node, question).await
    }
}

pub(super) async fn ask<T: Send + 'static>(
    node: &Node,
    question: impl FnOnce(&dyn EventStore) -> Result<T> + Send + 'static,
) -> Option<T> {
    match node.explorers.ask(question).await.ok()? {
        Ok(answer) => Some(answer),
        Err(error) => {
            tracing::error!(%error, "the ledger cannot be read");
            None
        }
    }
}

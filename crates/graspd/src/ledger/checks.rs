//! Keeps looking how others stand with their refs: follows what is served, lets [`Rounds`] say what is
//! next, and starts one task for each look. It asks nobody itself.

use super::ends::Report;
use super::look::{Done, look};
use super::rounds::{Check, Finding, RoundSettings, Rounds};
use super::row::Peer;
use super::{keep_only, of, tell};
use crate::fetch::{Depth, Fetcher};
use crate::hunt::HuntWatch;
use crate::ingest::{Signed, concerned, signed};
use crate::node::Node;
use crate::outbound::Rule;
use grasp_core::nip34::Announcement;
use grasp_core::{CloneUrl, Kind, RepoId, Time};
use grasp_store::{EventStore, Result, Space, StoredEvent, Transaction};
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
    Done(Check, Done),
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

const KINDS: [Kind; 2] = [Kind::ANNOUNCEMENT, Kind::STATE];
const ROWS_MAX: usize = 1_000;
const SLEEP_MAX: Duration = Duration::from_secs(5);
const TIDY_EVERY: Duration = Duration::from_secs(60);
const FORGOTTEN_MAX: usize = 1_000;

pub fn start(guide: Guide, node: &Arc<Node>) -> CheckWatch {
    let (words, said) = mpsc::unbounded_channel();
    let settings = RoundSettings {
        age_max: node.reports.identity.verdict_age_max,
        ..RoundSettings::default()
    };
    let checker = Checker {
        node: Arc::clone(node),
        guide: Arc::new(guide),
        rounds: Rounds::new(settings),
        words: words.clone(),
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
    started: Time,
    tidy_at: Time,
}

impl Checker {
    async fn run(mut self, mut said: mpsc::UnboundedReceiver<Word>) {
        let closing = self.node.closing.clone();
        let (mut line, mut word) = (0, None);
        loop {
            self.rounds.mind_the_clock(self.node.clock.now());
            if let Some(word) = word.take() {
                self.hear(word).await;
            }
            line = self.catch_up(line).await.unwrap_or(line);
            self.work();
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
        match word {
            Word::Now(Some(repo)) => self.rounds.now(&repo, now),
            Word::Now(None) => self.rounds.everything_now(now),
            Word::Doubt(check) => self.rounds.doubt(&check, now),
            Word::Trust(check) => self.rounds.trust(&check),
            Word::Done(check, Done::Looked(found, pause)) => {
                self.rounds.done(&check, found, pause, now);
            }
            Word::Done(check, Done::PutOff(until)) => self.rounds.put_off(&check, until),
            Word::Done(check, Done::Gone) => {
                self.rounds.done(&check, Finding::Nothing, None, now);
                self.look_at(check.repo).await;
            }
        }
    }

    /// What was served since then: new mirrors are looked at soon, and old ones after a state.
    async fn catch_up(&mut self, line: u64) -> Option<u64> {
        let last = self.ask(|store| store.read()?.last_serial()).await?;
        let mut from = line + 1;
        while from <= last {
            let (found, next) = self.ask(move |store| page(store, from, last)).await?;
            for it in found {
                match it.event.kind {
                    Kind::ANNOUNCEMENT => {
                        let repo = it.event.coordinate().and_then(|it| it.repo());
                        if let Some(repo) = repo {
                            self.look_at(repo).await;
                        }
                    }
                    // What was signed before this run is looked at when it is due.
                    _ if line > 0 => self.state(&it).await,
                    _ => {}
                }
            }
            match next {
                Some(next) => from = next,
                None => break,
            }
        }
        Some(last)
    }

    async fn state(&mut self, it: &StoredEvent) {
        let Ok(identifier) = it.event.d().parse() else { return };
        let (rules, author) = (Arc::clone(&self.node.rules), it.event.pubkey);
        let repos = self.ask(move |store| concerned(store, &rules, &author, &identifier)).await;
        let now = self.node.clock.now();
        for repo in repos.into_iter().flatten() {
            self.rounds.changed(&repo, now);
        }
    }

    /// Follows a repository as it stands now, or not any more.
    async fn look_at(&mut self, repo: RepoId) {
        let (node, asked) = (Arc::clone(&self.node), repo.clone());
        let found = self.ask(move |store| named(store, &node, &asked)).await;
        let now = self.node.clock.now();
        match found {
            Some(Some((announcement, clones))) => {
                self.rounds.follow(&repo, &clones, now);
                self.keep_named(repo, Some(announcement)).await;
            }
            Some(None) => {
                self.rounds.forget(&repo);
                self.keep_named(repo, None).await;
            }
            None => {}
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
            let depth = match self.rounds.is_doubted(&check) {
                true => Depth::Thorough,
                false => Depth::Routine,
            };
            self.node.tasks.spawn(async move {
                let closing = node.closing.clone();
                let done = tokio::select! {
                    done = look(&node, &guide, &check, depth) => Some(done),
                    () = closing.cancelled() => None,
                };
                report.end(done);
            });
        }
    }

    /// What nobody has renewed for long is not followed any more. And the figures are told.
    async fn tidy(&mut self, now: Time) {
        // A moment further ahead is one of a clock that was set back.
        if now < self.tidy_at && self.tidy_at.since(now) <= TIDY_EVERY {
            return;
        }
        let age_max = self.node.reports.identity.verdict_age_max;
        self.tidy_at = now.plus(TIDY_EVERY.min(age_max / 4));
        let found = self.ask(move |store| tell::summary(&*store.read()?, now, age_max)).await;
        if let Some(ledger) = found {
            self.node.metrics.ledger.tell(&ledger);
        }
        // Only once everything that is followed had its turn.
        if now.since(self.started) > age_max * 2 {
            let age_ms = u64::try_from(age_max.as_millis()).unwrap_or(u64::MAX);
            let than = Time(now.0.saturating_sub(age_ms.saturating_mul(2)));
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

fn page(store: &dyn EventStore, from: u64, last: u64) -> Result<(Vec<StoredEvent>, Option<u64>)> {
    let mut found = Vec::new();
    let mut sink = |it: StoredEvent| found.push(it);
    let next = store.read()?.walk(Space::Served, from..=last, &KINDS, ROWS_MAX, &mut sink)?;
    Ok((found, next))
}

type Named = (Announcement, Vec<(CloneUrl, Option<Time>)>);

/// Where a served repository is said to be, with the time of the last look.
fn named(store: &dyn EventStore, node: &Node, repo: &RepoId) -> Result<Option<Named>> {
    let found = signed(store, &node.rules, repo)?;
    let snapshot = store.read()?;
    let Some(Signed { announcement, .. }) = found else {
        // What was imported may be served and followed, though nobody asked us to host it.
        let served = snapshot.current(Space::Served, &repo.coordinate())?;
        let parsed = served.and_then(|it| Announcement::parse(&it.event).ok());
        return Ok(parsed.map(|announcement| (announcement, Vec::new())));
    };
    let mut clones = Vec::new();
    for url in tell::clones(&node.service, &announcement, repo) {
        let last = of(&*snapshot, &Peer::Git(url.clone()), repo)?.map(|look| look.at);
        clones.push((url, last));
    }
    Ok(Some((announcement, clones)))
}

//! Owns the engine. Nothing else may touch it, so nothing needs a lock; and it never waits for
//! anything but the next thing to happen.

use super::Ground;
use super::hands::Hands;
use super::history::History;
use crate::ingest::families_around;
use crate::ledger::Chronicle;
use crate::node::Node;
use grasp_core::{RelayUrl, RepoId, Time};
use grasp_engine::{Engine, Input, RelayView, Totals};
use std::sync::{Arc, Weak};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// Something a link has to say. Links that were replaced are not listened to.
#[derive(Debug)]
pub(super) struct Word {
    pub(super) generation: u64,
    pub(super) input: Input,
}

/// What somebody outside wants to see.
#[derive(Debug)]
struct Question {
    after: String,
    count_max: usize,
    answer: oneshot::Sender<(Totals, Vec<RelayView>)>,
}

/// A look at the engine from outside.
#[derive(Debug, Clone)]
pub struct Watch {
    questions: mpsc::Sender<Question>,
    orders: mpsc::Sender<Input>,
    history: Arc<History>,
    /// Not to keep it from ending.
    node: Weak<Node>,
}

impl Watch {
    /// `None` while the server stops.
    pub async fn totals(&self) -> Option<Totals> {
        Some(self.relays_after("", 0).await?.0)
    }

    /// What is known of relays, in order of their addresses, of so many behind this one.
    pub async fn relays_after(
        &self,
        after: &str,
        count_max: usize,
    ) -> Option<(Totals, Vec<RelayView>)> {
        let (answer, answered) = oneshot::channel();
        self.questions.send(Question { after: after.to_owned(), count_max, answer }).await.ok()?;
        answered.await.ok()
    }

    /// What is known of every relay.
    pub async fn relays(&self) -> Option<(Totals, Vec<RelayView>)> {
        self.relays_after("", usize::MAX).await
    }

    /// What came from a relay, and how its last day was.
    pub fn chronicle(&self, relay: &RelayUrl) -> Option<Chronicle> {
        self.history.of(relay)
    }

    /// By hand: everything is asked anew of a relay, or of all relays of a repository, whose git data
    /// is also looked for and whose mirrors are looked at now. Of all, if neither is named.
    pub async fn refresh(&self, relay: Option<RelayUrl>, repo: Option<RepoId>) {
        let order = Input::Refresh { relay: relay.clone(), repo: repo.clone() };
        let _ = self.orders.send(order).await;
        let Some(node) = self.node.upgrade().filter(|_| relay.is_none()) else { return };
        let Some(hunt) = node.hunt.get() else { return };
        if let Some(checks) = hunt.checks.get() {
            checks.now(repo.clone());
        }
        let Some(repo) = repo else { return };
        let rules = Arc::clone(&node.rules);
        let family = node.explorers.ask(move |store| families_around(store, &rules, &[repo]));
        for family in family.await.ok().and_then(Result::ok).into_iter().flatten().flatten() {
            hunt.now(family);
        }
    }
}

const WORDS_LEN: usize = 4_096;
const QUESTIONS_LEN: usize = 16;
/// Inputs handled before actions are carried out, when many come at once.
const HELPING: usize = 256;
const COUNT_EVERY: Duration = Duration::from_secs(1);
const MEASURE_EVERY: Duration = Duration::from_secs(30);
/// However far the next deadline is: the clock may have been set.
const SLEEP_MAX: Duration = Duration::from_secs(5);

pub(super) fn start(engine: Engine, feed: mpsc::Receiver<Input>, ground: Arc<Ground>) -> Watch {
    let (sender, words) = mpsc::channel(WORDS_LEN);
    let (questions, asked) = mpsc::channel(QUESTIONS_LEN);
    let (orders, ordered) = mpsc::channel(QUESTIONS_LEN);
    let (history, node) = (Arc::clone(&ground.history), Arc::downgrade(&ground.node));
    let tasks = ground.node.tasks.clone();
    let hands = Hands::new(Arc::clone(&ground), sender);
    let (counted_at, measured_at) = (Time(0), Time(0));
    let driver =
        Driver { engine, feed, words, asked, ordered, hands, ground, counted_at, measured_at };
    tasks.spawn(driver.run());
    Watch { questions, orders, history, node }
}

struct Driver {
    engine: Engine,
    feed: mpsc::Receiver<Input>,
    words: mpsc::Receiver<Word>,
    asked: mpsc::Receiver<Question>,
    ordered: mpsc::Receiver<Input>,
    hands: Hands,
    ground: Arc<Ground>,
    counted_at: Time,
    measured_at: Time,
}

impl Driver {
    async fn run(mut self) {
        let closing = self.ground.node.closing.clone();
        let mut told = Vec::with_capacity(HELPING);
        let mut said = Vec::with_capacity(HELPING);
        loop {
            let wake = self.wake_in();
            tokio::select! {
                () = closing.cancelled() => break,
                count = self.words.recv_many(&mut said, HELPING), if said.is_empty() => {
                    if count == 0 { break }
                }
                count = self.feed.recv_many(&mut told, HELPING) => {
                    if count == 0 { break }
                }
                Some(Question { after, count_max, answer }) = self.asked.recv() => {
                    let views = self.engine.relay_views_after(&after, count_max, self.now());
                    // Whoever asked may have left.
                    let _ = answer.send((self.engine.totals(), views));
                }
                Some(order) = self.ordered.recv() => self.handle(order),
                () = tokio::time::sleep(wake) => {}
            }
            for input in told.drain(..) {
                self.handle(input);
            }
            for word in said.drain(..) {
                if self.hands.is_current(&word) {
                    self.handle(word.input);
                }
            }
            let now = self.now();
            self.engine.handle_deadline(now);
            self.act(now);
            self.hands.write_down(&self.engine, now).await;
        }
        let now = self.now();
        self.hands.stop(&self.engine, now).await;
    }

    fn handle(&mut self, input: Input) {
        tracing::debug!(?input, "sync");
        let now = self.now();
        self.hands.notice(&input, now);
        self.engine.handle(input, now);
    }

    fn act(&mut self, now: Time) {
        while let Some(action) = self.engine.poll_action() {
            self.hands.carry_out(action, &self.engine, now);
        }
        // Counting takes a look at every relay, so not after every word.
        if now >= self.counted_at.plus(COUNT_EVERY) {
            self.counted_at = now;
            let totals = self.engine.totals();
            self.ground.node.metrics.sync.totals(totals.relays, totals.connected, totals.dead);
        }
        if now >= self.measured_at.plus(MEASURE_EVERY) {
            self.measured_at = now;
            self.hands.measure(&self.engine, now);
        }
    }

    fn wake_in(&self) -> Duration {
        let now = self.now();
        let engine = self.engine.next_deadline().map(|(at, _)| at);
        let hands = self.hands.next_deadline();
        let next = engine.into_iter().chain(hands).min();
        next.map_or(SLEEP_MAX, |at| at.since(now)).min(SLEEP_MAX)
    }

    fn now(&self) -> Time {
        self.ground.node.clock.now()
    }
}

//! Owns the engine. Nothing else may touch it, so nothing needs a lock; and it never waits for
//! anything but the next thing to happen.

use super::Ground;
use super::hands::Hands;
use super::history::History;
use crate::clock::STEP_MIN;
use crate::ingest::families_around;
use crate::ledger::Chronicle;
use crate::node::Node;
use grasp_core::{RelayUrl, RepoId, Time, WallOffset};
use grasp_engine::{Engine, Input, RelayTrouble, RelayView, Totals};
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
enum Question {
    Relays { after: String, count_max: usize, answer: oneshot::Sender<(Totals, Vec<RelayView>)> },
    Troubles { count_max: usize, answer: oneshot::Sender<(Totals, Vec<(RelayUrl, RelayTrouble)>)> },
}

/// What an operator orders.
#[derive(Debug)]
struct SyncOrder {
    input: Input,
    /// Told when the engine knows of it, so that a look afterwards shows what came of it.
    handled: oneshot::Sender<()>,
}

/// A look at the engine from outside.
#[derive(Debug, Clone)]
pub struct Watch {
    questions: mpsc::Sender<Question>,
    orders: mpsc::Sender<SyncOrder>,
    history: Arc<History>,
    /// Not to keep it from ending.
    node: Weak<Node>,
}

impl Watch {
    /// All relays in figures, and those in trouble. `None` while the server stops.
    pub async fn troubles(
        &self,
        count_max: usize,
    ) -> Option<(Totals, Vec<(RelayUrl, RelayTrouble)>)> {
        let (answer, answered) = oneshot::channel();
        self.questions.send(Question::Troubles { count_max, answer }).await.ok()?;
        answered.await.ok()
    }

    /// What is known of relays, in order of their addresses, of so many behind this one.
    pub async fn relays_after(
        &self,
        after: &str,
        count_max: usize,
    ) -> Option<(Totals, Vec<RelayView>)> {
        let (answer, answered) = oneshot::channel();
        let after = after.to_owned();
        self.questions.send(Question::Relays { after, count_max, answer }).await.ok()?;
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
        let input = Input::Refresh { relay: relay.clone(), repo: repo.clone() };
        let (handled, is_handled) = oneshot::channel();
        if self.orders.send(SyncOrder { input, handled }).await.is_ok() {
            let _ = is_handled.await;
        }
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
/// However far the next deadline is: the wall clock may have been set.
const SLEEP_MAX: Duration = Duration::from_secs(5);
/// However often the wall clock is set, mirrors are looked at because of it no more often than this.
const MIRRORS_GAP: Duration = Duration::from_secs(900);
const OFFSET_TOLD_MIN: Duration = Duration::from_secs(1);

pub(super) fn start(engine: Engine, feed: mpsc::Receiver<Input>, ground: Arc<Ground>) -> Watch {
    let (sender, words) = mpsc::channel(WORDS_LEN);
    let (questions, asked) = mpsc::channel(QUESTIONS_LEN);
    let (orders, ordered) = mpsc::channel(QUESTIONS_LEN);
    let (history, node) = (Arc::clone(&ground.history), Arc::downgrade(&ground.node));
    let tasks = ground.node.tasks.clone();
    let hands = Hands::new(Arc::clone(&ground), sender);
    let driver = Driver {
        engine,
        feed,
        words,
        asked,
        ordered,
        hands,
        ground,
        counted_at: Time(0),
        measured_at: Time(0),
        offset: WallOffset::default(),
        mirrors_due: false,
        mirrors_at: None,
    };
    tasks.spawn(driver.run());
    Watch { questions, orders, history, node }
}

struct Driver {
    engine: Engine,
    feed: mpsc::Receiver<Input>,
    words: mpsc::Receiver<Word>,
    asked: mpsc::Receiver<Question>,
    ordered: mpsc::Receiver<SyncOrder>,
    hands: Hands,
    ground: Arc<Ground>,
    counted_at: Time,
    measured_at: Time,
    /// What the engine was last told.
    offset: WallOffset,
    /// The wall clock was set, and mirrors are to be looked at again; when they last were, for that.
    mirrors_due: bool,
    mirrors_at: Option<Time>,
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
                Some(question) = self.asked.recv() => self.answer(question),
                Some(SyncOrder { input, handled }) = self.ordered.recv() => {
                    self.handle(input);
                    // The sender of the order may have left.
                    let _ = handled.send(());
                }
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
            self.look_at_the_wall_clock();
            let now = self.now();
            self.engine.handle_deadline(now);
            self.act(now);
            self.hands.write_down(&self.engine, now).await;
        }
        let now = self.now();
        self.hands.stop(&self.engine, now).await;
    }

    fn answer(&self, question: Question) {
        let (now, totals) = (self.now(), self.engine.totals());
        // The caller may have left.
        match question {
            Question::Relays { after, count_max, answer } => {
                let views = self.engine.relay_views_after(&after, count_max, now);
                let _ = answer.send((totals, views));
            }
            Question::Troubles { count_max, answer } => {
                let _ = answer.send((totals, self.engine.relay_troubles(count_max, now)));
            }
        }
    }

    fn handle(&mut self, input: Input) {
        tracing::debug!(?input, "sync");
        let now = self.now();
        self.hands.notice(&input, now);
        self.engine.handle(input, now);
    }

    /// The engine runs on steady time, but what it asks for and writes down is in wall time.
    fn look_at_the_wall_clock(&mut self) {
        let offset = self.ground.node.clock.offset();
        if offset.step_from(self.offset) >= OFFSET_TOLD_MIN {
            self.mirrors_due |= offset.step_from(self.offset) >= STEP_MIN;
            self.offset = offset;
            self.handle(Input::WallClock(offset));
        }
        // What is known of mirrors' refs carries times of the old clock.
        let now = self.now();
        let rested = self.mirrors_at.is_none_or(|at| now.since(at) >= MIRRORS_GAP);
        if self.mirrors_due && rested {
            (self.mirrors_due, self.mirrors_at) = (false, Some(now));
            let hunt = self.ground.node.hunt.get();
            hunt.and_then(|it| it.checks.get()).into_iter().for_each(|it| it.now(None));
        }
    }

    fn act(&mut self, now: Time) {
        while let Some(action) = self.engine.poll_action() {
            self.hands.carry_out(action, &self.engine, now);
        }
        self.hands.tell_decided();
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

//! One relay: dialled, spoken with as the engine orders, and given up when it ends. It can cost us
//! no more than its own share: few of its events are on their way at a time, and while they are,
//! nothing more is read from it. What it says is believed only about subscriptions we opened.

mod hear;
mod judge;
mod say;
mod settle;

pub(super) use say::Order;

use super::Ground;
use super::compare::{Compared, Comparison};
use super::drive::Word;
use super::offer::Verdict;
use super::standing::{Found, TurnedAway};
use super::wire::Outgoing;
use crate::outbound::address::counted_as;
use crate::outbound::{DialError, Dialled, Stream};
use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use grasp_core::{RelayUrl, Time};
use grasp_engine::{Errand, Input, JudgedEvents, Loss, Peer, Reception, Sub};
use say::Auth;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Bytes, Message};
use tokio_util::sync::CancellationToken;

/// Which link this is, and whom it reports to.
pub(super) struct Line {
    pub(super) ground: Arc<Ground>,
    pub(super) relay: RelayUrl,
    pub(super) generation: u64,
    pub(super) words: mpsc::Sender<Word>,
    /// From when to when it was linked before.
    pub(super) before: Option<(Time, Time)>,
}

/// Of one relay's events, on their way through the door at a time.
const ON_THEIR_WAY_MAX: usize = 512;
const BYTES_ON_THEIR_WAY_MAX: usize = 512 << 10;
/// A relay that says nothing is asked whether it is there, and given up some time later.
const PING_AFTER: Duration = Duration::from_secs(30);
const GONE_AFTER: Duration = Duration::from_secs(75);
pub(super) async fn run(
    line: Line,
    orders: mpsc::UnboundedReceiver<Order>,
    hangup: CancellationToken,
) {
    let rule = line.ground.rule(&line.relay);
    let dialled = tokio::select! {
        () = hangup.cancelled() => return,
        dialled = line.ground.dialer.dial(&line.relay, rule) => dialled,
    };
    let why = match dialled {
        Ok(dialled) => talk(&line, dialled, orders, &hangup).await,
        Err(DialError::Forbidden(why)) => Loss::Forbidden(why),
        Err(DialError::Ourselves) => Loss::Ourselves,
        Err(DialError::Crowded { address }) => Loss::AddressFull(address),
        Err(DialError::Busy { .. }) => Loss::Crowded,
        Err(DialError::Failed(why)) => Loss::Failed(why),
    };
    if !hangup.is_cancelled() {
        line.say(Input::Lost { relay: line.relay.clone(), why }).await;
    }
}

async fn talk(
    line: &Line,
    dialled: Dialled,
    mut orders: mpsc::UnboundedReceiver<Order>,
    hangup: &CancellationToken,
) -> Loss {
    let Dialled { socket, peer, address } = dialled;
    let address = Some(counted_as(address.ip()));
    let (sink, mut stream) = socket.split();
    let broken = CancellationToken::new();
    let (verdicts, mut judged) = mpsc::unbounded_channel();
    let (compared, mut steps) = mpsc::unbounded_channel();
    let (relay, told) = (line.relay.clone(), peer.clone());
    line.say(Input::Connected { relay, peer: told, address }).await;
    let now = line.now();
    let mut link = Link {
        line,
        peer,
        reception: Reception::new(line.ground.patience.clone()),
        outgoing: Outgoing::start(sink, broken.clone()),
        errands: BTreeMap::new(),
        comparisons: BTreeMap::new(),
        found: Found::default(),
        turned_away: TurnedAway::default(),
        verdicts,
        compared,
        on_their_way: 0,
        bytes_on_their_way: 0,
        auth: Auth::default(),
        heard_at: now,
        pinged: false,
        unreadable: 0,
        judged: JudgedEvents::default(),
        undecided_bytes: 0,
        useless_bytes: 0,
        useless_since: now,
    };
    loop {
        let pause = link.next_deadline().since(line.now());
        let step = tokio::select! {
            biased;
            () = hangup.cancelled() => Err(Loss::HungUp),
            () = broken.cancelled() => Err(Loss::Failed("it does not read what we send".into())),
            Some(verdict) = judged.recv() => link.judged(&verdict).await,
            Some(step) = steps.recv() => link.compared(step).await,
            order = orders.recv() => match order {
                Some(order) => link.obey(order).await,
                None => Err(Loss::HungUp),
            },
            () = link.outgoing.ready(), if link.outgoing.is_waiting() => {
                link.outgoing.flush();
                Ok(())
            }
            () = tokio::time::sleep(pause) => link.tick().await,
            frame = next_frame(&mut stream), if link.may_read() => match frame {
                Ok(frame) => link.hear(frame).await,
                Err(why) => Err(Loss::Failed(why.to_owned())),
            },
        };
        if let Err(why) = step {
            return why;
        }
    }
}

async fn next_frame(
    stream: &mut SplitStream<WebSocketStream<Stream>>,
) -> Result<Message, &'static str> {
    match stream.next().await {
        Some(Ok(Message::Close(_))) | None => Err("it hung up"),
        Some(Ok(frame)) => Ok(frame),
        Some(Err(_)) => Err("the connection broke"),
    }
}

impl Line {
    async fn say(&self, input: Input) {
        // The driver ends only with the server.
        let _ = self.words.send(Word { generation: self.generation, input }).await;
    }

    fn now(&self) -> Time {
        self.ground.node.clock.now()
    }
}

struct Link<'a> {
    line: &'a Line,
    peer: Peer,
    reception: Reception,
    outgoing: Outgoing,
    /// Why a question was asked; a subscription that stays has none.
    errands: BTreeMap<Sub, Errand>,
    comparisons: BTreeMap<Sub, Comparison>,
    /// What comparisons showed so far of how repositories stand there.
    found: Found,
    /// What it gave out and we did not want, for a reason that may pass: it does not keep that.
    turned_away: TurnedAway,
    verdicts: mpsc::UnboundedSender<Verdict>,
    compared: mpsc::UnboundedSender<Compared>,
    on_their_way: usize,
    bytes_on_their_way: usize,
    auth: Auth,
    heard_at: Time,
    pinged: bool,
    unreadable: u32,
    /// What came of its events, until the engine is told.
    judged: JudgedEvents,
    undecided_bytes: u64,
    useless_bytes: usize,
    useless_since: Time,
}

type Step = Result<(), Loss>;

impl Link<'_> {
    fn may_read(&self) -> bool {
        self.on_their_way < ON_THEIR_WAY_MAX
            && self.bytes_on_their_way < BYTES_ON_THEIR_WAY_MAX
            && self.is_decided()
    }

    fn next_deadline(&self) -> Time {
        let alive = match self.pinged {
            false => self.heard_at.plus(PING_AFTER),
            true => self.heard_at.plus(GONE_AFTER),
        };
        let silence = self.reception.next_deadline();
        let auth = self.auth.wanted_by.into_iter().chain(self.auth.answered_by);
        silence.into_iter().chain(auth).fold(alive, Time::min)
    }

    async fn tick(&mut self) -> Step {
        let now = self.line.now();
        // What waits for us is not the relay's silence.
        if !self.may_read() {
            self.reception.all_progress(now);
        }
        for (sub, comparison) in &self.comparisons {
            if comparison.is_at_work() {
                self.reception.progresses(*sub, now);
            }
        }
        for (sub, report) in self.reception.silent(now) {
            self.close(sub)?;
            self.report(sub, report).await;
        }
        if self.auth.wanted_by.is_some_and(|by| by <= now) {
            self.auth.wanted_by = None;
            self.authenticated(false).await;
        }
        if self.auth.answered_by.is_some_and(|by| by <= now) {
            self.auth.answered_by = None;
            self.auth.sent = None;
            self.authenticated(false).await;
        }
        // A link that does not read for lack of room is not silent.
        if !self.may_read() {
            self.heard_at = now;
        }
        if now >= self.heard_at.plus(GONE_AFTER) {
            return Err(Loss::Failed("it went silent".into()));
        }
        if now >= self.heard_at.plus(PING_AFTER) && !self.pinged {
            self.pinged = true;
            self.send(Message::Ping(Bytes::new()))?;
        }
        Ok(())
    }
}

/// What a subscription is called on the wire.
fn name(sub: Sub) -> String {
    format!("g{}", sub.0)
}

fn number(name: &str) -> Option<Sub> {
    name.strip_prefix('g')?.parse().ok().map(Sub)
}

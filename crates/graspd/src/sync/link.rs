//! One relay: dialled, spoken with as the engine orders, and given up when it ends. It can cost us
//! no more than its own share: few of its events are on their way at a time, and while they are,
//! nothing more is read from it. What it says is believed only about subscriptions we opened.

use super::Ground;
use super::compare::{Compared, Comparison, Progress};
use super::drive::Word;
use super::offer::{Fate, Verdict, Way, offer};
use super::standing::{self, Found, TurnedAway};
use super::wire::Outgoing;
use crate::outbound::{DialError, Dialled, Stream};
use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use grasp_core::policy::{Lasting, Origin, precheck};
use grasp_core::{Event, EventId, Filter, RelayUrl, RepoId, Time, Timestamp};
use grasp_engine::{End, Errand, Hint, Input, Intake, Loss, Peer, Purpose, Reception, Report, Sub};
use grasp_relay::client::{self, RelayMessage};
use grasp_relay::reply;
use grasp_store::SourceKind;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{Bytes, Message};
use tokio_util::sync::CancellationToken;

/// What the engine wants of a link.
#[derive(Debug)]
pub(super) enum Order {
    Listen {
        sub: Sub,
        filters: Arc<[Filter]>,
    },
    Request {
        sub: Sub,
        filters: Arc<[Filter]>,
        errand: Errand,
    },
    Reconcile {
        sub: Sub,
        filter: Filter,
        errand: Errand,
        standing: Vec<RepoId>,
    },
    /// What comparisons showed of these may be written down.
    Stands(Vec<RepoId>),
    Close(Sub),
    Authenticate,
}

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
const CHALLENGE_WAIT: Duration = Duration::from_secs(10);
/// Messages that are none; other software has other ideas, so some are forgiven.
const UNREADABLE_MAX: u32 = 100;
/// Frames that belong to nothing we asked: what is still on its way after a CLOSE, and no more.
const USELESS_BYTES_MAX: usize = 64 << 20;
const USELESS_FORGIVEN_AFTER: Duration = Duration::from_secs(3_600);
/// A NOTICE concerns the driver, whom all links share.
const NOTICE_COSTS: usize = 64 << 10;
/// An event younger than this may just be coming by both ways at once; one that was made this
/// shortly before a link broke may have been on its way.
const GAP_AGE_SECS: u64 = 60;
const GAP_BEFORE_LOSS_SECS: u64 = 3;

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
        Err(DialError::Crowded) => Loss::Crowded,
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
    let Dialled { socket, peer, .. } = dialled;
    let (sink, mut stream) = socket.split();
    let broken = CancellationToken::new();
    let (verdicts, mut judged) = mpsc::unbounded_channel();
    let (compared, mut steps) = mpsc::unbounded_channel();
    line.say(Input::Connected { relay: line.relay.clone(), peer: peer.clone() }).await;
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

#[derive(Debug, Default)]
struct Auth {
    challenge: Option<String>,
    /// We were told to answer, by then; there was no challenge yet.
    wanted_by: Option<Time>,
    /// Our answer, until it is judged, which must be by then.
    sent: Option<EventId>,
    answered_by: Option<Time>,
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
    useless_bytes: usize,
    useless_since: Time,
}

type Step = Result<(), Loss>;

impl Link<'_> {
    fn may_read(&self) -> bool {
        self.on_their_way < ON_THEIR_WAY_MAX && self.bytes_on_their_way < BYTES_ON_THEIR_WAY_MAX
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
        // The clock was set back; nobody was silent for that.
        if self.heard_at > now {
            self.heard_at = now;
            self.reception.all_progress(now);
        }
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

    // ---- what we say

    async fn obey(&mut self, order: Order) -> Step {
        let now = self.line.now();
        match order {
            Order::Listen { sub, filters } => {
                let frame = client::req(&name(sub), &filters);
                self.reception.opens(sub, filters, true, now);
                self.say(frame)
            }
            Order::Request { sub, filters, errand } => {
                let frame = client::req(&name(sub), &filters);
                self.reception.opens(sub, filters, false, now);
                self.errands.insert(sub, errand);
                self.say(frame)
            }
            Order::Reconcile { sub, filter, errand, standing } => {
                self.reception.opens(sub, [filter.clone()].into(), false, now);
                self.errands.insert(sub, errand);
                let frame_bytes = Comparison::frame_bytes(self.peer.message_bytes_max);
                let comparison = Comparison::new(filter, standing);
                comparison.prepare(&self.line.ground.node, sub, frame_bytes, &self.compared);
                self.comparisons.insert(sub, comparison);
                Ok(())
            }
            Order::Stands(repos) => {
                let found = self.found.take(repos);
                let Ground { node, warner, .. } = &*self.line.ground;
                let desk = (&node.ingest, &node.metrics.ledger);
                standing::keep(desk, warner, &self.line.relay, found, now).await;
                Ok(())
            }
            Order::Close(sub) => {
                self.reception.closes(sub);
                self.close(sub)
            }
            Order::Authenticate => match self.auth.challenge.take() {
                Some(challenge) => self.authenticate(&challenge),
                None => {
                    self.auth.wanted_by = Some(now.plus(CHALLENGE_WAIT));
                    Ok(())
                }
            },
        }
    }

    fn say(&mut self, frame: String) -> Step {
        self.send(Message::Text(frame.into()))
    }

    fn send(&mut self, frame: Message) -> Step {
        match self.outgoing.push(frame) {
            true => Ok(()),
            false => Err(Loss::Failed("it does not read what we send".into())),
        }
    }

    fn close(&mut self, sub: Sub) -> Step {
        self.errands.remove(&sub);
        let frame = match self.comparisons.remove(&sub) {
            Some(_) => client::neg_close(&name(sub)),
            None => client::close(&name(sub)),
        };
        self.say(frame)
    }

    /// NIP-42: as the relay's own key, for the address we dialled.
    fn authenticate(&mut self, challenge: &str) -> Step {
        let now = self.line.now().timestamp();
        let event = self.line.ground.key.answers(self.line.relay.as_str(), challenge, now);
        self.auth.sent = Some(event.id);
        self.auth.answered_by = Some(self.line.now().plus(CHALLENGE_WAIT));
        self.say(client::auth(&event))
    }

    async fn authenticated(&mut self, ok: bool) {
        let relay = self.line.relay.clone();
        self.line.say(Input::Authenticated { relay, ok }).await;
    }

    // ---- what we hear

    async fn hear(&mut self, frame: Message) -> Step {
        self.heard_at = self.line.now();
        self.pinged = false;
        let Message::Text(text) = frame else { return Ok(()) };
        match RelayMessage::parse(&text) {
            Ok(RelayMessage::Event { sub, event }) => {
                let Some(sub) = number(sub.as_str()) else { return self.stray() };
                if self.comparisons.contains_key(&sub) {
                    return self.stray();
                }
                self.event(sub, event, text.len()).await
            }
            Ok(RelayMessage::Eose { sub, hint }) => {
                let known = number(sub.as_str());
                let Some(sub) = known.filter(|sub| !self.comparisons.contains_key(sub)) else {
                    return self.useless(text.len());
                };
                self.eose(sub, hint).await
            }
            Ok(RelayMessage::Closed { sub, text }) => {
                let Some(sub) = number(sub.as_str()) else { return Ok(()) };
                self.end(sub, End::Closed(text)).await;
                Ok(())
            }
            Ok(RelayMessage::Notice(text)) => {
                self.useless(NOTICE_COSTS)?;
                let relay = self.line.relay.clone();
                self.line.say(Input::Notice { relay, text }).await;
                Ok(())
            }
            Ok(RelayMessage::Ok { id, ok, .. }) => {
                if self.auth.sent == Some(id) {
                    self.auth.sent = None;
                    self.auth.answered_by = None;
                    self.authenticated(ok).await;
                }
                Ok(())
            }
            Ok(RelayMessage::Auth(challenge)) => match self.auth.wanted_by.take() {
                Some(_) => self.authenticate(&challenge),
                None => {
                    self.auth.challenge = Some(challenge);
                    Ok(())
                }
            },
            Ok(RelayMessage::NegMsg { sub, message }) => {
                let Some(sub) = number(sub.as_str()) else { return Ok(()) };
                self.reception.progresses(sub, self.heard_at);
                if let Some(comparison) = self.comparisons.get_mut(&sub) {
                    let node = &self.line.ground.node;
                    let turned_away = &self.turned_away;
                    comparison.answer(node, sub, message, turned_away, &self.compared);
                }
                Ok(())
            }
            Ok(RelayMessage::NegErr { sub, text }) => {
                let known = number(sub.as_str());
                let Some(sub) = known.filter(|sub| self.comparisons.contains_key(sub)) else {
                    return self.useless(text.len());
                };
                self.end(sub, refused_comparison(text)).await;
                Ok(())
            }
            Ok(RelayMessage::Other) => self.useless(text.len()),
            Err(_) => self.stray(),
        }
    }

    /// What nobody asked for costs the relay of its budget, which is given anew every hour.
    fn useless(&mut self, bytes: usize) -> Step {
        if self.heard_at >= self.useless_since.plus(USELESS_FORGIVEN_AFTER) {
            (self.useless_since, self.useless_bytes) = (self.heard_at, 0);
        }
        self.useless_bytes += bytes;
        match self.useless_bytes > USELESS_BYTES_MAX {
            true => Err(Loss::Misbehaved("it does not stop sending what nobody asked for".into())),
            false => Ok(()),
        }
    }

    fn stray(&mut self) -> Step {
        self.unreadable += 1;
        match self.unreadable > UNREADABLE_MAX {
            true => Err(Loss::Misbehaved("it sends messages that are none".into())),
            false => Ok(()),
        }
    }

    async fn event(&mut self, sub: Sub, event: Box<Event>, bytes: usize) -> Step {
        let (now, node) = (self.heard_at, &self.line.ground.node);
        match self.reception.event(sub, &event, bytes, now) {
            Intake::Take { past } => {
                let limits = &node.limits.relay;
                let fits =
                    bytes <= limits.event_bytes_max + 256 && event.tags.len() <= limits.tags_max;
                // What can never be welcome is remembered, so it goes through the door once.
                let welcome = match precheck(&event, &node.rules, now.timestamp(), Origin::Sync) {
                    Ok(()) => true,
                    Err(reason) => reason.lasting() == Lasting::Forever,
                };
                if !fits || !welcome {
                    self.turned_away.add(event.id, now);
                    return self.settled(sub, past, now).await;
                }
                let source = self.source(sub, past);
                self.on_their_way += 1;
                self.bytes_on_their_way += bytes;
                let errand = self.errands.get(&sub).copied();
                let way = Way { sub, source, bytes, past, errand };
                let offer = offer(event, &self.line.relay, way, &self.verdicts, now);
                node.ingest.offer(self.line.generation, offer).await;
                Ok(())
            }
            Intake::Stray => self.useless(bytes),
            Intake::Flood => {
                let report = self.reception.floods(sub);
                self.close(sub)?;
                if let Some(report) = report {
                    self.report(sub, report).await;
                }
                Ok(())
            }
            Intake::Enough => Err(Loss::Misbehaved("it sends events nobody asked for".into())),
        }
    }

    fn source(&self, sub: Sub, past: bool) -> SourceKind {
        match self.errands.get(&sub).map(|errand| errand.purpose) {
            Some(Purpose::Backfill) => SourceKind::Backfill,
            Some(Purpose::Daily) => SourceKind::Daily,
            None if past => SourceKind::Backfill,
            None => SourceKind::Live,
        }
    }

    async fn eose(&mut self, sub: Sub, hint: Option<reply::Hint>) -> Step {
        let hint = hint.map(|hint| match hint {
            reply::Hint::Finish => Hint::Finish,
            reply::Hint::More => Hint::More,
        });
        if self.errands.contains_key(&sub) && self.reception.is_open(sub) {
            self.say(client::close(&name(sub)))?;
        }
        if let Some(report) = self.reception.eose(sub, hint, self.heard_at) {
            self.report(sub, report).await;
        }
        Ok(())
    }

    /// We could not take what it brought.
    async fn end_own(&mut self, sub: Sub) {
        self.reception.closes(sub);
        let end = End::Closed("error: our own store could not take an event".into());
        self.report(sub, Report::Ended(end)).await;
    }

    async fn end(&mut self, sub: Sub, end: End) {
        if let Some(report) = self.reception.ends(sub, end) {
            self.report(sub, report).await;
        }
    }

    async fn report(&mut self, sub: Sub, report: Report) {
        let relay = self.line.relay.clone();
        let input = match report {
            Report::Listening(page) => Input::Listening { relay, sub, page },
            Report::Ended(end) => {
                self.errands.remove(&sub);
                self.comparisons.remove(&sub);
                Input::Ended { relay, sub, end }
            }
        };
        self.line.say(input).await;
    }

    async fn judged(&mut self, verdict: &Verdict) -> Step {
        self.on_their_way = self.on_their_way.saturating_sub(1);
        self.bytes_on_their_way = self.bytes_on_their_way.saturating_sub(verdict.bytes);
        match verdict.fate {
            Fate::New => self.stored(verdict),
            Fate::Forged if self.reception.forged(verdict.sub, &verdict.id) => {
                return Err(Loss::Misbehaved("it sends forged events".into()));
            }
            // Asked for again later; what was heard live comes again with the next link.
            Fate::Failed if verdict.errand.is_none() => return Err(Loss::Crowded),
            Fate::Failed => {
                self.close(verdict.sub)?;
                self.end_own(verdict.sub).await;
                return Ok(());
            }
            // Also one that is known to be out of date.
            Fate::Refused | Fate::Known if verdict.errand.is_some() => {
                self.turned_away.add(verdict.id, self.heard_at);
            }
            Fate::Refused | Fate::Known | Fate::Forged => {}
        }
        self.settled(verdict.sub, verdict.past, self.line.now()).await
    }

    async fn settled(&mut self, sub: Sub, past: bool, now: Time) -> Step {
        if let Some(report) = self.reception.judged(sub, past, now) {
            self.report(sub, report).await;
        }
        Ok(())
    }

    /// Counted by where it came from; what should have come before is a gap (S-28).
    fn stored(&self, verdict: &Verdict) {
        let (relay, id, kind) = (&self.line.relay, verdict.id, verdict.kind);
        let metrics = &self.line.ground.node.metrics.sync;
        metrics.event(verdict.source);
        let gap = self.should_have_come_before(verdict);
        self.line.ground.history.received(relay, verdict.source, gap);
        match verdict.source {
            SourceKind::Direct | SourceKind::Live => tracing::debug!(%relay, %id, %kind, "live"),
            SourceKind::Backfill if gap => {
                metrics.gap(relay);
                tracing::warn!(%relay, %id, %kind, "missed while it was live, found in history");
            }
            SourceKind::Daily if gap => {
                metrics.gap(relay);
                tracing::error!(%relay, %id, %kind, "missed for long, found by the daily sync");
            }
            SourceKind::Backfill | SourceKind::Daily => {
                tracing::debug!(%relay, %id, %kind, "history");
            }
        }
    }

    /// It was made while all of this was heard live, here or on the link before this one.
    fn should_have_come_before(&self, verdict: &Verdict) -> bool {
        let heard = |since: Timestamp, until: Timestamp| {
            verdict.created_at > since && verdict.created_at < until
        };
        let less = |time: Time, secs: u64| Timestamp(time.timestamp().0.saturating_sub(secs));
        match verdict.errand {
            Some(errand) => errand
                .live_since
                .is_some_and(|since| heard(since, less(self.heard_at, GAP_AGE_SECS))),
            // Only what was confirmed is heard from a moment in the past on.
            None => self
                .line
                .before
                .is_some_and(|(from, to)| heard(from.timestamp(), less(to, GAP_BEFORE_LOSS_SECS))),
        }
    }

    async fn compared(&mut self, step: Compared) -> Step {
        let Compared { sub, progress } = step;
        let now = self.line.now();
        self.reception.progresses(sub, now);
        let Some(comparison) = self.comparisons.get_mut(&sub) else { return Ok(()) };
        match progress {
            Progress::Open(side, message) => {
                comparison.resume(side);
                let frame = client::neg_open(&name(sub), comparison.filter(), &message);
                self.say(frame)
            }
            Progress::Next(side, message) => {
                comparison.resume(side);
                self.say(client::neg_msg(&name(sub), &message))
            }
            Progress::Done(difference, mut shown) => {
                let lacking = match comparison.is_check() {
                    true => shown.lacking(),
                    false => difference.have.len(),
                };
                let sample = std::mem::take(&mut shown.sample);
                self.found.add(shown, now);
                self.say(client::neg_close(&name(sub)))?;
                let need = difference.need;
                self.end(sub, End::Reconciled { need, lacking, sample }).await;
                Ok(())
            }
            Progress::Failed(why) => {
                self.say(client::neg_close(&name(sub)))?;
                self.end(sub, End::NegentropyFailed(why)).await;
                Ok(())
            }
        }
    }
}

/// Some relays have the words of NIP-77 only to say that they do not speak it.
fn refused_comparison(text: String) -> End {
    let lower = text.to_ascii_lowercase();
    let never = ["unsupported", "not supported", "disabled", "not implemented", "unknown"];
    match never.iter().any(|words| lower.contains(words)) {
        true => End::NoNegentropy,
        false => End::NegentropyFailed(text),
    }
}

/// What a subscription is called on the wire.
fn name(sub: Sub) -> String {
    format!("g{}", sub.0)
}

fn number(name: &str) -> Option<Sub> {
    name.strip_prefix('g')?.parse().ok().map(Sub)
}

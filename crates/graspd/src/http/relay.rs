//! One client's WebSocket: moves frames between the socket and the session, and carries out what
//! the session asks for. One task, no locks held across a wait; at most one question to the store
//! at a time, written out before the next is asked, so a slow reader slows only itself.

use crate::errand::{Errand, NegAsked, Purpose, Step, Then};
use crate::ingest::{Asker, Offer};
use crate::neg_pool::ParkedNeg;
use crate::node::Node;
use crate::outbox::{Drained, Item, Outbox};
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, close_code};
use futures_util::SinkExt;
use grasp_core::event::Forged;
use grasp_core::policy::{Answer, Origin, precheck};
use grasp_core::{Event, EventId, Kind, Time};
use grasp_relay::reply;
use grasp_relay::{Action, Allowance, Budgets, ConnId, IpKey, Refused, Session, SubId};
use grasp_store::Provenance;
use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Events of one client between its socket and the disk.
const IN_FLIGHT_MAX: usize = 1024;
/// Questions of one client waiting their turn; beyond that its socket is not read.
const ERRANDS_MAX: usize = 64;
const ERRANDS_BYTES_MAX: usize = 4 << 20;
/// A helping that is not taken in this time means nobody is reading.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a connection that ends waits for answers that are still due.
const LAST_ANSWERS: Duration = Duration::from_secs(5);
const NEG_NO_ROOM: &str = "closed: others needed the room, and this one was idle for longest; start \
    again with NEG-OPEN";
const NEG_IDLE: &str = "closed: nothing was said for a minute; start again with NEG-OPEN";
/// How long it then waits for the client to close its side.
const LAST_WORDS: Duration = Duration::from_secs(2);
const RECONCILING_IDLE_MAX: Duration = Duration::from_secs(60);

impl Asker for Outbox {
    fn answer(&self, id: &EventId, answer: &Answer) {
        Outbox::answer(self, id, answer.ok, &answer.text);
    }

    fn answer_forged(&self, id: &EventId, why: Forged) {
        Outbox::answer_forged(self, id, &format!("invalid: {why}"));
    }
}

/// This client's address and the budgets of all; locked for a moment at a time, never while text
/// is parsed.
struct Purse {
    budgets: Arc<Mutex<Budgets>>,
    ip: IpKey,
}

impl Allowance for Purse {
    fn take_event(&mut self, kind: Kind, now: Time) -> Result<(), Refused> {
        self.budgets.lock().take_event(self.ip, kind, now)
    }
    fn retain(&mut self, bytes: usize) -> Result<(), Refused> {
        self.budgets.lock().retain(self.ip, bytes)
    }
    fn release(&mut self, bytes: usize) {
        self.budgets.lock().release(self.ip, bytes);
    }
}

/// The connection is over; there is nothing to say to anybody.
#[derive(Debug)]
struct Over;

type Flow = Result<(), Over>;

pub struct Conversation {
    node: Arc<Node>,
    socket: WebSocket,
    session: Session,
    conn: ConnId,
    ip: IpKey,
    purse: Purse,
    outbox: Arc<Outbox>,
    in_flight: usize,
    errands: VecDeque<(u64, Errand)>,
    running: Option<Running>,
    /// The query or reconciliation that currently goes by a name; anything older is stale.
    tickets: BTreeMap<(Purpose, SubId), u64>,
    next_ticket: u64,
    reconciling: BTreeMap<SubId, (ParkedNeg, Instant)>,
    heard: Instant,
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversation").field("conn", &self.conn).finish_non_exhaustive()
    }
}

struct Running {
    ticket: u64,
    answer: oneshot::Receiver<Step>,
}

impl Conversation {
    pub fn new(node: Arc<Node>, socket: WebSocket, ip: IpKey, challenge: String) -> Self {
        let outbox = Arc::new(Outbox::new(node.limits.outbox_bytes_max));
        let conn = node.hub.join(Arc::clone(&outbox));
        let purse = Purse { budgets: Arc::clone(&node.budgets), ip };
        let session =
            Session::new(Arc::clone(&node.limits.relay), Arc::clone(&node.service), challenge);
        Self {
            node,
            socket,
            session,
            conn,
            ip,
            purse,
            outbox,
            in_flight: 0,
            errands: VecDeque::new(),
            running: None,
            tickets: BTreeMap::new(),
            next_ticket: 0,
            reconciling: BTreeMap::new(),
            heard: Instant::now(),
        }
    }

    pub async fn run(mut self) {
        let started = Instant::now();
        let _ = self.talk().await;
        self.node.hub.leave(self.conn);
        self.session.end(&mut self.purse);
        self.node.metrics.connection_seconds.observe(started.elapsed().as_secs_f64());
    }

    async fn talk(&mut self) -> Flow {
        let mut ping = tokio::time::interval(self.node.limits.ping_after);
        ping.tick().await;
        loop {
            self.start_errand();
            let has_room = self.has_room();
            tokio::select! {
                () = self.node.closing.cancelled() => return self.say_goodbye().await,
                () = self.outbox.ready() => self.write_outbox().await?,
                step = answer_of(&mut self.running) => self.take_step(step).await?,
                message = self.socket.recv(), if has_room => match message.ok_or(Over)? {
                    Ok(message) => self.hear(message).await?,
                    Err(error) => return self.leave(&error).await,
                },
                _ = ping.tick() => self.check_pulse().await?,
            }
        }
    }

    /// Is there room for whatever the next message asks? Its socket waits otherwise.
    fn has_room(&self) -> bool {
        let bytes: usize = self.errands.iter().map(|(_, errand)| errand.bytes).sum();
        self.in_flight < IN_FLIGHT_MAX
            && self.errands.len() < ERRANDS_MAX
            && bytes < ERRANDS_BYTES_MAX
    }

    async fn hear(&mut self, message: Message) -> Flow {
        self.heard = Instant::now();
        match message {
            Message::Text(text) => {
                self.node.metrics.message_received(&text);
                let now = self.node.clock.now();
                self.session.handle_text(&text, now, &mut self.purse);
            }
            Message::Binary(_) => self.session.handle_binary(),
            Message::Ping(_) | Message::Pong(_) => {}
            Message::Close(_) => return Err(Over),
        }
        self.carry_out().await
    }

    async fn carry_out(&mut self) -> Flow {
        let mut spoke = false;
        while let Some(action) = self.session.poll_action() {
            match action {
                Action::Send(frame) => {
                    self.feed(frame).await?;
                    spoke = true;
                }
                Action::Ingest(event) => spoke |= self.ingest(event).await?,
                Action::CheckAuth(event) => self.check_auth(event).await?,
                Action::Subscribe { sub, filters } => {
                    let serial_max =
                        self.node.hub.subscribe(self.conn, sub.clone(), Arc::clone(&filters));
                    let now = self.node.clock.wall().timestamp();
                    self.enqueue(Errand::query(sub, filters, serial_max, now));
                }
                Action::Unsubscribe { sub } => {
                    self.node.hub.unsubscribe(self.conn, &sub);
                    self.outbox.forget(&sub);
                    self.tickets.remove(&(Purpose::Query, sub));
                }
                Action::Count { sub, filters } => {
                    let now = self.node.clock.wall().timestamp();
                    let serial_max = self.node.hub.told_serial();
                    self.enqueue(Errand::count(sub, filters, serial_max, now));
                }
                Action::NegOpen { sub, filter, message } => {
                    self.reconciling.remove(&sub);
                    let now = self.node.clock.wall().timestamp();
                    let serial_max = self.node.hub.told_serial();
                    let desk = &self.node.desk;
                    let address = Some(self.ip).filter(|ip| self.node.budgets.lock().counts(*ip));
                    let asked = NegAsked { sub, filter: *filter, message, address };
                    self.enqueue(Errand::neg_open(asked, serial_max, now, desk));
                }
                Action::NegMsg { sub, message } => self.go_on_reconciling(sub, message).await?,
                Action::NegClose { sub } => {
                    self.reconciling.remove(&sub);
                    self.tickets.remove(&(Purpose::Reconcile, sub));
                }
                Action::Hangup(why) => {
                    self.close(close_code::POLICY, &why).await;
                    return Err(Over);
                }
            }
        }
        if spoke { self.flush().await } else { Ok(()) }
    }

    /// Hands the event in, or refuses it by a glance. True if something was written.
    async fn ingest(&mut self, event: Box<Event>) -> Result<bool, Over> {
        let now = self.node.clock.wall();
        if let Err(reason) = precheck(&event, &self.node.rules, now.timestamp(), Origin::Direct) {
            self.node.metrics.event_judged(event.kind, reason.is_ok(), reason.code());
            self.feed(reply::ok(&event.id, reason.is_ok(), &reason.to_string())).await?;
            return Ok(true);
        }
        self.in_flight += 1;
        let asker = Arc::clone(&self.outbox) as Arc<dyn Asker>;
        let offer = Offer { event, from: Provenance::direct(now), ip: Some(self.ip), asker };
        self.node.ingest.offer(self.conn.0, offer).await;
        Ok(false)
    }

    async fn check_auth(&mut self, event: Box<Event>) -> Flow {
        let id = event.id;
        let checked = self.node.readers.ask(move |_| event.verify()).await.map_err(|_| Over)?;
        self.session.auth_checked(id, checked);
        Ok(())
    }

    fn enqueue(&mut self, errand: Errand) {
        self.next_ticket += 1;
        if errand.purpose() != Purpose::Count {
            self.tickets.insert((errand.purpose(), errand.sub.clone()), self.next_ticket);
        }
        self.errands.push_back((self.next_ticket, errand));
    }

    /// Every count is answered; of queries and reconciliations only the newest of a name is.
    fn is_current(&self, purpose: Purpose, sub: &SubId, ticket: u64) -> bool {
        let newest = self.tickets.get(&(purpose, sub.clone()));
        purpose == Purpose::Count || newest == Some(&ticket)
    }

    async fn go_on_reconciling(&mut self, sub: SubId, message: Vec<u8>) -> Flow {
        let why = match self.reconciling.remove(&sub).map(|(parked, _)| parked.resume()) {
            Some(Some(reconciling)) => {
                self.enqueue(Errand::neg_msg(sub, reconciling, message));
                return Ok(());
            }
            Some(None) => NEG_NO_ROOM,
            // A client that does not wait for our answer cannot be answered in order.
            None => "error: wait for NEG-MSG before you send the next one; start again",
        };
        self.end_reconciliation(&sub, why).await?;
        self.flush().await
    }

    async fn end_reconciliation(&mut self, sub: &SubId, why: &str) -> Flow {
        self.session.neg_ended(sub);
        self.tickets.remove(&(Purpose::Reconcile, sub.clone()));
        self.feed(reply::neg_err(sub, why)).await
    }

    /// Sends the next errand to a reader, unless one is out already.
    fn start_errand(&mut self) {
        while self.running.is_none() {
            let Some((ticket, errand)) = self.errands.pop_front() else { return };
            if !self.is_current(errand.purpose(), &errand.sub, ticket) {
                continue;
            }
            let desk = Arc::clone(&self.node.desk);
            let answer = self.node.readers.ask(move |store| errand.step(store, &desk));
            self.running = Some(Running { ticket, answer });
        }
    }

    async fn take_step(&mut self, step: Option<(u64, Step)>) -> Flow {
        let (ticket, step) = step.ok_or(Over)?;
        let (purpose, sub) = (step.purpose, step.sub);
        if !self.is_current(purpose, &sub, ticket) {
            return Ok(());
        }
        match step.then {
            Then::Again(errand) => self.errands.push_back((ticket, errand)),
            Then::Done => {
                self.tickets.remove(&(purpose, sub));
            }
            Then::Closed => {
                if purpose == Purpose::Query {
                    self.end_subscription(&sub);
                }
                self.tickets.remove(&(purpose, sub));
            }
            Then::Reconciling(reconciling) => {
                let parked = self.node.desk.neg_items.park(reconciling);
                self.reconciling.insert(sub, (parked, Instant::now()));
            }
            Then::NegEnded => {
                self.session.neg_ended(&sub);
                self.tickets.remove(&(purpose, sub));
            }
        }
        for frame in step.frames {
            self.feed(frame).await?;
        }
        self.flush().await
    }

    fn end_subscription(&mut self, sub: &SubId) {
        self.node.hub.unsubscribe(self.conn, sub);
        self.session.subscription_ended(sub, &mut self.purse);
    }

    async fn write_outbox(&mut self) -> Flow {
        let drained = self.outbox.drain();
        let forged = drained.forged;
        self.write(drained).await?;
        for _ in 0..forged {
            self.session.bad_signature();
        }
        if forged > 0 { self.carry_out_hangup().await } else { Ok(()) }
    }

    async fn write(&mut self, drained: Drained) -> Flow {
        for item in drained.items {
            match item {
                Item::Ok(frame) => {
                    self.in_flight = self.in_flight.saturating_sub(1);
                    self.feed(frame).await?;
                }
                Item::Live { sub, json } => {
                    self.feed(reply::event(&sub, &json)).await?;
                }
            }
        }
        for sub in drained.skipped {
            self.end_subscription(&sub);
            self.tickets.remove(&(Purpose::Query, sub.clone()));
            let why = "error: you read too slowly and events were skipped; subscribe again";
            self.feed(reply::closed(&sub, why)).await?;
        }
        self.flush().await
    }

    /// Only refusals and a hang-up can follow from bad signatures.
    async fn carry_out_hangup(&mut self) -> Flow {
        while let Some(action) = self.session.poll_action() {
            match action {
                Action::Send(frame) => self.feed(frame).await?,
                Action::Hangup(why) => {
                    self.close(close_code::POLICY, &why).await;
                    return Err(Over);
                }
                _ => {}
            }
        }
        self.flush().await
    }

    async fn feed(&mut self, frame: String) -> Flow {
        self.node.metrics.message_sent(&frame);
        match timeout(WRITE_TIMEOUT, self.socket.feed(text(frame))).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(Over),
        }
    }

    async fn flush(&mut self) -> Flow {
        match timeout(WRITE_TIMEOUT, self.socket.flush()).await {
            Ok(Ok(())) => {
                // Whoever takes what we write is there, also while we are too busy to listen.
                self.heard = Instant::now();
                Ok(())
            }
            _ => Err(Over),
        }
    }

    async fn check_pulse(&mut self) -> Flow {
        if self.heard.elapsed() > self.node.limits.idle_timeout {
            return Err(Over);
        }
        self.drop_idle_reconciliations().await?;
        let ping = self.socket.send(Message::Ping(axum::body::Bytes::new()));
        match timeout(WRITE_TIMEOUT, ping).await {
            Ok(Ok(())) => Ok(()),
            _ => Err(Over),
        }
    }

    /// Their memory is shared by all clients, so nobody may keep it without using it.
    async fn drop_idle_reconciliations(&mut self) -> Flow {
        let why = |parked: &ParkedNeg, since: &Instant| match () {
            () if parked.has_ended() => Some(NEG_NO_ROOM),
            () => (since.elapsed() > RECONCILING_IDLE_MAX).then_some(NEG_IDLE),
        };
        let all = self.reconciling.iter();
        let ended = all.filter_map(|(sub, (parked, at))| Some((sub.clone(), why(parked, at)?)));
        for (sub, why) in ended.collect::<Vec<(SubId, &str)>>() {
            self.reconciling.remove(&sub);
            self.end_reconciliation(&sub, why).await?;
        }
        Ok(())
    }

    async fn say_goodbye(&mut self) -> Flow {
        self.close(close_code::AWAY, "the server is stopping").await;
        Err(Over)
    }

    async fn answer_in_flight(&mut self) -> Flow {
        while self.in_flight > 0 {
            self.outbox.ready().await;
            let drained = self.outbox.drain();
            self.write(drained).await?;
        }
        Ok(())
    }

    /// After something that is no message; nothing can be read behind it.
    async fn leave(&mut self, error: &axum::Error) -> Flow {
        let why = error.to_string();
        if why.contains("too long") {
            let max = self.node.limits.relay.message_bytes_max;
            self.close(close_code::SIZE, &format!("a message may have {max} bytes")).await;
        } else {
            self.close(close_code::PROTOCOL, &why).await;
        }
        Err(Over)
    }

    /// Whoever ends it: what was handed in is answered first.
    async fn close(&mut self, code: u16, why: &str) {
        let _ = timeout(LAST_ANSWERS, self.answer_in_flight()).await;
        let reason: String = why.chars().take(100).collect();
        let frame = CloseFrame { code, reason: Utf8Bytes::from(reason) };
        let goodbye = async {
            self.socket.send(Message::Close(Some(frame))).await.map_err(|_| Over)?;
            // A socket closed over unread input is reset, and a reset destroys answers that the
            // client has not read yet. So the rest is read, and nothing is made of it.
            while let Some(Ok(_)) = self.socket.recv().await {}
            Ok::<(), Over>(())
        };
        let _ = timeout(LAST_WORDS, goodbye).await;
    }
}

fn text(frame: String) -> Message {
    Message::Text(Utf8Bytes::from(frame))
}

/// Waits for the running errand; for ever if there is none.
async fn answer_of(running: &mut Option<Running>) -> Option<(u64, Step)> {
    let Some(Running { ticket, answer }) = running else { return std::future::pending().await };
    let (ticket, step) = (*ticket, answer.await.ok());
    *running = None;
    step.map(|step| (ticket, step))
}

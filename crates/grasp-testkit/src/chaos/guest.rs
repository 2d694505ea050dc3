//! One connection: what its client says is counted and answered as the behaviour of the moment
//! wants it. All that goes out passes one queue, in order.

use super::answers::Answering;
use super::negentropy::Reconciling;
use super::refusal::{Gate, Refused, signed_in};
use super::room::Room;
use super::socket::Socket;
use crate::behaviour::{Answers, Behaviour, Refuses};
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, StreamExt};
use grasp_core::Event;
use grasp_relay::{Addressee, ClientMessage, SubId, reply};
use std::sync::Arc;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// What goes out.
#[derive(Debug)]
pub(super) enum Out {
    Frame(Message),
    /// Answered once everything before it is in the kernel's hands.
    Fence(oneshot::Sender<()>),
}

impl Out {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Self::Frame(Message::text(text.into()))
    }

    pub(super) fn event(sub: &SubId, event: &Event) -> Self {
        Self::text(reply::event(sub, event.to_json().as_bytes()))
    }
}

pub(super) async fn converses(socket: WebSocketStream<Socket>, room: Arc<Room>) {
    let (sink, stream) = socket.split();
    let (out, queue) = unbounded_channel();
    let id = room.enters(out.clone());
    let mut guest = Guest {
        answering: Answering::new(id, Arc::clone(&room), out.clone()),
        reconciling: Reconciling::new(id, Arc::clone(&room), out.clone()),
        gate: Gate::new(id, Arc::clone(&room)),
        presence: Presence { id, room },
        out,
    };
    guest.greets();
    tokio::select! {
        () = guest.hears_all(stream) => {}
        () = tells_all(sink, queue) => {}
    }
}

async fn tells_all(
    mut sink: SplitSink<WebSocketStream<Socket>, Message>,
    mut queue: UnboundedReceiver<Out>,
) {
    while let Some(out) = queue.recv().await {
        match out {
            Out::Frame(frame) => {
                if sink.send(frame).await.is_err() {
                    return;
                }
            }
            Out::Fence(passed) => drop(passed.send(())),
        }
    }
}

/// However the connection ends, it is over.
struct Presence {
    id: u64,
    room: Arc<Room>,
}

impl Drop for Presence {
    fn drop(&mut self) {
        self.room.leaves(self.id);
    }
}

struct Guest {
    answering: Answering,
    reconciling: Reconciling,
    gate: Gate,
    presence: Presence,
    out: UnboundedSender<Out>,
}

impl Guest {
    fn room(&self) -> &Room {
        &self.presence.room
    }

    fn says(&self, text: impl Into<String>) {
        // A connection that is gone needs no answer.
        let _ = self.out.send(Out::text(text));
    }

    fn greets(&self) {
        if matches!(self.room().behaviour().refuses, Refuses::WithoutAuth { .. }) {
            self.says(reply::auth(self.gate.challenge()));
        }
    }

    async fn hears_all(&mut self, mut stream: SplitStream<WebSocketStream<Socket>>) {
        while let Some(Ok(frame)) = stream.next().await {
            if let Message::Text(text) = frame {
                self.hears(&text);
            }
        }
    }

    fn hears(&mut self, text: &str) {
        let behaviour = self.room().behaviour();
        let message = ClientMessage::parse(text);
        self.counts(&message);
        if behaviour.answers == Answers::Silent {
            return;
        }
        for frame in self.room().chance(|random| self.room().tricks.noise.frames(random)) {
            let _ = self.out.send(Out::Frame(frame));
        }
        if let Some(told) = self.gate.weighs(&behaviour.limits, text.len()) {
            return self.says(told);
        }
        match message {
            Ok(message) => self.answers(message, &behaviour),
            Err(bad) => self.says(match &bad.to {
                Addressee::Subscription(sub) | Addressee::Count(sub) => {
                    reply::closed(sub, &bad.why)
                }
                Addressee::Reconciliation(sub) => reply::neg_err(sub, &bad.why),
                Addressee::Event(id) => reply::ok(id, false, &bad.why),
                Addressee::Nobody => reply::notice(&bad.why),
            }),
        }
    }

    fn counts(&self, message: &Result<ClientMessage, grasp_relay::Malformed>) {
        let Ok(message) = message else { return };
        self.room().notes(|seen| match message {
            ClientMessage::Req { filters, .. } => seen.asked(filters),
            ClientMessage::Close(_) => seen.closes += 1,
            ClientMessage::NegOpen { .. } => {
                seen.negentropy_opens += 1;
                seen.history_starts.push(std::time::Instant::now());
            }
            ClientMessage::NegMsg { .. } => seen.negentropy_messages += 1,
            ClientMessage::Event(event) => seen.handed_in.push(event.id),
            _ => {}
        });
    }

    fn answers(&mut self, message: ClientMessage, behaviour: &Behaviour) {
        match message {
            ClientMessage::Event(event) => self.takes(*event),
            ClientMessage::Auth(event) => self.checks(&event),
            ClientMessage::Count { sub, filters } => {
                let count = self.room().count(&filters);
                self.says(reply::count(&sub, u64::try_from(count).unwrap_or(u64::MAX)));
            }
            ClientMessage::Close(sub) => self.answering.ends(&sub),
            ClientMessage::Req { sub, filters } => {
                match self.gate.judges(behaviour, &sub, &filters) {
                    None => self.answering.begins(&sub, &filters, behaviour),
                    Some(refused) => {
                        // A refused question ends the one whose name it took.
                        self.answering.ends(&sub);
                        self.refuses(refused, |text| reply::closed(&sub, text));
                    }
                }
            }
            ClientMessage::NegOpen { sub, filter, message } => {
                if self.reconciling.declines(&sub, behaviour.negentropy) {
                    return;
                }
                match self.gate.judges(behaviour, &sub, std::slice::from_ref(&filter)) {
                    None => self.reconciling.begins(&sub, &filter, &message, behaviour.negentropy),
                    Some(refused) => self.refuses(refused, |text| reply::neg_err(&sub, text)),
                }
            }
            ClientMessage::NegMsg { sub, message } => self.reconciling.goes_on(&sub, &message),
            ClientMessage::NegClose(sub) => self.reconciling.ends(&sub),
        }
    }

    fn refuses(&self, refused: Refused, closed: impl Fn(&str) -> String) {
        self.room().notes(|seen| seen.refusals += 1);
        self.says(match refused {
            Refused::Closed(text) => closed(&text),
            Refused::Notice(text) => reply::notice(text),
        });
    }

    fn takes(&self, event: Event) {
        let id = event.id;
        self.says(match event.verify() {
            Err(why) => reply::ok(&id, false, &format!("invalid: {why}")),
            Ok(event) => {
                let is_new = self.room().keeps(event);
                reply::ok(&id, true, if is_new { "" } else { "duplicate: already have this event" })
            }
        });
    }

    fn checks(&mut self, event: &Event) {
        let verdict = signed_in(event, &self.room().url, self.gate.challenge());
        self.room().notes(|seen| match &verdict {
            Ok(()) => seen.signed_in.push(event.pubkey),
            Err(why) => seen.bad_auths.push(why.clone()),
        });
        match verdict {
            Ok(()) => {
                self.gate.opens();
                self.says(reply::ok(&event.id, true, ""));
            }
            Err(why) => self.says(reply::ok(&event.id, false, &format!("invalid: {why}"))),
        }
    }
}

//! A line to the server that may go dead at any moment, and whether it had a reason to.

use futures_util::{SinkExt, StreamExt};
use grasp_core::VerifiedEvent;
use grasp_testkit::{Client, Ran, Reply};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio_tungstenite::tungstenite::Message;

/// Only ends a broken test.
const CAP: Duration = Duration::from_secs(60);

/// The power is still on. Whoever sees something fail before it went is right to complain.
#[derive(Debug, Clone, Default)]
pub(crate) struct Power(Arc<AtomicBool>);

impl Power {
    pub(crate) fn fails(&self) {
        self.0.store(true, Ordering::SeqCst);
    }

    pub(crate) fn excuses(&self, what: &str) {
        assert!(self.0.load(Ordering::SeqCst), "failed while the server was running: {what}");
    }
}

#[derive(Debug)]
pub(crate) struct Line {
    client: Client,
    pub(crate) power: Power,
    /// `host:port` for git.
    pub(crate) address: String,
}

impl Line {
    /// `None` if the server is gone already.
    pub(crate) async fn open(address: &str, power: &Power) -> Option<Self> {
        let client = Client::try_connect(&format!("ws://{address}"), &[]).await;
        if client.is_none() {
            power.excuses("connecting");
        }
        Some(Self { client: client?, power: power.clone(), address: address.to_owned() })
    }

    /// `None` if nobody says yes any more: the event may or may not have arrived.
    pub(crate) async fn publishes(&mut self, event: &VerifiedEvent) -> Option<Reply> {
        let said = self.exchange(event).await;
        if !said.as_ref().is_some_and(|reply| reply.ok) {
            self.power.excuses(&format!("{said:?}"));
        }
        said.filter(|reply| reply.ok)
    }

    async fn exchange(&mut self, event: &VerifiedEvent) -> Option<Reply> {
        let socket = &mut self.client.socket;
        socket.send(Message::text(format!("[\"EVENT\",{}]", event.to_json()))).await.ok()?;
        let id = event.id.to_hex();
        loop {
            let heard = tokio::time::timeout(CAP, socket.next()).await.expect("an answer in time");
            let Message::Text(text) = heard?.ok()? else { continue };
            let message: Value = serde_json::from_str(&text).expect("the server speaks JSON");
            if message[0] == "OK" && message[1] == id.as_str() {
                return Some(Reply::of(&message));
            }
        }
    }

    /// `None` if git lost its server, or the server its disk.
    pub(crate) fn pushed(&self, ran: &Ran) -> Option<()> {
        if !ran.ok {
            self.power.excuses(&ran.stderr);
        }
        ran.ok.then_some(())
    }
}

//! Publishing at a steady rate, in turns on several servers and on a relay of our own.

use super::listening::Ledger;
use super::shared::Host;
use crate::wire::{Socket, connect};
use crate::work::ingest::message_of;
use anyhow::Result;
use futures_util::stream::SplitSink;
use futures_util::{SinkExt, StreamExt};
use grasp_core::VerifiedEvent;
use grasp_testkit::chaos::ChaosRelay;
use std::time::Duration;
use tokio::time::{MissedTickBehavior, interval};
use tokio_tungstenite::tungstenite::Message;

#[derive(Debug)]
pub(super) struct Publishers<'a> {
    lines: Vec<SplitSink<Socket, Message>>,
    relay: &'a ChaosRelay,
}

impl<'a> Publishers<'a> {
    pub(super) async fn at(
        hosts: &[Host],
        relay: &'a ChaosRelay,
        ledger: &mut Ledger,
    ) -> Result<Self> {
        let mut lines = Vec::new();
        for host in hosts {
            let (line, answers) = connect(&host.server.address).await?.split();
            ledger.reads(answers);
            lines.push(line);
        }
        Ok(Self { lines, relay })
    }

    /// Places to publish at; the last is the relay.
    pub(super) fn places(&self) -> usize {
        self.lines.len() + 1
    }

    pub(super) async fn publish(
        &mut self,
        event: &VerifiedEvent,
        place: usize,
        ledger: &mut Ledger,
    ) -> Result<()> {
        match self.lines.get_mut(place) {
            Some(line) => line.send(Message::Text(message_of(event)?)).await?,
            None => {
                self.relay.publishes(event);
                ledger.stores(event.id);
            }
        }
        Ok(())
    }

    /// One after the other, each place in its turn.
    pub(super) async fn publish_all(
        &mut self,
        events: &[VerifiedEvent],
        per_second: u64,
        ledger: &mut Ledger,
    ) -> Result<()> {
        let mut beat = interval(Duration::from_secs(1) / u32::try_from(per_second)?);
        beat.set_missed_tick_behavior(MissedTickBehavior::Burst);
        for (n, event) in events.iter().enumerate() {
            beat.tick().await;
            self.publish(event, n % self.places(), ledger).await?;
        }
        Ok(())
    }
}

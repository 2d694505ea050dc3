//! What waits to be written to one client. Live events share their bytes with every other client;
//! a reader too slow for them loses its subscription, and is told so, instead of our memory.

use bytes::Bytes;
use grasp_core::EventId;
use grasp_relay::{SubId, reply};
use parking_lot::Mutex;
use std::collections::{BTreeSet, VecDeque};
use tokio::sync::Notify;

#[derive(Debug)]
pub enum Item {
    /// The answer to an EVENT: gives its in-flight slot back once it is written.
    Ok(String),
    Live {
        sub: SubId,
        json: Bytes,
    },
}

/// Was there room for a live event?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    Queued,
    Skipped,
}

#[derive(Debug)]
pub struct Outbox {
    queue: Mutex<Queue>,
    ready: Notify,
    live_bytes_max: usize,
}

#[derive(Debug, Default)]
struct Queue {
    items: VecDeque<Item>,
    live_bytes: usize,
    skipped: BTreeSet<SubId>,
    forged: u32,
}

/// Bookkeeping for one queued live event, so that empty events are not free.
const ITEM_BYTES: usize = 64;
/// Live bytes taken out at once: what a stuck socket can hold beyond the queue itself.
const HELPING_BYTES: usize = 256 << 10;

impl Outbox {
    pub fn new(live_bytes_max: usize) -> Self {
        Self { queue: Mutex::default(), ready: Notify::new(), live_bytes_max }
    }

    /// Answers are few by construction (the in-flight limit), so they are never refused.
    pub fn answer(&self, id: &EventId, accepted: bool, message: &str) {
        self.push(Item::Ok(reply::ok(id, accepted, message)), 0);
    }

    /// An answer to an event that was not what it claimed to be; the conversation counts these.
    pub fn answer_forged(&self, id: &EventId, message: &str) {
        self.push(Item::Ok(reply::ok(id, false, message)), 1);
    }

    fn push(&self, item: Item, forged: u32) {
        let mut queue = self.queue.lock();
        queue.items.push_back(item);
        queue.forged += forged;
        drop(queue);
        self.ready.notify_one();
    }

    pub fn live(&self, sub: &SubId, json: &Bytes) -> Delivery {
        let mut queue = self.queue.lock();
        let cost = json.len() + ITEM_BYTES;
        let delivery = if queue.live_bytes + cost > self.live_bytes_max {
            queue.skipped.insert(sub.clone());
            Delivery::Skipped
        } else {
            queue.live_bytes += cost;
            queue.items.push_back(Item::Live { sub: sub.clone(), json: json.clone() });
            Delivery::Queued
        };
        drop(queue);
        self.ready.notify_one();
        delivery
    }

    /// Waits until something is there. Cancelling loses nothing.
    pub async fn ready(&self) {
        loop {
            let notified = self.ready.notified();
            if !self.queue.lock().is_empty() {
                return;
            }
            notified.await;
        }
    }

    /// Takes one helping; the caller writes it before it asks again.
    pub fn drain(&self) -> Drained {
        let mut queue = self.queue.lock();
        let mut items = Vec::new();
        let mut taken = 0;
        while taken < HELPING_BYTES {
            let Some(item) = queue.items.pop_front() else { break };
            if let Item::Live { json, .. } = &item {
                taken += json.len() + ITEM_BYTES;
            }
            items.push(item);
        }
        queue.live_bytes = queue.live_bytes.saturating_sub(taken);
        // CLOSED comes after everything that was queued before the gap.
        let skipped = if queue.items.is_empty() {
            std::mem::take(&mut queue.skipped)
        } else {
            BTreeSet::new()
        };
        Drained { items, skipped, forged: std::mem::take(&mut queue.forged) }
    }

    /// The subscription is over or begins anew: what was queued for the old one is not sent.
    pub fn forget(&self, sub: &SubId) {
        let mut queue = self.queue.lock();
        queue.skipped.remove(sub);
        let mut freed = 0;
        queue.items.retain(|item| match item {
            Item::Live { sub: of, json } if of == sub => {
                freed += json.len() + ITEM_BYTES;
                false
            }
            _ => true,
        });
        queue.live_bytes = queue.live_bytes.saturating_sub(freed);
    }
}

impl Queue {
    fn is_empty(&self) -> bool {
        self.items.is_empty() && self.skipped.is_empty() && self.forged == 0
    }
}

#[derive(Debug)]
pub struct Drained {
    pub items: Vec<Item>,
    /// Subscriptions that missed an event and are over.
    pub skipped: BTreeSet<SubId>,
    pub forged: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_reader_costs_no_more_than_its_share_and_learns_what_it_missed() {
        let outbox = Outbox::new(1_000);
        let sub = SubId::parse("s").unwrap();
        let json = Bytes::from(vec![b'x'; 400]);
        assert_eq!(outbox.live(&sub, &json), Delivery::Queued);
        assert_eq!(outbox.live(&sub, &json), Delivery::Queued);
        assert_eq!(outbox.live(&sub, &json), Delivery::Skipped);
        outbox.answer(&EventId::from_bytes([1; 32]), true, "");
        let drained = outbox.drain();
        assert_eq!(drained.items.len(), 3, "answers are never refused");
        assert!(drained.skipped.contains(&sub));
        assert_eq!(outbox.live(&sub, &json), Delivery::Queued, "room again");
    }
}

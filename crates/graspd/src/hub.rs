//! Live subscriptions of all clients. One lock orders two things against each other: an event
//! being told to its subscribers, and a subscription beginning. So every event is either in the
//! stored part of an answer or in its live part, never in both and never in neither.

use crate::outbox::{Delivery, Outbox};
use bytes::Bytes;
use grasp_core::{Filter, VerifiedEvent};
use grasp_relay::{ConnId, SubId, Subscriptions};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Debug, Default)]
pub struct Hub {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    subscriptions: Subscriptions,
    outboxes: HashMap<ConnId, Arc<Outbox>>,
    /// The newest event that has been told to everybody.
    told_serial: u64,
    next_conn: u64,
}

/// A committed event on its way to subscribers. Ephemeral ones have no serial.
#[derive(Debug, Clone)]
pub struct Fresh {
    pub serial: Option<u64>,
    pub event: Arc<VerifiedEvent>,
}

impl Hub {
    pub fn starting_at(serial: u64) -> Self {
        Self { inner: Mutex::new(Inner { told_serial: serial, ..Inner::default() }) }
    }

    pub fn join(&self, outbox: Arc<Outbox>) -> ConnId {
        let mut inner = self.inner.lock();
        inner.next_conn += 1;
        let conn = ConnId(inner.next_conn);
        inner.outboxes.insert(conn, outbox);
        conn
    }

    pub fn leave(&self, conn: ConnId) {
        let mut inner = self.inner.lock();
        inner.subscriptions.remove_connection(conn);
        inner.outboxes.remove(&conn);
    }

    /// Starts (or replaces) a live subscription. Returns the last serial that belongs to its past.
    pub fn subscribe(&self, conn: ConnId, sub: SubId, filters: Arc<[Filter]>) -> u64 {
        let mut inner = self.inner.lock();
        if let Some(outbox) = inner.outboxes.get(&conn) {
            outbox.forget(&sub);
        }
        inner.subscriptions.insert(conn, sub, filters);
        inner.told_serial
    }

    pub fn unsubscribe(&self, conn: ConnId, sub: &SubId) {
        self.inner.lock().subscriptions.remove(conn, sub);
    }

    /// The last serial of the past, for questions that do not go on living.
    pub fn told_serial(&self) -> u64 {
        self.inner.lock().told_serial
    }

    /// Tells committed events to whom they match, in commit order.
    pub fn tell(&self, events: &[Fresh]) {
        for fresh in events {
            let mut inner = self.inner.lock();
            let json: &Bytes = fresh.event.json();
            for (conn, sub) in inner.subscriptions.matching(&fresh.event) {
                let Some(outbox) = inner.outboxes.get(&conn) else { continue };
                if outbox.live(&sub, json) == Delivery::Skipped {
                    inner.subscriptions.remove(conn, &sub);
                }
            }
            inner.told_serial = inner.told_serial.max(fresh.serial.unwrap_or(0));
        }
    }

    pub fn connections(&self) -> usize {
        self.inner.lock().outboxes.len()
    }
}

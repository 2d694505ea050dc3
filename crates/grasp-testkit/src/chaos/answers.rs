//! How a question is answered that was not refused. What takes long runs beside the conversation
//! and ends with its subscription.

use super::guest::Out;
use super::invention::{fitting, forged, unrelated};
use super::room::{Found, Room};
use crate::behaviour::{Answers, Behaviour};
use crate::now;
use grasp_core::{Event, Filter, VerifiedEvent};
use grasp_relay::{SubId, reply};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// So many unrelated events answer every question, however little there is.
const WRONG_MIN: usize = 25;
/// Endless events go out in such portions, each after the other was taken.
const PORTION: usize = 32;

pub(super) struct Answering {
    line: Line,
    running: BTreeMap<SubId, JoinHandle<()>>,
}

/// The way to one client.
#[derive(Clone)]
struct Line {
    guest: u64,
    room: Arc<Room>,
    out: UnboundedSender<Out>,
}

impl Answering {
    pub(super) fn new(guest: u64, room: Arc<Room>, out: UnboundedSender<Out>) -> Self {
        Self { line: Line { guest, room, out }, running: BTreeMap::new() }
    }

    pub(super) fn begins(&mut self, sub: &SubId, filters: &[Filter], behaviour: &Behaviour) {
        self.ends(sub);
        let line = &self.line;
        let found = line.room.opens(line.guest, sub, filters);
        let eose = eose(sub, &found, behaviour.hints);
        let sub = sub.clone();
        match behaviour.answers {
            Answers::Honest => {
                found.events.iter().for_each(|event| line.sends(&sub, event));
                line.says(eose);
            }
            Answers::Silent => {}
            Answers::NeverEose => found.events.iter().for_each(|event| line.sends(&sub, event)),
            Answers::Wrong => {
                for _ in 0..found.events.len().max(WRONG_MIN) {
                    line.sends(&sub, &unrelated(line.room.serial()));
                }
                line.says(eose);
            }
            Answers::Forged => {
                for event in &found.events {
                    line.sends(&sub, &forged(event, line.room.serial()));
                }
                line.says(eose);
            }
            Answers::Endless => {
                let at = now().saturating_add_signed(behaviour.skew_secs);
                let running = line.clone().never_ends(sub.clone(), filters.to_vec(), at);
                self.running.insert(sub, tokio::spawn(running));
            }
            Answers::SlowDrip { every } => {
                let running = line.clone().drips(sub.clone(), found.events, every, eose);
                self.running.insert(sub, tokio::spawn(running));
            }
        }
    }

    pub(super) fn ends(&mut self, sub: &SubId) {
        self.line.room.closes(self.line.guest, sub);
        if let Some(running) = self.running.remove(sub) {
            running.abort();
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.running.values().for_each(JoinHandle::abort);
    }
}

impl Line {
    fn says(&self, text: String) {
        // A connection that is gone needs no answer.
        let _ = self.out.send(Out::text(text));
    }

    fn sends(&self, sub: &SubId, event: &Event) {
        self.room.notes(|seen| seen.events_sent += 1);
        let _ = self.out.send(Out::event(sub, event));
    }

    async fn drips(self, sub: SubId, events: Vec<VerifiedEvent>, every: Duration, eose: String) {
        for event in events {
            tokio::time::sleep(every).await;
            self.sends(&sub, &event);
        }
        self.says(eose);
    }

    /// As fast as the other side reads.
    async fn never_ends(self, sub: SubId, filters: Vec<Filter>, at: u64) {
        loop {
            let mut sent = 0;
            for filter in filters.iter().cycle().take(PORTION) {
                if let Some(event) = fitting(filter, self.room.serial(), at) {
                    self.sends(&sub, &event);
                    sent += 1;
                }
            }
            let (passed, passes) = oneshot::channel();
            let gone = self.out.send(Out::Fence(passed)).is_err() || passes.await.is_err();
            if gone || sent == 0 {
                return;
            }
        }
    }
}

fn eose(sub: &SubId, found: &Found, hints: bool) -> String {
    let hint = if found.more { reply::Hint::More } else { reply::Hint::Finish };
    reply::eose(sub, hints.then_some(hint))
}

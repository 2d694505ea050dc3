//! A relay on a real socket that does what it is told, good or bad: the behaviours of the simulated
//! relays, and a few tricks that only bytes can play. Everything it meets is counted, so that a test
//! can ask what others did to it.

mod answers;
mod door;
mod guest;
mod hole;
mod invention;
mod negentropy;
mod refusal;
mod room;
mod seen;
mod socket;
mod tricks;

pub use hole::BlackHole;
pub use seen::Seen;
pub use tricks::{InfoPage, Noise, Tricks};

use crate::behaviour::{Behaviour, Limits};
use crate::{Author, Repository, now};
use grasp_core::{EventId, VerifiedEvent};
use room::Room;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// Gone, with all its connections, when it is dropped.
#[derive(Debug)]
pub struct ChaosRelay {
    room: Arc<Room>,
    listening: JoinHandle<()>,
}

impl ChaosRelay {
    pub async fn start(behaviour: Behaviour) -> Self {
        Self::start_with(behaviour, Tricks::default(), 0).await
    }

    /// The same seed makes the same choices.
    pub async fn start_with(behaviour: Behaviour, tricks: Tricks, seed: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let room = Arc::new(Room::new(format!("ws://{address}"), behaviour, tricks, seed));
        let listening = tokio::spawn(door::listens(listener, Arc::clone(&room)));
        Self { room, listening }
    }

    /// Honest and narrow: no NIP-77, 20 subscriptions, 10 filters in a REQ, so many results for
    /// each filter; it says none of this before it is asked too much.
    pub async fn strict(page_max: u32) -> Self {
        Self::start(strict(page_max)).await
    }

    pub fn url(&self) -> &str {
        &self.room.url
    }

    /// `127.0.0.1:port`.
    pub fn address(&self) -> &str {
        self.url().trim_start_matches("ws://")
    }

    /// The wall clock as this relay has it.
    pub fn now(&self) -> u64 {
        now().saturating_add_signed(self.room.behaviour().skew_secs)
    }

    /// What it met so far.
    pub fn seen(&self) -> Seen {
        self.room.seen()
    }

    /// Somebody published this here: it is kept, and whoever listens hears of it.
    pub fn publishes(&self, event: &VerifiedEvent) {
        self.room.keeps(event.clone());
    }

    pub fn holds(&self, id: &EventId) -> bool {
        self.room.holds(id)
    }

    pub fn holds_count(&self) -> usize {
        self.room.holds_count()
    }

    /// As many issues of one second as its behaviour asks for.
    pub fn is_stocked(&self, of: &Repository, by: &Author, at: u64) -> Vec<VerifiedEvent> {
        let count = self.room.behaviour().same_second;
        let issues = (0..count).map(|n| of.issue(by, at, &format!("{n} of one second")));
        let issues: Vec<VerifiedEvent> = issues.collect();
        issues.iter().for_each(|issue| self.publishes(issue));
        issues
    }

    /// From the next message and the next connection on.
    pub fn becomes(&self, behaviour: Behaviour) {
        self.room.becomes(behaviour);
    }

    /// Every connection ends without a goodbye; new ones are welcome.
    pub fn drops_everyone(&self) {
        self.room.drops_everyone();
    }

    /// For what no behaviour does: these words go to everybody who is connected.
    pub fn says(&self, text: &str) {
        self.room.says(text);
    }
}

impl Drop for ChaosRelay {
    fn drop(&mut self) {
        self.listening.abort();
        self.room.drops_everyone();
    }
}

/// See `ChaosRelay::strict`.
pub fn strict(page_max: u32) -> Behaviour {
    let limits = Limits { filters_per_req_max: 10, page_max, ..Limits::strict() };
    Behaviour { name: "strict", limits, ..Behaviour::common() }
}

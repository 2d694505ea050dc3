//! The engine among relays that answer everything at once, on a clock that stands still while
//! anything happens.

use grasp_core::{RelayUrl, Time};
use grasp_engine::{Action, End, Engine, Hint, Input, Page, Peer, Reconciliation, Settings, Tally};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Talk {
    pub(super) engine: Engine,
    pub(super) now: Time,
    /// Things that happened.
    pub(super) inputs: usize,
}

impl Talk {
    pub(super) fn new(links: usize) -> Self {
        // Relays that take turns would be another measurement each time.
        let link_turn = Duration::from_secs(24 * 3600);
        let settings = Settings { links_max: links, link_turn, ..Settings::default() };
        let now = Time::from_secs(1_700_000_000);
        Self { engine: Engine::new(settings, 1), now, inputs: 0 }
    }

    pub(super) fn tell(&mut self, input: Input) {
        self.inputs += 1;
        self.engine.handle(input, self.now);
    }

    /// Answers whatever the engine asks, until it asks nothing.
    pub(super) fn answer_all(&mut self) {
        while let Some(action) = self.engine.poll_action() {
            self.answer(action);
        }
    }

    pub(super) fn answer(&mut self, action: Action) {
        if let Some(input) = answer(action) {
            self.tell(input);
        }
    }

    /// Lets time pass; what is due happens at its own moment.
    pub(super) fn elapse_until(&mut self, end: Time) {
        while let Some((at, _)) = self.engine.next_deadline().filter(|(at, _)| *at <= end) {
            self.now = self.now.max(at);
            self.engine.handle_deadline(self.now);
            self.answer_all();
        }
        self.now = self.now.max(end);
    }

    /// Are so many relays linked, and is everything wanted of them confirmed?
    pub(super) fn is_settled(&self, links: usize) -> bool {
        if self.engine.totals().connected < links {
            return false;
        }
        let views = self.engine.relay_views(self.now);
        let mut linked = views.iter().filter(|view| view.connected);
        linked.all(|view| view.missing + view.pending + view.open_questions == 0)
    }
}

fn answer(action: Action) -> Option<Input> {
    match action {
        Action::Connect(relay) => Some(Input::Connected { relay, peer: peer(), address: None }),
        Action::Listen { relay, sub, filters } => {
            Some(Input::Listening { relay, sub, page: page(filters.len()) })
        }
        Action::Request { relay, sub, filters, .. } => {
            let end = End::Complete(page(filters.len()));
            Some(Input::Ended { relay, sub, end })
        }
        Action::Reconcile { relay, sub, .. } => {
            let end = End::Reconciled(Reconciliation::default());
            Some(Input::Ended { relay, sub, end })
        }
        Action::Authenticate(relay) => Some(accepted(relay)),
        Action::Hangup(_)
        | Action::Close { .. }
        | Action::Abandon { .. }
        | Action::Stands { .. }
        | Action::Doubt { .. }
        | Action::Remember(_)
        | Action::Forget(_)
        | Action::Tell(_) => None,
    }
}

fn accepted(relay: RelayUrl) -> Input {
    Input::Authenticated { relay, ok: true }
}

/// As our own server describes itself.
fn peer() -> Peer {
    Peer {
        subscriptions_max: Some(500),
        message_bytes_max: Some(1 << 20),
        limit_default: Some(5_000),
        grasp: true,
        nip77: Some(true),
        ..Peer::default()
    }
}

/// Nothing that was not known.
fn page(filters: usize) -> Page {
    Page { tallies: vec![Tally::default(); filters], hint: Some(Hint::Finish), ..Page::default() }
}

//! A server's engine and the thinnest imaginable shell around it: what happens is told to it, what
//! it asks for is done. Each server has its own idea of the time.

use super::clockwork::{Happening, World};
use super::wire::Word;
use crate::behaviour::Negentropy;
use grasp_core::{EventId, RelayUrl, Time};
use grasp_engine::{Action, Input, News, Record};

const ACTIONS_MAX: u32 = 20_000;
/// Within one millisecond.
const WAKES_MAX: u32 = 1_000;

impl World {
    pub(crate) fn tell_boot(&mut self, server: usize, boot: u64, input: Input) {
        if self.boot_of(server) == Some(boot) {
            self.tell(server, input);
        }
    }

    /// The number of the run a server is in, if it runs.
    pub(crate) fn boot_of(&self, server: usize) -> Option<u64> {
        let server = self.nodes[server].server.as_ref()?;
        server.mind.is_some().then_some(server.boots)
    }

    /// A server's steady clock.
    pub(crate) fn clock(&self, server: usize) -> Time {
        let ahead = self.nodes[server].server.as_ref().map_or(0, |server| server.steady_ahead_ms);
        Time(self.now.0.saturating_add_signed(ahead))
    }

    pub(crate) fn tell(&mut self, server: usize, input: Input) {
        let now = self.clock(server);
        if self.nodes[server].mind().is_none() {
            return;
        }
        self.note(|| format!("server {server} hears {input:?}"));
        if let Some(mind) = self.nodes[server].mind() {
            mind.watch.hears(&input, now);
            mind.engine.handle(input, now);
        }
        self.acts(server);
    }

    pub(crate) fn wakes(&mut self, server: usize, boot: u64) {
        if self.boot_of(server) != Some(boot) {
            return;
        }
        let now = self.clock(server);
        let Some(mind) = self.nodes[server].mind() else { return };
        // An alarm that was set and then moved forward rings for nothing.
        if mind.wake_at != Some(now) {
            return;
        }
        mind.wake_at = None;
        let often = if mind.woken.0 == now { mind.woken.1 + 1 } else { 1 };
        mind.woken = (now, often);
        if often > WAKES_MAX {
            return self.complain(format!("server {server} wants to be woken without an end"));
        }
        if let Some((at, why)) = mind.engine.next_deadline()
            && at <= now
        {
            mind.engine.handle_deadline(now);
            self.note(|| format!("server {server} wakes: {why}"));
        }
        self.acts(server);
    }

    fn acts(&mut self, server: usize) {
        let now = self.clock(server);
        let mut actions = 0;
        while let Some(mind) = self.nodes[server].mind()
            && let Some(action) = mind.engine.poll_action()
        {
            actions += 1;
            let complaint = mind.watch.sees(&action, now).err();
            let complaint = complaint.or_else(|| self.asks_the_future(server, &action));
            *self.seen.entry(name_of(&action)).or_default() += 1;
            self.note(|| format!("server {server} does {action:?}"));
            if let Some(complaint) = complaint {
                self.complain(format!("server {server} {complaint}"));
            }
            if actions > ACTIONS_MAX {
                return self.complain(format!("server {server} does not stop acting"));
            }
            self.carries_out(server, action);
        }
        self.sets_alarm(server);
    }

    fn sets_alarm(&mut self, server: usize) {
        let now = self.clock(server);
        let Some(boot) = self.boot_of(server) else { return };
        let Some(mind) = self.nodes[server].mind() else { return };
        let next = mind.engine.next_deadline();
        if let Err(complaint) = mind.watch.deadline(next, now) {
            return self.complain(format!("server {server}: {complaint}"));
        }
        if let Some((at, _)) = next
            && mind.wake_at.is_none_or(|wake_at| at < wake_at)
        {
            mind.wake_at = Some(at);
            self.at(self.now.plus(at.since(now)), Happening::Wake { server, boot });
        }
    }

    fn carries_out(&mut self, server: usize, action: Action) {
        match action {
            Action::Connect(relay) => self.dials(server, relay),
            Action::Hangup(relay) => {
                if let Some(id) =
                    self.nodes[server].mind().and_then(|mind| mind.links.remove(&relay))
                {
                    self.hangs_up(id);
                }
            }
            Action::Listen { relay, sub, filters } => {
                self.opens(server, &relay, sub, Word::Req { sub, filters }, true);
            }
            Action::Request { relay, sub, filters, .. } => {
                self.opens(server, &relay, sub, Word::Req { sub, filters }, false);
            }
            Action::Reconcile { relay, sub, filter, answer_within, .. } => {
                let filter = Box::new(filter);
                let word = Word::NegOpen { sub, filter, answer_within };
                self.opens(server, &relay, sub, word, false);
            }
            Action::Close { relay, sub } => {
                let Some(id) = self.link_to(server, &relay) else { return };
                if let Some(link) = self.links.get_mut(&id) {
                    link.reception.closes(sub);
                    link.rounds.remove(&sub);
                }
                self.asks(id, Word::Close { sub });
            }
            Action::Abandon { relay, sub } => {
                let id = self.link_to(server, &relay);
                if let Some(link) = id.and_then(|id| self.links.get_mut(&id)) {
                    link.reception.closes(sub);
                    link.rounds.remove(&sub);
                }
            }
            Action::Authenticate(relay) => {
                if let Some(id) = self.link_to(server, &relay) {
                    self.asks(id, Word::Auth);
                }
            }
            Action::Remember(relay) => self.records(server, relay, true),
            Action::Forget(relay) => self.records(server, relay, false),
            Action::Tell(News::HidesEvents { relay, id, .. }) => self.accuses(server, &relay, &id),
            Action::Stands { .. } | Action::Doubt { .. } | Action::Tell(_) => {}
        }
    }

    /// Only a relay that hides events is said to.
    fn accuses(&mut self, server: usize, relay: &RelayUrl, id: &EventId) {
        let Some(node) = self.node_at(relay) else { return };
        let negentropy = self.nodes[node].behaviour.negentropy;
        if !matches!(negentropy, Negentropy::Hides { .. } | Negentropy::Agrees) {
            self.complain(format!("server {server} says that {relay} hides {id}, and it does not"));
        }
    }

    /// A record takes a moment to reach the disk.
    fn records(&mut self, server: usize, relay: RelayUrl, keep: bool) {
        let (now, delay) = (self.clock(server), self.random.below(3_000));
        let Some(boot) = self.boot_of(server) else { return };
        let Some(mind) = self.nodes[server].mind() else { return };
        let record = mind.engine.record(&relay, now).filter(|_| keep).map(Box::new);
        self.after_ms(delay, Happening::Recorded { server, boot, relay, record });
    }

    pub(crate) fn recorded(
        &mut self,
        server: usize,
        boot: u64,
        relay: RelayUrl,
        record: Option<Box<Record>>,
    ) {
        if self.boot_of(server) != Some(boot) {
            return;
        }
        let Some(server) = &mut self.nodes[server].server else { return };
        match record {
            Some(record) => server.durable.records.insert(relay, *record),
            None => server.durable.records.remove(&relay),
        };
    }
}

/// For counting what a run has seen.
fn name_of(action: &Action) -> &'static str {
    match action {
        Action::Connect(_) => "dial",
        Action::Hangup(_) => "hang up",
        Action::Listen { filters, .. } => match filters.iter().any(|it| it.since.is_some()) {
            true => "listen since",
            false => "listen",
        },
        Action::Request { filters, .. } => match filters.first() {
            Some(filter) if filter.ids.is_some() => "ask for ids",
            Some(filter) if filter.until.is_some() => "next page",
            Some(filter) if filter.since.is_some() => "ask since",
            _ => "ask",
        },
        Action::Reconcile { .. } => "reconcile",
        Action::Close { .. } => "close",
        Action::Abandon { .. } => "abandon",
        Action::Authenticate(_) => "authenticate",
        Action::Remember(_) => "remember",
        Action::Forget(_) => "forget",
        Action::Stands { .. } => "stands",
        Action::Doubt { .. } => "doubt",
        Action::Tell(news) => match news {
            News::Connected { .. } => "connected",
            News::Failed { .. } => "failed",
            News::Dead { .. } => "dead",
            News::Recovered { .. } => "recovered",
            News::SecondTooFull { .. } => "second too full",
            News::NoNegentropy { .. } => "no negentropy",
            News::HidesEvents { .. } => "found to hide events",
            News::Cooling { .. } => "cooling",
            News::Paused { .. } => "paused",
            News::Rotating { .. } => "rotating",
            News::TooManyRelays { .. } => "too many relays",
            #[allow(unreachable_patterns, reason = "news may be added")]
            _ => "other news",
        },
    }
}

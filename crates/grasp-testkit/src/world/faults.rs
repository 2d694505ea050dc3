//! What goes wrong: links break, pairs lose sight of each other, servers crash and come back. All of
//! it ends at a given moment; what comes after must be made good.

use super::clockwork::{Happening, World};
use super::wire::{Frame, LinkId};
use grasp_core::Time;
use grasp_engine::Loss;
use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Fault {
    /// Some link breaks.
    Break,
    /// Some relay says something that may or may not mean anything.
    Murmur,
    Part(usize, usize),
    Rejoin(usize, usize),
    Crash(usize),
    Start(usize),
    /// A server's wall clock is set so far ahead of the world's.
    SetClock(usize, i64),
    /// From now on nothing goes wrong that is nobody's fault.
    Quiet,
}

impl World {
    pub(crate) fn befalls(&mut self, fault: Fault) {
        self.note(|| format!("{fault:?}"));
        match fault {
            Fault::Break => self.breaks_some_link(),
            Fault::Murmur => self.murmurs(),
            Fault::Part(one, other) => self.parts(one, other),
            Fault::Rejoin(one, other) => {
                self.parted.remove(&(one.min(other), one.max(other)));
            }
            Fault::Crash(server) => self.crashes(server),
            Fault::Start(server) if !self.nodes[server].is_up => self.starts(server),
            Fault::Start(_) => {}
            Fault::SetClock(server, ahead_ms) => self.sets_clock(server, ahead_ms),
            Fault::Quiet => self.is_troubled = false,
        }
    }

    /// Everything that will go wrong within this time.
    pub(crate) fn plans_trouble(&mut self, length: Duration) {
        let servers = self.servers();
        let all = self.nodes.len();
        let secs = length.as_secs();
        for _ in 0..self.random.below(40) {
            let at = self.some_time(secs);
            self.at(at, Happening::Befalls(Fault::Break));
        }
        for _ in 0..self.random.below(4) {
            let at = self.some_time(secs);
            self.at(at, Happening::Befalls(Fault::Murmur));
        }
        for _ in 0..self.random.below(8) {
            let (one, other) = (self.random.index(servers), self.random.index(all));
            if one != other {
                let (from, to) = self.some_span(secs);
                self.at(from, Happening::Befalls(Fault::Part(one, other)));
                self.at(to, Happening::Befalls(Fault::Rejoin(one, other)));
            }
        }
        for server in 0..servers {
            for _ in 0..self.random.below(4) {
                let (from, to) = self.some_span(secs);
                self.at(from, Happening::Befalls(Fault::Crash(server)));
                self.at(to, Happening::Befalls(Fault::Start(server)));
            }
        }
        let end = self.now.plus(length);
        self.at(end, Happening::Befalls(Fault::Quiet));
        for server in 0..servers {
            self.at(end, Happening::Befalls(Fault::Start(server)));
            for other in 0..all {
                self.at(end, Happening::Befalls(Fault::Rejoin(server, other)));
            }
        }
    }

    pub(crate) fn some_time(&mut self, within_secs: u64) -> Time {
        self.now.plus(Duration::from_millis(self.random.below(within_secs * 1000)))
    }

    /// Seconds, minutes or hours, not beyond the end.
    fn some_span(&mut self, within_secs: u64) -> (Time, Time) {
        let from = self.some_time(within_secs);
        let longest_secs = *self.random.pick(&[10, 120, 1_200, 3_600, 8 * 3_600]);
        let to = from.plus(Duration::from_secs(1 + self.random.below(longest_secs)));
        (from, to.min(self.now.plus(Duration::from_secs(within_secs))))
    }

    pub(crate) fn is_parted(&self, one: usize, other: usize) -> bool {
        self.parted.contains(&(one.min(other), one.max(other)))
    }

    fn breaks_some_link(&mut self) {
        let links: Vec<LinkId> = self.links.keys().copied().collect();
        if links.is_empty() {
            return;
        }
        let id = *self.random.pick(&links);
        self.breaks(id, 1_000);
    }

    fn murmurs(&mut self) {
        let links: Vec<LinkId> = self.links.keys().copied().collect();
        if links.is_empty() {
            return;
        }
        let id = *self.random.pick(&links);
        let text = *self.random.pick(&["good morning", "", "slow down", "error: database is busy"]);
        self.sends(id, Frame::Notice(text));
    }

    fn parts(&mut self, one: usize, other: usize) {
        self.parted.insert((one.min(other), one.max(other)));
        let between = |link: &super::wire::Link| {
            (link.server, link.relay) == (one, other) || (link.server, link.relay) == (other, one)
        };
        let links: Vec<LinkId> =
            self.links.iter().filter(|(_, link)| between(link)).map(|(id, _)| *id).collect();
        for id in links {
            self.breaks(id, 90_000);
        }
    }

    /// Nothing passes any more; each end notices in its own time.
    fn breaks(&mut self, id: LinkId, within_ms: u64) {
        let Some(link) = self.links.get_mut(&id).filter(|link| !link.is_cut && link.is_up) else {
            return;
        };
        link.is_cut = true;
        let relay = link.relay;
        let (here, there) = (self.random.below(within_ms), self.random.below(within_ms));
        let why = Loss::Failed("connection reset".to_owned());
        self.after_ms(here, Happening::Lost { link: id, why });
        self.after_ms(there, Happening::Gone { link: id, relay });
    }

    fn crashes(&mut self, server: usize) {
        if !self.nodes[server].is_up {
            return;
        }
        self.nodes[server].is_up = false;
        let Some(it) = &mut self.nodes[server].server else { return };
        let mind = it.mind.take();
        for id in mind.into_iter().flat_map(|mind| mind.links.into_values()) {
            self.hangs_up(id);
        }
        let guests: Vec<LinkId> = self.nodes[server].sessions.keys().copied().collect();
        self.nodes[server].sessions.clear();
        for id in guests {
            let within_ms = if self.random.one_in(3) { 90_000 } else { 200 };
            self.breaks(id, within_ms);
        }
    }
}

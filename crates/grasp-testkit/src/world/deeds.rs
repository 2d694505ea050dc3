//! What people are going to do, and when: planned at the beginning, done when its time has come.

use super::clockwork::{Happening, World};
use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Deed {
    Announce(usize),
    State(usize),
    Root,
    Reply,
    /// Many at once.
    Burst(u64),
    /// Many that claim the same second.
    OneSecond(u64),
    /// Many about one repository, written over days, that come all at once.
    Import(u64),
    /// As many in one second as this relay is to be stocked with.
    Stock(usize),
}

impl World {
    pub(crate) fn plans_deeds(&mut self, length: Duration) {
        let secs = length.as_secs();
        for number in 0..2 + self.random.index(6) {
            self.founds(number);
            // Some are there from the beginning, others come later.
            let first = if self.random.one_in(2) { 0 } else { self.random.below(secs) };
            self.does(first, Deed::Announce(number));
            for _ in 0..self.random.below(4) {
                let at = first + self.random.below(secs - first);
                self.does(at, Deed::Announce(number));
            }
            for _ in 0..self.random.below(5) {
                let at = self.random.below(secs);
                self.does(at, Deed::State(number));
            }
        }
        for _ in 0..5 + self.random.below(60) {
            let at = self.random.below(secs);
            self.does(at, Deed::Root);
        }
        for _ in 0..10 + self.random.below(200) {
            let at = self.random.below(secs);
            self.does(at, Deed::Reply);
        }
        for _ in 0..self.random.below(3) {
            let (at, many) = (self.random.below(secs), 20 + self.random.below(200));
            self.does(at, Deed::Burst(many));
        }
        if self.random.one_in(2) {
            let (at, many) = (self.random.below(secs), 20 + self.random.below(150));
            self.does(at, Deed::OneSecond(many));
        }
        if self.random.one_in(2) {
            let (at, many) = (self.random.below(secs), 60 + self.random.below(240));
            self.does(at, Deed::Import(many));
        }
        for node in 0..self.nodes.len() {
            if self.nodes[node].behaviour.same_second > 0 {
                let at = secs / 4 + self.random.below(secs / 2);
                self.does(at, Deed::Stock(node));
            }
        }
    }

    fn does(&mut self, after_secs: u64, deed: Deed) {
        let ms = after_secs * 1000 + self.random.below(1000);
        self.after_ms(ms, Happening::Done(deed));
    }

    pub(crate) fn done(&mut self, deed: Deed) {
        self.note(|| format!("{deed:?}"));
        let now = self.now.timestamp();
        match deed {
            Deed::Announce(repo) => self.announce(repo),
            Deed::State(repo) => self.state(repo),
            Deed::Root => self.root(),
            Deed::Reply => self.reply(None),
            Deed::Burst(many) => {
                for _ in 0..many {
                    if self.random.one_in(4) { self.root() } else { self.reply(None) }
                }
            }
            Deed::OneSecond(many) => {
                for _ in 0..many {
                    self.reply(Some((now, None)));
                }
            }
            Deed::Import(many) => self.import(many),
            Deed::Stock(node) => {
                let limits = self.nodes[node].behaviour.limits;
                let many = self.nodes[node].behaviour.same_second.min(limits.page_max + 30);
                for _ in 0..many {
                    self.reply(Some((now, Some(node))));
                }
            }
        }
    }
}

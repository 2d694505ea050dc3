//! The server's side of a link: dials, asks, takes what comes, and notices when nothing does. What
//! came is counted by a real `Reception`.

use super::clockwork::{Address, Happening, World};
use super::node::Session;
use super::wire::{Copied, Frame, Link, LinkId, Word};
use crate::behaviour::Door;
use grasp_core::RelayUrl;
use grasp_engine::{End, Input, Intake, Loss, Peer, Report, Sub, end_of_neg_err};
use std::time::Duration;

const DIAL_TIMEOUT_MS: u64 = 10_000;

impl World {
    pub(crate) fn link_to(&mut self, server: usize, relay: &RelayUrl) -> Option<LinkId> {
        self.nodes[server].mind()?.links.get(relay).copied()
    }

    pub(crate) fn dials(&mut self, server: usize, url: RelayUrl) {
        self.next_link += 1;
        let id = LinkId(self.next_link);
        if let Some(mind) = self.nodes[server].mind() {
            mind.links.insert(url.clone(), id);
        }
        let address = self.addresses.get(&url).copied();
        let latency_ms = 5 + self.random.below(120);
        let relay = match address {
            Some(Address::Node(relay)) => relay,
            _ => server,
        };
        self.links.insert(id, Link::new(server, relay, url, latency_ms));
        let fails = |why: &str| Loss::Failed(why.to_owned());
        let (after_ms, lost) = match address {
            None => (latency_ms, Some(fails("no such name"))),
            Some(Address::Forbidden) => (1, Some(Loss::Forbidden("a local name".to_owned()))),
            Some(Address::Node(relay)) if relay == server => {
                (2 * latency_ms, Some(Loss::Ourselves))
            }
            Some(Address::Node(relay)) => match self.nodes[relay].behaviour.door {
                Door::Refuses => (latency_ms, Some(fails("connection refused"))),
                Door::BlackHole => (DIAL_TIMEOUT_MS, Some(Loss::TooSlow)),
                _ if self.is_parted(server, relay) => match self.random.one_in(2) {
                    true => (DIAL_TIMEOUT_MS, Some(Loss::TooSlow)),
                    false => (latency_ms, Some(fails("no route"))),
                },
                _ if self.is_troubled && self.random.one_in(20) => {
                    (latency_ms, Some(fails("handshake failed")))
                }
                _ if self.is_troubled && self.random.one_in(50) => (1, Some(Loss::Crowded)),
                _ if self.random.one_in(10) => (2_500 + latency_ms, None),
                _ => (3 * latency_ms, None),
            },
        };
        match lost {
            Some(why) => self.after_ms(after_ms, Happening::Lost { link: id, why }),
            None => self.after_ms(after_ms, Happening::Dialled { link: id }),
        }
    }

    pub(crate) fn dialled(&mut self, id: LinkId) {
        let Some(link) = self.links.get(&id) else { return };
        let (server, relay, url) = (link.server, link.relay, link.url.clone());
        if !self.nodes[relay].is_up || self.is_parted(server, relay) {
            return self.loses(id, Loss::Failed("connection refused".to_owned()));
        }
        let ended = self.ended_at.get(&(server, url.clone())).copied();
        if let Some(link) = self.links.get_mut(&id) {
            link.is_up = true;
            link.up_at = self.now;
            link.away = ended.map(|ended| self.now.since(ended));
        }
        if let Door::Flapping { after } = self.nodes[relay].behaviour.door {
            let why = Loss::Failed("connection reset".to_owned());
            self.at(self.now.plus(after), Happening::Lost { link: id, why });
        }
        let is_told = !self.random.one_in(4);
        let peer = if is_told { self.nodes[relay].peer() } else { Peer::default() };
        self.nodes[relay].sessions.insert(id, Session { is_told, ..Session::default() });
        self.tell(server, Input::Connected { relay: url, peer, address: None });
    }

    /// The server learns that a link is over, or never came to be.
    pub(crate) fn loses(&mut self, id: LinkId, why: Loss) {
        let Some(link) = self.links.remove(&id) else { return };
        self.notes_end(&link);
        self.nodes[link.relay].sessions.remove(&id);
        let Some(mind) = self.nodes[link.server].mind() else { return };
        if mind.links.get(&link.url) == Some(&id) {
            mind.links.remove(&link.url);
            self.tell(link.server, Input::Lost { relay: link.url, why });
        }
    }

    fn notes_end(&mut self, link: &Link) {
        if link.is_up {
            self.ended_at.insert((link.server, link.url.clone()), self.now);
        }
    }

    /// No word about it to the server: it was its own wish.
    pub(crate) fn hangs_up(&mut self, id: LinkId) {
        let Some(link) = self.links.remove(&id) else { return };
        self.notes_end(&link);
        self.after_ms(link.latency_ms, Happening::Gone { link: id, relay: link.relay });
    }

    pub(crate) fn opens(
        &mut self,
        server: usize,
        relay: &RelayUrl,
        sub: Sub,
        word: Word,
        stays: bool,
    ) {
        let now = self.now;
        let Some(id) = self.link_to(server, relay) else { return };
        let Some(link) = self.links.get_mut(&id) else { return };
        match &word {
            Word::Req { filters, .. } => link.reception.opens(sub, filters.clone(), stays, now),
            Word::NegOpen { filter, answer_within, .. } => {
                link.rounds.insert(sub, 0);
                link.reception.opens(sub, [Clone::clone(&**filter)].into(), false, now);
                if let Some(time) = answer_within {
                    link.reception.must_answer_within(sub, *time);
                }
            }
            _ => {}
        }
        self.asks(id, word);
        self.watches_silence(id);
    }

    pub(crate) fn asks(&mut self, id: LinkId, word: Word) {
        let Some(link) = self.links.get_mut(&id).filter(|link| !link.is_cut) else { return };
        let jitter = self.random.below(link.latency_ms + 1);
        let at = self.now.plus(Duration::from_millis(link.latency_ms + jitter));
        link.to_relay_at = link.to_relay_at.max(at);
        let at = link.to_relay_at;
        self.at(at, Happening::Asked { link: id, word });
    }

    pub(crate) fn heard(&mut self, id: LinkId, frame: Frame) {
        let now = self.now;
        let Some(link) = self.links.get_mut(&id).filter(|link| !link.is_cut) else { return };
        let (server, relay) = (link.server, link.url.clone());
        match frame {
            Frame::Events { sub, copies } => self.takes(id, sub, copies),
            Frame::Eose { sub, hint } => {
                let report = link.reception.eose(sub, hint, now);
                self.reports(id, sub, report);
            }
            Frame::Closed { sub, text } => {
                let report = link.reception.ends(sub, End::Closed(text));
                link.rounds.remove(&sub);
                self.reports(id, sub, report);
            }
            Frame::Notice(text) => {
                self.tell(server, Input::Notice { relay, text: text.to_owned() });
            }
            Frame::NegDone { sub, found } => self.ends(id, sub, End::Reconciled(found)),
            Frame::NegErr { sub, text, limit } => {
                self.ends(id, sub, end_of_neg_err(text.to_owned(), limit));
            }
            Frame::NegRound { sub } => self.next_round(id, sub),
            Frame::Authed { ok } => self.tell(server, Input::Authenticated { relay, ok }),
        }
        self.watches_silence(id);
    }

    fn next_round(&mut self, id: LinkId, sub: Sub) {
        let now = self.now;
        let Some(link) = self.links.get_mut(&id) else { return };
        let Some(rounds) = link.rounds.get_mut(&sub) else { return };
        *rounds += 1;
        let enough = *rounds > Link::ROUNDS_MAX;
        link.reception.progresses(sub, now);
        link.reception.has_answered(sub);
        if enough {
            self.asks(id, Word::Close { sub });
            return self.ends(id, sub, End::NegentropyFailed("too many rounds".to_owned()));
        }
        self.asks(id, Word::NegMore { sub });
    }

    fn ends(&mut self, id: LinkId, sub: Sub, end: End) {
        let Some(link) = self.links.get_mut(&id) else { return };
        link.rounds.remove(&sub);
        let report = link.reception.ends(sub, end);
        self.reports(id, sub, report);
    }

    fn takes(&mut self, id: LinkId, sub: Sub, copies: Vec<Copied>) {
        let now = self.now;
        let mut taken = vec![];
        for copied in copies {
            let Some(link) = self.links.get_mut(&id) else { return };
            match link.reception.event(sub, &copied.event, 400, now) {
                Intake::Take { past } => taken.push(Copied { past, ..copied }),
                Intake::Stray => {}
                Intake::Flood => {
                    let report = link.reception.floods(sub);
                    self.asks(id, Word::Close { sub });
                    self.reports(id, sub, report);
                }
                Intake::Enough => return self.cuts_off(id, "events nobody asked for"),
            }
        }
        let Some(server) = self.links.get(&id).map(|link| link.server) else { return };
        let Some(boot) = self.boot_of(server).filter(|_| !taken.is_empty()) else { return };
        // Now and then the disk is busy.
        let delay = 1 + if self.random.one_in(50) { 5_000 } else { self.random.below(20) };
        self.after_ms(delay, Happening::Judged { server, boot, link: id, sub, copies: taken });
    }

    pub(crate) fn cuts_off(&mut self, id: LinkId, why: &str) {
        self.loses(id, Loss::Misbehaved(why.to_owned()));
    }

    pub(crate) fn reports(&mut self, id: LinkId, sub: Sub, report: Option<Report>) {
        let Some(link) = self.links.get(&id) else { return };
        let (server, relay) = (link.server, link.url.clone());
        match report {
            None => {}
            Some(Report::Listening(page)) => {
                self.tell(server, Input::Listening { relay, sub, page });
            }
            Some(Report::Ended(end)) => {
                if matches!(end, End::Complete(_)) {
                    self.asks(id, Word::Close { sub });
                }
                self.tell(server, Input::Ended { relay, sub, end });
            }
        }
    }

    pub(crate) fn impatient(&mut self, id: LinkId) {
        let now = self.now;
        let Some(link) = self.links.get_mut(&id) else { return };
        link.impatient_at = None;
        for (sub, report) in link.reception.silent(now) {
            self.asks(id, Word::Close { sub });
            if let Some(link) = self.links.get_mut(&id) {
                link.rounds.remove(&sub);
            }
            self.reports(id, sub, Some(report));
        }
        self.watches_silence(id);
    }

    pub(crate) fn watches_silence(&mut self, id: LinkId) {
        let Some(link) = self.links.get_mut(&id) else { return };
        let next = link.reception.next_deadline();
        if let Some(at) = next
            && link.impatient_at.is_none_or(|set| at < set)
        {
            link.impatient_at = Some(at);
            self.at(at, Happening::Impatient { link: id });
        }
    }
}

//! The relay's side of a link: answers questions as its behaviour says, and counts. A relay whose
//! limits could be known complains when they are exceeded.

use super::clockwork::{Happening, World};
use super::wire::{Copied, Frame, LinkId, Word};
use crate::Behaviour;
use crate::behaviour::{
    Answers, CLOSED_AUTH, CLOSED_FILTERS, CLOSED_RATE, CLOSED_SUBSCRIPTIONS, NEG_ERR_TOO_MANY,
    NOTICE_NO_NEGENTROPY, NOTICE_RATE, Negentropy, Refuses, closed_retained,
};
use grasp_core::id::Signature;
use grasp_core::{Event, EventId, Filter, Kind, PubKey, Tag, Timestamp};
use grasp_engine::{Hint, Reconciliation, Sub};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// So many events travel together; a link may break between any two lots.
const LOT: usize = 40;

/// Why a question is not answered.
enum No {
    Closed(String),
    /// Only a NOTICE says so.
    Notice(&'static str),
    Ignored,
}

/// A comparison is too large for the relay, and whether the relay says how large it may be.
struct TooLarge {
    limit: u32,
    is_told: bool,
}

impl TooLarge {
    fn refusal(&self, sub: Sub) -> Frame {
        let limit = self.is_told.then_some(u64::from(self.limit));
        Frame::NegErr { sub, text: NEG_ERR_TOO_MANY, limit }
    }
}

/// What a relay says it has is asked for, so many of it.
const SAMPLE_MAX: usize = 3;

impl World {
    pub(crate) fn asked(&mut self, id: LinkId, word: Word) {
        let Some(link) = self.links.get(&id).filter(|link| !link.is_cut) else { return };
        let relay = link.relay;
        if !self.nodes[relay].sessions.contains_key(&id) {
            return;
        }
        match word {
            Word::Req { sub, filters } => self.asked_for(relay, id, sub, &filters),
            Word::NegOpen { sub, filter, .. } => self.asked_to_compare(relay, id, sub, &filter),
            Word::NegMore { sub } => self.sends(id, Frame::NegRound { sub }),
            Word::Close { sub } => {
                if let Some(session) = self.nodes[relay].sessions.get_mut(&id) {
                    session.open.remove(&sub);
                    session.drips.remove(&sub);
                }
            }
            Word::Auth => {
                let never =
                    self.nodes[relay].behaviour.refuses == Refuses::WithoutAuth { never: true };
                if let Some(session) = self.nodes[relay].sessions.get_mut(&id) {
                    session.authenticated = !never;
                }
                self.sends(id, Frame::Authed { ok: !never });
            }
        }
    }

    fn asked_for(&mut self, relay: usize, id: LinkId, sub: Sub, filters: &Arc<[Filter]>) {
        if let Err(no) = self.admits(relay, id, filters) {
            return self.refuses(id, sub, no);
        }
        let node = &mut self.nodes[relay];
        let answers = node.behaviour.answers;
        if let Some(session) = node.sessions.get_mut(&id) {
            session.open.insert(sub, filters.clone());
        }
        if answers == Answers::Silent {
            return;
        }
        let (page, hint) = self.page(relay, filters);
        match answers {
            Answers::Silent => {}
            Answers::Honest => self.answers(id, sub, &page, Some(hint), Copied::genuine),
            Answers::NeverEose => self.answers(id, sub, &page, None, Copied::genuine),
            Answers::Forged => self.answers(id, sub, &page, Some(hint), Copied::forged),
            Answers::Wrong => {
                let wrong: Vec<_> = (0..5).map(|_| self.invents(Kind(1), vec![])).collect();
                self.answers(id, sub, &wrong, Some(hint), Copied::genuine);
            }
            Answers::SlowDrip { every } => {
                if let Some(session) = self.nodes[relay].sessions.get_mut(&id) {
                    session.drips.insert(sub, VecDeque::from(page));
                }
                self.at(self.now.plus(every), Happening::Drip { link: id, relay, sub });
            }
            Answers::Endless => self.after_ms(100, Happening::Drip { link: id, relay, sub }),
        }
    }

    /// What the filters bring, each up to the cap, no event twice.
    fn page(&self, relay: usize, filters: &[Filter]) -> (Vec<Arc<Event>>, Hint) {
        let node = &self.nodes[relay];
        let cap = u64::from(node.behaviour.limits.page_max);
        let (mut seen, mut page, mut hint) = (BTreeSet::new(), vec![], Hint::Finish);
        for filter in filters {
            let take = usize::try_from(filter.limit.unwrap_or(cap).min(cap)).unwrap_or(usize::MAX);
            // A relay that only listens from here on need not look.
            let found = if take == 0 { vec![] } else { node.shelf.matching(filter) };
            if found.len() > take {
                hint = Hint::More;
            }
            page.extend(found.into_iter().take(take).filter(|event| seen.insert(event.id)));
        }
        (page, hint)
    }

    /// `hint` is `None` for one that never says it is done.
    fn answers(
        &mut self,
        id: LinkId,
        sub: Sub,
        page: &[Arc<Event>],
        hint: Option<Hint>,
        copy: impl Fn(&Arc<Event>) -> Copied,
    ) {
        for lot in page.chunks(LOT) {
            let copies = lot.iter().map(&copy).collect();
            self.sends(id, Frame::Events { sub, copies });
        }
        if let Some(hint) = hint {
            let hint = self.hint(id, hint);
            self.sends(id, Frame::Eose { sub, hint });
        }
    }

    fn hint(&self, id: LinkId, hint: Hint) -> Option<Hint> {
        let relay = self.links.get(&id)?.relay;
        self.nodes[relay].behaviour.hints.then_some(hint)
    }

    pub(crate) fn drips(&mut self, id: LinkId, relay: usize, sub: Sub) {
        let answers = self.nodes[relay].behaviour.answers;
        let Some(session) = self.nodes[relay].sessions.get_mut(&id) else { return };
        let Some(filters) = session.open.get(&sub).cloned() else { return };
        match answers {
            Answers::SlowDrip { every } => {
                let drips = session.drips.get_mut(&sub);
                let Some(event) = drips.and_then(VecDeque::pop_front) else {
                    session.drips.remove(&sub);
                    return self.sends(id, Frame::Eose { sub, hint: None });
                };
                self.sends(id, Frame::Events { sub, copies: vec![Copied::genuine(&event)] });
                self.at(self.now.plus(every), Happening::Drip { link: id, relay, sub });
            }
            Answers::Endless => {
                let Some(filter) = filters.first() else { return };
                // What only listens is fed slowly: days of a full stream would cost too much here.
                let (many, pause_ms) = if is_live(filter) { (2, 60_000) } else { (50, 500) };
                let events: Vec<_> = (0..many).filter_map(|_| self.invents_for(filter)).collect();
                let copies = events.iter().map(Copied::genuine).collect();
                self.sends(id, Frame::Events { sub, copies });
                self.after_ms(pause_ms, Happening::Drip { link: id, relay, sub });
            }
            _ => {}
        }
    }

    fn asked_to_compare(&mut self, relay: usize, id: LinkId, sub: Sub, filter: &Filter) {
        let negentropy = self.nodes[relay].behaviour.negentropy;
        if self.nodes[relay].behaviour.answers == Answers::Silent {
            return;
        }
        match negentropy {
            Negentropy::Notice => return self.sends(id, Frame::Notice(NOTICE_NO_NEGENTROPY)),
            Negentropy::NoticeWith(text) => return self.sends(id, Frame::Notice(text)),
            Negentropy::Error => {
                let text = "blocked: negentropy is disabled here";
                return self.sends(id, Frame::NegErr { sub, text, limit: None });
            }
            Negentropy::Silence => return,
            _ => {}
        }
        if let Err(no) = self.admits(relay, id, std::slice::from_ref(filter)) {
            return self.refuses(id, sub, no);
        }
        if negentropy == Negentropy::Endless {
            return self.sends(id, Frame::NegRound { sub });
        }
        let Some(server) = self.links.get(&id).map(|link| link.server) else { return };
        let ours = self.nodes[server].shelf.matching(filter);
        if negentropy == Negentropy::Agrees {
            let (theirs, sample) = (ours.len(), ours.iter().map(|it| it.id).take(SAMPLE_MAX));
            let found = Reconciliation { sample: sample.collect(), theirs, ..Default::default() };
            return self.sends(id, Frame::NegDone { sub, found });
        }
        let mut theirs = self.nodes[relay].shelf.matching(filter);
        if let Some(limit) = self.compares_at_most(negentropy, theirs.len()) {
            return self.sends(id, limit.refusal(sub));
        }
        theirs.retain(|event| !negentropy.hides(&event.id));
        let lacks = |event: &&Arc<Event>| !self.nodes[server].knows(&event.id);
        let mut need: Vec<EventId> = theirs.iter().filter(lacks).map(|event| event.id).collect();
        if let Negentropy::Claims { ids } = negentropy {
            need.extend((0..ids / 20).map(|_| EventId::from_bytes(self.random.bytes32())));
        }
        let shown: BTreeSet<EventId> = theirs.iter().map(|event| event.id).collect();
        let (both, lacks): (Vec<Arc<Event>>, Vec<Arc<Event>>) =
            ours.into_iter().partition(|event| shown.contains(&event.id));
        let found = Reconciliation {
            need,
            lacking: lacks.len(),
            lacks: lacks
                .iter()
                .map(|event| (event.created_at, event.id))
                .take(Reconciliation::LACKS_MAX)
                .collect(),
            sample: both.iter().map(|event| event.id).take(SAMPLE_MAX).collect(),
            theirs: theirs.len(),
        };
        self.sends(id, Frame::NegDone { sub, found });
    }

    /// A relay that compares few events at once, and now and then only half of that.
    fn compares_at_most(&mut self, negentropy: Negentropy, events: usize) -> Option<TooLarge> {
        let Negentropy::Limited { events: limit } = negentropy else { return None };
        let limit = if self.random.one_in(3) { limit / 2 } else { limit };
        let is_told = self.random.one_in(2);
        (events > limit as usize).then_some(TooLarge { limit, is_told })
    }

    fn admits(&mut self, relay: usize, id: LinkId, filters: &[Filter]) -> Result<(), No> {
        let now = self.now;
        let Behaviour { limits, refuses, .. } = self.nodes[relay].behaviour;
        let Some(session) = self.nodes[relay].sessions.get_mut(&id) else {
            return Err(No::Ignored);
        };
        session.asked_at.push_back(now);
        while session.asked_at.front().is_some_and(|at| now.since(*at) > Duration::from_secs(60)) {
            session.asked_at.pop_front();
        }
        let asked = u32::try_from(session.asked_at.len()).unwrap_or(u32::MAX);
        match refuses {
            Refuses::All(text) => return Err(No::Closed(text.to_owned())),
            Refuses::First(count, text) if session.refused < count => {
                session.refused += 1;
                return Err(No::Closed(text.to_owned()));
            }
            Refuses::WithoutAuth { .. } if !session.authenticated => {
                return Err(No::Closed(CLOSED_AUTH.to_owned()));
            }
            Refuses::RateByNotice { per_minute } if asked > per_minute => {
                return Err(No::Notice(NOTICE_RATE));
            }
            Refuses::RateByClosed { per_minute } if asked > per_minute => {
                return Err(No::Closed(CLOSED_RATE.to_owned()));
            }
            _ => {}
        }
        let open = u32::try_from(session.open.len()).unwrap_or(u32::MAX);
        if open >= limits.subscriptions_max {
            let is_told = limits.told && session.is_told;
            let known = is_told || limits.subscriptions_max >= DEFAULT_SUBSCRIPTIONS;
            if known {
                self.complain(format!("{} counts {} subscriptions", self.name(relay), open + 1));
            }
            return Err(No::Closed(CLOSED_SUBSCRIPTIONS.to_owned()));
        }
        if u32::try_from(filters.len()).is_ok_and(|count| count > limits.filters_per_req_max) {
            return Err(No::Closed(CLOSED_FILTERS.to_owned()));
        }
        let open = session.open.values().flat_map(|filters| filters.iter());
        let retained: usize = open.chain(filters).map(Filter::retained_bytes).sum();
        if u64::try_from(retained).is_ok_and(|bytes| bytes > limits.retained_bytes_max) {
            return Err(No::Closed(closed_retained(limits.retained_bytes_max)));
        }
        Ok(())
    }

    fn refuses(&mut self, id: LinkId, sub: Sub, no: No) {
        match no {
            No::Closed(text) => self.sends(id, Frame::Closed { sub, text }),
            No::Notice(text) => self.sends(id, Frame::Notice(text)),
            No::Ignored => {}
        }
    }

    /// Tells everybody who listens here.
    pub(crate) fn resounds(&mut self, relay: usize, event: &Arc<Event>) {
        let copy = match self.nodes[relay].behaviour.answers {
            Answers::Honest | Answers::NeverEose | Answers::SlowDrip { .. } => {
                Copied::genuine(event)
            }
            Answers::Forged => Copied::forged(event),
            Answers::Silent | Answers::Endless | Answers::Wrong => return,
        };
        let mut heard = vec![];
        for (id, session) in &self.nodes[relay].sessions {
            for (sub, filters) in &session.open {
                if filters.iter().any(|filter| filter.matches(event)) {
                    heard.push((*id, *sub));
                }
            }
        }
        for (id, sub) in heard {
            self.sends(id, Frame::Events { sub, copies: vec![copy.clone()] });
        }
    }

    pub(crate) fn sends(&mut self, id: LinkId, frame: Frame) {
        let Some(link) = self.links.get_mut(&id).filter(|link| !link.is_cut) else { return };
        let jitter = self.random.below(link.latency_ms + 1);
        let at = self.now.plus(Duration::from_millis(link.latency_ms + jitter));
        link.to_server_at = link.to_server_at.max(at);
        let at = link.to_server_at;
        self.at(at, Happening::Heard { link: id, frame });
    }

    /// A well-made event that nobody could want, though it matches.
    fn invents_for(&mut self, filter: &Filter) -> Option<Arc<Event>> {
        if filter.ids.is_some() {
            return None;
        }
        // Kinds that may come with any tag are of the sort that is never stored.
        let kind = filter.kinds.as_ref().and_then(|kinds| kinds.first()).copied();
        let mut tags = vec![];
        for (letter, values) in &filter.tags {
            let value = self.random.pick(values).clone();
            tags.push(Tag(vec![char::from(*letter).to_string(), value]));
        }
        let mut event = Event::clone(&*self.invents(kind.unwrap_or(Kind(20_001)), tags));
        let now = self.now.timestamp();
        event.created_at = filter.until.unwrap_or(now).min(now);
        Some(Arc::new(event))
    }

    fn invents(&mut self, kind: Kind, tags: Vec<Tag>) -> Arc<Event> {
        let id = EventId::from_bytes(self.random.bytes32());
        let pubkey = PubKey::from_bytes(self.random.bytes32());
        let created_at = Timestamp(self.now.timestamp().0 - self.random.below(1_000));
        let sig = Signature::from_bytes([0; 64]);
        Arc::new(Event { id, pubkey, created_at, kind, tags, content: String::new(), sig })
    }
}

fn is_live(filter: &Filter) -> bool {
    filter.limit == Some(0) || filter.since.is_some()
}

/// What a client may assume that was told nothing.
const DEFAULT_SUBSCRIPTIONS: u32 = 20;

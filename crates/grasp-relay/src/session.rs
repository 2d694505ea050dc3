//! One connection's conversation: which messages are allowed, what is asked of the server, and what
//! is answered at once. It knows no storage and no socket. Exactly one answer belongs to each
//! message that wants one, and nothing a client says makes the session grow beyond its limits.

mod auth;

use crate::budgets::Allowance;
use crate::message::{Addressee, ClientMessage};
use crate::{Limits, SubId, reply};
use grasp_core::{Event, Filter, Kind, PubKey, Service, Tag, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// What the server does for a session. A closed list: nothing else can be asked of it.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Put this text on the wire.
    Send(String),
    /// Verify, judge and store; answer with exactly one OK.
    Ingest(Box<Event>),
    /// Verify, then call `Session::auth_checked`, which answers.
    CheckAuth(Box<Event>),
    /// Answer from the store, then EOSE, then go on live. Ends a subscription of the same name.
    /// Every filter has a `limit`; zero means live only.
    Subscribe {
        sub: SubId,
        filters: Arc<[Filter]>,
    },
    Unsubscribe {
        sub: SubId,
    },
    /// Answer with COUNT.
    Count {
        sub: SubId,
        filters: Vec<Filter>,
    },
    /// Answer with NEG-MSG. Ends a reconciliation of the same name.
    NegOpen {
        sub: SubId,
        filter: Box<Filter>,
        message: Vec<u8>,
    },
    /// Answer with NEG-MSG.
    NegMsg {
        sub: SubId,
        message: Vec<u8>,
    },
    NegClose {
        sub: SubId,
    },
    /// Close the connection, for this reason. Nothing is heard afterwards.
    Hangup(String),
}

#[derive(Debug)]
pub struct Session {
    limits: Arc<Limits>,
    service: Arc<Service>,
    challenge: String,
    /// Open subscriptions and what their filters occupy.
    subs: BTreeMap<SubId, usize>,
    retained_bytes: usize,
    negs: BTreeSet<SubId>,
    authenticated: BTreeSet<PubKey>,
    bad_signatures: u32,
    hung_up: bool,
    actions: VecDeque<Action>,
}

/// Whether a message may go on, or the sentence that refuses it.
type Checked = Result<(), String>;

impl Session {
    /// `challenge` is what a client signs under NIP-42: random, and new for each connection.
    pub fn new(limits: Arc<Limits>, service: Arc<Service>, challenge: String) -> Self {
        Self {
            limits,
            service,
            challenge,
            subs: BTreeMap::new(),
            retained_bytes: 0,
            negs: BTreeSet::new(),
            authenticated: BTreeSet::new(),
            bad_signatures: 0,
            hung_up: false,
            actions: VecDeque::new(),
        }
    }

    pub fn handle_text(&mut self, text: &str, now: Time, allowance: &mut impl Allowance) {
        if self.hung_up {
            return;
        }
        let max = self.limits.message_bytes_max;
        if text.len() > max {
            let why = format!("invalid: the message is longer than {max} bytes");
            return self.refuse(Addressee::of(text), &why, allowance);
        }
        match ClientMessage::parse(text) {
            Ok(message) => self.handle_message(message, text.len(), now, allowance),
            Err(malformed) => self.refuse(malformed.to, &malformed.why, allowance),
        }
    }

    pub fn handle_binary(&mut self) {
        if !self.hung_up {
            self.send(reply::notice("invalid: messages are text; binary frames are not read"));
        }
    }

    /// To be drained after every call that may change something.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// The server sent CLOSED for this subscription.
    pub fn subscription_ended(&mut self, sub: &SubId, allowance: &mut impl Allowance) {
        self.forget_subscription(sub, allowance);
    }

    /// The server sent NEG-ERR for this reconciliation.
    pub fn neg_ended(&mut self, sub: &SubId) {
        self.negs.remove(sub);
    }

    /// An event of this client was not what it claimed to be.
    pub fn bad_signature(&mut self) {
        self.bad_signatures = self.bad_signatures.saturating_add(1);
        if self.bad_signatures >= self.limits.bad_signatures_max && !self.hung_up {
            self.hung_up = true;
            let why = format!(
                "blocked: {} events with a wrong id or signature on this connection",
                self.bad_signatures
            );
            self.send(reply::notice(&why));
            self.actions.push_back(Action::Hangup(why));
        }
    }

    /// The connection is gone; gives back what it held of its address's budget.
    pub fn end(&mut self, allowance: &mut impl Allowance) {
        allowance.release(std::mem::take(&mut self.retained_bytes));
        self.subs.clear();
        self.negs.clear();
        self.actions.clear();
        self.hung_up = true;
    }

    pub fn subscriptions(&self) -> usize {
        self.subs.len()
    }

    pub fn reconciliations(&self) -> usize {
        self.negs.len()
    }

    pub fn retained_bytes(&self) -> usize {
        self.retained_bytes
    }

    pub fn is_authenticated_as(&self, key: &PubKey) -> bool {
        self.authenticated.contains(key)
    }

    fn handle_message(
        &mut self,
        message: ClientMessage,
        text_len: usize,
        now: Time,
        allowance: &mut impl Allowance,
    ) {
        match message {
            ClientMessage::Event(event) => self.handle_event(event, text_len, now, allowance),
            ClientMessage::Auth(event) => self.handle_auth(event, now, allowance),
            ClientMessage::Req { sub, filters } => self.handle_req(sub, filters, allowance),
            ClientMessage::Count { sub, filters } => self.handle_count(sub, filters, allowance),
            ClientMessage::Close(sub) => {
                if self.forget_subscription(&sub, allowance) {
                    self.actions.push_back(Action::Unsubscribe { sub });
                }
            }
            ClientMessage::NegOpen { sub, filter, message } => {
                self.handle_neg_open(sub, filter, message, allowance);
            }
            ClientMessage::NegMsg { sub, message } => self.handle_neg_msg(sub, message, allowance),
            ClientMessage::NegClose(sub) => {
                if self.negs.remove(&sub) {
                    self.actions.push_back(Action::NegClose { sub });
                }
            }
        }
    }

    fn handle_event(
        &mut self,
        event: Box<Event>,
        text_len: usize,
        now: Time,
        allowance: &mut impl Allowance,
    ) {
        let paid = allowance.take_event(event.kind, now).map_err(|r| format!("rate-limited: {r}"));
        match paid.and_then(|()| self.check_event(&event, text_len)) {
            Ok(()) => self.actions.push_back(Action::Ingest(event)),
            Err(why) => self.refuse(Addressee::Event(event.id), &why, allowance),
        }
    }

    /// What can be told without the store and without cryptography.
    fn check_event(&mut self, event: &Event, text_len: usize) -> Checked {
        let max = self.limits.event_bytes_max;
        // Canonical JSON is never longer than what was sent, so most events need no measuring.
        if text_len > max && event.to_json().len() > max {
            return Err(format!("invalid: the event is larger than {max} bytes"));
        }
        let max = self.limits.tags_max;
        if event.tags.len() > max {
            return Err(format!("invalid: the event has more than {max} tags"));
        }
        if event.kind == Kind::AUTH {
            return Err("invalid: kind 22242 belongs in an AUTH message".to_owned());
        }
        if embeds_protected(event) {
            return Err("blocked: it reposts an event that only its author may publish".to_owned());
        }
        self.check_protected(event)
    }

    fn handle_req(&mut self, sub: SubId, filters: Vec<Filter>, allowance: &mut impl Allowance) {
        // A second REQ of this name ends the first, whether or not it is granted itself.
        let replaces = self.forget_subscription(&sub, allowance);
        let bytes = filters.iter().map(Filter::retained_bytes).sum();
        match self.check_req(&sub, &filters, bytes, allowance) {
            Ok(()) => {
                self.retained_bytes += bytes;
                self.subs.insert(sub.clone(), bytes);
                let filters = filters.into_iter().map(|filter| self.bounded(filter)).collect();
                self.actions.push_back(Action::Subscribe { sub, filters });
            }
            Err(why) => {
                if replaces {
                    self.actions.push_back(Action::Unsubscribe { sub: sub.clone() });
                }
                self.refuse(Addressee::Subscription(sub), &why, allowance);
            }
        }
    }

    fn check_req(
        &self,
        sub: &SubId,
        filters: &[Filter],
        bytes: usize,
        allowance: &mut impl Allowance,
    ) -> Checked {
        self.check_query(sub, filters)?;
        let max = self.limits.subscriptions_max;
        if self.subs.len() >= max {
            return Err(format!("rate-limited: {max} subscriptions are open; close one first"));
        }
        let max = self.limits.retained_filter_bytes_max;
        if self.retained_bytes.saturating_add(bytes) > max {
            return Err(format!(
                "rate-limited: the filters of open subscriptions exceed {max} bytes; close some first"
            ));
        }
        allowance.retain(bytes).map_err(|refused| format!("rate-limited: {refused}"))
    }

    fn check_query(&self, sub: &SubId, filters: &[Filter]) -> Checked {
        let max = self.limits.filters_per_req_max;
        if filters.len() > max {
            return Err(format!("invalid: more than {max} filters; use several subscriptions"));
        }
        self.check_name(sub)
    }

    fn check_name(&self, sub: &SubId) -> Checked {
        let max = self.limits.subid_chars_max;
        if sub.chars() > max {
            return Err(format!("invalid: the subscription id is longer than {max} characters"));
        }
        Ok(())
    }

    fn bounded(&self, mut filter: Filter) -> Filter {
        let limit = filter.limit.unwrap_or(self.limits.limit_default);
        filter.limit = Some(limit.min(self.limits.limit_max));
        filter
    }

    fn handle_count(&mut self, sub: SubId, filters: Vec<Filter>, allowance: &mut impl Allowance) {
        match self.check_query(&sub, &filters) {
            Ok(()) => self.actions.push_back(Action::Count { sub, filters }),
            Err(why) => self.refuse(Addressee::Count(sub), &why, allowance),
        }
    }

    fn handle_neg_open(
        &mut self,
        sub: SubId,
        filter: Box<Filter>,
        message: Vec<u8>,
        allowance: &mut impl Allowance,
    ) {
        match self.check_neg_open(&sub) {
            Ok(()) => {
                self.negs.insert(sub.clone());
                self.actions.push_back(Action::NegOpen { sub, filter, message });
            }
            Err(why) => self.refuse(Addressee::Reconciliation(sub), &why, allowance),
        }
    }

    fn check_neg_open(&self, sub: &SubId) -> Checked {
        self.check_name(sub)?;
        let max = self.limits.neg_sessions_max;
        if self.negs.len() >= max && !self.negs.contains(sub) {
            return Err(format!("blocked: {max} reconciliations are open; NEG-CLOSE one first"));
        }
        Ok(())
    }

    fn handle_neg_msg(&mut self, sub: SubId, message: Vec<u8>, allowance: &mut impl Allowance) {
        if self.negs.contains(&sub) {
            self.actions.push_back(Action::NegMsg { sub, message });
        } else {
            let why = "closed: no reconciliation of this name is open; send NEG-OPEN first";
            self.refuse(Addressee::Reconciliation(sub), why, allowance);
        }
    }

    /// The one place where something is refused. What a refusal ends on the client's side ends on
    /// ours as well.
    fn refuse(&mut self, to: Addressee, why: &str, allowance: &mut impl Allowance) {
        match to {
            Addressee::Event(id) => self.send(reply::ok(&id, false, why)),
            Addressee::Count(sub) => self.send(reply::closed(&sub, why)),
            Addressee::Subscription(sub) => {
                let frame = reply::closed(&sub, why);
                if self.forget_subscription(&sub, allowance) {
                    self.actions.push_back(Action::Unsubscribe { sub });
                }
                self.send(frame);
            }
            Addressee::Reconciliation(sub) => {
                let frame = reply::neg_err(&sub, why);
                if self.negs.remove(&sub) {
                    self.actions.push_back(Action::NegClose { sub });
                }
                self.send(frame);
            }
            Addressee::Nobody => self.send(reply::notice(why)),
        }
    }

    /// Returns whether there was such a subscription.
    fn forget_subscription(&mut self, sub: &SubId, allowance: &mut impl Allowance) -> bool {
        let Some(bytes) = self.subs.remove(sub) else { return false };
        self.retained_bytes = self.retained_bytes.saturating_sub(bytes);
        allowance.release(bytes);
        true
    }

    fn send(&mut self, frame: String) {
        self.actions.push_back(Action::Send(frame));
    }
}

/// NIP-70: a repost would carry a protected event past the rule that protects it.
fn embeds_protected(event: &Event) -> bool {
    #[derive(serde::Deserialize)]
    struct Embedded {
        tags: Vec<Tag>,
    }
    if event.kind != Kind::REPOST && event.kind != Kind::GENERIC_REPOST {
        return false;
    }
    let inner = serde_json::from_str::<Embedded>(&event.content);
    inner.is_ok_and(|inner| inner.tags.iter().any(|tag| tag.name() == "-"))
}

#[cfg(test)]
mod tests;

//! NIP-42 and NIP-70: who the client is, and which events need to know it. Reading never does.

use super::{Action, Checked, Session};
use crate::budgets::Allowance;
use crate::{message::Addressee, reply};
use grasp_core::event::Forged;
use grasp_core::{Event, EventId, Kind, Time, VerifiedEvent};

impl Session {
    /// The verdict on an event handed out as `Action::CheckAuth`.
    pub fn auth_checked(&mut self, id: EventId, checked: Result<VerifiedEvent, Forged>) {
        match checked {
            Ok(event) => match self.check_room(&event) {
                Ok(()) => {
                    self.authenticated.insert(event.pubkey);
                    self.send(reply::ok(&id, true, ""));
                }
                Err(why) => self.send(reply::ok(&id, false, &why)),
            },
            Err(forged) => {
                self.send(reply::ok(&id, false, &format!("invalid: {forged}")));
                self.bad_signature();
            }
        }
    }

    pub(super) fn handle_auth(
        &mut self,
        event: Box<Event>,
        now: Time,
        allowance: &mut impl Allowance,
    ) {
        let paid = allowance.take_event(event.kind, now).map_err(|r| format!("rate-limited: {r}"));
        match paid.and_then(|()| self.check_auth(&event, now)) {
            Ok(()) => self.actions.push_back(Action::CheckAuth(event)),
            Err(why) => self.refuse(Addressee::Event(event.id), &why, allowance),
        }
    }

    fn check_auth(&self, event: &Event, now: Time) -> Checked {
        if event.kind != Kind::AUTH {
            return Err("invalid: an AUTH message carries an event of kind 22242".to_owned());
        }
        if event.tag("challenge") != Some(&self.challenge) {
            return Err("invalid: the challenge is not the one of this connection".to_owned());
        }
        if !event.tag("relay").is_some_and(|url| self.service.names_relay(url)) {
            let ours = self.service.address();
            return Err(format!("invalid: the relay tag must name this relay, wss://{ours}"));
        }
        let max = self.limits.auth_skew_secs_max;
        if event.created_at.0.abs_diff(now.timestamp().0) > max {
            return Err(format!("invalid: created_at is more than {max} s from our clock"));
        }
        self.check_room(event)
    }

    fn check_room(&self, event: &Event) -> Checked {
        let max = self.limits.auth_keys_max;
        if self.authenticated.len() >= max && !self.authenticated.contains(&event.pubkey) {
            return Err(format!(
                "rate-limited: {max} keys are authenticated; use another connection"
            ));
        }
        Ok(())
    }

    /// Asks for authentication when that could help.
    pub(super) fn check_protected(&mut self, event: &Event) -> Checked {
        if !event.is_protected() || self.authenticated.contains(&event.pubkey) {
            return Ok(());
        }
        if !self.authenticated.is_empty() {
            return Err("restricted: a protected event is published by its author only".to_owned());
        }
        self.send(reply::auth(&self.challenge));
        Err("auth-required: a protected event is published by its author only".to_owned())
    }
}

//! What a connection may not do: limits, rates, and who has to sign in first. Knows the texts of
//! real relays and answers nothing itself.

use super::room::{Room, bytes};
use crate::behaviour::{
    Behaviour, CLOSED_AUTH, CLOSED_FILTERS, CLOSED_RATE, CLOSED_SUBSCRIPTIONS, Limits, NOTICE_RATE,
    Refuses, closed_retained,
};
use crate::now;
use grasp_core::{Event, Filter, Kind, RelayUrl};
use grasp_relay::{SubId, reply};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

const MINUTE: Duration = Duration::from_secs(60);
const AUTH_SKEW_SECS: u64 = 600;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refused {
    Closed(String),
    Notice(&'static str),
}

#[derive(Debug)]
pub(super) struct Gate {
    guest: u64,
    room: Arc<Room>,
    challenge: String,
    open: bool,
    refused: u32,
    /// Questions of the last minute that were let through.
    passed: VecDeque<Instant>,
}

impl Gate {
    pub(super) fn new(guest: u64, room: Arc<Room>) -> Self {
        let challenge = format!("{:016x}", room.chance(crate::Random::next_u64));
        Self { guest, room, challenge, open: false, refused: 0, passed: VecDeque::new() }
    }

    pub(super) fn challenge(&self) -> &str {
        &self.challenge
    }

    /// Somebody proved who he is.
    pub(super) fn opens(&mut self) {
        self.open = true;
    }

    /// What is said to a message that is too long, which is not read any further.
    pub(super) fn weighs(&self, limits: &Limits, len: usize) -> Option<String> {
        let max = limits.message_bytes_max;
        if len <= usize::try_from(max).unwrap_or(usize::MAX) {
            return None;
        }
        self.notes(format!("a message of {len} bytes, {max} allowed"));
        Some(reply::notice("ERROR: bad msg: message too large"))
    }

    pub(super) fn judges(
        &mut self,
        behaviour: &Behaviour,
        sub: &SubId,
        filters: &[Filter],
    ) -> Option<Refused> {
        self.unwilling(behaviour.refuses).or_else(|| self.too_much(&behaviour.limits, sub, filters))
    }

    fn unwilling(&mut self, refuses: Refuses) -> Option<Refused> {
        let closed = |text: &str| Some(Refused::Closed(text.to_owned()));
        match refuses {
            Refuses::Nothing => None,
            Refuses::All(text) => closed(text),
            Refuses::First(count, text) => {
                self.refused = self.refused.saturating_add(1);
                closed(text).filter(|_| self.refused <= count)
            }
            Refuses::WithoutAuth { never } => closed(CLOSED_AUTH).filter(|_| never || !self.open),
            Refuses::RateByNotice { per_minute } => {
                self.too_fast(per_minute).then_some(Refused::Notice(NOTICE_RATE))
            }
            Refuses::RateByClosed { per_minute } => {
                closed(CLOSED_RATE).filter(|_| self.too_fast(per_minute))
            }
        }
    }

    fn too_fast(&mut self, per_minute: u32) -> bool {
        while self.passed.front().is_some_and(|at| at.elapsed() >= MINUTE) {
            self.passed.pop_front();
        }
        if self.passed.len() >= usize::try_from(per_minute).unwrap_or(usize::MAX) {
            return true;
        }
        self.passed.push_back(Instant::now());
        false
    }

    fn too_much(&self, limits: &Limits, sub: &SubId, filters: &[Filter]) -> Option<Refused> {
        let over = |count: usize, max: u32| count > usize::try_from(max).unwrap_or(usize::MAX);
        let usage = self.room.usage_without(self.guest, sub);
        if over(filters.len(), limits.filters_per_req_max) {
            self.notes(format!(
                "{} filters, {} allowed",
                filters.len(),
                limits.filters_per_req_max
            ));
            return Some(Refused::Closed(CLOSED_FILTERS.to_owned()));
        }
        if over(usage.subscriptions + 1, limits.subscriptions_max) {
            let max = limits.subscriptions_max;
            self.notes(format!("subscription {} of {max}", usage.subscriptions + 1));
            return Some(Refused::Closed(CLOSED_SUBSCRIPTIONS.to_owned()));
        }
        let retained = usage.retained_bytes + filters.iter().map(bytes).sum::<usize>();
        if u64::try_from(retained).unwrap_or(u64::MAX) > limits.retained_bytes_max {
            self.notes(format!("{retained} bytes retained, {} allowed", limits.retained_bytes_max));
            return Some(Refused::Closed(closed_retained(limits.retained_bytes_max)));
        }
        None
    }

    fn notes(&self, violation: String) {
        self.room.notes(|seen| seen.violations.push(violation));
    }
}

/// NIP-42: is this the answer to our challenge, meant for us?
pub(super) fn signed_in(event: &Event, url: &str, challenge: &str) -> Result<(), String> {
    if event.kind != Kind::AUTH {
        return Err(format!("kind {} is no answer to a challenge", event.kind.0));
    }
    let meant = event.tag("relay").and_then(|relay| relay.parse::<RelayUrl>().ok());
    if meant.is_none() || meant != url.parse().ok() {
        return Err(format!("meant for {:?}, not for {url}", event.tag("relay")));
    }
    if event.tag("challenge") != Some(challenge) {
        return Err("another challenge".to_owned());
    }
    if event.created_at.0.abs_diff(now()) > AUTH_SKEW_SECS {
        return Err("not of now".to_owned());
    }
    event.clone().verify().map(drop).map_err(|why| why.to_string())
}

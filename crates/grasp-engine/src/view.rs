//! The engine's state, to be shown and explained: for each relay what is wanted, what is under way,
//! what is confirmed, and why nothing happens when nothing happens.

use crate::engine::Engine;
use crate::groups::{Layer, Stage};
use crate::relay::{Link, Relay};
use crate::session::Negentropy;
use crate::{Account, Health};
use grasp_core::{RelayUrl, Time};
use serde::Serialize;
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Totals {
    pub relays: usize,
    pub connected: usize,
    pub dead: usize,
    pub repositories: usize,
    pub roots: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RelayView {
    pub relay: RelayUrl,
    pub connected: bool,
    pub bootstrap: bool,
    pub health: Health,
    pub account: Account,
    pub repositories: usize,
    pub roots: usize,
    /// Groups of up to a hundred values, by stage.
    pub missing: usize,
    pub pending: usize,
    pub confirmed: usize,
    pub live_subscriptions: usize,
    pub open_questions: usize,
    /// Groups that do not fit into live subscriptions and are asked for in turn.
    pub in_rotation: usize,
    pub negentropy: bool,
    pub last_alive: Option<Time>,
    pub daily_at: Option<Time>,
    /// Why nothing is asked right now, if so.
    pub waits: Option<Wait>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum Wait {
    /// It is this very server.
    Ourselves,
    Retry {
        until: Time,
    },
    /// For a place among the links or dials.
    Place,
    Cooldown {
        until: Time,
    },
    Pause {
        until: Time,
    },
    Unanswered {
        until: Time,
    },
}

impl Engine {
    pub fn totals(&self) -> Totals {
        let relays = || self.relays.iter().flatten();
        Totals {
            relays: relays().count(),
            connected: relays().filter(|relay| relay.session().is_some()).count(),
            dead: relays().filter(|relay| relay.health.is_dead()).count(),
            repositories: self.wanted.repos(),
            roots: self.wanted.roots(),
        }
    }

    pub fn relay_views(&self, now: Time) -> Vec<RelayView> {
        let numbers = self.numbers.values();
        numbers.filter_map(|number| Some(self.relay(*number)?.view(now))).collect()
    }

    /// How long each relay was wanted and linked, up to now.
    pub fn accounts(&self, now: Time) -> impl Iterator<Item = (&RelayUrl, Account)> {
        self.relays.iter().flatten().map(move |relay| (&relay.url, relay.account_at(now)))
    }

    /// Up to `count_max` of them, those whose address comes after this one.
    pub fn relay_views_after(&self, after: &str, count_max: usize, now: Time) -> Vec<RelayView> {
        let behind = self.numbers.iter().skip_while(|(relay, _)| relay.as_str() <= after);
        let views = behind.filter_map(|(_, number)| Some(self.relay(*number)?.view(now)));
        views.take(count_max).collect()
    }

    pub fn relay_view(&self, relay: &RelayUrl, now: Time) -> Option<RelayView> {
        Some(self.relay(*self.numbers.get(relay)?)?.view(now))
    }
}

impl Relay {
    fn view(&self, now: Time) -> RelayView {
        let stage = |stage: Stage| self.groups.iter().filter(|it| it.stage == stage).count();
        let in_layer = |layer: Layer| self.groups.iter().filter(move |it| it.layer == layer);
        let session = self.session();
        RelayView {
            relay: self.url.clone(),
            connected: session.is_some(),
            bootstrap: self.bootstrap,
            health: self.health,
            account: self.account_at(now),
            repositories: self.repos.len(),
            roots: in_layer(Layer::Roots).map(|group| group.members.len()).sum(),
            missing: stage(Stage::Missing),
            pending: stage(Stage::Pending),
            confirmed: stage(Stage::Confirmed),
            live_subscriptions: session.map_or(0, |session| session.live.len()),
            open_questions: session.map_or(0, |session| session.asked.len()),
            in_rotation: match session {
                Some(_) => self.groups.iter().filter(|group| !group.is_listening()).count(),
                None => 0,
            },
            negentropy: session.is_some_and(|session| session.negentropy == Negentropy::Yes),
            last_alive: self.alive_at(now),
            daily_at: self.daily_at,
            waits: self.waits(now),
        }
    }

    fn waits(&self, now: Time) -> Option<Wait> {
        if self.ourselves {
            return Some(Wait::Ourselves);
        }
        let next_try = self.health.next_try().max(self.not_before);
        match self.link {
            Link::Dialling { .. } => None,
            Link::Down if next_try > now => Some(Wait::Retry { until: next_try }),
            Link::Down => Some(Wait::Place),
            Link::Up(_) => {
                let brake = &self.brake;
                let later = |until: Time| Some(until).filter(|until| *until > now);
                later(brake.paused_until)
                    .map(|until| Wait::Pause { until })
                    .or(later(brake.cooling_until).map(|until| Wait::Cooldown { until }))
                    .or(later(brake.unanswered_until).map(|until| Wait::Unanswered { until }))
            }
        }
    }
}

/// One line for a person.
impl fmt::Display for RelayView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let link = if self.connected { "connected" } else { "not connected" };
        write!(
            f,
            "{}: {link}, {} repositories, {} roots",
            self.relay, self.repositories, self.roots
        )?;
        write!(
            f,
            "; groups {} confirmed, {} under way, {} to ask, {} in rotation; {} live, {} open",
            self.confirmed,
            self.pending,
            self.missing,
            self.in_rotation,
            self.live_subscriptions,
            self.open_questions
        )?;
        match &self.waits {
            None => Ok(()),
            Some(Wait::Ourselves) => write!(f, "; this very server under another name"),
            Some(Wait::Place) => write!(f, "; waits for a free place"),
            Some(Wait::Retry { until }) => write!(f, "; tried again at {}", until.timestamp()),
            Some(Wait::Cooldown { until }) => {
                write!(f, "; asked us to slow down, left alone until {}", until.timestamp())
            }
            Some(Wait::Pause { until }) => {
                write!(f, "; does not want our questions, left alone until {}", until.timestamp())
            }
            Some(Wait::Unanswered { until }) => {
                write!(f, "; left questions unanswered, asked again at {}", until.timestamp())
            }
        }
    }
}

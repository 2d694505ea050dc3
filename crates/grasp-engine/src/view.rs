//! The engine's state, to be shown and explained: for each relay what is wanted, what is under way,
//! what is confirmed, and why nothing happens when nothing happens.

use crate::engine::Engine;
use crate::groups::{Group, Layer, Stage};
use crate::question::{Batch, Method};
use crate::relay::{Link, Relay};
use crate::relay_hosts::{NotFollowed, RELAYS_PER_HOST_MAX};
use crate::session::{Negentropy, Session};
use crate::{Account, DailyResult, Health, RefusedBudget};
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
    /// A dial is under way; never while it is connected.
    pub connecting: bool,
    pub bootstrap: bool,
    pub health: Health,
    pub account: Account,
    /// What of its events was accepted and refused (S-47).
    pub budget: RefusedBudget,
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
    /// Repositories in those groups.
    pub repositories_in_rotation: usize,
    /// Batches under way, the oldest first; up to `BATCHES_SHOWN_MAX`.
    pub batches: Vec<BatchView>,
    pub negentropy: bool,
    pub last_alive: Option<Time>,
    pub daily_at: Option<Time>,
    pub daily_last: Option<DailyResult>,
    pub daily_running: bool,
    /// When a link last failed or could not be made.
    pub last_failure: Option<Time>,
    /// Why the last comparison failed; nothing once one succeeded.
    pub comparison_failure: Option<String>,
    /// Seconds of which it has more events than it gives out.
    pub full_seconds: u64,
    /// Other relays at its network address, with which it takes turns; 0 if all of them can be
    /// linked at once.
    pub shares_address_with: usize,
    /// It is linked, everything was asked for, and nothing is being compared or due to be.
    pub settled: bool,
    /// This server had no room for some of its events; they are asked for again.
    pub no_room: bool,
    /// Why nothing is asked right now, if so.
    pub waits: Option<Wait>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum Wait {
    /// It is this very server.
    Ourselves,
    NotFollowed {
        why: NotFollowed,
    },
    Retry {
        until: Time,
    },
    /// For a place among the links or dials.
    Place,
    /// For its turn among the relays at its network address.
    Address,
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

/// Some groups of one relay on their way to being confirmed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BatchView {
    /// Its number on this link, as in the log.
    pub id: u64,
    pub groups: usize,
    /// Questions that have not ended.
    pub outstanding: usize,
    pub compares: bool,
    pub since: Time,
}

/// Batches that are shown of one relay.
const BATCHES_SHOWN_MAX: usize = 8;

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
        numbers.filter_map(|number| self.view(*number, now)).collect()
    }

    /// In wall time, for people and records.
    fn view(&self, number: u32, now: Time) -> Option<RelayView> {
        let offset = self.wall.offset;
        let relay = self.relay(number)?;
        let mut view = relay.view(now);
        view.shares_address_with =
            self.addresses.sharing(number, self.settings.links_per_address_max);
        let waits_there = relay.dial_place.is_some_and(|place| self.addresses.is_waiting(place));
        if view.waits == Some(Wait::Place) && waits_there {
            view.waits = Some(Wait::Address);
        }
        Some(view.with_times(|at| offset.to_wall(at)))
    }

    /// How long each relay was wanted and linked, up to now.
    pub fn accounts(&self, now: Time) -> impl Iterator<Item = (&RelayUrl, Account)> {
        self.relays.iter().flatten().map(move |relay| (&relay.url, relay.account_at(now)))
    }

    /// Up to `count_max` of them, those whose address comes after this one.
    pub fn relay_views_after(&self, after: &str, count_max: usize, now: Time) -> Vec<RelayView> {
        let followed = self.numbers.iter().skip_while(|(relay, _)| relay.as_str() <= after);
        let followed = followed.filter_map(|(_, number)| self.view(*number, now));
        let others = self.hosts.not_followed().filter(|(it, _)| !self.numbers.contains_key(*it));
        let others = others.filter(|(relay, _)| relay.as_str() > after);
        let mut views: Vec<RelayView> = followed.take(count_max).collect();
        views.extend(others.take(count_max).map(|(relay, why)| not_followed(relay, why, now)));
        views.sort_by(|one, other| one.relay.cmp(&other.relay));
        views.truncate(count_max);
        views
    }

    pub fn relay_view(&self, relay: &RelayUrl, now: Time) -> Option<RelayView> {
        self.view(*self.numbers.get(relay)?, now)
    }
}

impl RelayView {
    fn with_times(mut self, translate: impl Fn(Time) -> Time) -> Self {
        self.health = self.health.with_times(&translate);
        self.account.known_since = translate(self.account.known_since);
        self.budget = self.budget.with_times(&translate);
        self.last_alive = self.last_alive.map(&translate);
        self.daily_at = self.daily_at.map(&translate);
        self.last_failure = self.last_failure.map(&translate);
        if let Some(daily) = &mut self.daily_last {
            daily.ended = translate(daily.ended);
        }
        for batch in &mut self.batches {
            batch.since = translate(batch.since);
        }
        match &mut self.waits {
            None
            | Some(Wait::Ourselves | Wait::Place | Wait::Address | Wait::NotFollowed { .. }) => {}
            Some(
                Wait::Retry { until }
                | Wait::Cooldown { until }
                | Wait::Pause { until }
                | Wait::Unanswered { until },
            ) => *until = translate(*until),
        }
        self
    }
}

fn not_followed(relay: &RelayUrl, why: NotFollowed, now: Time) -> RelayView {
    let view = Relay::new(u32::MAX, relay.clone(), now).view(now);
    RelayView { waits: Some(Wait::NotFollowed { why }), ..view }
}

impl Relay {
    fn view(&self, now: Time) -> RelayView {
        let stage = |stage: Stage| self.groups.iter().filter(|it| it.stage == stage).count();
        let in_layer = |layer: Layer| self.groups.iter().filter(move |it| it.layer == layer);
        let session = self.session();
        RelayView {
            relay: self.url.clone(),
            connected: session.is_some(),
            connecting: matches!(self.link, Link::Dialling { .. }),
            bootstrap: self.bootstrap,
            health: self.health,
            account: self.account_at(now),
            budget: self.budget,
            repositories: self.repos.len(),
            roots: in_layer(Layer::Roots).map(|group| group.members.len()).sum(),
            missing: stage(Stage::Missing),
            pending: stage(Stage::Pending),
            confirmed: stage(Stage::Confirmed),
            live_subscriptions: session.map_or(0, |session| session.live.len()),
            open_questions: session.map_or(0, |session| session.asked.len()),
            in_rotation: match session {
                Some(_) => {
                    let deaf = |group: &&Group| !group.is_listening() && !group.shelved;
                    self.groups.iter().filter(deaf).count()
                }
                None => 0,
            },
            repositories_in_rotation: self.repos_in_rotation().count(),
            batches: session.map(batches).unwrap_or_default(),
            negentropy: session.is_some_and(|session| session.negentropy == Negentropy::Yes),
            last_alive: self.alive_at(now),
            daily_at: self.daily_at,
            daily_last: self.daily_last,
            daily_running: self.daily_run.is_some(),
            last_failure: self.last_failure,
            comparison_failure: self.fallback.clone(),
            full_seconds: self.full_seconds,
            shares_address_with: 0,
            settled: self.is_settled(now),
            no_room: self.groups.iter().any(|group| group.crowded_until.is_some()),
            waits: self.waits(now),
        }
    }

    fn is_settled(&self, now: Time) -> bool {
        let Some(session) = self.session() else { return false };
        let is_crowded = |group: &Group| group.crowded_until.is_some();
        let is_asked = |group: &Group| group.stage == Stage::Confirmed || is_crowded(group);
        let is_due =
            |group: &Group| !is_crowded(group) && group.recheck.is_some_and(|at| at <= now);
        // What the relay refused for good is not waited for.
        let mut groups = self.groups.iter().filter(|group| !group.shelved);
        groups.all(|group| is_asked(group) && !is_due(group))
            && session.checks_under_way().next().is_none()
    }

    fn waits(&self, now: Time) -> Option<Wait> {
        if self.ourselves {
            return Some(Wait::Ourselves);
        }
        let next_try = self.next_try();
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

fn batches(session: &Session) -> Vec<BatchView> {
    let shown = session.batches.iter().take(BATCHES_SHOWN_MAX);
    let view = |(id, batch): (&u64, &Batch)| BatchView {
        id: *id,
        groups: batch.groups.len(),
        outstanding: batch.outstanding,
        compares: batch.method == Method::Negentropy,
        since: batch.started,
    };
    shown.map(view).collect()
}

impl fmt::Display for NotFollowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host => write!(
                f,
                "{RELAYS_PER_HOST_MAX} addresses of its host and port are followed already"
            ),
            Self::Announcement => {
                f.write_str("the announcement lists more relays than are followed of one")
            }
            Self::Table => f.write_str("as many relays are followed as may be"),
        }
    }
}

/// One line for a person.
impl fmt::Display for RelayView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let link = match (self.connected, self.connecting) {
            (true, _) => "connected",
            (false, true) => "connecting",
            (false, false) => "not connected",
        };
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
        if self.shares_address_with > 0 {
            let others = self.shares_address_with;
            write!(f, "; takes turns with {others} other relays at its network address")?;
        }
        match &self.waits {
            None => Ok(()),
            Some(Wait::Ourselves) => write!(f, "; this very server under another name"),
            Some(Wait::NotFollowed { why }) => write!(f, "; not followed: {why}"),
            Some(Wait::Place) => write!(f, "; waits for a free place"),
            Some(Wait::Address) => write!(f, "; waits for its turn"),
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

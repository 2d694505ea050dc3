//! Links come and go (S-12 to S-16): what a new one starts with, what a lost one leaves behind, and
//! when a relay is forgotten.

use crate::chance::next_random;
use crate::engine::Engine;
use crate::pace::Pace;
use crate::relay::{Link, Relay, millis};
use crate::session::Session;
use crate::timers::{Alarm, Concern};
use crate::vocabulary::{Action, Loss, News, Peer};
use crate::{Health, Record};
use grasp_core::{RelayUrl, Time};
use std::time::Duration;

/// How often what is known of a linked relay is written down.
pub(crate) const REMEMBER_EVERY: Duration = Duration::from_secs(60);

impl Engine {
    pub(crate) fn recalled(&mut self, relay: &RelayUrl, record: &Record, now: Time) {
        let (settings, wall) = (self.settings.clone(), self.wall.offset);
        let Some(number) = self.number_for(relay, settings.relays_max, now) else { return };
        let Some(relay) = self.relay_mut(number) else { return };
        let record = record.clone().with_times(|at| wall.to_steady(at));
        // Moments that are too far away were written by a clock that was wrong.
        let (health, until) = (record.health.clamped(now, &settings), |at: Option<Time>, max| {
            at.unwrap_or(Time(0)).min(now.plus(max))
        });
        relay.health = health;
        relay.last_alive = record.last_alive.filter(|at| *at <= now);
        relay.confirmed_through = record.confirmed_through;
        relay.daily_at = record.daily_at.map(|at| at.min(now.plus(settings.daily_max)));
        relay.brake.paused_until = until(record.paused_until, settings.pause);
        relay.brake.cooling_until = until(record.cooling_until, settings.cooldown_max);
        relay.daily_last = record.daily_last;
        relay.last_failure = record.last_failure.filter(|at| *at <= now);
        relay.learned = record.learned;
        relay.negentropy = record.negentropy.clamped(now);
        relay.budget = record.budget.clamped(now);
        relay.owed = record.owed.iter().map(|id| (*id, 1)).collect();
        relay.account = record.account;
        relay.verified = record.verified.unwrap_or_default().min(now);
        relay.recheck = record.recheck;
        let place = relay.place.clone();
        self.hosts.recall(&place, health);
    }

    pub(crate) fn connected(&mut self, url: &RelayUrl, peer: Peer, now: Time) {
        let Some(number) = self.numbers.get(url).copied() else { return };
        let per_second = match peer.grasp {
            true => self.settings.pace_grasp_per_second.max(self.settings.pace_per_second),
            false => self.settings.pace_per_second,
        };
        let (usual, burst) = (self.settings.pace_per_second, self.settings.pace_burst);
        let day = self.daily_moment(now);
        let Some(relay) = self.relay(number) else { return };
        let Link::Dialling { patient } = relay.link else { return };
        let place = relay.place.clone();
        self.dialling.ended(patient);
        self.hosts.may_be_dialled(&place, now);
        self.consider_host(&place, now);
        self.with(number, now, |relay, around| {
            relay.link = Link::Up(Box::new(Session::new(peer, now)));
            relay
                .pace
                .get_or_insert_with(|| Pace::new(usual, burst, now))
                .set_rate(per_second, now);
            relay.made_way = None;
            relay.start_comparing(around);
            let (settings, wanted) = (around.settings, around.wanted);
            let alive = relay.last_alive;
            let quick = alive.is_some_and(|alive| now.since(alive) < settings.resume_within);
            if let (false, Some(alive)) = (quick, alive) {
                let (relay, away) = (relay.url.clone(), now.since(alive));
                around.act(Action::Tell(News::Stale { relay, away }));
            }
            match (quick, alive) {
                // A short absence: what was confirmed stays so (S-13).
                (true, Some(alive)) if relay.groups.is_empty() => {
                    relay.rebuild(Some((relay.confirmed_through, alive)), wanted, settings);
                }
                (true, _) => {
                    relay.drop_unwanted(wanted);
                    relay.split_large(wanted, settings);
                    relay.group_staged(wanted, settings);
                }
                // As good as the daily one.
                (false, _) => {
                    relay.rebuild(None, wanted, settings);
                    relay.daily_at = None;
                    relay.daily_run = None;
                }
            }
            let daily_at = *relay.daily_at.get_or_insert(day);
            around.timers.set(relay.alarm(Concern::Daily), daily_at.max(now));
            around.timers.set(relay.alarm(Concern::Stable), now.plus(settings.stable_after));
            around.timers.set(relay.alarm(Concern::LinkTurn), now.plus(settings.link_turn));
            around.timers.set(relay.alarm(Concern::Remember), now.plus(REMEMBER_EVERY));
            around.timers.clear(relay.alarm(Concern::DialPatience));
            relay.renew_first_layer(around);
            relay.verify_soon(around);
            around.act(Action::Tell(News::Connected { relay: relay.url.clone() }));
            relay.hear_all(around);
            relay.ask_for_owed(around);
            let braked = relay.brake.history_until();
            if braked > now {
                around.timers.at_latest(relay.alarm(Concern::Ask), braked);
            }
        });
        self.remember(number);
        self.dial(now);
        self.pump(number, now);
    }

    pub(crate) fn lost(&mut self, url: &RelayUrl, why: &Loss, now: Time) {
        let Some(number) = self.numbers.get(url).copied() else { return };
        let Some(relay) = self.relay(number) else { return };
        if matches!(relay.link, Link::Down) {
            return;
        }
        if let Loss::AddressFull(address) = why {
            self.addresses.set(number, *address);
            self.addresses.note_full(number, now);
        }
        self.unlink(number, now);
        let settings = self.settings.clone();
        let Some(relay) = self.relay_mut(number) else { return };
        let was_dead = relay.health.is_dead();
        match why {
            Loss::HungUp => {}
            Loss::Crowded | Loss::AddressFull(_) => {
                if *why == Loss::Crowded {
                    relay.not_before = now.plus(settings.cleanup_every);
                }
                // No connection was made, so this dial says nothing about the host.
                let place = relay.place.clone();
                self.hosts.may_be_dialled(&place, now);
                self.consider_host(&place, now);
            }
            Loss::Ourselves => relay.ourselves = true,
            Loss::Forbidden(_) => {
                relay.health = Health::Banned { until: now.plus(settings.banned_for) }
            }
            Loss::Misbehaved(_) => {
                relay.health = Health::Banned { until: now.plus(settings.pause) }
            }
            Loss::Failed(_) | Loss::TooSlow => {
                relay.health = relay.health.after_failure(now, &settings);
                let place = relay.place.clone();
                self.hosts.failed(&place, now, &settings);
                self.consider_host(&place, now);
            }
        }
        let Some(relay) = self.relay_mut(number) else { return };
        let told = match why {
            Loss::Failed(text) => Some(text.as_str()),
            Loss::TooSlow => Some("it did not answer in time"),
            Loss::Forbidden(text) | Loss::Misbehaved(text) => Some(text.as_str()),
            Loss::Ourselves => Some("it is this very server under another name"),
            Loss::Crowded | Loss::AddressFull(_) | Loss::HungUp => None,
        };
        if let Some(text) = told {
            relay.account.failures += 1;
            relay.last_failure = Some(now);
            let (failures, next_try) = (relay.health.failures(), relay.next_try());
            let failed_for = relay.health.failed_for(now);
            let (relay, why) = (relay.url.clone(), text.to_owned());
            let dead = self.relay(number).is_some_and(|relay| relay.health.is_dead());
            let news = match dead && !was_dead {
                true => News::Dead { relay, failed_for, next_try },
                false => News::Failed { relay, why, failures, next_try },
            };
            self.actions.push_back(Action::Tell(news));
        }
        self.remember(number);
        self.consider(number, now);
        self.dial(now);
        self.with(number, now, |relay, around| relay.verify_soon(around));
    }

    /// Ends the link on our side, whatever its state.
    pub(crate) fn unlink(&mut self, number: u32, now: Time) {
        let Some(relay) = self.relay_mut(number) else { return };
        match relay.link {
            Link::Down => return,
            Link::Dialling { patient } => {
                relay.link = Link::Down;
                self.dialling.ended(patient);
                self.dialling.unlinked();
            }
            Link::Up(_) => {
                relay.end_session(now);
                self.dialling.unlinked();
            }
        }
        for concern in [
            Concern::DialPatience,
            Concern::Stable,
            Concern::Daily,
            Concern::Ask,
            Concern::Rotate,
            Concern::Missing,
            Concern::Room,
            Concern::Budget,
            Concern::LinkTurn,
            Concern::Remember,
        ] {
            self.timers.clear(Alarm::Relay(number, concern));
        }
        self.addresses.unlink(number);
        self.release_address(number, now);
        self.give_turn_back(number);
        self.serve_waiting(now);
    }

    /// The link has held: whatever was wrong is over.
    pub(crate) fn stable(&mut self, number: u32) {
        let Some(relay) = self.relay_mut(number) else { return };
        let place = relay.place.clone();
        self.hosts.recovered(&place);
        let Some(relay) = self.relay_mut(number) else { return };
        if relay.health != Health::Healthy {
            relay.health = Health::Healthy;
            let relay = relay.url.clone();
            self.actions.push_back(Action::Tell(News::Recovered { relay }));
        }
        self.remember(number);
    }

    /// A random moment a day from now, so that relays spread over time.
    pub(crate) fn daily_moment(&mut self, now: Time) -> Time {
        let (min, max) = (self.settings.daily_min, self.settings.daily_max);
        let spread = millis(max.saturating_sub(min)).max(1);
        now.plus(min).plus(Duration::from_millis(self.random() % spread))
    }

    pub(crate) fn random(&mut self) -> u64 {
        next_random(&mut self.chance)
    }

    /// Relays nobody wants are hung up and forgotten (S-16); a bad reputation lasts a while longer.
    pub(crate) fn clean_up(&mut self, now: Time) {
        self.timers.set(Alarm::Cleanup, now.plus(self.settings.cleanup_every));
        let unwanted = |relay: &&Relay| relay.repos.is_empty() && !relay.bootstrap;
        let unwanted: Vec<u32> =
            self.relays.iter().flatten().filter(unwanted).map(|relay| relay.number).collect();
        for number in unwanted {
            let Some(relay) = self.relay(number) else { continue };
            let (url, linked) = (relay.url.clone(), !matches!(relay.link, Link::Down));
            let reputation = relay.health.next_try().plus(self.settings.dead_retry);
            let worth_keeping = (relay.health != Health::Healthy && reputation > now)
                || relay.brake.all_until() > now;
            if linked {
                self.unlink(number, now);
                self.actions.push_back(Action::Hangup(url.clone()));
                let relay = url.clone();
                self.actions.push_back(Action::Tell(News::Unwanted { relay }));
            }
            self.remove_from_dialling(number);
            if worth_keeping {
                continue;
            }
            self.timers.clear_relay(number);
            self.hosts.remove(&url.place(), number);
            self.addresses.remove(number);
            if let Some(slot) = self.relays.get_mut(number as usize) {
                *slot = None;
            }
            self.numbers.remove(&url);
            self.free.push(number);
            self.actions.push_back(Action::Forget(url));
        }
        self.release_addresses(now);
        self.dial(now);
    }
}

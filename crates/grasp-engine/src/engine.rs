//! The engine itself: hears, decides, says what to do. Every input changes what is wanted, pending
//! or confirmed on some relay; then that relay's share of `wanted - pending - confirmed` is asked
//! for. The cost of an input grows with what it changed, never with all that is known.

use crate::clock::WallClock;
use crate::dial::Dialling;
use crate::links::REMEMBER_EVERY;
use crate::relay::{Around, Relay};
use crate::relay_addresses::RelayAddresses;
use crate::relay_hosts::RelayHosts;
use crate::timers::{Alarm, Concern, Timers};
use crate::turns::Turns;
use crate::vocabulary::{Action, Input, Purpose};
use crate::wanted::Wanted;
use crate::{Record, Settings};
use grasp_core::{RelayUrl, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Debug)]
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) chance: u64,
    pub(crate) wanted: Wanted,
    pub(crate) relays: Vec<Option<Relay>>,
    pub(crate) wall: WallClock,
    pub(crate) numbers: BTreeMap<RelayUrl, u32>,
    pub(crate) free: Vec<u32>,
    pub(crate) timers: Timers,
    pub(crate) actions: VecDeque<Action>,
    pub(crate) next_sub: u64,
    pub(crate) last_serial: u64,
    pub(crate) replayed: bool,
    /// Relays of which something new is wanted since the last plan.
    pub(crate) touched: BTreeSet<u32>,
    pub(crate) dialling: Dialling,
    pub(crate) hosts: RelayHosts,
    pub(crate) addresses: RelayAddresses,
    pub(crate) turns: Turns,
}

impl Engine {
    /// `seed` decides every random choice.
    pub fn new(settings: Settings, seed: u64) -> Self {
        let turns = Turns::new(settings.turns_max);
        Self {
            settings,
            chance: seed,
            wanted: Wanted::default(),
            relays: Vec::new(),
            wall: WallClock::default(),
            numbers: BTreeMap::new(),
            free: Vec::new(),
            timers: Timers::default(),
            actions: VecDeque::new(),
            next_sub: 0,
            last_serial: 0,
            replayed: false,
            touched: BTreeSet::new(),
            dialling: Dialling::default(),
            hosts: RelayHosts::default(),
            addresses: RelayAddresses::default(),
            turns,
        }
    }

    /// The operator's own choice: never hung up, wanted or not.
    #[must_use]
    pub fn with_bootstrap(mut self, relay: &RelayUrl, now: Time) -> Self {
        if let Some(number) = self.number_for(relay, usize::MAX, now)
            && let Some(relay) = self.relay_mut(number)
        {
            relay.bootstrap = true;
        }
        self
    }

    /// Something happened.
    pub fn handle(&mut self, input: Input, now: Time) {
        match input {
            Input::Announced { repo, relays, level, serial } => {
                self.announced(&repo, &relays, level, serial, now);
            }
            Input::Withdrawn(repo) => self.withdrawn(&repo, now),
            Input::Root { id, repos, serial } => self.root(id, &repos, serial, now),
            Input::Recalled { relay, record } => self.recalled(&relay, &record, now),
            Input::Replayed => self.replayed(now),
            Input::Connected { relay, peer, address } => {
                self.note_dialled_address(&relay, address);
                self.connected(&relay, peer, now);
            }
            Input::Lost { relay, why } => self.lost(&relay, &why, now),
            Input::Listening { relay, sub, page } => {
                let Some(number) = self.numbers.get(&relay).copied() else { return };
                self.with(number, now, |relay, around| relay.handle_listening(sub, &page, around));
                self.pump(number, now);
            }
            Input::Ended { relay, sub, end } => self.ended(&relay, sub, end, now),
            Input::NoRoom { relay, sub, id } => {
                let Some(number) = self.numbers.get(&relay).copied() else { return };
                self.with(number, now, |relay, around| relay.handle_no_room(sub, id, around));
            }
            Input::Judged { relay, judged } => self.judged(&relay, &judged, now),
            Input::WallClock(offset) => self.set_wall_clock(offset, now),
            Input::Notice { relay, text } => self.notice(&relay, &text, now),
            Input::Authenticated { relay, ok } => self.authenticated(&relay, ok, now),
            Input::Refresh { relay, repo } => self.refresh(relay.as_ref(), repo.as_ref(), now),
        }
    }

    /// You asked to be woken.
    pub fn handle_deadline(&mut self, now: Time) {
        while let Some(alarm) = self.timers.rung(now) {
            match alarm {
                Alarm::Window => self.plan(now),
                Alarm::Cleanup => self.clean_up(now),
                Alarm::Dial => self.dial(now),
                Alarm::ClockStep => self.compare_after_step(now),
                Alarm::Relay(number, concern) => self.rung(number, concern, now),
            }
        }
    }

    /// Do this.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Wake me then, because.
    pub fn next_deadline(&self) -> Option<(Time, &'static str)> {
        self.timers.next().map(|(at, alarm)| (at, alarm.name()))
    }

    /// What should outlive a restart about this relay, in wall time.
    pub fn record(&self, relay: &RelayUrl, now: Time) -> Option<Record> {
        let relay = self.relay(*self.numbers.get(relay)?)?;
        let record = relay.record(&self.wanted, self.last_serial, now);
        Some(record.with_times(|at| self.wall.offset.to_wall(at)))
    }

    pub(crate) fn rung(&mut self, number: u32, concern: Concern, now: Time) {
        match concern {
            Concern::Retry => {
                self.consider(number, now);
                self.dial(now);
            }
            Concern::DialPatience => self.lose_patience(number, now),
            Concern::Stable => self.stable(number),
            Concern::Daily => self.sync_anew(number, Purpose::Daily, now),
            Concern::Ask => {
                self.with(number, now, |relay, around| {
                    relay.repack_if_wanted(around);
                    relay.hear_all(around);
                });
                self.pump(number, now);
            }
            Concern::Rotate => {
                self.with(number, now, |relay, around| {
                    relay.rotate(around);
                    relay.schedule_rotation(around);
                });
                self.pump(number, now);
            }
            Concern::Missing => {
                self.with(number, now, |relay, around| relay.ask_for_owed(around));
                self.pump(number, now);
            }
            Concern::Room => {
                self.with(number, now, |relay, around| relay.ask_for_crowded(around));
                self.pump(number, now);
            }
            Concern::Budget => self.renew_budget(number, now),
            Concern::Verify => self.verify(number, now),
            Concern::LinkTurn => self.link_turn(number, now),
            Concern::HistoryTurn => self.turn_over(number, now),
            Concern::Remember => {
                self.remember(number);
                let up = self.relay(number).is_some_and(|relay| relay.session().is_some());
                if up {
                    let again = now.plus(REMEMBER_EVERY);
                    self.timers.set(Alarm::Relay(number, Concern::Remember), again);
                }
            }
        }
    }

    pub(crate) fn relay(&self, number: u32) -> Option<&Relay> {
        self.relays.get(number as usize)?.as_ref()
    }

    pub(crate) fn relay_mut(&mut self, number: u32) -> Option<&mut Relay> {
        self.relays.get_mut(number as usize)?.as_mut()
    }

    /// The number of a relay, known or new; `None` when no more can be followed.
    pub(crate) fn number_for(&mut self, url: &RelayUrl, places: usize, now: Time) -> Option<u32> {
        if let Some(number) = self.numbers.get(url) {
            return Some(*number);
        }
        if self.numbers.len() >= places {
            return None;
        }
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                self.relays.push(None);
                u32::try_from(self.relays.len() - 1).ok()?
            }
        };
        let relay = Relay::new(number, url.clone(), now);
        self.hosts.insert(&relay.place, number);
        *self.relays.get_mut(number as usize)? = Some(relay);
        self.numbers.insert(url.clone(), number);
        Some(number)
    }

    pub(crate) fn with<T>(
        &mut self,
        number: u32,
        now: Time,
        act: impl FnOnce(&mut Relay, &mut Around<'_>) -> T,
    ) -> Option<T> {
        let relay = self.relays.get_mut(number as usize)?.as_mut()?;
        let mut around = Around {
            wanted: &self.wanted,
            settings: &self.settings,
            actions: &mut self.actions,
            timers: &mut self.timers,
            next_sub: &mut self.next_sub,
            chance: &mut self.chance,
            wall: self.wall.offset,
            now,
        };
        Some(act(relay, &mut around))
    }

    pub(crate) fn remember(&mut self, number: u32) {
        if let Some(relay) = self.relay(number) {
            let url = relay.url.clone();
            self.actions.push_back(Action::Remember(url));
        }
    }
}

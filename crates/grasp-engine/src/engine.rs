//! The engine itself: hears, decides, says what to do. Every input changes what is wanted, pending
//! or confirmed on some relay; then that relay's share of `wanted - pending - confirmed` is asked
//! for. The cost of an input grows with what it changed, never with all that is known.

use crate::dial::Dialling;
use crate::groups::{Item, Layer};
use crate::history::Start;
use crate::pace::Pace;
use crate::refusal::{Refusal, denies_negentropy};
use crate::relay::{Around, Auth, Link, Relay, Session, millis};
use crate::timers::{Alarm, Concern, Timers};
use crate::turns::Turns;
use crate::vocabulary::{Action, End, Input, Level, Loss, News, Peer, Purpose, Sub};
use crate::wanted::Wanted;
use crate::{Health, Record, Settings};
use grasp_core::{EventId, RelayUrl, RepoId, Time};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

#[derive(Debug)]
pub struct Engine {
    pub(crate) settings: Settings,
    pub(crate) chance: u64,
    pub(crate) wanted: Wanted,
    pub(crate) relays: Vec<Option<Relay>>,
    pub(crate) numbers: BTreeMap<RelayUrl, u32>,
    pub(crate) free: Vec<u32>,
    pub(crate) timers: Timers,
    pub(crate) actions: VecDeque<Action>,
    next_sub: u64,
    last_serial: u64,
    replayed: bool,
    /// Relays of which something new is wanted since the last plan.
    touched: BTreeSet<u32>,
    pub(crate) dialling: Dialling,
    pub(crate) turns: Turns,
}

/// How often what is known of a linked relay is written down.
const REMEMBER_EVERY: Duration = Duration::from_secs(60);

impl Engine {
    /// `seed` decides every random choice.
    pub fn new(settings: Settings, seed: u64) -> Self {
        let turns = Turns::new(settings.turns_max);
        Self {
            settings,
            chance: seed,
            wanted: Wanted::default(),
            relays: Vec::new(),
            numbers: BTreeMap::new(),
            free: Vec::new(),
            timers: Timers::default(),
            actions: VecDeque::new(),
            next_sub: 0,
            last_serial: 0,
            replayed: false,
            touched: BTreeSet::new(),
            dialling: Dialling::default(),
            turns,
        }
    }

    /// The operator's own choice: never hung up, wanted or not.
    #[must_use]
    pub fn with_bootstrap(mut self, relay: &RelayUrl, now: Time) -> Self {
        if let Some(number) = self.number_for(relay, now)
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
            Input::Connected { relay, peer } => self.connected(&relay, peer, now),
            Input::Lost { relay, why } => self.lost(&relay, &why, now),
            Input::Listening { relay, sub, page } => {
                let Some(number) = self.numbers.get(&relay).copied() else { return };
                self.with(number, now, |relay, around| relay.handle_listening(sub, &page, around));
                self.pump(number, now);
            }
            Input::Ended { relay, sub, end } => self.ended(&relay, sub, end, now),
            Input::Notice { relay, text } => self.notice(&relay, &text, now),
            Input::Authenticated { relay, ok } => self.authenticated(&relay, ok, now),
        }
    }

    /// You asked to be woken.
    pub fn handle_deadline(&mut self, now: Time) {
        while let Some(alarm) = self.timers.rung(now) {
            match alarm {
                Alarm::Window => self.plan(now),
                Alarm::Cleanup => self.clean_up(now),
                Alarm::Dial => self.dial(now),
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

    /// What should outlive a restart about this relay.
    pub fn record(&self, relay: &RelayUrl, now: Time) -> Option<Record> {
        let relay = self.relay(*self.numbers.get(relay)?)?;
        Some(relay.record(&self.wanted, self.last_serial, now))
    }

    fn rung(&mut self, number: u32, concern: Concern, now: Time) {
        match concern {
            Concern::Retry => {
                self.consider(number, now);
                self.dial(now);
            }
            Concern::DialPatience => self.lose_patience(number, now),
            Concern::Stable => self.stable(number),
            Concern::Daily => self.daily(number, now),
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

    // ---- what we want

    fn announced(
        &mut self,
        repo: &RepoId,
        relays: &[RelayUrl],
        level: Level,
        serial: u64,
        now: Time,
    ) {
        self.last_serial = self.last_serial.max(serial);
        let number = self.wanted.number_for(repo);
        let mut listed: Vec<u32> = Vec::new();
        for url in relays.iter().take(self.settings.relays_per_announcement_max) {
            match self.number_for(url, now) {
                Some(relay) if !listed.contains(&relay) => listed.push(relay),
                Some(_) => {}
                None => {
                    let relay = url.clone();
                    self.actions.push_back(Action::Tell(News::TooManyRelays { relay }));
                }
            }
        }
        let Some(known) = self.wanted.repo_mut(number) else { return };
        let before = std::mem::replace(&mut known.relays, listed.clone());
        let level_before = known.level.replace(level);
        known.serial = serial;
        let roots = known.roots.clone();
        for gone in before.iter().filter(|relay| !listed.contains(relay)) {
            self.unwant(*gone, number, level_before, &roots);
            self.consider(*gone, now);
        }
        for relay in listed {
            let new = !before.contains(&relay) || level_before.is_none();
            self.want(relay, number, level, level_before.filter(|_| !new));
            if new || level_before != Some(level) {
                self.stage(relay, Item::repo(number, level), now);
                if level == Level::Full {
                    for root in &roots {
                        self.stage(relay, Item::root(*root), now);
                    }
                }
            }
        }
    }

    fn withdrawn(&mut self, repo: &RepoId, now: Time) {
        let Some(number) = self.wanted.number_of(repo) else { return };
        let Some(known) = self.wanted.repo_mut(number) else { return };
        let (relays, level) = (std::mem::take(&mut known.relays), known.level.take());
        let roots = known.roots.clone();
        for relay in relays {
            self.unwant(relay, number, level, &roots);
            self.consider(relay, now);
        }
    }

    fn root(&mut self, id: EventId, repos: &[RepoId], serial: u64, now: Time) {
        self.last_serial = self.last_serial.max(serial);
        // Also of repositories nobody announced yet: a replaced announcement comes after its roots.
        let known: Vec<u32> = repos.iter().map(|repo| self.wanted.number_for(repo)).collect();
        let (root, new) = self.wanted.add_root(id, &known, serial);
        for repo in new {
            let Some(repo) = self.wanted.repo(repo) else { continue };
            if repo.level != Some(Level::Full) {
                continue;
            }
            for relay in repo.relays.clone() {
                self.stage(relay, Item::root(root), now);
            }
        }
    }

    fn want(&mut self, relay: u32, repo: u32, level: Level, before: Option<Level>) {
        let Some(relay) = self.relay_mut(relay) else { return };
        relay.repos.insert(repo);
        match (before, level) {
            (Some(Level::Full), Level::StateOnly) => relay.served -= 1,
            (None | Some(Level::StateOnly), Level::Full) => {
                relay.served += 1;
                // It may have been made to wait because only held announcements named it.
                relay.not_before = Time(0);
            }
            _ => {}
        }
    }

    /// If it is wanted again, it is asked for again: what came meanwhile was refused.
    fn unwant(&mut self, number: u32, repo: u32, level: Option<Level>, roots: &[u32]) {
        let Some(relay) = self.relays.get_mut(number as usize).and_then(Option::as_mut) else {
            return;
        };
        if relay.repos.remove(&repo) && level == Some(Level::Full) {
            relay.served = relay.served.saturating_sub(1);
        }
        relay.members.remove(Layer::Waiting, repo);
        relay.members.remove(Layer::Repos, repo);
        for root in roots {
            if !self.wanted.wants_root_on(*root, number) {
                relay.members.remove(Layer::Roots, *root);
            }
        }
    }

    /// The first want opens the window; later ones do not extend it (S-6).
    fn stage(&mut self, relay: u32, item: Item, now: Time) {
        if let Some(relay) = self.relay_mut(relay) {
            relay.staged.push(item);
        }
        self.touched.insert(relay);
        if self.replayed && !self.timers.is_set(Alarm::Window) {
            self.timers.set(Alarm::Window, now.plus(self.settings.window));
        }
    }

    fn replayed(&mut self, now: Time) {
        self.replayed = true;
        self.timers.set(Alarm::Cleanup, now.plus(self.settings.cleanup_every));
        let known: Vec<u32> = self.numbers.values().copied().collect();
        self.touched.extend(known);
        self.plan(now);
    }

    /// The one decision point (S-4): each relay's share of what is wanted and neither pending nor
    /// confirmed. Relays that are not linked get theirs when they are.
    fn plan(&mut self, now: Time) {
        self.timers.clear(Alarm::Window);
        for number in std::mem::take(&mut self.touched) {
            self.with(number, now, |relay, around| {
                let new = relay.group_staged(around.wanted, around.settings);
                if relay.session().is_some() {
                    relay.hear_new(&new, around);
                }
            });
            self.consider(number, now);
            self.pump(number, now);
        }
        self.dial(now);
    }

    // ---- links

    fn recalled(&mut self, relay: &RelayUrl, record: &Record, now: Time) {
        let Some(number) = self.number_for(relay, now) else { return };
        let Some(relay) = self.relay_mut(number) else { return };
        relay.health = record.health;
        relay.last_alive = record.last_alive;
        relay.confirmed_through = record.confirmed_through;
        relay.daily_at = record.daily_at;
        relay.brake.paused_until = record.paused_until.unwrap_or(Time(0));
        relay.brake.cooling_until = record.cooling_until.unwrap_or(Time(0));
        relay.learned = record.learned;
        relay.owed = record.owed.iter().map(|id| (*id, 1)).collect();
        relay.account = record.account;
    }

    fn connected(&mut self, url: &RelayUrl, peer: Peer, now: Time) {
        let Some(number) = self.numbers.get(url).copied() else { return };
        let per_second = match peer.grasp {
            true => self.settings.pace_grasp_per_second.max(self.settings.pace_per_second),
            false => self.settings.pace_per_second,
        };
        let burst = self.settings.pace_burst;
        let day = self.daily_moment(now);
        let Some(relay) = self.relay(number) else { return };
        let Link::Dialling { patient } = relay.link else { return };
        self.dialling.ended(patient);
        self.with(number, now, |relay, around| {
            relay.link = Link::Up(Box::new(Session::new(peer, now)));
            relay
                .pace
                .get_or_insert_with(|| Pace::new(per_second, burst, now))
                .set_rate(per_second);
            relay.made_way = None;
            let (settings, wanted) = (around.settings, around.wanted);
            // A moment that has not come yet was written by a clock that was wrong.
            let alive = relay.last_alive.filter(|alive| *alive <= now);
            let quick = alive.is_some_and(|alive| now.since(alive) < settings.resume_within);
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
                }
            }
            let daily_at = *relay.daily_at.get_or_insert(day);
            around.timers.set(relay.alarm(Concern::Daily), daily_at.max(now));
            around.timers.set(relay.alarm(Concern::Stable), now.plus(settings.stable_after));
            around.timers.set(relay.alarm(Concern::LinkTurn), now.plus(settings.link_turn));
            around.timers.set(relay.alarm(Concern::Remember), now.plus(REMEMBER_EVERY));
            around.timers.clear(relay.alarm(Concern::DialPatience));
            around.act(Action::Tell(News::Connected { relay: relay.url.clone() }));
            relay.hear_all(around);
            relay.ask_for_owed(around);
            let braked = relay.brake.history_until();
            if braked > now {
                around.timers.set(relay.alarm(Concern::Ask), braked);
            }
        });
        self.remember(number);
        self.dial(now);
        self.pump(number, now);
    }

    fn lost(&mut self, url: &RelayUrl, why: &Loss, now: Time) {
        let Some(number) = self.numbers.get(url).copied() else { return };
        let Some(relay) = self.relay(number) else { return };
        if matches!(relay.link, Link::Down) {
            return;
        }
        self.unlink(number, now);
        let settings = self.settings.clone();
        let Some(relay) = self.relay_mut(number) else { return };
        let was_dead = relay.health.is_dead();
        match why {
            Loss::HungUp => {}
            Loss::Crowded => relay.not_before = now.plus(settings.cleanup_every),
            Loss::Ourselves => relay.ourselves = true,
            Loss::Forbidden(_) => {
                relay.health = Health::Banned { until: now.plus(settings.banned_for) }
            }
            Loss::Misbehaved(_) => {
                relay.health = Health::Banned { until: now.plus(settings.pause) }
            }
            Loss::Failed(_) | Loss::TooSlow => {
                relay.health = relay.health.after_failure(now, &settings);
            }
        }
        let told = match why {
            Loss::Failed(text) => Some(text.as_str()),
            Loss::TooSlow => Some("it did not answer in time"),
            Loss::Forbidden(text) | Loss::Misbehaved(text) => Some(text.as_str()),
            Loss::Ourselves => Some("it is this very server under another name"),
            Loss::Crowded | Loss::HungUp => None,
        };
        if let Some(text) = told {
            relay.account.failures += 1;
            let (failures, next_try) = (relay.health.failures(), relay.health.next_try());
            let (relay, why) = (relay.url.clone(), text.to_owned());
            let dead = self.relay(number).is_some_and(|relay| relay.health.is_dead());
            let news = match dead && !was_dead {
                true => News::Dead { relay, next_try },
                false => News::Failed { relay, why, failures, next_try },
            };
            self.actions.push_back(Action::Tell(news));
        }
        self.remember(number);
        self.consider(number, now);
        self.dial(now);
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
            Concern::LinkTurn,
            Concern::Remember,
        ] {
            self.timers.clear(Alarm::Relay(number, concern));
        }
        self.give_turn_back(number);
    }

    /// The link has held: whatever was wrong is over.
    fn stable(&mut self, number: u32) {
        let Some(relay) = self.relay_mut(number) else { return };
        if relay.health != Health::Healthy {
            relay.health = Health::Healthy;
            let relay = relay.url.clone();
            self.actions.push_back(Action::Tell(News::Recovered { relay }));
        }
        self.remember(number);
    }

    fn daily(&mut self, number: u32, now: Time) {
        let next = self.daily_moment(now);
        self.with(number, now, |relay, around| {
            relay.daily_at = Some(next);
            around.timers.set(relay.alarm(Concern::Daily), next);
            relay.forget_confirmed(Purpose::Daily);
        });
        self.remember(number);
        self.pump(number, now);
    }

    /// A random moment a day from now, so that relays spread over time.
    fn daily_moment(&mut self, now: Time) -> Time {
        let (min, max) = (self.settings.daily_min, self.settings.daily_max);
        let spread = millis(max.saturating_sub(min)).max(1);
        now.plus(min).plus(Duration::from_millis(self.random() % spread))
    }

    /// SplitMix64.
    fn random(&mut self) -> u64 {
        self.chance = self.chance.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.chance;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Relays nobody wants are hung up and forgotten (S-16); a bad reputation lasts a while longer.
    fn clean_up(&mut self, now: Time) {
        self.timers.set(Alarm::Cleanup, now.plus(self.settings.cleanup_every));
        let unwanted = |relay: &&Relay| !relay.is_wanted() && !relay.ourselves;
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
            }
            self.remove_from_dialling(number);
            if worth_keeping {
                continue;
            }
            self.timers.clear_relay(number);
            if let Some(slot) = self.relays.get_mut(number as usize) {
                *slot = None;
            }
            self.numbers.remove(&url);
            self.free.push(number);
            self.actions.push_back(Action::Forget(url));
        }
        self.dial(now);
    }

    // ---- conversations

    fn ended(&mut self, url: &RelayUrl, sub: Sub, end: End, now: Time) {
        let Some(number) = self.numbers.get(url).copied() else { return };
        self.with(number, now, |relay, around| {
            let is_live = relay.session().is_some_and(|session| session.live.contains_key(&sub));
            if is_live {
                return relay.live_ended(sub, &end, around);
            }
            let Some(work) = relay.end_asked(sub) else { return };
            relay.question_ended(work, end, around);
            let squeezed = relay.session_mut().map(|it| std::mem::take(&mut it.squeezed));
            if squeezed == Some(true) {
                relay.hear_all(around);
            }
        });
        self.progressed(number, now);
        self.pump(number, now);
    }

    fn notice(&mut self, url: &RelayUrl, text: &str, now: Time) {
        let Some(number) = self.numbers.get(url).copied() else { return };
        self.with(number, now, |relay, around| {
            if denies_negentropy(text) {
                relay.comparisons_denied(around);
            } else if Refusal::of(text) == Refusal::RateLimit {
                relay.slow_down(around);
            }
        });
        self.pump(number, now);
    }

    fn authenticated(&mut self, url: &RelayUrl, ok: bool, now: Time) {
        let Some(number) = self.numbers.get(url).copied() else { return };
        self.with(number, now, |relay, around| {
            let Some(session) = relay.session_mut().filter(|it| it.auth == Auth::Asked) else {
                return;
            };
            session.auth = Auth::Done;
            let waiting = std::mem::take(&mut session.after_auth);
            waiting.into_iter().for_each(|work| relay.ask_again(work));
            match ok {
                true => relay.hear_all(around),
                false => relay.pause("it does not know us", around),
            }
        });
        self.pump(number, now);
    }

    /// Asks this relay as much as it may be asked now.
    pub(crate) fn pump(&mut self, number: u32, now: Time) {
        self.pump_one(number, now);
        while let Some(next) = self.turns.next() {
            self.pump_one(next, now);
        }
    }

    fn pump_one(&mut self, number: u32, now: Time) {
        loop {
            let asks = self.relay(number).is_some_and(Relay::has_questions);
            if !asks {
                break;
            }
            let had_turn = self.turns.has(number);
            if !self.turns.take(number) {
                return;
            }
            let alarm = Alarm::Relay(number, Concern::HistoryTurn);
            if !self.timers.is_set(alarm) {
                self.timers.set(alarm, now.plus(self.settings.turn_without_progress));
            }
            match self.with(number, now, |relay, around| relay.start_one(around)) {
                Some(Start::Started) => {}
                Some(Start::Wait(until)) => {
                    self.timers.at_latest(Alarm::Relay(number, Concern::Ask), until);
                    break;
                }
                // Nothing could be begun with this turn, so it is nobody's.
                Some(Start::Idle) | None if !had_turn => {
                    self.give_turn_back(number);
                    break;
                }
                Some(Start::Idle) | None => break,
            }
        }
        let waiting = self.relay(number).and_then(Relay::session);
        if waiting.is_none_or(|session| session.asked.is_empty()) {
            self.give_turn_back(number);
        }
    }

    // ---- small helpers

    pub(crate) fn relay(&self, number: u32) -> Option<&Relay> {
        self.relays.get(number as usize)?.as_ref()
    }

    pub(crate) fn relay_mut(&mut self, number: u32) -> Option<&mut Relay> {
        self.relays.get_mut(number as usize)?.as_mut()
    }

    /// The number of a relay, known or new; `None` when no more can be followed.
    fn number_for(&mut self, url: &RelayUrl, now: Time) -> Option<u32> {
        if let Some(number) = self.numbers.get(url) {
            return Some(*number);
        }
        if self.numbers.len() >= self.settings.relays_max {
            return None;
        }
        let number = match self.free.pop() {
            Some(number) => number,
            None => {
                self.relays.push(None);
                u32::try_from(self.relays.len() - 1).ok()?
            }
        };
        *self.relays.get_mut(number as usize)? = Some(Relay::new(number, url.clone(), now));
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

    fn progressed(&mut self, number: u32, now: Time) {
        let enough = self.settings.turn_events_max;
        let (enough_bytes, session) =
            (self.settings.turn_bytes_max, self.relay(number).and_then(Relay::session));
        if session.is_some_and(|it| it.turn_events > enough || it.turn_bytes > enough_bytes) {
            self.turn_over(number, now);
        } else if self.turns.has(number) {
            let silent = now.plus(self.settings.turn_without_progress);
            self.timers.set(Alarm::Relay(number, Concern::HistoryTurn), silent);
        }
    }

    /// Whoever shows no progress, or had much, lets the next one go first.
    fn turn_over(&mut self, number: u32, now: Time) {
        if let Some(session) = self.relay_mut(number).and_then(Relay::session_mut) {
            session.turn_events = 0;
            session.turn_bytes = 0;
        }
        self.give_turn_back(number);
        while let Some(next) = self.turns.next() {
            self.pump_one(next, now);
        }
        self.pump(number, now);
    }

    fn give_turn_back(&mut self, number: u32) {
        self.timers.clear(Alarm::Relay(number, Concern::HistoryTurn));
        self.turns.give_back(number);
    }
}

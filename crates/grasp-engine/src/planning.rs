//! What we want changes (S-1, S-6), and the one place that decides what follows from it (S-4).

use crate::engine::Engine;
use crate::groups::{Item, Layer};
use crate::relay::Relay;
use crate::relay_hosts::{NotFollowed, has_room, is_main};
use crate::timers::Alarm;
use crate::vocabulary::{Action, Level, News};
use grasp_core::{EventId, RelayUrl, RepoId, Time};

impl Engine {
    pub(crate) fn announced(
        &mut self,
        repo: &RepoId,
        relays: &[RelayUrl],
        level: Level,
        serial: u64,
        now: Time,
    ) {
        self.last_serial = self.last_serial.max(serial);
        let number = self.wanted.number_for(repo);
        // Whoever only waits may not take the places of those who are served.
        let places = match level {
            Level::Full => self.settings.relays_max,
            Level::StateOnly => self.settings.relays_max / 2,
        };
        self.hosts.forget_not_followed(number);
        let mut listed: Vec<u32> = Vec::new();
        let (followed, beyond) =
            relays.split_at(relays.len().min(self.settings.relays_per_announcement_max));
        for url in beyond {
            self.hosts.note_not_followed(url, number, NotFollowed::Announcement);
        }
        for url in followed {
            if !self.has_room_at_host(url, level, &listed) {
                self.hosts.note_not_followed(url, number, NotFollowed::Host);
                continue;
            }
            match self.number_for(url, places, now) {
                Some(relay) if !listed.contains(&relay) => listed.push(relay),
                Some(_) => {}
                None => {
                    self.hosts.note_not_followed(url, number, NotFollowed::Table);
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
            // Followed less than before: if it is served again, it is asked for again.
            if level == Level::StateOnly && level_before == Some(Level::Full) && !new {
                self.forget_members(relay, number, &roots);
            }
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

    /// One that is followed already stays so.
    fn has_room_at_host(&self, url: &RelayUrl, level: Level, listed: &[u32]) -> bool {
        let is_followed = |number: &u32| {
            listed.contains(number) || self.relay(*number).is_some_and(Relay::is_wanted)
        };
        if self.numbers.get(url).is_some_and(is_followed) {
            return true;
        }
        let numbers = self.hosts.relays(&url.place());
        let followed: Vec<&Relay> =
            numbers.iter().filter(|it| is_followed(it)).filter_map(|it| self.relay(*it)).collect();
        let with_path = followed.iter().filter(|it| !is_main(&it.url)).count();
        has_room(url, level, followed.len(), with_path)
    }

    pub(crate) fn withdrawn(&mut self, repo: &RepoId, now: Time) {
        let Some(number) = self.wanted.number_of(repo) else { return };
        let Some(known) = self.wanted.repo_mut(number) else { return };
        let (relays, level) = (std::mem::take(&mut known.relays), known.level.take());
        self.hosts.forget_not_followed(number);
        let Some(known) = self.wanted.repo_mut(number) else { return };
        let roots = known.roots.clone();
        for relay in relays {
            self.unwant(relay, number, level, &roots);
            self.consider(relay, now);
        }
    }

    pub(crate) fn root(&mut self, id: EventId, repos: &[RepoId], serial: u64, now: Time) {
        self.last_serial = self.last_serial.max(serial);
        // Also of repositories nobody announced yet: a replaced announcement comes after its roots.
        let room = self.wanted.has_room();
        let number = |repo: &RepoId| match room {
            true => Some(self.wanted.number_for(repo)),
            false => self.wanted.number_of(repo),
        };
        let known: Vec<u32> = repos.iter().filter_map(number).collect();
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

    pub(crate) fn want(&mut self, relay: u32, repo: u32, level: Level, before: Option<Level>) {
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
    pub(crate) fn unwant(&mut self, number: u32, repo: u32, level: Option<Level>, roots: &[u32]) {
        let Some(relay) = self.relays.get_mut(number as usize).and_then(Option::as_mut) else {
            return;
        };
        if relay.repos.remove(&repo) && level == Some(Level::Full) {
            relay.served = relay.served.saturating_sub(1);
        }
        self.forget_members(number, repo, roots);
    }

    fn forget_members(&mut self, number: u32, repo: u32, roots: &[u32]) {
        let Some(relay) = self.relays.get_mut(number as usize).and_then(Option::as_mut) else {
            return;
        };
        relay.members.remove(Layer::Named, repo);
        relay.members.remove(Layer::Waiting, repo);
        relay.members.remove(Layer::Repos, repo);
        for root in roots {
            if !self.wanted.wants_root_on(*root, number) {
                relay.members.remove(Layer::Roots, *root);
            }
        }
    }

    /// The first want opens the window; later ones do not extend it (S-6).
    pub(crate) fn stage(&mut self, relay: u32, item: Item, now: Time) {
        // A relay that was never linked is given everything when it is.
        if let Some(relay) = self.relay_mut(relay).filter(|relay| !relay.groups.is_empty()) {
            relay.staged.push(item);
        }
        self.touched.insert(relay);
        if self.replayed && !self.timers.is_set(Alarm::Window) {
            self.timers.set(Alarm::Window, now.plus(self.settings.window));
        }
    }

    pub(crate) fn replayed(&mut self, now: Time) {
        self.replayed = true;
        self.wanted.shrink();
        self.timers.set(Alarm::Cleanup, now.plus(self.settings.cleanup_every));
        let known: Vec<u32> = self.numbers.values().copied().collect();
        self.touched.extend(known);
        self.plan(now);
    }

    /// The one decision point (S-4): each relay's share of what is wanted and neither pending nor
    /// confirmed. Relays that are not linked get theirs when they are.
    pub(crate) fn plan(&mut self, now: Time) {
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
}

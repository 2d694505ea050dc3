//! Which repository's refs are looked at next, and where: in the order in which they are due, spread
//! over the age a verdict may have, few at a time, shared out among owners, and no place before it may
//! be asked. Knows no clock and no socket; whether a request may leave is the hunt's to say (S-35).

mod doubts;
mod places;
mod settings;
mod shares;
#[cfg(test)]
mod tests;

use doubts::Doubts;
use grasp_core::{CloneUrl, PubKey, RepoId, Time};
use places::{Claim, Places};
pub use settings::RoundSettings;
use shares::Shares;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// One repository at one address.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Check {
    pub repo: RepoId,
    pub url: CloneUrl,
}

#[derive(Debug, Default)]
pub struct Rounds {
    settings: RoundSettings,
    due: BTreeMap<RepoId, BTreeMap<CloneUrl, Time>>,
    len: usize,
    places: Places,
    running: BTreeMap<Check, Care>,
    /// How many of them are whose.
    owners: BTreeMap<PubKey, usize>,
    /// For when a look was called for, whatever looks there are before.
    later: BTreeMap<Check, BTreeSet<Time>>,
    /// For when the last look was called that something new made.
    early: BTreeMap<Check, Time>,
    /// Where all was not well the last time.
    gaps: BTreeMap<Check, Gap>,
    doubts: Doubts,
    shares: Shares,
    /// Nothing could begin then, and nothing has changed since.
    idle_at: Option<Time>,
}

/// Why a place is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Care {
    /// It is due, or something new was signed.
    Usual,
    /// All was not well there, and it was left alone for long enough.
    Again,
    /// What was fetched from there was of no use.
    Doubtful,
}

/// What a look came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finding {
    Equal,
    /// Somebody lacks something, and may have it soon.
    Differs,
    /// It could not be found out.
    Nothing,
}

/// How long a place is left alone, and until when.
#[derive(Debug, Clone, Copy)]
struct Gap {
    wait: Duration,
    until: Time,
}

/// Until the next look after one that did not end well.
const RECHECK_FIRST: Duration = Duration::from_secs(60);
const RETRY_FIRST: Duration = Duration::from_secs(600);

impl Rounds {
    pub fn new(settings: RoundSettings) -> Self {
        let places = Places::new(settings.at_once_per_domain_max);
        let shares = Shares::new(settings.bytes_per_owner);
        Self { settings, places, shares, ..Self::default() }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// A repository names these addresses from now on; each with the time of its last look.
    pub fn follow(&mut self, repo: &RepoId, named: &[(CloneUrl, Option<Time>)], now: Time) {
        for gone in self.of(repo) {
            if !named.iter().any(|(url, _)| *url == gone.url) {
                self.forget_one(&gone);
            }
        }
        for (url, last) in named {
            let check = Check { repo: repo.clone(), url: url.clone() };
            if self.due_at(&check).is_some() || self.len >= self.settings.entries_max {
                continue;
            }
            // A moment that has not come yet was written by a clock that was wrong.
            let due = match last.filter(|last| *last <= now) {
                Some(last) => last.plus(self.interval(&check)),
                None => now,
            };
            self.put(check, due);
        }
    }

    pub fn forget(&mut self, repo: &RepoId) {
        self.of(repo).iter().for_each(|check| self.forget_one(check));
    }

    /// Something about it changed here: its mirrors are looked at once they had time to follow. One
    /// such look at a time is called for, and one more for what changed too late for it.
    pub fn changed(&mut self, repo: &RepoId, now: Time) {
        let soon = now.plus(self.lag());
        let gap = self.settings.early_gap.min(self.settings.age_max / 4);
        for check in self.of(repo) {
            let at = match self.early.get(&check) {
                Some(last) if *last >= soon => *last,
                Some(last) => last.plus(gap).max(soon),
                None => soon,
            };
            self.early.insert(check.clone(), at);
            self.call_for(check, at);
        }
    }

    /// Somebody wants to know.
    pub fn now(&mut self, repo: &RepoId, now: Time) {
        for check in self.of(repo) {
            if let Some(gap) = self.gaps.get_mut(&check) {
                gap.until = gap.until.min(now);
            }
            self.bring_forward(check, now);
        }
    }

    pub fn everything_now(&mut self, now: Time) {
        let repos: Vec<RepoId> = self.due.keys().cloned().collect();
        repos.iter().for_each(|repo| self.now(repo, now));
    }

    /// What came from there was of no use: it is looked at thoroughly, soon for the first time. Where
    /// all was not well already it is looked at again in its time.
    pub fn doubt(&mut self, check: &Check, now: Time) {
        if self.due_at(check).is_none() {
            return;
        }
        let soon = now.plus(self.lag());
        if let Some(at) = self.doubts.open(check, soon)
            && !self.gaps.contains_key(check)
        {
            self.call_for(check.clone(), at);
        }
    }

    /// What came from there was good.
    pub fn trust(&mut self, check: &Check) {
        self.doubts.trust(check);
    }

    /// How closely to look at what `poll` named.
    pub fn care(&self, check: &Check) -> Care {
        self.running.get(check).copied().unwrap_or(Care::Usual)
    }

    /// So much came in by a look at somebody's repository.
    pub fn received(&mut self, check: &Check, bytes: u64, now: Time) {
        self.shares.pay(check.repo.owner, bytes, now);
    }

    /// What to look at now, if anything. Every one ends with `done` or `put_off`.
    pub fn poll(&mut self, now: Time) -> Option<Check> {
        let Some((due, check)) = self.first(now) else {
            self.idle_at = Some(now);
            return None;
        };
        self.places.begin(&check, due, now);
        *self.owners.entry(check.repo.owner).or_default() += 1;
        self.doubts.begin(&check, now);
        let care = match self.gaps.get(&check) {
            _ if self.doubts.is_running(&check) => Care::Doubtful,
            Some(gap) if gap.until <= now => Care::Again,
            _ => Care::Usual,
        };
        self.running.insert(check.clone(), care);
        Some(check)
    }

    /// It was looked at; `pause` is until when the place wants to be left alone. Where all is not well
    /// it is looked at again soon, and then ever less; a look in between changes nothing of that.
    pub fn done(&mut self, check: &Check, found: Finding, pause: Option<Time>, now: Time) {
        let interval = self.interval(check);
        let recheck = RECHECK_FIRST.min(self.settings.age_max / 4);
        let first = match found {
            Finding::Equal => interval,
            Finding::Differs => recheck,
            Finding::Nothing => RETRY_FIRST,
        };
        let gap = match self.gaps.remove(check) {
            Some(gap) if gap.until > now || self.care(check) == Care::Usual => gap,
            before => {
                let before = before.map_or(Duration::ZERO, |gap| gap.wait);
                let wait = (before * 2).max(first).min(interval);
                Gap { wait, until: now.plus(wait) }
            }
        };
        if found != Finding::Equal && self.due_at(check).is_some() {
            self.gaps.insert(check.clone(), gap);
        }
        let doubted = self.doubts.end(check, recheck..=interval, now);
        let due = if found == Finding::Equal { now.plus(interval) } else { gap.until };
        let called = self.later_than(check, now).into_iter().chain(doubted).min();
        self.end(check, called.map_or(due, |called| called.min(due)), pause);
    }

    /// It could not be asked; nothing is known.
    pub fn put_off(&mut self, check: &Check, until: Time) {
        let due = self.due_at(check).unwrap_or(until);
        self.end(check, due, Some(until));
    }

    /// When to poll again, if nothing ends before.
    pub fn next_deadline(&self, now: Time) -> Option<Time> {
        if self.idle_at.is_none() && self.first(now).is_some() {
            return Some(now);
        }
        let room = self.running.len() < self.settings.at_once_max;
        let places = self.places.next_after(self.idle_at.unwrap_or(now));
        places.into_iter().chain(self.shares.next_after(now)).min().filter(|_| room)
    }

    /// Whoever has nothing goes first. While others wait, nobody gets more than a quarter of all looks;
    /// and the last quarter is kept free for others who may come.
    fn first(&self, now: Time) -> Option<(Time, Check)> {
        let all = self.settings.at_once_max;
        if self.running.len() >= all {
            return None;
        }
        let share = (all / 4).max(1);
        let most = (all - share).max(share);
        let claim = |owner: &PubKey| match self.owners.get(owner).copied().unwrap_or(0) {
            _ if !self.shares.may_go_on(owner, now) => None,
            0 => Some(Claim::Best),
            running if running < share => Some(Claim::Good),
            running if running < most => Some(Claim::Weak),
            _ => None,
        };
        self.places.first(now, claim).map(|(due, check)| (due, check.clone()))
    }

    /// Well before a verdict is too old, and not for all at once: between 60 and 75 of a hundred parts
    /// of that age, always the same for one address.
    fn interval(&self, check: &Check) -> Duration {
        let bytes = check.url.as_str().bytes().chain(*check.repo.owner.as_bytes());
        let hash = bytes
            .chain(check.repo.identifier.as_str().bytes())
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        let part = 6_000 + u32::try_from((hash >> 20) % 1_500).unwrap_or(0);
        self.settings.age_max / 10_000 * part
    }

    fn lag(&self) -> Duration {
        self.settings.lag.min(self.settings.age_max / 4)
    }

    fn of(&self, repo: &RepoId) -> Vec<Check> {
        let urls = self.due.get(repo).into_iter().flat_map(BTreeMap::keys);
        urls.map(|url| Check { repo: repo.clone(), url: url.clone() }).collect()
    }

    fn due_at(&self, check: &Check) -> Option<Time> {
        self.due.get(&check.repo)?.get(&check.url).copied()
    }

    /// There shall be a look then, whatever other looks there are before.
    fn call_for(&mut self, check: Check, at: Time) {
        self.later.entry(check.clone()).or_default().insert(at);
        self.bring_forward(check, at);
    }

    /// What is called for after this moment; what is not is done.
    fn later_than(&mut self, check: &Check, now: Time) -> Option<Time> {
        if self.early.get(check).is_some_and(|at| at.plus(self.settings.early_gap) < now) {
            self.early.remove(check);
        }
        let later = self.later.get_mut(check)?;
        later.retain(|at| *at > now);
        let first = later.first().copied();
        if first.is_none() {
            self.later.remove(check);
        }
        first
    }

    fn bring_forward(&mut self, check: Check, at: Time) {
        let due_later = self.due_at(&check).is_some_and(|due| due > at);
        if due_later && !self.running.contains_key(&check) {
            self.put(check, at);
        }
    }

    fn put(&mut self, check: Check, due: Time) {
        self.idle_at = None;
        let urls = self.due.entry(check.repo.clone()).or_default();
        let before = urls.insert(check.url.clone(), due);
        self.len += usize::from(before.is_none());
        // What is being looked at comes again afterwards.
        if self.running.contains_key(&check) {
            return;
        }
        if let Some(before) = before {
            self.places.remove(&check, before);
        }
        self.places.insert(check, due);
    }

    fn forget_one(&mut self, check: &Check) {
        let Some(urls) = self.due.get_mut(&check.repo) else { return };
        let Some(due) = urls.remove(&check.url) else { return };
        if urls.is_empty() {
            self.due.remove(&check.repo);
        }
        self.len -= 1;
        self.idle_at = None;
        self.later.remove(check);
        self.early.remove(check);
        self.gaps.remove(check);
        self.doubts.forget(check);
        self.places.remove(check, due);
    }

    fn end(&mut self, check: &Check, due: Time, pause: Option<Time>) {
        if self.running.remove(check).is_none() {
            return;
        }
        self.idle_at = None;
        if let Some(running) = self.owners.get_mut(&check.repo.owner) {
            *running -= 1;
            if *running == 0 {
                self.owners.remove(&check.repo.owner);
            }
        }
        if self.due_at(check).is_some() {
            self.put(check.clone(), due);
        }
        self.places.end(&check.url.domain(), pause);
    }
}

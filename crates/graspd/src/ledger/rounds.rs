//! Which repository's refs are looked at next, and where: in the order in which they are due, spread
//! over the age a verdict may have, few at a time, and no place before it may be asked. Knows no clock
//! and no socket; whether a request may leave is the hunt's to say, who counts them all (S-35).

use grasp_core::{CloneUrl, Domain, RepoId, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoundSettings {
    /// No verdict should become older than this.
    pub age_max: Duration,
    /// Looks at a time: in all, and at one place.
    pub at_once_max: usize,
    pub at_once_per_domain_max: usize,
    /// After something new is served mirrors are given this long to follow.
    pub lag: Duration,
    pub entries_max: usize,
}

impl Default for RoundSettings {
    fn default() -> Self {
        Self {
            age_max: Duration::from_secs(86_400),
            at_once_max: 8,
            at_once_per_domain_max: 2,
            lag: Duration::from_secs(30),
            entries_max: 200_000,
        }
    }
}

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
    places: BTreeMap<Domain, Place>,
    /// When each place with something to look at may be asked.
    ready: BTreeSet<(Time, Domain)>,
    /// What is being looked at, and when it has to be again if something changed meanwhile.
    running: BTreeMap<Check, Option<Time>>,
    /// What is due before its place had time to follow, and when it has.
    later: BTreeMap<Check, Time>,
    /// Where all was not well the last time: how long it was left alone since.
    gaps: BTreeMap<Check, Duration>,
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

#[derive(Debug, Default)]
struct Place {
    queue: BTreeSet<(Time, Check)>,
    running: usize,
    not_before: Time,
    /// Its moment in `ready`.
    ready: Option<Time>,
}

/// Until the next look after one that did not end well.
const RECHECK_FIRST: Duration = Duration::from_secs(60);
const RETRY_FIRST: Duration = Duration::from_secs(600);

impl Rounds {
    pub fn new(settings: RoundSettings) -> Self {
        Self { settings, ..Self::default() }
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

    /// Something about it changed here: its mirrors are looked at once they had time to follow.
    pub fn changed(&mut self, repo: &RepoId, now: Time) {
        let at = now.plus(self.settings.lag.min(self.settings.age_max / 4));
        for check in self.of(repo) {
            if let Some(again) = self.running.get_mut(&check) {
                *again = Some(again.map_or(at, |before| before.min(at)));
            } else if self.due_at(&check).is_some_and(|due| due <= at) {
                self.later.insert(check, at);
            }
        }
        self.bring_forward(repo, at);
    }

    /// Somebody wants to know.
    pub fn now(&mut self, repo: &RepoId, now: Time) {
        self.bring_forward(repo, now);
    }

    pub fn everything_now(&mut self, now: Time) {
        let repos: Vec<RepoId> = self.due.keys().cloned().collect();
        repos.iter().for_each(|repo| self.bring_forward(repo, now));
    }

    /// What to look at now, if anything. Every one ends with `done` or `put_off`.
    pub fn poll(&mut self, now: Time) -> Option<Check> {
        if self.running.len() >= self.settings.at_once_max {
            return None;
        }
        let (_, domain) = self.ready.first().filter(|(at, _)| *at <= now)?.clone();
        let place = self.places.get_mut(&domain)?;
        let (_, check) = place.queue.pop_first()?;
        place.running += 1;
        self.running.insert(check.clone(), None);
        self.reckon(&domain);
        Some(check)
    }

    /// It was looked at; `pause` is until when the place wants to be left alone. Where all is not well
    /// it is looked at again soon, and then ever less.
    pub fn done(&mut self, check: &Check, found: Finding, pause: Option<Time>, now: Time) {
        let interval = self.interval(check);
        let later = self.later.remove(check).filter(|later| *later > now);
        let gap = self.gaps.remove(check).unwrap_or_default();
        let first = match found {
            Finding::Equal => interval,
            Finding::Differs => RECHECK_FIRST.min(self.settings.age_max / 4),
            Finding::Nothing => RETRY_FIRST,
        };
        let wait = (gap * 2).max(first).min(interval);
        if found != Finding::Equal && self.due_at(check).is_some() {
            self.gaps.insert(check.clone(), wait);
        }
        let due = now.plus(if found == Finding::Equal { interval } else { wait });
        self.end(check, later.map_or(due, |later| later.min(due)), pause);
    }

    /// It could not be asked; nothing is known.
    pub fn put_off(&mut self, check: &Check, until: Time) {
        let due = self.due_at(check).unwrap_or(until);
        self.end(check, due, Some(until));
    }

    pub fn next_deadline(&self) -> Option<Time> {
        let room = self.running.len() < self.settings.at_once_max;
        self.ready.first().filter(|_| room).map(|(at, _)| *at)
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

    fn of(&self, repo: &RepoId) -> Vec<Check> {
        let urls = self.due.get(repo).into_iter().flat_map(BTreeMap::keys);
        urls.map(|url| Check { repo: repo.clone(), url: url.clone() }).collect()
    }

    fn due_at(&self, check: &Check) -> Option<Time> {
        self.due.get(&check.repo)?.get(&check.url).copied()
    }

    fn bring_forward(&mut self, repo: &RepoId, at: Time) {
        for check in self.of(repo) {
            let due_later = self.due_at(&check).is_some_and(|due| due > at);
            if due_later && !self.running.contains_key(&check) {
                self.put(check, at);
            }
        }
    }

    fn put(&mut self, check: Check, due: Time) {
        let domain = check.url.domain();
        let urls = self.due.entry(check.repo.clone()).or_default();
        let before = urls.insert(check.url.clone(), due);
        self.len += usize::from(before.is_none());
        let place = self.places.entry(domain.clone()).or_default();
        if let Some(before) = before {
            place.queue.remove(&(before, check.clone()));
        }
        // What is being looked at comes again afterwards.
        if !self.running.contains_key(&check) {
            place.queue.insert((due, check));
        }
        self.reckon(&domain);
    }

    fn forget_one(&mut self, check: &Check) {
        let Some(urls) = self.due.get_mut(&check.repo) else { return };
        let Some(due) = urls.remove(&check.url) else { return };
        if urls.is_empty() {
            self.due.remove(&check.repo);
        }
        self.len -= 1;
        self.later.remove(check);
        self.gaps.remove(check);
        let domain = check.url.domain();
        if let Some(place) = self.places.get_mut(&domain) {
            place.queue.remove(&(due, check.clone()));
        }
        self.reckon(&domain);
    }

    fn end(&mut self, check: &Check, due: Time, pause: Option<Time>) {
        let domain = check.url.domain();
        let Some(again) = self.running.remove(check) else { return };
        let due = again.map_or(due, |again| again.min(due));
        if let Some(place) = self.places.get_mut(&domain) {
            place.running = place.running.saturating_sub(1);
            place.not_before = place.not_before.max(pause.unwrap_or_default());
        }
        match self.due_at(check).is_some() {
            true => self.put(check.clone(), due),
            false => self.reckon(&domain),
        }
    }

    /// Finds out when a place may be asked next.
    fn reckon(&mut self, domain: &Domain) {
        let Some(place) = self.places.get_mut(domain) else { return };
        if let Some(before) = place.ready.take() {
            self.ready.remove(&(before, domain.clone()));
        }
        if place.queue.is_empty() && place.running == 0 {
            self.places.remove(domain);
            return;
        }
        let first = place.queue.first().map(|(due, _)| (*due).max(place.not_before));
        let free = place.running < self.settings.at_once_per_domain_max;
        if let Some(at) = first.filter(|_| free) {
            place.ready = Some(at);
            self.ready.insert((at, domain.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grasp_core::PubKey;

    const NOW: Time = Time::from_secs(1_700_000_000);
    const DAY: Duration = Duration::from_secs(86_400);
    const SECOND: Duration = Duration::from_secs(1);

    fn repo(n: usize) -> RepoId {
        RepoId { owner: PubKey::from_bytes([7; 32]), identifier: n.to_string().parse().unwrap() }
    }

    fn url(host: usize, n: usize) -> CloneUrl {
        format!("https://h{host}.example/r{n}.git").parse().unwrap()
    }

    fn following(repos: usize, hosts: usize) -> Rounds {
        let mut rounds = Rounds::new(RoundSettings::default());
        for n in 0..repos {
            let named: Vec<_> = (0..hosts).map(|host| (url(host, n), None)).collect();
            rounds.follow(&repo(n), &named, NOW);
        }
        rounds
    }

    /// Looks at everything as it becomes due, each look taking a second; when each was done.
    fn lives(rounds: &mut Rounds, from: Time, secs: u64) -> BTreeMap<Check, Vec<Time>> {
        let mut seen: BTreeMap<Check, Vec<Time>> = BTreeMap::new();
        for step in 0..secs {
            let now = from.plus(SECOND * u32::try_from(step).unwrap());
            let mut open = Vec::new();
            while let Some(check) = rounds.poll(now) {
                open.push(check);
            }
            for check in open {
                rounds.done(&check, Finding::Equal, None, now);
                seen.entry(check).or_default().push(now);
            }
        }
        seen
    }

    #[test]
    fn s30_what_changes_during_a_look_is_looked_at_again() {
        let mut rounds = following(1, 1);
        let check = rounds.poll(NOW).unwrap();
        rounds.changed(&repo(0), NOW.plus(SECOND));
        rounds.done(&check, Finding::Equal, None, NOW.plus(2 * SECOND));
        assert_eq!(rounds.next_deadline(), Some(NOW.plus(31 * SECOND)));
    }

    #[test]
    fn s30_every_verdict_is_renewed_before_it_is_too_old_and_not_all_at_once() {
        let mut rounds = following(200, 5);
        let seen = lives(&mut rounds, NOW, 3 * 86_400);
        assert_eq!(seen.len(), 1_000);
        let mut in_hour = [0; 72];
        for times in seen.values() {
            assert!(times.windows(2).all(|pair| pair[1].since(pair[0]) <= DAY * 3 / 4 + SECOND));
            assert!(times.windows(2).all(|pair| pair[1].since(pair[0]) >= DAY / 2), "no oftener");
            for at in times {
                in_hour[usize::try_from(at.since(NOW).as_secs() / 3_600).unwrap()] += 1;
            }
        }
        let busiest = in_hour.iter().skip(12).max().unwrap();
        assert!(*busiest < 400, "spread over hours: {in_hour:?}");
    }

    #[test]
    fn s30_a_restart_goes_on_where_it_was() {
        let mut rounds = Rounds::new(RoundSettings::default());
        let named = [(url(1, 1), Some(NOW)), (url(2, 1), None)];
        rounds.follow(&repo(1), &named, NOW.plus(SECOND));
        assert_eq!(rounds.poll(NOW.plus(SECOND)).unwrap().url, url(2, 1), "what is new comes soon");
        assert_eq!(rounds.poll(NOW.plus(DAY / 2)), None);
        assert_eq!(rounds.poll(NOW.plus(DAY * 3 / 4)).unwrap().url, url(1, 1));
        let mut rounds = Rounds::new(RoundSettings::default());
        rounds.follow(&repo(1), &[(url(1, 1), Some(NOW.plus(DAY)))], NOW);
        assert!(
            rounds.poll(NOW).is_some(),
            "a time that has not come was written by a wrong clock"
        );
    }

    #[test]
    fn s35_few_at_a_time_and_one_place_holds_up_nobody() {
        let mut rounds = following(10, 3);
        let mut open = Vec::new();
        while let Some(check) = rounds.poll(NOW) {
            open.push(check);
        }
        assert_eq!(open.len(), 6, "two at each of three places");
        let (slow, rest) = open.split_first().unwrap();
        let later = NOW.plus(60 * SECOND);
        rounds.put_off(slow, later);
        rest.iter().for_each(|check| rounds.done(check, Finding::Equal, None, NOW));
        let domain = slow.url.domain();
        let mut others = 0;
        while let Some(check) = rounds.poll(NOW) {
            assert_ne!(check.url.domain(), domain, "left alone until it may be asked");
            rounds.done(&check, Finding::Equal, None, NOW);
            others += 1;
        }
        assert_eq!(others, 16);
        assert_eq!(rounds.next_deadline(), Some(later));
        assert_eq!(rounds.poll(later).as_ref(), Some(slow), "put off, not forgotten");
    }

    #[test]
    fn s43_after_something_new_is_served_mirrors_are_looked_at_shortly_after() {
        let mut rounds = following(2, 1);
        lives(&mut rounds, NOW, 10);
        let now = NOW.plus(100 * SECOND);
        rounds.changed(&repo(1), now);
        assert_eq!(rounds.poll(now.plus(29 * SECOND)), None);
        assert_eq!(rounds.poll(now.plus(30 * SECOND)).unwrap().repo, repo(1));
        rounds.now(&repo(0), now);
        let check = rounds.poll(now.plus(30 * SECOND)).unwrap();
        rounds.now(&repo(0), now.plus(31 * SECOND));
        rounds.done(&check, Finding::Equal, None, now.plus(32 * SECOND));
        assert_eq!(rounds.poll(now.plus(33 * SECOND)), None, "once, and then it is fresh");
    }

    #[test]
    fn s43_what_is_new_is_looked_at_at_once_and_again_when_mirrors_had_time_to_follow() {
        let mut rounds = following(1, 1);
        rounds.changed(&repo(0), NOW);
        let check = rounds.poll(NOW).unwrap();
        rounds.done(&check, Finding::Equal, None, NOW.plus(SECOND));
        assert_eq!(rounds.poll(NOW.plus(29 * SECOND)), None);
        assert_eq!(rounds.poll(NOW.plus(30 * SECOND)), Some(check));
    }

    #[test]
    fn s43_who_lagged_is_looked_at_again_soon_and_then_ever_less() {
        let mut rounds = following(1, 1);
        let (mut now, mut last, mut gaps) = (NOW, NOW, Vec::new());
        while gaps.len() < 12 {
            let check = rounds.poll(now).unwrap();
            gaps.push(now.since(last).as_secs());
            last = now;
            rounds.done(&check, Finding::Differs, None, now);
            now = rounds.next_deadline().unwrap();
        }
        assert_eq!(gaps[..6], [0, 60, 120, 240, 480, 960]);
        assert_eq!(gaps[11], rounds.interval(&rounds.of(&repo(0))[0]).as_secs());
        let check = rounds.poll(now).unwrap();
        rounds.done(&check, Finding::Equal, None, now);
        assert!(rounds.next_deadline().unwrap().since(now) > DAY / 2);
        assert!(rounds.gaps.is_empty());
    }

    #[test]
    fn s30_what_is_not_named_any_more_is_not_looked_at() {
        let mut rounds = following(3, 2);
        let open = rounds.poll(NOW).unwrap();
        rounds.follow(&repo(0), &[(url(1, 0), None)], NOW);
        rounds.forget(&repo(1));
        rounds.done(&open, Finding::Equal, None, NOW);
        let seen = lives(&mut rounds, NOW, 10);
        assert!(seen.keys().all(|check| check.repo != repo(1) && check.url != url(0, 0)));
        assert_eq!(rounds.len(), 3);
        rounds.forget(&repo(0));
        rounds.forget(&repo(2));
        assert!(rounds.is_empty() && rounds.places.is_empty() && rounds.ready.is_empty());
    }

    #[test]
    fn s43_no_more_than_so_many_are_followed() {
        let settings = RoundSettings { entries_max: 5, ..RoundSettings::default() };
        let mut rounds = Rounds::new(settings);
        for n in 0..10 {
            rounds.follow(&repo(n), &[(url(1, n), None)], NOW);
        }
        assert_eq!(rounds.len(), 5);
    }
}

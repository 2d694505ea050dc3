//! One other relay: how it is, what is wanted of it, and what of that is confirmed.

use crate::brake::Brake;
use crate::daily::{DailyResult, DailyRun};
use crate::groups::{Behind, Group, Item, Layer, Members, Size, Stage, grouped};
use crate::neg_memory::NegMemory;
use crate::pace::Pace;
use crate::record::{Account, Learned, Record};
use crate::session::Session;
use crate::timers::{Alarm, Concern, Timers};
use crate::vocabulary::{Action, Purpose, Sub};
use crate::wanted::Wanted;
use crate::{Health, RefusedBudget, Settings};
use grasp_core::{EventId, RelayUrl, Time, WallOffset};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) number: u32,
    pub(crate) url: RelayUrl,
    /// Host and port.
    pub(crate) place: String,
    pub(crate) bootstrap: bool,
    /// It turned out to be this very server.
    pub(crate) ourselves: bool,
    /// Repositories whose current announcement lists it; so many of them are served.
    pub(crate) repos: BTreeSet<u32>,
    pub(crate) served: usize,
    pub(crate) link: Link,
    pub(crate) health: Health,
    /// Not to be dialled before then, though nothing is wrong with it.
    pub(crate) not_before: Time,
    /// Not before then because its host failed, under whichever address.
    pub(crate) host_not_before: Time,
    pub(crate) account: Account,
    pub(crate) learned: Learned,
    /// What is known of its NIP-77.
    pub(crate) negentropy: NegMemory,
    pub(crate) brake: Brake,
    pub(crate) budget: RefusedBudget,
    /// Outlives a link, so that a flapping relay gets no new burst.
    pub(crate) pace: Option<Pace>,
    pub(crate) groups: Vec<Group>,
    pub(crate) members: Members,
    /// Wanted since the last plan.
    pub(crate) staged: Vec<Item>,
    /// Groups in stage `Missing`, in the order they will be asked for.
    pub(crate) missing: VecDeque<u32>,
    /// What did not come although the relay said it had it, with the number of attempts.
    pub(crate) owed: VecDeque<(EventId, u32)>,
    pub(crate) owed_wait: Duration,
    /// Up to then nothing confirmed was missed; `None`: everything is to be asked for anew.
    pub(crate) last_alive: Option<Time>,
    /// From an earlier run: what was confirmed then.
    pub(crate) confirmed_through: u64,
    pub(crate) daily_at: Option<Time>,
    pub(crate) daily_run: Option<DailyRun>,
    pub(crate) daily_last: Option<DailyResult>,
    /// When a link last failed or could not be made.
    pub(crate) last_failure: Option<Time>,
    /// Why the last comparison failed; nothing once one succeeded.
    pub(crate) fallback: Option<String>,
    /// Seconds of which it has more events than it gives out.
    pub(crate) full_seconds: u64,
    /// It gave its place to others then.
    pub(crate) made_way: Option<Time>,
    /// Since when something is wanted of it, in this run.
    pub(crate) wanted_since: Option<Time>,
    /// While it is not linked: the oldest that is known of how it stands.
    pub(crate) verified: Time,
    /// From an earlier run: all of it is to be looked at again as soon as it is linked.
    pub(crate) recheck: bool,
    /// When it was last told that it cannot be compared with, being away.
    pub(crate) doubted: Time,
    /// Not to be checked before then.
    pub(crate) check_at: Time,
    /// Where it stands in the queue of relays to be dialled.
    pub(crate) dial_place: Option<DialPlace>,
}

#[derive(Debug)]
pub(crate) enum Link {
    Down,
    /// Patient: it still keeps its place among the dials.
    Dialling {
        patient: bool,
    },
    Up(Box<Session>),
}

/// Orders to a link are carried out within this.
const JUST_NOW: Duration = Duration::from_secs(5);

/// Who is dialled first: who was well before, the operator's own, who has most for us; then those
/// that made way, longest ago first; then those only held announcements name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DialPlace {
    pub(crate) rank: DialRank,
    made_way: Time,
    repos: std::cmp::Reverse<usize>,
    pub(crate) relay: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum DialRank {
    WasWell,
    Bootstrap,
    Wanted,
    MadeWay,
    HeldOnly,
}

/// What a relay's decisions may touch besides the relay itself.
pub(crate) struct Around<'a> {
    pub(crate) wanted: &'a Wanted,
    pub(crate) settings: &'a Settings,
    pub(crate) actions: &'a mut VecDeque<Action>,
    pub(crate) timers: &'a mut Timers,
    pub(crate) next_sub: &'a mut u64,
    pub(crate) chance: &'a mut u64,
    pub(crate) wall: WallOffset,
    pub(crate) now: Time,
}

impl Around<'_> {
    pub(crate) fn sub(&mut self) -> Sub {
        *self.next_sub += 1;
        Sub(*self.next_sub)
    }

    pub(crate) fn act(&mut self, action: Action) {
        self.actions.push_back(action);
    }
}

impl Relay {
    pub(crate) fn new(number: u32, url: RelayUrl, now: Time) -> Self {
        Self {
            number,
            place: url.place(),
            url,
            bootstrap: false,
            ourselves: false,
            repos: BTreeSet::new(),
            served: 0,
            link: Link::Down,
            health: Health::Healthy,
            not_before: Time(0),
            host_not_before: Time(0),
            account: Account { known_since: now, ..Account::default() },
            learned: Learned::default(),
            negentropy: NegMemory::default(),
            brake: Brake::default(),
            budget: RefusedBudget::default(),
            pace: None,
            groups: Vec::new(),
            members: Members::default(),
            staged: Vec::new(),
            missing: VecDeque::new(),
            owed: VecDeque::new(),
            owed_wait: Duration::ZERO,
            last_alive: None,
            confirmed_through: 0,
            daily_at: None,
            daily_run: None,
            daily_last: None,
            last_failure: None,
            fallback: None,
            full_seconds: 0,
            made_way: None,
            wanted_since: None,
            verified: Time(0),
            recheck: false,
            doubted: Time(0),
            check_at: Time(0),
            dial_place: None,
        }
    }

    pub(crate) fn is_wanted(&self) -> bool {
        (self.bootstrap || !self.repos.is_empty()) && !self.ourselves
    }

    /// Uptime counts only while we want something of it (S-30).
    pub(crate) fn measure_want(&mut self, now: Time) {
        match (self.is_wanted(), self.wanted_since) {
            (true, None) => self.wanted_since = Some(now),
            (false, Some(since)) => {
                self.account.wanted_ms += millis(now.since(since));
                self.wanted_since = None;
            }
            _ => {}
        }
    }

    pub(crate) fn is_held_only(&self) -> bool {
        self.served == 0 && !self.bootstrap
    }

    pub(crate) fn session(&self) -> Option<&Session> {
        match &self.link {
            Link::Up(session) => Some(session),
            Link::Down | Link::Dialling { .. } => None,
        }
    }

    pub(crate) fn session_mut(&mut self) -> Option<&mut Session> {
        match &mut self.link {
            Link::Up(session) => Some(session),
            Link::Down | Link::Dialling { .. } => None,
        }
    }

    pub(crate) fn group(&self, number: u32) -> Option<&Group> {
        self.groups.get(number as usize)
    }

    pub(crate) fn group_mut(&mut self, number: u32) -> Option<&mut Group> {
        self.groups.get_mut(number as usize)
    }

    pub(crate) fn dial_place(&self) -> DialPlace {
        let rank = match () {
            () if self.is_held_only() => DialRank::HeldOnly,
            () if self.made_way.is_some() => DialRank::MadeWay,
            () if self.last_alive.is_some() && self.health == Health::Healthy => DialRank::WasWell,
            () if self.bootstrap => DialRank::Bootstrap,
            () => DialRank::Wanted,
        };
        let repos = std::cmp::Reverse(self.repos.len());
        let made_way = self.made_way.unwrap_or(Time(0));
        DialPlace { rank, made_way, repos, relay: self.number }
    }

    /// The earliest moment of the next dial.
    pub(crate) fn next_try(&self) -> Time {
        self.health.next_try().max(self.not_before).max(self.host_not_before)
    }

    pub(crate) fn alarm(&self, concern: Concern) -> Alarm {
        Alarm::Relay(self.number, concern)
    }

    pub(crate) fn size(&self, settings: &Settings) -> Size {
        let request = self.request_bytes_max(settings);
        Size {
            values_max: settings.values_per_filter_max,
            filter_bytes_max: (request / 2).min(32 << 10),
        }
    }

    pub(crate) fn request_bytes_max(&self, settings: &Settings) -> usize {
        let told = self.session().and_then(|session| session.peer.message_bytes_max);
        let told = told.map_or(usize::MAX, |bytes| bytes as usize / 10 * 9);
        settings.request_bytes_max.min(told).max(1_024)
    }

    pub(crate) fn filters_max(&self, settings: &Settings) -> usize {
        let learned = self.learned.filters_per_request_max.map_or(usize::MAX, |max| max as usize);
        settings.filters_per_request_max.min(learned).max(1)
    }

    /// Everything wanted of it, put into groups anew. What has a serial up to `confirmed_through`
    /// was confirmed in an earlier run, and nothing of it was missed up to `covered`.
    pub(crate) fn rebuild(
        &mut self,
        confirmed: Option<(u64, Time)>,
        wanted: &Wanted,
        settings: &Settings,
    ) {
        self.members = Members::default();
        self.staged = Vec::new();
        let items = self.items(wanted);
        let (through, covered) = confirmed.unwrap_or((0, Time(0)));
        let number = self.number;
        let is_confirmed =
            |item: &Item| confirmed.is_some() && item.serial_on(number, wanted) <= through;
        let (known, new): (Vec<Item>, Vec<Item>) = items.into_iter().partition(is_confirmed);
        let size = self.size(settings);
        let recheck = std::mem::take(&mut self.recheck).then_some(Time(0));
        let mut old = first_layer();
        old.extend(grouped(&known, wanted, size, number));
        for group in &mut old {
            group.reconcile = true;
            if confirmed.is_some() {
                group.stage = Stage::Confirmed;
                group.covered = covered;
                group.verified = self.verified;
                group.recheck = recheck.filter(|_| group.layer == Layer::Repos);
            }
        }
        let mut new = grouped(&new, wanted, size, number);
        new.iter_mut().for_each(|group| group.reconcile = true);
        old.append(&mut new);
        self.groups = old;
        self.requeue_missing();
    }

    pub(crate) fn requeue_missing(&mut self) {
        let waits = |group: &Group| group.shelved || group.crowded_until.is_some();
        let asks = |group: &Group| group.stage == Stage::Missing && !waits(group);
        let missing = (0..).zip(&self.groups).filter(|(_, group)| asks(group));
        self.missing = missing.map(|(number, _)| number).collect();
    }

    /// All that is wanted of it right now, each once, repositories first.
    fn items(&mut self, wanted: &Wanted) -> Vec<Item> {
        let mut items = Vec::new();
        for number in &self.repos {
            let Some(repo) = wanted.repo(*number) else { continue };
            let Some(level) = repo.level else { continue };
            let item = Item::repo(*number, level);
            if self.members.insert(item.layer, item.number) {
                items.push(item);
            }
            if item.layer == Layer::Repos {
                let roots = repo.roots.iter().map(|root| Item::root(*root));
                items.extend(roots.filter(|item| self.members.insert(item.layer, item.number)));
            }
        }
        items
    }

    /// New groups of what was staged; nothing if a rebuild will find it anyway.
    pub(crate) fn group_staged(&mut self, wanted: &Wanted, settings: &Settings) -> Vec<u32> {
        let staged = std::mem::take(&mut self.staged);
        let staged = self.with_names(staged);
        if self.groups.is_empty() {
            return Vec::new();
        }
        let members = &mut self.members;
        let new: Vec<Item> =
            staged.into_iter().filter(|item| members.insert(item.layer, item.number)).collect();
        let size = self.size(settings);
        let first = u32::try_from(self.groups.len()).unwrap_or(u32::MAX);
        self.groups.extend(grouped(&new, wanted, size, self.number));
        let numbers: Vec<u32> =
            (first..u32::try_from(self.groups.len()).unwrap_or(u32::MAX)).collect();
        // A little that is new does not wait behind much that is old.
        match numbers.len() <= FEW_GROUPS && self.missing.front().is_none_or(|first| *first >= 2) {
            true => numbers.iter().rev().for_each(|number| self.missing.push_front(*number)),
            false => self.missing.extend(&numbers),
        }
        numbers
    }

    /// The time up to which nothing confirmed was missed.
    pub(crate) fn alive_at(&self, now: Time) -> Option<Time> {
        if self.groups.is_empty() {
            return self.last_alive;
        }
        let layer_one = self.groups.iter().filter(|group| group.layer <= Layer::States);
        if layer_one.clone().count() < 2
            || layer_one.clone().any(|it| it.stage != Stage::Confirmed && !it.shelved)
        {
            return None;
        }
        let confirmed = self.groups.iter().filter(|group| group.stage == Stage::Confirmed);
        let linked = self.session().is_some();
        let until = |group: &Group| if linked && group.is_current() { now } else { group.covered };
        confirmed.map(until).min()
    }

    /// Every wanted item with a serial up to this is confirmed.
    fn confirmed_through(&self, wanted: &Wanted) -> u64 {
        if self.groups.is_empty() {
            return self.confirmed_through;
        }
        let unconfirmed = self.groups.iter().filter(|group| group.stage != Stage::Confirmed);
        let grouped =
            unconfirmed.filter(|group| group.layer > Layer::States).map(|it| it.serial_min);
        let staged = self.staged.iter().map(|item| item.serial_on(self.number, wanted));
        let lowest = grouped.chain(staged).min();
        lowest.map_or(u64::MAX, |serial| serial.saturating_sub(1))
    }

    pub(crate) fn record(&self, wanted: &Wanted, last_serial: u64, now: Time) -> Record {
        // More than a record can name: everything is compared again instead.
        let asked = self.session().map(Session::owed).unwrap_or_default();
        let owed = || self.owed.iter().chain(&asked).map(|(id, _)| *id);
        let named = owed().count() <= OWED_NAMED_MAX;
        // What is to be looked at again soon would otherwise wait for its turn after a restart.
        let checks = |session: &Session| session.checks_under_way().next().is_some();
        let recheck = self.recheck
            || self.session().is_some_and(checks)
            || self.groups.iter().any(|group| group.recheck.is_some());
        Record {
            health: self.health,
            last_alive: self.alive_at(now).filter(|_| named),
            owed: owed().take(OWED_NAMED_MAX).collect(),
            confirmed_through: self.confirmed_through(wanted).min(last_serial),
            daily_at: self.daily_at,
            daily_last: self.daily_last,
            last_failure: self.last_failure,
            verified: Some(self.oldest_verdict()).filter(|at| *at > Time(0)),
            recheck,
            paused_until: Some(self.brake.paused_until).filter(|until| *until > now),
            cooling_until: Some(self.brake.cooling_until).filter(|until| *until > now),
            learned: self.learned,
            negentropy: self.negentropy.clone(),
            account: self.account_at(now),
            budget: self.budget,
        }
    }

    /// With what is still running.
    pub(crate) fn account_at(&self, now: Time) -> Account {
        let mut account = self.account;
        if let Some(session) = self.session() {
            account.connected_ms += millis(now.since(session.since));
        }
        if let Some(since) = self.wanted_since {
            account.wanted_ms += millis(now.since(since));
        }
        account
    }

    /// The link is gone: pending goes back to missing, and what was heard was heard until now.
    pub(crate) fn end_session(&mut self, now: Time) -> Option<Box<Session>> {
        // How long it is away is about the link; each group knows how far it was covered.
        self.last_alive = self.alive_at(now).map(|_| now);
        self.verified = self.oldest_verdict().min(now);
        let Link::Up(session) = std::mem::replace(&mut self.link, Link::Down) else { return None };
        for check in session.checks_under_way() {
            if let Some(group) = self.group_mut(check.group) {
                group.differs = false;
                group.is_due(now);
            }
        }
        // What was found out just now the link may not have written down any more.
        let just_now = |group: &&mut Group| now.since(group.verified) < JUST_NOW;
        self.groups.iter_mut().filter(just_now).for_each(|group| group.is_due(now));
        self.account.connected_ms += millis(now.since(session.since));
        self.owed.extend(session.owed());
        for group in &mut self.groups {
            if group.stage == Stage::Confirmed && group.is_current() {
                group.covered = now;
            }
            if group.stage == Stage::Pending {
                group.stage = Stage::Missing;
            }
            group.heard = 0;
            group.listening = 0;
            group.live_since = None;
            group.behind = Behind::default();
            group.repaired = false;
            group.given_up = false;
            group.crowded_until = None;
        }
        self.requeue_missing();
        Some(session)
    }

    /// What it refused once it may allow by now; it is found out gently.
    pub(crate) fn hope_for_more(&mut self) {
        let Learned { filters_per_request_max, subscriptions_max, live_bytes_max } =
            &mut self.learned;
        for limit in [filters_per_request_max, subscriptions_max].into_iter().flatten() {
            *limit = limit.saturating_mul(2);
        }
        if let Some(limit) = live_bytes_max {
            *limit = limit.saturating_mul(2);
        }
        self.negentropy.hope_for_more();
    }

    /// Everything is to be asked for anew, as once a day (S-15). What is under way counts for
    /// nothing any more, but keeps its subscription until the relay has answered it.
    pub(crate) fn forget_confirmed(&mut self, purpose: Purpose) {
        for group in &mut self.groups {
            group.stage = Stage::Missing;
            group.reconcile = true;
            group.shelved = false;
            group.crowded_until = None;
            group.purpose = purpose;
            group.behind = Behind::default();
        }
        self.requeue_missing();
        self.shelve_first_layer();
        if let Some(session) = self.session_mut() {
            session.pages.clear();
            session.comparisons.clear();
            session.rounds.clear();
            session.after_auth.clear();
            session.batches.clear();
        }
    }
}

const FEW_GROUPS: usize = 4;
/// Ids that a record remembers to be owed.
const OWED_NAMED_MAX: usize = 500;

pub(crate) fn first_layer() -> Vec<Group> {
    vec![Group::new(Layer::Announcements, Vec::new()), Group::new(Layer::States, Vec::new())]
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

//! Looks over an engine's shoulder: everything it is told and everything it does passes here, and
//! what breaks a promise comes back as a sentence. It knows the settings and what the engine was
//! told, never the engine's own state, so it cannot share its mistakes.

use grasp_core::{Filter, RelayUrl, Time};
use grasp_engine::{Action, End, Input, News, Peer, Settings, Sub};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// Nobody is dialled more often than this, whatever happens to the link.
const DIALS_PER_HOUR_MAX: usize = 70;
/// An objection counts for at least this long after the pause that followed it.
const OBJECTS_FOR: Duration = Duration::from_secs(30 * 60);

#[derive(Debug)]
pub struct Watch {
    settings: Settings,
    relays: BTreeMap<RelayUrl, Neighbour>,
    subs: BTreeSet<Sub>,
    last_dial: Option<Time>,
}

#[derive(Debug)]
struct Neighbour {
    dialling: Option<Time>,
    connected: bool,
    peer: Peer,
    open: BTreeSet<Sub>,
    /// The budget of history starts, in thousandths of one.
    starts_left: u64,
    refilled_at: Time,
    /// It asked us to slow down.
    objected: bool,
    objected_at: Option<Time>,
    quiet_until: Time,
    /// Within the last hour.
    dialled_at: VecDeque<Time>,
}

impl Watch {
    pub fn new(settings: Settings) -> Self {
        Self { settings, relays: BTreeMap::new(), subs: BTreeSet::new(), last_dial: None }
    }

    /// The process ended and another begins: no link and no budget is left, but who objected did.
    pub fn restarts(&mut self) {
        self.subs.clear();
        self.last_dial = None;
        let burst = u64::from(self.settings.pace_burst) * 1000;
        for it in self.relays.values_mut() {
            it.dialling = None;
            it.connected = false;
            it.open.clear();
            it.starts_left = burst;
            it.objected = false;
        }
    }

    pub fn hears(&mut self, input: &Input, now: Time) {
        match input {
            Input::Connected { relay, peer, .. } => {
                self.refills(relay, now);
                let it = self.relay(relay, now);
                it.dialling = None;
                it.connected = true;
                it.peer = peer.clone();
                it.open.clear();
            }
            Input::Lost { relay, .. } => {
                let it = self.relay(relay, now);
                it.dialling = None;
                it.connected = false;
                it.open.clear();
            }
            Input::Ended { relay, sub, end } => {
                let it = self.relay(relay, now);
                let was_open = it.open.remove(sub);
                if let End::Closed(text) | End::NegentropyFailed(text) = end
                    && was_open
                    && asks_to_slow_down(text)
                {
                    it.objects(now);
                }
            }
            Input::Notice { relay, text } if asks_to_slow_down(text) => {
                self.relay(relay, now).objects(now);
            }
            _ => {}
        }
    }

    /// Err: what the engine should not have done.
    pub fn sees(&mut self, action: &Action, now: Time) -> Result<(), String> {
        match action {
            Action::Connect(relay) => self.dials(relay, now),
            Action::Hangup(relay) => {
                let it = self.relay(relay, now);
                it.dialling = None;
                it.connected = false;
                it.open.clear();
                Ok(())
            }
            Action::Listen { relay, sub, filters } => {
                let only_new = |it: &Filter| it.since.is_none() && it.limit == Some(0);
                ensure(filters.iter().all(only_new), || format!("listens to the past of {relay}"))?;
                self.opens(relay, *sub, filters, now)
            }
            Action::Request { relay, sub, filters, .. } => {
                self.opens(relay, *sub, filters, now)?;
                self.starts(relay, now)
            }
            Action::Reconcile { relay, sub, filter, .. } => {
                self.opens(relay, *sub, std::slice::from_ref(filter), now)?;
                self.starts(relay, now)
            }
            Action::Close { relay, sub } | Action::Abandon { relay, sub } => {
                let was_open = self.relay(relay, now).open.remove(sub);
                ensure(was_open, || format!("closes {sub:?} on {relay}, which is not open"))
            }
            Action::Authenticate(relay) => {
                let connected = self.relay(relay, now).connected;
                ensure(connected, || format!("authenticates to {relay} without a link"))
            }
            Action::Tell(News::Cooling { relay, until }) => {
                let enough = *until >= now.plus(self.settings.cooldown);
                self.relay(relay, now).quiet_until = *until;
                ensure(enough, || format!("leaves {relay} alone only until {until:?}"))
            }
            // Whom nobody wants is forgotten with all it said; found again it is a stranger.
            Action::Forget(relay) => {
                self.relay(relay, now).objected = false;
                Ok(())
            }
            Action::Remember(_)
            | Action::Stands { .. }
            | Action::Doubt { .. }
            | Action::Tell(_) => Ok(()),
        }
    }

    /// After every input and deadline.
    pub fn deadline(&self, next: Option<(Time, &'static str)>, now: Time) -> Result<(), String> {
        let Some((at, why)) = next else { return Ok(()) };
        ensure(at >= now, || format!("`{why}` is due since {} ms", now.since(at).as_millis()))
    }

    fn dials(&mut self, relay: &RelayUrl, now: Time) -> Result<(), String> {
        let gap = self.settings.dial_gap;
        let rested = self.last_dial.is_none_or(|last| now >= last.plus(gap));
        ensure(rested, || format!("dials {relay} too soon after the last dial"))?;
        self.last_dial = Some(now);
        let it = self.relay(relay, now);
        let idle = !it.connected && it.dialling.is_none();
        it.dialling = Some(now);
        ensure(idle, || format!("dials {relay} while it has a link or dials already"))?;
        it.dialled_at.push_back(now);
        it.dialled_at.retain(|at| now.since(*at) < Duration::from_secs(3600));
        let often = it.dialled_at.len();
        let polite = often <= DIALS_PER_HOUR_MAX;
        ensure(polite, || format!("dials {relay} {often} times in an hour"))?;
        let patience = self.settings.dial_patience;
        let young = |it: &&Neighbour| it.dialling.is_some_and(|at| now < at.plus(patience));
        let dialling = self.relays.values().filter(young).count();
        ensure(dialling <= self.settings.dials_at_once_max, || {
            format!("{dialling} dials at once")
        })?;
        let links = self.relays.values().filter(|it| it.connected || it.dialling.is_some()).count();
        ensure(links <= self.settings.links_max, || format!("{links} links"))
    }

    fn opens(
        &mut self,
        relay: &RelayUrl,
        sub: Sub,
        filters: &[Filter],
        now: Time,
    ) -> Result<(), String> {
        ensure(self.subs.insert(sub), || format!("{sub:?} is used twice"))?;
        let default = self.settings.subscriptions_default;
        let it = self.relay(relay, now);
        ensure(it.connected, || format!("asks {relay} without a link"))?;
        it.open.insert(sub);
        let (open, allowed) = (it.open.len(), it.peer.subscriptions_max.unwrap_or(default));
        let fits = u32::try_from(open).is_ok_and(|open| open <= allowed);
        ensure(fits, || format!("{open} subscriptions on {relay}, which allows {allowed}"))?;
        let message_max = it.peer.message_bytes_max;
        let message_max = message_max.and_then(|max| usize::try_from(max).ok());
        self.fits(relay, filters, message_max.unwrap_or(usize::MAX))
    }

    fn fits(&self, relay: &RelayUrl, filters: &[Filter], bytes_max: usize) -> Result<(), String> {
        let settings = &self.settings;
        let count = filters.len();
        let some = count > 0 && count <= settings.filters_per_request_max;
        ensure(some, || format!("{count} filters in one request to {relay}"))?;
        for filter in filters {
            let values = filter.tags.values().map(|list| list.len()).sum::<usize>();
            let named = filter.ids.as_ref().map_or(0, |list| list.len());
            ensure(values <= settings.values_per_filter_max, || format!("{values} values"))?;
            ensure(named <= settings.ids_per_request_max, || format!("{named} ids in a filter"))?;
            ensure(!filter.is_void(), || format!("asks {relay} for nothing: {filter:?}"))?;
        }
        let size = |filter: &Filter| serde_json::to_string(filter).map_or(0, |text| text.len());
        let bytes: usize = filters.iter().map(size).sum();
        let bytes_max = bytes_max.min(settings.request_bytes_max);
        ensure(bytes <= bytes_max, || format!("a request of {bytes} bytes to {relay}"))
    }

    fn starts(&mut self, relay: &RelayUrl, now: Time) -> Result<(), String> {
        self.refills(relay, now);
        let it = self.relay(relay, now);
        ensure(it.starts_left >= 1000, || format!("asks {relay} for history beyond the pace"))?;
        it.starts_left -= 1000;
        // What is said within a pause does not make it longer.
        let unheard = it.objected_at.is_some_and(|at| it.quiet_until <= at);
        let quiet = now >= it.quiet_until && !unheard;
        ensure(quiet, || format!("asks {relay}, which asked us to slow down"))
    }

    /// At the pace that was allowed up to now.
    fn refills(&mut self, relay: &RelayUrl, now: Time) {
        let (slow, fast) = (self.settings.pace_per_second, self.settings.pace_grasp_per_second);
        let burst = u64::from(self.settings.pace_burst) * 1000;
        let it = self.relay(relay, now);
        // A relay that has not objected for a while is asked as before.
        it.objected &= now < it.quiet_until.plus(OBJECTS_FOR);
        let rate = if it.peer.grasp && !it.objected { fast } else { slow };
        let passed = u64::try_from(now.since(it.refilled_at).as_millis()).unwrap_or(u64::MAX);
        let earned = passed.saturating_mul(u64::from(rate));
        it.starts_left = it.starts_left.saturating_add(earned).min(burst);
        it.refilled_at = now;
    }

    fn relay(&mut self, relay: &RelayUrl, now: Time) -> &mut Neighbour {
        let burst = u64::from(self.settings.pace_burst) * 1000;
        self.relays.entry(relay.clone()).or_insert_with(|| Neighbour {
            dialling: None,
            connected: false,
            peer: Peer::default(),
            open: BTreeSet::new(),
            starts_left: burst,
            refilled_at: now,
            objected: false,
            objected_at: None,
            quiet_until: Time(0),
            dialled_at: VecDeque::new(),
        })
    }
}

impl Neighbour {
    fn objects(&mut self, now: Time) {
        self.objected = true;
        self.objected_at = Some(now);
    }
}

/// Only what nobody could take for anything else.
fn asks_to_slow_down(text: &str) -> bool {
    ["rate-limited:", "rate limited", "slow down", "too many queries"]
        .iter()
        .any(|sign| text.contains(sign))
}

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

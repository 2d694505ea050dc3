//! The relays we follow, by address: how reliable each is, what it covers, and why nothing happens
//! when nothing happens.

use super::shapes::{Relay, Relays};
use super::sight::Sight;
use super::{Page, words};
use crate::ledger;
use crate::sync::Watch;
use grasp_core::Time;
use grasp_engine::{Health, RelayView};
use grasp_store::{Result, Snapshot};

impl Sight<'_> {
    /// Of these views, which begin behind the page's mark and are one more than it shows if there
    /// are more.
    pub(super) fn relays(
        &self,
        page: &Page,
        views: &[RelayView],
        watch: Option<&Watch>,
    ) -> Result<Relays> {
        let snapshot = self.store.read()?;
        let private = self.identity.private_relay.as_ref();
        // The one nobody may know the address of has no place among the others: it comes first.
        let is_public = |it: &&RelayView| Some(&it.relay) != private;
        let shown: Vec<&RelayView> = views.iter().filter(is_public).take(page.limit).collect();
        let more = views.iter().filter(is_public).count() > shown.len();
        let next = shown.last().filter(|_| more).map(|it| it.relay.to_string());
        let first = views.iter().find(|it| page.after.is_none() && Some(&it.relay) == private);
        let relays = first.into_iter().chain(shown);
        let relays = relays.map(|it| self.relay(&*snapshot, it, watch)).collect::<Result<_>>()?;
        Ok(Relays { now: self.now, relays, next })
    }

    fn relay(
        &self,
        store: &dyn Snapshot,
        view: &RelayView,
        watch: Option<&Watch>,
    ) -> Result<Relay> {
        let (now, age_max) = (self.now, self.identity.verdict_age_max);
        let (ledger, coverage_permille) = ledger::of_relay(store, &view.relay, now, age_max)?;
        let (health, next_try) = health(&view.health);
        let account = &view.account;
        let chronicle = watch.and_then(|it| it.chronicle(&view.relay)).unwrap_or_default();
        Ok(Relay {
            explain: words::relay(view, self.identity, now),
            relay: self.identity.shown_relay(view.relay.as_str()),
            connected: view.connected,
            health: health.into(),
            failures: view.health.failures(),
            next_try,
            last_alive: view.last_alive,
            uptime_percent: ledger::uptime_percent(account),
            attempts: account.attempts,
            attempts_failed: account.failures,
            gaps: chronicle.counts.gaps,
            gaps_sustained: chronicle.counts.gaps_sustained,
            events_received: chronicle.counts.events,
            repositories: view.repositories,
            roots: view.roots,
            confirmed: view.confirmed,
            pending: view.pending,
            missing: view.missing,
            live_subscriptions: view.live_subscriptions,
            compares: view.negentropy,
            daily_at: view.daily_at,
            coverage_permille,
            ledger,
            timeline: chronicle.timeline(now),
        })
    }
}

fn health(health: &Health) -> (&'static str, Option<Time>) {
    match health {
        Health::Healthy => ("healthy", None),
        Health::Degraded { next_try, .. } => ("degraded", Some(*next_try)),
        Health::Dead { next_try, .. } => ("dead", Some(*next_try)),
        Health::Banned { until } => ("banned", Some(*until)),
    }
}

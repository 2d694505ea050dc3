//! The relays we follow, by address: how reliable each is, what it covers, and why nothing happens
//! when nothing happens.

use super::Page;
use super::shapes::{Relay, Relays};
use super::sight::Sight;
use crate::ledger;
use crate::outbound::{Rule, vet};
use grasp_core::Time;
use grasp_engine::{Health, RelayView};
use grasp_store::{Result, Snapshot};

/// Where the operator's own relay inside a network is not for others to know.
const HIDDEN: &str = "the operator's bootstrap relay";

impl Sight<'_> {
    pub fn relays(&self, page: &Page) -> Result<Relays> {
        let snapshot = self.store.read()?;
        let views = &self.live.relays;
        let after = page.after.as_deref().unwrap_or_default();
        let mut rest = views.iter().filter(|it| it.relay.as_str() > after);
        let shown: Vec<&RelayView> = rest.by_ref().take(page.limit).collect();
        let last = shown.last().map(|it| it.relay.as_str().to_owned());
        let relays = shown.iter().map(|it| self.relay(&*snapshot, it));
        let relays = relays.collect::<Result<_>>()?;
        let next = rest.next().and(last);
        Ok(Relays { now: self.now, relays, next })
    }

    fn relay(&self, store: &dyn Snapshot, view: &RelayView) -> Result<Relay> {
        let (now, age_max) = (self.now, self.identity.verdict_age_max);
        let (ledger, coverage_permille) = ledger::of_relay(store, &view.relay, now, age_max)?;
        let (health, next_try) = health(&view.health);
        let account = &view.account;
        let chronicle = self.live.watch.as_ref().and_then(|it| it.chronicle(&view.relay));
        let chronicle = chronicle.unwrap_or_default();
        let is_private = view.bootstrap
            && !self.identity.allow_non_global
            && vet(&view.relay, Rule::Strangers).is_err();
        let (name, explain) = (view.relay.to_string(), view.to_string());
        Ok(Relay {
            explain: if is_private { explain.replace(&name, HIDDEN) } else { explain },
            relay: if is_private { HIDDEN.to_owned() } else { name },
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

//! The relays we follow, by address: how reliable each is, what it covers, and why nothing happens
//! when nothing happens.

use super::shapes::{Relay, RelayRefusals, Relays};
use super::sight::Sight;
use super::{Page, words};
use crate::ledger;
use crate::sync::Watch;
use grasp_core::Time;
use grasp_engine::{Health, RefusedBudget, RelayView};
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
        let (health, next_try) = health(view);
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
            refused: refusals(&view.budget, now),
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

fn refusals(budget: &RefusedBudget, now: Time) -> RelayRefusals {
    RelayRefusals {
        accepted: budget.accepted,
        received: budget.received(),
        refused: budget.refused,
        refused_bytes: if now < budget.day_ends() { budget.refused_bytes } else { 0 },
        refused_bytes_max: budget.bytes_max(),
        by_name: budget.by_name,
    }
}

/// A link that stands is well, also after failures; nothing is tried next.
fn health(view: &RelayView) -> (&'static str, Option<Time>) {
    if view.connected {
        return ("healthy", None);
    }
    match &view.health {
        Health::Healthy => ("healthy", None),
        Health::Degraded { next_try, .. } => ("degraded", Some(*next_try)),
        Health::Dead { next_try, .. } => ("dead", Some(*next_try)),
        Health::Banned { until } => ("banned", Some(*until)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(connected: bool, health: Health) -> RelayView {
        RelayView {
            relay: "ws://127.0.0.1:7777".parse().unwrap(),
            connected,
            connecting: false,
            bootstrap: false,
            health,
            account: grasp_engine::Account::default(),
            budget: RefusedBudget::default(),
            repositories: 1,
            roots: 0,
            missing: 0,
            pending: 0,
            confirmed: 1,
            live_subscriptions: 1,
            open_questions: 0,
            in_rotation: 0,
            repositories_in_rotation: 0,
            batches: Vec::new(),
            negentropy: true,
            last_alive: None,
            daily_at: None,
            daily_last: None,
            daily_running: false,
            last_failure: None,
            comparison_failure: None,
            full_seconds: 0,
            shares_address_with: 0,
            settled: true,
            no_room: false,
            waits: None,
        }
    }

    #[test]
    fn a_connected_relay_is_healthy_and_has_no_next_try_whatever_failed_before() {
        let failed = |failures| {
            let (first, next_try) = (Time(1), Time(2));
            Health::Degraded { failures, first, next_try }
        };
        assert_eq!(health(&view(true, failed(3))), ("healthy", None));
        assert_eq!(health(&view(false, failed(3))), ("degraded", Some(Time(2))));
    }
}

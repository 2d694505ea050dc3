//! "Nothing differs" is checked (S-45). After a comparison that named nothing to fetch, the relay is
//! asked for a few events by REQ; what it is said to lack is asked for by id. An event that the relay
//! gives out and hides from a second comparison ends all comparisons with it for a day.

use crate::groups::Part;
use crate::neg_memory::IGNORED_FOR;
use crate::question::{Aim, Batch, Method, Question};
use crate::relay::{Around, Relay};
use crate::session::{Negentropy, Session};
use crate::vocabulary::{Action, Doubt, Errand, News, Page, Purpose, Reconciliation, Sub};
use grasp_core::{EventId, Filter, Timestamp};

/// One look behind a comparison of one filter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Probe {
    part: Part,
    /// When the comparison began.
    compared: Timestamp,
    step: ProbeStep,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum ProbeStep {
    /// The newest events, and a window that ends at a random moment.
    Read { until: Timestamp },
    /// Events of ours that the comparison said the relay lacks.
    ReadLacking(Vec<(Timestamp, EventId)>),
    /// The relay gave out this event: its second is compared again, now that we have the event.
    CompareAgain { suspect: (Timestamp, EventId), was_new: bool },
}

/// The newest events that are asked for.
const NEWEST: u64 = 20;
/// Events of the random window.
const WINDOW_EVENTS_MAX: u64 = 500;
/// A random window ends at most 2^28 s (8.5 years) ago.
const AGE_BITS_MAX: u64 = 28;
/// Probes that wait on one relay.
const PROBES_MAX: usize = 64;
/// Probes in a row that brought old events which no comparison had named. One may be chance: the
/// event may have arrived at the relay just after the comparison.
const UNNAMED_MAX: u32 = 3;

impl Probe {
    /// Is it asked by NIP-77?
    pub(crate) fn compares(&self) -> bool {
        matches!(self.step, ProbeStep::CompareAgain { .. })
    }
}

impl Relay {
    /// A batch is over. If its comparisons named nothing to fetch, one of its filters is probed.
    pub(crate) fn probe_batch(&mut self, batch: &Batch, around: &mut Around<'_>) {
        let is_compared = batch.aim == Aim::Confirm && batch.method == Method::Negentropy;
        if !is_compared || batch.named > 0 {
            return;
        }
        let parts = self.parts_of(&batch.groups);
        let Some(part) = around.pick(&parts).copied() else { return };
        // By magnitude: most events are young, and the oldest are looked for too.
        let bits = 1 + around.random() % AGE_BITS_MAX;
        let age_secs = around.random() % (1 << bits);
        let now = around.wall.to_wall(around.now).timestamp();
        let until = Timestamp(now.0.saturating_sub(age_secs));
        let compared = around.wall.to_wall(batch.started).timestamp();
        self.enqueue_probe(Probe { part, compared, step: ProbeStep::Read { until } }, around);
    }

    /// A comparison of a whole filter said that the relay lacks events of ours, which others may have
    /// delivered: they are looked for there by id.
    pub(crate) fn probe_lacking(
        &mut self,
        question: &Question,
        found: &Reconciliation,
        around: &Around<'_>,
    ) {
        let Question::Compare(part, walk) = *question else { return };
        if let Some(session) = self.session_mut().filter(|_| !found.need.is_empty()) {
            session.unnamed = 0;
        }
        if walk.left.since.is_none() && !found.lacks.is_empty() {
            let compared = around.wall.to_wall(around.now).timestamp();
            let ids_max = self.ids_max(around.settings);
            let step = ProbeStep::ReadLacking(found.lacks.iter().take(ids_max).copied().collect());
            self.enqueue_probe(Probe { part, compared, step }, around);
        }
    }

    fn enqueue_probe(&mut self, probe: Probe, around: &Around<'_>) {
        let is_wanted = around.settings.verified_every().is_some();
        let Some(session) = self.session_mut().filter(|_| is_wanted) else { return };
        let waiting = session.checks.iter().filter(|it| matches!(it, Question::Probe(_)));
        if waiting.count() < PROBES_MAX {
            session.checks.push_back(Question::Probe(probe));
        }
    }

    pub(crate) fn probe_action(
        &self,
        probe: &Probe,
        sub: Sub,
        around: &Around<'_>,
    ) -> Option<Action> {
        let (relay, errand) = (self.url.clone(), Errand::BACKFILL);
        let filter = self.group(probe.part.group)?.filter(probe.part.part, around.wanted);
        let filters: Vec<Filter> = match &probe.step {
            ProbeStep::Read { until } => {
                let told = self.session().and_then(|session| session.peer.limit_default);
                let limit = |events: u64| Some(told.map_or(events, |it| events.min(it.into())));
                let window = Filter {
                    until: Some(*until),
                    limit: limit(WINDOW_EVENTS_MAX),
                    ..filter.clone()
                };
                let newest = Filter { limit: limit(NEWEST), ..filter };
                let filters_max = self.filters_max(around.settings);
                // A relay that takes one filter at a time is asked for the window alone.
                [window, newest].into_iter().take(filters_max).collect()
            }
            ProbeStep::ReadLacking(events) => {
                let ids = events.iter().map(|(_, id)| *id).collect::<Vec<_>>();
                vec![Filter { ids: Some(ids.into()), ..Filter::default() }]
            }
            ProbeStep::CompareAgain { suspect: (at, _), .. } => {
                let filter = Filter { since: Some(*at), until: Some(*at), ..filter };
                let (standing, answer_within) = (Vec::new(), None);
                return Some(Action::Reconcile {
                    relay,
                    sub,
                    filter,
                    errand,
                    standing,
                    answer_within,
                });
            }
        };
        Some(Action::Request { relay, sub, filters: filters.into(), errand })
    }

    /// The relay gave out what it was asked for. An event that the comparison did not name, or said to
    /// be lacking there, is suspect.
    pub(crate) fn handle_probed(&mut self, probe: &Probe, page: &Page) {
        let (suspect, was_new) = match &probe.step {
            ProbeStep::Read { .. } => (page.fresh.iter().min().copied(), true),
            ProbeStep::ReadLacking(events) => {
                let came = |(_, id): &&(Timestamp, EventId)| !page.missing.contains(id);
                (events.iter().find(came).copied(), false)
            }
            ProbeStep::CompareAgain { .. } => (None, false),
        };
        if let (Some(suspect), Some(session)) = (suspect, self.session_mut()) {
            let step = ProbeStep::CompareAgain { suspect, was_new };
            session.checks.push_front(Question::Probe(Probe { step, ..*probe }));
        }
    }

    /// The second of a suspect event was compared again. The relay has the event: it gave it out.
    pub(crate) fn handle_compared_again(
        &mut self,
        probe: &Probe,
        found: &Reconciliation,
        around: &mut Around<'_>,
    ) {
        self.brake.answered();
        let ProbeStep::CompareAgain { suspect: (at, id), was_new } = probe.step else { return };
        let is_hidden = found.lacks.iter().any(|(_, lacking)| *lacking == id);
        // What is as young may have come to the relay after the comparison.
        let margin_secs = around.settings.resume_within.as_secs();
        let is_old = at.0.saturating_add(margin_secs) <= probe.compared.0;
        let unnamed = self.session_mut().map_or(0, |session| {
            session.unnamed += u32::from(was_new && is_old);
            session.unnamed
        });
        if is_hidden || unnamed >= UNNAMED_MAX {
            self.ignore_comparisons(id, around);
        }
    }

    /// The relay hides events from comparisons: everything is read by pages, for a day.
    fn ignore_comparisons(&mut self, id: EventId, around: &mut Around<'_>) {
        let until = around.now.plus(IGNORED_FOR);
        let Some(session) = self.session_mut() else { return };
        session.ignore_comparisons();
        session.believed = around.now;
        self.negentropy.ignored_until = Some(until);
        let purpose = self.groups.iter().map(|group| group.purpose).max();
        self.forget_confirmed(purpose.unwrap_or(Purpose::Backfill));
        self.groups.iter_mut().for_each(|group| group.is_due(around.now));
        self.verify_soon(around);
        let relay = self.url.clone();
        around.act(Action::Tell(News::HidesEvents { relay, id, until }));
        self.remember_negentropy(around);
    }
}

impl Session {
    fn ignore_comparisons(&mut self) {
        self.negentropy = Negentropy::No;
        self.doubt = Some(Doubt::Hides);
        self.unnamed = 0;
        self.checks.clear();
    }
}

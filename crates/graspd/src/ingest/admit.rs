//! Gather, judge, apply: one event inside the writer's transaction. A refusal is decided before
//! anything is changed, so it never leaves half of an effect behind.

use super::gather::{gather, known};
use crate::hub::Fresh;
use grasp_core::nip09::{Deletion, Vanish};
use grasp_core::policy::{
    Answer, Needs, Origin, Prefix, Reason, Remains, Rules, Subject, Verdict, Withdrawal, judge,
};
use grasp_core::{Kind, Time, VerifiedEvent};
use grasp_store::{Provenance, Put, SourceKind, Space, StoreError, Transaction};
use std::sync::Arc;

/// How much may wait here; a full table refuses the newcomer and keeps what it promised.
#[derive(Debug, Clone)]
pub struct Bounds {
    pub held_events_max: u64,
    pub held_bytes_max: u64,
    pub aside_events_max: u64,
    pub aside_bytes_max: u64,
    pub burials_per_author_max: usize,
}

/// Events of a vanished author removed together with the request; the rest follows in sweeps.
pub(super) const SWEEP_MAX: usize = 2_000;
/// Requests kept aside that one arrival may wake.
const WOKEN_MAX: usize = 64;

const STORE_FULL: Reason = Reason::new(
    Prefix::Error,
    "store-full",
    "this server's disk budget is used up; events can be deleted but not added",
);
const HELD_FULL: Reason = Reason::new(
    Prefix::RateLimited,
    "held-full",
    "too many events are waiting for git data on this server; try again in half an hour",
);
const ASIDE_FULL: Reason = Reason::new(
    Prefix::RateLimited,
    "aside-full",
    "nothing by this author is here, and no more such requests can be kept",
);
const BURIALS_FULL: Reason = Reason::new(
    Prefix::RateLimited,
    "burials-full",
    "this author's deletions already name as many events as this server remembers",
);

/// What came of an event, to be told once the transaction is on the disk.
#[derive(Debug)]
pub struct Admission {
    pub answer: Answer,
    pub code: &'static str,
    pub fresh: Vec<Fresh>,
}

/// Why an event goes no further: an answer for its sender, or a fault of ours.
#[derive(Debug, thiserror::Error)]
enum Stop {
    #[error("{0}")]
    Refused(Reason),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<Reason> for Stop {
    fn from(reason: Reason) -> Self {
        Self::Refused(reason)
    }
}

/// One event at the writer's desk.
#[derive(Debug)]
pub(super) struct Candidate<'a> {
    pub(super) event: &'a Arc<VerifiedEvent>,
    pub(super) from: &'a Provenance,
}

pub(super) struct Clerk<'a> {
    pub(super) rules: &'a Rules,
    pub(super) bounds: &'a Bounds,
    pub(super) now: Time,
    /// May this sender bring one more repository?
    pub(super) new_repository: &'a mut dyn FnMut() -> Result<(), Reason>,
}

impl Clerk<'_> {
    pub(super) fn admit(
        &mut self,
        txn: &mut dyn Transaction,
        it: &Candidate<'_>,
    ) -> Result<Admission, StoreError> {
        let refused = |reason: &Reason| Admission {
            answer: Answer { ok: reason.is_ok(), text: reason.to_string() },
            code: reason.code(),
            fresh: Vec::new(),
        };
        match self.decide(txn, it) {
            Ok((verdict, mut fresh)) => {
                let woken = if is_here(&verdict) { self.wake(txn, it)? } else { Vec::new() };
                // A request that waited may be about this very event, which then never came.
                if !woken.is_empty() && known(txn, it.event)?.is_none() {
                    let vanished = txn.erased(it.event)?.vanished_until;
                    let reached = vanished.is_some_and(|until| it.event.created_at <= until);
                    let reason = if reached { Reason::VANISHED } else { Reason::DELETED };
                    return Ok(Admission { fresh: woken, ..refused(&reason) });
                }
                fresh.extend(woken);
                Ok(Admission { answer: verdict.answer(), code: verdict.code(), fresh })
            }
            Err(Stop::Refused(reason)) => Ok(refused(&reason)),
            Err(Stop::Store(StoreError::Full { .. })) => Ok(refused(&STORE_FULL)),
            Err(Stop::Store(error)) => Err(error),
        }
    }

    fn decide(
        &mut self,
        txn: &mut dyn Transaction,
        it: &Candidate<'_>,
    ) -> Result<(Verdict, Vec<Fresh>), Stop> {
        let origin = match it.from.source {
            SourceKind::Direct => Origin::Direct,
            _ => Origin::Sync,
        };
        let subject = Subject::of(it.event, self.rules)?;
        let facts = gather(txn, it.event, &subject, self.rules)?;
        let verdict = judge(it.event, &subject, &facts, self.rules, origin, self.now.timestamp());
        let is_new = matches!(subject, Subject::Announcement(_))
            && facts.current.is_none()
            && matches!(verdict, Verdict::Hold(Needs::GitData { .. }));
        if is_new && origin == Origin::Direct {
            (self.new_repository)()?;
        }
        let fresh = self.apply(txn, it, &subject, &verdict)?;
        Ok((verdict, fresh))
    }

    fn apply(
        &self,
        txn: &mut dyn Transaction,
        it: &Candidate<'_>,
        subject: &Subject,
        verdict: &Verdict,
    ) -> Result<Vec<Fresh>, Stop> {
        match verdict {
            Verdict::Accept => {
                match subject {
                    _ if !self.rules.respect_deletions => {}
                    Subject::Deletion(deletion) => self.delete(txn, deletion)?,
                    Subject::Vanish(vanish) => vanish_author(txn, vanish)?,
                    _ => {}
                }
                Ok(serve(txn, it)?)
            }
            Verdict::PassOn => Ok(vec![Fresh { serial: None, event: Arc::clone(it.event) }]),
            Verdict::Hold(_) => self.hold(txn, it),
            Verdict::Withdraw(withdrawal) => Ok(withdraw(txn, it, withdrawal)?),
            Verdict::Defer => self.set_aside(txn, it),
            Verdict::Reject(_) => Ok(Vec::new()),
        }
    }

    fn hold(&self, txn: &mut dyn Transaction, it: &Candidate<'_>) -> Result<Vec<Fresh>, Stop> {
        let full = txn.events_in(Space::Held)? >= self.bounds.held_events_max
            || txn.bytes_in(Space::Held)? >= self.bounds.held_bytes_max;
        if full {
            return Err(HELD_FULL.into());
        }
        txn.put(Space::Held, it.event, it.from)?;
        Ok(Vec::new())
    }

    fn set_aside(&self, txn: &mut dyn Transaction, it: &Candidate<'_>) -> Result<Vec<Fresh>, Stop> {
        let full = txn.events_in(Space::Aside)? >= self.bounds.aside_events_max
            || txn.bytes_in(Space::Aside)? >= self.bounds.aside_bytes_max;
        if full {
            return Err(ASIDE_FULL.into());
        }
        txn.put(Space::Aside, it.event, it.from)?;
        Ok(Vec::new())
    }

    fn delete(&self, txn: &mut dyn Transaction, deletion: &Deletion) -> Result<(), Stop> {
        let max = self.bounds.burials_per_author_max;
        if txn.burials_by(&deletion.author, max)? + deletion.ids.len() > max {
            return Err(BURIALS_FULL.into());
        }
        Ok(bury(txn, deletion)?)
    }

    /// Something by this author is here now, so requests of theirs that were kept aside count.
    fn wake(
        &mut self,
        txn: &mut dyn Transaction,
        it: &Candidate<'_>,
    ) -> Result<Vec<Fresh>, StoreError> {
        let is_request = |kind: Kind| matches!(kind, Kind::DELETION | Kind::VANISH);
        if is_request(it.event.kind) {
            return Ok(Vec::new());
        }
        let mut fresh = Vec::new();
        let waiting = txn.by_author(Space::Aside, &it.event.pubkey, WOKEN_MAX)?;
        for request in waiting.into_iter().filter(|waiting| is_request(waiting.event.kind)) {
            txn.remove(Space::Aside, &request.event.id)?;
            let event = Arc::new(request.event);
            let woken = Candidate { event: &event, from: &request.provenance };
            fresh.extend(self.admit(txn, &woken)?.fresh);
        }
        Ok(fresh)
    }
}

/// Has the event come to stay, served or held?
fn is_here(verdict: &Verdict) -> bool {
    let remains = |it: &Withdrawal| !matches!(it.remains, Remains::Aside(_));
    match verdict {
        Verdict::Accept | Verdict::Hold(_) => true,
        Verdict::Withdraw(withdrawal) => remains(withdrawal),
        Verdict::PassOn | Verdict::Defer | Verdict::Reject(_) => false,
    }
}

/// An operator's import: served without asking the rules, yet deletions count in both directions.
/// True if the event is now served.
pub fn import_one(
    txn: &mut dyn Transaction,
    event: &VerifiedEvent,
    from: &Provenance,
) -> Result<bool, StoreError> {
    if txn.erased(event)?.reaches(event) || event.kind.is_ephemeral() {
        return Ok(false);
    }
    match (event.kind, Deletion::parse(event)) {
        (Kind::DELETION, Ok(deletion)) => bury(txn, &deletion)?,
        (Kind::VANISH, _) => {
            vanish_author(txn, &Vanish { author: event.pubkey, at: event.created_at })?;
        }
        _ => {}
    }
    Ok(matches!(txn.put(Space::Served, event, from)?, Put::Stored { .. }))
}

/// NIP-09: own targets go, and what was named stays away, seen before or not.
fn bury(txn: &mut dyn Transaction, deletion: &Deletion) -> Result<(), StoreError> {
    for space in [Space::Served, Space::Held] {
        for id in &deletion.ids {
            if txn.get(space, id)?.is_some_and(|found| deletion.covers(&found.event)) {
                txn.remove(space, id)?;
            }
        }
        for coordinate in &deletion.coordinates {
            let current = txn.current(space, coordinate)?;
            if let Some(found) = current.filter(|found| deletion.covers(&found.event)) {
                txn.remove(space, &found.event.id)?;
            }
        }
    }
    for id in &deletion.ids {
        txn.bury_event(id, &deletion.author, deletion.at)?;
    }
    for coordinate in &deletion.coordinates {
        txn.bury_coordinate(coordinate, deletion.at)?;
    }
    Ok(())
}

fn vanish_author(txn: &mut dyn Transaction, vanish: &Vanish) -> Result<(), StoreError> {
    txn.bury_author(&vanish.author, vanish.at)?;
    txn.sweep_vanished(SWEEP_MAX)?;
    Ok(())
}

/// The owner left: the repository's announcement is no longer served.
fn withdraw(
    txn: &mut dyn Transaction,
    it: &Candidate<'_>,
    withdrawal: &Withdrawal,
) -> Result<Vec<Fresh>, StoreError> {
    let coordinate = withdrawal.repo.coordinate();
    for space in [Space::Served, Space::Held] {
        if let Some(current) = txn.current(space, &coordinate)? {
            txn.remove(space, &current.event.id)?;
        }
    }
    match withdrawal.remains {
        Remains::Served => return serve(txn, it),
        Remains::Held(_) => txn.put(Space::Held, it.event, it.from)?,
        Remains::Aside(_) => txn.put(Space::Aside, it.event, it.from)?,
    };
    Ok(Vec::new())
}

fn serve(txn: &mut dyn Transaction, it: &Candidate<'_>) -> Result<Vec<Fresh>, StoreError> {
    // A version that waited is over once a newer one is served.
    if let Some(coordinate) = it.event.coordinate() {
        let held = txn.current(Space::Held, &coordinate)?;
        if let Some(held) = held.filter(|held| it.event.rank().beats(&held.event.rank())) {
            txn.remove(Space::Held, &held.event.id)?;
        }
    }
    Ok(match txn.put(Space::Served, it.event, it.from)? {
        Put::Stored { serial, .. } => {
            vec![Fresh { serial: Some(serial), event: Arc::clone(it.event) }]
        }
        Put::Duplicate | Put::Superseded => Vec::new(),
    })
}

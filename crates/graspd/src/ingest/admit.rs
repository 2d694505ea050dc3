//! Gather, judge, apply: one event inside the writer's transaction.

use super::gather::gather;
use crate::hub::Fresh;
use grasp_core::nip09::{Deletion, Vanish};
use grasp_core::policy::{
    Answer, Needs, Origin, Prefix, Reason, Remains, Rules, Subject, Verdict, Withdrawal, judge,
};
use grasp_core::{Kind, Time, Timestamp, VerifiedEvent};
use grasp_store::{Provenance, Put, Result, SourceKind, Space, StoreError, Transaction};
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

impl Admission {
    fn refused(reason: &Reason) -> Self {
        let answer = Answer { ok: reason.is_ok(), text: reason.to_string() };
        Self { answer, code: reason.code(), fresh: Vec::new() }
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
    pub(super) new_repository: &'a mut dyn FnMut() -> std::result::Result<(), Reason>,
}

impl Clerk<'_> {
    pub(super) fn admit(
        &mut self,
        txn: &mut dyn Transaction,
        it: &Candidate<'_>,
    ) -> Result<Admission> {
        let admission = self.admit_one(txn, it)?;
        let counts = matches!(admission.code, "accepted" | "withdrawn")
            || admission.code.starts_with("held-");
        if admission.answer.ok && counts { self.wake(txn, it, admission) } else { Ok(admission) }
    }

    fn admit_one(&mut self, txn: &mut dyn Transaction, it: &Candidate<'_>) -> Result<Admission> {
        let subject = match Subject::of(it.event, self.rules) {
            Ok(subject) => subject,
            Err(reason) => return Ok(Admission::refused(&reason)),
        };
        let facts = gather(txn, it.event, &subject, self.rules)?;
        let origin = match it.from.source {
            SourceKind::Direct => Origin::Direct,
            _ => Origin::Sync,
        };
        let verdict = judge(it.event, &subject, &facts, self.rules, origin, self.now.timestamp());
        let is_new_repository = matches!(subject, Subject::Announcement(_))
            && facts.current.is_none()
            && matches!(verdict, Verdict::Hold(Needs::GitData { .. }));
        if is_new_repository && origin == Origin::Direct {
            if let Err(reason) = (self.new_repository)() {
                return Ok(Admission::refused(&reason));
            }
        }
        match self.apply(txn, it, &subject, &verdict) {
            Err(StoreError::Full { .. }) => Ok(Admission::refused(&FULL)),
            applied => applied,
        }
    }

    fn apply(
        &self,
        txn: &mut dyn Transaction,
        it: &Candidate<'_>,
        subject: &Subject,
        verdict: &Verdict,
    ) -> Result<Admission> {
        let mut admission =
            Admission { answer: verdict.answer(), code: verdict.code(), fresh: Vec::new() };
        match verdict {
            Verdict::Accept => {
                let acted = match subject {
                    _ if !self.rules.respect_deletions => Ok(()),
                    Subject::Deletion(deletion) => self.delete(txn, deletion)?,
                    Subject::Vanish(vanish) => vanish_author(txn, vanish)?,
                    _ => Ok(()),
                };
                match acted {
                    Ok(()) => admission.fresh.extend(serve(txn, it)?),
                    Err(reason) => return Ok(Admission::refused(&reason)),
                }
            }
            Verdict::PassOn => {
                admission.fresh.push(Fresh { serial: None, event: Arc::clone(it.event) });
            }
            Verdict::Hold(_) => match self.hold(txn, it)? {
                Ok(()) => {}
                Err(reason) => return Ok(Admission::refused(&reason)),
            },
            Verdict::Withdraw(withdrawal) => {
                admission.fresh = self.withdraw(txn, it, withdrawal)?
            }
            Verdict::Defer => match self.set_aside(txn, it)? {
                Ok(()) => {}
                Err(reason) => return Ok(Admission::refused(&reason)),
            },
            Verdict::Reject(_) => {}
        }
        Ok(admission)
    }

    fn hold(
        &self,
        txn: &mut dyn Transaction,
        it: &Candidate<'_>,
    ) -> Result<std::result::Result<(), Reason>> {
        let full = txn.events_in(Space::Held)? >= self.bounds.held_events_max
            || txn.bytes_in(Space::Held)? >= self.bounds.held_bytes_max;
        if full {
            return Ok(Err(HELD_FULL));
        }
        txn.put(Space::Held, it.event, it.from)?;
        Ok(Ok(()))
    }

    fn set_aside(
        &self,
        txn: &mut dyn Transaction,
        it: &Candidate<'_>,
    ) -> Result<std::result::Result<(), Reason>> {
        let full = txn.events_in(Space::Aside)? >= self.bounds.aside_events_max
            || txn.bytes_in(Space::Aside)? >= self.bounds.aside_bytes_max;
        if full {
            return Ok(Err(ASIDE_FULL));
        }
        txn.put(Space::Aside, it.event, it.from)?;
        Ok(Ok(()))
    }

    /// NIP-09: own targets go, and what was named stays away, seen before or not.
    fn delete(
        &self,
        txn: &mut dyn Transaction,
        deletion: &Deletion,
    ) -> Result<std::result::Result<(), Reason>> {
        let max = self.bounds.burials_per_author_max;
        if txn.burials_by(&deletion.author, max)? + deletion.ids.len() > max {
            return Ok(Err(BURIALS_FULL));
        }
        bury(txn, deletion)?;
        Ok(Ok(()))
    }

    /// The owner left: the repository's announcement is no longer served.
    fn withdraw(
        &self,
        txn: &mut dyn Transaction,
        it: &Candidate<'_>,
        withdrawal: &Withdrawal,
    ) -> Result<Vec<Fresh>> {
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

    /// Something by this author is here now, so requests of theirs that were kept aside count.
    fn wake(
        &mut self,
        txn: &mut dyn Transaction,
        it: &Candidate<'_>,
        mut admission: Admission,
    ) -> Result<Admission> {
        if it.event.kind != Kind::DELETION && it.event.kind != Kind::VANISH {
            let waiting = txn.by_author(Space::Aside, &it.event.pubkey, WOKEN_MAX)?;
            let requests = waiting
                .into_iter()
                .filter(|w| matches!(w.event.kind, Kind::DELETION | Kind::VANISH));
            for request in requests {
                txn.remove(Space::Aside, &request.event.id)?;
                let event = Arc::new(request.event);
                let woken = Candidate { event: &event, from: &request.provenance };
                admission.fresh.extend(self.admit_one(txn, &woken)?.fresh);
            }
        }
        Ok(admission)
    }
}

/// An operator's import: served without asking the rules, yet deletions count in both directions.
/// True if the event is now served.
pub fn import_one(
    txn: &mut dyn Transaction,
    event: &VerifiedEvent,
    from: &Provenance,
) -> Result<bool> {
    let erased = txn.erased(event)?;
    let reaches = |until: Option<Timestamp>| until.is_some_and(|until| event.created_at <= until);
    let gone = erased.id || reaches(erased.coordinate_until) || reaches(erased.vanished_until);
    if gone || event.kind.is_ephemeral() {
        return Ok(false);
    }
    if let Ok(deletion) = Deletion::parse(event)
        && event.kind == Kind::DELETION
    {
        bury(txn, &deletion)?;
    }
    Ok(matches!(txn.put(Space::Served, event, from)?, Put::Stored { .. }))
}

const FULL: Reason = Reason::new(
    Prefix::Error,
    "store-full",
    "this server's disk budget is used up; events can be deleted but not added",
);

fn bury(txn: &mut dyn Transaction, deletion: &Deletion) -> Result<()> {
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

fn vanish_author(
    txn: &mut dyn Transaction,
    vanish: &Vanish,
) -> Result<std::result::Result<(), Reason>> {
    txn.bury_author(&vanish.author, vanish.at)?;
    txn.sweep_vanished(SWEEP_MAX)?;
    Ok(Ok(()))
}

fn serve(txn: &mut dyn Transaction, it: &Candidate<'_>) -> Result<Vec<Fresh>> {
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

//! Gather, judge, apply: one event inside the writer's transaction. A refusal is decided before
//! anything is changed, so it never leaves half of an effect behind.

use super::gather::{gather, known};
use super::roles::RoleCache;
use crate::hub::Fresh;
use grasp_core::nip09::{Deletion, Vanish};
use grasp_core::nip34::State;
use grasp_core::policy::{
    Answer, Needs, Origin, Prefix, Reason, Remains, Rules, Subject, Verdict, Withdrawal, judge,
};
use grasp_core::terms::Term;
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
/// Waiting states removed with the announcement that leaves.
const STATES_DROPPED_MAX: usize = 256;
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
    "too many events are waiting for git data on this server; try again later",
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
    pub(super) roles: &'a mut RoleCache,
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
                if !woken.is_empty() && known(txn, &it.event.id)?.is_none() {
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
        let facts = gather(txn, self.roles, it.event, &subject, self.rules)?;
        let verdict = judge(it.event, &subject, &facts, self.rules, origin, self.now.timestamp());
        let is_new = matches!(subject, Subject::Announcement(_))
            && facts.current.is_none()
            && matches!(verdict, Verdict::Hold(Needs::GitData { .. }));
        let fresh = self.apply(txn, it, &subject, &verdict)?;
        // Last, so that nobody pays for what was refused anyway.
        if is_new && origin == Origin::Direct {
            (self.new_repository)().or_else(|reason| {
                txn.remove(Space::Held, &it.event.id)?;
                Err(Stop::Refused(reason))
            })?;
        }
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
                if let Subject::Deletion(deletion) = subject {
                    self.check_room_for_burials(txn, deletion)?;
                }
                // Stored before it acts: if there is no room for it, nothing has happened.
                let fresh = serve(txn, it)?;
                match subject {
                    _ if !self.rules.respect_deletions => {}
                    Subject::Deletion(deletion) => bury(txn, deletion)?,
                    Subject::Vanish(vanish) => vanish_author(txn, vanish)?,
                    _ => {}
                }
                Ok(fresh)
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
        // A newer version of something held is no newcomer: it takes the place of the older.
        if full && !is_here_in(txn, Space::Held, it)? {
            return Err(HELD_FULL.into());
        }
        txn.put(Space::Held, it.event, it.from)?;
        Ok(Vec::new())
    }

    fn set_aside(&self, txn: &mut dyn Transaction, it: &Candidate<'_>) -> Result<Vec<Fresh>, Stop> {
        let full = txn.events_in(Space::Aside)? >= self.bounds.aside_events_max
            || txn.bytes_in(Space::Aside)? >= self.bounds.aside_bytes_max;
        if full && !txn.contains(Space::Aside, &it.event.id)? {
            return Err(ASIDE_FULL.into());
        }
        txn.put(Space::Aside, it.event, it.from)?;
        Ok(Vec::new())
    }

    fn check_room_for_burials(
        &self,
        txn: &dyn Transaction,
        deletion: &Deletion,
    ) -> Result<(), Stop> {
        let max = self.bounds.burials_per_author_max;
        let named = deletion.ids.len() + deletion.coordinates.len();
        if txn.burials_by(&deletion.author, max)? + named > max {
            return Err(BURIALS_FULL.into());
        }
        Ok(())
    }

    /// Something by this author is here now, so requests of theirs that were kept aside count.
    fn wake(
        &mut self,
        txn: &mut dyn Transaction,
        it: &Candidate<'_>,
    ) -> Result<Vec<Fresh>, StoreError> {
        let requests = [Kind::DELETION, Kind::VANISH];
        let mut fresh = Vec::new();
        if requests.contains(&it.event.kind) {
            return Ok(fresh);
        }
        let mut waiting = Vec::new();
        for kind in requests {
            waiting.extend(txn.by_author(Space::Aside, &it.event.pubkey, kind, WOKEN_MAX)?);
        }
        for request in waiting {
            let event = Arc::new(request.event);
            let woken = Candidate { event: &event, from: &request.provenance };
            let admission = self.admit(txn, &woken)?;
            // For want of room it goes on waiting; any other answer is final.
            if !admission.code.ends_with("-full") {
                txn.remove(Space::Aside, &event.id)?;
                fresh.extend(admission.fresh);
            }
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
    rules: &Rules,
) -> Result<bool, StoreError> {
    let erased = rules.respect_deletions && txn.erased(event)?.reaches(event);
    if erased || event.kind.is_ephemeral() {
        return Ok(false);
    }
    let stored = matches!(txn.put(Space::Served, event, from)?, Put::Stored { .. });
    // A request to vanish from other relays, or one that cannot be read, is kept as it is.
    match Subject::of(event, rules) {
        Ok(Subject::Deletion(deletion)) if rules.respect_deletions => bury(txn, &deletion)?,
        Ok(Subject::Vanish(vanish)) if rules.respect_deletions => vanish_author(txn, &vanish)?,
        _ => {}
    }
    Ok(stored)
}

/// NIP-09: own targets go, and what was named stays away, seen before or not.
fn bury(txn: &mut dyn Transaction, deletion: &Deletion) -> Result<(), StoreError> {
    for space in [Space::Served, Space::Held] {
        for id in &deletion.ids {
            let header = txn.header(space, id)?;
            if header.is_some_and(|found| deletion.covers_named(&found.author, found.kind)) {
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
    let (stays, fresh) = match withdrawal.remains {
        Remains::Served => (Space::Served, serve(txn, it)?),
        Remains::Held(_) => (Space::Held, put(txn, Space::Held, it)?),
        Remains::Aside(_) => (Space::Aside, put(txn, Space::Aside, it)?),
    };
    let coordinate = withdrawal.repo.coordinate();
    for space in [Space::Served, Space::Held].into_iter().filter(|space| *space != stays) {
        if let Some(current) = txn.current(space, &coordinate)? {
            txn.remove(space, &current.event.id)?;
        }
    }
    drop_waiting_states(txn, withdrawal.repo.identifier.as_str())?;
    Ok(fresh)
}

/// States that waited for a repository wait for nothing once no announcement of that name is left.
fn drop_waiting_states(txn: &mut dyn Transaction, identifier: &str) -> Result<(), StoreError> {
    let announced = Term::announces(identifier);
    for space in [Space::Served, Space::Held] {
        if txn.has_term(space, &announced)? {
            return Ok(());
        }
    }
    let named = txn.newest(Space::Held, &Term::tag(b'd', identifier), STATES_DROPPED_MAX)?;
    for state in named.iter().filter(|named| named.event.kind == Kind::STATE) {
        txn.remove(Space::Held, &state.event.id)?;
    }
    Ok(())
}

fn put(
    txn: &mut dyn Transaction,
    space: Space,
    it: &Candidate<'_>,
) -> Result<Vec<Fresh>, StoreError> {
    txn.put(space, it.event, it.from)?;
    Ok(Vec::new())
}

/// Is this event, or a version it would replace, already in that space?
fn is_here_in(txn: &dyn Transaction, space: Space, it: &Candidate<'_>) -> Result<bool, StoreError> {
    match it.event.coordinate() {
        Some(coordinate) => Ok(txn.current_position(space, &coordinate)?.is_some()),
        None => txn.contains(space, &it.event.id),
    }
}

fn serve(txn: &mut dyn Transaction, it: &Candidate<'_>) -> Result<Vec<Fresh>, StoreError> {
    let fresh = match txn.put(Space::Served, it.event, it.from)? {
        Put::Stored { serial, .. } => {
            vec![Fresh { serial: Some(serial), event: Arc::clone(it.event) }]
        }
        Put::Duplicate | Put::Superseded => Vec::new(),
    };
    // A version that waited is over once a newer one is served. A state that names no object ends
    // nothing: the one that waits goes on governing the branches.
    let names_nothing = it.event.kind == Kind::STATE
        && State::parse(it.event).is_ok_and(|state| !state.names_objects());
    if let Some(coordinate) = it.event.coordinate().filter(|_| !names_nothing) {
        let held = txn.current(Space::Held, &coordinate)?;
        if let Some(held) = held.filter(|held| it.event.rank().beats(&held.event.rank())) {
            txn.remove(Space::Held, &held.event.id)?;
        }
    }
    Ok(fresh)
}

//! Gather, judge, apply: one event inside the writer's transaction. A refusal is decided before
//! anything is changed, so it never leaves half of an effect behind.

use super::affected::Affected;
use super::claiming::{Claimed, is_status};
use super::claims;
use super::gather::{Sources, gather, gather_again, known};
use super::held_room;
use super::holds;
use super::refused;
use super::removal::{Departure, bury, remove, vanish_author, withdraw};
use super::roles::RoleCache;
use super::second_chance::{Orphan, Revived};
use super::serving::{keep_waiting, serve, serve_released};
use super::uploads;
use super::wanted;
use crate::clock::ClockReading;
use crate::hub::Fresh;
use crate::repos::Repos;
use grasp_core::held_share::HeldUse;
use grasp_core::hold::{Hold, Patience};
use grasp_core::maintainers::{Family, Standing};
use grasp_core::nip09::Deletion;
use grasp_core::policy::{
    About, Answer, Facts, Needs, Origin, PURGATORY, Prefix, Reason, RefusalClass, Remains, Rules,
    Subject, Verdict, Withdrawal, judge,
};
use grasp_core::proposal_share::ProposalLimits;
use grasp_core::{Kind, PubKey, RepoId, Time, VerifiedEvent};
use grasp_relay::IpKey;
use grasp_store::{Provenance, SourceKind, Space, StoreError, StoredEvent, Transaction};
use std::sync::Arc;

/// How much may wait here; a full table refuses the newcomer and keeps what it promised.
#[derive(Debug, Clone)]
pub struct Bounds {
    pub held_events_max: u64,
    pub held_bytes_max: u64,
    pub held_per_key_max: usize,
    pub aside_events_max: u64,
    pub aside_bytes_max: u64,
    pub burials_per_author_max: usize,
    pub proposals: ProposalLimits,
}

impl Bounds {
    /// The table of held events; a room for half as many announcements is beside it.
    pub fn held_table(&self) -> HeldUse {
        HeldUse { events: self.held_events_max, bytes: self.held_bytes_max }
    }
}

/// Requests kept aside that one arrival may wake.
const WOKEN_MAX: usize = 64;

const STORE_FULL: Reason = Reason::new(
    Prefix::Error,
    "store-full",
    "this server's disk budget is used up; events can be deleted but not added",
)
.in_class(RefusalClass::NoRoom);
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
    /// It waits. If what follows from this transaction releases it, its sender hears that instead.
    pub waits: bool,
}

/// What has to be done outside the store once the transaction is on the disk.
#[derive(Debug, Default)]
pub(super) struct Effects {
    pub(super) affected: Affected,
    /// Quarantines that nothing refers to any more.
    pub(super) discards: Vec<String>,
    /// Refused for want of something that may come; worth keeping whole for a while.
    pub(super) orphans: Vec<Orphan>,
    /// Those whose refused announcements and states may be judged differently now.
    pub(super) revived: Revived,
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
    /// The client's address, if what it brings is counted.
    pub(super) ip: Option<IpKey>,
}

impl Candidate<'_> {
    /// What relays bring may fill half of a table; the rest is for those who come themselves.
    fn share_of(&self, max: u64) -> u64 {
        match self.from.source {
            SourceKind::Direct => max,
            SourceKind::Live | SourceKind::Backfill | SourceKind::Daily => max / 2,
        }
    }
}

pub(super) struct Clerk<'a> {
    pub(super) rules: &'a Rules,
    pub(super) bounds: &'a Bounds,
    pub(super) at: ClockReading,
    pub(super) roles: &'a mut RoleCache,
    pub(super) repos: &'a Repos,
    pub(super) patience: Patience,
    pub(super) effects: &'a mut Effects,
    pub(super) purse: Purse<'a>,
}

/// What this sender's address may still bring.
pub(super) struct Purse<'a> {
    pub(super) new_repository: &'a mut dyn FnMut() -> Result<(), Reason>,
    pub(super) hold: &'a mut dyn FnMut() -> Result<(), Reason>,
}

impl Clerk<'_> {
    pub(super) fn admit(
        &mut self,
        txn: &mut dyn Transaction,
        it: &Candidate<'_>,
    ) -> Result<Admission, StoreError> {
        let refused = |reason: &Reason| Admission {
            answer: Answer::refused(reason),
            code: reason.code(),
            fresh: Vec::new(),
            waits: false,
        };
        match self.decide(txn, it) {
            Ok((verdict, mut fresh)) => {
                let woken = if is_here(&verdict) { self.wake(txn, it)? } else { Vec::new() };
                if let Verdict::Reject(reason) = &verdict {
                    self.remember(txn, it, reason)?;
                }
                // A request that waited may be about this very event, which then never came.
                if !woken.is_empty() && known(txn, &it.event.id)?.is_none() {
                    let vanished = txn.erased(it.event)?.vanished_until;
                    let reached = vanished.is_some_and(|until| it.event.created_at <= until);
                    let reason = if reached { Reason::VANISHED } else { Reason::DELETED };
                    self.remember(txn, it, &reason)?;
                    return Ok(Admission { fresh: woken, ..refused(&reason) });
                }
                fresh.extend(woken);
                let waits = txn.contains(Space::Held, &it.event.id)?;
                if is_here(&verdict) {
                    refused::forget(txn, &it.event.id)?;
                    let came = fresh.iter().map(|fresh| &fresh.event);
                    self.revive(txn, came.chain(Some(it.event).filter(|_| waits)))?;
                }
                let answer = match &verdict {
                    Verdict::Accept if waits => Answer::taken(PURGATORY),
                    verdict => verdict.answer(),
                };
                Ok(Admission { answer, code: verdict.code(), fresh, waits })
            }
            Err(Stop::Refused(reason)) => {
                self.remember(txn, it, &reason)?;
                Ok(refused(&reason))
            }
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
        let mut sources =
            Sources { store: txn, roles: self.roles, repos: self.repos, rules: self.rules };
        let facts = gather(&mut sources, it.event, &subject)?;
        let verdict =
            judge(it.event, &subject, &facts, self.rules, origin, self.at.wall.timestamp());
        let holds_newcomer =
            matches!(verdict, Verdict::Hold(_)) && !is_here_in(txn, Space::Held, it)?;
        let is_new = matches!(subject, Subject::Announcement(_))
            && facts.current.is_none()
            && matches!(verdict, Verdict::Hold(Needs::GitData { .. }));
        let refs = match &subject {
            Subject::PullRequest(proposal) if is_here(&verdict) => {
                match self.claim(txn, it, proposal)? {
                    Claimed::Refs(refs) => refs,
                    Claimed::Full(reason) => return Err(reason.into()),
                }
            }
            _ => Vec::new(),
        };
        let fresh = self.apply(txn, it, &subject, &facts, &verdict)?;
        // Last, so that nobody pays for what was refused anyway.
        if origin == Origin::Direct {
            let mut paid = || -> Result<(), Reason> {
                if holds_newcomer {
                    (self.purse.hold)()?;
                }
                if is_new { (self.purse.new_repository)() } else { Ok(()) }
            };
            if let Err(reason) = paid() {
                txn.remove(Space::Held, &it.event.id)?;
                holds::end(txn, &it.event.id)?;
                return Err(Stop::Refused(reason));
            }
        }
        for (repo, claim) in &refs {
            claims::put(txn, repo, &it.event.id, claim)?;
        }
        if matches!(verdict, Verdict::Hold(_) | Verdict::Accept) {
            wanted::forget_older(txn, it.event)?;
        }
        Ok((verdict, fresh))
    }

    fn apply(
        &mut self,
        txn: &mut dyn Transaction,
        it: &Candidate<'_>,
        subject: &Subject,
        facts: &Facts,
        verdict: &Verdict,
    ) -> Result<Vec<Fresh>, Stop> {
        let (now, rules) = (self.at.wall, self.rules);
        match verdict {
            Verdict::Accept if waits_for_refs(subject, facts, rules) => {
                keep_waiting(txn, it.event, it.from, self.begins())?;
                self.effects.affected.event(it.event);
                Ok(Vec::new())
            }
            Verdict::Accept => {
                if let Subject::Deletion(deletion) = subject {
                    self.check_room_for_burials(txn, deletion)?;
                }
                // Stored before it acts: if there is no room for it, nothing has happened.
                let mut fresh = serve(txn, it.event, it.from)?;
                match subject {
                    Subject::Announcement(_) => self.effects.affected.event(it.event),
                    Subject::Related(_) if is_status(it.event.kind) => {
                        self.apply_status(txn, it.event)?;
                    }
                    _ if !rules.respect_deletions => {}
                    Subject::Deletion(deletion) => {
                        fresh.extend(bury(txn, deletion, now, self.effects)?);
                    }
                    Subject::Vanish(vanish) => vanish_author(txn, vanish, now, self.effects)?,
                    _ => {}
                }
                Ok(fresh)
            }
            Verdict::PassOn => Ok(vec![Fresh { serial: None, event: Arc::clone(it.event) }]),
            Verdict::Hold(_) => self.hold(txn, it, subject, facts),
            Verdict::Withdraw(withdrawal) => {
                let departure = Departure { withdrawal, hold: self.begins(), wall: now };
                Ok(withdraw(txn, it.event, it.from, departure, self.effects)?)
            }
            Verdict::Defer => self.set_aside(txn, it),
            Verdict::Reject(_) => Ok(Vec::new()),
        }
    }

    fn hold(
        &mut self,
        txn: &mut dyn Transaction,
        it: &Candidate<'_>,
        subject: &Subject,
        facts: &Facts,
    ) -> Result<Vec<Fresh>, Stop> {
        let place = self.place(it, subject, facts);
        // A newer version of something held is no newcomer: it takes the place of the older.
        if !is_here_in(txn, Space::Held, it)?
            && let Some(reason) = self.lacks_room_to_wait(txn, it, &place)?
        {
            return Err(reason.into());
        }
        keep_waiting(txn, it.event, it.from, self.begins())?;
        if txn.contains(Space::Held, &it.event.id)? {
            held_room::enter(txn, &it.event.id, &place)?;
        }
        match (subject, &facts.about) {
            (Subject::State(state), About::State(about)) => {
                self.wake_announcements(
                    txn,
                    &about.family,
                    &state.author,
                    state.identifier.as_str(),
                )?;
            }
            (Subject::PullRequest(proposal), _) => {
                for repo in &proposal.targets {
                    let others = uploads::take_others(txn, repo, &it.event.id, proposal.tip)?;
                    self.effects.discards.extend(others);
                }
            }
            (Subject::Announcement(_), About::Announcement(about)) => {
                // Somebody else's state may already say where this view is.
                let others = about.family.keys().iter().any(|key| *key != it.event.pubkey);
                if others || about.data_present {
                    self.effects.affected.event(it.event);
                }
            }
            _ => {}
        }
        Ok(Vec::new())
    }

    fn begins(&self) -> Hold {
        Hold::begin(self.at.now, self.patience)
    }

    /// A state came for them: announcements it may govern wait for the full time again.
    fn wake_announcements(
        &self,
        txn: &mut dyn Transaction,
        family: &Family,
        author: &PubKey,
        identifier: &str,
    ) -> Result<(), StoreError> {
        let is_held =
            |key: &&PubKey| family.member(key).is_some_and(|it| it.standing == Standing::Held);
        for owner in family.keys().iter().filter(is_held) {
            let members = family.members_of(owner, self.rules.maintainer_rule);
            if !members.is_ok_and(|members| members.contains(author)) {
                continue;
            }
            let Ok(identifier) = identifier.parse() else { continue };
            let coordinate = RepoId { owner: *owner, identifier }.coordinate();
            if let Some(held) = txn.current_position(Space::Held, &coordinate)? {
                extend(txn, &held.id(), self.at.now, self.patience)?;
            }
        }
        Ok(())
    }

    /// Judges a waiting event again, because something it waits for may have come.
    pub(super) fn reconsider(
        &mut self,
        txn: &mut dyn Transaction,
        held: &StoredEvent,
    ) -> Result<Vec<Fresh>, StoreError> {
        let id = held.event.id;
        let Ok(subject) = Subject::of(&held.event, self.rules) else { return Ok(Vec::new()) };
        let mut sources =
            Sources { store: txn, roles: self.roles, repos: self.repos, rules: self.rules };
        let facts = gather_again(&mut sources, &held.event, &subject)?;
        let now = self.at.wall.timestamp();
        match judge(&held.event, &subject, &facts, self.rules, Origin::Direct, now) {
            Verdict::Accept if waits_for_refs(&subject, &facts, self.rules) => {
                self.effects.affected.event(&held.event);
                Ok(Vec::new())
            }
            Verdict::Accept => {
                if matches!(subject, Subject::Announcement(_)) {
                    self.effects.affected.event(&held.event);
                }
                let fresh = serve_released(txn, &id, self.at.wall)?;
                if is_status(held.event.kind) {
                    self.apply_status(txn, &held.event)?;
                }
                Ok(fresh)
            }
            Verdict::Reject(_) => {
                remove(txn, Space::Held, &id, self.at.wall, self.effects)?;
                Ok(Vec::new())
            }
            _ => Ok(Vec::new()),
        }
    }

    fn set_aside(&self, txn: &mut dyn Transaction, it: &Candidate<'_>) -> Result<Vec<Fresh>, Stop> {
        let full = txn.events_in(Space::Aside)? >= it.share_of(self.bounds.aside_events_max)
            || txn.bytes_in(Space::Aside)? >= it.share_of(self.bounds.aside_bytes_max);
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
            let woken = Candidate { event: &event, from: &request.provenance, ip: None };
            let admission = self.admit(txn, &woken)?;
            // For want of room it goes on waiting; any other answer is final.
            if admission.answer.refusal != Some(RefusalClass::NoRoom) {
                txn.remove(Space::Aside, &event.id)?;
                fresh.extend(admission.fresh);
            }
        }
        Ok(fresh)
    }
}

/// Accepted, but not to be seen before the refs say the same.
fn waits_for_refs(subject: &Subject, facts: &Facts, rules: &Rules) -> bool {
    match subject {
        Subject::State(state) => state.names_objects(),
        Subject::PullRequest(_) => true,
        Subject::Announcement(it) => {
            let served = facts.current.is_some_and(|it| it.standing == Standing::Served);
            rules.hosts(it) && !served
        }
        _ => false,
    }
}

/// From now on it waits for the full time.
pub(super) fn extend(
    txn: &mut dyn Transaction,
    id: &grasp_core::EventId,
    now: Time,
    patience: Patience,
) -> Result<(), StoreError> {
    match holds::of(txn, id)? {
        Some(hold) => holds::set(txn, id, &hold.extended(now, patience)),
        None => Ok(()),
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

/// Is this event, or a version it would replace, already in that space?
fn is_here_in(txn: &dyn Transaction, space: Space, it: &Candidate<'_>) -> Result<bool, StoreError> {
    match it.event.coordinate() {
        Some(coordinate) => Ok(txn.current_position(space, &coordinate)?.is_some()),
        None => txn.contains(space, &it.event.id),
    }
}

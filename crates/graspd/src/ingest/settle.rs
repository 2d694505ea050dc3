//! Carries a plan through: packs in, refs moved, events served, in that order and each step on the
//! disk before the next. The journal names what was begun; doing it again changes nothing more.

use super::admit::{Clerk, Effects};
use super::affected::{Affected, Concern, Intent, IntentKey};
use super::copies;
use super::held_room::{self, HeldPlace};
use super::holds;
use super::plan::{Copying, Plan, PlanError, Planner, view_key};
use super::second_chance::{Revived, revive};
use super::serving::{remember, restore, serve_released};
use super::uploads;
use crate::clock::ClockReading;
use crate::feed::Wake;
use crate::host::{Chore, Host};
use crate::hub::Fresh;
use grasp_core::hold::Hold;
use grasp_core::maintainers::Family;
use grasp_core::nip34::{Announcement, Roles};
use grasp_core::policy::Rules;
use grasp_core::terms::pointing_at;
use grasp_core::{Coordinate, Event, Identifier, Kind};
use grasp_git::land;
use grasp_store::{EventStore, Shelf, Space, StoreError, StoredEvent, Transaction};
use std::collections::BTreeMap;
use std::time::Instant;

#[derive(Debug, thiserror::Error)]
pub(super) enum SettleError {
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error("moving objects into a repository failed: {0}")]
    Io(#[from] std::io::Error),
    #[error("some repositories are not in line yet")]
    Unfinished,
    /// Its turn is over; the journal says what is left to do.
    #[error("it goes on in a later turn")]
    Paused,
    /// Only tests stop here, to see what a crash at this step leaves.
    #[error("stopped at {0:?}")]
    Stopped(Step),
}

impl From<StoreError> for SettleError {
    fn from(error: StoreError) -> Self {
        Self::Plan(error.into())
    }
}

impl From<crate::repos::RepoError> for SettleError {
    fn from(error: crate::repos::RepoError) -> Self {
        Self::Plan(error.into())
    }
}

/// The steps of a release; after each, what was done so far is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Journalled,
    Landed,
    Aligned,
    Served,
}

/// Asked after every step whether to go on.
pub type Checkpoint = dyn Fn(Step) -> bool + Send + Sync;

/// Rounds of one settling: each release may complete something that waited for it.
const ROUNDS_MAX: usize = 64;
/// Packs landed and repositories aligned in one turn, however long that takes: what concerns a few
/// repositories is done in one go.
const CHANGES_PER_TURN_MIN: usize = 8;
/// Waiting events looked at again for one that was released.
const WOKEN_MAX: usize = 10_000;

pub(super) struct Settler<'a, 'c> {
    pub(super) store: &'a dyn EventStore,
    pub(super) host: &'a Host,
    pub(super) rules: &'a Rules,
    pub(super) clerk: Clerk<'c>,
    pub(super) copies: &'a mut Vec<Copying>,
    /// What is served by now; it has to be told, whatever goes wrong after.
    pub(super) fresh: &'a mut Vec<Fresh>,
    /// Those whose refused events may be judged differently now.
    pub(super) revived: &'a mut Revived,
    pub(super) wake: &'a Wake,
    /// Families with more repositories than are kept in line.
    pub(super) crowded: &'a mut Vec<Identifier>,
    /// When others have their turn; without it, all is done in one go.
    pub(super) until: Option<Instant>,
    /// Packs landed and repositories aligned so far.
    pub(super) changes: usize,
}

impl Settler<'_, '_> {
    /// Finishes what an intent began. On an error the intent stays, and can be tried again.
    pub(super) fn carry_through(
        &mut self,
        key: &IntentKey,
        intent: &Intent,
    ) -> Result<(), SettleError> {
        self.reached(Step::Journalled)?;
        for pack in &intent.packs {
            let Some(repo) = pack.repo() else { continue };
            let waits = self.host.layout.quarantine(&pack.quarantine).is_ok_and(|it| it.is_dir());
            land(&self.host.layout, &repo, &pack.quarantine)?;
            self.host.repos.forget(&repo);
            self.reached(Step::Landed)?;
            if waits {
                self.changes += 1;
                self.pause_if_over()?;
            }
        }
        let mut affected = intent.affected.clone();
        let mut unfinished = Affected::default();
        for _ in 0..ROUNDS_MAX {
            affected = self.round(key, &affected, &mut unfinished)?;
            self.reached(Step::Served)?;
            if affected.is_empty() || self.is_over() {
                break;
            }
        }
        for pack in &intent.packs {
            self.host.send(Chore::Discard(pack.quarantine.clone()));
        }
        if !affected.is_empty() && self.is_over() {
            return Err(SettleError::Paused);
        }
        match unfinished.is_empty() {
            true => Ok(()),
            false => Err(SettleError::Unfinished),
        }
    }

    fn is_over(&self) -> bool {
        let is_late = || self.until.is_some_and(|until| Instant::now() >= until);
        self.changes >= CHANGES_PER_TURN_MIN && is_late()
    }

    /// Asked after something was done that a later turn need not do again.
    fn pause_if_over(&self) -> Result<(), SettleError> {
        if self.is_over() { Err(SettleError::Paused) } else { Ok(()) }
    }

    /// One pass over the families; returns what that may concern. A family that fails stays in the
    /// journal and holds up none of the others.
    fn round(
        &mut self,
        key: &IntentKey,
        affected: &Affected,
        unfinished: &mut Affected,
    ) -> Result<Affected, SettleError> {
        let mut plans = Vec::new();
        let copies_begun = self.copies.len();
        for (identifier, concern) in affected.families() {
            for concern in concern.in_parts() {
                match self.prepare(&identifier, &concern) {
                    Ok(plan) => plans.push(plan),
                    Err(stop @ (SettleError::Stopped(_) | SettleError::Paused)) => {
                        // They are planned again, and noted in the journal then.
                        self.copies.truncate(copies_begun);
                        return Err(stop);
                    }
                    Err(error) => {
                        tracing::error!(%identifier, %error, "repositories are not in line yet");
                        unfinished.add(identifier.as_str(), &concern);
                    }
                }
            }
        }
        self.apply(key, &plans, unfinished)
    }

    /// Decides and moves refs; the events follow when all families are through.
    fn prepare(&mut self, identifier: &Identifier, concern: &Concern) -> Result<Plan, SettleError> {
        let snapshot = self.store.read()?;
        let mut planner = Planner {
            store: &*snapshot,
            roles: self.clerk.roles,
            rules: self.rules,
            repos: &self.host.repos,
        };
        let mut plan = planner.plan(identifier, concern)?;
        self.crowded.extend(Some(identifier.clone()).filter(|_| plan.is_crowded));
        // What is on its way already is not fetched a second time.
        let mut wanted = Vec::new();
        for copying in std::mem::take(&mut plan.copies) {
            if !copies::is_under_way(&*snapshot, &copying)? {
                wanted.push(copying);
            }
        }
        plan.copies = wanted;
        drop(snapshot);
        self.align(&plan)?;
        Ok(plan)
    }

    fn align(&mut self, plan: &Plan) -> Result<(), SettleError> {
        self.copies.extend(plan.copies.iter().cloned());
        for (repo, quarantine) in &plan.landings {
            land(&self.host.layout, repo, quarantine)?;
            self.host.repos.forget(repo);
            self.reached(Step::Landed)?;
        }
        for (at, (repo, refs)) in plan.aligns.iter().enumerate() {
            self.host.repos.write(repo, refs.clone())?;
            self.reached(Step::Aligned)?;
            self.changes += 1;
            if at + 1 < plan.aligns.len() {
                self.pause_if_over()?;
            }
        }
        Ok(())
    }

    /// Serves what is whole now, in one transaction with the end of the intent.
    fn apply(
        &mut self,
        key: &IntentKey,
        plans: &[Plan],
        unfinished: &Affected,
    ) -> Result<Affected, SettleError> {
        let mut fresh = Vec::new();
        let (at, host, clerk, begun) = (self.clerk.at, self.host, &mut self.clerk, &*self.copies);
        self.store.write(&mut |txn| {
            fresh.clear();
            *clerk.effects = Effects::default();
            for plan in plans {
                let unused = apply_one(txn, plan, at, host, &mut fresh)?;
                clerk.effects.discards.extend(unused);
            }
            wake(txn, clerk, &mut fresh)?;
            begun.iter().try_for_each(|copying| copies::began(txn, copying))?;
            let mut affected = clerk.effects.affected.clone();
            unfinished.all().for_each(|(identifier, concern)| affected.add(identifier, concern));
            match affected.is_empty() {
                true => Intent::done(txn, key),
                false => Intent { affected, packs: Vec::new() }.rewrite(txn, key),
            }
        })?;
        self.fresh.extend(fresh);
        let effects = std::mem::take(self.clerk.effects);
        revive(self.revived, effects.revived);
        self.wake.touch(effects.affected.repos());
        effects.discards.into_iter().for_each(|name| self.host.send(Chore::Discard(name)));
        Ok(effects.affected)
    }

    fn reached(&self, step: Step) -> Result<(), SettleError> {
        match (self.host.checkpoint)(step) {
            true => Ok(()),
            false => Err(SettleError::Stopped(step)),
        }
    }
}

fn apply_one(
    txn: &mut dyn Transaction,
    plan: &Plan,
    at: ClockReading,
    host: &Host,
    fresh: &mut Vec<Fresh>,
) -> Result<Vec<String>, StoreError> {
    for id in &plan.held_again {
        if let Some(waits) = txn.remove(Space::Served, id)? {
            txn.put(Space::Held, &waits.event, &waits.provenance)?;
            holds::set(txn, id, &Hold::begin(at.now, host.patience))?;
            held_room::enter(txn, id, &HeldPlace::of(&waits.event, &waits.provenance))?;
        }
    }
    for id in &plan.retired {
        if let Some(gone) = txn.remove(Space::Served, id)? {
            remember(txn, &gone)?;
        }
    }
    for id in &plan.releases {
        fresh.extend(serve_released(txn, id, at.wall)?);
    }
    for coordinate in &plan.restored {
        fresh.extend(restore(txn, coordinate)?);
    }
    for (repo, state) in &plan.follows {
        match state {
            Some(id) => txn.put_note(Shelf::Views, &view_key(repo), id.as_bytes())?,
            None => drop(txn.remove_note(Shelf::Views, &view_key(repo))?),
        }
    }
    let mut unused = Vec::new();
    for (repo, id) in &plan.claimed {
        unused.extend(uploads::take(txn, repo, id)?);
    }
    Ok(unused)
}

/// Looks again at what waited for the events that are served now.
fn wake(
    txn: &mut dyn Transaction,
    clerk: &mut Clerk<'_>,
    fresh: &mut Vec<Fresh>,
) -> Result<(), StoreError> {
    let mut at = 0;
    while let Some(served) = fresh.get(at) {
        at += 1;
        let event = served.event.clone();
        clerk.revive(txn, std::iter::once(&event))?;
        let mut waiting = BTreeMap::new();
        for term in pointing_at(&event.id, event.coordinate().as_ref()) {
            let found = txn.newest(Space::Held, &term, WOKEN_MAX)?;
            waiting.extend(found.into_iter().map(|it| (it.event.id, it)));
        }
        for invited in invited_by(txn, clerk.rules, &event)? {
            waiting.insert(invited.event.id, invited);
        }
        for held in waiting.values() {
            fresh.extend(clerk.reconsider(txn, held)?);
        }
    }
    Ok(())
}

/// Waiting announcements of people whom a served one lists. Those that name this server themselves
/// wait for git data and need no invitation.
fn invited_by(
    txn: &dyn Transaction,
    rules: &Rules,
    served: &Event,
) -> Result<Vec<StoredEvent>, StoreError> {
    let mut invited = Vec::new();
    if served.kind != Kind::ANNOUNCEMENT {
        return Ok(invited);
    }
    for pubkey in Roles::of(served).active.into_iter().take(Family::KEYS_MAX) {
        let identifier = served.d().to_owned();
        let coordinate = Coordinate { kind: Kind::ANNOUNCEMENT, pubkey, identifier };
        let held = txn.current(Space::Held, &coordinate)?;
        let hosts =
            |it: &StoredEvent| Announcement::parse(&it.event).is_ok_and(|it| rules.hosts(&it));
        invited.extend(held.filter(|held| !hosts(held)));
    }
    Ok(invited)
}

//! Time passes: what waited too long goes, what was interrupted is finished, what an owner left
//! behind is given up in the end. Also the first thing after a start.

use super::admit::Effects;
use super::affected::Intent;
use super::claims;
use super::copies;
use super::held_room;
use super::holds;
use super::plan::{followed, view_key};
use super::refused;
use super::removal::{sweep_expired, sweep_vanished};
use super::settle::SettleError;
use super::uploads;
use super::views::hosted;
use super::wanted;
use super::writer::Desk;
use crate::clock::ClockReading;
use crate::host::Chore;
use crate::hub::Fresh;
use grasp_core::hold::{Due, Hold};
use grasp_core::{EventId, Filter, Kind, PubKey, RepoId, Time, Timestamp};
use grasp_git::{RefTable, sweep_incoming};
use grasp_store::{
    Budget, Cursor, Hit, Progress, Result, Shelf, Snapshot, Space, StoredEvent, Transaction, Want,
};
use std::collections::BTreeSet;
use std::time::Duration;

/// Holds looked at in one sweep.
const DUE_MAX: usize = 1_000;
/// How long an id that gave up waiting is remembered.
const EXPIRED_FOR: Duration = Duration::from_secs(7 * 86_400);
/// How often what is only remembered is looked through.
const PRUNED_EVERY: Duration = Duration::from_secs(3_600);
/// How long what is not served is kept aside, if nothing else needs it.
const ASIDE_FOR: Duration = Duration::from_secs(7 * 86_400);
/// Rows of the aside space looked at, the oldest first.
const ASIDE_MAX: usize = 100_000;
/// How often the wall time is written down, for the next start.
const CLOCK_NOTED_EVERY: Duration = Duration::from_secs(300);
/// A start so long after the last note may have a clock that is ahead.
const CLOCK_NOTE_AGE_MAX: Duration = Duration::from_secs(900);

/// When what was last done.
#[derive(Debug, Default)]
pub(super) struct Tide {
    pruned: Option<Time>,
    cleaned: Option<Time>,
    clock_noted: Option<Time>,
}

impl Desk<'_> {
    pub(super) fn sweep(&mut self, tide: &mut Tide) -> Vec<Fresh> {
        let swept = self.try_sweep(tide);
        swept.unwrap_or_else(|error| {
            tracing::error!(%error, "what is over could not be removed");
            Vec::new()
        })
    }

    fn try_sweep(&mut self, tide: &mut Tide) -> std::result::Result<Vec<Fresh>, SettleError> {
        self.writer.second_chance.drop_old(self.at.wall);
        let mut fresh = self.retry()?;
        // What a clock that was set too far ahead deletes is gone.
        if !self.writer.clock.may_delete() {
            return Ok(fresh);
        }
        // A time that is in doubt is not noted: after a restart it would count as confirmed.
        if is_time(&mut tide.clock_noted, self.at.now, CLOCK_NOTED_EVERY) {
            self.note_clock()?;
        }
        let prune = is_time(&mut tide.pruned, self.at.now, PRUNED_EVERY);
        let clean = is_time(&mut tide.cleaned, self.at.now, self.writer.host.cleanup_every);
        if !self.has_work()? && !prune && !clean {
            return Ok(fresh);
        }
        let writer = self.writer;
        // Moved before it is forgotten: after a crash in between it is simply done again.
        let (given_up, moved) = if clean { self.give_up_parked()? } else { Default::default() };
        moved.into_iter().for_each(|name| writer.host.send(Chore::Discard(name)));
        let mut begun = None;
        let (mut discards, mut expired) = (Vec::new(), refused::Counts::default());
        writer.store.write(&mut |txn| {
            let effects;
            (effects, expired) = self.clear(txn, prune, &given_up)?;
            discards = effects.discards;
            let intent = Intent { affected: effects.affected, packs: Vec::new() };
            begun = match intent.affected.is_empty() {
                true => None,
                false => Some((intent.write(txn)?, intent)),
            };
            Ok(())
        })?;
        writer.metrics.refused.ids_expired(expired.into());
        if clean {
            writer.metrics.care.cleaned(given_up.len());
        }
        discards.into_iter().for_each(|name| writer.host.send(Chore::Discard(name)));
        if let Some((key, intent)) = begun {
            let carried = self.carry(&key, &intent);
            carried.complain();
            fresh.extend(carried.fresh);
        }
        Ok(fresh)
    }

    /// What is over goes, with what belongs to it.
    fn clear(
        &self,
        txn: &mut dyn Transaction,
        prune: bool,
        given_up: &[RepoId],
    ) -> Result<(Effects, refused::Counts)> {
        let (writer, ClockReading { now, wall }) = (self.writer, self.at);
        let (mut effects, mut expired) = (Effects::default(), refused::Counts::default());
        sweep_expired(txn, wall.timestamp(), wall, &mut effects)?;
        sweep_vanished(txn, wall, &mut effects)?;
        self.expire(txn, &mut effects)?;
        let waits = |txn: &dyn Transaction, id: &EventId| txn.contains(Space::Held, id);
        effects.discards.extend(uploads::take_expired(txn, now, waits)?);
        if prune {
            wanted::prune(txn, wall, &writer.host.wanted)?;
            prune_expired(txn, wall)?;
            expired = refused::prune(txn, wall, writer.second_chance.ids_for)?;
            self.prune_aside(txn)?;
        }
        for repo in given_up {
            txn.remove_note(Shelf::Parked, &view_key(repo))?;
            txn.remove_note(Shelf::Views, &view_key(repo))?;
            effects.discards.extend(uploads::take_all(txn, repo)?);
        }
        Ok((effects, expired))
    }

    fn has_work(&self) -> Result<bool> {
        let snapshot = self.writer.store.read()?;
        Ok(snapshot.needs_sweep(self.at.wall.timestamp())?
            || !holds::due(&*snapshot, self.at.now, 1)?.is_empty()
            || !snapshot.notes(Shelf::Uploads, &[], 1)?.is_empty())
    }

    /// Releases that were begun and could not be finished then.
    fn retry(&mut self) -> std::result::Result<Vec<Fresh>, SettleError> {
        let begun = Intent::all(&*self.writer.store.read()?)?;
        let mut fresh = Vec::new();
        for (key, intent) in begun {
            if self.paused.contains(&key) {
                continue;
            }
            let carried = self.carry(&key, &intent);
            carried.complain();
            fresh.extend(carried.fresh);
        }
        Ok(fresh)
    }

    /// Ends or puts to sleep what waited long enough.
    fn expire(&self, txn: &mut dyn Transaction, effects: &mut Effects) -> Result<()> {
        let (host, now) = (&self.writer.host, self.at.now);
        for id in holds::due(txn, now, DUE_MAX)? {
            let header = txn.header(Space::Held, &id)?;
            let (Some(header), Some(hold)) = (header, holds::of(txn, &id)?) else {
                holds::end(txn, &id)?;
                continue;
            };
            if host.in_flight.contains(&id) {
                holds::set(txn, &id, &hold.extended(now, host.patience))?;
                continue;
            }
            if host.fetching.contains(&id) {
                wanted::defer(txn, &id, hold, now)?;
                continue;
            }
            match hold.due(header.kind, now, host.patience) {
                Due::NotYet => {}
                Due::Sleep(asleep) => holds::set(txn, &id, &asleep)?,
                Due::Expire if self.sleeps_on(txn, &id)? => {
                    let deadline = now.plus(host.patience.asleep);
                    holds::set(txn, &id, &Hold { deadline, ..hold })?;
                }
                Due::Expire => {
                    tracing::info!(%id, kind = header.kind.0, "gave up waiting for git data");
                    wanted::give_up(txn, &id, self.at.wall, &host.wanted, effects)?;
                }
            }
        }
        Ok(())
    }

    /// An announcement whose state is still looked for.
    fn sleeps_on(&self, txn: &dyn Transaction, id: &EventId) -> Result<bool> {
        let held = txn.get(Space::Held, id)?;
        let held = held.filter(|held| held.event.kind == Kind::ANNOUNCEMENT);
        held.map_or(Ok(false), |held| wanted::needs_announcement(txn, held.event.d()))
    }

    /// Requests whose author never came. An owner's farewell stays as long as the data they left, so
    /// that nobody brings an older announcement back meanwhile.
    fn prune_aside(&self, txn: &mut dyn Transaction) -> Result<()> {
        let kinds = [Kind::DELETION, Kind::VANISH, Kind::ANNOUNCEMENT];
        let mut old = Vec::new();
        let mut sink = |it: StoredEvent| {
            if self.at.wall.since(it.provenance.received) > ASIDE_FOR {
                old.push((it.event.id, it.event.coordinate().and_then(|it| it.repo())));
            }
        };
        txn.walk(Space::Aside, 0..=u64::MAX, &kinds, ASIDE_MAX, &mut sink)?;
        for (id, repo) in old {
            let data = repo.map(|repo| txn.note(Shelf::Parked, &view_key(&repo))).transpose()?;
            if data.flatten().is_none() {
                txn.remove(Space::Aside, &id)?;
            }
        }
        Ok(())
    }

    /// Repositories whose owners left long ago, and where their data was moved to.
    fn give_up_parked(&self) -> Result<(Vec<RepoId>, Vec<String>)> {
        let (host, snapshot) = (&self.writer.host, self.writer.store.read()?);
        let (mut given_up, mut moved) = (Vec::new(), Vec::new());
        for (key, note) in snapshot.notes(Shelf::Parked, &[], usize::MAX)? {
            let since = note.as_slice().try_into().map_or(0, u64::from_be_bytes);
            let Some(repo) = read_view_key(&key) else { continue };
            let coordinate = repo.coordinate();
            let has_returned = snapshot.current_position(Space::Served, &coordinate)?.is_some()
                || snapshot.current_position(Space::Held, &coordinate)?.is_some();
            if has_returned || self.at.wall.since(Time(since)) < host.retention {
                continue;
            }
            tracing::info!(%repo, "the data of an owner who left is given up");
            match host.set_aside(&repo) {
                Ok(name) => moved.extend(name),
                Err(error) => {
                    tracing::error!(%repo, %error, "a repository could not be removed");
                    continue;
                }
            }
            host.repos.forget(&repo);
            given_up.push(repo);
        }
        Ok((given_up, moved))
    }

    /// For the next start.
    fn note_clock(&self) -> Result<()> {
        let wall = self.at.wall.0.to_be_bytes();
        self.writer.store.write(&mut |txn| txn.put_note(Shelf::Clock, &[], &wall))
    }

    /// A start is as good as a step: if the wall clock says that much has passed since the last note,
    /// that may be so, or the clock is ahead.
    fn doubt_clock(&self) -> Result<()> {
        let snapshot = self.writer.store.read()?;
        let noted = snapshot.note(Shelf::Clock, &[])?;
        let noted = noted.and_then(|note| note.try_into().ok()).map(u64::from_be_bytes);
        let age = noted.map(|noted| self.at.wall.since(Time(noted)));
        if age.is_some_and(|age| age > CLOCK_NOTE_AGE_MAX) {
            self.writer.clock.doubt_start();
        }
        Ok(())
    }

    /// Brings one repository in line, because something looked wrong with it.
    pub(super) fn look_after(&mut self, repo: &RepoId) -> Vec<Fresh> {
        self.writer.host.repos.forget(repo);
        let mut intent = Intent::default();
        intent.affected.repo(repo);
        match self.begin(&intent, &|_| Ok(())) {
            Ok(key) => {
                let carried = self.carry(&key, &intent);
                carried.complain();
                carried.fresh
            }
            Err(error) => {
                tracing::error!(%repo, %error, "a repository could not be brought in line");
                Vec::new()
            }
        }
    }

    /// After a start, before anybody is let in: finish the journal, drop what was half done.
    pub(super) fn recover(&mut self) -> anyhow::Result<()> {
        let layout = &self.writer.host.layout;
        let store = &self.writer.store;
        // Before anything is planned: a pull request without a claim has no ref.
        store.write(&mut claims::complete)?;
        let begun = Intent::all(&*store.read()?)?;
        for (key, intent) in &begun {
            self.unlock(intent)?;
            let carried = self.carry(key, intent);
            carried.complain();
            if carried.error.is_none() {
                tracing::info!("finished what was interrupted");
            }
        }
        self.copy_again()?;
        let mut keep: BTreeSet<String> =
            uploads::quarantines_of(&*store.read()?)?.into_iter().collect();
        let unfinished = Intent::all(&*store.read()?)?.into_iter().flat_map(|it| it.1.packs);
        keep.extend(unfinished.map(|pack| pack.quarantine));
        // A git of the process before us may still be writing there; it ends by itself.
        if let Err(error) = sweep_incoming(layout, &keep) {
            tracing::warn!(%error, "half-received data stays until the next start");
        }
        self.give_deadlines()?;
        let held = ids_in(&*store.read()?, Space::Held)?;
        store.write(&mut |txn| held_room::recount(txn, &held))?;
        self.doubt_clock()?;
        store.write(&mut |txn| refused::tie_to(txn, &self.writer.rules))?;
        self.report_strangers()
    }

    /// Whoever carried objects between repositories is gone.
    fn copy_again(&mut self) -> anyhow::Result<()> {
        let affected = copies::interrupted(&*self.writer.store.read()?)?;
        if !affected.is_empty() {
            let intent = Intent { affected, packs: Vec::new() };
            let key = self.begin(&intent, &copies::forget_all)?;
            self.carry(&key, &intent).complain();
        }
        Ok(())
    }

    /// We are alone in these directories: a lock is what the crash left.
    fn unlock(&self, intent: &Intent) -> anyhow::Result<()> {
        let snapshot = self.writer.store.read()?;
        let host = &self.writer.host;
        for (identifier, concern) in intent.affected.families() {
            for owner in self.owners(&*snapshot, &identifier, &concern.keys)? {
                let repo = RepoId { owner, identifier: identifier.clone() };
                RefTable::clear_locks(&host.layout.repository(&repo))?;
            }
        }
        Ok(())
    }

    fn owners(
        &self,
        store: &dyn Snapshot,
        identifier: &grasp_core::Identifier,
        around: &BTreeSet<PubKey>,
    ) -> Result<Vec<PubKey>> {
        let mut roles = super::roles::RoleCache::default();
        let around = around.iter().copied();
        let family = super::gather::family(store, &mut roles, around, identifier.as_str())?;
        Ok(family.keys().to_vec())
    }

    /// Everything held has its full time, and so have uploads.
    fn give_deadlines(&self) -> anyhow::Result<()> {
        let (now, patience) = (self.at.now, self.writer.host.patience);
        let uploads_until = now.plus(self.writer.host.uploads.patience);
        let held = ids_in(&*self.writer.store.read()?, Space::Held)?;
        self.writer.store.write(&mut |txn| {
            for id in &held {
                let hold = holds::of(txn, id)?.unwrap_or_else(|| Hold::begin(now, patience));
                holds::set(txn, id, &hold.restarted(now, patience))?;
            }
            uploads::restart(txn, uploads_until)
        })?;
        Ok(())
    }

    /// Directories that belong to no announcement are left alone, and said to be there.
    fn report_strangers(&self) -> anyhow::Result<()> {
        let snapshot = self.writer.store.read()?;
        for repo in self.writer.host.layout.repositories()? {
            let known = hosted(&*snapshot, &self.writer.rules, &repo)?.is_some()
                || snapshot.note(Shelf::Parked, &view_key(&repo))?.is_some()
                || followed(&*snapshot, &repo)?.is_some();
            if !known {
                tracing::warn!(%repo, "a repository directory without an announcement is kept");
            }
        }
        Ok(())
    }
}

/// Has it been this long since the last time? Then now is the last time.
fn is_time(last: &mut Option<Time>, now: Time, every: Duration) -> bool {
    let is_time = last.is_none_or(|at| now.since(at) >= every);
    if is_time {
        *last = Some(now);
    }
    is_time
}

fn prune_expired(txn: &mut dyn Transaction, now: Time) -> Result<()> {
    for (key, note) in txn.notes(Shelf::Expired, &[], usize::MAX)? {
        let at = note.as_slice().try_into().map_or(0, u64::from_be_bytes);
        if now.since(Time(at)) > EXPIRED_FOR {
            txn.remove_note(Shelf::Expired, &key)?;
        }
    }
    Ok(())
}

fn ids_in(store: &dyn Snapshot, space: Space) -> Result<Vec<EventId>> {
    let everything = [Filter::default()].into();
    let mut cursor = Cursor::new(everything, Want::Positions, u64::MAX, Timestamp(u64::MAX));
    let mut ids = Vec::new();
    let mut sink = |hit: Hit<'_>| ids.push(hit.position.id());
    let mut page = Budget { steps: u64::MAX, bytes: usize::MAX };
    while store.advance(space, &mut cursor, &mut page, &mut sink)? == Progress::Paused {}
    Ok(ids)
}

fn read_view_key(key: &[u8]) -> Option<RepoId> {
    let (owner, identifier) = key.split_first_chunk::<32>()?;
    let identifier = std::str::from_utf8(identifier).ok()?.parse().ok()?;
    Some(RepoId { owner: PubKey::from_bytes(*owner), identifier })
}

//! What a hunt found, at the writer's desk: asked again whether anybody waits for it, then carried
//! through like a push. Also events that lack nothing any more, however that came about.

use super::affected::{Arriving, Intent, IntentKey};
use super::fetch_step;
use super::lacks::{Needy, Purpose, Waits, needs_of};
use super::views::standing;
use super::wanted;
use super::writer::Desk;
use crate::hub::Fresh;
use grasp_core::maintainers::Standing;
use grasp_core::{EventId, Oid, RepoId};
use grasp_git::{Objects, Quarantine, land, set_packs_aside};
use grasp_store::{Space, StoreError};
use std::collections::BTreeSet;

/// Objects that another server had, for events here that wait for them.
#[derive(Debug)]
pub struct Fetched {
    pub to: RepoId,
    pub purpose: Purpose,
    pub quarantine: Quarantine,
    /// Only a step on the way to what is missing: everything behind this is in the quarantine or was
    /// here (S-51).
    pub step: Option<Oid>,
}

/// A repository that has all it signed for again, next to packs that cannot be relied upon.
#[derive(Debug)]
pub struct Mended {
    pub repo: RepoId,
    /// What else those packs held, as far as it could be read.
    pub saved: Vec<Quarantine>,
    pub damaged_packs: Vec<String>,
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// Nobody waits for any of it, or not for this.
    No,
    Yes,
    /// And the repository is whole again.
    Mended,
}

/// What these objects do for those who wait.
#[derive(Debug, Default)]
struct Use {
    /// They bring at least one object that is missing.
    any: bool,
    found: BTreeSet<Oid>,
    proposals: BTreeSet<EventId>,
    revive: Vec<EventId>,
    /// All that the governing state of a damaged repository names.
    mends: bool,
}

impl Desk<'_> {
    /// What these objects complete is served when this returns; what they do not complete yet stays
    /// beside what comes next (S-36).
    pub(super) fn fetched(&mut self, mut it: Fetched) -> (Vec<Fresh>, Taken) {
        match self.try_fetched(&mut it) {
            Ok(taken) => taken,
            Err(error) => {
                tracing::error!(repo = %it.to, %error, "fetched objects could not be taken in");
                (Vec::new(), Taken::No)
            }
        }
    }

    fn try_fetched(&mut self, it: &mut Fetched) -> Result<(Vec<Fresh>, Taken), StoreError> {
        let serves = self.weigh(it)?;
        if !serves.any {
            return Ok((Vec::new(), Taken::No));
        }
        let mut intent = Intent::default();
        intent.affected.repo(&it.to).proposals.extend(&serves.proposals);
        intent.packs.push(Arriving::new(&it.to, it.quarantine.name()));
        let key = self.begin_reviving(&mut intent, &serves.revive, Some(it))?;
        it.quarantine.keep();
        let carried = self.carry(&key, &intent);
        carried.complain();
        let taken = match (carried.error.is_none(), serves.mends) {
            (true, true) => Taken::Mended,
            (true, false) => Taken::Yes,
            (false, _) => Taken::No,
        };
        if taken != Taken::No {
            // Here, because a job ends as soon as nobody waits for it any more.
            self.writer.metrics.hunt.found(serves.found.len());
        }
        Ok((carried.fresh, taken))
    }

    /// Who waits for what is in there? Asked now, because much may have changed since it was sent for.
    fn weigh(&mut self, it: &Fetched) -> Result<Use, StoreError> {
        let snapshot = self.writer.store.read()?;
        let (rules, repos) = (&self.writer.rules, &self.writer.host.repos);
        let is_welcome = match standing(&*snapshot, rules, &it.to)? {
            Some(Standing::Served) => true,
            // What a stranger proposes has no place before the repository has one.
            Some(Standing::Held) => it.purpose != Purpose::Proposal,
            None => false,
        };
        let Ok(objects) = Objects::open(it.quarantine.path()) else { return Ok(Use::default()) };
        if !is_welcome {
            return Ok(Use::default());
        }
        let needs = needs_of(&*snapshot, self.roles, rules, repos, &it.to)?;
        let mut serves = Use::default();
        for needy in needs.iter().filter(|needy| needy.to == it.to) {
            serves.add(needy, &needy.found_in(&objects));
            let leads_on = it.step.is_some_and(|step| objects.contains(&step));
            serves.any |= leads_on && needy.purpose == Purpose::State;
        }
        if it.purpose == Purpose::Repair {
            // It may look whole from outside: what is damaged is found by reading.
            let governing = super::views::governing(&*snapshot, self.roles, rules, &it.to)?;
            let wants = governing.map(|state| state.state.objects()).unwrap_or_default();
            serves.mends = !wants.is_empty() && wants.iter().all(|oid| objects.contains(oid));
            serves.any |= serves.mends;
            if serves.mends {
                serves.found.extend(wants);
            }
        }
        Ok(serves)
    }

    fn begin_reviving(
        &self,
        intent: &mut Intent,
        revive: &[EventId],
        fetched: Option<&Fetched>,
    ) -> Result<IntentKey, StoreError> {
        let (now, patience) = (self.at.now, self.writer.host.patience);
        let mut key = IntentKey::default();
        self.writer.store.write(&mut |txn| {
            for id in revive {
                if let Some(event) = wanted::revive(txn, id, now, patience)? {
                    intent.affected.event(&event);
                }
            }
            match fetched {
                Some(Fetched { to, step: Some(step), .. }) => fetch_step::put(txn, to, step)?,
                Some(it) if it.purpose != Purpose::Proposal => fetch_step::end(txn, &it.to)?,
                _ => {}
            }
            key = intent.write(txn)?;
            Ok(())
        })?;
        Ok(key)
    }

    /// What is good comes in, then what is bad goes; a crash in between is found by the next look.
    pub(super) fn mend(&mut self, mut it: Mended) -> Vec<Fresh> {
        let (layout, repo) = (&self.writer.host.layout, &it.repo);
        let mut replaced = Ok(());
        for saved in &mut it.saved {
            saved.keep();
            replaced = replaced.and_then(|()| land(layout, repo, saved.name()));
        }
        let set_aside = || set_packs_aside(&layout.repository(repo), &it.damaged_packs);
        match replaced.and_then(|()| set_aside()) {
            Ok(()) => tracing::warn!(%repo, packs = ?it.damaged_packs, "damaged packs set aside"),
            Err(error) => tracing::error!(%repo, %error, "damaged packs could not be set aside"),
        }
        self.look_after(&it.repo)
    }

    /// Events that lack nothing: served now, also if they had given up waiting.
    pub(super) fn complete(&mut self, ids: &[EventId]) -> Vec<Fresh> {
        match self.try_complete(ids) {
            Ok(fresh) => fresh,
            Err(error) => {
                tracing::error!(%error, "events that lack nothing could not be served");
                Vec::new()
            }
        }
    }

    fn try_complete(&mut self, ids: &[EventId]) -> Result<Vec<Fresh>, StoreError> {
        let mut intent = Intent::default();
        let snapshot = self.writer.store.read()?;
        for id in ids {
            if let Some(held) = snapshot.get(Space::Held, id)? {
                intent.affected.event(&held.event);
            }
        }
        drop(snapshot);
        let key = self.begin_reviving(&mut intent, ids, None)?;
        let carried = self.carry(&key, &intent);
        carried.complain();
        Ok(carried.fresh)
    }
}

impl Use {
    fn add(&mut self, needy: &Needy, found: &BTreeSet<Oid>) {
        if found.is_empty() {
            return;
        }
        self.any = true;
        self.found.extend(found);
        if *found != needy.missing {
            return;
        }
        if needy.purpose == Purpose::Proposal {
            self.proposals.insert(needy.id);
        }
        if needy.standing == Waits::Wanted {
            self.revive.push(needy.id);
        }
    }
}

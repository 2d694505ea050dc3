//! What a family of repositories should look like, given the events and objects that are here:
//! which waiting events are whole, which state each view follows, and which refs that means. Reads
//! only; the same question asked twice gives the same answer.

use super::affected::Concern;
use super::claims;
use super::roles::RoleCache;
use super::uploads;
use super::views::{
    HISTORY_MAX, Hosting, VIEWS_MAX, View, hosted, is_complete, preferred, said, state_of, views,
    waiting,
};
use crate::repos::{RepoError, Repos, Store};
use grasp_core::maintainers::{Family, Standing};
use grasp_core::nip34::PullRequest;
use grasp_core::policy::Rules;
use grasp_core::push::Candidate;
use grasp_core::unfit::UnfitRef;
use grasp_core::{Coordinate, EventId, Identifier, Oid, PubKey, RepoId};
use grasp_git::{Entry, RefEntries, RefTable};
use grasp_store::{Shelf, Snapshot, Space, StoreError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

#[derive(Debug, thiserror::Error)]
pub(super) enum PlanError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Repo(#[from] RepoError),
    /// It was complete a moment ago, so an object was lost meanwhile.
    #[error("{repo}: {unfit}")]
    Unfit { repo: RepoId, unfit: UnfitRef },
}

/// Objects one view needs and another has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copying {
    pub from: RepoId,
    pub to: RepoId,
    pub wants: BTreeSet<Oid>,
    /// The pull requests it is done for.
    pub proposals: BTreeSet<EventId>,
}

#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Uploads whose pull request has come: (repository, quarantine).
    pub(super) landings: Vec<(RepoId, String)>,
    /// Refs that have to change.
    pub(super) aligns: BTreeMap<RepoId, RefTable>,
    /// Which state each view follows from now on; `None`: no longer any.
    pub(super) follows: Vec<(RepoId, Option<EventId>)>,
    /// Held events to be served, in this order.
    pub(super) releases: Vec<EventId>,
    /// Served announcements that wait again.
    pub(super) held_again: Vec<EventId>,
    /// Served states that lost their ground.
    pub(super) retired: Vec<EventId>,
    /// States that regained their ground: what their authors said last comes back.
    pub(super) restored: Vec<Coordinate>,
    /// Pull requests whose uploads are settled.
    pub(super) claimed: Vec<(RepoId, EventId)>,
    pub(super) copies: Vec<Copying>,
    /// The family has more repositories than are kept in line.
    pub(super) is_crowded: bool,
}

pub(super) struct Planner<'a> {
    pub(super) store: &'a dyn Snapshot,
    pub(super) roles: &'a mut RoleCache,
    pub(super) rules: &'a Rules,
    pub(super) repos: &'a Repos,
}

/// A view with its objects and what its people have said.
struct Scope {
    view: View,
    store: Option<Arc<Store>>,
}

impl Scope {
    fn has(&self, state: &Candidate) -> bool {
        self.store.as_ref().is_some_and(|store| is_complete(store, &state.state))
    }

    /// Is this a place where the state's objects count? Only where its author has a say.
    fn vouches_for(&self, state: &Candidate) -> bool {
        self.view.members.contains(&state.state.author) && self.has(state)
    }
}

/// What everyone concerned has said, read once.
type Spoken = BTreeMap<PubKey, Vec<Candidate>>;

impl Planner<'_> {
    pub(super) fn plan(
        &mut self,
        identifier: &Identifier,
        concern: &Concern,
    ) -> Result<Plan, PlanError> {
        let (family, views) = views(self.store, self.roles, self.rules, identifier, &concern.keys)?;
        let is_crowded = views.len() >= VIEWS_MAX;
        let mut scopes = Vec::new();
        for view in views {
            // One that cannot be read is left as it is, and holds up none of the others.
            match self.repos.store(&view.repo) {
                Ok(store) => scopes.push(Scope { view, store }),
                Err(error) => tracing::error!(%error, "a repository cannot be read"),
            }
        }
        let members = scopes.iter().flat_map(|scope| scope.view.members.iter());
        let authors: BTreeSet<PubKey> = members.chain(&concern.keys).copied().collect();
        let mut plan = Plan { is_crowded, ..Plan::default() };
        let ready = self.ready(identifier, &authors, &family, &scopes)?;
        let mut spoken = Spoken::new();
        for author in &authors {
            spoken.insert(*author, said(self.store, author, identifier)?);
        }
        for scope in &scopes {
            self.view(scope, &spoken, &ready, &scopes, &mut plan)?;
        }
        plan.releases.extend(ready.iter().map(|it| it.id));
        if concern.left {
            plan.retired = self.groundless(identifier, &authors, &family)?;
        }
        plan.restored = self.regained(identifier, &authors, &scopes, &plan)?;
        for id in &concern.proposals {
            self.proposal(identifier, id, &scopes, &mut plan)?;
        }
        self.drop_what_is_so(&mut plan)?;
        Ok(plan)
    }

    /// Waiting states that need to wait no longer.
    fn ready(
        &self,
        identifier: &Identifier,
        authors: &BTreeSet<PubKey>,
        family: &Family,
        scopes: &[Scope],
    ) -> Result<Vec<Candidate>, PlanError> {
        let mut ready = Vec::new();
        for author in authors {
            let Some(waits) = waiting(self.store, author, identifier)? else { continue };
            let grant = family.authority(author, self.rules.maintainer_rule);
            let Some(grant) = grant.filter(|_| waits.state.satisfiable) else { continue };
            let whole = match waits.state.names_objects() {
                true => scopes.iter().any(|scope| scope.vouches_for(&waits)),
                false => grant.standing == Standing::Served,
            };
            if whole {
                ready.push(waits);
            }
        }
        Ok(ready)
    }

    /// Decides what one view follows.
    fn view(
        &self,
        scope: &Scope,
        spoken: &Spoken,
        ready: &[Candidate],
        scopes: &[Scope],
        plan: &mut Plan,
    ) -> Result<(), PlanError> {
        let View { repo, standing, members } = &scope.view;
        let by = members.iter().filter_map(|member| spoken.get(member));
        let mut candidates: Vec<Candidate> = by.flatten().cloned().collect();
        let by_members = |it: &&Candidate| members.contains(&it.state.author);
        let ready = ready.iter().filter(by_members).filter(|it| it.state.names_objects());
        candidates.extend(ready.cloned());
        match preferred(&candidates) {
            Some(governing) if scope.has(governing) => {
                self.follow(scope, governing, &candidates, plan)?;
                if *standing == Standing::Held {
                    let held = self.store.current_position(Space::Held, &repo.coordinate())?;
                    plan.releases.extend(held.map(|held| held.id()));
                }
            }
            Some(governing) => match scopes.iter().find(|other| other.vouches_for(governing)) {
                Some(source) => {
                    let (from, to) = (source.view.repo.clone(), repo.clone());
                    let (wants, proposals) = (governing.state.objects(), BTreeSet::new());
                    plan.copies.push(Copying { from, to, wants, proposals });
                }
                None => self.fall_back(scope, &candidates, plan)?,
            },
            None => self.follow_nothing(scope, plan)?,
        }
        Ok(())
    }

    fn follow(
        &self,
        scope: &Scope,
        governing: &Candidate,
        candidates: &[Candidate],
        plan: &mut Plan,
    ) -> Result<(), PlanError> {
        let Some(store) = &scope.store else { return Ok(()) };
        let mut earlier: Vec<&Candidate> =
            candidates.iter().filter(|it| it.id != governing.id).collect();
        earlier.sort_by_key(|it| std::cmp::Reverse(it.rank.created_at));
        let RefEntries { fit, unfit } = store.entries(&governing.state.refs);
        if let Some(unfit) = unfit.into_iter().next() {
            return Err(PlanError::Unfit { repo: scope.view.repo.clone(), unfit });
        }
        let current: BTreeSet<Oid> = governing.state.objects();
        let before = earlier.iter().take(HISTORY_MAX).flat_map(|it| it.state.refs.values());
        let kept = before.filter(|oid| !current.contains(oid)).filter(|oid| store.contains(oid));
        let kept = kept.copied().collect();
        let table = self.table(&scope.view.repo, plan)?;
        table.governed = fit;
        table.head = governing.state.head_branch(table.head.as_ref());
        table.kept = kept;
        plan.follows.push((scope.view.repo.clone(), Some(governing.id)));
        Ok(())
    }

    /// Objects of the preferred state are nowhere. Refs stay as they are, to be repaired by a push,
    /// unless they say what was taken back since.
    fn fall_back(
        &self,
        scope: &Scope,
        candidates: &[Candidate],
        plan: &mut Plan,
    ) -> Result<(), PlanError> {
        if !self.followed_is_gone(&scope.view.repo)? {
            return Ok(());
        }
        match preferred(candidates.iter().filter(|it| scope.has(it))) {
            Some(whole) => self.follow(scope, whole, candidates, plan),
            None => self.follow_nothing(scope, plan),
        }
    }

    fn followed_is_gone(&self, repo: &RepoId) -> Result<bool, PlanError> {
        let Some(followed) = followed(self.store, repo)? else { return Ok(false) };
        for space in [Space::Served, Space::History, Space::Held] {
            if self.store.contains(space, &followed)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Nobody with a say has signed anything that is left. If what the view followed was taken
    /// back, the view is empty and waits again; if its author merely lost their say, it stays.
    fn follow_nothing(&self, scope: &Scope, plan: &mut Plan) -> Result<(), PlanError> {
        let View { repo, standing, .. } = &scope.view;
        if !self.followed_is_gone(repo)? {
            return Ok(());
        }
        if scope.store.is_some() {
            let table = self.table(repo, plan)?;
            let last: Vec<Oid> = table.governed.values().map(|entry| entry.oid).collect();
            table.kept.extend(last);
            table.governed.clear();
            table.head = None;
        }
        if *standing == Standing::Served {
            let served = self.store.current_position(Space::Served, &repo.coordinate())?;
            plan.held_again.extend(served.map(|served| served.id()));
        }
        plan.follows.push((repo.clone(), None));
        Ok(())
    }

    /// Served states of people who have no say in any view any more.
    fn groundless(
        &self,
        identifier: &Identifier,
        authors: &BTreeSet<PubKey>,
        family: &Family,
    ) -> Result<Vec<EventId>, PlanError> {
        let mut found = Vec::new();
        for author in authors {
            if family.authority(author, self.rules.maintainer_rule).is_none() {
                let state = state_of(author, identifier);
                let served = self.store.current_position(Space::Served, &state)?;
                found.extend(served.map(|served| served.id()));
            }
        }
        Ok(found)
    }

    /// Authors in views that are served, who have nothing served themselves but said something once.
    fn regained(
        &self,
        identifier: &Identifier,
        authors: &BTreeSet<PubKey>,
        scopes: &[Scope],
        plan: &Plan,
    ) -> Result<Vec<Coordinate>, PlanError> {
        let mut served: BTreeSet<PubKey> = BTreeSet::new();
        for Scope { view, .. } in scopes {
            if self.is_served(&view.repo, plan)? {
                served.extend(&view.members);
            }
        }
        let mut found = Vec::new();
        for author in authors.iter().filter(|author| served.contains(author)) {
            let state = state_of(author, identifier);
            if self.store.current_position(Space::Served, &state)?.is_none()
                && self.store.current_position(Space::History, &state)?.is_some()
            {
                found.push(state);
            }
        }
        Ok(found)
    }

    /// A pull request's ref is there while its event, its claim and its commit are.
    fn proposal(
        &self,
        identifier: &Identifier,
        id: &EventId,
        scopes: &[Scope],
        plan: &mut Plan,
    ) -> Result<(), PlanError> {
        let served = self.store.get(Space::Served, id)?;
        let held = self.store.get(Space::Held, id)?;
        let is_held = served.is_none();
        let Some(event) = served.or(held) else {
            for scope in scopes.iter().filter(|scope| scope.store.is_some()) {
                self.table(&scope.view.repo, plan)?.proposals.remove(id);
            }
            return Ok(());
        };
        let Ok(PullRequest { targets, tip: Some(tip), .. }) = PullRequest::parse(&event.event)
        else {
            return Ok(());
        };
        let (mut with, mut without) = (Vec::new(), Vec::new());
        // Targets of other names are other families, and are looked at with those.
        for repo in targets.into_iter().filter(|repo| repo.identifier == *identifier) {
            if !self.is_served(&repo, plan)? {
                continue;
            }
            let Ok(store) = self.repos.store(&repo) else { continue };
            let there = store.is_some_and(|store| store.is_commit(&tip));
            if !self.may_have_ref(&repo, id, &tip, plan)? {
                self.table(&repo, plan)?.proposals.remove(id);
                with.extend(Some(repo).filter(|_| there));
                continue;
            }
            let upload = uploads::find(self.store, &repo, id, &tip)?;
            plan.claimed.push((repo.clone(), *id));
            match upload.filter(|_| !there) {
                Some(upload) => plan.landings.push((repo.clone(), upload.quarantine)),
                None if there => {}
                None => {
                    without.push(repo);
                    continue;
                }
            }
            let entry = Entry { oid: tip, peeled: None };
            self.table(&repo, plan)?.proposals.insert(*id, entry);
            with.push(repo);
        }
        if is_held && !with.is_empty() {
            plan.releases.push(*id);
        }
        for to in without {
            // Only among people who work together; strangers share nothing but a name.
            let Some(from) = with.iter().find(|from| are_related(scopes, from, &to)) else {
                continue;
            };
            let (wants, proposals) = (BTreeSet::from([tip]), BTreeSet::from([*id]));
            plan.copies.push(Copying { from: from.clone(), to, wants, proposals });
        }
        Ok(())
    }

    /// Not without a claim, and not for a commit that is the tip of a branch.
    fn may_have_ref(
        &self,
        repo: &RepoId,
        id: &EventId,
        tip: &Oid,
        plan: &mut Plan,
    ) -> Result<bool, PlanError> {
        let governed = &self.table(repo, plan)?.governed;
        let is_tip = governed.iter().any(|(name, entry)| name.is_branch() && entry.oid == *tip);
        Ok(!is_tip && claims::has(self.store, repo, id)?)
    }

    fn is_served(&self, repo: &RepoId, plan: &Plan) -> Result<bool, PlanError> {
        if hosted(self.store, self.rules, repo)? == Some(Hosting::Served) {
            return Ok(true);
        }
        let held = self.store.current_position(Space::Held, &repo.coordinate())?;
        Ok(held.is_some_and(|held| plan.releases.contains(&held.id())))
    }

    /// The refs of a repository as planned so far.
    fn table<'p>(&self, repo: &RepoId, plan: &'p mut Plan) -> Result<&'p mut RefTable, PlanError> {
        if !plan.aligns.contains_key(repo) {
            let refs = self.repos.shown(repo)?.refs.clone();
            plan.aligns.insert(repo.clone(), refs);
        }
        Ok(plan.aligns.entry(repo.clone()).or_default())
    }

    fn drop_what_is_so(&self, plan: &mut Plan) -> Result<(), PlanError> {
        for repo in plan.aligns.keys().cloned().collect::<Vec<_>>() {
            let shown = self.repos.shown(&repo)?;
            let lands = plan.landings.iter().any(|(to, _)| *to == repo);
            let is_so = plan.aligns.get(&repo) == Some(&shown.refs);
            if is_so || !(shown.exists || lands) {
                plan.aligns.remove(&repo);
            }
        }
        let mut changed = Vec::new();
        for (repo, state) in std::mem::take(&mut plan.follows) {
            if followed(self.store, &repo)? != state {
                changed.push((repo, state));
            }
        }
        plan.follows = changed;
        Ok(())
    }
}

/// Have two views of a family a maintainer in common?
fn are_related(scopes: &[Scope], one: &RepoId, other: &RepoId) -> bool {
    let of = |repo: &RepoId| {
        scopes.iter().find(|scope| scope.view.repo == *repo).map(|scope| &scope.view.members)
    };
    matches!((of(one), of(other)), (Some(one), Some(other)) if !one.is_disjoint(other))
}

/// The state a view was last aligned with.
pub(super) fn followed(store: &dyn Snapshot, repo: &RepoId) -> Result<Option<EventId>, StoreError> {
    let note = store.note(Shelf::Views, &view_key(repo))?;
    Ok(note.and_then(|note| note.as_slice().try_into().ok()).map(EventId::from_bytes))
}

pub(super) fn view_key(repo: &RepoId) -> Vec<u8> {
    [repo.owner.as_bytes(), repo.identifier.as_str().as_bytes()].concat()
}

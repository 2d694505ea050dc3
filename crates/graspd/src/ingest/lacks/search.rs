//! One walk over a family: its people's states, the pull requests for its repositories, and what is
//! served without being there.

use super::sources::Sources;
use super::tag_order::tags_by_version;
use super::{Lacking, Needy, Purpose, Question, Waits};
use crate::ingest::fetch_step;
use crate::ingest::views::{View, candidate, preferred, said, state_of};
use crate::repos::{RepoError, Repos, Shown, Store};
use grasp_core::maintainers::{Family, Standing};
use grasp_core::nip34::PullRequest;
use grasp_core::push::Candidate;
use grasp_core::terms::Term;
use grasp_core::unfit::Unfit;
use grasp_core::{EventId, Identifier, Kind, Oid, PubKey, RepoId};
use grasp_store::{Result, Snapshot, Space, StoredEvent};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Pull requests of one repository that are looked for at a time, the newest first.
const PROPOSALS_MAX: usize = 1_000;
/// What we say we have, so that less is sent.
const HAVES_MAX: usize = 256;

const WAITING: [(Space, Waits); 2] = [(Space::Held, Waits::Held), (Space::Wanted, Waits::Wanted)];

pub(super) struct Search<'a> {
    store: &'a dyn Snapshot,
    identifier: Identifier,
    scopes: Vec<Scope>,
    sources: Sources<'a>,
    found: Lacking,
}

/// One owner's view and its objects.
struct Scope {
    view: View,
    store: Option<Arc<Store>>,
    shown: Arc<Shown>,
    is_damaged: bool,
}

/// How the commit stands that a pull request names.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sight {
    Fits,
    Missing,
    /// It is here and is something else, which it will always be.
    Unfit,
}

impl Scope {
    /// `None` if nothing can be said about this repository.
    fn open(view: View, repos: &Repos, damaged: &BTreeSet<RepoId>) -> Option<Self> {
        let shown = match repos.shown(&view.repo) {
            Ok(shown) => shown,
            Err(error) => {
                tracing::error!(%error, "a repository cannot be read");
                return None;
            }
        };
        let (store, unreadable) = match repos.store(&view.repo) {
            Ok(store) => (store, false),
            Err(RepoError::Objects { .. }) => (None, true),
            Err(RepoError::Refs { .. }) => return None,
        };
        let is_damaged = unreadable || damaged.contains(&view.repo);
        Some(Self { view, store, shown, is_damaged })
    }

    /// What of this state is missing here; `None` if it can never be whole.
    fn missing(&self, state: &Candidate) -> Option<BTreeSet<Oid>> {
        let Some(store) = &self.store else { return Some(state.state.objects()) };
        let mut missing = BTreeSet::new();
        for unfit in store.entries(&state.state.refs).unfit {
            match unfit.why {
                // What cannot be read is fetched again.
                Unfit::Absent | Unfit::Unreadable => drop(missing.insert(unfit.oid)),
                _ => return None,
            }
        }
        Some(missing)
    }

    fn tip(&self, tip: &Oid) -> Sight {
        match &self.store {
            Some(store) if store.is_commit(tip) => Sight::Fits,
            Some(store) if store.contains(tip) => Sight::Unfit,
            _ => Sight::Missing,
        }
    }

    /// How far a fetch in steps has come, if that is still here.
    fn last_step(&self, store: &dyn Snapshot) -> Option<Oid> {
        let objects = self.store.as_ref().filter(|_| !self.is_damaged)?;
        let step = fetch_step::last(store, &self.view.repo).ok().flatten()?;
        Some(step).filter(|step| objects.contains(step))
    }

    fn has_a_say(&self, author: &PubKey) -> bool {
        self.view.members.contains(author)
    }

    fn is_served(&self) -> bool {
        self.view.standing == Standing::Served
    }

    /// Pull requests whose refs lead nowhere.
    fn lost_proposals(&self) -> impl Iterator<Item = EventId> {
        let shown = self.shown.refs.proposals.iter();
        shown.filter(|(_, entry)| self.tip(&entry.oid) == Sight::Missing).map(|(id, _)| *id)
    }
}

impl<'a> Search<'a> {
    pub(super) fn new(
        store: &'a dyn Snapshot,
        family: &'a Family,
        views: Vec<View>,
        question: &Question<'a>,
    ) -> Self {
        let open = |view| Scope::open(view, question.repos, question.damaged);
        let scopes: Vec<Scope> = views.into_iter().filter_map(open).collect();
        let mut found = Lacking::default();
        let served = scopes.iter().filter(|scope| scope.is_served());
        found.served = served.map(|scope| scope.view.repo.clone()).collect();
        for scope in &scopes {
            let tips = scope.shown.refs.governed.values().map(|entry| entry.oid).take(HAVES_MAX);
            found.haves.insert(scope.view.repo.clone(), tips.collect());
            if let Some(step) = scope.last_step(store) {
                found.haves.entry(scope.view.repo.clone()).or_default().insert(step);
                found.steps.insert(scope.view.repo.clone(), step);
            }
        }
        let identifier = question.family.identifier.clone();
        let sources = Sources::new(store, family, &identifier, question);
        Self { store, identifier, scopes, sources, found }
    }

    pub(super) fn everything(&mut self) -> Result<()> {
        self.states()?;
        self.proposals()?;
        self.repairs()
    }

    fn states(&mut self) -> Result<()> {
        let members = self.scopes.iter().flat_map(|scope| scope.view.members.iter());
        let authors: BTreeSet<PubKey> = members.copied().collect();
        for author in &authors {
            for (space, standing) in WAITING {
                let waits = self.store.current(space, &state_of(author, &self.identifier))?;
                let Some(state) = waits.as_ref().and_then(candidate) else { continue };
                if state.state.satisfiable && state.state.names_objects() {
                    self.state(&state, standing)?;
                }
            }
        }
        Ok(())
    }

    fn state(&mut self, state: &Candidate, standing: Waits) -> Result<()> {
        let author = state.state.author;
        let mut best: Option<(BTreeSet<Oid>, &Scope)> = None;
        // The repository that needs least, its author's own before others; from there they get it.
        let rank = |missing: &BTreeSet<Oid>, scope: &Scope| {
            (missing.len(), scope.view.repo.owner != author, !scope.is_served())
        };
        for scope in self.scopes.iter().filter(|scope| scope.has_a_say(&author)) {
            let Some(missing) = scope.missing(state) else { return Ok(()) };
            let is_better =
                |(other, of): &(BTreeSet<Oid>, &Scope)| rank(&missing, scope) < rank(other, of);
            if best.as_ref().is_none_or(is_better) {
                best = Some((missing, scope));
            }
        }
        let Some((mut missing, scope)) = best else { return Ok(()) };
        let (id, to) = (state.id, scope.view.repo.clone());
        let mut purpose = Purpose::State;
        if scope.is_damaged {
            (purpose, missing) = (Purpose::Repair, state.state.objects());
        } else if missing.is_empty() {
            self.found.complete.push(id);
            return Ok(());
        }
        let here = state.state.objects().difference(&missing).copied().collect::<Vec<_>>();
        if let Some(haves) = self.found.haves.get_mut(&to) {
            let room = HAVES_MAX.saturating_sub(haves.len());
            haves.extend(here.into_iter().take(room));
        }
        self.sources.announced_for(&author, &missing)?;
        let commits = commits_of(state, &missing);
        let tags = tags_by_version(&state.state, &missing);
        self.found.events.push(Needy { id, standing, purpose, to, missing, commits, tags });
        Ok(())
    }

    fn proposals(&mut self) -> Result<()> {
        let served = self.scopes.iter().filter(|scope| scope.is_served());
        let repos: Vec<RepoId> = served.map(|scope| scope.view.repo.clone()).collect();
        let mut seen = BTreeSet::new();
        for repo in repos {
            let at = Term::tag(b'a', &repo.coordinate().to_string());
            for (space, standing) in WAITING {
                for it in self.store.newest(space, &at, PROPOSALS_MAX)? {
                    if seen.insert(it.event.id) {
                        self.proposal(&it, standing)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn proposal(&mut self, it: &StoredEvent, standing: Waits) -> Result<()> {
        if !matches!(it.event.kind, Kind::PULL_REQUEST | Kind::PULL_REQUEST_UPDATE) {
            return Ok(());
        }
        let Ok(PullRequest { targets, tip: Some(tip), clone, .. }) = PullRequest::parse(&it.event)
        else {
            return Ok(());
        };
        let here = |scope: &&Scope| scope.is_served() && targets.contains(&scope.view.repo);
        let (id, mut to) = (it.event.id, None);
        for scope in self.scopes.iter().filter(here) {
            match scope.tip(&tip) {
                Sight::Unfit => return Ok(()),
                Sight::Fits => {
                    if standing != Waits::Served {
                        self.found.complete.push(id);
                    }
                    return Ok(());
                }
                Sight::Missing => to = to.or_else(|| Some(scope.view.repo.clone())),
            }
        }
        let Some(to) = to else { return Ok(()) };
        let (missing, purpose) = (BTreeSet::from([tip]), Purpose::Proposal);
        self.sources.announced_for(&to.owner, &missing)?;
        self.sources.proposed(&clone, &missing);
        let (commits, tags) = (missing.clone(), Vec::new());
        self.found.events.push(Needy { id, standing, purpose, to, missing, commits, tags });
        Ok(())
    }

    /// What is served and was lost. Its own word about what it has counts for nothing then.
    fn repairs(&mut self) -> Result<()> {
        let (mut broken, mut lost, mut unsettled) = (Vec::new(), BTreeSet::new(), Vec::new());
        for scope in self.scopes.iter().filter(|scope| scope.is_served()) {
            let mut states = Vec::new();
            for member in &scope.view.members {
                states.extend(said(self.store, member, &self.identifier)?);
            }
            let repo = scope.view.repo.clone();
            let Some(governing) = preferred(&states) else { continue };
            let is_whole = |scope: &Scope| scope.missing(governing).is_some_and(|it| it.is_empty());
            let author = governing.state.author;
            let vouches = |other: &&Scope| {
                other.view.repo != repo && other.has_a_say(&author) && !other.is_damaged
            };
            if scope.is_damaged {
                broken.push((governing.clone(), repo));
            } else if is_whole(scope) {
                lost.extend(scope.lost_proposals());
            } else if self.scopes.iter().filter(vouches).any(is_whole) {
                unsettled.push(repo);
            } else {
                broken.push((governing.clone(), repo));
            }
        }
        self.found.unsettled = unsettled;
        for (state, to) in broken {
            let (id, standing, purpose) = (state.id, Waits::Served, Purpose::Repair);
            let missing = state.state.objects();
            self.sources.announced_for(&state.state.author, &missing)?;
            let (commits, tags) = (commits_of(&state, &missing), Vec::new());
            self.found.events.push(Needy { id, standing, purpose, to, missing, commits, tags });
        }
        for id in lost {
            if let Some(it) = self.store.get(Space::Served, &id)? {
                self.proposal(&it, Waits::Served)?;
            }
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Lacking {
        let wants = self.found.wants();
        Lacking { sources: self.sources.in_order(&wants), ..self.found }
    }
}

/// Branches are commits; a tag may be anything.
fn commits_of(state: &Candidate, among: &BTreeSet<Oid>) -> BTreeSet<Oid> {
    let branches = state.state.refs.iter().filter(|(name, _)| name.is_branch());
    branches.map(|(_, oid)| *oid).filter(|oid| among.contains(oid)).collect()
}

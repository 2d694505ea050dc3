//! What the events of one family lack, and where that may be found (S-36, S-37). Reads only, and is
//! asked again before every fetch, so nothing here has to be remembered or kept in step.

use super::roles::RoleCache;
use super::views::{View, announcement, candidate, is_complete, preferred, said, state_of, views};
use crate::repos::{Repos, Shown, Store};
use grasp_core::maintainers::{Family, Standing};
use grasp_core::nip34::{Announcement, PullRequest};
use grasp_core::policy::Rules;
use grasp_core::push::Candidate;
use grasp_core::terms::Term;
use grasp_core::{CloneUrl, EventId, Identifier, Kind, Oid, PubKey, RepoId};
use grasp_engine::hunt::{FamilyId, Source};
use grasp_store::{EventStore, Result, Snapshot, Space, StoredEvent};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Pull requests of one repository that are looked for at a time, the newest first.
const PROPOSALS_MAX: usize = 1_000;
/// What we say we have, so that less is sent.
const HAVES_MAX: usize = 256;
/// A family that keeps growing while it is looked at is taken as it is.
const ROUNDS_MAX: usize = 4;

/// All that one family lacks.
#[derive(Debug, Default)]
pub struct Lacking {
    pub events: Vec<Needy>,
    pub sources: Vec<Source>,
    /// The family goes by another name now, and has to be looked for under that.
    pub elsewhere: Option<FamilyId>,
}

/// One event and the objects it waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needy {
    pub id: EventId,
    pub standing: Waits,
    pub purpose: Purpose,
    /// The repository its objects belong into.
    pub to: RepoId,
    pub missing: BTreeSet<Oid>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Waits {
    Held,
    /// It gave up waiting.
    Wanted,
    /// It is served, and what it names was lost.
    Served,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// Branches and tags that a maintainer signed.
    State,
    /// A stranger's commit.
    Proposal,
    /// All of a repository whose own objects cannot be relied upon.
    Repair,
}

/// Objects one repository gets in one go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errand {
    pub to: RepoId,
    pub purpose: Purpose,
    pub wants: BTreeSet<Oid>,
    pub haves: Vec<Oid>,
}

impl Lacking {
    pub fn wants(&self) -> BTreeSet<Oid> {
        self.events.iter().flat_map(|it| &it.missing).copied().collect()
    }

    /// Something here has a deadline.
    pub fn is_held(&self) -> bool {
        self.events.iter().any(|it| it.standing == Waits::Held)
    }

    /// The part of this that a job was asked to bring, by where it goes.
    pub fn errands(&self, wants: &BTreeSet<Oid>, repos: &Repos) -> Vec<Errand> {
        let mut grouped: BTreeMap<(Purpose, RepoId), BTreeSet<Oid>> = BTreeMap::new();
        for it in &self.events {
            let missing = it.missing.intersection(wants).copied();
            grouped.entry((it.purpose, it.to.clone())).or_default().extend(missing);
        }
        let asked = grouped.into_iter().filter(|(_, wants)| !wants.is_empty());
        let errand = |((purpose, to), wants)| {
            let haves = if purpose == Purpose::Repair { Vec::new() } else { haves(repos, &to) };
            Errand { to, purpose, wants, haves }
        };
        asked.map(errand).collect()
    }
}

fn haves(repos: &Repos, to: &RepoId) -> Vec<Oid> {
    let Ok(shown) = repos.shown(to) else { return Vec::new() };
    let tips: BTreeSet<Oid> = shown.refs.governed.values().map(|entry| entry.oid).collect();
    tips.into_iter().take(HAVES_MAX).collect()
}

/// The families an event belongs to; none if no repository of it is here.
pub fn families_of(
    store: &dyn EventStore,
    rules: &Rules,
    events: &[StoredEvent],
) -> Result<Vec<Vec<FamilyId>>> {
    let snapshot = store.read()?;
    let mut looker = Looker { store: &*snapshot, roles: &mut RoleCache::default(), rules };
    events.iter().map(|it| looker.families_of(it)).collect()
}

/// What is asked about a family.
#[derive(Debug)]
pub struct Question<'a> {
    pub rules: &'a Rules,
    pub repos: &'a Repos,
    pub family: &'a FamilyId,
    /// Repositories whose own objects cannot be relied upon.
    pub damaged: &'a BTreeSet<RepoId>,
    /// Clone addresses followed per event, the first it names.
    pub urls_per_event_max: usize,
}

/// What a family lacks now.
pub fn lacking(store: &dyn EventStore, question: &Question<'_>) -> Result<Lacking> {
    let Question { rules, repos, family: id, damaged, urls_per_event_max } = *question;
    let snapshot = store.read()?;
    let mut looker = Looker { store: &*snapshot, roles: &mut RoleCache::default(), rules };
    let (family, views) = looker.whole_family(&id.identifier, id.owner)?;
    let Some(named) = name(&id.identifier, &views) else { return Ok(Lacking::default()) };
    if named != *id {
        return Ok(Lacking { elsewhere: Some(named), ..Lacking::default() });
    }
    let scopes = views.into_iter().map(|view| {
        let store = repos.store(&view.repo).ok().flatten();
        let is_damaged = damaged.contains(&view.repo);
        let shown = repos.shown(&view.repo).ok();
        Scope { view, store, shown, is_damaged }
    });
    let mut search = Search {
        store: &*snapshot,
        rules,
        family: &family,
        scopes: scopes.collect(),
        found: Lacking::default(),
        urls: Vec::new(),
        urls_per_event_max,
    };
    search.states(&id.identifier)?;
    search.proposals()?;
    search.repairs(&id.identifier)?;
    Ok(search.finish())
}

struct Looker<'a> {
    store: &'a dyn Snapshot,
    roles: &'a mut RoleCache,
    rules: &'a Rules,
}

impl Looker<'_> {
    fn families_of(&mut self, it: &StoredEvent) -> Result<Vec<FamilyId>> {
        let repos: Vec<RepoId> = match it.event.kind {
            Kind::PULL_REQUEST | Kind::PULL_REQUEST_UPDATE => {
                PullRequest::parse(&it.event).map(|it| it.targets).unwrap_or_default()
            }
            Kind::STATE | Kind::ANNOUNCEMENT => {
                let owner = it.event.pubkey;
                let identifier = it.event.d().parse().ok();
                identifier.map(|identifier| RepoId { owner, identifier }).into_iter().collect()
            }
            _ => Vec::new(),
        };
        let mut found = BTreeSet::new();
        for repo in repos {
            let (_, views) = self.whole_family(&repo.identifier, repo.owner)?;
            found.extend(name(&repo.identifier, &views));
        }
        Ok(found.into_iter().collect())
    }

    /// Everyone whose membership shares a key with somebody's, from whomever one starts.
    fn whole_family(
        &mut self,
        identifier: &Identifier,
        from: PubKey,
    ) -> Result<(Family, Vec<View>)> {
        let mut around = BTreeSet::from([from]);
        let mut found = views(self.store, self.roles, self.rules, identifier, &around)?;
        for _ in 1..ROUNDS_MAX {
            let before = around.len();
            around.extend(found.1.iter().flat_map(|view| view.members.iter()));
            around.extend(found.1.iter().map(|view| view.repo.owner));
            if around.len() == before {
                break;
            }
            found = views(self.store, self.roles, self.rules, identifier, &around)?;
        }
        Ok(found)
    }
}

fn name(identifier: &Identifier, views: &[View]) -> Option<FamilyId> {
    let owner = views.iter().map(|view| view.repo.owner).min()?;
    Some(FamilyId { owner, identifier: identifier.clone() })
}

/// One owner's view and its objects.
struct Scope {
    view: View,
    store: Option<Arc<Store>>,
    shown: Option<Arc<Shown>>,
    is_damaged: bool,
}

impl Scope {
    fn missing(&self, state: &Candidate) -> BTreeSet<Oid> {
        let fits = |name, oid| self.store.as_ref().is_some_and(|store| store.fits(name, oid));
        let lacking = state.state.refs.iter().filter(|(name, oid)| !fits(name, oid));
        lacking.map(|(_, oid)| *oid).collect()
    }

    /// Pull requests whose refs lead nowhere.
    fn lost_proposals(&self) -> impl Iterator<Item = EventId> {
        let shown = self.shown.iter().flat_map(|shown| &shown.refs.proposals);
        shown.filter(|(_, entry)| !self.has_tip(&entry.oid)).map(|(id, _)| *id)
    }

    fn has_tip(&self, tip: &Oid) -> bool {
        self.store.as_ref().is_some_and(|store| store.is_commit(tip))
    }
}

struct Search<'a> {
    store: &'a dyn Snapshot,
    rules: &'a Rules,
    family: &'a Family,
    scopes: Vec<Scope>,
    found: Lacking,
    /// Where the objects of some event may be, in the order of finding.
    urls: Vec<(CloneUrl, BTreeSet<Oid>)>,
    urls_per_event_max: usize,
}

impl Search<'_> {
    fn states(&mut self, identifier: &Identifier) -> Result<()> {
        let authors: BTreeSet<PubKey> =
            self.scopes.iter().flat_map(|scope| scope.view.members.iter()).copied().collect();
        for author in &authors {
            for (space, standing) in [(Space::Held, Waits::Held), (Space::Wanted, Waits::Wanted)] {
                let waits = self.store.current(space, &state_of(author, identifier))?;
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
        let say = self.scopes.iter().filter(|scope| scope.view.members.contains(&author));
        let lacks = say.map(|scope| (scope.missing(state), scope));
        // The repository that needs least; from there the others get it.
        let Some((missing, scope)) = lacks.min_by_key(|(missing, _)| missing.len()) else {
            return Ok(());
        };
        if missing.is_empty() {
            return Ok(());
        }
        let (id, to) = (state.id, scope.view.repo.clone());
        self.announced_for(&author, &missing)?;
        let purpose = Purpose::State;
        self.found.events.push(Needy { id, standing, purpose, to, missing });
        Ok(())
    }

    fn proposals(&mut self) -> Result<()> {
        let served = |scope: &&Scope| scope.view.standing == Standing::Served;
        let repos: Vec<RepoId> =
            self.scopes.iter().filter(served).map(|scope| scope.view.repo.clone()).collect();
        let mut seen = BTreeSet::new();
        for repo in repos {
            let at = Term::tag(b'a', &repo.coordinate().to_string());
            for (space, standing) in [(Space::Held, Waits::Held), (Space::Wanted, Waits::Wanted)] {
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
        let here = |scope: &&Scope| {
            scope.view.standing == Standing::Served && targets.contains(&scope.view.repo)
        };
        let mut here = self.scopes.iter().filter(here).peekable();
        let Some(to) = here.peek().map(|scope| scope.view.repo.clone()) else { return Ok(()) };
        if here.any(|scope| scope.has_tip(&tip)) {
            return Ok(());
        }
        let missing = BTreeSet::from([tip]);
        self.announced_for(&to.owner, &missing)?;
        self.add_urls(&clone, &missing);
        let (id, purpose) = (it.event.id, Purpose::Proposal);
        self.found.events.push(Needy { id, standing, purpose, to, missing });
        Ok(())
    }

    /// What is served and was lost. Its own word about what it has counts for nothing then.
    fn repairs(&mut self, identifier: &Identifier) -> Result<()> {
        let (mut broken, mut lost) = (Vec::new(), BTreeSet::new());
        for scope in &self.scopes {
            let mut states = Vec::new();
            for member in &scope.view.members {
                states.extend(said(self.store, member, identifier)?);
            }
            let Some(governing) = preferred(&states) else { continue };
            let is_whole = scope.store.as_ref().is_some_and(|it| is_complete(it, &governing.state));
            if scope.is_damaged || !is_whole {
                broken.push((governing.clone(), scope.view.repo.clone()));
                continue;
            }
            lost.extend(scope.lost_proposals());
        }
        for (state, to) in broken {
            let (id, standing, purpose) = (state.id, Waits::Served, Purpose::Repair);
            let missing = state.state.objects();
            self.announced_for(&state.state.author, &missing)?;
            self.found.events.push(Needy { id, standing, purpose, to, missing });
        }
        for id in lost {
            if let Some(it) = self.store.get(Space::Served, &id)? {
                self.proposal(&it, Waits::Served)?;
            }
        }
        Ok(())
    }

    /// The clone addresses of all announcements in whose view this author has a say.
    fn announced_for(&mut self, author: &PubKey, missing: &BTreeSet<Oid>) -> Result<()> {
        let Some(identifier) = self.scopes.first().map(|it| it.view.repo.identifier.clone()) else {
            return Ok(());
        };
        for owner in self.family.keys() {
            let members = self.family.members_of(owner, self.rules.maintainer_rule);
            if !members.is_ok_and(|members| members.contains(author)) {
                continue;
            }
            let repo = RepoId { owner: *owner, identifier: identifier.clone() };
            let Some((current, _)) = announcement(self.store, &repo)? else { continue };
            if let Ok(it) = Announcement::parse(&current.event) {
                self.add_urls(&it.clone, missing);
            }
        }
        Ok(())
    }

    fn add_urls(&mut self, texts: &[String], missing: &BTreeSet<Oid>) {
        let others = texts.iter().take(self.urls_per_event_max);
        let others = others.filter(|text| !self.rules.service.is_here(text));
        for url in others.filter_map(|text| text.parse::<CloneUrl>().ok()) {
            match self.urls.iter_mut().find(|(known, _)| *known == url) {
                Some((_, covers)) => covers.extend(missing),
                None => self.urls.push((url, missing.clone())),
            }
        }
    }

    /// GRASP servers first, they have what was signed; among equals as they were named.
    fn finish(mut self) -> Lacking {
        let wants = self.found.wants();
        self.urls.sort_by_key(|(url, covers)| (!url.has_grasp_form(), covers.len() < wants.len()));
        let source = |(url, covers): (CloneUrl, BTreeSet<Oid>)| {
            let covers = Some(covers).filter(|covers| covers.len() < wants.len());
            Source { url, covers }
        };
        self.found.sources = self.urls.into_iter().map(source).collect();
        self.found
    }
}

//! What the events of one family lack, and where that may be found (S-36, S-37). Reads only, and is
//! asked again before every fetch and at every landing, so nothing here has to be kept in step.

mod search;
mod sources;
mod tag_order;

use super::roles::RoleCache;
use super::views::{View, views};
use crate::repos::Repos;
use grasp_core::maintainers::{Family, Standing};
use grasp_core::nip34::PullRequest;
use grasp_core::policy::Rules;
use grasp_core::{EventId, Identifier, Kind, Oid, PubKey, RepoId};
use grasp_engine::hunt::{FamilyId, FamilyStanding, Source};
use grasp_git::{ObjectKind, Objects};
use grasp_store::{EventStore, Result, Snapshot, Space, StoredEvent};
use search::Search;
use std::collections::{BTreeMap, BTreeSet};

/// A family that keeps growing while it is looked at is taken as it is.
const ROUNDS_MAX: usize = 4;

/// All that one family lacks.
#[derive(Debug, Default)]
pub struct Lacking {
    pub events: Vec<Needy>,
    /// Held or wanted, and all they name is here: nothing but a look keeps them from being served.
    pub complete: Vec<EventId>,
    /// Served repositories that lack what another one here has.
    pub unsettled: Vec<RepoId>,
    pub sources: Vec<Source>,
    pub standing: FamilyStanding,
    /// Its repositories that are served.
    served: BTreeSet<RepoId>,
    /// Nothing goes by this name any more; what belonged to it may go by another.
    pub is_gone: bool,
    /// What each repository has, with all behind it, as far as it is worth telling.
    pub(super) haves: BTreeMap<RepoId, BTreeSet<Oid>>,
    /// How far fetches in steps have come that did not end (S-51).
    pub(super) steps: BTreeMap<RepoId, Oid>,
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
    /// Those of them that must be commits.
    pub commits: BTreeSet<Oid>,
    /// Those of them that tags name, oldest version first.
    pub tags: Vec<Oid>,
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
    /// All of a repository whose own objects cannot be relied upon.
    Repair,
    /// Branches and tags that a maintainer signed.
    State,
    /// A stranger's commit.
    Proposal,
}

/// Objects one repository gets in one go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Errand {
    pub to: RepoId,
    pub purpose: Purpose,
    pub wants: BTreeSet<Oid>,
    /// Those of them that must be commits.
    pub commits: BTreeSet<Oid>,
    /// Those of them that tags name, oldest version first.
    pub tags: Vec<Oid>,
    pub haves: Vec<Oid>,
    /// How far an earlier fetch in steps came; one of the haves.
    pub step: Option<Oid>,
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
    /// Whose turn it is where not all can be named.
    pub turn: usize,
}

/// What a family lacks now.
pub fn lacking(store: &dyn EventStore, question: &Question<'_>) -> Result<Lacking> {
    let snapshot = store.read()?;
    let (rules, id) = (question.rules, question.family);
    let mut looker = Looker { store: &*snapshot, roles: &mut RoleCache::default(), rules };
    let (family, views) = looker.whole_family(&id.identifier, id.owner)?;
    if name(&id.identifier, &views).as_ref() != Some(id) {
        return Ok(Lacking { is_gone: true, ..Lacking::default() });
    }
    let standing = standing_of(&*snapshot, &id.owner, &views)?;
    let mut search = Search::new(&*snapshot, &family, views, question);
    search.everything()?;
    Ok(Lacking { standing, ..search.finish() })
}

/// An owner is known by a repository that is served: its git data was pushed or fetched once.
fn standing_of(store: &dyn Snapshot, owner: &PubKey, views: &[View]) -> Result<FamilyStanding> {
    if views.iter().any(|view| view.standing == Standing::Served) {
        return Ok(FamilyStanding::Served);
    }
    let served = store.by_author(Space::Served, owner, Kind::ANNOUNCEMENT, 1)?;
    Ok(match served.is_empty() {
        true => FamilyStanding::UnknownOwner,
        false => FamilyStanding::KnownOwner,
    })
}

/// What events lack that objects for this one repository could complete.
pub(super) fn needs_of(
    store: &dyn Snapshot,
    roles: &mut RoleCache,
    rules: &Rules,
    repos: &Repos,
    repo: &RepoId,
) -> Result<Vec<Needy>> {
    let family = FamilyId { owner: repo.owner, identifier: repo.identifier.clone() };
    let around = BTreeSet::from([repo.owner]);
    let (kin, views) = views(store, roles, rules, &repo.identifier, &around)?;
    let views = views.into_iter().filter(|view| view.repo == *repo).collect();
    let (damaged, urls_per_event_max, turn) = (&BTreeSet::new(), 0, 0);
    let question = Question { rules, repos, family: &family, damaged, urls_per_event_max, turn };
    let mut search = Search::new(store, &kin, views, &question);
    search.everything()?;
    Ok(search.finish().events)
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

/// The same for one event and a snapshot at hand.
pub(super) fn families_in(
    store: &dyn Snapshot,
    roles: &mut RoleCache,
    rules: &Rules,
    it: &StoredEvent,
) -> Result<Vec<FamilyId>> {
    Looker { store, roles, rules }.families_of(it)
}

/// How many objects one repository lacks of what was signed for it.
pub(super) fn lacked_by(
    store: &dyn Snapshot,
    rules: &Rules,
    repos: &Repos,
    repo: &RepoId,
) -> Result<usize> {
    let needs = needs_of(store, &mut RoleCache::default(), rules, repos, repo)?;
    let missing: BTreeSet<&Oid> = needs.iter().flat_map(|it| &it.missing).collect();
    Ok(missing.len())
}

/// The families of these repositories, as far as they are here.
pub fn families_around(
    store: &dyn EventStore,
    rules: &Rules,
    repos: &[RepoId],
) -> Result<Vec<Option<FamilyId>>> {
    let snapshot = store.read()?;
    let mut looker = Looker { store: &*snapshot, roles: &mut RoleCache::default(), rules };
    let mut family = |repo: &RepoId| {
        let (_, views) = looker.whole_family(&repo.identifier, repo.owner)?;
        Ok(name(&repo.identifier, &views))
    };
    repos.iter().map(&mut family).collect()
}

impl Needy {
    /// Which of what it lacks is among these objects, and is what the event says it is.
    pub(super) fn found_in(&self, objects: &Objects) -> BTreeSet<Oid> {
        let fits = |oid: &&Oid| match self.commits.contains(*oid) {
            true => objects.kind(oid) == Some(ObjectKind::Commit),
            false => objects.contains(oid),
        };
        self.missing.iter().filter(fits).copied().collect()
    }
}

impl Lacking {
    pub fn wants(&self) -> BTreeSet<Oid> {
        self.events.iter().flat_map(|it| &it.missing).copied().collect()
    }

    /// What strangers alone propose: pull requests and, beside a repository that is served, states
    /// of others that are not.
    pub fn proposed_wants(&self) -> BTreeSet<Oid> {
        let is_proposed = |it: &&Needy| match it.purpose {
            Purpose::Proposal => true,
            Purpose::State | Purpose::Repair => {
                !self.served.is_empty() && !self.served.contains(&it.to)
            }
        };
        let (proposed, owed): (Vec<&Needy>, Vec<&Needy>) =
            self.events.iter().partition(is_proposed);
        let owed: BTreeSet<Oid> = owed.iter().flat_map(|it| &it.missing).copied().collect();
        let proposed = proposed.iter().flat_map(|it| &it.missing);
        proposed.filter(|oid| !owed.contains(oid)).copied().collect()
    }

    /// Something here has a deadline.
    pub fn is_held(&self) -> bool {
        self.events.iter().any(|it| it.standing == Waits::Held)
    }

    /// Events some of whose time must not run out while these objects are fetched.
    pub fn held_for(&self, wants: &BTreeSet<Oid>) -> Vec<EventId> {
        let held = self.events.iter().filter(|it| it.standing == Waits::Held);
        held.filter(|it| !it.missing.is_disjoint(wants)).map(|it| it.id).collect()
    }

    /// The part of this that a job was asked to bring, by where it goes.
    pub fn errands(&self, wants: &BTreeSet<Oid>) -> Vec<Errand> {
        let mut grouped: BTreeMap<(Purpose, &RepoId), Errand> = BTreeMap::new();
        for it in &self.events {
            let errand = grouped.entry((it.purpose, &it.to)).or_insert_with(|| {
                let haves = self.haves.get(&it.to).filter(|_| it.purpose != Purpose::Repair);
                let step = self.steps.get(&it.to).filter(|_| it.purpose == Purpose::State);
                let others = haves.into_iter().flatten().filter(|oid| Some(*oid) != step);
                Errand {
                    to: it.to.clone(),
                    purpose: it.purpose,
                    wants: BTreeSet::new(),
                    commits: BTreeSet::new(),
                    tags: Vec::new(),
                    haves: step.into_iter().chain(others).copied().collect(),
                    step: step.copied(),
                }
            });
            errand.wants.extend(it.missing.intersection(wants));
            errand.commits.extend(it.commits.intersection(wants));
            errand.tags.extend(it.tags.iter().filter(|oid| wants.contains(oid)));
        }
        grouped.into_values().filter(|errand| !errand.wants.is_empty()).collect()
    }
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
            if around.len() == before {
                break;
            }
            found = views(self.store, self.roles, self.rules, identifier, &around)?;
        }
        Ok(found)
    }
}

/// By the least owner of those that are served, and only without any by one that is not: who merely
/// announces something takes nobody's name.
fn name(identifier: &Identifier, views: &[View]) -> Option<FamilyId> {
    let key = |view: &&View| (view.standing != Standing::Served, view.repo.owner);
    let owner = views.iter().min_by_key(key)?.repo.owner;
    Some(FamilyId { owner, identifier: identifier.clone() })
}

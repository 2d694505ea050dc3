//! A family of repositories as it stands: which owners' views are hosted here, who has a say in
//! each, and which states those people have signed.

use super::gather::family;
use super::holds;
use super::roles::RoleCache;
use crate::host::Host;
use crate::repos::Store;
use grasp_core::hold::Phase;
use grasp_core::maintainers::{Family, Standing};
use grasp_core::nip34::{Announcement, PullRequest, State};
use grasp_core::policy::Rules;
use grasp_core::push::{Candidate, Command, Proposal, Scene, Target};
use grasp_core::terms::Term;
use grasp_core::{Coordinate, Event, EventId, Identifier, Kind, Oid, PubKey, RepoId};
use grasp_store::{Result, Snapshot, Space, StoredEvent};
use std::collections::{BTreeMap, BTreeSet};

/// Versions of one author's state kept after they were replaced.
pub(super) const HISTORY_MAX: usize = 10;
/// Views of one family that are kept in line; more owners of one project than this list us rarely.
pub(super) const VIEWS_MAX: usize = 128;

/// One owner's repository here.
#[derive(Debug)]
pub(super) struct View {
    pub(super) repo: RepoId,
    pub(super) standing: Standing,
    /// Empty if it cannot be said who has a say.
    pub(super) members: BTreeSet<PubKey>,
}

/// How far a repository has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hosting {
    Served,
    Held,
}

/// Is this repository hosted here? An announcement that sleeps offers no git service.
pub fn hosted(store: &dyn Snapshot, rules: &Rules, repo: &RepoId) -> Result<Option<Hosting>> {
    let Some((found, standing)) = announcement(store, repo)? else { return Ok(None) };
    if !Announcement::parse(&found.event).is_ok_and(|it| rules.hosts(&it)) {
        return Ok(None);
    }
    Ok(match standing {
        Standing::Served => Some(Hosting::Served),
        Standing::Held => {
            let asleep =
                holds::of(store, &found.event.id)?.is_some_and(|hold| hold.phase == Phase::Asleep);
            (!asleep).then_some(Hosting::Held)
        }
    })
}

/// The same for one that may sleep.
pub(super) fn standing(
    store: &dyn Snapshot,
    rules: &Rules,
    repo: &RepoId,
) -> Result<Option<Standing>> {
    let Some((found, standing)) = announcement(store, repo)? else { return Ok(None) };
    let hosts = Announcement::parse(&found.event).is_ok_and(|it| rules.hosts(&it));
    Ok(Some(standing).filter(|_| hosts))
}

/// The newest announcement of a repository; served if any version is.
pub(super) fn announcement(
    store: &dyn Snapshot,
    repo: &RepoId,
) -> Result<Option<(StoredEvent, Standing)>> {
    let coordinate = repo.coordinate();
    let served = store.current(Space::Served, &coordinate)?;
    let held = store.current(Space::Held, &coordinate)?;
    let standing = if served.is_some() { Standing::Served } else { Standing::Held };
    let newest = match (served, held) {
        (Some(served), Some(held)) if held.event.rank().beats(&served.event.rank()) => Some(held),
        (served, held) => served.or(held),
    };
    Ok(newest.map(|newest| (newest, standing)))
}

/// The family around some keys, and the views of it that are hosted here.
pub(super) fn views(
    store: &dyn Snapshot,
    roles: &mut RoleCache,
    rules: &Rules,
    identifier: &Identifier,
    around: &BTreeSet<PubKey>,
) -> Result<(Family, Vec<View>)> {
    let family = family(store, roles, around.iter().copied(), identifier.as_str())?;
    let mut found: Vec<View> = Vec::new();
    // Those it is about come first; strangers who merely list them cannot take their place.
    let is_asked_for = |owner: &&PubKey| around.contains(owner);
    let is_served =
        |owner: &&PubKey| family.member(owner).is_some_and(|it| it.standing == Standing::Served);
    let others = || family.keys().iter().filter(|owner| !is_asked_for(owner));
    let asked_for = family.keys().iter().filter(is_asked_for);
    let ordered = asked_for.chain(others().filter(is_served));
    let ordered = ordered.chain(others().filter(|owner| !is_served(owner)));
    for owner in ordered {
        if found.len() == VIEWS_MAX {
            break;
        }
        let repo = RepoId { owner: *owner, identifier: identifier.clone() };
        let members = family.members_of(owner, rules.maintainer_rule).unwrap_or_default();
        let shares = |other: &View| !other.members.is_disjoint(&members);
        let belongs =
            around.contains(owner) || !members.is_disjoint(around) || found.iter().any(shares);
        if !belongs {
            continue;
        }
        let Some((current, standing)) = announcement(store, &repo)? else { continue };
        if Announcement::parse(&current.event).is_ok_and(|it| rules.hosts(&it)) {
            found.push(View { repo, standing, members });
        }
    }
    Ok((family, found))
}

pub(super) fn state_of(author: &PubKey, identifier: &Identifier) -> Coordinate {
    let identifier = identifier.as_str().to_owned();
    Coordinate { kind: Kind::STATE, pubkey: *author, identifier }
}

pub(super) fn candidate(stored: &StoredEvent) -> Option<Candidate> {
    candidate_of(&stored.event)
}

pub(super) fn candidate_of(event: &Event) -> Option<Candidate> {
    let state = State::parse(event).ok()?;
    Some(Candidate { id: event.id, rank: event.rank(), state })
}

/// The state an author has waiting.
pub(super) fn waiting(
    store: &dyn Snapshot,
    author: &PubKey,
    identifier: &Identifier,
) -> Result<Option<Candidate>> {
    let held = store.current(Space::Held, &state_of(author, identifier))?;
    Ok(held.as_ref().and_then(candidate))
}

/// What an author has said before, served or superseded, as far as it can govern refs.
pub(super) fn said(
    store: &dyn Snapshot,
    author: &PubKey,
    identifier: &Identifier,
) -> Result<Vec<Candidate>> {
    let coordinate = state_of(author, identifier);
    let served = store.current(Space::Served, &coordinate)?;
    let earlier = store.newest(Space::History, &Term::coordinate(&coordinate), HISTORY_MAX)?;
    let all = served.iter().chain(&earlier).filter_map(candidate);
    Ok(all.filter(|it| it.state.names_objects() && it.state.satisfiable).collect())
}

pub(super) fn preferred<'a>(of: impl IntoIterator<Item = &'a Candidate>) -> Option<&'a Candidate> {
    of.into_iter().reduce(|best, it| if it.rank.beats(&best.rank) { it } else { best })
}

/// The state a repository's people signed last, of those that are served or were.
pub(super) fn governing(
    store: &dyn Snapshot,
    roles: &mut RoleCache,
    rules: &Rules,
    repo: &RepoId,
) -> Result<Option<Candidate>> {
    let family = family(store, roles, [repo.owner], repo.identifier.as_str())?;
    let members = family.members_of(&repo.owner, rules.maintainer_rule).unwrap_or_default();
    let mut states = Vec::new();
    for member in &members {
        states.extend(said(store, member, &repo.identifier)?);
    }
    Ok(preferred(&states).cloned())
}

/// Can every branch and tag of this state be shown here?
pub(super) fn is_complete(store: &Store, state: &State) -> bool {
    store.entries(&state.refs).is_complete()
}

/// Everything the decision about a push looks at; `None` if the repository is not hosted here.
pub(super) fn scene(
    store: &dyn Snapshot,
    roles: &mut RoleCache,
    rules: &Rules,
    host: &Host,
    repo: &RepoId,
    commands: &[Command],
) -> Result<Option<Scene>> {
    if hosted(store, rules, repo)?.is_none() {
        return Ok(None);
    }
    let shown = host.repos.shown(repo).map_err(|error| {
        tracing::error!(%error, "a repository cannot be read");
        grasp_store::StoreError::Damaged("a repository's refs cannot be read")
    })?;
    let family = family(store, roles, [repo.owner], repo.identifier.as_str())?;
    let members = family.members_of(&repo.owner, rules.maintainer_rule).unwrap_or_default();
    let (mut held, mut before) = (Vec::new(), Vec::new());
    for member in &members {
        let waits = waiting(store, member, &repo.identifier)?;
        held.extend(waits.filter(|it| it.state.satisfiable && it.state.names_objects()));
        before.extend(said(store, member, &repo.identifier)?);
    }
    let mut scene = Scene {
        refs: shown.governed(),
        proposals: shown.refs.proposals.iter().map(|(id, entry)| (*id, entry.oid)).collect(),
        held,
        governing: preferred(&before).cloned(),
        known: known_proposals(store, repo, commands)?,
        lost: host.same_second.of(&repo.identifier),
        present: BTreeSet::new(),
    };
    scene.present = present_objects(&scene, host, repo, commands);
    Ok(Some(scene))
}

/// Objects of the states in question that this repository has, apart from those the push brings.
fn present_objects(
    scene: &Scene,
    host: &Host,
    repo: &RepoId,
    commands: &[Command],
) -> BTreeSet<Oid> {
    let Ok(Some(objects)) = host.repos.store(repo) else { return BTreeSet::new() };
    let named: BTreeSet<Oid> = commands.iter().filter_map(|command| command.new).collect();
    let signed = scene.candidates().flat_map(|it| &it.state.refs);
    let differing = signed.filter(|(name, oid)| scene.refs.get(*name) != Some(*oid));
    let asked: BTreeSet<Oid> = differing.map(|(_, oid)| *oid).collect();
    asked.difference(&named).copied().filter(|oid| objects.contains(oid)).collect()
}

fn known_proposals(
    store: &dyn Snapshot,
    repo: &RepoId,
    commands: &[Command],
) -> Result<BTreeMap<EventId, Proposal>> {
    let mut known = BTreeMap::new();
    for command in commands {
        let Some(Target::Proposal(id)) = &command.target else { continue };
        for space in [Space::Served, Space::Held] {
            if let Some(found) = store.get(space, id)? {
                known.insert(*id, proposal(&found, repo));
            }
        }
    }
    Ok(known)
}

fn proposal(found: &StoredEvent, repo: &RepoId) -> Proposal {
    let is_one = matches!(found.event.kind, Kind::PULL_REQUEST | Kind::PULL_REQUEST_UPDATE);
    match PullRequest::parse(&found.event) {
        Ok(it) if is_one && it.targets.contains(repo) => Proposal::Here(it.tip),
        Ok(_) if is_one => Proposal::Elsewhere,
        _ => Proposal::NoPullRequest,
    }
}

/// A state by its id, wherever it is.
pub(super) fn state_by_id(store: &dyn Snapshot, id: &EventId) -> Result<Option<State>> {
    for space in [Space::Held, Space::Served, Space::History] {
        if let Some(found) = store.get(space, id)? {
            return Ok(State::parse(&found.event).ok());
        }
    }
    Ok(None)
}

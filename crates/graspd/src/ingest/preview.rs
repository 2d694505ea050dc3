//! Questions about repositories that are asked outside the writer, of a snapshot: may this push
//! begin, who else will need its objects, do refs say what was signed.

use super::gather::family;
use super::plan::followed;
use super::roles::RoleCache;
use super::uploads::{self, UploadLimits};
use super::views::{is_complete, preferred, said, scene, state_by_id, views};
use super::waiting::Hall;
use crate::host::Host;
use crate::repos::Repos;
use grasp_core::nip34::Announcement;
use grasp_core::policy::Rules;
use grasp_core::push::{Command, Decision, Denial, Difference, authorise};
use grasp_core::{Event, EventId, Filter, Kind, Oid, RepoId, Time, Timestamp};
use grasp_store::{Budget, Cursor, EventStore, Hit, Progress, Result, Snapshot, Space, Want};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug)]
pub struct Preview {
    pub decision: Decision,
    /// Held events the push is for: the state, the pull requests, the announcement.
    pub waiting: Vec<EventId>,
    /// What the state waits for that the push does not lead to, as everybody is told.
    pub obstacle: Option<String>,
}

/// A push that may begin or not.
#[derive(Debug)]
pub struct PushQuestion<'a> {
    pub rules: &'a Rules,
    pub host: &'a Host,
    pub repo: &'a RepoId,
    pub commands: &'a [Command],
    pub now: Time,
}

/// What would be decided about a push now; `None` if the repository is not hosted here.
pub fn preview(store: &dyn EventStore, question: &PushQuestion<'_>) -> Result<Option<Preview>> {
    let PushQuestion { rules, host, repo, commands, now } = *question;
    let snapshot = store.read()?;
    let mut roles = RoleCache::default();
    let Some(scene) = scene(&*snapshot, &mut roles, rules, host, repo, commands)? else {
        return Ok(None);
    };
    let decision = authorise(commands, &scene);
    let mut waiting = Vec::new();
    if let Decision::Allow(grant) = &decision {
        let announcement = snapshot.current_position(Space::Held, &repo.coordinate())?;
        waiting.extend(grant.state);
        waiting.extend(grant.claimed.keys());
        waiting.extend(announcement.map(|it| it.id()).filter(|_| grant.state.is_some()));
    }
    let obstacle = match &decision {
        Decision::Deny(Denial::Differs { state, .. }) => {
            let (store, repos, wanted_for) = (&*snapshot, &*host.repos, host.wanted.kept);
            let mut hall = Hall { store, rules, repos, now, wanted_for, roles };
            hall.of(state)?.map(|it| it.words)
        }
        _ => None,
    };
    Ok(Some(Preview { decision, waiting, obstacle }))
}

/// Why no more unclaimed data is taken, if so.
pub fn may_upload(
    store: &dyn EventStore,
    repo: &RepoId,
    from: &str,
    limits: &UploadLimits,
) -> Result<Option<&'static str>> {
    uploads::refusal(&*store.read()?, repo, from, (1, 0), limits)
}

/// Another owner's repository that will follow a state and lacks objects of it.
#[derive(Debug)]
pub struct Need {
    pub repo: RepoId,
    pub wants: BTreeSet<Oid>,
    /// What it has, as far as the source has it too.
    pub has: BTreeSet<Oid>,
    /// How many refs it will have.
    pub refs: usize,
}

pub fn others_in_need(
    store: &dyn EventStore,
    rules: &Rules,
    repos: &Repos,
    source: &RepoId,
    state: &EventId,
) -> Result<Vec<Need>> {
    let snapshot = store.read()?;
    let Some(state) = state_by_id(&*snapshot, state)? else { return Ok(Vec::new()) };
    let (mut roles, around) = (RoleCache::default(), BTreeSet::from([source.owner, state.author]));
    let (_, views) = views(&*snapshot, &mut roles, rules, &source.identifier, &around)?;
    let there = repos.store(source).ok().flatten();
    let mut needs = Vec::new();
    for view in views {
        if view.repo == *source || !view.members.contains(&state.author) {
            continue;
        }
        let own = repos.store(&view.repo).ok().flatten();
        if own.is_some_and(|own| is_complete(&own, &state)) {
            continue;
        }
        let tips = repos.shown(&view.repo).map(|shown| shown.governed()).unwrap_or_default();
        let shared = |oid: &Oid| there.as_ref().is_some_and(|store| store.contains(oid));
        let has = tips.into_values().filter(shared).collect();
        let (wants, refs) = (state.objects(), state.refs.len());
        needs.push(Need { repo: view.repo, wants, has, refs });
    }
    Ok(needs)
}

/// Where a repository's refs on the disk do not say what was signed.
pub fn compare(
    store: &dyn EventStore,
    rules: &Rules,
    repos: &Repos,
    repo: &RepoId,
) -> Result<Option<Difference>> {
    let snapshot = store.read()?;
    let mut roles = RoleCache::default();
    let family = family(&*snapshot, &mut roles, [repo.owner], repo.identifier.as_str())?;
    let members = family.members_of(&repo.owner, rules.maintainer_rule).unwrap_or_default();
    let mut states = Vec::new();
    for member in &members {
        states.extend(said(&*snapshot, member, &repo.identifier)?);
    }
    let signed = match preferred(&states) {
        Some(governing) => governing.state.refs.clone(),
        // Nobody with a say has signed anything, so nothing may be there; unless the author of what
        // is there merely lost their say.
        None if members.is_empty() || still_stands(&*snapshot, repo)? => return Ok(None),
        None => BTreeMap::new(),
    };
    let shown = match repos.read(repo) {
        Ok(shown) => shown.governed(),
        Err(error) => {
            tracing::error!(%error, "a repository cannot be read");
            return Ok(None);
        }
    };
    Ok(Difference::between(&shown, &signed))
}

/// Is the state a view was aligned with still here?
fn still_stands(store: &dyn Snapshot, repo: &RepoId) -> Result<bool> {
    let Some(state) = followed(store, repo)? else { return Ok(false) };
    Ok(store.contains(Space::Served, &state)? || store.contains(Space::History, &state)?)
}

/// A walk over everything that is hosted here, a few at a time.
#[derive(Debug)]
pub struct Round(Cursor);

impl Default for Round {
    fn default() -> Self {
        let kinds = Some([Kind::ANNOUNCEMENT].into());
        let announcements = Filter { kinds, ..Filter::default() };
        Self(Cursor::new([announcements].into(), Want::Bodies, u64::MAX, Timestamp(u64::MAX)))
    }
}

/// Repositories looked at in one go.
const STEPS: Budget = Budget { steps: 16, bytes: 4 << 20 };

impl Round {
    /// The next few repositories; `false` after the last.
    pub fn next(&mut self, store: &dyn EventStore, rules: &Rules) -> Result<(Vec<RepoId>, bool)> {
        let mut found = Vec::new();
        let mut sink = |hit: Hit<'_>| {
            let event = Event::from_json(hit.json).ok();
            let it = event.and_then(|event| Announcement::parse(&event).ok());
            found.extend(it.filter(|it| rules.hosts(it)).map(|it| it.repo));
        };
        let progress =
            store.read()?.advance(Space::Served, &mut self.0, &mut { STEPS }, &mut sink)?;
        Ok((found, progress == Progress::Paused))
    }
}

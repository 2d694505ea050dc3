//! Looks up what the rules want to know about one event, and nothing more. Every question here is
//! a bounded number of index lookups, whatever the event says; bodies are read only where a rule
//! needs their words, and an announcement's roles are read once.

use super::roles::RoleCache;
use super::uploads;
use super::views::{Hosting, hosted, is_complete, said, views};
use crate::repos::{Repos, Store};
use grasp_core::event::Rank;
use grasp_core::maintainers::{Family, Member, Standing};
use grasp_core::nip09::Deletion;
use grasp_core::nip34::{Announcement, PullRequest, References, State};
use grasp_core::policy::{
    About, AnnouncementFacts, Current, DeletionFacts, Facts, GraspListFacts, ProfileFacts,
    PullRequestFacts, Rules, StateFacts, Subject, still_wanted,
};
use grasp_core::terms::{Term, pointing_at};
use grasp_core::unfit::{Unfit, UnfitRef};
use grasp_core::{Coordinate, Event, EventId, Kind, Oid, PubKey, RepoId};
use grasp_store::{Position, Result, Shelf, Snapshot, Space};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

const SPACES: [(Space, Standing); 2] =
    [(Space::Served, Standing::Served), (Space::Held, Standing::Held)];

/// Where facts come from.
pub(super) struct Sources<'a> {
    pub(super) store: &'a dyn Snapshot,
    pub(super) roles: &'a mut RoleCache,
    pub(super) repos: &'a Repos,
    pub(super) rules: &'a Rules,
}

pub(super) fn gather(from: &mut Sources<'_>, event: &Event, subject: &Subject) -> Result<Facts> {
    let (store, rules) = (from.store, from.rules);
    let versions = match event.coordinate() {
        Some(coordinate) => Versions::of(store, &coordinate)?,
        None => Versions::default(),
    };
    let mut facts = Facts {
        known: known(store, &event.id)?,
        erased: store.erased(event)?,
        current: versions.current(),
        expired: store.note(Shelf::Expired, event.id.as_bytes())?.is_some()
            || store.contains(Space::Wanted, &event.id)?,
        about: About::Related(None),
    };
    // What is settled already needs no dear facts; the judge comes to the same answer.
    if still_wanted(event, &facts, rules).is_ok() {
        facts.about = about(from, event, subject, &versions)?;
    }
    Ok(facts)
}

pub(super) fn known(store: &dyn Snapshot, id: &EventId) -> Result<Option<Standing>> {
    for (space, standing) in SPACES {
        if store.contains(space, id)? {
            return Ok(Some(standing));
        }
    }
    Ok(None)
}

/// What is here under one address, by its place in the order: the lesser position is the one that
/// wins.
#[derive(Default)]
struct Versions {
    served: Option<Position>,
    held: Option<Position>,
}

impl Versions {
    fn of(store: &dyn Snapshot, coordinate: &Coordinate) -> Result<Self> {
        Ok(Self {
            served: store.current_position(Space::Served, coordinate)?,
            held: store.current_position(Space::Held, coordinate)?,
        })
    }

    fn newest(&self) -> Option<(Space, EventId)> {
        let served = self.served.map(|position| (position, Space::Served));
        let held = self.held.map(|position| (position, Space::Held));
        let newest = served.into_iter().chain(held).min_by_key(|(position, _)| *position);
        newest.map(|(position, space)| (space, position.id()))
    }

    fn standing(&self) -> Standing {
        if self.served.is_some() { Standing::Served } else { Standing::Held }
    }

    fn current(&self) -> Option<Current> {
        let newest = self.served.into_iter().chain(self.held).min()?;
        let rank = Rank { created_at: newest.created_at(), id: newest.id() };
        Some(Current { rank, standing: self.standing() })
    }
}

/// The same for an event that is held already and may have to wait no longer.
pub(super) fn gather_again(
    from: &mut Sources<'_>,
    event: &Event,
    subject: &Subject,
) -> Result<Facts> {
    let versions = match event.coordinate() {
        Some(coordinate) => Versions::of(from.store, &coordinate)?,
        None => Versions::default(),
    };
    Ok(Facts {
        known: None,
        erased: from.store.erased(event)?,
        current: versions.current(),
        expired: false,
        about: about(from, event, subject, &versions)?,
    })
}

fn about(
    from: &mut Sources<'_>,
    event: &Event,
    subject: &Subject,
    versions: &Versions,
) -> Result<About> {
    let (store, rules) = (from.store, from.rules);
    Ok(match subject {
        Subject::Announcement(it) => About::Announcement(AnnouncementFacts {
            family: family(store, from.roles, [event.pubkey], event.d())?,
            hosted: is_hosted(store, versions, rules)?,
            withdrawn: withdrawn(store, event)?,
            data_present: versions.served.is_none() && has_data(from, &it.repo)?,
        }),
        Subject::State(it) => {
            let (present, unfit) = present(from, it)?;
            About::State(StateFacts {
                announced: is_announced(store, event.d())?,
                present,
                unfit,
                family: family(store, from.roles, [event.pubkey], event.d())?,
            })
        }
        Subject::PullRequest(it) => About::PullRequest(PullRequestFacts {
            anchor: anchor(store, event, &it.references)?,
            tip_present: has_tip(from, &event.id, it)?,
        }),
        Subject::GraspList => About::GraspList(GraspListFacts {
            stored: store.events_of_kind(Space::Served, Kind::GRASP_LIST)?,
        }),
        Subject::Profile(references) => About::Profile(ProfileFacts {
            anchor: anchor(store, event, references)?,
            takes_part: takes_part(store, &event.pubkey)?,
        }),
        Subject::Deletion(deletion) => About::Deletion(targets(store, deletion)?),
        Subject::Vanish(_) => About::Vanish { author_known: is_known(store, &event.pubkey)? },
        Subject::Related(references) | Subject::Passing(references) => {
            About::Related(anchor(store, event, references)?)
        }
    })
}

/// Which of a state's objects are here: all of them if one repository of its family has all, else
/// those of the repository that has most. Also a ref whose object is here and cannot be shown.
fn present(from: &mut Sources<'_>, state: &State) -> Result<(BTreeSet<Oid>, Option<UnfitRef>)> {
    let (mut most, mut misfit) = (BTreeSet::new(), None);
    if state.refs.is_empty() || !state.satisfiable {
        return Ok((most, misfit));
    }
    let around = BTreeSet::from([state.author]);
    let (_, views) = views(from.store, from.roles, from.rules, &state.identifier, &around)?;
    // Only where its author has a say: other people's objects prove nothing.
    for view in views.iter().filter(|view| view.members.contains(&state.author)) {
        let Some(store) = open(from.repos, &view.repo) else { continue };
        let entries = store.entries(&state.refs);
        if entries.is_complete() {
            return Ok((state.objects(), None));
        }
        let lacking: BTreeSet<Oid> = entries.unfit.iter().map(|it| it.oid).collect();
        let here: BTreeSet<Oid> = state.objects().difference(&lacking).copied().collect();
        if here.len() > most.len() {
            most = here;
        }
        let is_here = |it: &UnfitRef| !matches!(it.why, Unfit::Absent | Unfit::Unreadable);
        misfit = misfit.or_else(|| entries.unfit.into_iter().find(is_here));
    }
    Ok((most, misfit))
}

/// Is a state by someone with a say here, with all of its objects? So for an owner who returns.
fn has_data(from: &mut Sources<'_>, repo: &RepoId) -> Result<bool> {
    let Some(store) = open(from.repos, repo) else { return Ok(false) };
    let family = family(from.store, from.roles, [repo.owner], repo.identifier.as_str())?;
    let members = family.members_of(&repo.owner, from.rules.maintainer_rule);
    // The announcement being judged may be the first; its owner counts in any case.
    let members = members.unwrap_or_default();
    for member in members.iter().chain([&repo.owner]) {
        let states = said(from.store, member, &repo.identifier)?;
        if states.iter().any(|it| is_complete(&store, &it.state)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has_tip(from: &Sources<'_>, id: &EventId, it: &PullRequest) -> Result<bool> {
    let Some(tip) = it.tip else { return Ok(false) };
    for repo in &it.targets {
        let Some(hosting) = hosted(from.store, from.rules, repo)? else { continue };
        let is_there = open(from.repos, repo).is_some_and(|store| store.is_commit(&tip));
        let uploaded = uploads::find(from.store, repo, id, &tip)?.is_some();
        if hosting == Hosting::Served && (is_there || uploaded) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A repository that cannot be read has nothing to offer; the check that watches over it reports.
fn open(repos: &Repos, repo: &RepoId) -> Option<Arc<Store>> {
    repos.store(repo).unwrap_or_else(|error| {
        tracing::error!(%error, "a repository cannot be read");
        None
    })
}

fn is_hosted(store: &dyn Snapshot, versions: &Versions, rules: &Rules) -> Result<bool> {
    let Some((space, id)) = versions.newest() else { return Ok(false) };
    let current = store.get(space, &id)?;
    let current = current.and_then(|current| Announcement::parse(&current.event).ok());
    Ok(current.is_some_and(|current| rules.hosts(&current)))
}

fn withdrawn(store: &dyn Snapshot, event: &Event) -> Result<Option<Rank>> {
    let Some(coordinate) = event.coordinate() else { return Ok(None) };
    let left = store.current_position(Space::Aside, &coordinate)?;
    Ok(left.map(|left| Rank { created_at: left.created_at(), id: left.id() }))
}

fn is_announced(store: &dyn Snapshot, identifier: &str) -> Result<bool> {
    let term = Term::announces(identifier);
    Ok(store.has_term(Space::Served, &term)? || store.has_term(Space::Held, &term)?)
}

fn is_known(store: &dyn Snapshot, author: &PubKey) -> Result<bool> {
    let mut spaces = [Space::Served, Space::Held, Space::Wanted].into_iter();
    spaces.try_fold(false, |known, space| Ok(known || store.has_author(space, author)?))
}

/// Who wrote what a deletion names; one foreign target is enough to know.
fn targets(store: &dyn Snapshot, deletion: &Deletion) -> Result<DeletionFacts> {
    let author_known = is_known(store, &deletion.author)?;
    let mut facts = DeletionFacts { author_known, ..DeletionFacts::default() };
    for id in &deletion.ids {
        for space in [Space::Served, Space::Held, Space::Wanted] {
            let author = store.header(space, id)?.map(|header| header.author);
            facts.targets.extend(author.map(|author| (*id, author)));
            if author.is_some_and(|author| author != deletion.author) {
                return Ok(facts);
            }
        }
    }
    Ok(facts)
}

/// The announcements of one identifier near some keys. A lookup that fails is reported, so that a
/// broken store never looks like a small family.
pub(super) fn family(
    store: &dyn Snapshot,
    roles: &mut RoleCache,
    around: impl IntoIterator<Item = PubKey>,
    identifier: &str,
) -> Result<Family> {
    let failed = RefCell::new(None);
    let announcement_of = |key: &PubKey| {
        member(store, roles, key, identifier).unwrap_or_else(|error| {
            failed.borrow_mut().get_or_insert(error);
            None
        })
    };
    let listers_of = |key: &PubKey| {
        listers(store, key, identifier).unwrap_or_else(|error| {
            failed.borrow_mut().get_or_insert(error);
            Vec::new()
        })
    };
    let family = Family::gather(around, announcement_of, listers_of);
    match failed.into_inner() {
        Some(error) => Err(error),
        None => Ok(family),
    }
}

/// One person's announcement: the newest version decides the roles, even while it is held.
fn member(
    store: &dyn Snapshot,
    roles: &mut RoleCache,
    key: &PubKey,
    identifier: &str,
) -> Result<Option<Member>> {
    let identifier = identifier.to_owned();
    let coordinate = Coordinate { kind: Kind::ANNOUNCEMENT, pubkey: *key, identifier };
    let versions = Versions::of(store, &coordinate)?;
    let Some((space, id)) = versions.newest() else { return Ok(None) };
    let roles = roles.of(store, space, &id)?;
    Ok(roles.map(|roles| Member { roles, standing: versions.standing() }))
}

const LISTERS_MAX: usize = 256;

/// Those with a served announcement first.
fn listers(store: &dyn Snapshot, key: &PubKey, identifier: &str) -> Result<Vec<PubKey>> {
    let term = Term::lists(key, identifier);
    let mut found = store.authors(Space::Served, &term, LISTERS_MAX)?;
    found.extend(store.authors(Space::Held, &term, LISTERS_MAX)?);
    Ok(found)
}

/// The best standing among what an event refers to and what refers to it.
fn anchor(
    store: &dyn Snapshot,
    event: &Event,
    references: &References,
) -> Result<Option<Standing>> {
    let pointers = pointing_at(&event.id, event.coordinate().as_ref());
    let addresses = references.coordinates.iter().map(Term::coordinate);
    let terms: Vec<Term> = addresses.chain(pointers).collect();
    for (space, standing) in SPACES {
        for id in &references.ids {
            if *id != event.id && store.contains(space, id)? {
                return Ok(Some(standing));
            }
        }
        for term in &terms {
            if store.has_term(space, term)? {
                return Ok(Some(standing));
            }
        }
    }
    Ok(None)
}

/// Has this author said anything beyond who they are and what is to be forgotten?
fn takes_part(store: &dyn Snapshot, author: &PubKey) -> Result<Option<Standing>> {
    let says_nothing = [Kind(0), Kind(10_002), Kind::GRASP_LIST, Kind::DELETION, Kind::VANISH];
    for (space, standing) in SPACES {
        if store.has_author_beyond(space, author, &says_nothing)? {
            return Ok(Some(standing));
        }
    }
    Ok(None)
}

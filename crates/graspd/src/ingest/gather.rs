//! Looks up what the rules want to know about one event, and nothing more. Every question here is
//! a bounded number of index lookups, whatever the event says; bodies are read only where a rule
//! needs their words, and an announcement's roles are read once.

use super::roles::RoleCache;
use grasp_core::event::Rank;
use grasp_core::maintainers::{Family, Member, Standing};
use grasp_core::nip09::Deletion;
use grasp_core::nip34::{Announcement, References};
use grasp_core::policy::{
    About, AnnouncementFacts, Current, DeletionFacts, Facts, GraspListFacts, ProfileFacts,
    PullRequestFacts, Rules, StateFacts, Subject, still_wanted,
};
use grasp_core::terms::{Term, pointing_at};
use grasp_core::{Coordinate, Event, EventId, Kind, PubKey};
use grasp_store::{Position, Result, Snapshot, Space};
use std::cell::RefCell;

const SPACES: [(Space, Standing); 2] =
    [(Space::Served, Standing::Served), (Space::Held, Standing::Held)];

pub(super) fn gather(
    store: &dyn Snapshot,
    roles: &mut RoleCache,
    event: &Event,
    subject: &Subject,
    rules: &Rules,
) -> Result<Facts> {
    let versions = match event.coordinate() {
        Some(coordinate) => Versions::of(store, &coordinate)?,
        None => Versions::default(),
    };
    let mut facts = Facts {
        known: known(store, &event.id)?,
        erased: store.erased(event)?,
        current: versions.current(),
        expired: false,
        about: About::Related(None),
    };
    // What is settled already needs no dear facts; the judge comes to the same answer.
    if still_wanted(event, &facts, rules).is_ok() {
        facts.about = about(store, roles, event, subject, rules, &versions)?;
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

fn about(
    store: &dyn Snapshot,
    roles: &mut RoleCache,
    event: &Event,
    subject: &Subject,
    rules: &Rules,
    versions: &Versions,
) -> Result<About> {
    Ok(match subject {
        Subject::Announcement(_) => About::Announcement(AnnouncementFacts {
            family: family(store, roles, &event.pubkey, event.d())?,
            hosted: is_hosted(store, versions, rules)?,
            withdrawn: withdrawn(store, event)?,
            data_present: false,
        }),
        Subject::State(_) => About::State(StateFacts {
            announced: is_announced(store, event.d())?,
            family: family(store, roles, &event.pubkey, event.d())?,
            ..StateFacts::default()
        }),
        Subject::PullRequest(it) => About::PullRequest(PullRequestFacts {
            anchor: anchor(store, event, &it.references)?,
            tip_present: false,
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
    Ok(store.has_author(Space::Served, author)? || store.has_author(Space::Held, author)?)
}

/// Who wrote what a deletion names; one foreign target is enough to know.
fn targets(store: &dyn Snapshot, deletion: &Deletion) -> Result<DeletionFacts> {
    let author_known = is_known(store, &deletion.author)?;
    let mut facts = DeletionFacts { author_known, ..DeletionFacts::default() };
    for id in &deletion.ids {
        for (space, _) in SPACES {
            let author = store.header(space, id)?.map(|header| header.author);
            facts.targets.extend(author.map(|author| (*id, author)));
            if author.is_some_and(|author| author != deletion.author) {
                return Ok(facts);
            }
        }
    }
    Ok(facts)
}

/// The announcements of one identifier near a key. A lookup that fails is reported, so that a
/// broken store never looks like a small family.
fn family(
    store: &dyn Snapshot,
    roles: &mut RoleCache,
    author: &PubKey,
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
    let family = Family::gather([*author], announcement_of, listers_of);
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

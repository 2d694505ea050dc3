//! Looks up what the rules want to know about one event, and nothing more. Every question here is
//! a bounded number of index lookups, whatever the event says.

use grasp_core::maintainers::{Family, Member, Standing};
use grasp_core::nip34::References;
use grasp_core::policy::{
    About, AnnouncementFacts, Current, DeletionFacts, Facts, GraspListFacts, ProfileFacts,
    PullRequestFacts, Rules, StateFacts, Subject,
};
use grasp_core::terms::{Term, pointing_at};
use grasp_core::{Coordinate, Event, Kind, PubKey};
use grasp_store::{Result, Snapshot, Space, StoredEvent};

pub(super) fn gather(
    store: &dyn Snapshot,
    event: &Event,
    subject: &Subject,
    rules: &Rules,
) -> Result<Facts> {
    let versions = match event.coordinate() {
        Some(coordinate) => Versions::of(store, &coordinate)?,
        None => Versions::default(),
    };
    Ok(Facts {
        known: known(store, event)?,
        erased: store.erased(event)?,
        current: versions.current(),
        expired: false,
        about: about(store, event, subject, rules, &versions)?,
    })
}

pub(super) fn known(store: &dyn Snapshot, event: &Event) -> Result<Option<Standing>> {
    Ok(if store.contains(Space::Served, &event.id)? {
        Some(Standing::Served)
    } else if store.contains(Space::Held, &event.id)? {
        Some(Standing::Held)
    } else {
        None
    })
}

/// What is here under one address.
#[derive(Default)]
struct Versions {
    served: Option<StoredEvent>,
    held: Option<StoredEvent>,
}

impl Versions {
    fn of(store: &dyn Snapshot, coordinate: &Coordinate) -> Result<Self> {
        let served = store.current(Space::Served, coordinate)?;
        Ok(Self { served, held: store.current(Space::Held, coordinate)? })
    }

    fn newest(&self) -> Option<&Event> {
        let served = self.served.as_ref().map(|stored| stored.event.event());
        let held = self.held.as_ref().map(|stored| stored.event.event());
        match (served, held) {
            (Some(served), Some(held)) if held.rank().beats(&served.rank()) => Some(held),
            (served, held) => served.or(held),
        }
    }

    fn current(&self) -> Option<Current> {
        let standing = if self.served.is_some() { Standing::Served } else { Standing::Held };
        self.newest().map(|newest| Current { rank: newest.rank(), standing })
    }

    fn member(&self) -> Option<Member> {
        let event = |stored: &Option<StoredEvent>| stored.as_ref().map(|s| s.event.event().clone());
        Member::of(event(&self.served).as_ref(), event(&self.held).as_ref())
    }
}

fn about(
    store: &dyn Snapshot,
    event: &Event,
    subject: &Subject,
    rules: &Rules,
    versions: &Versions,
) -> Result<About> {
    let author_known = || -> Result<bool> {
        let anything = |space| store.kinds_of(space, &event.pubkey).map(|kinds| !kinds.is_empty());
        Ok(anything(Space::Served)? || anything(Space::Held)?)
    };
    Ok(match subject {
        Subject::Announcement(_) => About::Announcement(AnnouncementFacts {
            family: family(store, &event.pubkey, event.d())?,
            hosted: versions.newest().is_some_and(|current| is_hosted(current, rules)),
            withdrawn: withdrawn(store, event)?,
            data_present: false,
        }),
        Subject::State(_) => About::State(StateFacts {
            announced: is_announced(store, event.d())?,
            family: family(store, &event.pubkey, event.d())?,
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
        Subject::Deletion(deletion) => {
            let mut facts =
                DeletionFacts { author_known: author_known()?, ..DeletionFacts::default() };
            for id in &deletion.ids {
                for space in [Space::Served, Space::Held] {
                    let author = store.get(space, id)?.map(|stored| stored.event.pubkey);
                    facts.targets.extend(author.map(|author| (*id, author)));
                }
            }
            About::Deletion(facts)
        }
        Subject::Vanish(_) => About::Vanish { author_known: author_known()? },
        Subject::Related(references) | Subject::Passing(references) => {
            About::Related(anchor(store, event, references)?)
        }
    })
}

fn is_hosted(announcement: &Event, rules: &Rules) -> bool {
    grasp_core::nip34::Announcement::parse(announcement).is_ok_and(|it| rules.hosts(&it))
}

fn withdrawn(store: &dyn Snapshot, event: &Event) -> Result<Option<grasp_core::event::Rank>> {
    let Some(coordinate) = event.coordinate() else { return Ok(None) };
    Ok(store.current(Space::Aside, &coordinate)?.map(|left| left.event.rank()))
}

fn is_announced(store: &dyn Snapshot, identifier: &str) -> Result<bool> {
    let term = Term::announces(identifier);
    Ok(store.has_term(Space::Served, &term)? || store.has_term(Space::Held, &term)?)
}

/// The announcements of one identifier near a key. A lookup that fails ends the gathering and is
/// reported, so that a broken store never looks like a small family.
fn family(store: &dyn Snapshot, author: &PubKey, identifier: &str) -> Result<Family> {
    let failed = std::cell::RefCell::new(None);
    let keep = |error| {
        failed.borrow_mut().get_or_insert(error);
    };
    let announcement_of = |key: &PubKey| {
        let coordinate = Coordinate {
            kind: Kind::ANNOUNCEMENT,
            pubkey: *key,
            identifier: identifier.to_owned(),
        };
        Versions::of(store, &coordinate).map_err(keep).ok()?.member()
    };
    let listers_of =
        |key: &PubKey| listers(store, key, identifier).map_err(keep).unwrap_or_default();
    let family = Family::gather([*author], announcement_of, listers_of);
    match failed.into_inner() {
        Some(error) => Err(error),
        None => Ok(family),
    }
}

const LISTERS_MAX: usize = 256;

/// Those with a served announcement first.
fn listers(store: &dyn Snapshot, key: &PubKey, identifier: &str) -> Result<Vec<PubKey>> {
    let term = Term::lists(key, identifier);
    let mut found = store.newest(Space::Served, &term, LISTERS_MAX)?;
    found.extend(store.newest(Space::Held, &term, LISTERS_MAX)?);
    Ok(found.into_iter().map(|stored| stored.event.pubkey).collect())
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
    for (space, standing) in [(Space::Served, Standing::Served), (Space::Held, Standing::Held)] {
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

/// Has this author said anything beyond who they are?
fn takes_part(store: &dyn Snapshot, author: &PubKey) -> Result<Option<Standing>> {
    let says = |kind: &Kind| {
        !matches!(*kind, Kind(0 | 10_002) | Kind::GRASP_LIST | Kind::DELETION | Kind::VANISH)
    };
    for (space, standing) in [(Space::Served, Standing::Served), (Space::Held, Standing::Held)] {
        if store.kinds_of(space, author)?.iter().any(says) {
            return Ok(Some(standing));
        }
    }
    Ok(None)
}

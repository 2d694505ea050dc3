//! What the shell looked up. Everything is as of now and about this one event; what is not known
//! is left at its default, which never opens a door.

use crate::event::{Event, Rank};
use crate::id::{EventId, Oid, PubKey};
use crate::maintainers::{Family, Standing};
use crate::nip09::is_request;
use crate::unfit::UnfitRef;
use crate::{Kind, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone)]
pub struct Facts {
    /// This very event is already here. Leave empty when a held event is judged again.
    pub known: Option<Standing>,
    pub erased: Erased,
    /// The version of this event's address that is here, if it has an address.
    pub current: Option<Current>,
    /// It was held before and gave up waiting for git data.
    pub expired: bool,
    pub about: About,
}

impl Facts {
    pub fn new(about: About) -> Self {
        let erased = Erased::default();
        Self { known: None, erased, current: None, expired: false, about }
    }
}

/// Earlier requests by this event's own author that reach it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Erased {
    pub id: bool,
    /// Its address was deleted, with every version up to then.
    pub coordinate_until: Option<Timestamp>,
    pub vanished_until: Option<Timestamp>,
}

impl Erased {
    /// Do they reach this event? A request to delete or vanish cannot itself be deleted.
    pub fn reaches(&self, event: &Event) -> bool {
        self.deletes(event) || self.hides(event)
    }

    pub(super) fn deletes(&self, event: &Event) -> bool {
        let by_address = event.coordinate().is_some() && covers(self.coordinate_until, event);
        (self.id || by_address) && !is_request(event.kind)
    }

    pub(super) fn hides(&self, event: &Event) -> bool {
        covers(self.vanished_until, event) && event.kind != Kind::VANISH
    }
}

fn covers(until: Option<Timestamp>, event: &Event) -> bool {
    until.is_some_and(|until| event.created_at <= until)
}

/// The newest version, served or held; served if any version is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Current {
    pub rank: Rank,
    pub standing: Standing,
}

/// The part that differs by subject; must be the variant that belongs to it.
#[derive(Debug, Clone)]
pub enum About {
    Announcement(AnnouncementFacts),
    State(StateFacts),
    PullRequest(PullRequestFacts),
    GraspList(GraspListFacts),
    Profile(ProfileFacts),
    Deletion(DeletionFacts),
    /// Is anything by this author stored or held?
    Vanish {
        author_known: bool,
    },
    /// The best of what this event refers to and of what refers to it. Also for passing events.
    Related(Option<Standing>),
}

#[derive(Debug, Clone, Default)]
pub struct AnnouncementFacts {
    /// Gathered around the author.
    pub family: Family,
    /// The current version is hosted here (`Rules::hosts`).
    pub hosted: bool,
    /// The newest announcement by which the author left this server, if it is kept aside.
    pub withdrawn: Option<Rank>,
    /// The git data of an authorised state is already here, so nothing is left to wait for.
    pub data_present: bool,
}

#[derive(Debug, Clone, Default)]
pub struct StateFacts {
    /// Some announcement with this identifier is served or held, by whomever.
    pub announced: bool,
    /// Gathered around the author.
    pub family: Family,
    /// Which of the objects it names are here, in a repository of this family.
    pub present: BTreeSet<Oid>,
    /// A branch or tag whose object is here and can never be shown under that name.
    pub unfit: Option<UnfitRef>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct PullRequestFacts {
    /// The best of what it refers to and of what refers to it.
    pub anchor: Option<Standing>,
    pub tip_present: bool,
}

#[derive(Debug, Clone, Copy)]
pub struct GraspListFacts {
    /// How many lists are stored, of everyone.
    pub stored: u64,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct ProfileFacts {
    /// The best of what it refers to and of what refers to it.
    pub anchor: Option<Standing>,
    /// The best of the author's own events in repositories and threads here.
    pub takes_part: Option<Standing>,
}

#[derive(Debug, Clone, Default)]
pub struct DeletionFacts {
    /// Is anything by this author stored or held?
    pub author_known: bool,
    /// Those of the named ids that are here, with their authors.
    pub targets: BTreeMap<EventId, PubKey>,
}

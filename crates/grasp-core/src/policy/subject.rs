//! What an event is, for the purpose of judging it. Reading it can already refuse it.

use super::{Reason, Rules};
use crate::Kind;
use crate::event::Event;
use crate::nip09::{Deletion, Vanish};
use crate::nip34::{Announcement, PullRequest, References, State};

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    Announcement(Announcement),
    State(State),
    PullRequest(PullRequest),
    GraspList,
    /// Who someone is (kind 0) or where to find them (kind 10002).
    Profile(References),
    Deletion(Deletion),
    Vanish(Vanish),
    /// Everything that belongs here only through what it points to, or what points to it.
    Related(References),
    /// The same, but shown to whoever is listening and never kept.
    Passing(References),
}

impl Subject {
    pub fn of(event: &Event, rules: &Rules) -> Result<Self, Reason> {
        Ok(match event.kind {
            Kind::ANNOUNCEMENT => Self::Announcement(Announcement::parse(event)?),
            Kind::STATE => Self::State(State::parse(event)?),
            Kind::PULL_REQUEST | Kind::PULL_REQUEST_UPDATE => {
                Self::PullRequest(PullRequest::parse(event)?)
            }
            Kind::GRASP_LIST => Self::GraspList,
            Kind::DELETION => Self::Deletion(Deletion::parse(event)?),
            Kind::VANISH => Self::Vanish(Vanish::parse(event, &rules.service)?),
            Kind(0 | 10_002) => Self::Profile(References::of(event)),
            kind if kind.is_ephemeral() => Self::Passing(References::of(event)),
            _ => Self::Related(References::of(event)),
        })
    }

    /// What the shell has to look up to find this event's anchor.
    pub fn references(&self) -> Option<&References> {
        match self {
            Self::PullRequest(pull_request) => Some(&pull_request.references),
            Self::Profile(references) | Self::Related(references) | Self::Passing(references) => {
                Some(references)
            }
            _ => None,
        }
    }
}

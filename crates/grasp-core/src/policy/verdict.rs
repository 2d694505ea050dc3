//! What a rule answers, and how that is put to whoever sent the event.

use super::{Reason, RefusalClass};
use crate::id::{EventId, Oid, RepoId};
use crate::kind::Kind;
use crate::unfit::UnfitRef;
use std::fmt;

/// The literal sentence GRASP-01 gives for held events; clients may show it.
pub const PURGATORY: &str = "purgatory: won't be served until git data arrives";
pub const DEFERRED: &str = "purgatory: nothing by this author is here yet; the request is kept and \
     takes effect when something arrives";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Store and serve.
    Accept,
    /// Show to live subscribers, do not store.
    PassOn,
    /// Keep aside, unserved, until the need is met; then judge again.
    Hold(Needs),
    /// The owner no longer wants the repository here: stop serving it at once.
    Withdraw(Withdrawal),
    /// A request to forget by someone nothing is known of: keep aside and judge again when
    /// something of theirs arrives.
    Defer,
    Reject(Reason),
}

/// What a held event waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Needs {
    /// Nothing is named while an announcement waits for its first data.
    GitData { missing: Vec<Oid> },
    /// It names something that is no object or no ref. Never hunted, never shown to git.
    Unsatisfiable,
    /// One of its objects is here and can never be shown under the name it gives it.
    Unfit(UnfitRef),
    /// This repository is not served yet.
    Repository(RepoId),
    /// What it refers to is not served yet.
    Anchor,
}

impl Needs {
    /// Would it be served if its git data were here as it says?
    pub(super) const fn waits_for_git(&self) -> bool {
        matches!(self, Self::GitData { .. } | Self::Unsatisfiable | Self::Unfit(_))
    }
}

/// An event and what it waits for, in the words everybody gets: the sender, git, the page, the API.
#[derive(Debug, Clone, Copy)]
pub struct Waits<'a> {
    pub kind: Kind,
    pub id: EventId,
    pub needs: &'a Needs,
}

impl fmt::Display for Waits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = &self.id.to_string()[..SHORT];
        match self.kind {
            Kind::ANNOUNCEMENT => write!(f, "announcement {id}… {}", self.needs),
            Kind::STATE => write!(f, "state {id}… {}", self.needs),
            Kind::PULL_REQUEST => write!(f, "pull request {id}… {}", self.needs),
            Kind::PULL_REQUEST_UPDATE => write!(f, "pull request update {id}… {}", self.needs),
            kind => write!(f, "event {id}… (kind {kind}) {}", self.needs),
        }
    }
}

/// Hex digits people are shown of an id.
const SHORT: usize = 12;
/// Objects that are named; of the rest only the number is told.
const NAMED_MAX: usize = 3;

impl fmt::Display for Needs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::GitData { missing } if missing.is_empty() => f.write_str("waits for git data"),
            Self::GitData { missing } => {
                let plural = if missing.len() == 1 { "" } else { "s" };
                write!(f, "waits for git object{plural}")?;
                for (at, oid) in missing.iter().take(NAMED_MAX).enumerate() {
                    let comma = if at == 0 { "" } else { "," };
                    write!(f, "{comma} {}…", &oid.to_string()[..SHORT])?;
                }
                match missing.len().saturating_sub(NAMED_MAX) {
                    0 => Ok(()),
                    more => write!(f, " and {more} more"),
                }
            }
            Self::Unsatisfiable => {
                f.write_str("names an object or a ref that git cannot have, so it waits in vain")
            }
            Self::Unfit(unfit) => {
                write!(f, "waits in vain: {unfit}; sign a state that names another object there")
            }
            Self::Repository(repo) => write!(f, "waits until {repo} is served"),
            Self::Anchor => f.write_str("waits until what it refers to is served"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withdrawal {
    pub repo: RepoId,
    pub remains: Remains,
}

/// What becomes of the announcement that withdraws a repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Remains {
    /// Another repository's owner invites its author, so it is served for membership.
    Served,
    /// The same, but that repository is itself still held.
    Held(Needs),
    /// Kept aside and not served, so that nobody can bring back an older version.
    Aside(Reason),
}

/// The OK message, without the event id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub ok: bool,
    pub text: String,
    /// Why the event did not come to be here by this offer; `None`: it did.
    pub refusal: Option<RefusalClass>,
}

impl Answer {
    pub fn taken(text: impl Into<String>) -> Self {
        Self { ok: true, text: text.into(), refusal: None }
    }

    pub fn refused(reason: &Reason) -> Self {
        Self { ok: reason.is_ok(), text: reason.to_string(), refusal: Some(reason.class()) }
    }
}

impl Verdict {
    pub fn answer(&self) -> Answer {
        match self {
            Self::Accept | Self::PassOn => Answer::taken(""),
            Self::Hold(needs) => Answer::taken(held(needs)),
            Self::Withdraw(withdrawal) => withdrawal.answer(),
            Self::Defer => Answer::taken(DEFERRED),
            Self::Reject(reason) => Answer::refused(reason),
        }
    }

    /// For metrics; stable.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Accept => "accepted",
            Self::PassOn => "passed-on",
            Self::Hold(Needs::GitData { .. }) => "held-git-data",
            Self::Hold(Needs::Unsatisfiable) => "held-unsatisfiable",
            Self::Hold(Needs::Unfit(_)) => "held-unfit",
            Self::Hold(Needs::Repository(_)) => "held-repository",
            Self::Hold(Needs::Anchor) => "held-anchor",
            Self::Withdraw(_) => "withdrawn",
            Self::Defer => "deferred",
            Self::Reject(reason) => reason.code(),
        }
    }
}

impl Withdrawal {
    fn answer(&self) -> Answer {
        match &self.remains {
            Remains::Served => Answer::taken(""),
            Remains::Held(needs) => Answer::taken(held(needs)),
            Remains::Aside(why) => Answer {
                ok: false,
                text: format!("{why}; the repository is no longer served here"),
                refusal: Some(why.class()),
            },
        }
    }
}

fn held(needs: &Needs) -> String {
    match needs {
        Needs::GitData { missing } if missing.is_empty() => PURGATORY.to_owned(),
        Needs::GitData { .. } => format!("{PURGATORY}; it {needs}"),
        other => format!("purgatory: won't be served yet; it {other}"),
    }
}

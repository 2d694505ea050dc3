//! The truth about this server, for people and machines: what it has, what it lacks and why. Read
//! from the store, the repositories and a look at the running machines; nothing is asked of others.

mod ask;
mod held;
mod offline;
mod problem_advice;
mod problem_list;
pub(crate) mod problems;
mod relays;
mod repo;
mod repos;
pub mod shapes;
mod sight;
mod status;
pub mod text;
mod threads;
pub mod when;
mod words;

pub use ask::{Reports, event, purgatory, relays, repo, repos, status};
pub use offline::{Offline, offline};
pub use problem_list::watch_problems;
pub use problems::{Problem, ProblemKind, ProblemReport, Severity};
pub use shapes::*;
pub use sight::{Identity, Live, Sight, own_relay, place};

/// Which part of a list is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// What the part before said comes next.
    pub after: Option<String>,
    pub limit: usize,
}

impl Page {
    pub const LIMIT_DEFAULT: usize = 100;
    pub const LIMIT_MAX: usize = 500;

    pub fn new(after: Option<String>, limit: Option<usize>) -> Self {
        let limit = limit.unwrap_or(Self::LIMIT_DEFAULT).clamp(1, Self::LIMIT_MAX);
        Self { after: after.filter(|after| !after.is_empty()), limit }
    }
}

/// A list that is read in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LongList {
    Relays,
    Repos,
    Purgatory,
}

impl LongList {
    /// `after` must be what a part of this very list gave as `next`, or the list would begin anew.
    pub fn check(self, page: &Page) -> Result<(), String> {
        let Some(after) = &page.after else { return Ok(()) };
        let is_known = match self {
            Self::Relays => after.parse::<grasp_core::RelayUrl>().is_ok(),
            Self::Repos => repos::read_position(after).is_some(),
            Self::Purgatory => held::read_mark(after).is_some(),
        };
        let why = "after must be what the part before gave as next";
        is_known.then_some(()).ok_or_else(|| why.to_owned())
    }
}

impl Default for Page {
    fn default() -> Self {
        Self::new(None, None)
    }
}

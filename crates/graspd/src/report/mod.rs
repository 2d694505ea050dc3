//! The truth about this server, for people and machines: what it has, what it lacks and why. Read
//! from the store, the repositories and a look at the running machines; nothing is asked of others.

mod ask;
mod held;
mod offline;
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
pub use shapes::*;
pub use sight::{Identity, Live, Sight, place};

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

impl Default for Page {
    fn default() -> Self {
        Self::new(None, None)
    }
}

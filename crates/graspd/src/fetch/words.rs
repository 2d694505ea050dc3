//! All that may be asked of a git server, and all that can come of it.

use grasp_core::Oid;
use grasp_git::fetch::{Advert, Listed, V0Caps};
use std::collections::BTreeSet;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Question {
    /// These objects and all behind them.
    Objects(BTreeSet<Oid>),
    /// Its refs, in version 2.
    Refs,
    /// What it speaks and, in version 0, its refs.
    Advert,
    /// All behind its branches and tags, to look for ours in it. `sure` if it is known to give away
    /// nothing else; otherwise it most likely has none of ours, and little may be spent on it.
    Everything { tips: BTreeSet<Oid>, sure: bool },
}

/// What came of the last question. Words are for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    /// A good pack; of all we want, these are here now.
    Pack(BTreeSet<Oid>),
    /// A pack that may not be taken.
    Unfit(String),
    /// It lacks this one, or does not give it away, and sent nothing.
    Lacks(Oid),
    /// It refused in other words.
    Refuses(String),
    /// An answer, but not to this question: perhaps it does not know version 2.
    Unclear(String),
    Refs(Vec<Listed>),
    Advert(Advert),
}

/// How the server wants to be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Speaks {
    /// What nearly all do, until something else is known.
    V2,
    V0(V0Caps),
}

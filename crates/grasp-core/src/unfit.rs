//! Why this server cannot show an object under the name that a state gives it.

use crate::id::{Oid, RefName};

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("that object is not here")]
    Absent,
    /// With the kind it has instead.
    #[error("a branch must point to a commit, and that object is a {0}")]
    NotACommit(&'static str),
    #[error("it is a tag of a tag of a tag, more than {max} times")]
    Nested { max: usize },
    #[error("a tag object there is larger than {bytes_max} bytes")]
    Large { bytes_max: u64 },
    #[error(
        "it is packed as more than {max} deltas; pack again with `git repack -adf --depth=50`, \
         then push"
    )]
    Deltas { max: u32 },
    #[error(
        "the tags of this state take too long to read; sign fewer tags of tags, or pack again with \
         `git repack -adf --depth=50`, then push"
    )]
    TooManySteps,
    #[error("this server cannot read that object")]
    Unreadable,
}

/// A branch or tag of a state, and why it cannot point to the object that the state names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} cannot point to {oid}: {why}")]
pub struct UnfitRef {
    pub name: RefName,
    pub oid: Oid,
    pub why: Unfit,
}

//! Event kinds: the ones this server has opinions about, and the storage classes of NIP-01.

use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Kind(pub u16);

impl Kind {
    pub const DELETION: Kind = Kind(5);
    pub const REPOST: Kind = Kind(6);
    pub const GENERIC_REPOST: Kind = Kind(16);
    pub const VANISH: Kind = Kind(62);
    pub const GIFT_WRAP: Kind = Kind(1059);
    pub const PATCH: Kind = Kind(1617);
    pub const PULL_REQUEST: Kind = Kind(1618);
    pub const PULL_REQUEST_UPDATE: Kind = Kind(1619);
    pub const ISSUE: Kind = Kind(1621);
    pub const GRASP_LIST: Kind = Kind(10317);
    pub const AUTH: Kind = Kind(22242);
    pub const ANNOUNCEMENT: Kind = Kind(30617);
    pub const STATE: Kind = Kind(30618);

    /// One event per author and kind.
    pub const fn is_replaceable(self) -> bool {
        matches!(self.0, 0 | 3 | 10_000..=19_999)
    }

    /// One event per author, kind and `d`.
    pub const fn is_addressable(self) -> bool {
        matches!(self.0, 30_000..=39_999)
    }

    /// Passed on, never stored.
    pub const fn is_ephemeral(self) -> bool {
        matches!(self.0, 20_000..=29_999)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

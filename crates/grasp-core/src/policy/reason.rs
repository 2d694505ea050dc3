//! Refusals as sentences. Each has the prefix machines read, words a person can act on, a short code
//! that never changes, for counting, and how long it lasts.

use crate::id::{BadName, PubKey, RepoId};
use crate::nip09::BadRequest;
use crate::nip34::announcement::Listing;
use crate::nip34::thread::NoTip;
use RefusalClass::{Forever, NoRoom, UntilKnown};
use std::borrow::Cow;
use std::fmt;

/// The machine-readable prefixes of NIP-01 and NIP-42.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prefix {
    Invalid,
    Blocked,
    Restricted,
    Duplicate,
    Error,
    AuthRequired,
    RateLimited,
}

impl Prefix {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Blocked => "blocked",
            Self::Restricted => "restricted",
            Self::Duplicate => "duplicate",
            Self::Error => "error",
            Self::AuthRequired => "auth-required",
            Self::RateLimited => "rate-limited",
        }
    }
}

/// What a refusal says about the event: is it here, could it be welcome, is it wanted at all?
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RefusalClass {
    /// The event is here already, or a newer version of it is.
    Known,
    /// A matter of the moment: of the clock, or of how it came.
    Passing,
    /// The event is wanted, but the place for events like it is full. It has to be asked for again.
    NoRoom,
    /// A fault of this server: nothing is known about the event.
    Fault,
    /// Only for want of something that may still come.
    UntilKnown,
    /// Nothing that arrives can change it, as long as the rules are the same.
    Forever,
}

impl RefusalClass {
    /// The class that goes with a prefix, unless a reason names another one.
    const fn by_prefix(prefix: Prefix) -> Self {
        match prefix {
            Prefix::Duplicate => Self::Known,
            Prefix::Error => Self::Fault,
            Prefix::RateLimited => Self::NoRoom,
            Prefix::Invalid | Prefix::Blocked | Prefix::Restricted | Prefix::AuthRequired => {
                Self::Passing
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    prefix: Prefix,
    code: &'static str,
    text: Cow<'static, str>,
    class: RefusalClass,
}

impl Reason {
    /// A refusal of the class that goes with its prefix; see [`Self::in_class`].
    pub const fn new(prefix: Prefix, code: &'static str, text: &'static str) -> Self {
        let class = RefusalClass::by_prefix(prefix);
        Self { prefix, code, text: Cow::Borrowed(text), class }
    }

    pub const fn saying(prefix: Prefix, code: &'static str, text: String) -> Self {
        Self { prefix, code, text: Cow::Owned(text), class: RefusalClass::by_prefix(prefix) }
    }

    #[must_use]
    pub const fn in_class(mut self, class: RefusalClass) -> Self {
        self.class = class;
        self
    }

    pub const fn class(&self) -> RefusalClass {
        self.class
    }

    pub const fn prefix(&self) -> Prefix {
        self.prefix
    }

    /// For metrics and tests; stable.
    pub const fn code(&self) -> &'static str {
        self.code
    }

    /// Told again is no failure: the sender has nothing to mend.
    pub fn is_ok(&self) -> bool {
        self.prefix == Prefix::Duplicate
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.prefix.as_str(), self.text)
    }
}

/// The sentences without a blank to fill in.
impl Reason {
    pub const ALREADY_HERE: Self = Self::new(Prefix::Duplicate, "known", "already have this event");
    pub const ALREADY_HELD: Self = Self::new(Prefix::Duplicate, "held", "in purgatory");
    pub const SUPERSEDED: Self =
        Self::new(Prefix::Duplicate, "superseded", "superseded by a newer event");
    pub const SAME_SECOND: Self = Self::new(
        Prefix::Duplicate,
        "same-second",
        "superseded: an event of the same second with a lower id is in force; sign again a second \
         later",
    );
    pub const SAME_SECOND_STATE: Self = Self::new(
        Prefix::Duplicate,
        "same-second",
        "superseded: an event of the same second with a lower id is in force; sign again a second \
         later, then push again",
    );
    pub const EXPIRED_IN_PURGATORY: Self = Self::new(
        Prefix::Invalid,
        "expired-in-purgatory",
        "previously expired from purgatory without git data",
    );
    pub const EXPIRED: Self =
        Self::new(Prefix::Invalid, "expired", "event is expired").in_class(Forever);
    pub const DELETED: Self =
        Self::new(Prefix::Invalid, "deleted", "this event is deleted by its author")
            .in_class(Forever);
    pub const VANISHED: Self =
        Self::new(Prefix::Blocked, "vanished", "this pubkey has requested to vanish")
            .in_class(Forever);
    pub const AUTH_IS_NO_EVENT: Self = Self::new(
        Prefix::Invalid,
        "auth-kind",
        "kind 22242 answers a challenge; send it as AUTH, not as EVENT",
    )
    .in_class(Forever);
    /// Nobody keeps such an event, so nobody offers it twice: nothing to be remembered.
    pub const EPHEMERAL_FROM_SYNC: Self = Self::new(
        Prefix::Blocked,
        "ephemeral-sync",
        "ephemeral events are taken from clients only, not from other relays",
    );
    pub const PROTECTED: Self = Self::new(
        Prefix::AuthRequired,
        "protected",
        "this event is protected; only its author may publish it here",
    )
    .in_class(Forever);
    pub const PRIVATE: Self = Self::new(
        Prefix::Restricted,
        "private",
        "this server is public and cannot keep a repository private; choose one with GRASP-08",
    )
    .in_class(Forever);
    pub const NO_ANNOUNCEMENT: Self = Self::new(
        Prefix::Invalid,
        "no-announcement",
        "no announcement exists for this repository; publish its announcement here first",
    )
    .in_class(UntilKnown);
    pub const NOT_AUTHORISED: Self = Self::new(
        Prefix::Restricted,
        "not-authorised",
        "author not authorized for this repository; a maintainer must list the author, and the \
         author's own announcement must list a maintainer",
    )
    .in_class(UntilKnown);
    pub const NOT_LISTED: Self = Self::new(
        Prefix::Restricted,
        "not-authorised",
        "author not authorized for this repository; no maintainer lists the author",
    )
    .in_class(UntilKnown);
    pub const UNRELATED: Self = Self::new(
        Prefix::Restricted,
        "unrelated",
        "event must reference an accepted repository or accepted event",
    )
    .in_class(UntilKnown);
    pub const UNRELATED_PULL_REQUEST: Self = Self::new(
        Prefix::Restricted,
        "unrelated",
        "PR event must reference an accepted repository or accepted event",
    )
    .in_class(UntilKnown);
    pub const STRANGER: Self = Self::new(
        Prefix::Restricted,
        "stranger",
        "profiles and relay lists are kept only for people who take part in a repository here",
    )
    .in_class(UntilKnown);
    pub const GRASP_LISTS_FULL: Self = Self::new(
        Prefix::Restricted,
        "grasp-lists-full",
        "this server keeps no more GRASP lists of new people",
    )
    .in_class(NoRoom);
    pub const FOREIGN_TARGET: Self = Self::new(
        Prefix::Invalid,
        "foreign-target",
        "the deletion names an event of another author; name only your own",
    )
    .in_class(Forever);
    pub const WRONG_FACTS: Self =
        Self::new(Prefix::Error, "wrong-facts", "could not look up what this event is about");
}

/// The sentences with one.
impl Reason {
    pub(super) fn blacklisted_author(author: &PubKey) -> Self {
        let text = format!("Event author {} is blacklisted", author.to_npub());
        Self::saying(Prefix::Blocked, "author-blacklisted", text).in_class(Forever)
    }

    pub(super) fn blacklisted(repo: &RepoId) -> Self {
        let text = format!("repository {repo} is blacklisted");
        Self::saying(Prefix::Blocked, "repository-blacklisted", text).in_class(Forever)
    }

    pub(super) fn not_whitelisted(repo: &RepoId) -> Self {
        let text =
            format!("this server hosts chosen repositories only, and {repo} is not among them");
        // Its author may still be invited by somebody who is welcome.
        Self::saying(Prefix::Restricted, "not-whitelisted", text).in_class(UntilKnown)
    }

    pub(super) fn too_far_ahead(secs_max: u64) -> Self {
        let minutes = secs_max.div_ceil(60);
        let text = format!("created_at is more than {minutes} minutes ahead; check your clock");
        Self::saying(Prefix::Invalid, "future", text)
    }

    pub(super) fn does_not_list_us(listing: Listing, address: &str) -> Self {
        let missing = match listing {
            Listing { in_clone: true, .. } => "relays is missing",
            Listing { in_relays: true, .. } => "clone is missing",
            _ => "both are missing",
        };
        let text =
            format!("announcement must list {address} in both clone and relays; {missing} here");
        Self::saying(Prefix::Invalid, "not-listing-us", text).in_class(UntilKnown)
    }
}

impl From<BadName> for Reason {
    fn from(bad: BadName) -> Self {
        let text = format!("the d tag is unusable: {bad}");
        Self::saying(Prefix::Invalid, "bad-identifier", text).in_class(Forever)
    }
}

impl From<NoTip> for Reason {
    fn from(bad: NoTip) -> Self {
        Self::saying(Prefix::Invalid, "no-tip", bad.to_string()).in_class(Forever)
    }
}

impl From<BadRequest> for Reason {
    fn from(bad: BadRequest) -> Self {
        let code = match bad {
            BadRequest::TooManyTargets => "too-many-targets",
            BadRequest::NoTarget => "no-target",
            BadRequest::OtherRelays => "other-relays",
        };
        Self::saying(Prefix::Invalid, code, bad.to_string()).in_class(Forever)
    }
}

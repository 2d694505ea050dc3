//! How many pull requests of one repository have a ref, and how that is shared among their authors, the
//! addresses they came from and the commits they propose. Pure.

use crate::held_share::HeldSource;
use std::fmt;

/// Refs below `refs/nostr/` in one repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProposalLimits {
    /// Half of them is for addresses that have none yet.
    pub refs_max: u64,
    pub per_author_max: u64,
    /// Of one address. A relay brings the pull requests of many.
    pub per_source_max: u64,
    pub per_tip_max: u64,
}

impl Default for ProposalLimits {
    fn default() -> Self {
        Self { refs_max: 2_000, per_author_max: 20, per_source_max: 200, per_tip_max: 20 }
    }
}

/// What is used of one repository's refs by everyone, and by those like a newcomer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProposalUse {
    pub all: u64,
    pub of_author: u64,
    pub of_source: u64,
    pub of_tip: u64,
}

/// The limit that a newcomer would exceed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FullProposals {
    Repository(u64),
    Reserve(u64, HeldSource),
    Author(u64),
    Source(u64, HeldSource),
    Tip(u64),
}

impl ProposalLimits {
    /// Which limit leaves no room for one more. A newcomer without a source is on this machine, or
    /// comes from a relay of the repository.
    pub fn full(&self, used: &ProposalUse, source: Option<&HeldSource>) -> Option<FullProposals> {
        if used.all >= self.refs_max {
            return Some(FullProposals::Repository(self.refs_max));
        }
        if used.of_author >= self.per_author_max {
            return Some(FullProposals::Author(self.per_author_max));
        }
        if used.of_tip >= self.per_tip_max {
            return Some(FullProposals::Tip(self.per_tip_max));
        }
        let source = source?;
        let is_address = !matches!(source, HeldSource::Relay(_));
        if is_address && used.of_source >= self.per_source_max {
            return Some(FullProposals::Source(self.per_source_max, source.clone()));
        }
        let in_reserve = used.all >= self.refs_max / 2 && used.of_source > 0;
        in_reserve.then(|| FullProposals::Reserve(self.refs_max / 2, source.clone()))
    }
}

impl fmt::Display for FullProposals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Repository(max) => {
                write!(f, "this repository keeps the commits of at most {max} pull requests")?;
            }
            Self::Reserve(max, source) => write!(
                f,
                "of this repository's places for pull requests the last {max} are kept for addresses \
                 that have none, and {source} has some"
            )?,
            Self::Author(max) => {
                write!(f, "one author may have at most {max} pull requests in this repository")?;
            }
            Self::Source(max, source) => write!(
                f,
                "at most {max} pull requests of this repository may come from one place, and that \
                 many came from {source}"
            )?,
            Self::Tip(max) => write!(
                f,
                "at most {max} pull requests of this repository may propose the same commit"
            )?,
        }
        f.write_str("; a place is free again when its owner closes one or its author deletes one")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address() -> HeldSource {
        HeldSource::Address("203.0.113.7".to_owned())
    }

    fn full(used: ProposalUse) -> Option<FullProposals> {
        ProposalLimits::default().full(&used, Some(&address()))
    }

    #[test]
    fn a_pull_request_is_refused_by_the_limit_it_would_exceed() {
        let none = ProposalUse::default();
        assert_eq!(full(none), None);
        let used = ProposalUse { of_author: 20, ..none };
        assert_eq!(full(used), Some(FullProposals::Author(20)));
        let used = ProposalUse { of_tip: 20, ..none };
        assert_eq!(full(used), Some(FullProposals::Tip(20)));
        let used = ProposalUse { of_source: 200, ..none };
        assert_eq!(full(used), Some(FullProposals::Source(200, address())));
        let used = ProposalUse { all: 2_000, ..none };
        assert_eq!(full(used), Some(FullProposals::Repository(2_000)));
    }

    #[test]
    fn half_of_the_room_is_for_addresses_that_have_none() {
        let used = ProposalUse { all: 1_000, of_source: 1, ..ProposalUse::default() };
        assert_eq!(full(used), Some(FullProposals::Reserve(1_000, address())));
        assert_eq!(full(ProposalUse { all: 999, ..used }), None);
        assert_eq!(full(ProposalUse { of_source: 0, ..used }), None);
        assert_eq!(full(ProposalUse { all: 1_999, of_source: 0, ..used }), None);
        let local = ProposalLimits::default().full(&used, None);
        assert_eq!(local, None, "who has no address is on this machine");
    }

    #[test]
    fn a_relay_brings_more_than_one_address_may() {
        let relay = HeldSource::Relay("wss://mirror.example".to_owned());
        let used = ProposalUse { all: 999, of_source: 999, ..ProposalUse::default() };
        let limits = ProposalLimits::default();
        assert_eq!(limits.full(&used, Some(&relay)), None);
        let used = ProposalUse { all: 1_999, of_source: 1_999, ..used };
        assert_eq!(limits.full(&used, None), None, "a relay of the repository fills it");
        let reserve = FullProposals::Reserve(1_000, relay.clone());
        assert_eq!(limits.full(&used, Some(&relay)), Some(reserve), "another relay half of it");
    }

    #[test]
    fn a_refusal_names_the_limit_and_what_frees_a_place() {
        let text = FullProposals::Tip(20).to_string();
        assert_eq!(
            text,
            "at most 20 pull requests of this repository may propose the same commit; a place is \
             free again when its owner closes one or its author deletes one"
        );
    }
}

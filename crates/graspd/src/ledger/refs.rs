//! Their refs beside the state in force here: what both have, what they lack, and what they have of a
//! newer state that waits here for objects. Pure.

use super::row::RefCounts;
use grasp_core::{Oid, RefName};
use std::collections::BTreeMap;

pub type Refs = BTreeMap<RefName, Oid>;

/// Names that are remembered, to be told.
const NAMES_MAX: usize = 3;

/// What a git server lists, and how its refs come to be.
#[derive(Debug, Clone, Copy)]
pub struct ListedRefs<'a> {
    pub refs: &'a Refs,
    pub origin: RefOrigin,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefOrigin {
    /// A GRASP server shows exactly one signed state.
    SignedState,
    /// Any other server shows what was pushed to it, which may be a part of a state.
    Pushed,
}

impl ListedRefs<'_> {
    fn matches(&self, state: &Refs) -> bool {
        match self.origin {
            RefOrigin::SignedState => self.refs.is_empty() || self.refs == state,
            RefOrigin::Pushed => self.refs.iter().all(|(name, oid)| state.get(name) == Some(oid)),
        }
    }
}

/// `newer` is a state that beats the one in force and is not served yet, because objects are missing;
/// `earlier` are those before it. They lack something only if their list matches one of these states:
/// a list that matches none may be of a state that is not known here.
pub fn compare(
    signed: &Refs,
    newer: Option<&Refs>,
    earlier: &[Refs],
    listed: ListedRefs<'_>,
) -> RefCounts {
    let theirs = listed.refs;
    let mut counts = RefCounts::default();
    let (mut lacking, mut ahead) = (Vec::new(), Vec::new());
    for (name, oid) in signed {
        let (there, next) = (theirs.get(name), newer.map(|newer| newer.get(name)));
        match there {
            Some(there) if there == oid => counts.equal += 1,
            _ if next == Some(there) => {
                counts.we_lack += u64::from(there.is_some());
                ahead.extend(there.map(|_| name));
            }
            _ => {
                counts.they_lack += 1;
                lacking.push(name);
            }
        }
    }
    for (name, oid) in theirs.iter().filter(|(name, _)| !signed.contains_key(*name)) {
        match newer.and_then(|newer| newer.get(name)) == Some(oid) {
            true => {
                counts.we_lack += 1;
                ahead.push(name);
            }
            false => counts.unsigned += 1,
        }
    }
    let mut known = earlier.iter().chain(newer).chain([signed]);
    if !known.any(|state| listed.matches(state)) {
        counts.unknown = std::mem::take(&mut counts.they_lack);
    }
    let told = if lacking.is_empty() { ahead } else { lacking };
    counts.names = told.iter().take(NAMES_MAX).map(ToString::to_string).collect();
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::Seen;
    use crate::report::Verdict;

    fn refs(list: &[(&str, u8)]) -> Refs {
        let parsed = |(name, byte): &(&str, u8)| {
            (format!("refs/heads/{name}").parse().unwrap(), Oid::from_bytes([*byte; 20]))
        };
        list.iter().map(parsed).collect()
    }

    fn pushed(refs: &Refs) -> ListedRefs<'_> {
        ListedRefs { refs, origin: RefOrigin::Pushed }
    }

    #[test]
    fn s43_a_grasp_server_whose_newer_state_deletes_or_resets_a_branch_lacks_nothing() {
        let signed = refs(&[("main", 3), ("next", 2)]);
        let earlier = [refs(&[("main", 1), ("next", 2)])];
        let seen = |theirs: &[(&str, u8)], origin| {
            let theirs = refs(theirs);
            let found = compare(&signed, None, &earlier, ListedRefs { refs: &theirs, origin });
            (found.they_lack, found.unknown)
        };
        let (grasp, plain) = (RefOrigin::SignedState, RefOrigin::Pushed);
        assert_eq!(seen(&[("main", 3)], grasp), (0, 1), "its newer state deletes a branch");
        assert_eq!(seen(&[("main", 3)], plain), (1, 0), "a branch was not pushed there");
        assert_eq!(seen(&[("main", 1), ("next", 2)], grasp), (1, 0), "it follows an earlier state");
        assert_eq!(seen(&[], grasp), (2, 0), "it has nothing at all");
        let states = [refs(&[("main", 1), ("next", 1)]), refs(&[("main", 2), ("next", 2)])];
        let mixed = refs(&[("main", 1), ("next", 2)]);
        let found = compare(&signed, None, &states, pushed(&mixed));
        assert_eq!((found.they_lack, found.unknown), (0, 1), "refs of two states are no state");
    }

    fn counted(signed: &Refs, newer: Option<&Refs>, theirs: &[(&str, u8)]) -> (u64, u64, u64, u64) {
        let found = compare(signed, newer, &[], pushed(&refs(theirs)));
        (found.equal, found.they_lack, found.we_lack, found.unsigned)
    }

    #[test]
    fn s43_their_refs_are_compared_with_what_was_signed() {
        let signed = refs(&[("main", 1), ("next", 2)]);
        assert_eq!(counted(&signed, None, &[("main", 1), ("next", 2)]), (2, 0, 0, 0));
        assert_eq!(counted(&signed, None, &[("main", 1)]), (1, 1, 0, 0));
        assert_eq!(counted(&signed, None, &[("main", 1), ("next", 2), ("mine", 3)]), (2, 0, 0, 1));
        assert_eq!(counted(&signed, None, &[]), (0, 2, 0, 0));
        assert_eq!(
            compare(&signed, None, &[], pushed(&refs(&[("main", 1)]))).names,
            ["refs/heads/next"]
        );
    }

    #[test]
    fn s43_refs_that_match_no_known_state_are_never_said_to_lack_something() {
        let signed = refs(&[("main", 3), ("next", 2)]);
        let earlier = [refs(&[("main", 1)]), refs(&[("main", 2), ("old", 2)])];
        let seen = |theirs: &[(&str, u8)]| {
            let found = compare(&signed, None, &earlier, pushed(&refs(theirs)));
            (found.equal, found.they_lack, found.unknown)
        };
        assert_eq!(seen(&[("main", 1)]), (0, 2, 0), "it follows an earlier state");
        assert_eq!(seen(&[("main", 2), ("old", 2)]), (0, 2, 0));
        assert_eq!(seen(&[]), (0, 2, 0), "it has nothing at all");
        assert_eq!(seen(&[("main", 9), ("next", 2)]), (1, 0, 1), "it may be ahead");
        assert_eq!(seen(&[("main", 3), ("renamed", 2)]), (1, 0, 1), "a branch may be gone there");
        let theirs = refs(&[("main", 9), ("next", 2)]);
        let verdict = Seen::Refs(compare(&signed, None, &earlier, pushed(&theirs))).verdict();
        assert_eq!(verdict, Verdict::Unverifiable);
    }

    #[test]
    fn s43_what_they_have_of_a_state_that_waits_here_is_what_we_lack() {
        let signed = refs(&[("main", 1), ("old", 2)]);
        let newer = refs(&[("main", 5), ("new", 6)]);
        let newer = Some(&newer);
        assert_eq!(counted(&signed, newer, &[("main", 5), ("new", 6)]), (0, 0, 2, 0));
        assert_eq!(counted(&signed, newer, &[("main", 1), ("old", 2)]), (2, 0, 0, 0));
        assert_eq!(counted(&signed, newer, &[("main", 7), ("new", 7)]), (0, 0, 0, 1));
        let found = compare(&signed, newer, &[], pushed(&refs(&[("main", 5)])));
        assert_eq!(found.names, ["refs/heads/main"]);
    }
}

//! Their refs beside the state in force here: what both have, what they lack, and what they have of a
//! newer state that waits here for objects. Pure.

use super::row::RefCounts;
use grasp_core::{Oid, RefName};
use std::collections::BTreeMap;

pub type Refs = BTreeMap<RefName, Oid>;

/// Names that are remembered, to be told.
const NAMES_MAX: usize = 3;

/// `newer` is a state that beats the one in force and is not served yet, because objects are missing.
pub fn compare(signed: &Refs, newer: Option<&Refs>, theirs: &Refs) -> RefCounts {
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
    let told = if lacking.is_empty() { ahead } else { lacking };
    counts.names = told.iter().take(NAMES_MAX).map(ToString::to_string).collect();
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refs(list: &[(&str, u8)]) -> Refs {
        let parsed = |(name, byte): &(&str, u8)| {
            (format!("refs/heads/{name}").parse().unwrap(), Oid::from_bytes([*byte; 20]))
        };
        list.iter().map(parsed).collect()
    }

    fn counted(signed: &Refs, newer: Option<&Refs>, theirs: &[(&str, u8)]) -> (u64, u64, u64, u64) {
        let found = compare(signed, newer, &refs(theirs));
        (found.equal, found.they_lack, found.we_lack, found.unsigned)
    }

    #[test]
    fn s43_their_refs_are_compared_with_what_was_signed() {
        let signed = refs(&[("main", 1), ("next", 2)]);
        assert_eq!(counted(&signed, None, &[("main", 1), ("next", 2)]), (2, 0, 0, 0));
        assert_eq!(counted(&signed, None, &[("main", 9)]), (0, 2, 0, 0));
        assert_eq!(counted(&signed, None, &[("main", 1), ("mine", 3)]), (1, 1, 0, 1));
        assert_eq!(counted(&signed, None, &[]), (0, 2, 0, 0));
        assert_eq!(compare(&signed, None, &refs(&[("main", 1)])).names, ["refs/heads/next"]);
    }

    #[test]
    fn s43_what_they_have_of_a_state_that_waits_here_is_what_we_lack() {
        let signed = refs(&[("main", 1), ("old", 2)]);
        let newer = refs(&[("main", 5), ("new", 6)]);
        let newer = Some(&newer);
        assert_eq!(counted(&signed, newer, &[("main", 5), ("new", 6)]), (0, 0, 2, 0));
        assert_eq!(counted(&signed, newer, &[("main", 1), ("old", 2)]), (2, 0, 0, 0));
        assert_eq!(counted(&signed, newer, &[("main", 7), ("new", 7)]), (0, 1, 0, 1));
        let found = compare(&signed, newer, &refs(&[("main", 5)]));
        assert_eq!(found.names, ["refs/heads/main"]);
    }
}

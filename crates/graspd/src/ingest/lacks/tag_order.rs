//! Tags from the oldest to the newest, as far as their names tell: numbers in them are compared as
//! numbers, so `v1.9` comes before `v1.10`.

use grasp_core::nip34::State;
use grasp_core::{Oid, RefName};
use std::collections::BTreeSet;

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NamePart {
    Number(u64),
    Text(String),
}

fn name_parts(name: &str) -> Vec<NamePart> {
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let is_same = |c: char| c.is_ascii_digit() == first.is_ascii_digit();
        let (part, behind) = rest.split_at(rest.find(|c| !is_same(c)).unwrap_or(rest.len()));
        parts.push(match part.parse() {
            Ok(number) => NamePart::Number(number),
            Err(_) => NamePart::Text(part.to_owned()),
        });
        rest = behind;
    }
    parts
}

/// The objects of this state's tags that are among these, oldest version first.
pub(super) fn tags_by_version(state: &State, among: &BTreeSet<Oid>) -> Vec<Oid> {
    let tags = state.refs.iter().filter(|(name, oid)| !name.is_branch() && among.contains(oid));
    let mut tags: Vec<(&RefName, Oid)> = tags.map(|(name, oid)| (name, *oid)).collect();
    tags.sort_by_cached_key(|(name, _)| name_parts(name.as_str()));
    tags.into_iter().map(|(_, oid)| oid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s51_versions_are_in_the_order_of_their_numbers() {
        let mut names =
            ["v1.10", "v1.9", "v0.9.10", "v1.9-rc2", "v10", "v2", "v99999999999999999999", "a"];
        names.sort_by_cached_key(|name| name_parts(name));
        let sorted =
            ["a", "v0.9.10", "v1.9", "v1.9-rc2", "v1.10", "v2", "v10", "v99999999999999999999"];
        assert_eq!(names, sorted);
    }
}

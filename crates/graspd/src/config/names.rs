//! What a name nobody knows might mean: an old name, a slip of the finger, or another program's.
//! The prefix is shared with the client, so only near misses are worth stopping for.

use super::setting::Setting;
use super::table::{DEAD_NAMES, SETTINGS, by_name};

/// More than this many edits away is somebody else's name.
const EDITS_MAX: usize = 2;

#[derive(Debug, PartialEq)]
pub(super) enum Meaning {
    Known(&'static Setting),
    Dead,
    /// Probably meant as this one.
    Misspelt(&'static Setting),
    Foreign,
}

// Settings are told apart by their name; there is one of each.
impl PartialEq for Setting {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

pub(super) fn meaning(name: &str) -> Meaning {
    if let Some(setting) = by_name(name) {
        return Meaning::Known(setting);
    }
    if DEAD_NAMES.contains(&name) {
        return Meaning::Dead;
    }
    match nearest(name, |setting| setting.name) {
        Some(setting) => Meaning::Misspelt(setting),
        None => Meaning::Foreign,
    }
}

/// The setting whose spelling is closest, if it is close at all.
pub(super) fn nearest(
    name: &str,
    spelling: impl Fn(&'static Setting) -> &'static str,
) -> Option<&'static Setting> {
    let distances = SETTINGS.iter().map(|setting| (edits(name, spelling(setting)), *setting));
    let near = distances.filter(|(distance, _)| *distance <= EDITS_MAX);
    near.min_by_key(|(distance, _)| *distance).map(|(_, setting)| setting)
}

/// Levenshtein distance, one row at a time.
pub(crate) fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut above_left = i;
        let mut left = i + 1;
        if let Some(first) = row.first_mut() {
            *first = left;
        }
        for (to, cell) in b.iter().zip(row.iter_mut().skip(1)) {
            let replace = above_left + usize::from(from != *to);
            above_left = *cell;
            left = replace.min(*cell + 1).min(left + 1);
            *cell = left;
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::table::NGIT_DOMAIN;

    #[test]
    fn edits_are_counted_as_usual() {
        for (a, b, distance) in
            [("", "", 0), ("a", "", 1), ("", "ab", 2), ("kitten", "sitting", 3), ("ab", "ba", 2)]
        {
            assert_eq!(edits(a, b), distance, "{a} {b}");
        }
    }

    #[test]
    fn a_slip_is_recognised_and_a_stranger_is_left_alone() {
        for slip in ["NGIT_DOMIAN", "NGIT_DOMAINS", "NGIT_DOMAI", "NGIT_DOMAN_"] {
            assert_eq!(meaning(slip), Meaning::Misspelt(&NGIT_DOMAIN), "{slip}");
        }
        // Names of the client that shares our prefix.
        for foreign in ["NGIT_HTTP_IO_TIMEOUT_MS", "NGIT_HTTP_CONNECT_TIMEOUT_MS", "NGIT_X"] {
            assert_eq!(meaning(foreign), Meaning::Foreign, "{foreign}");
        }
        assert_eq!(meaning("NGIT_TEST"), Meaning::Dead);
    }

    #[test]
    fn no_dead_name_lives_on() {
        for dead in DEAD_NAMES {
            assert_eq!(meaning(dead), Meaning::Dead, "{dead}");
        }
    }
}

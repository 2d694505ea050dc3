//! What a comparison found, summed up for one repository and for all of them. Pure.

use grasp_core::{EventId, Oid};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// `<npub>/<identifier>`
    pub repository: String,
    pub standing: Standing,
    /// Otherwise a difference can only be one of events.
    pub refs_compared: bool,
}

/// All that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Compared {
    pub lines: Vec<Line>,
    /// Repositories that were too many.
    pub left_out: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Standing {
    Equal,
    Different(Difference),
    /// One sentence: why.
    Incomparable(String),
    /// Nobody says that it should be there, and it is not.
    NotListed,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Difference {
    pub they_lack: BTreeSet<EventId>,
    pub we_lack: BTreeSet<EventId>,
    pub refs_they_lack: u64,
    pub refs_we_lack: u64,
    /// Both have them, at different commits.
    pub refs_apart: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    pub equal: u64,
    pub different: u64,
    pub incomparable: u64,
    pub not_listed: u64,
}

pub(super) type Refs = BTreeMap<String, Oid>;

impl Difference {
    pub(super) fn count_events(&mut self, found: grasp_relay::neg::Difference) {
        self.they_lack.extend(found.have);
        self.we_lack.extend(found.need);
    }

    pub(super) fn count_refs(&mut self, ours: &Refs, theirs: &Refs) {
        for (name, oid) in ours {
            match theirs.get(name) {
                None => self.refs_they_lack += 1,
                Some(other) if other != oid => self.refs_apart += 1,
                Some(_) => {}
            }
        }
        let unknown = theirs.keys().filter(|name| !ours.contains_key(*name)).count();
        self.refs_we_lack += u64::try_from(unknown).unwrap_or(u64::MAX);
    }

    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl Standing {
    pub(super) fn of(difference: Difference) -> Self {
        match difference.is_none() {
            true => Self::Equal,
            false => Self::Different(difference),
        }
    }

    pub fn words(&self) -> String {
        match self {
            Self::Equal => "equal".to_owned(),
            Self::NotListed => "not listed there".to_owned(),
            Self::Incomparable(why) => format!("cannot be compared: {why}"),
            Self::Different(it) => {
                let they = lacking("they lack", it.they_lack.len(), it.refs_they_lack);
                let we = lacking("we lack", it.we_lack.len(), it.refs_we_lack);
                let apart = (it.refs_apart > 0).then(|| format!("{} refs differ", it.refs_apart));
                let parts: Vec<String> = they.into_iter().chain(we).chain(apart).collect();
                parts.join("; ")
            }
        }
    }
}

impl Line {
    pub fn words(&self) -> String {
        let words = self.standing.words();
        match self.standing {
            Standing::Equal | Standing::Different(_) if !self.refs_compared => {
                format!("{words}; refs not compared")
            }
            _ => words,
        }
    }
}

fn lacking(who: &str, events: usize, refs: u64) -> Option<String> {
    match (events, refs) {
        (0, 0) => None,
        (events, 0) => Some(format!("{who} {events} events")),
        (0, refs) => Some(format!("{who} {refs} refs")),
        (events, refs) => Some(format!("{who} {events} events, {refs} refs")),
    }
}

impl Totals {
    pub fn of(lines: &[Line]) -> Self {
        let mut totals = Self::default();
        for line in lines {
            match line.standing {
                Standing::Equal => totals.equal += 1,
                Standing::Different(_) => totals.different += 1,
                Standing::Incomparable(_) => totals.incomparable += 1,
                Standing::NotListed => totals.not_listed += 1,
            }
        }
        totals
    }
}

impl Compared {
    /// A difference that was found is worth more than one that could not be looked for.
    pub(super) fn exit_code(&self) -> u8 {
        match Totals::of(&self.lines) {
            Totals { different: 1.., .. } => 1,
            Totals { incomparable: 1.., .. } => 2,
            _ if self.left_out > 0 => 2,
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refs(of: &[(&str, u8)]) -> Refs {
        of.iter().map(|(name, n)| ((*name).to_owned(), Oid::from_bytes([*n; 20]))).collect()
    }

    #[test]
    fn what_either_side_lacks_is_told_in_one_line() {
        let mut it = Difference::default();
        it.count_refs(&refs(&[("a", 1), ("b", 2)]), &refs(&[("a", 1), ("b", 2)]));
        assert_eq!(Standing::of(it.clone()), Standing::Equal);
        it.count_refs(&refs(&[("a", 1), ("b", 2)]), &refs(&[("b", 3), ("c", 4)]));
        let id = |n| EventId::from_bytes([n; 32]);
        it.count_events(grasp_relay::neg::Difference { have: vec![id(1), id(2)], need: vec![] });
        it.count_events(grasp_relay::neg::Difference { have: vec![id(2)], need: vec![] });
        let words = Standing::of(it).words();
        assert_eq!(words, "they lack 2 events, 1 refs; we lack 1 refs; 1 refs differ");
    }

    #[test]
    fn a_verdict_without_refs_says_so() {
        let words = |standing, refs_compared| {
            Line { repository: "x".into(), standing, refs_compared }.words()
        };
        let it =
            Difference { we_lack: [EventId::from_bytes([1; 32])].into(), ..Difference::default() };
        assert_eq!(words(Standing::Equal, true), "equal");
        assert_eq!(words(Standing::Equal, false), "equal; refs not compared");
        let different = words(Standing::Different(it), false);
        assert_eq!(different, "we lack 1 events; refs not compared");
        assert_eq!(words(Standing::NotListed, false), "not listed there");
    }

    #[test]
    fn the_exit_code_tells_the_worst_that_is_certain() {
        let line = |standing| Line { repository: "x".into(), standing, refs_compared: true };
        let (equal, unlisted) = (line(Standing::Equal), line(Standing::NotListed));
        let unclear = line(Standing::Incomparable("x".into()));
        let it = Difference { refs_apart: 1, ..Difference::default() };
        let different = line(Standing::of(it));
        let code =
            |lines: &[Line], left_out| Compared { lines: lines.to_vec(), left_out }.exit_code();
        assert_eq!(code(&[], 0), 0);
        assert_eq!(code(&[equal.clone(), unlisted], 0), 0);
        assert_eq!(code(&[equal.clone(), unclear.clone()], 0), 2);
        assert_eq!(
            code(std::slice::from_ref(&equal), 1),
            2,
            "of what was left out nothing is known"
        );
        assert_eq!(code(&[equal, unclear, different], 1), 1);
    }
}

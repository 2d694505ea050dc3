//! Kinds 5 and 62. A request counts when its author has anything here, even if what it names has
//! not arrived yet; from a stranger it is kept aside, because their events may still come.

use super::{DeletionFacts, Reason, Verdict};
use crate::nip09::Deletion;

pub(super) fn deletion(it: &Deletion, facts: &DeletionFacts) -> Verdict {
    if facts.targets.values().any(|author| *author != it.author) {
        return Verdict::Reject(Reason::FOREIGN_TARGET);
    }
    vanish(facts.author_known)
}

pub(super) fn vanish(author_known: bool) -> Verdict {
    if author_known { Verdict::Accept } else { Verdict::Defer }
}

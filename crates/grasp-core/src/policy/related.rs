//! Everything that belongs here because of something else that does: threads, pull requests,
//! profiles. What hangs on something held is held with it.

use super::{Facts, GraspListFacts, Needs, ProfileFacts, PullRequestFacts, Reason, Rules, Verdict};
use crate::event::Event;
use crate::maintainers::Standing;
use crate::nip34::PullRequest;

pub(super) fn related(event: &Event, anchor: Option<Standing>, rules: &Rules) -> Verdict {
    // The server's own key may say what it likes; repositories and pull requests are judged before
    // they get here.
    if event.pubkey == rules.relay_key {
        return Verdict::Accept;
    }
    anchored(anchor, Reason::UNRELATED)
}

/// An event that is never kept cannot wait either.
pub(super) fn passing(event: &Event, anchor: Option<Standing>, rules: &Rules) -> Verdict {
    match related(event, anchor, rules) {
        Verdict::Accept => Verdict::PassOn,
        _ => Verdict::Reject(Reason::UNRELATED),
    }
}

pub(super) fn profile(event: &Event, facts: &ProfileFacts, rules: &Rules) -> Verdict {
    if event.pubkey == rules.relay_key {
        return Verdict::Accept;
    }
    anchored(facts.anchor.max(facts.takes_part), Reason::STRANGER)
}

/// Someone who has a list may always replace it.
pub(super) fn grasp_list(facts: &Facts, about: &GraspListFacts, rules: &Rules) -> Verdict {
    if facts.current.is_some() || about.stored < rules.grasp_lists_max {
        Verdict::Accept
    } else {
        Verdict::Reject(Reason::GRASP_LISTS_FULL)
    }
}

pub(super) fn pull_request(it: &PullRequest, facts: &PullRequestFacts) -> Verdict {
    let verdict = anchored(facts.anchor, Reason::UNRELATED_PULL_REQUEST);
    match (verdict, it.tip) {
        (Verdict::Accept | Verdict::Hold(_), None) => Verdict::Hold(Needs::Unsatisfiable),
        (Verdict::Accept, Some(tip)) if !facts.tip_present => {
            Verdict::Hold(Needs::GitData { missing: vec![tip] })
        }
        (verdict, _) => verdict,
    }
}

fn anchored(anchor: Option<Standing>, otherwise: Reason) -> Verdict {
    match anchor {
        Some(Standing::Served) => Verdict::Accept,
        Some(Standing::Held) => Verdict::Hold(Needs::Anchor),
        None => Verdict::Reject(otherwise),
    }
}

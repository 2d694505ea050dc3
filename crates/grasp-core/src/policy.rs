//! What this server takes, holds and refuses. The shell gathers facts, `judge` thinks, the shell
//! applies: nothing here looks anything up. When facts are missing the answer is no.

mod announcement;
mod facts;
mod reason;
mod related;
mod request;
mod rules;
mod state;
mod subject;
mod verdict;

pub use facts::{
    About, AnnouncementFacts, Current, DeletionFacts, Erased, Facts, GraspListFacts, ProfileFacts,
    PullRequestFacts, StateFacts,
};
pub use reason::{Prefix, Reason, RefusalClass};
pub use rules::{BadPattern, Origin, RepoPattern, Rules};
pub use subject::Subject;
pub use verdict::{Answer, DEFERRED, Needs, PURGATORY, Remains, Verdict, Waits, Withdrawal};

use crate::event::Event;
use crate::maintainers::Standing;
use crate::{Kind, Timestamp};

/// What can be refused by a glance: run it before the signature is checked, which costs a thousand
/// times more.
pub fn precheck(
    event: &Event,
    rules: &Rules,
    now: Timestamp,
    origin: Origin,
) -> Result<(), Reason> {
    let from_sync = origin == Origin::Sync;
    if rules.event_blacklist.contains(&event.pubkey) {
        Err(Reason::blacklisted_author(&event.pubkey))
    } else if event.kind == Kind::AUTH {
        Err(Reason::AUTH_IS_NO_EVENT)
    } else if event.created_at > now.plus_secs(rules.created_at_ahead_secs_max) {
        Err(Reason::too_far_ahead(rules.created_at_ahead_secs_max))
    } else if event.expiration().is_some_and(|end| end <= now) {
        Err(Reason::EXPIRED)
    } else if event.kind.is_ephemeral() && from_sync {
        Err(Reason::EPHEMERAL_FROM_SYNC)
    } else if event.is_protected() && from_sync {
        Err(Reason::PROTECTED)
    } else {
        Ok(())
    }
}

/// The verdict on one event, from wherever it came. `subject` must be `Subject::of` this event.
pub fn judge(
    event: &Event,
    subject: &Subject,
    facts: &Facts,
    rules: &Rules,
    origin: Origin,
    now: Timestamp,
) -> Verdict {
    let first =
        precheck(event, rules, now, origin).and_then(|()| still_wanted(event, facts, rules));
    if let Err(reason) = first {
        return Verdict::Reject(reason);
    }
    let verdict = by_subject(event, subject, facts, rules);
    let waits_for_git = matches!(&verdict, Verdict::Hold(needs) if needs.waits_for_git());
    if facts.expired && origin == Origin::Sync && waits_for_git {
        return Verdict::Reject(Reason::EXPIRED_IN_PURGATORY);
    }
    verdict
}

/// Is it new, not taken back, and not behind a version we already have? Needs no `about`, so the
/// shell asks this before it gathers the dearer facts.
pub fn still_wanted(event: &Event, facts: &Facts, rules: &Rules) -> Result<(), Reason> {
    match facts.known {
        Some(Standing::Served) => return Err(Reason::ALREADY_HERE),
        Some(Standing::Held) => return Err(Reason::ALREADY_HELD),
        None => {}
    }
    if rules.respect_deletions && facts.erased.deletes(event) {
        return Err(Reason::DELETED);
    }
    if rules.respect_deletions && facts.erased.hides(event) {
        return Err(Reason::VANISHED);
    }
    match &facts.current {
        Some(current) if current.rank.beats(&event.rank()) => Err(superseded(event, current)),
        _ => Ok(()),
    }
}

/// An event that lost by its id alone can win with the next second; its author has to know.
fn superseded(event: &Event, current: &Current) -> Reason {
    match event.kind {
        _ if current.rank.created_at != event.created_at => Reason::SUPERSEDED,
        Kind::STATE => Reason::SAME_SECOND_STATE,
        _ => Reason::SAME_SECOND,
    }
}

fn by_subject(event: &Event, subject: &Subject, facts: &Facts, rules: &Rules) -> Verdict {
    match (subject, &facts.about) {
        (Subject::Announcement(it), About::Announcement(about)) => {
            announcement::judge(it, event, facts.current.as_ref(), about, rules)
        }
        (Subject::State(it), About::State(about)) => state::judge(it, about, rules),
        (Subject::PullRequest(it), About::PullRequest(about)) => related::pull_request(it, about),
        (Subject::GraspList, About::GraspList(about)) => related::grasp_list(facts, about, rules),
        (Subject::Profile(_), About::Profile(about)) => related::profile(event, about, rules),
        (Subject::Related(_), About::Related(anchor)) => related::related(event, *anchor, rules),
        (Subject::Passing(_), About::Related(anchor)) => related::passing(event, *anchor, rules),
        (Subject::Deletion(it), About::Deletion(about)) => request::deletion(it, about),
        (Subject::Vanish(_), About::Vanish { author_known }) => request::vanish(*author_known),
        _ => Verdict::Reject(Reason::WRONG_FACTS),
    }
}

//! Kind 30617. Who lists this server in both places asks to be hosted and waits for git data once.
//! Who does not is served only if a known announcement invites them. Leaving us takes effect at
//! once, and an older version cannot undo it.

use super::{AnnouncementFacts, Current, Needs, Reason, Remains, Rules, Verdict, Withdrawal};
use crate::event::Event;
use crate::id::RepoId;
use crate::maintainers::{Grant, MaintainerRule, Standing};
use crate::nip34::Announcement;

pub(super) fn judge(
    it: &Announcement,
    event: &Event,
    current: Option<&Current>,
    facts: &AnnouncementFacts,
    rules: &Rules,
) -> Verdict {
    if rules.blacklists(&it.repo) {
        return Verdict::Reject(Reason::blacklisted(&it.repo));
    }
    if facts.withdrawn.is_some_and(|left| left.beats(&event.rank())) {
        return Verdict::Reject(Reason::SUPERSEDED);
    }
    if rules.hosts(it) {
        return hosted(current, facts);
    }
    let verdict = not_hosted(it, current, facts, rules);
    if facts.hosted { withdraw(it, verdict) } else { verdict }
}

/// A repository that is served stays served, whoever its new announcement lists.
fn hosted(current: Option<&Current>, facts: &AnnouncementFacts) -> Verdict {
    let served = current.is_some_and(|current| current.standing == Standing::Served);
    if served || facts.data_present {
        Verdict::Accept
    } else {
        Verdict::Hold(Needs::GitData { missing: Vec::new() })
    }
}

fn not_hosted(
    it: &Announcement,
    current: Option<&Current>,
    facts: &AnnouncementFacts,
    rules: &Rules,
) -> Verdict {
    if it.private {
        return Verdict::Reject(Reason::PRIVATE);
    }
    match exception(it, current, facts, rules) {
        Some(Grant { standing: Standing::Served, .. }) => Verdict::Accept,
        Some(Grant { view, standing: Standing::Held }) => {
            let identifier = it.repo.identifier.clone();
            Verdict::Hold(Needs::Repository(RepoId { owner: view, identifier }))
        }
        None => Verdict::Reject(why_not(it, rules)),
    }
}

/// Maintainers need not list this server: their announcements are needed to know who is one. A
/// resignation by someone we never heard of changes nothing under the two-way rule.
fn exception(
    it: &Announcement,
    current: Option<&Current>,
    facts: &AnnouncementFacts,
    rules: &Rules,
) -> Option<Grant> {
    let owner = it.repo.owner;
    // One that asks to be hosted is no exception, whatever was here before it.
    let replaced = current.filter(|_| !facts.hosted && !it.lists(&rules.service));
    let replaced = replaced.map(|known| Grant { view: owner, standing: known.standing });
    let counts = it.roles.author_active
        || current.is_some()
        || rules.maintainer_rule == MaintainerRule::Listed;
    let invited = facts.family.invited(&owner).filter(|_| counts);
    match (invited, replaced) {
        (Some(invited), Some(replaced)) if replaced.standing > invited.standing => Some(replaced),
        (invited, replaced) => invited.or(replaced),
    }
}

fn why_not(it: &Announcement, rules: &Rules) -> Reason {
    if it.lists(&rules.service) {
        Reason::not_whitelisted(&it.repo)
    } else {
        Reason::does_not_list_us(it.listing(&rules.service), &rules.service.address())
    }
}

fn withdraw(it: &Announcement, verdict: Verdict) -> Verdict {
    let remains = match verdict {
        Verdict::Hold(needs) => Remains::Held(needs),
        Verdict::Reject(why) => Remains::Aside(why),
        _ => Remains::Served,
    };
    Verdict::Withdraw(Withdrawal { repo: it.repo.clone(), remains })
}

//! Kind 30618. Its author must have a say in at least one view known here; then it waits for the
//! objects it names. What names none has nothing to wait for but its repository.

use super::{Needs, Reason, Rules, StateFacts, Verdict};
use crate::id::{Oid, RepoId};
use crate::maintainers::{MaintainerRule, Standing};
use crate::nip34::State;

pub(super) fn judge(it: &State, facts: &StateFacts, rules: &Rules) -> Verdict {
    if !facts.announced {
        return Verdict::Reject(Reason::NO_ANNOUNCEMENT);
    }
    let Some(authority) = facts.family.authority(&it.author, rules.maintainer_rule) else {
        return Verdict::Reject(not_authorised(rules.maintainer_rule));
    };
    if !it.satisfiable {
        return Verdict::Hold(Needs::Unsatisfiable);
    }
    if let Some(unfit) = &facts.unfit {
        return Verdict::Hold(Needs::Unfit(unfit.clone()));
    }
    let missing: Vec<Oid> = it.objects().difference(&facts.present).copied().collect();
    if !missing.is_empty() {
        return Verdict::Hold(Needs::GitData { missing });
    }
    if !it.names_objects() && authority.standing == Standing::Held {
        let repo = RepoId { owner: authority.view, identifier: it.identifier.clone() };
        return Verdict::Hold(Needs::Repository(repo));
    }
    Verdict::Accept
}

fn not_authorised(rule: MaintainerRule) -> Reason {
    match rule {
        MaintainerRule::Confirmed => Reason::NOT_AUTHORISED,
        MaintainerRule::Listed => Reason::NOT_LISTED,
    }
}

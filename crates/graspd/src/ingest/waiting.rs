//! What waits, for what, and until when: the same question the rules were asked when it came.

use super::gather::{Sources, gather_again};
use super::holds;
use super::roles::RoleCache;
use crate::repos::Repos;
use grasp_core::hold::Hold;
use grasp_core::policy::{Origin, Rules, Subject, Verdict, judge};
use grasp_core::{EventId, Kind, PubKey, Time};
use grasp_store::{EventStore, Result, Space};

/// One event that is held.
#[derive(Debug)]
pub struct Waiting {
    pub id: EventId,
    pub kind: Kind,
    pub author: PubKey,
    pub hold: Hold,
    /// As a sentence without its subject: `waits for 3 git objects`.
    pub needs: String,
}

/// Everything that is held, in the order in which it is given up.
pub fn waiting(
    store: &dyn EventStore,
    rules: &Rules,
    repos: &Repos,
    now: Time,
) -> Result<Vec<Waiting>> {
    let snapshot = store.read()?;
    let mut roles = RoleCache::default();
    let mut found = Vec::new();
    for (id, hold) in holds::all(&*snapshot)? {
        let Some(held) = snapshot.get(Space::Held, &id)? else { continue };
        let mut from = Sources { store: &*snapshot, roles: &mut roles, repos, rules };
        let needs = match Subject::of(&held.event, rules) {
            Ok(subject) => {
                let facts = gather_again(&mut from, &held.event, &subject)?;
                let at = now.timestamp();
                match judge(&held.event, &subject, &facts, rules, Origin::Direct, at) {
                    Verdict::Hold(needs) => needs.to_string(),
                    Verdict::Accept => "has all it needs and is served at the next start".into(),
                    verdict => verdict.answer().text,
                }
            }
            Err(reason) => reason.to_string(),
        };
        let (kind, author) = (held.event.kind, held.event.pubkey);
        found.push(Waiting { id, kind, author, hold, needs });
    }
    found.sort_by_key(|it| it.hold.deadline);
    Ok(found)
}

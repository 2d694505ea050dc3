//! Events an operator brings along: the rules are not asked, but nothing that needs git data is
//! served without it.

use super::admit::Effects;
use super::affected::Intent;
use super::claims;
use super::gather::known;
use super::removal::{bury, vanish_author};
use super::serving::{keep_waiting, serve};
use grasp_core::VerifiedEvent;
use grasp_core::hold::{Hold, Patience};
use grasp_core::policy::{Rules, Subject};
use grasp_store::{Provenance, Space, StoreError, Transaction};
use std::sync::Arc;

/// Takes events in; returns how many are here now that were not before. Deletions count in both
/// directions.
pub fn import(
    txn: &mut dyn Transaction,
    events: &[VerifiedEvent],
    from: &Provenance,
    rules: &Rules,
) -> Result<u64, StoreError> {
    let mut effects = Effects::default();
    let mut imported = 0;
    for event in events {
        imported += u64::from(import_one(txn, event, from, rules, &mut effects)?);
    }
    // Looked at when the server starts: objects may be here, or refs have to move.
    if !effects.affected.is_empty() {
        Intent { affected: effects.affected, packs: Vec::new() }.write(txn)?;
    }
    Ok(imported)
}

fn import_one(
    txn: &mut dyn Transaction,
    event: &VerifiedEvent,
    from: &Provenance,
    rules: &Rules,
    effects: &mut Effects,
) -> Result<bool, StoreError> {
    let erased = rules.respect_deletions && txn.erased(event)?.reaches(event);
    if erased || event.kind.is_ephemeral() || known(txn, &event.id)?.is_some() {
        return Ok(false);
    }
    let subject = Subject::of(event, rules);
    let needs_git = match &subject {
        Ok(Subject::State(state)) => state.names_objects(),
        Ok(Subject::PullRequest(_)) => true,
        _ => false,
    };
    if needs_git {
        keep_waiting(txn, event, from, Hold::begin(from.received, Patience::default()))?;
        claims::put_all(txn, event, from)?;
        effects.affected.event(event);
        return txn.contains(Space::Held, &event.id);
    }
    let stored = !serve(txn, &Arc::new(event.clone()), from)?.is_empty();
    // A request to vanish from other relays, or one that cannot be read, is kept as it is.
    match subject {
        Ok(Subject::Deletion(deletion)) if rules.respect_deletions => {
            bury(txn, &deletion, from.received, effects)?;
        }
        Ok(Subject::Vanish(vanish)) if rules.respect_deletions => {
            vanish_author(txn, &vanish, from.received, effects)?;
        }
        _ => {}
    }
    Ok(stored)
}

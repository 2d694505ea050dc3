//! What a family lacks, asked of the store and the repositories, for the hunt and for its jobs. What
//! lacks nothing any more is handed to the writer on the way.

use super::Ground;
use crate::ingest::{Errand, Lacking, Question, families_of, lacking};
use grasp_core::terms::Term;
use grasp_core::{Identifier, Oid};
use grasp_engine::hunt::{Brought, FamilyId, HuntInput, Lack};
use grasp_store::{EventStore, Result, Space};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// A store that cannot be read is asked again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Events of one name whose families are looked for when theirs is gone.
const RETOLD_MAX: usize = 1_000;

/// Answers the hunt.
pub(super) async fn look(
    ground: Arc<Ground>,
    family: FamilyId,
    words: mpsc::UnboundedSender<HuntInput>,
) {
    // Never closed.
    let Ok(_turn) = ground.looks.acquire().await else { return };
    let Some(found) = lacks(&ground, &family).await else { return };
    if !found.complete.is_empty() {
        ground.node.ingest.complete(found.complete.clone()).await;
    }
    for repo in &found.unsettled {
        ground.node.ingest.settle(repo.clone()).await;
    }
    if found.is_gone {
        retell(&ground, &family, &words).await;
    }
    let lack = Lack {
        wants: found.wants(),
        held: found.is_held(),
        proposed: found.proposed_wants(),
        standing: found.standing,
        sources: found.sources,
    };
    let _ = words.send(HuntInput::Looked { family, lack });
}

/// A family changed its name, or fell apart: what waits under that name may belong to another.
async fn retell(ground: &Ground, gone: &FamilyId, words: &mpsc::UnboundedSender<HuntInput>) {
    let (rules, identifier) = (Arc::clone(&ground.node.rules), gone.identifier.clone());
    let found = ask(ground, move |store| {
        let waiting = waiting_by_name(store, &identifier)?;
        families_of(store, &rules, &waiting)
    });
    let families: BTreeSet<FamilyId> = found.await.into_iter().flatten().flatten().collect();
    let since = ground.node.clock.now();
    for family in families.into_iter().filter(|family| family != gone) {
        let _ = words.send(HuntInput::Held { family, brought: Brought::BySync, since });
    }
}

fn waiting_by_name(
    store: &dyn EventStore,
    identifier: &Identifier,
) -> Result<Vec<grasp_store::StoredEvent>> {
    let snapshot = store.read()?;
    let mut found = Vec::new();
    for space in [Space::Held, Space::Wanted] {
        found.extend(snapshot.newest(space, &Term::tag(b'd', identifier.as_str()), RETOLD_MAX)?);
    }
    Ok(found)
}

/// `None` when the server stops.
pub(super) async fn lacks(ground: &Arc<Ground>, family: &FamilyId) -> Option<Lacking> {
    errands(ground, family, &BTreeSet::new()).await.map(|(found, _)| found)
}

/// The same, with the errands that bring some of it.
pub(super) async fn errands(
    ground: &Arc<Ground>,
    family: &FamilyId,
    wants: &BTreeSet<Oid>,
) -> Option<(Lacking, Vec<Errand>)> {
    let (node, family, wants) = (Arc::clone(&ground.node), family.clone(), wants.clone());
    let (damaged, urls_per_event_max) = (ground.damaged.lock().clone(), ground.urls_per_event_max);
    // Moves on with time, so that nobody is left out for ever.
    let turn = usize::try_from(ground.node.clock.now().0 / 1_000).unwrap_or(0);
    ask(ground, move |store| {
        let (rules, repos) = (&node.rules, &node.host.repos);
        let (family, damaged) = (&family, &damaged);
        let question = Question { rules, repos, family, damaged, urls_per_event_max, turn };
        let found = lacking(store, &question)?;
        let errands = found.errands(&wants);
        Ok((found, errands))
    })
    .await
}

async fn ask<T: Send + 'static>(
    ground: &Ground,
    question: impl Fn(&dyn EventStore) -> Result<T> + Clone + Send + 'static,
) -> Option<T> {
    loop {
        match ground.node.explorers.ask(question.clone()).await {
            Ok(Ok(answer)) => return Some(answer),
            Ok(Err(error)) => tracing::error!(%error, "what is missing cannot be read"),
            Err(_) => return None,
        }
        tokio::select! {
            () = ground.node.closing.cancelled() => return None,
            () = tokio::time::sleep(RETRY_AFTER) => {}
        }
    }
}

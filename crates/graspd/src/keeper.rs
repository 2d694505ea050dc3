//! Runs the writer's chores and looks after the repositories: copies between owners, repacking,
//! removing what nobody refers to, and comparing refs with what was signed, one at a time.

use crate::host::{Chore, Host};
use crate::ingest::{Copied, Copying, Round, compare};
use crate::landing::open_quarantine;
use crate::node::Node;
use grasp_core::RepoId;
use grasp_core::push::Difference;
use grasp_git::{copy, discard, packs, tidy};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Packs of one repository before they are worth rolling together.
const PACKS_MAX: usize = 12;
/// Between two repositories that are compared with what was signed.
const CHECK_EVERY: Duration = Duration::from_secs(2);

/// Ends with the server. Repacking waits in a line of its own: it takes long, and nobody waits for it.
pub async fn run(node: Arc<Node>, mut chores: mpsc::UnboundedReceiver<Chore>) {
    let (untidy, line) = mpsc::unbounded_channel();
    node.tasks.spawn(keep_tidy(Arc::clone(&node), line));
    loop {
        let chore = tokio::select! {
            () = node.closing.cancelled() => return,
            chore = chores.recv() => chore,
        };
        let done = match chore {
            None => return,
            Some(Chore::Copy(copying)) => bring(&node, copying).await,
            Some(Chore::Discard(name)) => remove(&node.host, name).await,
            Some(Chore::Tidy(repo)) => untidy.send(repo).map_err(Into::into),
        };
        if let Err(error) = done {
            tracing::warn!(%error, "an chore failed; the check will find it again");
        }
    }
}

async fn keep_tidy(node: Arc<Node>, mut line: mpsc::UnboundedReceiver<RepoId>) {
    loop {
        let repo = tokio::select! {
            () = node.closing.cancelled() => return,
            repo = line.recv() => repo,
        };
        let Some(repo) = repo else { return };
        if let Err(error) = roll_together(&node.host, &repo).await {
            tracing::warn!(%repo, %error, "packs could not be rolled together");
        }
    }
}

async fn bring(node: &Arc<Node>, it: Copying) -> anyhow::Result<()> {
    let quarantine = open_quarantine(node, &it.to).await?;
    let from = node.host.repos.directory(&it.from);
    copy(&node.host.git, &from, &quarantine, &it.wants, &BTreeSet::new(), &node.host.pack).await?;
    node.ingest.copied(Copied { to: it.to, quarantine, proposals: it.proposals }).await;
    Ok(())
}

async fn remove(host: &Arc<Host>, name: String) -> anyhow::Result<()> {
    let host = Arc::clone(host);
    Ok(tokio::task::spawn_blocking(move || discard(&host.layout, &name)).await??)
}

async fn roll_together(host: &Arc<Host>, repo: &RepoId) -> anyhow::Result<()> {
    let directory = host.repos.directory(repo);
    let counted = directory.clone();
    let count = tokio::task::spawn_blocking(move || packs(&counted)).await?.unwrap_or(0);
    if count > PACKS_MAX {
        let tidied = tidy(&host.git, &directory).await?;
        tracing::debug!(%repo, before = tidied.packs_before, after = tidied.packs_after, "tidied");
    }
    Ok(())
}

/// Compares served states with refs on the disk, repository after repository, for as long as the
/// server runs. A difference is reported, and the writer is asked to bring it in line.
pub async fn watch(node: Arc<Node>) {
    let mut tick = tokio::time::interval(CHECK_EVERY);
    let mut round = Round::default();
    loop {
        tokio::select! {
            () = node.closing.cancelled() => return,
            _ = tick.tick() => {}
        }
        let (host, rules) = (Arc::clone(&node.host), Arc::clone(&node.rules));
        let asked = node.readers.ask(move |store| {
            let (repos, more) = round.next(store, &rules)?;
            let mut differing = Vec::new();
            for repo in repos {
                let differs = compare(store, &rules, &host.repos, &repo)?;
                differing.extend(differs.map(|differs| (repo, differs)));
            }
            let round = if more { round } else { Round::default() };
            Ok::<_, grasp_store::StoreError>((round, differing))
        });
        let Ok(Ok((next, differing))) = asked.await else {
            round = Round::default();
            continue;
        };
        round = next;
        for (repo, differs) in differing {
            report(&node, repo, &differs).await;
        }
    }
}

async fn report(node: &Arc<Node>, repo: RepoId, differs: &Difference) {
    tracing::warn!(%repo, %differs, "refs do not say what was signed");
    node.metrics.refs_differ.inc();
    node.ingest.settle(repo).await;
}

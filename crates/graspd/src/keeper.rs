//! Runs the writer's chores and looks after the repositories: copies between owners, repacking,
//! removing what nobody refers to, and comparing refs with what was signed, one at a time.

use crate::host::{Chore, Host};
use crate::ingest::{Copied, Copying, Round, compare};
use crate::node::Node;
use crate::sharing::{ObjectNeed, PackSharing};
use grasp_core::push::Difference;
use grasp_core::{Oid, RepoId};
use grasp_git::{Quarantine, discard, new_packs, remove_maintenance_leftovers, tidy, used_bytes};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// New packs of one repository before they are worth rolling together.
const PACKS_MAX: usize = 12;
/// Repositories waiting to be looked at.
const UNTIDY_MAX: usize = 1_024;
/// Between two helpings of repositories that are compared with what was signed.
const CHECK_EVERY: Duration = Duration::from_secs(2);
/// Between two rounds over all of them.
const ROUND_EVERY: Duration = Duration::from_secs(60);

/// At least this long between two measurements of the git data, and so many times what one takes.
const MEASURE_EVERY: Duration = Duration::from_secs(10);
const MEASURE_SHARE: u32 = 100;

/// Ends with the server. Repacking waits in a line of its own: it takes long, and nobody waits for it.
pub async fn run(node: Arc<Node>, mut chores: mpsc::Receiver<Chore>) {
    let (untidy, line) = mpsc::channel(UNTIDY_MAX);
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
            // With a full line there is enough to do; the next push asks again.
            Some(Chore::Tidy(repo)) => {
                let _ = untidy.try_send(repo);
                Ok(())
            }
        };
        if let Err(error) = done {
            tracing::warn!(%error, "a chore failed");
        }
    }
}

async fn keep_tidy(node: Arc<Node>, mut line: mpsc::Receiver<RepoId>) {
    if let Err(error) = clean_up_interrupted_maintenance(&node.host).await {
        tracing::warn!(%error, "files of interrupted maintenance could not be removed");
    }
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

/// A kill may hit maintenance after its packs are in order, and then no later push would clean up after it.
async fn clean_up_interrupted_maintenance(host: &Arc<Host>) -> anyhow::Result<()> {
    let _upkeep = host.upkeep.lock().await;
    let layout = host.layout.clone();
    let removal = move || {
        for repo in layout.repositories()? {
            remove_maintenance_leftovers(&layout.repository(&repo))?;
        }
        Ok(())
    };
    tokio::task::spawn_blocking(removal).await?
}

async fn bring(node: &Arc<Node>, it: Copying) -> anyhow::Result<()> {
    match fetch(node, &it).await {
        Ok(quarantine) => {
            node.ingest.copied(Copied { to: it.to, quarantine, proposals: it.proposals }).await;
            Ok(())
        }
        Err(error) => {
            node.ingest.not_copied(it.to, it.proposals).await;
            Err(error)
        }
    }
}

async fn fetch(node: &Arc<Node>, it: &Copying) -> anyhow::Result<Quarantine> {
    let host = &node.host;
    if let Some(shortage) = host.disk.shortage() {
        return Err(shortage.into());
    }
    // For pull requests no more is carried than a stranger may send.
    let limits = if it.proposals.is_empty() { &host.pack } else { &host.proposal_pack };
    let tips = host.repos.shown(&it.to).map(|shown| shown.governed()).unwrap_or_default();
    let store = host.repos.store(&it.from)?;
    let shared = |oid: &Oid| store.as_ref().is_some_and(|store| store.contains(oid));
    let refs = tips.len() + it.wants.len();
    let has = tips.into_values().filter(shared).collect();
    let lacks = ObjectNeed { wants: it.wants.clone(), has, refs };
    let from = host.repos.directory(&it.from);
    Ok(PackSharing::new(host, &from).bring(&it.to, lacks, limits).await?)
}

async fn remove(host: &Arc<Host>, name: String) -> anyhow::Result<()> {
    let host = Arc::clone(host);
    Ok(tokio::task::spawn_blocking(move || discard(&host.layout, &name)).await??)
}

async fn roll_together(host: &Arc<Host>, repo: &RepoId) -> anyhow::Result<()> {
    let _upkeep = host.upkeep.lock().await;
    let directory = host.repos.directory(repo);
    let counted = directory.clone();
    let count = tokio::task::spawn_blocking(move || new_packs(&counted)).await?.unwrap_or(0);
    if count > PACKS_MAX {
        let tidied = tidy(&host.git, &directory).await?;
        tracing::debug!(%repo, before = tidied.packs_before, after = tidied.packs_after, "tidied");
    }
    Ok(())
}

/// Measures what the git data takes on the disk, again and again. The more there is, the less often.
pub async fn measure(node: Arc<Node>) {
    loop {
        let (root, began) = (node.host.layout.root().to_owned(), Instant::now());
        match tokio::task::spawn_blocking(move || used_bytes(&root)).await {
            Ok(Ok(bytes)) => node.host.git_used.set(bytes),
            Ok(Err(error)) => tracing::warn!(%error, "the git data could not be measured"),
            Err(_) => return,
        }
        if !pause(&node, MEASURE_EVERY.max(began.elapsed() * MEASURE_SHARE)).await {
            return;
        }
    }
}

/// Compares served states with refs on the disk, round after round. A difference is reported once,
/// and the writer is asked in every round to bring it in line.
pub async fn watch(node: Arc<Node>) {
    let mut known = BTreeMap::new();
    while let Some(differing) = look_around(&node).await {
        for (repo, differs) in &differing {
            if known.get(repo) != Some(differs) {
                tracing::warn!(%repo, %differs, "refs do not say what was signed");
                node.metrics.refs_differ.inc();
            }
            node.ingest.settle(repo.clone()).await;
        }
        known = differing;
        if !pause(&node, ROUND_EVERY).await {
            return;
        }
    }
}

/// One round over everything hosted here; `None` when the server stops.
async fn look_around(node: &Arc<Node>) -> Option<BTreeMap<RepoId, Difference>> {
    let mut round = Round::default();
    let mut differing = BTreeMap::new();
    while pause(node, CHECK_EVERY).await {
        let (host, rules) = (Arc::clone(&node.host), Arc::clone(&node.rules));
        let asked = node.readers.ask(move |store| {
            let (repos, more) = round.next(store, &rules)?;
            let mut found = Vec::new();
            for repo in repos {
                let differs = compare(store, &rules, &host.repos, &repo)?;
                found.extend(differs.map(|differs| (repo, differs)));
            }
            Ok::<_, grasp_store::StoreError>((more.then_some(round), found))
        });
        let (next, found) = asked.await.ok()?.ok().unwrap_or_default();
        differing.extend(found);
        match next {
            Some(next) => round = next,
            None => return Some(differing),
        }
    }
    None
}

/// False when the server stops.
async fn pause(node: &Node, length: Duration) -> bool {
    tokio::select! {
        () = node.closing.cancelled() => false,
        () = tokio::time::sleep(length) => true,
    }
}

//! A push outside the writer: may it begin, and what else has to be ready when it ends. Looks at a
//! snapshot, so every answer here is asked for again by the writer before anything moves.

use crate::host::{Host, PushGuard};
use crate::ingest::{
    Delivery, Need, Outcome, Preview, PushQuestion, may_upload, others_in_need, preview,
};
use crate::node::Node;
use crate::sharing::{ObjectNeed, PackSharing};
use grasp_core::RepoId;
use grasp_core::push::{Command, Decision, Grant};
use grasp_git::{PushHead, Quarantine, ReceiveError, Received};
use grasp_relay::IpKey;
use std::sync::Arc;

#[derive(Debug)]
pub enum Permit {
    /// Everything asked for is already so.
    Unchanged,
    Allowed(Allowed),
    Refused {
        reason: String,
        advice: String,
    },
}

#[derive(Debug)]
pub struct Allowed {
    /// No state is behind it, so anybody may send it, and the smaller limits hold.
    pub unclaimed: bool,
    grant: Grant,
    guard: PushGuard,
}

impl Permit {
    fn refused(reason: &str, advice: impl Into<String>) -> Self {
        Self::Refused { reason: reason.to_owned(), advice: advice.into() }
    }
}

/// May this push begin? If so, what it is for waits for the full time again.
pub async fn permit(node: &Arc<Node>, repo: &RepoId, commands: &[Command], ip: IpKey) -> Permit {
    let (repo, commands) = (repo.clone(), commands.to_vec());
    let (host, rules) = (Arc::clone(&node.host), Arc::clone(&node.rules));
    let (now, asked) = (node.clock.wall(), repo.clone());
    let seen = node.readers.ask(move |store| {
        let (rules, host, repo) = (&rules, &host, &asked);
        preview(store, &PushQuestion { rules, host, repo, commands: &commands, now })
    });
    let Preview { decision, waiting, obstacle } = match seen.await {
        Ok(Ok(Some(seen))) => seen,
        Ok(Ok(None)) => {
            return Permit::refused("not hosted here", "the repository is no longer hosted here");
        }
        Ok(Err(_)) | Err(_) => {
            return Permit::refused("internal error", "the server could not look; try again");
        }
    };
    let grant = match decision {
        Decision::Unchanged => return Permit::Unchanged,
        Decision::Deny(denial) => {
            let obstacle = obstacle.map(|words| format!("{words}; ")).unwrap_or_default();
            return Permit::refused(&denial.to_string(), obstacle + &denial.advice());
        }
        Decision::Allow(grant) => grant,
    };
    if let Some(shortage) = node.host.disk.shortage() {
        return Permit::refused("the server's disk is full", shortage.to_string());
    }
    let unclaimed = grant.state.is_none();
    if unclaimed && let Some(why) = no_room(node, &repo, ip).await {
        return Permit::refused("too much is waiting", why);
    }
    let guard = node.host.in_flight.begin(waiting.clone());
    if !waiting.is_empty() {
        node.ingest.extend(waiting).await;
    }
    Permit::Allowed(Allowed { unclaimed, grant, guard })
}

async fn no_room(node: &Arc<Node>, repo: &RepoId, ip: IpKey) -> Option<String> {
    let taken = node.budgets.lock().take_upload(ip, node.clock.now());
    if let Err(why) = taken {
        return Some(why.to_string());
    }
    let (repo, from, limits) = (repo.clone(), word(node, ip), node.host.uploads);
    let asked = node.readers.ask(move |store| may_upload(store, &repo, &from, &limits));
    match asked.await {
        Ok(Ok(refusal)) => refusal.map(str::to_owned),
        _ => Some("the server could not look; try again".to_owned()),
    }
}

/// Who it is, for counting; nobody in particular if nothing is counted.
fn word(node: &Node, ip: IpKey) -> String {
    if node.budgets.lock().counts(ip) { ip.customer() } else { String::new() }
}

/// Ends a push: refs, events and subscribers have it when this returns, or nothing has happened.
pub async fn deliver(
    node: &Arc<Node>,
    repo: &RepoId,
    head: &PushHead,
    quarantine: Quarantine,
    received: Received,
    ip: IpKey,
    allowed: Allowed,
) -> Outcome {
    let Allowed { grant, guard, .. } = allowed;
    let others = copies(node, repo, &quarantine, &grant).await;
    let delivery = Delivery {
        repo: repo.clone(),
        commands: head.commands.clone(),
        quarantine,
        bytes: received.disk_bytes,
        others,
        from: word(node, ip),
    };
    let outcome = node.ingest.land(delivery).await;
    drop(guard);
    outcome
}

/// Other owners' repositories that will follow the same state and lack some of its objects. What
/// cannot be brought now is brought later: it delays no push.
async fn copies(
    node: &Arc<Node>,
    repo: &RepoId,
    quarantine: &Quarantine,
    grant: &Grant,
) -> Vec<(RepoId, Quarantine)> {
    let Some(state) = grant.state else { return Vec::new() };
    let (host, rules, source) = (Arc::clone(&node.host), Arc::clone(&node.rules), repo.clone());
    let asked =
        node.readers.ask(move |store| others_in_need(store, &rules, &host.repos, &source, &state));
    let Ok(Ok(needs)) = asked.await else { return Vec::new() };
    let mut sharing = PackSharing::new(&node.host, quarantine.path());
    let mut copies = Vec::new();
    for Need { repo, wants, has, refs } in needs {
        match sharing.bring(&repo, ObjectNeed { wants, has, refs }, &node.host.pack).await {
            Ok(brought) => copies.push((repo, brought)),
            Err(error) => tracing::warn!(%repo, %error, "objects are copied later"),
        }
    }
    copies
}

/// A quarantine for one repository, made off the network threads, with room for a repository.
pub async fn open_quarantine(
    host: &Arc<Host>,
    repo: &RepoId,
    refs: usize,
) -> Result<Quarantine, ReceiveError> {
    let room = host.disk.try_reserve(repository_bytes(refs))?;
    let (host, repo) = (Arc::clone(host), repo.clone());
    let open = move || Quarantine::open(&host.layout, &repo);
    let opened = tokio::task::spawn_blocking(open).await;
    Ok(opened.unwrap_or_else(|error| Err(std::io::Error::other(error)))?.with_room(room))
}

/// What a quarantine and a new repository take beside their packs.
fn repository_bytes(refs: usize) -> u64 {
    /// Directories and small files, a block each.
    const FILES_BYTES: u64 = 96 << 10;
    /// A line of `packed-refs`, peeled.
    const REF_BYTES: u64 = 128;
    let refs = u64::try_from(refs).unwrap_or(u64::MAX);
    FILES_BYTES.saturating_add(refs.saturating_mul(REF_BYTES))
}

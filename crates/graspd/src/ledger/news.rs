//! What was served lately, as far as it concerns looks: where repositories are said to be, and which of
//! them somebody signed for. Read a page at a time, and on a page each announcement once.

use super::row::Peer;
use super::{of, tell};
use crate::ingest::{Signatures, Signed};
use crate::node::Node;
use crate::report::Verdict;
use grasp_core::nip34::Announcement;
use grasp_core::{CloneUrl, Kind, RepoId, Time};
use grasp_store::{EventStore, Result, Snapshot, Space, StoredEvent};
use std::ops::RangeInclusive;

#[derive(Debug)]
pub(super) enum News {
    /// Where it is said to be now; `None` if it is not served any more.
    Named(RepoId, Option<Box<Named>>),
    /// Something was signed for it.
    Signed(RepoId),
}

#[derive(Debug)]
pub(super) struct Named {
    pub(super) announcement: Announcement,
    /// With the time of the last look, if nothing was amiss then.
    pub(super) clones: Vec<(CloneUrl, Option<Time>)>,
}

const KINDS: [Kind; 2] = [Kind::ANNOUNCEMENT, Kind::STATE];
/// Events on a page.
const ROWS_MAX: usize = 200;

/// A page of these serials, and where the next one begins. `all`: also what was signed; it was looked
/// at before this run, or will be when it is due.
pub(super) fn page(
    store: &dyn EventStore,
    node: &Node,
    serials: RangeInclusive<u64>,
    all: bool,
) -> Result<(Vec<News>, Option<u64>)> {
    let snapshot = store.read()?;
    let mut found: Vec<StoredEvent> = Vec::new();
    let mut sink = |it: StoredEvent| found.push(it);
    let next = snapshot.walk(Space::Served, serials, &KINDS, ROWS_MAX, &mut sink)?;
    let mut signatures = Signatures::new(&node.rules);
    let mut news = Vec::new();
    for it in found {
        match of_event(&*snapshot, node, &mut signatures, &it, all) {
            Ok(more) => news.extend(more),
            // One that cannot be read holds up no other.
            Err(error) => {
                tracing::error!(%error, id = %it.event.id, "its mirrors cannot be looked at");
            }
        }
    }
    Ok((news, next))
}

fn of_event(
    store: &dyn Snapshot,
    node: &Node,
    signatures: &mut Signatures<'_>,
    it: &StoredEvent,
    all: bool,
) -> Result<Vec<News>> {
    if it.event.kind == Kind::ANNOUNCEMENT {
        let Some(repo) = it.event.coordinate().and_then(|it| it.repo()) else {
            return Ok(Vec::new());
        };
        let named = named(store, node, signatures, &repo)?;
        return Ok(vec![News::Named(repo, named.map(Box::new))]);
    }
    match it.event.d().parse() {
        Ok(identifier) if all => {
            let repos = signatures.concerned(store, &it.event.pubkey, &identifier)?;
            Ok(repos.into_iter().map(News::Signed).collect())
        }
        _ => Ok(Vec::new()),
    }
}

/// The same for one repository.
pub(super) fn of_repo(store: &dyn EventStore, node: &Node, repo: &RepoId) -> Result<News> {
    let named = named(&*store.read()?, node, &mut Signatures::new(&node.rules), repo)?;
    Ok(News::Named(repo.clone(), named.map(Box::new)))
}

fn named(
    store: &dyn Snapshot,
    node: &Node,
    signatures: &mut Signatures<'_>,
    repo: &RepoId,
) -> Result<Option<Named>> {
    let Some(Signed { announcement, .. }) = signatures.of(store, repo)? else {
        // What was imported may be served and followed, though nobody asked us to host it.
        let served = store.current(Space::Served, &repo.coordinate())?;
        let parsed = served.and_then(|it| Announcement::parse(&it.event).ok());
        return Ok(parsed.map(|announcement| Named { announcement, clones: Vec::new() }));
    };
    let mut clones = Vec::new();
    for url in tell::clones(&node.service, &announcement, repo) {
        let look = of(store, &Peer::Git(url.clone()), repo)?;
        // What somebody lacked may have come while nobody looked.
        let settled = look
            .filter(|look| matches!(look.seen.verdict(), Verdict::Equal | Verdict::Unverifiable));
        clones.push((url, settled.map(|look| node.clock.offset().to_steady(look.at))));
    }
    Ok(Some(Named { announcement, clones }))
}

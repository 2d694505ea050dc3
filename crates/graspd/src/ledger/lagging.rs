//! Servers where one side lacks something of a repository, for the list of problems. Reads a bounded
//! number of rows, those looked at longest ago first.

use super::row::{Row, Seen};
use super::words::Clauses;
use super::{place, shelf, tell};
use crate::report::Verdict;
use grasp_core::{RepoId, Time};
use grasp_store::{Result, Snapshot};
use std::collections::BTreeSet;
use std::time::Duration;

/// Rows read for one list of problems.
const ROWS_READ_MAX: usize = 500;

/// One server and what differs there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaggingServer {
    /// Host, and port if it is not the usual one.
    pub server: String,
    /// One of the repositories, and what is lacking of it.
    pub repo: RepoId,
    pub because: String,
    /// It has no event of that repository at all.
    pub has_nothing: bool,
    /// In how many repositories something is lacking.
    pub repositories: usize,
}

/// The servers with this verdict, `WeLack` or `TheyLack`, about at least one repository.
pub fn lagging(
    store: &dyn Snapshot,
    verdict: Verdict,
    now: Time,
    age_max: Duration,
) -> Result<Vec<LaggingServer>> {
    let since = *tell::fresh(now, age_max).start();
    let rows = shelf::lacking(store, verdict, since, ROWS_READ_MAX)?;
    let mut found: Vec<(LaggingServer, BTreeSet<RepoId>)> = Vec::new();
    for Row { peer, repo, look } in rows {
        if look.verdict_at(now, age_max) != verdict {
            continue;
        }
        if tell::last_change(store, &repo, now)?.checked_for(&look, &peer, now).is_some() {
            continue;
        }
        let server = place::server(&peer);
        if let Some((known, repos)) = found.iter_mut().find(|(it, _)| it.server == server) {
            repos.insert(repo);
            known.repositories = repos.len();
            continue;
        }
        let mut clauses = Clauses::default();
        clauses.add(&look.seen, now);
        let has_nothing = matches!(&look.seen, Seen::Events(it) if it.both == 0);
        let because = clauses.sentence();
        let repos = BTreeSet::from([repo.clone()]);
        found.push((LaggingServer { server, repo, because, has_nothing, repositories: 1 }, repos));
    }
    Ok(found.into_iter().map(|(server, _)| server).collect())
}

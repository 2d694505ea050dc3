//! One job of the hunt: looks again what is missing, fetches it from one address, and hands every
//! find to the writer at once, which releases what it completes. Whatever happens, the hunt hears of
//! the end exactly once.

use super::Ground;
use super::look::errands;
use super::mend::mend;
use crate::fetch::{Desk, Part, Task};
use crate::ingest::{Errand, Fetched, Purpose, Taken};
use crate::ledger::checks::CheckWatch;
use grasp_core::{CloneUrl, Oid};
use grasp_engine::hunt::{FamilyId, HuntInput, Job, JobEnd, Outcome};
use grasp_git::Quarantine;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// What the hunt asked for.
#[derive(Debug)]
pub(super) struct Order {
    pub(super) job: Job,
    pub(super) family: FamilyId,
    pub(super) url: CloneUrl,
    pub(super) wants: BTreeSet<Oid>,
    pub(super) bytes_max: u64,
}

/// How a job talks with the hunt.
pub(super) struct Line {
    pub(super) ground: Arc<Ground>,
    pub(super) words: mpsc::UnboundedSender<HuntInput>,
    /// One for each further request that may be sent.
    pub(super) leaves: mpsc::UnboundedReceiver<()>,
    pub(super) cancel: CancellationToken,
}

pub(super) async fn run(order: Order, line: Line) {
    let Line { ground, words, leaves, cancel } = line;
    let mut report = Report { job: order.job, words: words.clone(), end: None };
    let work = work(&order, ground, words, leaves);
    let end = tokio::select! {
        end = work => end,
        () = cancel.cancelled() => ended(Outcome::Cancelled),
    };
    report.end = Some(end);
}

/// Speaks when it is dropped, so also when the job was.
struct Report {
    job: Job,
    words: mpsc::UnboundedSender<HuntInput>,
    end: Option<JobEnd>,
}

impl Drop for Report {
    fn drop(&mut self) {
        let broken = || ended(Outcome::Failed("this server could not finish it".to_owned()));
        let end = self.end.take().unwrap_or_else(broken);
        let _ = self.words.send(HuntInput::Ended { job: self.job, end });
    }
}

fn ended(outcome: Outcome) -> JobEnd {
    JobEnd { outcome, found: BTreeSet::new(), absent: BTreeSet::new(), bytes: 0 }
}

async fn work(
    order: &Order,
    ground: Arc<Ground>,
    words: mpsc::UnboundedSender<HuntInput>,
    leaves: mpsc::UnboundedReceiver<()>,
) -> JobEnd {
    let Some((lacking, errands)) = errands(&ground, &order.family, &order.wants).await else {
        return ended(Outcome::Cancelled);
    };
    // Nothing that is being fetched for gives up meanwhile.
    let _guard = ground.node.host.fetching.begin(lacking.held_for(&order.wants));
    let here: BTreeSet<Oid> = order.wants.difference(&lacking.wants()).copied().collect();
    let task = Task {
        url: order.url.clone(),
        rule: ground.rule,
        parts: errands.iter().map(|errand| part(errand, &ground)).collect(),
        bytes_max: order.bytes_max,
        turn: order.job.0,
    };
    let (job, url) = (order.job, &order.url);
    let mut desk = Hand { ground: &ground, job, url, words, leaves, errands };
    let mut end = match task.parts.is_empty() {
        true => ended(Outcome::Answered),
        false => ground.fetcher.fetch(&task, &mut desk).await,
    };
    // What came by another way meanwhile is no longer missing either.
    end.found.extend(here);
    end
}

fn part(errand: &Errand, ground: &Ground) -> Part {
    let host = &ground.node.host;
    let limits = match errand.purpose {
        Purpose::State | Purpose::Repair => host.pack.clone(),
        Purpose::Proposal => host.proposal_pack.clone(),
    };
    Part {
        to: errand.to.clone(),
        wants: errand.wants.clone(),
        commits: errand.commits.clone(),
        limits,
        haves: errand.haves.clone(),
        whole: errand.purpose == Purpose::Repair,
        may_step: errand.purpose == Purpose::State,
        is_resuming: errand.step.is_some(),
        tags: errand.tags.clone(),
    }
}

/// Takes what a fetch brings to the writer.
struct Hand<'a> {
    ground: &'a Ground,
    job: Job,
    url: &'a CloneUrl,
    words: mpsc::UnboundedSender<HuntInput>,
    leaves: mpsc::UnboundedReceiver<()>,
    errands: Vec<Errand>,
}

impl Hand<'_> {
    /// Those who look how this place stands.
    fn checks(&self) -> Option<&CheckWatch> {
        self.ground.node.hunt.get()?.checks.get()
    }
}

impl Desk for Hand<'_> {
    async fn may_request(&mut self) -> bool {
        let asked = self.words.send(HuntInput::WantsRequest { job: self.job });
        asked.is_ok() && self.leaves.recv().await.is_some()
    }

    fn received(&mut self, bytes: u64, pack_bytes: u64) {
        let _ = self.words.send(HuntInput::Received { job: self.job, bytes, pack_bytes });
    }

    async fn brought(&mut self, part: &Part, quarantine: Quarantine, found: BTreeSet<Oid>) -> bool {
        let is_its = |it: &&Errand| {
            let repairs = it.purpose == Purpose::Repair;
            it.to == part.to && repairs == part.whole && !it.wants.is_disjoint(&found)
        };
        let Some(purpose) = self.errands.iter().find(is_its).map(|it| it.purpose) else {
            return false;
        };
        let to = part.to.clone();
        let fetched = Fetched { to: to.clone(), purpose, quarantine, step: None };
        let taken = self.ground.node.ingest.fetched(fetched).await;
        if let Some(checks) = self.checks() {
            checks.trusts(to.clone(), self.url.clone());
        }
        if taken == Taken::Mended {
            mend(self.ground, &to).await;
        }
        taken != Taken::No
    }

    async fn stepped(&mut self, part: &Part, quarantine: Quarantine, tip: Oid) -> bool {
        let (to, purpose) = (part.to.clone(), Purpose::State);
        let fetched = Fetched { to, purpose, quarantine, step: Some(tip) };
        self.ground.node.ingest.fetched(fetched).await != Taken::No
    }

    fn doubts(&mut self, part: &Part) {
        if let Some(checks) = self.checks() {
            checks.doubts(part.to.clone(), self.url.clone());
        }
    }
}

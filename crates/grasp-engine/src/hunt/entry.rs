//! One family in the queue: what it lacks, where that may be, and when it is its turn again.
//! Invariant: it has a job, is being looked at, or has a next moment.

use super::candidate::Candidate;
use super::{FamilyId, FamilyStanding, HuntSettings, Job, Source};
use grasp_core::{CloneUrl, Domain, Oid, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) family: FamilyId,
    /// When it entered the queue.
    pub(super) since: Time,
    /// A question about what it lacks is open.
    pub(super) look: Option<Look>,
    /// Since the last fresh start.
    pub(super) attempts: u32,
    pub(super) ever_attempted: bool,
    /// The last gap between attempts, since the last fresh start.
    pub(super) gap: Option<Duration>,
    pub(super) held: bool,
    /// The next attempt, which comes although something is being fetched.
    pub(super) next: Option<Time>,
    /// An event that came while looking wants a look then.
    pub(super) again: Option<Time>,
    /// In this attempt it was told that nothing is left to try.
    pub(super) told: bool,
    pub(super) wants: BTreeSet<Oid>,
    /// Those of them that strangers alone propose.
    pub(super) proposed: BTreeSet<Oid>,
    pub(super) standing: FamilyStanding,
    pub(super) sources: Vec<Candidate>,
    /// The elder first. Those for one object are on different domains.
    pub(super) running: Vec<Job>,
    /// Domains in whose queue it has a place.
    pub(super) places: BTreeSet<Domain>,
    /// Domains it was tried on since the last fresh start.
    pub(super) tried_on: BTreeSet<Domain>,
}

/// The answer may be older than what happens until it comes.
#[derive(Debug)]
pub(super) struct Look {
    pub(super) purpose: Purpose,
    /// An event came since.
    pub(super) heard: bool,
    /// This was found since.
    pub(super) found: BTreeSet<Oid>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// What is answered begins an attempt.
    Attempt,
    /// Everything seems to be here. If not, the attempt goes on with the sources it has left.
    Verify,
}

impl Entry {
    pub(super) fn new(family: FamilyId, now: Time) -> Self {
        Self {
            family,
            since: now,
            look: None,
            attempts: 0,
            ever_attempted: false,
            gap: None,
            held: false,
            next: None,
            again: None,
            told: false,
            wants: BTreeSet::new(),
            proposed: BTreeSet::new(),
            standing: FamilyStanding::default(),
            sources: Vec::new(),
            running: Vec::new(),
            places: BTreeSet::new(),
            tried_on: BTreeSet::new(),
        }
    }

    /// The gap before the next attempt: doubled each time, and on the wanted-list much longer (S-33).
    pub(super) fn widen_gap(&mut self, settings: &HuntSettings) -> Duration {
        let max = if self.held { settings.retry_max } else { settings.wanted_retry_max };
        let gap = self.gap.map_or(settings.retry_first, |gap| gap.saturating_mul(2)).min(max);
        self.gap = Some(gap);
        gap
    }

    pub(super) fn is_due(&self, now: Time) -> bool {
        self.next.is_some_and(|at| at <= now)
    }

    pub(super) fn source_mut(&mut self, url: &CloneUrl) -> Option<&mut Candidate> {
        self.sources.iter_mut().find(|source| source.url == *url)
    }

    /// The sources as they are now; what is known of those that stay is kept.
    pub(super) fn set_sources(&mut self, all: Vec<Source>, anew: bool, settings: &HuntSettings) {
        let all = all.into_iter().take(settings.sources_max);
        let mut known = std::mem::take(&mut self.sources).into_iter().peekable();
        let mut moved: BTreeMap<CloneUrl, Candidate> = BTreeMap::new();
        for Source { url, covers, proposed } in all {
            // Mostly they are the same in the same order.
            let same = known.next_if(|source| source.url == url);
            let old = same.or_else(|| {
                moved.extend(known.by_ref().map(|source| (source.url.clone(), source)));
                moved.remove(&url)
            });
            if self.sources.iter().any(|source| source.url == url) {
                continue;
            }
            let mut source = old.unwrap_or_else(|| Candidate::new(url, settings));
            source.proposed = proposed;
            source.renew(covers, &self.wants, anew);
            self.sources.push(source);
        }
        let sources = &self.sources;
        self.tried_on.retain(|domain| sources.iter().any(|source| source.domain == *domain));
    }

    /// A state lacks something.
    pub(super) fn lacks_of_states(&self) -> bool {
        self.wants.iter().any(|oid| !self.proposed.contains(oid))
    }

    /// Is there something left to ask on this domain?
    pub(super) fn has_untried(&self, domain: &Domain, now: Time) -> bool {
        self.sources.iter().any(|source| source.domain == *domain && source.is_untried(now))
    }
}

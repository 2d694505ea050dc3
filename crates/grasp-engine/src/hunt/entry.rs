//! One family in the queue: what it lacks, where that may be, what was tried, and when it is its
//! turn again. Invariant: it has a job, is being looked at, or has a next moment.

use super::{FamilyId, HuntSettings, Job, Source};
use grasp_core::{CloneUrl, Domain, Oid, Time};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What somebody else's server may say to people.
const SAID_CHARS_MAX: usize = 200;

#[derive(Debug)]
pub(super) struct Entry {
    pub(super) family: FamilyId,
    /// A question about what it lacks is open.
    pub(super) look: Option<Look>,
    /// Since the last fresh start.
    pub(super) attempts: u32,
    pub(super) ever_attempted: bool,
    /// The last gap between attempts, since the last fresh start.
    pub(super) gap: Option<Duration>,
    pub(super) held: bool,
    /// The next attempt. While something is fetched it may be past, and then comes right after.
    pub(super) next: Option<Time>,
    /// An event that came while looking or fetching wants a look then.
    pub(super) again: Option<Time>,
    /// In this attempt it was told that nothing is left to try.
    pub(super) told: bool,
    pub(super) wants: BTreeSet<Oid>,
    pub(super) sources: Vec<Candidate>,
    /// At most two, the elder first, on different domains.
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

/// A source, and what became of it.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) url: CloneUrl,
    /// All it may be asked for, if that is not everything.
    pub(super) covers: Option<BTreeSet<Oid>>,
    pub(super) domain: Domain,
    /// In this attempt.
    pub(super) tried: bool,
    /// It may not be asked, or it is this very server.
    pub(super) not_before: Time,
    pub(super) asked: Option<Time>,
    pub(super) said: Cow<'static, str>,
    pub(super) found: usize,
    pub(super) absent: usize,
}

impl Entry {
    pub(super) fn new(family: FamilyId) -> Self {
        Self {
            family,
            look: None,
            attempts: 0,
            ever_attempted: false,
            gap: None,
            held: false,
            next: None,
            again: None,
            told: false,
            wants: BTreeSet::new(),
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

    /// Nothing is asked about it or for it.
    pub(super) fn is_resting(&self) -> bool {
        self.look.is_none() && self.running.is_empty()
    }

    pub(super) fn is_due(&self, now: Time) -> bool {
        self.next.is_some_and(|at| at <= now || self.again.is_some_and(|again| again <= now))
    }

    pub(super) fn source_mut(&mut self, url: &CloneUrl) -> Option<&mut Candidate> {
        self.sources.iter_mut().find(|source| source.url == *url)
    }

    /// The sources as they are now; what is known of those that stay is kept.
    pub(super) fn set_sources(&mut self, all: Vec<Source>, anew: bool, settings: &HuntSettings) {
        let all = all.into_iter().take(settings.sources_max);
        let mut known = std::mem::take(&mut self.sources).into_iter().peekable();
        let mut moved: BTreeMap<CloneUrl, Candidate> = BTreeMap::new();
        for Source { url, covers } in all {
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
            source.covers = covers;
            source.tried &= !anew;
            self.sources.push(source);
        }
        let sources = &self.sources;
        self.tried_on.retain(|domain| sources.iter().any(|source| source.domain == *domain));
    }

    /// Is there something untried on this domain?
    pub(super) fn has_untried(&self, domain: &Domain, now: Time) -> bool {
        self.sources.iter().any(|source| source.domain == *domain && source.is_untried(now))
    }
}

impl Candidate {
    pub(super) fn new(url: CloneUrl, settings: &HuntSettings) -> Self {
        let domain = url.domain();
        let never = settings
            .overrides
            .get(&domain)
            .is_some_and(|(at_a_time, starts)| *at_a_time == 0 || *starts == 0);
        Self {
            url,
            covers: None,
            domain,
            tried: false,
            not_before: if never { Time(u64::MAX) } else { Time(0) },
            asked: None,
            said: if never { "never asked, by this server's settings" } else { "" }.into(),
            found: 0,
            absent: 0,
        }
    }

    pub(super) fn is_untried(&self, now: Time) -> bool {
        !self.tried && self.not_before <= now
    }
}

pub(super) fn shortened(mut said: String) -> Cow<'static, str> {
    if let Some((end, _)) = said.char_indices().nth(SAID_CHARS_MAX) {
        said.truncate(end);
        said.shrink_to_fit();
    }
    said.into()
}

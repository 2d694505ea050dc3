//! How a server treats others, read from what those others wrote down: who came when, for how long,
//! and who had to wait meanwhile.

use grasp_testkit::forge::{Asked, Forge, Manner, What};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A forge finds out a little late that somebody has gone.
const NOTICED_AFTER_MS: u64 = 100;
/// Whoever was at no forge for this long is busy with nothing else either: it waits.
const IDLE_AFTER_MS: u64 = 1_500;

/// A forge, and when it began.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    pub(crate) forge: Arc<Forge>,
    began_ms: u64,
}

/// One connection: a try of one repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Visit {
    pub(crate) path: String,
    from_ms: u64,
    to_ms: u64,
}

impl Watched {
    /// All times of one story count from the same moment.
    pub(crate) async fn start(since: Instant, manner: Manner) -> Self {
        let began_ms = u64::try_from(since.elapsed().as_millis()).unwrap();
        Self { forge: Arc::new(Forge::start_with(manner).await), began_ms }
    }

    /// In the order in which they began. Who asks for no object only looks how it stands.
    pub(crate) fn visits(&self) -> Vec<Visit> {
        let mut visits: BTreeMap<usize, Visit> = BTreeMap::new();
        let log = self.forge.log();
        let fetches = |asked: &&Asked| matches!(asked.what, What::FetchV0 | What::FetchV2);
        let tries: BTreeSet<usize> = log.iter().filter(fetches).map(|asked| asked.visit).collect();
        for asked in log.into_iter().filter(|asked| tries.contains(&asked.visit)) {
            let from_ms = self.began_ms + asked.started_ms;
            let to_ms = asked.left_ms.map_or(u64::MAX, |left_ms| self.began_ms + left_ms);
            let path = asked.path.trim_start_matches('/').split('/').next().unwrap_or_default();
            let fresh = || Visit { path: path.to_owned(), from_ms, to_ms };
            let visit = visits.entry(asked.visit).or_insert_with(fresh);
            visit.to_ms = visit.to_ms.max(to_ms);
        }
        let mut visits: Vec<Visit> = visits.into_values().collect();
        visits.sort_by_key(|visit| visit.from_ms);
        visits
    }

    pub(crate) fn requests(&self) -> usize {
        self.forge.log().len()
    }

    pub(crate) fn starts_in_any(&self, window: Duration) -> usize {
        self.forge.starts_in_any(window)
    }

    /// The most requests that went on at once.
    pub(crate) fn concurrent_max(&self) -> usize {
        let log = self.forge.log();
        let over_ms = |asked: &Asked| {
            asked.ended_ms.map_or(u64::MAX, |ended_ms| ended_ms.saturating_sub(NOTICED_AFTER_MS))
        };
        let counts = log.iter().enumerate().map(|(at, asked)| {
            let earlier = log.iter().take(at);
            1 + earlier.filter(|it| over_ms(it) > asked.started_ms).count()
        });
        counts.max().unwrap_or(0)
    }
}

/// Tries of a repository that had had one on the same forge, and those of them that were made while
/// another repository waited for its first there.
#[derive(Debug, Default)]
pub(crate) struct SecondTries {
    pub(crate) count: usize,
    /// Of these, before the first try of some other that was busy elsewhere.
    pub(crate) before_a_first: usize,
    pub(crate) unfair: Vec<String>,
}

/// `elsewhere` is where some were busy, too.
pub(crate) fn second_tries(on: &[Watched], elsewhere: &[Watched]) -> SecondTries {
    let mut everywhere: BTreeMap<String, Vec<Visit>> = BTreeMap::new();
    for visit in on.iter().chain(elsewhere).flat_map(Watched::visits) {
        everywhere.entry(visit.path.clone()).or_default().push(visit);
    }
    let mut found = SecondTries::default();
    for (number, watched) in on.iter().enumerate() {
        let mut had_one: BTreeSet<String> = BTreeSet::new();
        for visit in watched.visits() {
            if had_one.insert(visit.path.clone()) {
                continue;
            }
            found.count += 1;
            let others = || everywhere.iter().filter(|(path, _)| !had_one.contains(*path));
            let later = |visit: &&Visit| others().any(|(path, _)| *path == visit.path);
            found.before_a_first += usize::from(watched.visits().iter().any(|it| later(&it)));
            let mut waiting = others().filter(|(_, visits)| waits(visits, visit.from_ms));
            if let Some((path, _)) = waiting.next() {
                found.unfair.push(format!("{path} waits for forge {number} while {visit:?}"));
            }
        }
    }
    found
}

/// It has begun, is not done, and is nowhere.
fn waits(visits: &[Visit], at_ms: u64) -> bool {
    let since_ms = at_ms.saturating_sub(IDLE_AFTER_MS);
    let has_begun = visits.iter().any(|visit| visit.from_ms < since_ms);
    let is_busy = visits.iter().any(|visit| visit.from_ms <= at_ms && visit.to_ms >= since_ms);
    let goes_on = visits.iter().any(|visit| visit.from_ms > at_ms);
    has_begun && !is_busy && goes_on
}

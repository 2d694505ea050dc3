//! One attempt to get git data from one address: asked for by id, taken into quarantine, looked
//! through. It moves no ref and writes no event; what it brings is handed over part by part, at once.
//! Invariant: nothing of a fetch that failed or was dropped stays on the disk.

mod course;
mod halves;
mod intake;
mod listing;
mod memory;
mod probe;
mod questions;
mod refusal;
mod talk;
mod words;

use crate::host::free_bytes;
use crate::outbound::{Caller, Rule};
use course::Course;
use grasp_core::{CloneUrl, Oid, RepoId};
use grasp_engine::hunt::{JobEnd, Outcome};
use grasp_git::{Git, Layout, PackLimits, Quarantine};
pub use listing::Visit;
use memory::{Memory, Offer};
use parking_lot::Mutex;
pub use probe::{Depth, Probed};
use std::collections::BTreeSet;
use std::sync::Arc;
use talk::{Stop, Talk, named};
use tokio::time::Instant;

/// What to get, and from where.
#[derive(Debug, Clone)]
pub struct Task {
    pub url: CloneUrl,
    pub rule: Rule,
    /// Got one after the other.
    pub parts: Vec<Part>,
    /// Of everything the server sends, packs and words.
    pub bytes_max: u64,
    /// Which attempt this is: what cannot all be asked for is asked for in turn.
    pub turn: u64,
}

/// What to get for one repository.
#[derive(Debug, Clone)]
pub struct Part {
    pub to: RepoId,
    pub wants: BTreeSet<Oid>,
    /// Those of them that must be commits.
    pub commits: BTreeSet<Oid>,
    pub limits: PackLimits,
    /// What the repository has and need not be sent, with all behind it. The first `HAVES_MAX` are
    /// told.
    pub haves: Vec<Oid>,
    /// The repository is damaged: get everything, and build on nothing that is there.
    pub whole: bool,
}

/// How many things that are here a server is told of.
pub const HAVES_MAX: usize = 256;

impl Part {
    /// A damaged repository has nothing that could be relied upon.
    fn haves_to_tell(&self) -> &[Oid] {
        match self.whole {
            true => &[],
            false => self.haves.get(..HAVES_MAX).unwrap_or(&self.haves),
        }
    }
}

/// Whoever a fetch is for.
pub trait Desk: Send {
    /// May one more request be sent? The first one is permitted with the task. No ends the fetch.
    fn may_request(&mut self) -> impl Future<Output = bool> + Send;

    /// So much has come in since the last time; a few times in a second.
    fn received(&mut self, bytes: u64);

    /// A part's pack, whole and checked, with some of what it wants. One part may get several. False
    /// if it could not be taken.
    fn brought(
        &mut self,
        part: &Part,
        quarantine: Quarantine,
        found: BTreeSet<Oid>,
    ) -> impl Future<Output = bool> + Send;

    /// What came for this part was broken or broke off, or what is listed is not there.
    fn doubts(&mut self, _: &Part) {}
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchSettings {
    /// Free disk space below which nothing is fetched.
    pub free_bytes_min: u64,
    /// Where only whole branches are given away: how many may be fetched to look into them.
    pub tips_max: usize,
    /// What such a search may cost where it is not sure that it is needed; 0 for none.
    pub search_bytes_max: u64,
    /// About how many servers something is remembered.
    pub remembered_max: usize,
}

impl Default for FetchSettings {
    fn default() -> Self {
        Self {
            free_bytes_min: 1 << 30,
            tips_max: 2_000,
            search_bytes_max: 32 << 20,
            remembered_max: 4_096,
        }
    }
}

/// Fetches. Cheap to clone; all clones remember together.
#[derive(Debug, Clone)]
pub struct Fetcher {
    caller: Caller,
    layout: Layout,
    git: Git,
    settings: FetchSettings,
    memory: Arc<Mutex<Memory>>,
    free_bytes: fn(&Layout) -> Option<u64>,
}

/// What became of the parts so far.
#[derive(Debug, Default)]
struct Tally {
    found: BTreeSet<Oid>,
    absent: BTreeSet<Oid>,
    /// What may not be taken from this server.
    spurned: BTreeSet<Oid>,
    /// Why, for the last of it.
    unfit: Option<String>,
}

impl Fetcher {
    pub fn new(caller: Caller, layout: Layout, git: Git, settings: FetchSettings) -> Self {
        let memory = Arc::new(Mutex::new(Memory::new(settings.remembered_max)));
        Self { caller, layout, git, settings, memory, free_bytes }
    }

    /// Asks this how much is left on the disk.
    pub fn measuring(self, free_bytes: fn(&Layout) -> Option<u64>) -> Self {
        Self { free_bytes, ..self }
    }

    /// Runs to its end, which it always tells. May be dropped at any time.
    pub async fn fetch<D: Desk>(&self, task: &Task, desk: &mut D) -> JobEnd {
        let mut talk = Talk::new(&self.caller, (&task.url, task.rule), task.bytes_max, desk);
        let mut tally = Tally::default();
        let ended = self.parts(task, &mut talk, &mut tally).await;
        let bytes = talk.untold_bytes();
        let Tally { found, mut absent, spurned, unfit } = tally;
        let outcome = match (ended, unfit) {
            (Ok(()), None) => Outcome::Answered,
            (Ok(()), Some(why)) => Outcome::Unacceptable(named(&task.url, &why)),
            (Err(stop), _) => stop.outcome(&task.url),
        };
        // What is neither here nor absent counts as refused, also where nobody came to ask for it.
        if matches!(outcome, Outcome::Lacks(_) | Outcome::Unacceptable(_)) {
            let wants = task.parts.iter().flat_map(|part| &part.wants);
            absent.extend(wants.filter(|oid| !spurned.contains(oid)));
        }
        absent.retain(|oid| !found.contains(oid));
        JobEnd { outcome, found, absent, bytes }
    }

    async fn parts<D: Desk>(
        &self,
        task: &Task,
        talk: &mut Talk<'_, D>,
        tally: &mut Tally,
    ) -> Result<(), Stop> {
        let old = self.memory.lock().is_old(&task.url.domain());
        let mut course = Course::new(old, task.turn, self.settings.tips_max);
        for part in &task.parts {
            let wants = self.worth_asking(task, part, tally);
            if wants.is_empty() {
                continue;
            }
            self.has_room()?;
            course.begin(&wants, self.may_search(task, part));
            let ended = self.part(task, part, &mut course, talk, tally).await;
            tally.absent.extend(course.absent());
            ended?;
        }
        Ok(())
    }

    fn has_room(&self) -> Result<(), Stop> {
        let free = (self.free_bytes)(&self.layout);
        if free.is_some_and(|free| free < self.settings.free_bytes_min) {
            let why = "the disk of this server is nearly full, so nothing is fetched";
            return Err(Stop::Failed(why.to_owned()));
        }
        Ok(())
    }

    /// What may be taken, as far as is known.
    fn worth_asking(&self, task: &Task, part: &Part, tally: &mut Tally) -> BTreeSet<Oid> {
        let (memory, now) = (self.memory.lock(), Instant::now());
        let mut wants = part.wants.clone();
        wants.retain(|oid| match memory.spurned(Offer::new(&task.url, part, oid), now) {
            Some(why) => {
                tally.spurned.insert(*oid);
                tally.unfit = Some(why.to_owned());
                false
            }
            None => true,
        });
        wants
    }

    /// What came of these may not be taken, and they are not asked for again for a while.
    fn spurn(&self, task: &Task, part: &Part, oids: &BTreeSet<Oid>, why: &str, tally: &mut Tally) {
        let (mut memory, now) = (self.memory.lock(), Instant::now());
        for oid in oids {
            tracing::debug!(url = %task.url, repo = %part.to, %oid, why, "is left alone");
            memory.spurn(Offer::new(&task.url, part, oid), why, now);
        }
        tally.spurned.extend(oids);
        tally.unfit = Some(why.to_owned());
    }
}

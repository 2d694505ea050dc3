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
mod steps;
mod talk;
mod words;

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
use steps::{FetchBreak, StepSource};
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
    /// What is too large for one fetch may be got in steps, each of which is promoted (S-51).
    pub may_step: bool,
    /// An earlier fetch in steps did not come to its end.
    pub is_resuming: bool,
    /// Of the wants, those that tags name, by version: the way in steps where commits do not show it.
    pub tags: Vec<Oid>,
}

/// How many things that are here a server is told of.
pub const HAVES_MAX: usize = 256;

impl Part {
    /// What is repaired must come whole.
    fn may_step(&self) -> bool {
        self.may_step && !self.whole
    }

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

    /// So much has come in since the last time, and so much of it belongs to packs; a few times in a
    /// second.
    fn received(&mut self, bytes: u64, pack_bytes: u64);

    /// A part's pack, whole and checked, with some of what it wants. One part may get several. False
    /// if it could not be taken.
    fn brought(
        &mut self,
        part: &Part,
        quarantine: Quarantine,
        found: BTreeSet<Oid>,
    ) -> impl Future<Output = bool> + Send;

    /// A step on the way to what a part wants, whole and checked: everything behind `tip` is in it or
    /// was here. False if it could not be taken.
    fn stepped(
        &mut self,
        _part: &Part,
        _quarantine: Quarantine,
        _tip: Oid,
    ) -> impl Future<Output = bool> + Send {
        std::future::ready(false)
    }

    /// What came for this part was broken or broke off, or what is listed is not there.
    fn doubts(&mut self, _: &Part) {}
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchSettings {
    /// Where only whole branches are given away: how many may be fetched to look into them.
    pub tips_max: usize,
    /// What such a search may cost where it is not sure that it is needed; 0 for none.
    pub search_bytes_max: u64,
    /// About how many servers something is remembered.
    pub remembered_max: usize,
    /// How large a step of a large history should be.
    pub step_bytes: u64,
    /// What is larger than this is fetched in steps, where that is possible.
    pub whole_bytes_max: u64,
}

impl Default for FetchSettings {
    fn default() -> Self {
        Self {
            tips_max: 2_000,
            search_bytes_max: 32 << 20,
            remembered_max: 4_096,
            step_bytes: 32 << 20,
            whole_bytes_max: 256 << 20,
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
}

/// A part on its way.
#[derive(Debug)]
struct SteppedPart {
    /// Its haves grow with every step.
    part: Part,
    stepping: Stepping,
}

/// When a part is fetched in steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stepping {
    /// After a fetch that is cut off.
    IfCut,
    /// Before the next fetch.
    Next,
    /// They lead nowhere here.
    Never,
}

/// What became of the parts so far.
#[derive(Debug, Default)]
struct Tally {
    found: BTreeSet<Oid>,
    /// Of that, what the part that is being fetched has.
    part_found: BTreeSet<Oid>,
    absent: BTreeSet<Oid>,
    /// What may not be taken from this server.
    spurned: BTreeSet<Oid>,
    /// Why, for the last of it.
    unfit: Option<String>,
}

impl Fetcher {
    pub fn new(caller: Caller, layout: Layout, git: Git, settings: FetchSettings) -> Self {
        let memory = Arc::new(Mutex::new(Memory::new(settings.remembered_max)));
        Self { caller, layout, git, settings, memory }
    }

    /// Runs to its end, which it always tells. May be dropped at any time.
    pub async fn fetch<D: Desk>(&self, task: &Task, desk: &mut D) -> JobEnd {
        let mut talk = Talk::new(&self.caller, (&task.url, task.rule), task.bytes_max, desk);
        let mut tally = Tally::default();
        let ended = self.parts(task, &mut talk, &mut tally).await;
        let bytes = talk.untold_bytes();
        let Tally { found, mut absent, spurned, unfit, .. } = tally;
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
            tally.part_found.clear();
            let stepping = match part.is_resuming && part.may_step() {
                true => Stepping::Next,
                false => Stepping::IfCut,
            };
            let mut it = SteppedPart { part: part.clone(), stepping };
            while self.try_part(task, &mut it, &mut course, talk, tally).await? {}
        }
        Ok(())
    }

    /// One try at what is left of a part, with steps before it if they are due. True if it was cut off
    /// and is worth another try.
    async fn try_part<D: Desk>(
        &self,
        task: &Task,
        it: &mut SteppedPart,
        course: &mut Course,
        talk: &mut Talk<'_, D>,
        tally: &mut Tally,
    ) -> Result<bool, Stop> {
        let mut wants = self.worth_asking(task, &it.part, tally);
        wants.retain(|oid| !tally.part_found.contains(oid));
        if wants.is_empty() {
            return Ok(false);
        }
        self.has_room()?;
        course.begin(&wants, self.may_search(task, &it.part));
        if it.stepping == Stepping::Next {
            let from = StepSource { domain: task.url.domain(), speaks: course.speaks };
            let is_further = self.in_steps(&from, &mut it.part, &wants, talk).await?;
            it.stepping = if is_further { Stepping::IfCut } else { Stepping::Never };
        }
        let may_step = it.stepping == Stepping::IfCut && it.part.may_step();
        let kept = if may_step { talk.narrow(self.settings.whole_bytes_max) } else { 0 };
        let before = talk.pack_bytes();
        let ended = self.part(task, &it.part, course, talk, tally).await;
        talk.widen(kept);
        tally.absent.extend(course.absent());
        let Err(stop) = ended else { return Ok(false) };
        if !may_step {
            return Err(stop);
        }
        let cut = FetchBreak::of(stop, talk.pack_bytes() - before, kept > 0)?;
        tracing::debug!(url = %task.url, repo = %it.part.to, ?cut, "a fetch is cut off");
        it.stepping = Stepping::Next;
        Ok(true)
    }

    fn has_room(&self) -> Result<(), Stop> {
        self.git.disk().shortage().map_or(Ok(()), |why| Err(Stop::Failed(why.to_string())))
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

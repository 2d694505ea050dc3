//! One attempt to get git data from one address: asked for by id, taken into quarantine, looked
//! through. It moves no ref and writes no event; what it brings is handed over part by part, at once.
//! Invariant: nothing of a fetch that failed or was dropped stays on the disk.

mod course;
mod intake;
mod memory;
mod talk;

use crate::host::free_bytes;
use crate::outbound::{Caller, Rule};
use course::{Course, Heard, Question, Speaks};
use grasp_core::{CloneUrl, Oid, RepoId};
use grasp_engine::hunt::{JobEnd, Outcome};
use grasp_git::{Git, Layout, PackLimits, Quarantine};
use intake::Parcel;
use memory::{Memory, Search};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use talk::{Stop, Talk};

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
    pub limits: PackLimits,
    /// What the repository has and need not be sent, with all behind it.
    pub haves: Vec<Oid>,
    /// The repository is damaged: get everything, and build on nothing that is there.
    pub whole: bool,
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
}

/// What became of the parts so far.
#[derive(Debug, Default)]
struct Tally {
    found: BTreeSet<Oid>,
    absent: BTreeSet<Oid>,
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
        let outcome = match ended {
            Ok(()) => Outcome::Answered,
            Err(stop) => stop.outcome(&task.url),
        };
        let Tally { found, mut absent } = tally;
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
            if free_bytes(&self.layout).is_some_and(|free| free < self.settings.free_bytes_min) {
                let why = "the disk of this server is nearly full, so nothing is fetched";
                return Err(Stop::Failed(why.to_owned()));
            }
            course.begin(&part.wants, self.may_search(task, part));
            let ended = self.part(task, part, &mut course, talk, tally).await;
            tally.absent.extend(course.absent());
            ended?;
        }
        Ok(())
    }

    async fn part<D: Desk>(
        &self,
        task: &Task,
        part: &Part,
        course: &mut Course,
        talk: &mut Talk<'_, D>,
        tally: &mut Tally,
    ) -> Result<(), Stop> {
        while let Some(question) = course.poll_question() {
            tracing::debug!(url = %task.url, repo = %part.to, ?question, "asks");
            if course.is_searching() {
                self.memory.lock().searched_in_vain(unsure(task, part));
            }
            let heard = match question {
                Question::Advert => talk.advert().await?,
                Question::Refs => talk.refs().await?,
                Question::Objects(wants) => match self.objects(part, course, talk, &wants).await? {
                    Err(heard) => heard,
                    Ok(parcel) => deliver(part, parcel, talk, tally).await,
                },
                Question::Everything { tips, sure } => {
                    let search = Search::new(&task.url, &tips, &part.wants);
                    let found = match sure {
                        true => self.everything(search, part, course, talk, &tips).await?,
                        false => self.search(part, course, talk, &tips).await?,
                    };
                    match found {
                        Err(heard) => heard,
                        Ok(parcel) => deliver(part, parcel, talk, tally).await,
                    }
                }
            };
            if let Heard::Advert(_) = heard {
                self.learn(task, course, heard)?;
            } else {
                course.handle(heard).map_err(Stop::Failed)?;
            }
        }
        Ok(())
    }

    /// Mirrors lag behind: that one lacks everything is no news the second time.
    fn may_search(&self, task: &Task, part: &Part) -> bool {
        self.settings.search_bytes_max > 0 && !self.memory.lock().searched(unsure(task, part))
    }

    fn learn(&self, task: &Task, course: &mut Course, heard: Heard) -> Result<(), Stop> {
        course.handle(heard).map_err(Stop::Failed)?;
        self.memory.lock().speaks(&task.url.domain(), course.speaks == Speaks::V2);
        Ok(())
    }

    async fn objects<D: Desk>(
        &self,
        part: &Part,
        course: &Course,
        talk: &mut Talk<'_, D>,
        wants: &BTreeSet<Oid>,
    ) -> Result<Result<Parcel, Heard>, Stop> {
        let arriving = match talk.objects(wants, haves(part), course.speaks).await? {
            Ok(arriving) => arriving,
            Err(heard) => return Ok(Err(heard)),
        };
        let parcel = match self.receive(talk, arriving, part, &course.sought()).await? {
            Ok(parcel) => parcel,
            Err(heard) => return Ok(Err(heard)),
        };
        if parcel.found.is_disjoint(wants) && !parcel.is_empty {
            return Err(Stop::Failed("it sent other objects than those asked for".to_owned()));
        }
        Ok(Ok(parcel))
    }

    /// With a server that may only be behind: a little is spent on it, and its failure is none.
    async fn search<D: Desk>(
        &self,
        part: &Part,
        course: &Course,
        talk: &mut Talk<'_, D>,
        tips: &BTreeSet<Oid>,
    ) -> Result<Result<Parcel, Heard>, Stop> {
        let kept = talk.narrow(self.settings.search_bytes_max);
        let found = self.branches(part, course, talk, tips).await;
        talk.widen(kept);
        match found {
            Err(Stop::TooLarge) if kept > 0 => Ok(Err(nothing())),
            found => found,
        }
    }

    async fn everything<D: Desk>(
        &self,
        search: Search,
        part: &Part,
        course: &Course,
        talk: &mut Talk<'_, D>,
        tips: &BTreeSet<Oid>,
    ) -> Result<Result<Parcel, Heard>, Stop> {
        if self.memory.lock().searched(search) {
            return Ok(Err(nothing()));
        }
        let found = self.branches(part, course, talk, tips).await?;
        if found.as_ref().is_err_and(|heard| *heard == nothing()) {
            self.memory.lock().searched_in_vain(search);
        }
        Ok(found)
    }

    /// All branches into a quarantine of their own, and what is wanted of it into another.
    async fn branches<D: Desk>(
        &self,
        part: &Part,
        course: &Course,
        talk: &mut Talk<'_, D>,
        tips: &BTreeSet<Oid>,
    ) -> Result<Result<Parcel, Heard>, Stop> {
        if self.has_all(part, tips).await? {
            return Ok(Err(nothing()));
        }
        let arriving = match talk.objects(tips, haves(part), course.speaks).await? {
            Ok(arriving) => arriving,
            Err(heard) => return Ok(Err(heard)),
        };
        match self.receive(talk, arriving, part, &course.sought()).await? {
            Ok(all) if all.found.is_empty() => Ok(Err(nothing())),
            Ok(all) => Ok(Ok(self.select(all, part).await?)),
            Err(heard) => Ok(Err(heard)),
        }
    }
}

fn nothing() -> Heard {
    Heard::Pack(BTreeSet::new())
}

fn unsure(task: &Task, part: &Part) -> Search {
    Search::new(&task.url, &BTreeSet::new(), &part.wants)
}

/// A damaged repository has nothing that could be relied upon.
fn haves(part: &Part) -> &[Oid] {
    if part.whole { &[] } else { &part.haves }
}

async fn deliver<D: Desk>(
    part: &Part,
    parcel: Parcel,
    talk: &mut Talk<'_, D>,
    tally: &mut Tally,
) -> Heard {
    let Parcel { quarantine, found, .. } = parcel;
    if !found.is_empty() && talk.desk.brought(part, quarantine, found.clone()).await {
        tally.found.extend(&found);
    }
    Heard::Pack(found)
}

//! The questions of a course, put to a server one after the other, and what came of each told to it.
//! What is to be asked is decided there; what is handed over is whole, checked and nothing but wanted.

use super::course::{Course, LIES};
use super::intake::{Got, Parcel};
use super::memory::Search;
use super::talk::{Stop, Talk};
use super::words::{Heard, Question, Speaks};
use super::{Desk, Fetcher, Part, Tally, Task};
use grasp_core::Oid;
use std::collections::BTreeSet;

const NO_COMMIT: &str = "what should be a commit is something else";

impl Fetcher {
    pub(super) async fn part<D: Desk>(
        &self,
        task: &Task,
        part: &Part,
        course: &mut Course,
        talk: &mut Talk<'_, D>,
        tally: &mut Tally,
    ) -> Result<(), Stop> {
        let mut unfit = None;
        while let Some(question) = course.poll_question() {
            tracing::debug!(url = %task.url, repo = %part.to, ?question, "asks");
            if course.is_searching() {
                self.memory.lock().searched_in_vain(unsure(task, part));
            }
            let got = match question {
                Question::Advert => Err(talk.advert().await?),
                Question::Refs => Err(talk.refs().await?),
                Question::Objects(wants) => self.objects(part, course, talk, &wants).await?,
                Question::Everything { tips, sure: true } => {
                    let search = Search::new(&task.url, &tips, &part.wants);
                    self.everything(search, part, course, talk, &tips).await?
                }
                Question::Everything { tips, .. } => self.search(part, course, talk, &tips).await?,
            };
            let heard = match got {
                Ok(parcel) => {
                    if !parcel.misfits.is_empty() {
                        course.spurn(&parcel.misfits);
                        unfit = Some(NO_COMMIT.to_owned());
                    }
                    deliver(part, parcel, talk, tally).await
                }
                Err(heard) => heard,
            };
            if let Heard::Unfit(why) = &heard {
                unfit = Some(why.clone());
            }
            let is_advert = matches!(heard, Heard::Advert(_));
            if let Err(why) = course.handle(heard) {
                if why == LIES {
                    talk.desk.doubts(part);
                }
                return Err(Stop::Failed(why));
            }
            if is_advert {
                let is_new = course.speaks == Speaks::V2;
                self.memory.lock().speaks(&task.url.domain(), is_new);
            }
            let spurned = course.take_spurned();
            if let Some(why) = &unfit
                && !spurned.is_empty()
            {
                self.spurn(task, part, &spurned, why, tally);
            }
        }
        if course.left_some() {
            tally.unfit = unfit.or(tally.unfit.take());
        }
        Ok(())
    }

    /// Mirrors lag behind: that one lacks everything is no news the second time.
    pub(super) fn may_search(&self, task: &Task, part: &Part) -> bool {
        self.settings.search_bytes_max > 0 && !self.memory.lock().searched(unsure(task, part))
    }

    async fn objects<D: Desk>(
        &self,
        part: &Part,
        course: &Course,
        talk: &mut Talk<'_, D>,
        wants: &BTreeSet<Oid>,
    ) -> Got {
        let arriving = match talk.objects(wants, part.haves_to_tell(), course.speaks).await? {
            Ok(arriving) => arriving,
            Err(heard) => return Ok(Err(heard)),
        };
        let parcel = match self.receive(talk, arriving, part, &course.sought()).await? {
            Ok(parcel) => parcel,
            Err(heard) => return Ok(Err(heard)),
        };
        let knows = |known: &BTreeSet<Oid>| !known.is_disjoint(wants);
        if parcel.objects > 0 && !knows(&parcel.found) && !knows(&parcel.misfits) {
            return Err(Stop::Failed("it sent other objects than those asked for".to_owned()));
        }
        match parcel.found.is_empty() {
            true => Ok(Ok(parcel)),
            false => self.unmixed(parcel, part).await,
        }
    }

    /// With a server that may only be behind: a little is spent on it, and its failure is none.
    async fn search<D: Desk>(
        &self,
        part: &Part,
        course: &Course,
        talk: &mut Talk<'_, D>,
        tips: &BTreeSet<Oid>,
    ) -> Got {
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
    ) -> Got {
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
    ) -> Got {
        if self.has_all(part, tips).await? {
            return Ok(Err(nothing()));
        }
        let arriving = match talk.objects(tips, part.haves_to_tell(), course.speaks).await? {
            Ok(arriving) => arriving,
            Err(heard) => return Ok(Err(heard)),
        };
        match self.receive(talk, arriving, part, &course.sought()).await? {
            Ok(all) if all.found.is_empty() && all.misfits.is_empty() => Ok(Err(nothing())),
            Ok(all) if all.found.is_empty() => Ok(Ok(all)),
            Ok(all) => self.select(all, part).await,
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

async fn deliver<D: Desk>(
    part: &Part,
    parcel: Parcel,
    talk: &mut Talk<'_, D>,
    tally: &mut Tally,
) -> Heard {
    let Parcel { quarantine, found, .. } = parcel;
    if !found.is_empty() && talk.desk.brought(part, quarantine, found.clone()).await {
        tally.found.extend(&found);
        tally.part_found.extend(&found);
    }
    Heard::Pack(found)
}

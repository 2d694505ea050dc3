//! What to ask a git server next, to get the most of what we want with the fewest requests. Objects
//! are asked for by id at once; only a server that lacks several, or does not understand, is asked
//! what it has. Pure: it hears what came of each question. Invariant: it always comes to an end.

use super::halves::Halves;
use super::words::{Heard, Question, Speaks};
use grasp_core::Oid;
use grasp_git::fetch::{Advert, Listed, RefKind};
use std::collections::BTreeSet;

#[derive(Debug)]
pub(super) struct Course {
    pub(super) speaks: Speaks,
    tips: Option<Tips>,
    tips_max: usize,
    /// Nothing but a tip is given away here.
    only_tips: bool,
    stage: Stage,
    /// Neither here nor known to be absent.
    open: BTreeSet<Oid>,
    asked: BTreeSet<Oid>,
    /// What this server does not have.
    absent: BTreeSet<Oid>,
    /// Of those, what it refused since we began.
    refused: BTreeSet<Oid>,
    /// What it has and we may not take, since somebody asked.
    spurned: BTreeSet<Oid>,
    halves: Halves,
    /// What was asked for last is one of those.
    is_half: bool,
    /// Some of them were not asked for.
    left_some: bool,
    found_some: bool,
    /// If it refuses everything, all it has may be searched.
    may_search: bool,
    drops: usize,
    probes_left: usize,
    turn: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// It is asked for everything, and what it lacks is dropped one by one.
    Guess,
    Advert,
    Refs,
    /// It is asked for those that it lists.
    Tips,
    /// It is asked for some of those it does not list.
    Rest,
    /// It refused everything; perhaps it only gives away tips.
    Search,
    Over,
}

#[derive(Debug)]
struct Tips {
    /// Including what tags are of.
    listed: BTreeSet<Oid>,
    branches_and_tags: BTreeSet<Oid>,
}

/// What may be spent on finding what cannot be taken, in all parts together.
const HALVES_MAX: usize = 16;
/// After so many refusals it is cheaper to ask what there is.
const DROPS_MAX: usize = 3;
/// How many objects that are not listed are asked for all the same.
const PROBES_MAX: usize = 3;
pub(super) const LIES: &str = "it lists refs whose objects it does not have";

impl Course {
    /// `old` if this server is known not to speak version 2.
    pub(super) fn new(old: bool, turn: u64, tips_max: usize) -> Self {
        Self {
            speaks: Speaks::V2,
            tips: None,
            tips_max,
            only_tips: false,
            stage: if old { Stage::Advert } else { Stage::Guess },
            open: BTreeSet::new(),
            asked: BTreeSet::new(),
            absent: BTreeSet::new(),
            refused: BTreeSet::new(),
            spurned: BTreeSet::new(),
            halves: Halves::new(HALVES_MAX),
            is_half: false,
            left_some: false,
            found_some: false,
            may_search: false,
            drops: 0,
            probes_left: PROBES_MAX,
            turn,
        }
    }

    /// From here on it is about these. What was learnt about the server stays.
    pub(super) fn begin(&mut self, wants: &BTreeSet<Oid>, may_search: bool) {
        self.open = wants.difference(&self.absent).copied().collect();
        self.refused.clear();
        self.halves.clear();
        self.is_half = false;
        self.left_some = false;
        self.found_some = false;
        self.may_search = may_search;
        self.drops = 0;
        self.probes_left = PROBES_MAX;
        self.stage = match self.tips {
            Some(_) if self.only_tips => Stage::Tips,
            _ if self.stage == Stage::Advert => Stage::Advert,
            _ => Stage::Guess,
        };
    }

    /// What would be welcome, whatever was said about it.
    pub(super) fn sought(&self) -> BTreeSet<Oid> {
        &self.open | &self.refused
    }

    /// What this server said or showed that it does not have.
    pub(super) fn absent(&self) -> &BTreeSet<Oid> {
        &self.absent
    }

    /// It has these, and they may not be taken from it.
    pub(super) fn spurn(&mut self, oids: &BTreeSet<Oid>) {
        self.leave(oids);
        self.spurned.extend(oids);
    }

    /// What was spurned since the last time.
    pub(super) fn take_spurned(&mut self) -> BTreeSet<Oid> {
        std::mem::take(&mut self.spurned)
    }

    /// Too much may not be taken to find out here and now what.
    pub(super) fn left_some(&self) -> bool {
        self.left_some
    }

    /// Only because everything was refused.
    pub(super) fn is_searching(&self) -> bool {
        self.stage == Stage::Search
    }

    pub(super) fn poll_question(&mut self) -> Option<Question> {
        if !self.open.is_empty()
            && let Some(question) = self.next()
        {
            return Some(question);
        }
        self.search()
    }

    fn next(&mut self) -> Option<Question> {
        let half = self.halves.next();
        self.is_half = half.is_some();
        if let Some(half) = half {
            return Some(self.ask(half));
        }
        if self.stage == Stage::Tips {
            let listed = self.listed();
            if !listed.is_empty() {
                return Some(self.ask(listed));
            }
            self.stage = Stage::Rest;
        }
        match self.stage {
            Stage::Guess => Some(self.ask(self.open.clone())),
            Stage::Advert => Some(Question::Advert),
            Stage::Refs => Some(Question::Refs),
            Stage::Rest if self.only_tips => {
                let question = self.everything();
                if question.is_none() {
                    self.give_up();
                }
                question
            }
            Stage::Rest if self.probes_left > 0 => Some(self.ask(self.some())),
            Stage::Tips | Stage::Rest | Stage::Search | Stage::Over => None,
        }
    }

    /// The last resort with a server that says of everything that it does not have it.
    fn search(&mut self) -> Option<Question> {
        if !self.may_search || self.found_some || self.only_tips || self.refused.is_empty() {
            return None;
        }
        self.stage = Stage::Search;
        if self.tips.is_none() {
            return Some(Question::Refs);
        }
        self.may_search = false;
        self.everything()
    }

    fn ask(&mut self, objects: BTreeSet<Oid>) -> Question {
        self.asked.clone_from(&objects);
        Question::Objects(objects)
    }

    fn listed(&self) -> BTreeSet<Oid> {
        let listed = self.tips.as_ref().map(|tips| &tips.listed);
        listed.map_or_else(BTreeSet::new, |listed| &self.open & listed)
    }

    /// Others in every turn, so that none is overlooked for ever.
    fn some(&self) -> BTreeSet<Oid> {
        let len = u64::try_from(self.open.len().max(1)).unwrap_or(1);
        let skip = usize::try_from(self.turn % len).unwrap_or(0);
        self.open.iter().cycle().skip(skip).take(self.probes_left).copied().collect()
    }

    fn everything(&mut self) -> Option<Question> {
        let tips = &self.tips.as_ref()?.branches_and_tags;
        self.asked.clear();
        let fits = (1..=self.tips_max).contains(&tips.len());
        fits.then(|| Question::Everything { tips: tips.clone(), sure: self.only_tips })
    }

    /// An error says why there is nothing more to be asked of this server.
    pub(super) fn handle(&mut self, heard: Heard) -> Result<(), String> {
        match (self.stage, heard) {
            (stage, Heard::Pack(here)) => self.pack(stage, &here),
            (Stage::Search, Heard::Refs(refs)) => {
                self.take_tips(&refs);
                self.stage = Stage::Search;
            }
            // It was worth a try.
            (Stage::Search, _) => self.may_search = false,
            (stage, Heard::Unfit(_)) => self.unfit(stage),
            (stage, Heard::Lacks(oid)) if self.asked.contains(&oid) => self.lacks(stage, oid)?,
            (Stage::Guess, Heard::Lacks(_) | Heard::Refuses(_)) if !self.is_half => {
                self.only_tips = true;
                self.stage = Stage::Advert;
            }
            (Stage::Guess, Heard::Unclear(_)) if !self.is_half => self.stage = Stage::Advert,
            (Stage::Advert, Heard::Advert(Advert::V2)) => {
                self.speaks = Speaks::V2;
                self.stage = Stage::Refs;
            }
            (Stage::Advert, Heard::Advert(Advert::V0 { caps, refs })) => {
                self.speaks = Speaks::V0(caps);
                self.only_tips = !caps.any_wants();
                self.take_tips(&refs);
            }
            (Stage::Refs, Heard::Refs(refs)) => self.take_tips(&refs),
            (Stage::Rest, Heard::Lacks(_)) if self.only_tips => return Err(LIES.to_owned()),
            (_, Heard::Lacks(_)) => return Err("it refuses what nobody asked for".to_owned()),
            (_, Heard::Refuses(why) | Heard::Unclear(why)) => return Err(why),
            (_, Heard::Refs(_) | Heard::Advert(_)) => self.stage = Stage::Over,
        }
        Ok(())
    }

    fn pack(&mut self, stage: Stage, here: &BTreeSet<Oid>) {
        self.open.retain(|oid| !here.contains(oid));
        self.absent.retain(|oid| !here.contains(oid));
        self.found_some |= !here.is_empty();
        let missing: Vec<Oid> = self.asked.intersection(&self.open).copied().collect();
        missing.into_iter().for_each(|oid| self.drop(oid));
        self.has_answered(stage);
    }

    /// One object alone is to blame; of several nobody knows which.
    fn unfit(&mut self, stage: Stage) {
        match self.asked.len() {
            0 => self.spurn(&self.open.clone()),
            1 => self.spurn(&self.asked.clone()),
            _ => self.halves.split(&self.asked),
        }
        self.has_answered(stage);
    }

    /// What comes next, once all of a question is answered.
    fn has_answered(&mut self, stage: Stage) {
        self.halves.keep(&self.open);
        let unasked = self.halves.give_up();
        self.left_some |= !unasked.is_empty();
        self.leave(&unasked);
        if !self.halves.is_empty() {
            return;
        }
        match stage {
            Stage::Tips => self.stage = Stage::Rest,
            Stage::Rest if self.only_tips => self.give_up(),
            Stage::Rest => self.probes_left = self.probes_left.saturating_sub(1),
            _ => self.stage = Stage::Over,
        }
    }

    fn lacks(&mut self, stage: Stage, oid: Oid) -> Result<(), String> {
        self.drop(oid);
        if self.is_half {
            self.asked.remove(&oid);
            self.halves.put_back(self.asked.clone());
            self.has_answered(stage);
            return Ok(());
        }
        self.drops += 1;
        match stage {
            Stage::Rest => self.probes_left = self.probes_left.saturating_sub(1),
            _ if self.drops < DROPS_MAX => {}
            Stage::Guess => {
                self.drops = 0;
                self.stage = if self.tips.is_some() { Stage::Tips } else { Stage::Refs };
            }
            _ => return Err(LIES.to_owned()),
        }
        Ok(())
    }

    fn drop(&mut self, oid: Oid) {
        self.open.remove(&oid);
        self.absent.insert(oid);
        self.refused.insert(oid);
    }

    fn leave(&mut self, oids: &BTreeSet<Oid>) {
        self.open.retain(|oid| !oids.contains(oid));
        self.refused.retain(|oid| !oids.contains(oid));
    }

    fn give_up(&mut self) {
        self.absent.append(&mut self.open);
        self.stage = Stage::Over;
    }

    fn take_tips(&mut self, refs: &[Listed]) {
        let mut tips = Tips { listed: BTreeSet::new(), branches_and_tags: BTreeSet::new() };
        for it in refs {
            tips.listed.insert(it.oid);
            tips.listed.extend(it.peeled);
            if it.kind != RefKind::Other {
                tips.branches_and_tags.insert(it.oid);
            }
        }
        self.tips = Some(tips);
        self.stage = Stage::Tips;
    }
}

#[cfg(test)]
mod tests;

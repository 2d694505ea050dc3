//! What waits, for what, and until when: the same question the rules were asked when it came. Read a
//! page at a time, in the order in which things are given up; what gave up and is still looked for
//! comes last.

use super::gather::{Sources, gather_again};
use super::holds;
use super::lacks::families_in;
use super::roles::RoleCache;
use super::views::state_of;
use crate::repos::Repos;
use grasp_core::hold::Phase;
use grasp_core::policy::{Needs, Origin, Rules, Subject, Verdict, Waits, judge};
use grasp_core::terms::Term;
use grasp_core::{EventId, PubKey, RepoId, Time, WallOffset};
use grasp_engine::hunt::FamilyId;
use grasp_store::{Result, Shelf, Snapshot, Space, StoredEvent};
use std::collections::BTreeSet;
use std::time::Duration;

/// One event that is held, or that gave up waiting and is still looked for.
#[derive(Debug)]
pub struct Waiting {
    pub found: StoredEvent,
    pub rest: Rest,
    pub since: Time,
    pub until: Time,
    pub needs: Option<Needs>,
    /// A sentence without its end: `state 5f3a… waits for git object 12f0…`
    pub words: String,
    /// Under which names its git data is looked for.
    pub families: Vec<FamilyId>,
}

impl Waiting {
    /// For people: a hold's moments are kept in steady time.
    pub fn shift_to_wall(&mut self, offset: WallOffset) {
        if self.rest != Rest::Wanted {
            self.since = offset.to_wall(self.since);
            self.until = offset.to_wall(self.until);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rest {
    Awake,
    Asleep,
    /// It gave up waiting.
    Wanted,
}

/// Where a reader of the list stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mark {
    /// Among what is held, by deadline and id.
    Held(Vec<u8>),
    /// Among what is only wanted, by id.
    Wanted(Vec<u8>),
}

/// Whom the question is put to.
pub struct Hall<'a> {
    pub store: &'a dyn Snapshot,
    pub rules: &'a Rules,
    pub repos: &'a Repos,
    pub now: Time,
    /// How long something is looked for after it gave up waiting.
    pub wanted_for: Duration,
    /// The same people are asked about again and again.
    pub roles: RoleCache,
}

impl std::fmt::Debug for Hall<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hall").field("now", &self.now).finish_non_exhaustive()
    }
}

/// Events about one repository that are shown to wait.
const PER_REPOSITORY_MAX: usize = 100;

impl Hall<'_> {
    /// A page of everything that waits, and where the next one begins.
    pub fn page(&mut self, from: &Mark, count_max: usize) -> Result<(Vec<Waiting>, Option<Mark>)> {
        let mut found = Vec::new();
        let mut mark = from.clone();
        if let Mark::Held(after) = from {
            let rows = self.store.notes_after(Shelf::Deadlines, after, count_max)?;
            for (key, _) in &rows {
                let id = key.last_chunk().map(|id| EventId::from_bytes(*id));
                found.extend(id.map(|id| self.of(&id)).transpose()?.flatten());
            }
            mark = match rows.last() {
                Some((key, _)) if rows.len() == count_max => Mark::Held(key.clone()),
                _ => Mark::Wanted(Vec::new()),
            };
        }
        if let Mark::Wanted(after) = &mark {
            let room = count_max - found.len().min(count_max);
            let rows = self.store.notes_after(Shelf::Wanted, after, room)?;
            for (key, _) in &rows {
                let id = key.as_slice().try_into().ok().map(EventId::from_bytes);
                found.extend(id.map(|id| self.of(&id)).transpose()?.flatten());
            }
            match rows.last() {
                Some((key, _)) if rows.len() == room => mark = Mark::Wanted(key.clone()),
                _ if room > 0 => return Ok((found, None)),
                _ => {}
            }
        }
        Ok((found, Some(mark)))
    }

    /// What waits for or with one repository, given the people who have a say in it.
    pub fn about<'a>(
        &mut self,
        repo: &RepoId,
        people: impl IntoIterator<Item = &'a PubKey>,
    ) -> Result<Vec<Waiting>> {
        let states: Vec<_> = people.into_iter().map(|it| state_of(it, &repo.identifier)).collect();
        let mut found = Vec::new();
        for space in [Space::Held, Space::Wanted] {
            found.extend(self.store.current(space, &repo.coordinate())?);
            for state in &states {
                found.extend(self.store.current(space, state)?);
            }
            let named = Term::tag(b'a', &repo.coordinate().to_string());
            found.extend(self.store.newest(space, &named, PER_REPOSITORY_MAX)?);
        }
        // One that names the repository in two ways is still one.
        let mut ids = BTreeSet::new();
        found.retain(|it| ids.insert(it.event.id));
        let waiting = found.iter().take(PER_REPOSITORY_MAX).map(|it| self.of(&it.event.id));
        waiting.filter_map(Result::transpose).collect()
    }

    /// `None` if it does not wait.
    pub fn of(&mut self, id: &EventId) -> Result<Option<Waiting>> {
        if let (Some(found), Some(hold)) =
            (self.store.get(Space::Held, id)?, holds::of(self.store, id)?)
        {
            let rest = match hold.phase {
                Phase::Awake => Rest::Awake,
                Phase::Asleep => Rest::Asleep,
            };
            return self.described(found, rest, (hold.since, hold.deadline)).map(Some);
        }
        let Some(found) = self.store.get(Space::Wanted, id)? else { return Ok(None) };
        let note = self.store.note(Shelf::Wanted, id.as_bytes())?;
        let since = note.and_then(|note| note.try_into().ok()).map_or(0, u64::from_be_bytes);
        let until = Time(since).plus(self.wanted_for);
        self.described(found, Rest::Wanted, (Time(since), until)).map(Some)
    }

    fn described(
        &mut self,
        found: StoredEvent,
        rest: Rest,
        (since, until): (Time, Time),
    ) -> Result<Waiting> {
        let verdict = self.verdict(&found)?;
        let needs = match &verdict {
            Ok(Verdict::Hold(needs)) => Some(needs.clone()),
            _ => None,
        };
        let (kind, id) = (found.event.kind, found.event.id);
        let words = match (&needs, verdict) {
            (Some(needs), _) => Waits { kind, id, needs }.to_string(),
            (None, Ok(Verdict::Accept)) => {
                format!("{id} has all it needs and is about to be served")
            }
            (None, Ok(verdict)) => format!("{id}: {}", verdict.answer().text),
            (None, Err(reason)) => format!("{id}: {reason}"),
        };
        let families = families_in(self.store, &mut self.roles, self.rules, &found)?;
        Ok(Waiting { found, rest, since, until, needs, words, families })
    }

    fn verdict(&mut self, found: &StoredEvent) -> Result<std::result::Result<Verdict, String>> {
        let (rules, at) = (self.rules, self.now.timestamp());
        let subject = match Subject::of(&found.event, rules) {
            Ok(subject) => subject,
            Err(reason) => return Ok(Err(reason.to_string())),
        };
        let (store, roles, repos) = (self.store, &mut self.roles, self.repos);
        let mut from = Sources { store, roles, repos, rules };
        let facts = gather_again(&mut from, &found.event, &subject)?;
        Ok(Ok(judge(&found.event, &subject, &facts, rules, Origin::Direct, at)))
    }
}

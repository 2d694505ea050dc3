//! Finding events. A query is a set of filters walked as one ordered merge of index lists; it can
//! stop after any step and go on later from its position, in a fresh snapshot. It never reads an
//! event it does not return, unless a filter asks for something no index can tell.

use crate::Result;
use crate::keys::{Entry, List, Position};
use crate::merge::Merge;
use crate::plan::{Plan, STREAMS_MAX};
use crate::record::Record;
use crate::space::Space;
use crate::view::View;
use grasp_core::terms::Term;
use grasp_core::{Filter, Kind, Timestamp};
use std::sync::Arc;

/// What the caller needs of each hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// The event itself.
    Bodies,
    /// Only time and id: answered from the index alone.
    Positions,
}

/// One event found.
#[derive(Debug, Clone, Copy)]
pub struct Hit<'t> {
    pub position: Position,
    pub serial: u64,
    pub kind: Kind,
    /// Canonical JSON; empty unless bodies were wanted.
    pub json: &'t [u8],
}

/// How far one call to `advance` may go. Steps are index entries looked at.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    pub steps: u64,
    pub bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    Paused,
    Done,
}

/// A query on its way. Results come newest first, lowest id first within a second, each once.
#[derive(Debug, Clone)]
pub struct Cursor {
    filters: Arc<[Filter]>,
    legs: Vec<Leg>,
    want: Want,
    /// The last position looked at.
    position: Option<Position>,
    serial_max: u64,
    now: Timestamp,
}

#[derive(Debug, Clone)]
struct Leg {
    /// Which of the filters.
    index: usize,
    plan: Plan,
    remaining: u64,
    state: LegState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LegState {
    Running,
    /// The limit was reached and something older matches as well.
    Cut,
    /// The limit was reached; whether anything older matches was not worth finding out.
    Satisfied,
}

/// Up to this many values of a second tag are looked up in the index instead of in the event.
const PROBES_MAX: usize = 4;

impl Cursor {
    /// `serial_max` draws the line between stored and live: what was committed later is not ours.
    pub fn new(filters: Arc<[Filter]>, want: Want, serial_max: u64, now: Timestamp) -> Self {
        let streams_max = STREAMS_MAX / filters.len().max(1);
        let leg = |(index, filter): (usize, &Filter)| Leg {
            index,
            plan: Plan::of(filter, streams_max),
            remaining: filter.limit.unwrap_or(u64::MAX),
            state: LegState::Running,
        };
        // `limit: 0` asks for nothing stored, so there is nothing to walk.
        let stored = filters.iter().enumerate().filter(|(_, filter)| filter.limit != Some(0));
        let legs = stored.map(leg).collect();
        Self { filters, legs, want, position: None, serial_max, now }
    }

    /// The same from behind a position on: what came up to it was seen before.
    #[must_use]
    pub fn after(self, position: Position) -> Self {
        Self { position: Some(position), ..self }
    }

    /// After the query is done: was any filter cut off by its limit? `None` if nobody looked.
    pub fn has_more(&self) -> Option<bool> {
        let any = |state| self.legs.iter().any(|leg| leg.state == state);
        match (any(LegState::Cut), any(LegState::Satisfied)) {
            (true, _) => Some(true),
            (false, true) => None,
            (false, false) => Some(false),
        }
    }

    /// Everything asked for has been found. What a pause would go on looking for is only whether
    /// there is more, so it stops here.
    fn settle(&mut self) -> bool {
        let satisfied = self.legs.iter().all(|leg| leg.remaining == 0);
        for leg in self.legs.iter_mut().filter(|leg| satisfied && leg.state == LegState::Running) {
            leg.state = LegState::Satisfied;
        }
        satisfied
    }
}

pub(crate) fn advance(
    view: View<'_>,
    space: Space,
    cursor: &mut Cursor,
    budget: &mut Budget,
    sink: &mut dyn FnMut(Hit<'_>),
) -> Result<Progress> {
    let Cursor { filters, legs, position, .. } = &mut *cursor;
    let running = legs.iter_mut().enumerate().filter(|(_, leg)| leg.state == LegState::Running);
    let running = running.filter_map(|(n, leg)| Some((n, &mut leg.plan, filters.get(leg.index)?)));
    let mut merge = Merge::open(view, space, *position, running)?;
    let mut hit_legs = Vec::new();
    while let Some((position, entry)) = merge.next(&mut hit_legs)? {
        budget.steps = budget.steps.saturating_sub(1);
        cursor.position = Some(position);
        if entry.serial <= cursor.serial_max {
            let mut found = Candidate { view, space, position, entry, record: None };
            if wanted_by_any(cursor, &hit_legs, &mut found, budget)? {
                let json = match cursor.want {
                    Want::Bodies => found.record()?.json(),
                    Want::Positions => &[],
                };
                budget.bytes = budget.bytes.saturating_sub(json.len());
                sink(Hit { position, serial: entry.serial, kind: entry.kind, json });
            }
        }
        if cursor.legs.iter().all(|leg| leg.state == LegState::Cut) {
            return Ok(Progress::Done);
        }
        if budget.steps == 0 || budget.bytes == 0 {
            return Ok(if cursor.settle() { Progress::Done } else { Progress::Paused });
        }
    }
    Ok(Progress::Done)
}

/// Counts the hit against every filter it matches; true if one of them still wanted it.
fn wanted_by_any(
    cursor: &mut Cursor,
    hit_legs: &[usize],
    found: &mut Candidate<'_>,
    budget: &mut Budget,
) -> Result<bool> {
    let Cursor { filters, legs, now, .. } = cursor;
    let mut wanted = false;
    for index in hit_legs {
        let Some(leg) = legs.get_mut(*index) else { continue };
        let Some(filter) = filters.get(leg.index) else { continue };
        if leg.state == LegState::Cut || !found.matches(filter, leg.plan, *now, budget)? {
            continue;
        }
        if leg.remaining == 0 {
            leg.state = LegState::Cut;
        } else {
            leg.remaining -= 1;
            wanted = true;
        }
    }
    Ok(wanted)
}

struct Candidate<'t> {
    view: View<'t>,
    space: Space,
    position: Position,
    entry: Entry,
    record: Option<Record<'t>>,
}

impl<'t> Candidate<'t> {
    fn record(&mut self) -> Result<Record<'t>> {
        let record = match self.record {
            Some(record) => record,
            None => self.view.record(self.space, self.entry.serial)?,
        };
        self.record = Some(record);
        Ok(record)
    }

    /// Checks what the leg's lists did not already guarantee, cheapest first.
    fn matches(
        &mut self,
        filter: &Filter,
        plan: Plan,
        now: Timestamp,
        budget: &mut Budget,
    ) -> Result<bool> {
        let created_at = self.position.created_at();
        let in_window = filter.since.is_none_or(|since| created_at >= since)
            && filter.until.is_none_or(|until| created_at <= until);
        let kind_fits = filter.kinds.as_ref().is_none_or(|k| k.has(&self.entry.kind));
        if !in_window || !kind_fits {
            return Ok(false);
        }
        if self.entry.expires && self.record()?.expires().is_some_and(|at| at <= now) {
            return Ok(false);
        }
        let by_author = matches!(plan, Plan::AuthorKinds | Plan::Authors);
        if let Some(authors) = filter.authors.as_ref().filter(|_| !by_author) {
            budget.steps = budget.steps.saturating_sub(1);
            if !authors.has(&self.record()?.pubkey()) {
                return Ok(false);
            }
        }
        for (letter, values) in &filter.tags {
            if plan != Plan::Tag(*letter) && !self.has_tag(*letter, values, budget)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn has_tag(&mut self, letter: u8, values: &[String], budget: &mut Budget) -> Result<bool> {
        if values.len() <= PROBES_MAX {
            let index = &self.view.tables.of(self.space).index;
            for value in values {
                budget.steps = budget.steps.saturating_sub(1);
                let key = List::term(&Term::tag(letter, value)).key(&self.position);
                if index.get(self.view.txn, &key)?.is_some() {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        // Parsing costs about as much as looking at a few dozen index entries.
        budget.steps = budget.steps.saturating_sub(32);
        let event = self.record()?.parse_json()?;
        let hit = |v: &str| values.binary_search_by(|value| value.as_str().cmp(v)).is_ok();
        Ok(event.tags.iter().any(|t| t.letter() == Some(letter) && t.value().is_some_and(hit)))
    }
}

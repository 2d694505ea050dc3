//! What comes in on one link: which subscription it belongs to, whether it was asked for, and when
//! a subscription is really over. An end is told only after every event before it was judged, and
//! nothing a relay says can name a subscription that we did not open.

use crate::vocabulary::{End, Hint, Page, Sub, Tally};
use grasp_core::{Event, EventId, Filter, Time, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Bounds for one link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patience {
    /// A question that brings nothing for this long is over.
    pub silence_max: Duration,
    /// What one question may bring.
    pub events_max: u32,
    pub bytes_max: u64,
    /// Events that nobody asked for, and forgeries, before the link is cut.
    pub strays_max: u32,
    pub forgeries_max: u32,
}

impl Default for Patience {
    fn default() -> Self {
        Self {
            silence_max: Duration::from_secs(30),
            events_max: 50_000,
            bytes_max: 64 << 20,
            strays_max: 20,
            forgeries_max: 5,
        }
    }
}

#[derive(Debug)]
pub struct Reception {
    patience: Patience,
    open: BTreeMap<Sub, Open>,
    strays: u32,
    forgeries: u32,
}

#[derive(Debug)]
struct Open {
    filters: Arc<[Filter]>,
    stays: bool,
    page: Page,
    /// Events named by id that have not come yet.
    awaited: BTreeSet<EventId>,
    /// Events handed on whose verdict is not known yet.
    unjudged: u32,
    /// Set by EOSE: nothing more of the past will come.
    told: bool,
    /// It brought too much and was ended by us.
    flooded: bool,
    events: u32,
    progress: Time,
    /// How long it may bring nothing, if that is not as usual.
    silence_max: Option<Duration>,
}

/// What to do with an event that came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Intake {
    /// Hand it on; report its verdict with `judged`.
    Take {
        /// It came before EOSE: it is of the past.
        past: bool,
    },
    /// Drop it: nobody asked for this.
    Stray,
    /// Drop it, send CLOSE: this question brought more than any may.
    Flood,
    /// Drop the link: it does not stop sending what nobody asked for.
    Enough,
}

/// A subscription that is over or has told its past, to be reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Report {
    Listening(Page),
    Ended(End),
}

impl Reception {
    pub fn new(patience: Patience) -> Self {
        Self { patience, open: BTreeMap::new(), strays: 0, forgeries: 0 }
    }

    /// Before the request is written, so that no answer can come too early.
    pub fn opens(&mut self, sub: Sub, filters: Arc<[Filter]>, stays: bool, now: Time) {
        let awaited = filters.iter().filter_map(|filter| filter.ids.as_deref()).flatten();
        let awaited = awaited.copied().collect();
        let tallies = vec![Tally::default(); filters.len()];
        let page = Page { tallies, ..Page::default() };
        let open = Open {
            filters,
            stays,
            page,
            awaited,
            unjudged: 0,
            told: false,
            flooded: false,
            events: 0,
            progress: now,
            silence_max: None,
        };
        self.open.insert(sub, open);
    }

    /// The relay has to answer this one within another time than usual.
    pub fn must_answer_within(&mut self, sub: Sub, time: Duration) {
        if let Some(open) = self.open.get_mut(&sub) {
            open.silence_max = Some(time);
        }
    }

    /// We sent CLOSE on our own account.
    pub fn closes(&mut self, sub: Sub) {
        self.open.remove(&sub);
    }

    pub fn is_open(&self, sub: Sub) -> bool {
        self.open.contains_key(&sub)
    }

    pub fn event(&mut self, sub: Sub, event: &Event, bytes: usize, now: Time) -> Intake {
        let Some(open) = self.open.get_mut(&sub) else {
            // What we closed may still be on its way; that is nobody's fault.
            return Intake::Stray;
        };
        if open.flooded {
            return Intake::Stray;
        }
        let mut wanted = false;
        for (at, filter) in open.filters.iter().enumerate() {
            if !filter.matches(event) {
                continue;
            }
            open.page.mixed |= wanted && !open.told;
            wanted = true;
            // There is nothing to count any more once the past is told.
            if let Some(tally) = open.page.tallies.get_mut(at).filter(|_| !open.told) {
                tally.received = tally.received.saturating_add(1);
                let oldest = tally.oldest.unwrap_or(event.created_at);
                tally.oldest = Some(oldest.min(event.created_at));
            }
        }
        if !wanted {
            self.strays += 1;
            let enough = self.strays >= self.patience.strays_max;
            return if enough { Intake::Enough } else { Intake::Stray };
        }
        open.awaited.remove(&event.id);
        open.page.bytes += u64::try_from(bytes).unwrap_or(0);
        open.progress = now;
        open.events = open.events.saturating_add(u32::from(!open.told));
        let counts = !open.stays || !open.told;
        if counts && open.has_too_much(&self.patience) {
            return Intake::Flood;
        }
        // What happens now is not what an end waits for.
        if !open.told {
            open.unjudged += 1;
        }
        Intake::Take { past: !open.told }
    }

    /// A message of a reconciliation came.
    pub fn progresses(&mut self, sub: Sub, now: Time) {
        if let Some(open) = self.open.get_mut(&sub) {
            open.progress = now;
        }
    }

    /// The relay answered for the first time; the next answers may take as long as usual.
    pub fn has_answered(&mut self, sub: Sub) {
        if let Some(open) = self.open.get_mut(&sub) {
            open.silence_max = None;
        }
    }

    /// We do not listen right now, so nobody is silent.
    pub fn all_progress(&mut self, now: Time) {
        self.open.values_mut().for_each(|open| open.progress = now);
    }

    /// The verdict on an event that was handed on; `past` as it was then.
    pub fn judged(&mut self, sub: Sub, past: bool, now: Time) -> Option<Report> {
        let open = self.open.get_mut(&sub).filter(|_| past)?;
        open.unjudged = open.unjudged.saturating_sub(1);
        open.progress = now;
        self.settle(sub)
    }

    /// An event of the past that was handed on is stored now and was not known before. Before `judged`.
    pub fn stored(&mut self, sub: Sub) {
        if let Some(open) = self.open.get_mut(&sub) {
            open.page.stored = open.page.stored.saturating_add(1);
        }
    }

    /// This server has no room for an event of the past that was handed on. Before `judged`.
    pub fn found_no_room(&mut self, sub: Sub, id: EventId) {
        if let Some(open) = self.open.get_mut(&sub) {
            open.page.no_room.push(id);
        }
    }

    /// An event of the past is wanted and was not here. Before `judged`.
    pub fn found_fresh(&mut self, sub: Sub, event: (Timestamp, EventId)) {
        if let Some(open) = self.open.get_mut(&sub)
            && open.page.fresh.len() < Page::FRESH_MAX
        {
            open.page.fresh.push(event);
        }
    }

    /// An event was not what it claimed to be, so the one it claimed to be has not come. Before
    /// `judged`. True: the link is not worth keeping.
    pub fn forged(&mut self, sub: Sub, id: &EventId) -> bool {
        if let Some(open) = self.open.get_mut(&sub) {
            let mut named = open.filters.iter().filter_map(|filter| filter.ids.as_ref());
            let asked = named.any(|ids| ids.has(id));
            match open.told {
                true if asked => open.page.missing.push(*id),
                false if asked => drop(open.awaited.insert(*id)),
                _ => {}
            }
        }
        self.forgeries += 1;
        self.forgeries >= self.patience.forgeries_max
    }

    pub fn eose(&mut self, sub: Sub, hint: Option<Hint>, now: Time) -> Option<Report> {
        let open = self.open.get_mut(&sub)?;
        if open.told {
            return None;
        }
        open.told = true;
        open.progress = now;
        open.page.hint = hint;
        open.page.missing = std::mem::take(&mut open.awaited).into_iter().collect();
        self.settle(sub)
    }

    /// Ends a subscription for any other reason; `None` if it was not open.
    pub fn ends(&mut self, sub: Sub, end: End) -> Option<Report> {
        let open = self.open.get(&sub)?;
        // It has told everything and answers our CLOSE; what it told is still being judged.
        if open.told && !open.stays && matches!(end, End::Closed(_)) {
            return None;
        }
        self.open.remove(&sub).map(|_| Report::Ended(end))
    }

    /// Ends a question that brought too much; what it brought so far still counts, once it is
    /// judged.
    pub fn floods(&mut self, sub: Sub) -> Option<Report> {
        let open = self.open.get_mut(&sub)?;
        open.told = true;
        open.flooded = true;
        open.page.missing = std::mem::take(&mut open.awaited).into_iter().collect();
        self.settle(sub)
    }

    /// Questions that were silent for too long; each needs a CLOSE.
    pub fn silent(&mut self, now: Time) -> Vec<(Sub, Report)> {
        let over = |open: &Open| {
            !open.stays && open.unjudged == 0 && now >= open.silent_at(&self.patience)
        };
        let subs: Vec<Sub> =
            self.open.iter().filter(|(_, open)| over(open)).map(|(sub, _)| *sub).collect();
        subs.into_iter().filter_map(|sub| Some((sub, self.ends(sub, End::Silent)?))).collect()
    }

    /// When `silent` has something to say at the earliest.
    pub fn next_deadline(&self) -> Option<Time> {
        let asking = self.open.values().filter(|open| !open.stays && open.unjudged == 0);
        asking.map(|open| open.silent_at(&self.patience)).min()
    }

    fn settle(&mut self, sub: Sub) -> Option<Report> {
        let open = self.open.get_mut(&sub)?;
        if !open.told || open.unjudged > 0 {
            return None;
        }
        if open.stays && !open.flooded {
            // Told once; later verdicts find an empty page and say nothing.
            if open.page.tallies.is_empty() {
                return None;
            }
            return Some(Report::Listening(std::mem::take(&mut open.page)));
        }
        let open = self.open.remove(&sub)?;
        Some(Report::Ended(match open.flooded {
            true => End::Flood(open.page),
            false => End::Complete(open.page),
        }))
    }
}

impl Open {
    /// When it has brought nothing for too long.
    fn silent_at(&self, patience: &Patience) -> Time {
        self.progress.plus(self.silence_max.unwrap_or(patience.silence_max))
    }

    fn has_too_much(&self, patience: &Patience) -> bool {
        self.events > patience.events_max || self.page.bytes > patience.bytes_max
    }
}

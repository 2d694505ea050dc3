//! How complete this server is, as one figure (S-54): repositories of which no mirror has something we
//! lack, divided by repositories that were compared at all. Mirrors that cannot be compared count apart.

use grasp_core::Time;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// What is known of one repository at one mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MirrorVerdict {
    Equal,
    WeLack,
    TheyLack,
    Unverifiable,
    Unreachable,
}

/// When a repository was looked at at one mirror, and what that showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorLook<R> {
    pub repo: R,
    pub verdict: MirrorVerdict,
    pub at: Time,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct CompleteFigures {
    /// Of the compared repositories: those of which no mirror has something we lack.
    pub complete: u64,
    /// Repositories that were compared with at least one mirror lately enough.
    pub compared: u64,
    /// Mirrors of a repository that cannot be compared, or were not for too long.
    pub unverifiable: u64,
    /// Mirrors of a repository that cannot be reached.
    pub unreachable: u64,
}

impl CompleteFigures {
    /// From 0 to 1; 1 where nothing was compared.
    pub fn ratio(&self) -> f64 {
        match self.compared {
            0 => 1.0,
            compared => self.complete as f64 / compared as f64,
        }
    }

    /// Rounded down, so that only a complete server has 1,000.
    pub fn permille(&self) -> u16 {
        let permille = self.complete.saturating_mul(1_000).checked_div(self.compared);
        permille.and_then(|it| u16::try_from(it).ok()).unwrap_or(1_000)
    }
}

/// Takes in looks one by one, so that no list of all of them is needed.
#[derive(Debug)]
pub struct CompleteTally<R> {
    now: Time,
    age_max: Duration,
    /// Compared repositories, and whether a mirror has something we lack.
    lacking: BTreeMap<R, bool>,
    unverifiable: u64,
    unreachable: u64,
}

impl<R: Ord> CompleteTally<R> {
    /// A look that is older than `age_max` says nothing any more.
    pub fn new(now: Time, age_max: Duration) -> Self {
        Self { now, age_max, lacking: BTreeMap::new(), unverifiable: 0, unreachable: 0 }
    }

    pub fn add(&mut self, look: MirrorLook<R>) {
        if self.now.since(look.at) > self.age_max {
            self.unverifiable += 1;
            return;
        }
        let lacks = match look.verdict {
            MirrorVerdict::Unverifiable => {
                self.unverifiable += 1;
                return;
            }
            MirrorVerdict::Unreachable => {
                self.unreachable += 1;
                return;
            }
            MirrorVerdict::WeLack => true,
            MirrorVerdict::Equal | MirrorVerdict::TheyLack => false,
        };
        *self.lacking.entry(look.repo).or_default() |= lacks;
    }

    pub fn figures(&self) -> CompleteFigures {
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        CompleteFigures {
            complete: count(self.lacking.values().filter(|lacks| !**lacks).count()),
            compared: count(self.lacking.len()),
            unverifiable: self.unverifiable,
            unreachable: self.unreachable,
        }
    }
}

pub fn complete_figures<R: Ord>(
    looks: impl IntoIterator<Item = MirrorLook<R>>,
    now: Time,
    age_max: Duration,
) -> CompleteFigures {
    let mut tally = CompleteTally::new(now, age_max);
    looks.into_iter().for_each(|look| tally.add(look));
    tally.figures()
}

/// Days of which the figure is kept.
pub const COMPLETE_DAYS_MAX: usize = 30;
const DAY_MS: u64 = 86_400_000;

/// The lowest figure of each of the last days, the latest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct CompleteDays {
    /// Days since 1970, and permille.
    days: VecDeque<(u64, u16)>,
}

impl CompleteDays {
    /// True if something changed that should be written down. `now` is wall time.
    pub fn take_in(&mut self, permille: u16, now: Time) -> bool {
        let today = now.0 / DAY_MS;
        match self.days.front_mut() {
            // Also after the clock was set back.
            Some((day, lowest)) if *day >= today => {
                let lower = permille < *lowest;
                *lowest = permille.min(*lowest);
                lower
            }
            _ => {
                self.days.push_front((today, permille));
                self.days.truncate(COMPLETE_DAYS_MAX);
                true
            }
        }
    }

    /// The beginning of each day and its figure, the latest first.
    pub fn iter(&self) -> impl Iterator<Item = (Time, u16)> + '_ {
        self.days.iter().map(|(day, permille)| (Time(day.saturating_mul(DAY_MS)), *permille))
    }
}

//! A history too large for one fetch, or whose fetch broke, in steps (S-51): its commits alone show the
//! way, then one step after the other is promoted and told as `have`. Which step is next is decided in
//! `grasp_git::fetch::FetchSteps`. Invariant: commits without their trees stay in their quarantine.

use super::intake::Got;
use super::talk::{Stop, Talk};
use super::words::{Heard, Speaks};
use super::{Desk, Fetcher, Part};
use crate::outbound::CallError;
use grasp_core::{Domain, Oid};
use grasp_git::fetch::FetchSteps;
use grasp_git::{Objects, Quarantine};
use std::collections::BTreeSet;
use std::io;

/// All commits of a history without what is in them.
const COMMITS_BYTES_MAX: u64 = 256 << 20;
/// Of one line of first parents, 20 bytes each.
const COMMITS_MAX: usize = 1_000_000;
/// A fetch that brought less than this before it broke is tried again as it was.
const BROKEN_BYTES_MIN: u64 = 64 << 10;

/// How a fetch ended that steps may go on with.
#[derive(Debug)]
pub(super) enum FetchBreak {
    /// It broke after a part of its pack came.
    Broke,
    /// It is larger than is fetched in one go.
    Large,
}

impl FetchBreak {
    /// `pack_bytes`: what came of packs. `is_narrowed`: more may come from this server.
    pub(super) fn of(stop: Stop, pack_bytes: u64, is_narrowed: bool) -> Result<Self, Stop> {
        match stop {
            Stop::TooLarge if is_narrowed => Ok(Self::Large),
            stop if is_break(&stop) && pack_bytes >= BROKEN_BYTES_MIN => Ok(Self::Broke),
            stop => Err(stop),
        }
    }
}

fn is_break(stop: &Stop) -> bool {
    let lost = |it: &CallError| matches!(it, CallError::Failed(_) | CallError::Stale(_));
    match stop {
        Stop::Call(error) => lost(error),
        Stop::Failed(_) => true,
        Stop::Lacks(_) | Stop::SlowDown | Stop::TooLarge | Stop::Cancelled => false,
    }
}

/// Whom a fetch in steps talks to, and how.
#[derive(Debug, Clone)]
pub(super) struct StepSource {
    pub(super) domain: Domain,
    pub(super) speaks: Speaks,
}

impl Fetcher {
    /// Fetches most of what is behind `wants`. True if there is more here than before.
    pub(super) async fn in_steps<D: Desk>(
        &self,
        from: &StepSource,
        part: &mut Part,
        wants: &BTreeSet<Oid>,
        talk: &mut Talk<'_, D>,
    ) -> Result<bool, Stop> {
        let points = match self.history(from, part, wants, talk).await? {
            Some(points) => points,
            None => part.tags.iter().filter(|tag| wants.contains(tag)).copied().collect(),
        };
        tracing::debug!(repo = %part.to, points = points.len(), "a history is fetched in steps");
        let mut steps = FetchSteps::new(points, self.settings.step_bytes);
        let mut is_further = false;
        while let Some(tip) = steps.next_want() {
            self.has_room()?;
            // What cuts long connections has nothing to cut.
            talk.hang_up();
            let before = talk.pack_bytes();
            match self.step(from, part, tip, talk).await {
                Ok(true) => {
                    steps.arrived(talk.pack_bytes() - before);
                    part.haves.insert(0, tip);
                    is_further = true;
                }
                Ok(false) => break,
                Err(stop) if is_break(&stop) => {
                    if !steps.broke() {
                        return Err(stop);
                    }
                }
                Err(stop) => return Err(stop),
            }
        }
        talk.hang_up();
        Ok(is_further)
    }

    /// One step: whole, checked, nothing else in it, and promoted. False if it is not to be had.
    async fn step<D: Desk>(
        &self,
        from: &StepSource,
        part: &Part,
        tip: Oid,
        talk: &mut Talk<'_, D>,
    ) -> Result<bool, Stop> {
        let wants = BTreeSet::from([tip]);
        let asked = talk.objects(&wants, part.haves_to_tell(), from.speaks).await?;
        let Ok(arriving) = asked else { return Ok(false) };
        let parcel = match self.receive(talk, arriving, part, &wants).await? {
            Ok(parcel) if !parcel.found.is_empty() => self.unmixed(parcel, part).await?,
            Ok(_) | Err(_) => return Ok(false),
        };
        let Ok(parcel) = parcel else { return Ok(false) };
        Ok(talk.desk.stepped(part, parcel.quarantine, tip).await)
    }

    /// The commits on the way to the one with the longest line of first parents, oldest first, without
    /// itself. `None` if this server does not tell.
    async fn history<D: Desk>(
        &self,
        from: &StepSource,
        part: &Part,
        wants: &BTreeSet<Oid>,
        talk: &mut Talk<'_, D>,
    ) -> Result<Option<Vec<Oid>>, Stop> {
        if from.speaks != Speaks::V2 || self.memory.lock().is_unfiltered(&from.domain) {
            return Ok(None);
        }
        let kept = talk.narrow(COMMITS_BYTES_MAX);
        talk.hang_up();
        let got = self.commits(part, wants, talk).await;
        talk.widen(kept);
        match got {
            Ok(Ok(parcel)) => {
                let chain = longest_chain(parcel.quarantine, wants.clone()).await?;
                Ok(Some(chain).filter(|chain| !chain.is_empty()))
            }
            Ok(Err(Heard::Refuses(_) | Heard::Unclear(_))) => {
                self.memory.lock().filters(&from.domain, false);
                Ok(None)
            }
            Ok(Err(_)) => Ok(None),
            Err(Stop::TooLarge) if kept > 0 => Ok(None),
            Err(stop) => Err(stop),
        }
    }

    async fn commits<D: Desk>(
        &self,
        part: &Part,
        wants: &BTreeSet<Oid>,
        talk: &mut Talk<'_, D>,
    ) -> Got {
        let arriving = match talk.commits(wants, part.haves_to_tell()).await? {
            Ok(arriving) => arriving,
            Err(heard) => return Ok(Err(heard)),
        };
        let layout = self.layout.clone();
        let opened = tokio::task::spawn_blocking(move || Quarantine::of_commits(&layout)).await;
        let quarantine = opened.unwrap_or_else(|error| Err(io::Error::other(error)));
        let quarantine = quarantine.map_err(|error| {
            tracing::warn!(repo = %part.to, %error, "no quarantine for commits");
            Stop::Failed("this server could not store it".to_owned())
        })?;
        self.receive_into(quarantine, talk, arriving, part, wants).await
    }
}

/// The quarantine goes with this: nothing in it is whole.
async fn longest_chain(quarantine: Quarantine, wants: BTreeSet<Oid>) -> Result<Vec<Oid>, Stop> {
    let look = move || {
        let objects = Objects::open(quarantine.path()).ok()?;
        let chains = wants.iter().map(|tip| objects.first_parents(tip, COMMITS_MAX));
        chains.max_by_key(Vec::len)
    };
    let chain = tokio::task::spawn_blocking(look).await.ok().flatten().unwrap_or_default();
    Ok(chain.into_iter().skip(1).rev().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s51_steps_go_on_after_a_break_in_the_middle_and_after_a_pack_that_is_too_large() {
        let broke = || Stop::Call(CallError::Failed("it hung up".to_owned()));
        assert!(matches!(FetchBreak::of(broke(), BROKEN_BYTES_MIN, false), Ok(FetchBreak::Broke)));
        assert!(FetchBreak::of(broke(), BROKEN_BYTES_MIN - 1, false).is_err(), "as it was");
        assert!(matches!(FetchBreak::of(Stop::TooLarge, 0, true), Ok(FetchBreak::Large)));
        assert!(matches!(FetchBreak::of(Stop::TooLarge, 1 << 30, false), Err(Stop::TooLarge)));
        for stop in [Stop::SlowDown, Stop::Cancelled, Stop::Lacks(String::new())] {
            assert!(FetchBreak::of(stop, 1 << 30, true).is_err());
        }
    }
}

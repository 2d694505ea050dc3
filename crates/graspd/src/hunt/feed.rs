//! Which families lack git data is learnt from our own store alone: everything that waits or is
//! still wanted, from the first to the newest, and then as it comes. A start and a restart are the
//! same walk, so what was being looked for before a crash is looked for after it.

use super::Ground;
use crate::ingest::families_of;
use grasp_core::{Kind, Time};
use grasp_engine::hunt::{Brought, HuntInput};
use grasp_store::{EventStore, Result, SourceKind, Space, StoredEvent};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Rows looked at under one snapshot.
const ROWS_MAX: usize = 1_000;
/// A store that cannot be read is asked again.
const RETRY_AFTER: Duration = Duration::from_secs(1);

const WAITING: [Kind; 3] = [Kind::STATE, Kind::PULL_REQUEST, Kind::PULL_REQUEST_UPDATE];
/// An announcement lacks nothing itself, but says where things are and lets others in.
const NEWS: [Kind; 4] =
    [Kind::ANNOUNCEMENT, Kind::STATE, Kind::PULL_REQUEST, Kind::PULL_REQUEST_UPDATE];

/// Tells until the server stops, or nobody listens any more.
pub(super) async fn run(ground: Arc<Ground>, sender: mpsc::Sender<HuntInput>) {
    let closing = ground.node.closing.clone();
    let teller = Teller { ground, sender };
    tokio::select! {
        () = closing.cancelled() => {}
        _ = teller.run() => {}
    }
}

/// Nobody listens, or nobody reads any more.
struct Over;

struct Teller {
    ground: Arc<Ground>,
    sender: mpsc::Sender<HuntInput>,
}

impl Teller {
    async fn run(&self) -> std::result::Result<(), Over> {
        let mut line = self.past().await?;
        loop {
            tokio::select! {
                () = self.ground.node.wake.rung_for_the_hunt() => {}
                () = self.ground.tell_again.notified() => drop(self.past().await?),
            }
            let last = self.ask(|store| store.read()?.last_serial()).await?;
            let new = line + 1..=last;
            self.tell(Space::Held, new.clone(), &NEWS).await?;
            self.tell(Space::Served, new.clone(), &NEWS[..2]).await?;
            self.tell(Space::Wanted, new, &WAITING).await?;
            line = last;
        }
    }

    /// Everything up to the newest there is.
    async fn past(&self) -> std::result::Result<u64, Over> {
        let line = self.ask(|store| store.read()?.last_serial()).await?;
        self.tell(Space::Held, 1..=line, &WAITING).await?;
        self.tell(Space::Wanted, 1..=line, &WAITING).await?;
        Ok(line)
    }

    async fn tell(
        &self,
        space: Space,
        mut serials: RangeInclusive<u64>,
        kinds: &'static [Kind],
    ) -> std::result::Result<(), Over> {
        while !serials.is_empty() {
            let (rules, range) = (Arc::clone(&self.ground.node.rules), serials.clone());
            let look = move |store: &dyn EventStore| {
                let (found, next) = page(store, space, range.clone(), kinds)?;
                let families = families_of(store, &rules, &found)?;
                Ok((found, families, next))
            };
            let (found, families, next) = self.ask(look).await?;
            for (it, families) in found.iter().zip(families) {
                for family in families {
                    let input = match space {
                        Space::Wanted => HuntInput::Wanted { family },
                        // Its objects are here; others may have waited for them.
                        Space::Served if it.event.kind == Kind::STATE => {
                            HuntInput::Changed { family }
                        }
                        _ => {
                            let since = self.ground.node.clock.past_to_steady(since(it));
                            let brought = brought(it);
                            HuntInput::Held { family, brought, since }
                        }
                    };
                    self.sender.send(input).await.map_err(|_| Over)?;
                }
            }
            match next {
                Some(next) => serials = next..=*serials.end(),
                None => return Ok(()),
            }
        }
        Ok(())
    }

    /// Asks again and again if need be: what is not told is never looked for.
    async fn ask<T: Send + 'static>(
        &self,
        question: impl Fn(&dyn EventStore) -> Result<T> + Clone + Send + 'static,
    ) -> std::result::Result<T, Over> {
        loop {
            match self.ground.node.explorers.ask(question.clone()).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => tracing::error!(%error, "what is missing cannot be read"),
                Err(_) => return Err(Over),
            }
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }
}

fn page(
    store: &dyn EventStore,
    space: Space,
    serials: RangeInclusive<u64>,
    kinds: &[Kind],
) -> Result<(Vec<StoredEvent>, Option<u64>)> {
    let mut found = Vec::new();
    let mut sink = |it: StoredEvent| found.push(it);
    let next = store.read()?.walk(space, serials, kinds, ROWS_MAX, &mut sink)?;
    Ok((found, next))
}

fn brought(it: &StoredEvent) -> Brought {
    match it.provenance.source {
        SourceKind::Direct => Brought::Directly,
        SourceKind::Live | SourceKind::Backfill | SourceKind::Daily => Brought::BySync,
    }
}

fn since(it: &StoredEvent) -> Time {
    it.provenance.released.unwrap_or(it.provenance.received)
}

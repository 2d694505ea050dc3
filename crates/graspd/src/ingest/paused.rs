//! Releases whose turn was over before they were done. The journal says what is left of each; here is
//! only who goes on next, and which push waits for which of them.

use super::affected::IntentKey;
use super::land::{Delivery, Outcome};
use super::views::VIEWS_MAX;
use grasp_core::Identifier;
use std::collections::{BTreeSet, VecDeque};
use tokio::sync::oneshot;

#[derive(Debug)]
pub(super) struct PausedRelease {
    pub(super) key: IntentKey,
    /// The push that is answered when it is done.
    pub(super) push: Option<(Delivery, oneshot::Sender<Outcome>)>,
}

/// As many as there are rows in the journal, which is what bounds them.
#[derive(Debug, Default)]
pub(super) struct PausedReleases {
    queue: VecDeque<PausedRelease>,
    /// Names whose repositories are too many; the log says so once.
    crowded: BTreeSet<Identifier>,
}

/// Names remembered, beyond which the log may repeat itself.
const CROWDED_MAX: usize = 1_000;

impl PausedReleases {
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn contains(&self, key: &IntentKey) -> bool {
        self.queue.iter().any(|it| it.key == *key)
    }

    pub(super) fn add(&mut self, key: IntentKey) {
        self.queue.push_back(PausedRelease { key, push: None });
    }

    /// The push belongs to the release that was paused last.
    pub(super) fn await_last(&mut self, delivery: Delivery, answer: oneshot::Sender<Outcome>) {
        if let Some(last) = self.queue.back_mut() {
            last.push = Some((delivery, answer));
        }
    }

    pub(super) fn warn_crowded(&mut self, identifier: Identifier) {
        if self.crowded.len() >= CROWDED_MAX {
            self.crowded.clear();
        }
        if !self.crowded.contains(&identifier) {
            tracing::warn!(
                %identifier,
                "more than {VIEWS_MAX} repositories of one group: the others are not kept in line"
            );
            self.crowded.insert(identifier);
        }
    }

    pub(super) fn take_first(&mut self) -> Option<PausedRelease> {
        self.queue.pop_front()
    }
}

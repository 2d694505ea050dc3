//! How the writer calls the feed: a bell, and the repositories whose announcements may have gone.
//! What was stored needs no name, it is found by its serial.

use grasp_core::RepoId;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use tokio::sync::Notify;

#[derive(Debug, Default)]
pub struct Wake {
    bell: Notify,
    /// The same for those who look for git data.
    hunting_bell: Notify,
    /// And for those who look how others stand.
    ledger_bell: Notify,
    /// And for those who only watch.
    watching_bell: Notify,
    touched: Mutex<Touched>,
}

/// What has to be looked at again.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Touched {
    These(BTreeSet<RepoId>),
    /// More than is worth a list.
    All,
}

impl Default for Touched {
    fn default() -> Self {
        Self::These(BTreeSet::new())
    }
}

const TOUCHED_MAX: usize = 10_000;

impl Wake {
    /// Something was stored, or went.
    pub fn ring(&self) {
        self.bell.notify_one();
        self.hunting_bell.notify_one();
        self.ledger_bell.notify_one();
        self.watching_bell.notify_one();
    }

    /// These repositories may no longer be what they were. Comes after the commit.
    pub fn touch(&self, repos: impl IntoIterator<Item = RepoId>) {
        let mut touched = self.touched.lock();
        if let Touched::These(list) = &mut *touched {
            list.extend(repos);
            if list.len() > TOUCHED_MAX {
                *touched = Touched::All;
            }
        }
        drop(touched);
        self.ring();
    }

    /// Returns at once if the bell was rung since the last time.
    pub(super) async fn rung(&self) {
        self.bell.notified().await;
    }

    pub async fn rung_for_the_hunt(&self) {
        self.hunting_bell.notified().await;
    }

    pub async fn rung_for_watchers(&self) {
        self.watching_bell.notified().await;
    }

    pub async fn rung_for_the_ledger(&self) {
        self.ledger_bell.notified().await;
    }

    pub(super) fn take(&self) -> Touched {
        std::mem::take(&mut *self.touched.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grasp_core::PubKey;

    fn repo(n: usize) -> RepoId {
        RepoId { owner: PubKey::from_bytes([1; 32]), identifier: n.to_string().parse().unwrap() }
    }

    #[test]
    fn a_list_that_grows_too_long_means_everything() {
        let wake = Wake::default();
        wake.touch([repo(1), repo(1)]);
        assert_eq!(wake.take(), Touched::These(BTreeSet::from([repo(1)])));
        wake.touch((0..=TOUCHED_MAX).map(repo));
        wake.touch([repo(1)]);
        assert_eq!(wake.take(), Touched::All);
        assert_eq!(wake.take(), Touched::default(), "and begins anew");
    }
}

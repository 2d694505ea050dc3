//! States that lost against another of the same second, remembered for a while, so that a push for one
//! of them is told why it is refused. In memory alone: after a restart the refusal is less exact.

use super::views::candidate_of;
use grasp_core::push::Candidate;
use grasp_core::{Event, Identifier};
use parking_lot::Mutex;
use std::collections::VecDeque;

/// States remembered in all; beyond that the oldest goes.
const STATES_MAX: usize = 64;
/// Branches and tags of one state, about 100 bytes each.
const REFS_MAX: usize = 1_000;

#[derive(Debug, Default)]
pub struct SameSecondStates(Mutex<VecDeque<Candidate>>);

impl SameSecondStates {
    pub(super) fn keep(&self, event: &Event) {
        let Some(lost) = candidate_of(event).filter(|it| it.state.refs.len() <= REFS_MAX) else {
            return;
        };
        let mut states = self.0.lock();
        states.retain(|it| it.id != lost.id);
        states.push_back(lost);
        if states.len() > STATES_MAX {
            states.pop_front();
        }
    }

    pub(super) fn of(&self, identifier: &Identifier) -> Vec<Candidate> {
        let states = self.0.lock();
        states.iter().filter(|it| it.state.identifier == *identifier).cloned().collect()
    }
}

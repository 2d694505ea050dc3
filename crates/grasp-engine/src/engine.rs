//! (stub)
use crate::{Action, Input, Record, Settings};
use grasp_core::{RelayUrl, Time};

#[derive(Debug)]
pub struct Engine {}

impl Engine {
    /// `seed` decides every random choice.
    pub fn new(_settings: Settings, _seed: u64) -> Self {
        Self {}
    }
    pub fn handle(&mut self, _input: Input, _now: Time) {}
    pub fn handle_deadline(&mut self, _now: Time) {}
    pub fn poll_action(&mut self) -> Option<Action> {
        None
    }
    pub fn next_deadline(&self) -> Option<(Time, &'static str)> {
        None
    }
    pub fn record(&self, _relay: &RelayUrl, _now: Time) -> Option<Record> {
        None
    }
}

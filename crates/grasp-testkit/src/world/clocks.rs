//! Wall clocks that are set while servers run. A server's engine runs on the steady clock that it
//! started with; its wall clock decides which events it takes for the future's.

use super::clockwork::{Happening, World};
use super::faults::Fault;
use super::plan::TROUBLE;
use crate::Random;
use grasp_core::{Time, WallOffset};
use grasp_engine::{Action, Health, Input, Settings, Wait};
use std::time::Duration;

const MINUTE_MS: i64 = 60_000;
const HOUR_MS: i64 = 60 * MINUTE_MS;
const DAY_MS: i64 = 24 * HOUR_MS;
/// How far a clock is off; right as often as not.
const AHEAD_MS: [i64; 16] = [
    0,
    0,
    0,
    0,
    0,
    5_000,
    2 * MINUTE_MS,
    -2 * MINUTE_MS,
    20 * MINUTE_MS,
    -20 * MINUTE_MS,
    HOUR_MS,
    -HOUR_MS,
    DAY_MS,
    -DAY_MS,
    DAY_MS - HOUR_MS,
    -30 * DAY_MS,
];
/// The driver looks this often.
const SEEN_WITHIN_MS: u64 = 5_000;

impl World {
    /// The same world, whose servers' clocks are set by random amounts at random moments.
    pub fn stepping_clocks(seed: u64) -> Self {
        let mut world = Self::new(seed);
        let mut random = Random::seeded(seed ^ 0x00c1_0c4b);
        for server in 0..world.servers() {
            for _ in 0..=random.below(8) {
                let at = world.now.plus(Duration::from_millis(
                    random.below(u64::try_from(TROUBLE.as_millis()).unwrap_or(u64::MAX)),
                ));
                let ahead_ms = *random.pick(&AHEAD_MS);
                world.at(at, Happening::Befalls(Fault::SetClock(server, ahead_ms)));
            }
            let end = world.now.plus(TROUBLE);
            world.at(end, Happening::Befalls(Fault::SetClock(server, 0)));
        }
        world
    }

    pub(crate) fn wall(&self, server: usize) -> Time {
        let ahead = self.nodes[server].server.as_ref().map_or(0, |server| server.wall_ahead_ms);
        Time(self.now.0.saturating_add_signed(ahead))
    }

    pub(crate) fn sets_clock(&mut self, server: usize, ahead_ms: i64) {
        let Some(it) = &mut self.nodes[server].server else { return };
        it.wall_ahead_ms = ahead_ms;
        *self.seen.entry("clock set").or_default() += 1;
        if let Some(boot) = self.boot_of(server) {
            let delay = self.random.below(SEEN_WITHIN_MS);
            self.after_ms(delay, Happening::ClockSeen { server, boot });
        }
    }

    pub(crate) fn sees_clock(&mut self, server: usize, boot: u64) {
        let offset = WallOffset::between(self.wall(server), self.clock(server));
        if self.boot_of(server) != Some(boot) {
            return;
        }
        if let Some(mind) = self.nodes[server].mind() {
            mind.offset = offset;
        }
        self.tell(server, Input::WallClock(offset));
    }

    /// A question that begins in the future finds nothing. Only a clock that was ahead from the start
    /// may mislead a server, and a step that its driver has not seen yet.
    pub(crate) fn asks_the_future(&self, server: usize, action: &Action) -> Option<String> {
        let it = self.nodes[server].server.as_ref()?;
        let Action::Request { filters, .. } = action else { return None };
        let offset = WallOffset::between(self.wall(server), self.clock(server));
        let is_unseen = it.mind.as_ref().is_some_and(|mind| mind.offset != offset);
        let misled = is_unseen || it.wall_ahead_ms.min(it.steady_ahead_ms) > 5 * MINUTE_MS;
        let since = filters.iter().filter_map(|filter| filter.since).max()?;
        let future = since > self.now.timestamp() && !misled;
        future.then(|| format!("asks for what happened since {since}, which is to come"))
    }

    /// No relay is left alone for longer than the longest wait of its condition.
    pub(crate) fn checks_waits(&mut self) {
        let mut late = vec![];
        for server in 0..self.servers() {
            let now = self.clock(server);
            let Some(it) = &self.nodes[server].server else { continue };
            let Some(mind) = &it.mind else { continue };
            for view in mind.engine.relay_views(now) {
                let Some(Wait::Retry { until }) = view.waits else { continue };
                let wait = mind.offset.to_steady(until).since(now);
                if wait > wait_max(&view.health, &it.settings) {
                    late.push(format!("server {server} does not dial {} for {wait:?}", view.relay));
                }
            }
        }
        late.into_iter().for_each(|it| self.complain(it));
    }
}

fn wait_max(health: &Health, settings: &Settings) -> Duration {
    match health {
        Health::Healthy => settings.held_dial_gap.max(settings.cleanup_every),
        Health::Degraded { failures, .. } => {
            let doubled = settings.backoff_base.saturating_mul(1 << (failures - 1).min(20));
            doubled.min(settings.backoff_max).max(settings.held_dial_gap)
        }
        Health::Dead { .. } => settings.dead_retry,
        Health::Banned { .. } => settings.banned_for.max(settings.pause),
    }
}

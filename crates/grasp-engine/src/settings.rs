//! Every number the engine decides by, with its default. Durations are real ones; tests drive the
//! clock instead of changing them.

use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Wants that come within this time of the first are planned together (S-6).
    pub window: Duration,
    /// Away for less than this is a short absence: what was confirmed stays so (S-13). Also how far
    /// a catch-up reaches back beyond the moment it could start at.
    pub resume_within: Duration,
    pub daily_min: Duration,
    pub daily_max: Duration,
    /// How often relays nobody wants are looked for (S-16).
    pub cleanup_every: Duration,
    pub values_per_filter_max: usize,
    pub filters_per_request_max: usize,
    pub request_bytes_max: usize,
    /// Above this many live filters on one relay they are packed anew (S-10).
    pub filters_before_repack: usize,
    /// For a relay that does not say how many subscriptions it allows (S-11).
    pub subscriptions_default: u32,
    pub pages_at_once_max: u32,
    pub negentropy_at_once_max: u32,
    /// How often what does not fit into live subscriptions is asked for (S-11).
    pub rotation_every: Duration,
    pub rotation_overlap: Duration,
    /// History starts per relay (S-21).
    pub pace_per_second: u32,
    pub pace_burst: u32,
    /// For a relay that says it is a GRASP server, until it objects.
    pub pace_grasp_per_second: u32,
    pub negentropy: bool,
    pub authenticate: bool,
    /// Ids per request when events are asked for by name.
    pub ids_per_request_max: usize,
    /// How often one id is asked for before it is given up.
    pub id_attempts_max: u32,
    pub missing_retry_min: Duration,
    pub missing_retry_max: Duration,
    /// Ids one relay may make us look for at a time.
    pub needed_ids_max: usize,
    /// Relays whose history is being asked for at a time, and how long one may keep the others
    /// waiting without showing progress.
    pub turns_max: usize,
    pub turn_without_progress: Duration,
    pub turn_events_max: u32,
    pub turn_bytes_max: u64,
    pub backoff_base: Duration,
    pub backoff_max: Duration,
    pub dead_after: Duration,
    pub dead_retry: Duration,
    pub stable_after: Duration,
    pub cooldown: Duration,
    pub cooldown_max: Duration,
    /// Unhindered for this long, and a cooldown starts small again.
    pub cooldown_forgotten_after: Duration,
    /// For refusals that will not change by asking again.
    pub pause: Duration,
    /// For an address that can never be right, or a relay that lies.
    pub banned_for: Duration,
    pub dials_at_once_max: usize,
    pub dial_gap: Duration,
    /// A dial that is not through by then no longer keeps others from dialling.
    pub dial_patience: Duration,
    pub links_max: usize,
    /// Links to one network address; more relays than that at one address take turns (S-50).
    pub links_per_address_max: usize,
    /// Of the links: for relays that only held announcements name.
    pub links_for_held_percent: usize,
    pub held_dial_gap: Duration,
    /// How long a link that has nothing left to fetch stays while others wait for its place.
    pub link_turn: Duration,
    pub relays_per_announcement_max: usize,
    pub relays_max: usize,
    /// What is known of how a relay stands is renewed before it is older than this (S-30). Zero:
    /// never.
    pub verdict_age_max: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            window: 5 * SECOND,
            resume_within: 15 * MINUTE,
            daily_min: 23 * HOUR,
            daily_max: 25 * HOUR,
            cleanup_every: MINUTE,
            values_per_filter_max: 100,
            filters_per_request_max: 10,
            request_bytes_max: 96 << 10,
            filters_before_repack: 70,
            subscriptions_default: 20,
            pages_at_once_max: 5,
            negentropy_at_once_max: 4,
            rotation_every: 5 * MINUTE,
            rotation_overlap: 15 * MINUTE,
            pace_per_second: 1,
            pace_burst: 30,
            pace_grasp_per_second: 20,
            negentropy: true,
            authenticate: true,
            ids_per_request_max: 300,
            id_attempts_max: 12,
            missing_retry_min: 30 * SECOND,
            missing_retry_max: 15 * MINUTE,
            needed_ids_max: 200_000,
            turns_max: 64,
            turn_without_progress: 2 * SECOND,
            turn_events_max: 50_000,
            turn_bytes_max: 64 << 20,
            backoff_base: 5 * SECOND,
            backoff_max: HOUR,
            dead_after: DAY,
            dead_retry: DAY,
            stable_after: 5 * MINUTE,
            cooldown: 65 * SECOND,
            cooldown_max: HOUR,
            cooldown_forgotten_after: 5 * MINUTE,
            pause: DAY,
            banned_for: 12 * HOUR,
            dials_at_once_max: 8,
            dial_gap: Duration::from_millis(250),
            dial_patience: 2 * SECOND,
            links_max: 500,
            links_per_address_max: 32,
            links_for_held_percent: 10,
            held_dial_gap: 10 * MINUTE,
            link_turn: 10 * MINUTE,
            relays_per_announcement_max: 20,
            relays_max: 50_000,
            verdict_age_max: DAY,
        }
    }
}

//! What is told about this server, as data: the API sends it, the pages draw it, the command line
//! prints it. Every text of a stranger in here went through [`super::text`]. Fields may be added, none
//! is renamed or removed: others read this.

use super::problems::ProblemReport;
use grasp_core::{EventId, Oid, Time, Timestamp};
use serde::{Deserialize, Serialize};

/// `GET /api/v1/status`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Status {
    pub now: Time,
    pub server: Server,
    pub totals: Totals,
    pub ledger: Ledger,
    /// What an operator should look at, each with what to do; empty when all is well.
    pub problems: Vec<String>,
    /// The same problems with their codes.
    #[serde(default)]
    pub problem_details: Vec<ProblemReport>,
    /// The latest, newest first.
    pub activity: Vec<Activity>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    pub name: String,
    pub description: String,
    pub npub: String,
    pub version: String,
    /// `wss://…`
    pub relay: String,
    /// `https://…`, before `/<npub>/<identifier>.git`
    pub clone: String,
    pub syncs: bool,
    /// `None` when the server does not run and its data was read instead.
    pub uptime_secs: Option<u64>,
    /// By the event store.
    pub disk_used_bytes: u64,
    pub disk_budget_bytes: u64,
    /// By the git data; `None` while it is measured for the first time.
    pub git_used_bytes: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Served; also of repositories that are hosted elsewhere, by maintainers of one that is hosted here.
    pub announcements: u64,
    pub events: u64,
    /// Waiting for git data or for what they belong to.
    pub held: u64,
    /// Gave up waiting; their git data is still looked for.
    pub wanted: u64,
    pub relays: usize,
    pub relays_connected: usize,
    pub relays_dead: usize,
    /// Families of repositories whose git data is being looked for, and fetches under way.
    pub hunts: usize,
    pub fetching: usize,
}

/// Over all repositories and peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Ledger {
    pub equal: u64,
    pub we_lack: u64,
    pub they_lack: u64,
    pub unverifiable: u64,
    /// Being looked at again after a change; only of mirrors of one repository.
    #[serde(default)]
    pub checking: u64,
    /// The age of the oldest verdict, and how old one may become.
    pub oldest_secs: u64,
    pub age_max_secs: u64,
}

/// Something that happened, for people who watch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    pub at: Time,
    /// `event`, `push`, `release`, `relay`, `hunt`
    pub kind: String,
    /// One sentence.
    pub text: String,
    /// The repository it is about, as `<npub>/<identifier>`, and what it is called.
    pub repository: Option<String>,
    #[serde(default)]
    pub name: Option<String>,
    /// How often it happened; `at` is the last time.
    #[serde(default = "once")]
    pub count: u64,
}

fn once() -> u64 {
    1
}

/// `GET /api/v1/relays`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Relays {
    pub now: Time,
    pub relays: Vec<Relay>,
    /// What to ask for as `after` to read on.
    pub next: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Relay {
    pub relay: String,
    pub connected: bool,
    /// `healthy`, `degraded`, `dead`, `banned`
    pub health: String,
    pub failures: u32,
    pub next_try: Option<Time>,
    pub last_alive: Option<Time>,
    pub uptime_percent: Option<f64>,
    pub attempts: u64,
    pub attempts_failed: u64,
    /// Events first seen late although the relay was live, and those seen only by the daily sync.
    pub gaps: u64,
    pub gaps_sustained: u64,
    pub events_received: u64,
    /// What came of its events (S-47).
    #[serde(default)]
    pub refused: RelayRefusals,
    pub repositories: usize,
    pub roots: usize,
    /// Groups of up to a hundred questions, by how far they have come.
    pub confirmed: usize,
    pub pending: usize,
    pub missing: usize,
    pub live_subscriptions: usize,
    pub compares: bool,
    pub daily_at: Option<Time>,
    pub coverage_permille: Option<u16>,
    pub ledger: Ledger,
    /// The latest first: quarter hours.
    pub timeline: Vec<Slot>,
    /// One sentence.
    pub explain: String,
}

/// Events of one relay that are refused here, and what it may send of them in a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RelayRefusals {
    pub accepted: u64,
    pub received: u64,
    pub refused: u64,
    /// In the current day of its budget, and how many of them a day may bring.
    pub refused_bytes: u64,
    pub refused_bytes_max: u64,
    /// It is asked for announcements and states by the names of our repositories only.
    pub by_name: bool,
}

/// A quarter of an hour of one relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot {
    pub at: Time,
    /// How much of the time in which a link was wanted there was one; `None`: none was wanted.
    pub up_permille: Option<u16>,
}

/// `GET /api/v1/repos`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Repos {
    pub now: Time,
    pub repositories: Vec<RepoLine>,
    pub next: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RepoLine {
    pub npub: String,
    pub identifier: String,
    pub name: String,
    pub description: String,
    pub announced_at: Timestamp,
    /// `None` while nothing was signed for it.
    pub state_at: Option<Timestamp>,
    pub ledger: Ledger,
}

/// `GET /api/v1/repos/<npub>/<identifier>`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Repo {
    pub now: Time,
    pub npub: String,
    pub identifier: String,
    /// `served`, `held`, `asleep`
    pub standing: String,
    pub name: String,
    pub description: String,
    pub web: Vec<String>,
    pub maintainers: Vec<String>,
    pub clone: String,
    /// For `git clone` with ngit.
    pub nostr: String,
    pub announcement: Origin,
    /// The state its refs follow.
    pub state: Option<Origin>,
    pub head: Option<String>,
    pub refs: Vec<Ref>,
    /// Where there are more than are shown.
    pub refs_total: usize,
    /// Events about it that are served here, and their ids summed up.
    pub events: u64,
    pub fingerprint: String,
    /// Objects that signed states and pull requests name and that are not here.
    pub objects_missing: usize,
    pub threads: Threads,
    pub held: Vec<Held>,
    pub mirrors: Vec<Mirror>,
    /// One sentence for each obstacle; empty when nothing is in the way.
    pub explain: Vec<String>,
}

/// An event and how it came here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub id: EventId,
    pub kind: u16,
    /// npub
    pub author: String,
    pub created_at: Timestamp,
    /// `direct`, `live`, `backfill`, `daily`
    pub source: String,
    pub relay: Option<String>,
    pub received: Time,
    /// When it was released, if it had to wait.
    pub released: Option<Time>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ref {
    pub name: String,
    pub oid: Oid,
    /// The state says the same.
    pub signed: bool,
}

/// Issues, patches and pull requests; counted up to a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Threads {
    pub open: u64,
    pub all: u64,
    /// There are more than were counted.
    pub more: bool,
}

/// Something that waits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    pub id: EventId,
    pub kind: u16,
    pub author: String,
    /// `<npub>/<identifier>` of the repositories it is about.
    pub repositories: Vec<String>,
    /// `awake`, `asleep`, `wanted`
    pub phase: String,
    pub since: Time,
    pub until: Time,
    pub missing: Vec<Oid>,
    /// Where there are more than are shown.
    pub missing_total: usize,
    pub tried: Vec<Tried>,
    pub next_try: Option<Time>,
    /// One sentence.
    pub explain: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tried {
    pub host: String,
    pub at: Option<Time>,
    pub said: String,
}

/// One repository at one other server.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Mirror {
    /// Host, port and path: what relay and git have in common.
    pub place: String,
    pub relay: Option<String>,
    pub clone: Option<String>,
    pub verdict: Verdict,
    /// Why, in one sentence.
    pub because: String,
    /// When it was last looked at, and since when the verdict is this one.
    pub at: Option<Time>,
    pub since: Option<Time>,
    pub events: Option<EventsThere>,
    pub refs: Option<RefsThere>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Equal,
    WeLack,
    TheyLack,
    Unverifiable,
    /// Something changed since it was last looked at, and it is looked at again within a minute or two.
    Checking,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventsThere {
    pub at: Time,
    pub both: u64,
    pub they_lack: u64,
    pub we_lack: u64,
    /// Of what we lack: there was no room for it here.
    #[serde(default)]
    pub no_room: u64,
    pub coverage_permille: u16,
    /// Of what we had then.
    pub fingerprint: String,
}

/// Their refs, compared with the state that is in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RefsThere {
    pub at: Time,
    pub equal: u64,
    /// Signed, and they do not have it or have something else.
    pub they_lack: u64,
    /// Theirs agree with a newer state whose objects are not here yet.
    pub we_lack: u64,
    /// Branches and tags nobody signed.
    pub unsigned: u64,
    /// Signed here, and theirs belong to no state known here.
    #[serde(default)]
    pub unknown: u64,
    /// Of those that are equal.
    #[serde(default)]
    pub objects: Giving,
}

/// Does a place give out the objects of the refs it lists?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Giving {
    Given,
    /// Nobody could tell yet.
    #[default]
    Unknown,
    Lacking,
}

/// `GET /api/v1/purgatory`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Purgatory {
    pub now: Time,
    pub total: u64,
    /// In the order in which they are given up.
    pub held: Vec<Held>,
    pub next: Option<String>,
}

/// `GET /api/v1/events/<id>`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventReport {
    pub now: Time,
    pub id: EventId,
    /// `served`, `held`, `wanted`, `replaced`
    pub standing: String,
    pub origin: Origin,
    pub explain: Option<String>,
}

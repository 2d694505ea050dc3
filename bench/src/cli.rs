//! The command line: few words, each with one meaning.

use crate::sync::{Crowd, EnginePart};
use std::path::PathBuf;

pub(crate) const USAGE: &str = "\
usage: bench relay [--quick] [--events N] [--connections N] [--only PART] [--json] [--check]
                   [--graspd PATH]
       bench git   [--quick] [--only PART] [--json] [--check] [--graspd PATH]
       bench sync  [--quick] [--only PART] [--json] [--check] [--graspd PATH]
       bench coldsync [--quick] [--repositories N] [--only PART] [--json] [--check] [--graspd PATH]
       bench visible  [--quick] [--only PART] [--json] [--check] [--graspd PATH]

  --quick          tiny sizes: shows that everything works, and nothing about speed
  --events N       stored events for ingest, queries and memory (50000)
  --connections N  for ingest and queries (8)
  --repositories N for the start of a mirror, with 23 events each, and only with default settings
  --only PART      relay: one of ingest (with queries and fan-out), memory (with ingest), negentropy
                   git: one of refs, clone, clones, push, branches, memory
                   sync: one of engine, live, history
                   coldsync: one of start, states
                   visible: one of pages, upkeep
  --json           print the report as JSON
  --check          end with an error when a requirement is missed
  --graspd PATH    measure this server instead of building the one in this workspace";

#[derive(Debug)]
pub(crate) enum Command {
    Relay(Settings),
    Git(Settings),
    Sync(Settings),
    Coldsync(Settings),
    Visible(Settings),
    /// Hidden: the engine alone in a process of its own, or the floor beside it.
    Engine(EnginePart, Crowd),
    /// Hidden: the other end of the echo floor.
    Echo,
    /// Hidden: git's own HTTP server below a directory.
    Cgi {
        backend: PathBuf,
        root: PathBuf,
    },
    /// Hidden: holds idle connections open.
    Idle {
        address: String,
        count: usize,
    },
}

#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub(crate) quick: bool,
    pub(crate) events: Option<usize>,
    pub(crate) connections: Option<usize>,
    pub(crate) repositories: Option<usize>,
    pub(crate) only: Option<Part>,
    pub(crate) json: bool,
    pub(crate) check: bool,
    pub(crate) graspd: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Ingest, queries and fan-out, which share one store.
    Ingest,
    Memory,
    Negentropy,
    Refs,
    Clone,
    /// Several at once.
    Clones,
    Push,
    Branches,
    Engine,
    Live,
    History,
    Start,
    States,
    /// Pages and reports, alone and beside others.
    Pages,
    Upkeep,
}

const RELAY_PARTS: &[(&str, Part)] =
    &[("ingest", Part::Ingest), ("memory", Part::Memory), ("negentropy", Part::Negentropy)];
const GIT_PARTS: &[(&str, Part)] = &[
    ("refs", Part::Refs),
    ("clone", Part::Clone),
    ("clones", Part::Clones),
    ("push", Part::Push),
    ("branches", Part::Branches),
    ("memory", Part::Memory),
];

const SYNC_PARTS: &[(&str, Part)] =
    &[("engine", Part::Engine), ("live", Part::Live), ("history", Part::History)];

const COLDSYNC_PARTS: &[(&str, Part)] = &[("start", Part::Start), ("states", Part::States)];

const VISIBLE_PARTS: &[(&str, Part)] = &[("pages", Part::Pages), ("upkeep", Part::Upkeep)];

impl Settings {
    pub(crate) fn wants(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }
}

pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Command, String> {
    match words.next().as_deref() {
        Some("relay") => settings(words, RELAY_PARTS).map(Command::Relay),
        Some("git") => settings(words, GIT_PARTS).and_then(fixed).map(Command::Git),
        Some("sync") => settings(words, SYNC_PARTS).and_then(fixed).map(Command::Sync),
        Some("coldsync") => settings(words, COLDSYNC_PARTS).map(Command::Coldsync),
        Some("visible") => settings(words, VISIBLE_PARTS).and_then(fixed).map(Command::Visible),
        Some("engine") => {
            let part = words.next().as_deref().and_then(EnginePart::parse).ok_or(USAGE)?;
            Ok(Command::Engine(part, Crowd::parse(&mut words).ok_or(USAGE)?))
        }
        Some("echo") => Ok(Command::Echo),
        Some("cgi") => {
            let backend = words.next().ok_or(USAGE)?.into();
            let root = words.next().ok_or(USAGE)?.into();
            Ok(Command::Cgi { backend, root })
        }
        Some("idle") => {
            let address = words.next().ok_or(USAGE)?;
            let count = words.next().and_then(|count| count.parse().ok()).ok_or(USAGE)?;
            Ok(Command::Idle { address, count })
        }
        _ => Err(USAGE.to_owned()),
    }
}

fn settings(
    mut words: impl Iterator<Item = String>,
    parts: &[(&str, Part)],
) -> Result<Settings, String> {
    let mut settings = Settings::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value\n\n{USAGE}"));
        match word.as_str() {
            "--quick" => settings.quick = true,
            "--json" => settings.json = true,
            "--check" => settings.check = true,
            "--graspd" => settings.graspd = Some(value()?.into()),
            "--events" => settings.events = Some(number(&word, &value()?, 100)?),
            "--connections" => settings.connections = Some(number(&word, &value()?, 1)?),
            "--repositories" => settings.repositories = Some(number(&word, &value()?, 1)?),
            "--only" => settings.only = Some(part(&value()?, parts)?),
            _ => return Err(format!("{word} is not known here\n\n{USAGE}")),
        }
    }
    Ok(settings)
}

fn number(word: &str, value: &str, min: usize) -> Result<usize, String> {
    let number = value.parse().ok().filter(|number| *number >= min);
    number.ok_or_else(|| format!("{word} takes a number from {min} on"))
}

fn part(name: &str, parts: &[(&str, Part)]) -> Result<Part, String> {
    let found = parts.iter().find(|(known, _)| *known == name);
    found.map(|(_, part)| *part).ok_or_else(|| format!("{name} is not a part\n\n{USAGE}"))
}

/// Where no sizes can be chosen.
fn fixed(settings: Settings) -> Result<Settings, String> {
    match (settings.events, settings.connections, settings.repositories) {
        (None, None, None) => Ok(settings),
        _ => Err(format!("these sizes cannot be chosen here\n\n{USAGE}")),
    }
}

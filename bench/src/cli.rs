//! The command line: few words, each with one meaning.

use std::path::PathBuf;

pub(crate) const USAGE: &str = "\
usage: bench relay [--quick] [--events N] [--connections N] [--only PART] [--json] [--check]
                   [--graspd PATH]

  --quick          tiny sizes: shows that everything works, and nothing about speed
  --events N       stored events for ingest, queries and memory (50000)
  --connections N  for ingest and queries (8)
  --only PART      one of ingest (with queries and fan-out), memory (with ingest), negentropy
  --json           print the report as JSON
  --check          end with an error when a requirement is missed
  --graspd PATH    measure this server instead of building the one in this workspace";

#[derive(Debug)]
pub(crate) enum Command {
    Relay(Settings),
    /// Hidden: the other end of the echo floor.
    Echo,
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
}

impl Settings {
    pub(crate) fn wants(&self, part: Part) -> bool {
        self.only.is_none_or(|only| only == part)
    }
}

pub(crate) fn parse(mut words: impl Iterator<Item = String>) -> Result<Command, String> {
    match words.next().as_deref() {
        Some("relay") => settings(words).map(Command::Relay),
        Some("echo") => Ok(Command::Echo),
        Some("idle") => {
            let address = words.next().ok_or(USAGE)?;
            let count = words.next().and_then(|count| count.parse().ok()).ok_or(USAGE)?;
            Ok(Command::Idle { address, count })
        }
        _ => Err(USAGE.to_owned()),
    }
}

fn settings(mut words: impl Iterator<Item = String>) -> Result<Settings, String> {
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
            "--only" => settings.only = Some(part(&value()?)?),
            _ => return Err(format!("{word} is not known here\n\n{USAGE}")),
        }
    }
    Ok(settings)
}

fn number(word: &str, value: &str, min: usize) -> Result<usize, String> {
    let number = value.parse().ok().filter(|number| *number >= min);
    number.ok_or_else(|| format!("{word} takes a number from {min} on"))
}

fn part(name: &str) -> Result<Part, String> {
    match name {
        "ingest" => Ok(Part::Ingest),
        "memory" => Ok(Part::Memory),
        "negentropy" => Ok(Part::Negentropy),
        _ => Err(format!("{name} is not a part\n\n{USAGE}")),
    }
}

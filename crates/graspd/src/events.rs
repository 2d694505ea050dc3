//! `graspd events import` and `export`: JSON lines, one event each, against a stopped server's
//! data. What an operator imports is served without asking the rules, but never unverified.

use crate::cli::Stream;
use crate::clock::Clock;
use crate::config::{Backend, Config};
use crate::ingest::{self, Hall, Mark, Rest, RoleCache};
use crate::node::rules;
use crate::ops::progress::Progress as Bar;
use crate::ops::terminal::{output_error, print_line, print_note};
use crate::repos::Repos;
use crate::serve;
use anyhow::{Context, Result, bail};
use grasp_core::policy::Rules;
use grasp_core::{Event, Filter, VerifiedEvent};
use grasp_git::Layout;
use grasp_store::{Budget, Cursor, EventStore, Progress, Provenance, Space, Want};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};

/// Lines per transaction.
const HELPING: usize = 1_000;
const PAGE: Budget = Budget { steps: 100_000, bytes: 4 << 20 };
const COMPLAINTS_MAX: u64 = 20;

#[derive(Debug, Default)]
struct Tally {
    imported: u64,
    already: u64,
    refused: u64,
}

pub fn import(config: &Config, from: &Stream) -> Result<()> {
    let opened = open(config)?;
    let lines: Box<dyn BufRead> = match from {
        Stream::Standard => Box::new(io::stdin().lock()),
        Stream::File(path) => Box::new(BufReader::new(
            File::open(path).with_context(|| format!("cannot read {}", path.display()))?,
        )),
    };
    let rules = rules(config, opened.relay_key.public);
    let mut tally = Tally::default();
    let mut helping = Vec::with_capacity(HELPING);
    let bar = Bar::open_ended("lines read");
    for (number, line) in (1_u64..).zip(lines.lines()) {
        let line = line.with_context(|| format!("cannot read line {number}"))?;
        bar.advance(1);
        if line.trim().is_empty() {
            continue;
        }
        match verified(&line) {
            Ok(event) => helping.push(event),
            Err(why) => {
                tally.refused += 1;
                if tally.refused <= COMPLAINTS_MAX {
                    bar.note(&format!("line {number} is skipped: {why}"));
                }
            }
        }
        if helping.len() == HELPING {
            store(&*opened.store, &rules, &mut helping, &mut tally)?;
        }
    }
    store(&*opened.store, &rules, &mut helping, &mut tally)?;
    bar.finish();
    let Tally { imported, already, refused } = tally;
    print_note(&format!(
        "{imported} events imported, {already} were already here or outdated, {refused} refused"
    ));
    if refused > 0 {
        bail!("{refused} lines were not valid events");
    }
    Ok(())
}

pub fn export(config: &Config, to: &Stream, filters: &[Filter]) -> Result<()> {
    let opened = open(config)?;
    let mut out: Box<dyn Write> = match to {
        Stream::Standard => Box::new(BufWriter::new(io::stdout().lock())),
        Stream::File(path) => Box::new(BufWriter::new(
            File::create(path).with_context(|| format!("cannot write {}", path.display()))?,
        )),
    };
    let everything = [Filter::default()];
    let filters = if filters.is_empty() { everything.as_slice() } else { filters };
    let now = Clock::default().now().timestamp();
    let mut cursor = Cursor::new(filters.into(), Want::Bodies, u64::MAX, now);
    let mut exported = 0_u64;
    let bar = Bar::open_ended("events written");
    loop {
        let mut written = Ok(());
        let mut sink = |hit: grasp_store::Hit<'_>| {
            if written.is_ok() {
                written = out.write_all(hit.json).and_then(|()| out.write_all(b"\n"));
                exported += 1;
            }
        };
        let snapshot = opened.store.read()?;
        let progress = snapshot.advance(Space::Served, &mut cursor, &mut { PAGE }, &mut sink)?;
        written.map_err(|error| export_error(to, error))?;
        bar.at(exported);
        if progress == Progress::Done {
            break;
        }
    }
    out.flush().map_err(|error| export_error(to, error))?;
    bar.finish();
    print_note(&format!("{exported} events exported"));
    Ok(())
}

fn export_error(to: &Stream, error: io::Error) -> anyhow::Error {
    match to {
        Stream::Standard => output_error(error),
        Stream::File(path) => {
            anyhow::Error::new(error).context(format!("cannot write {}", path.display()))
        }
    }
}

/// One line for each event that waits: its id, kind and author, until when, and for what.
pub fn held(config: &Config) -> Result<()> {
    let opened = open(config)?;
    let rules = rules(config, opened.relay_key.public);
    let repos = Repos::new(Layout::new(opened.git_root.canonicalize()?));
    let now = Clock::default().now();
    let snapshot = opened.store.read()?;
    let (wanted_for, roles) = (config.hunt.wanted.kept, RoleCache::default());
    let (store, rules, repos) = (&*snapshot, &rules, &repos);
    let mut hall = Hall { store, rules, repos, now, wanted_for, roles };
    let mut count = 0_u64;
    let mut from = Some(Mark::Held(Vec::new()));
    while let Some(mark) = from {
        let (page, next) = hall.page(&mark, HELPING)?;
        for it in page.iter().filter(|it| it.rest != Rest::Wanted) {
            let left = it.until.since(now).as_secs();
            let asleep = if it.rest == Rest::Asleep { " asleep," } else { "" };
            let (id, kind) = (it.found.event.id, it.found.event.kind);
            let (author, words) = (it.found.event.pubkey.to_npub(), &it.words);
            print_line(&format!("{id} kind {kind} by {author}:{asleep} {words}; {left} s left"))?;
            count += 1;
        }
        from = next;
    }
    print_note(&match count {
        0 => "no event is held: nothing waits for git data".to_owned(),
        1 => "1 event is held".to_owned(),
        _ => format!("{count} events are held"),
    });
    Ok(())
}

fn open(config: &Config) -> Result<serve::Opened> {
    if config.backend == Backend::Memory {
        bail!("the memory backend keeps nothing; set NGIT_DATABASE_BACKEND=lmdb");
    }
    serve::open(config)
}

fn verified(line: &str) -> Result<VerifiedEvent, String> {
    let event = Event::from_json(line.as_bytes()).map_err(|error| error.to_string())?;
    event.verify().map_err(|forged| forged.to_string())
}

fn store(
    store: &dyn EventStore,
    rules: &Rules,
    helping: &mut Vec<VerifiedEvent>,
    tally: &mut Tally,
) -> Result<()> {
    let from = Provenance::direct(Clock::default().now());
    let mut imported = 0;
    store.write(&mut |txn| {
        imported = ingest::import(txn, helping, &from, rules)?;
        Ok(())
    })?;
    tally.imported += imported;
    tally.already += u64::try_from(helping.len()).unwrap_or(0) - imported;
    helping.clear();
    Ok(())
}

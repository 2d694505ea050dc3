//! The comparison for a person, or for a program.

use super::{Compared, Line, Standing, Totals};
use crate::ops::print::{Cell, Sheet, Tone, repositories, toned};
use crate::ops::terminal::print_line;
use crate::report::text::{WORDS_MAX, shown};
use anyhow::Result;
use serde::Serialize;

#[derive(Serialize)]
struct Report {
    with: String,
    equal: u64,
    different: u64,
    incomparable: u64,
    not_listed: u64,
    /// Too many to be compared.
    left_out: usize,
    repositories: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    repository: String,
    /// `equal`, `different`, `incomparable`, `not_listed`
    standing: &'static str,
    events_they_lack: usize,
    events_we_lack: usize,
    refs_they_lack: u64,
    refs_we_lack: u64,
    refs_apart: u64,
    /// Otherwise the refs say nothing.
    refs_compared: bool,
    explain: String,
}

pub(super) fn print(with: &str, compared: &Compared, json: bool) -> Result<()> {
    let Compared { lines, left_out } = compared;
    let Totals { equal, different, incomparable, not_listed } = Totals::of(lines);
    if json {
        let repositories = lines.iter().map(row).collect();
        let with = shown(with, WORDS_MAX);
        let left_out = *left_out;
        let report =
            Report { with, equal, different, incomparable, not_listed, left_out, repositories };
        return print_line(&serde_json::to_string(&report)?);
    }
    let mut sheet = Sheet::for_stdout();
    let rows: Vec<Vec<Cell>> = lines.iter().map(laid_out).collect();
    if !rows.is_empty() {
        sheet.table(&["REPOSITORY", "COMPARED"], &rows);
    }
    sheet.line(&format!(
        "{} repositories compared with {with}: {equal} equal, {different} different, \
         {incomparable} could not be compared, {not_listed} not listed there",
        lines.len()
    ));
    if *left_out > 0 {
        sheet.toned_line(&format!("{left_out} more were left out: too many"), Tone::Unsure);
    }
    sheet.print()
}

fn laid_out(line: &Line) -> Vec<Cell> {
    let tone = match line.standing {
        Standing::Equal => Tone::Good,
        Standing::Different(_) => Tone::Bad,
        Standing::Incomparable(_) => Tone::Unsure,
        Standing::NotListed => Tone::Plain,
    };
    vec![repositories([line.repository.as_str()]), toned(line.words(), tone)]
}

fn row(line: &Line) -> Row {
    let (standing, difference) = match &line.standing {
        Standing::Equal => ("equal", None),
        Standing::Different(difference) => ("different", Some(difference)),
        Standing::Incomparable(_) => ("incomparable", None),
        Standing::NotListed => ("not_listed", None),
    };
    let it = difference.cloned().unwrap_or_default();
    Row {
        repository: shown(&line.repository, 2 * WORDS_MAX),
        standing,
        events_they_lack: it.they_lack.len(),
        events_we_lack: it.we_lack.len(),
        refs_they_lack: it.refs_they_lack,
        refs_we_lack: it.refs_we_lack,
        refs_apart: it.refs_apart,
        refs_compared: line.refs_compared,
        explain: shown(&line.words(), 2 * WORDS_MAX),
    }
}

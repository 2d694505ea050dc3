//! Words in columns for a terminal. Everything that is printed passes here, and whatever strangers wrote
//! into it arrives as plain text: no control characters, nothing hidden, no line breaks of their own.

use crate::ops::failure::plain_words;
use crate::ops::terminal::{print_text, window_width};
use crate::report::text::shown;
use anyhow::Result;
use std::fmt::Write as _;
use std::io::{self, IsTerminal};

/// A page for a person, written line by line.
#[derive(Debug)]
pub struct Sheet {
    text: String,
    /// Columns; `None` where nobody's window ends.
    width: Option<usize>,
    colours: bool,
}

/// How a word is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    Strong,
    Good,
    Bad,
    Unsure,
}

/// A word in a table.
#[derive(Debug, Clone)]
pub struct Cell {
    text: String,
    tone: Tone,
    /// What is shown where the text does not fit. It is never cut.
    short: Option<String>,
}

const WORDS_MAX: usize = 1_000;
/// No column is made narrower than this.
const COLUMN_MIN: usize = 8;
const GAP: usize = 2;
/// Enough of an npub to tell people apart.
const NPUB_SHORT: usize = 12;

impl Cell {
    fn plain(text: String, tone: Tone) -> Self {
        Self { text, tone, short: None }
    }

    /// The least that the column of this cell may be made to.
    fn width_min(&self) -> usize {
        self.short.as_deref().map_or(0, columns)
    }

    fn fitted(&self, width: usize) -> String {
        match &self.short {
            Some(short) if columns(&self.text) > width => short.clone(),
            Some(_) => self.text.clone(),
            None => cut(&self.text, width),
        }
    }
}

pub fn cell(text: impl AsRef<str>) -> Cell {
    toned(text, Tone::Plain)
}

pub fn toned(text: impl AsRef<str>, tone: Tone) -> Cell {
    Cell { text: shown(&plain_words(text.as_ref()), WORDS_MAX), tone, short: None }
}

/// Repositories as `<npub>/<identifier>`. Where they do not fit, the keys are shortened and never the
/// identifiers: those are what people know.
pub fn repositories<'a>(ids: impl IntoIterator<Item = &'a str>) -> Cell {
    let (mut whole, mut short) = (Vec::new(), Vec::new());
    for id in ids {
        let id = shown(id, WORDS_MAX);
        short.push(match id.split_once('/') {
            Some((npub, identifier)) => format!("{}/{identifier}", cut(npub, NPUB_SHORT)),
            None => id.clone(),
        });
        whole.push(id);
    }
    Cell { text: whole.join(" "), tone: Tone::Plain, short: Some(short.join(" ")) }
}

impl Sheet {
    /// For standard output as it is.
    pub fn for_stdout() -> Self {
        let is_terminal = io::stdout().is_terminal();
        let colours = is_terminal && std::env::var_os("NO_COLOR").is_none();
        Self { text: String::new(), width: is_terminal.then(window_width), colours }
    }

    /// Plain text of any width.
    pub fn plain() -> Self {
        Self { text: String::new(), width: None, colours: false }
    }

    #[cfg(test)]
    pub(crate) fn narrow(width: usize) -> Self {
        Self { text: String::new(), width: Some(width), colours: false }
    }

    pub fn heading(&mut self, text: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let cell = toned(text, Tone::Strong);
        self.words(&cell);
        self.text.push('\n');
    }

    pub fn line(&mut self, text: &str) {
        self.toned_line(text, Tone::Plain);
    }

    pub fn toned_line(&mut self, text: &str, tone: Tone) {
        self.wrapped("", &toned(text, tone));
    }

    /// Something to be copied: it is never broken, however narrow the window is.
    pub fn command(&mut self, text: &str) {
        self.put("  ", &cell(text));
    }

    /// One of several.
    pub fn item(&mut self, text: &str) {
        self.wrapped("- ", &cell(text));
    }

    /// A name and its value; nothing is told of what is empty.
    pub fn pair(&mut self, name: &str, value: impl AsRef<str>) {
        self.toned_pair(name, &cell(value));
    }

    pub fn toned_pair(&mut self, name: &str, value: &Cell) {
        if !value.text.is_empty() {
            self.wrapped(&format!("{name:<13} "), value);
        }
    }

    /// Rows in aligned columns; what does not fit the window is cut, repositories are not.
    pub fn table(&mut self, names: &[&str], rows: &[Vec<Cell>]) {
        let mut widths: Vec<usize> = names.iter().map(|name| columns(name)).collect();
        let mut least = vec![COLUMN_MIN; names.len()];
        for row in rows {
            for ((width, least), cell) in widths.iter_mut().zip(&mut least).zip(row) {
                *width = (*width).max(columns(&cell.text));
                *least = (*least).max(cell.width_min());
            }
        }
        self.fit(&mut widths, &least);
        let names: Vec<Cell> = names.iter().map(|name| toned(name, Tone::Strong)).collect();
        self.row(&names, &widths);
        rows.iter().for_each(|row| self.row(row, &widths));
    }

    pub fn print(self) -> Result<()> {
        print_text(&self.text)
    }

    pub fn into_text(self) -> String {
        self.text
    }

    /// Takes from the widest column that may be narrower until all fit.
    fn fit(&self, widths: &mut [usize], least: &[usize]) {
        let Some(window) = self.width else { return };
        let gaps = GAP * widths.len().saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > window {
            let wide = widths.iter_mut().zip(least).filter(|(width, least)| **width > **least);
            let Some((widest, _)) = wide.max_by_key(|(width, _)| **width) else { return };
            *widest -= 1;
        }
    }

    fn row(&mut self, row: &[Cell], widths: &[usize]) {
        let last = row.len().saturating_sub(1);
        for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
            let text = cell.fitted(*width);
            let padding = if at == last { 0 } else { width - columns(&text).min(*width) + GAP };
            self.words(&Cell::plain(text, cell.tone));
            self.text.extend(std::iter::repeat_n(' ', padding));
        }
        self.text.push('\n');
    }

    /// Breaks between words, and goes on below where it began.
    fn wrapped(&mut self, lead: &str, cell: &Cell) {
        let indent = columns(lead);
        let width = self.width.unwrap_or(usize::MAX).max(indent + COLUMN_MIN);
        let mut line = String::new();
        let mut lead = lead.to_owned();
        for word in cell.text.split(' ') {
            if !line.is_empty() && indent + columns(&line) + 1 + columns(word) > width {
                self.put(&lead, &Cell::plain(std::mem::take(&mut line), cell.tone));
                lead = " ".repeat(indent);
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.put(&lead, &Cell::plain(line, cell.tone));
    }

    fn put(&mut self, lead: &str, cell: &Cell) {
        self.text.push_str(lead);
        self.words(cell);
        self.text.push('\n');
    }

    fn words(&mut self, Cell { text, tone, .. }: &Cell) {
        let code = match tone {
            Tone::Plain => "",
            Tone::Strong => "1",
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Unsure => "33",
        };
        // Writing to a string does not fail.
        let _ = match self.colours && !code.is_empty() && !text.is_empty() {
            true => write!(self.text, "\u{1b}[{code}m{text}\u{1b}[0m"),
            false => write!(self.text, "{text}"),
        };
    }
}

fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    for c in text.chars() {
        if columns(&out) + wide(c) + 1 > width {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

fn columns(text: &str) -> usize {
    text.chars().map(wide).sum()
}

/// Ideographs and most pictures take two columns.
const fn wide(c: char) -> usize {
    match c {
        '\u{1100}'..='\u{115f}'
        | '\u{2e80}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{f900}'..='\u{faff}'
        | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}'
        | '\u{ffe0}'..='\u{ffe6}'
        | '\u{1f300}'..='\u{1faff}'
        | '\u{20000}'..='\u{3fffd}' => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_cut_where_the_window_ends() {
        let rows = [
            vec![cell("wss://relay.example"), cell("3"), cell("a very long explanation of it")],
            vec![cell("ws://漢字"), cell("12"), cell("short")],
        ];
        let mut sheet = Sheet::plain();
        sheet.table(&["relay", "n", "why"], &rows);
        assert_eq!(
            sheet.into_text(),
            "relay                n   why\n\
             wss://relay.example  3   a very long explanation of it\n\
             ws://漢字            12  short\n"
        );
        let mut sheet = Sheet::narrow(40);
        sheet.table(&["relay", "n", "why"], &rows);
        for line in sheet.into_text().lines() {
            assert!(columns(line) <= 40, "{line}");
        }
    }

    #[test]
    fn an_identifier_is_never_cut_and_a_key_is_where_it_must_be() {
        let npub = format!("npub1{}", "q".repeat(58));
        let id = format!("{npub}/an-identifier-of-some-length");
        let rows = [
            vec![repositories([id.as_str()]), cell("a very long explanation of all of it")],
            vec![repositories(["npub1short/x", "npub1other/y"]), cell("short")],
        ];
        let laid_out = |mut sheet: Sheet| {
            sheet.table(&["REPOSITORY", "WHY"], &rows);
            sheet.into_text()
        };
        let whole = laid_out(Sheet::plain());
        assert!(whole.contains(&id) && whole.contains("explanation of all of it"), "{whole}");
        assert!(laid_out(Sheet::narrow(140)).contains(&id), "there is room for all of it");
        for width in [40, 60, 80] {
            let text = laid_out(Sheet::narrow(width));
            assert!(text.contains("npub1qqqqqq…/an-identifier-of-some-length "), "{text}");
            assert!(text.lines().all(|line| columns(line) <= width.max(51)), "{width}:\n{text}");
        }
    }

    #[test]
    fn a_command_to_copy_is_never_broken() {
        let mut sheet = Sheet::narrow(40);
        let command =
            "git clone http://127.0.0.1:7334/npub1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq/x.git";
        sheet.command(command);
        assert_eq!(sheet.into_text(), format!("  {command}\n"));
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        let mut sheet = Sheet::narrow(30);
        sheet.pair("because", "one two three four five six");
        sheet.item("alone");
        assert_eq!(
            sheet.into_text(),
            "because       one two three\n              four five six\n- alone\n"
        );
    }

    #[test]
    fn what_strangers_wrote_stays_words_whatever_prints_it() {
        let hostile = "a\u{1b}[2J\u{1b}]0;x\u{7}\r\nb\u{202e}\u{9b}c";
        let mut sheet = Sheet::plain();
        sheet.heading(hostile);
        sheet.line(hostile);
        sheet.item(hostile);
        sheet.pair("name", hostile);
        sheet.table(&["name"], &[vec![cell(hostile)]]);
        let text = sheet.into_text();
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        assert_eq!(text.lines().count(), 6, "{text}");
        assert!(!text.contains('\u{202e}'));
    }

    #[test]
    fn colours_are_for_terminals() {
        let mut sheet = Sheet { text: String::new(), width: None, colours: true };
        sheet.toned_line("well", Tone::Good);
        assert_eq!(sheet.into_text(), "\u{1b}[32mwell\u{1b}[0m\n");
    }
}

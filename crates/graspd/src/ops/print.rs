//! Words in columns for a terminal. Everything that is printed passes here, and whatever strangers wrote
//! into it arrives as plain text: no control characters, nothing hidden, no line breaks of their own.

use crate::report::text::shown;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write as _};

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
pub struct Cell(String, Tone);

const WORDS_MAX: usize = 1_000;
const WIDTH_USUAL: usize = 100;
const WIDTH_MIN: usize = 40;
/// No column is made narrower than this.
const COLUMN_MIN: usize = 8;
const GAP: usize = 2;

pub fn cell(text: impl AsRef<str>) -> Cell {
    Cell(shown(text.as_ref(), WORDS_MAX), Tone::Plain)
}

pub fn toned(text: impl AsRef<str>, tone: Tone) -> Cell {
    Cell(shown(text.as_ref(), WORDS_MAX), tone)
}

impl Sheet {
    /// For standard output as it is.
    pub fn for_stdout() -> Self {
        let is_terminal = io::stdout().is_terminal();
        let colours = is_terminal && std::env::var_os("NO_COLOR").is_none();
        Self { text: String::new(), width: is_terminal.then(window), colours }
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

    /// One of several.
    pub fn item(&mut self, text: &str) {
        self.wrapped("- ", &cell(text));
    }

    /// A name and its value; nothing is told of what is empty.
    pub fn pair(&mut self, name: &str, value: impl AsRef<str>) {
        self.toned_pair(name, &cell(value));
    }

    pub fn toned_pair(&mut self, name: &str, value: &Cell) {
        if !value.0.is_empty() {
            self.wrapped(&format!("{name:<13} "), value);
        }
    }

    /// Rows in aligned columns; the last may be cut where the window ends.
    pub fn table(&mut self, names: &[&str], rows: &[Vec<Cell>]) {
        let mut widths: Vec<usize> = names.iter().map(|name| columns(name)).collect();
        for row in rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(columns(&cell.0));
            }
        }
        self.fit(&mut widths);
        let names: Vec<Cell> = names.iter().map(|name| toned(name, Tone::Strong)).collect();
        self.row(&names, &widths);
        rows.iter().for_each(|row| self.row(row, &widths));
    }

    pub fn print(self) -> io::Result<()> {
        io::stdout().lock().write_all(self.text.as_bytes())
    }

    pub fn into_text(self) -> String {
        self.text
    }

    /// Takes from the widest column until all fit.
    fn fit(&self, widths: &mut [usize]) {
        let Some(window) = self.width else { return };
        let gaps = GAP * widths.len().saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > window {
            let Some(widest) = widths.iter_mut().max_by_key(|width| **width) else { return };
            if *widest <= COLUMN_MIN {
                return;
            }
            *widest -= 1;
        }
    }

    fn row(&mut self, row: &[Cell], widths: &[usize]) {
        let last = row.len().saturating_sub(1);
        for (at, (Cell(text, tone), width)) in row.iter().zip(widths).enumerate() {
            let text = cut(text, *width);
            let padding = if at == last { 0 } else { width - columns(&text).min(*width) + GAP };
            self.words(&Cell(text, *tone));
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
        for word in cell.0.split(' ') {
            if !line.is_empty() && indent + columns(&line) + 1 + columns(word) > width {
                self.put(&lead, &Cell(std::mem::take(&mut line), cell.1));
                lead = " ".repeat(indent);
            }
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
        self.put(&lead, &Cell(line, cell.1));
    }

    fn put(&mut self, lead: &str, cell: &Cell) {
        self.text.push_str(lead);
        self.words(cell);
        self.text.push('\n');
    }

    fn words(&mut self, Cell(text, tone): &Cell) {
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

/// What the shell says of its window.
fn window() -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    told.unwrap_or(WIDTH_USUAL).max(WIDTH_MIN)
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

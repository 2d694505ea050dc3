//! How far long work has come, for somebody who watches. Nothing is drawn where standard error is not
//! a terminal, so that what is piped or logged stays clean.

use crate::ops::terminal::print_note;
use crate::report::text::shown;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

/// A bar that may be nobody's.
#[derive(Debug)]
pub struct Progress(ProgressBar);

const TICK: Duration = Duration::from_millis(120);
const WORDS_MAX: usize = 60;

impl Progress {
    /// Of so many.
    pub fn of(total: u64, unit: &str) -> Self {
        let bar = Self::visible(ProgressBar::new(total));
        bar.style(&format!("{{bar:30}} {{pos}}/{{len}} {unit} {{msg}}"));
        bar
    }

    /// Nobody knows how many there will be.
    pub fn open_ended(unit: &str) -> Self {
        let bar = Self::visible(ProgressBar::new_spinner());
        bar.style(&format!("{{spinner}} {{pos}} {unit} {{msg}}"));
        bar
    }

    /// Words alone.
    pub fn spinner() -> Self {
        let bar = Self::visible(ProgressBar::new_spinner());
        bar.style("{spinner} {msg}");
        bar
    }

    pub fn advance(&self, by: u64) {
        self.0.inc(by);
    }

    pub fn at(&self, position: u64) {
        self.0.set_position(position);
    }

    pub fn say(&self, words: &str) {
        self.0.set_message(shown(words, WORDS_MAX));
    }

    /// A line that stays, above the bar.
    pub fn note(&self, line: &str) {
        match self.0.is_hidden() {
            true => print_note(line),
            false => self.0.println(line),
        }
    }

    pub fn finish(&self) {
        self.0.finish_and_clear();
    }

    fn visible(bar: ProgressBar) -> Self {
        if !std::io::stderr().is_terminal() {
            return Self(ProgressBar::hidden());
        }
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    fn style(&self, template: &str) {
        if let Ok(style) = ProgressStyle::with_template(template) {
            self.0.set_style(style);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

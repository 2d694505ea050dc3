//! Standard output and standard error of a command. Everything printed passes here, so that a reader who
//! closes the pipe (`graspd repos | head`) ends the command quietly in one place.

use anyhow::{Error, Result};
use std::io::{self, ErrorKind, Write as _};

/// The reader of standard output went away. That is an end, not a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("standard output was closed")]
pub struct OutputClosed;

/// Columns of a terminal that does not say how wide it is.
const WIDTH_DEFAULT: usize = 100;
/// Narrower than this, tables could not be read at all.
const WIDTH_MIN: usize = 40;

pub fn print_text(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(output_error)
}

pub fn print_line(text: &str) -> Result<()> {
    print_text(&format!("{text}\n"))
}

/// A line on standard error. There is no place to say that it could not be written.
pub fn print_note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

pub fn output_error(error: io::Error) -> Error {
    match error.kind() {
        ErrorKind::BrokenPipe => OutputClosed.into(),
        _ => Error::new(error).context("cannot write to standard output"),
    }
}

pub fn is_output_closed(error: &Error) -> bool {
    error.chain().any(|cause| cause.is::<OutputClosed>())
}

/// How wide the window is in which standard output is shown.
pub(super) fn window_width() -> usize {
    let columns = std::env::var("COLUMNS").ok();
    let size = console::Term::stdout().size_checked();
    width_of(columns.as_deref(), size.map(|(_, columns)| columns))
}

/// `COLUMNS` is what a user sets to be obeyed; the terminal itself knows best otherwise.
fn width_of(columns: Option<&str>, terminal: Option<u16>) -> usize {
    let told = columns.and_then(|text| text.trim().parse::<usize>().ok()).filter(|it| *it > 0);
    let real = terminal.map(usize::from).filter(|it| *it > 0);
    told.or(real).unwrap_or(WIDTH_DEFAULT).max(WIDTH_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn the_width_is_what_the_user_says_or_the_terminal_has() {
        assert_eq!(width_of(None, Some(132)), 132);
        assert_eq!(width_of(Some("72"), Some(132)), 72);
        assert_eq!(width_of(Some("wide"), Some(132)), 132);
        assert_eq!(width_of(Some("0"), Some(0)), WIDTH_DEFAULT);
        assert_eq!(width_of(None, None), WIDTH_DEFAULT);
        assert_eq!(width_of(None, Some(3)), WIDTH_MIN);
    }

    #[test]
    fn only_a_closed_output_is_a_quiet_end() {
        let broken = || io::Error::from(ErrorKind::BrokenPipe);
        let closed: Result<()> = Err(output_error(broken()));
        assert!(is_output_closed(&closed.context("while listing").unwrap_err()));
        assert!(!is_output_closed(&Error::new(broken()).context("the server hung up")));
        let full = output_error(io::Error::from(ErrorKind::StorageFull));
        assert!(!is_output_closed(&full));
    }
}

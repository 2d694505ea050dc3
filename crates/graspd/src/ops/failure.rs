//! Why a command failed, in words for the person who typed it. The system's own texts, such as `No such
//! file or directory (os error 2)`, become plain sentences wherever they occur.

use crate::ops::terminal::print_note;
use crate::report::text::shown;
use std::io::{self, ErrorKind};

/// Of an error with everything that led to it.
const COMPLAINT_MAX: usize = 2_000;
const NUMBER_START: &str = " (os error ";

/// On standard error. Text of strangers may be part of it.
pub fn complain(error: &anyhow::Error) {
    print_note(&format!("graspd: {}", shown(&plain_words(&format!("{error:#}")), COMPLAINT_MAX)));
}

/// The same text without the system's error numbers.
pub fn plain_words(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, number, after)) = split_at_number(rest) {
        let known = io::Error::from_raw_os_error(number);
        let tail = format!("{NUMBER_START}{number})");
        let theirs = known.to_string();
        let phrase = theirs.strip_suffix(&tail).unwrap_or(&theirs);
        match before.strip_suffix(phrase) {
            Some(before) => {
                out.push_str(before);
                out.push_str(&words(known.kind(), phrase));
            }
            None => out.push_str(before),
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// What stands before the first error number, the number, and what follows it.
fn split_at_number(text: &str) -> Option<(&str, i32, &str)> {
    let (before, tail) = text.split_once(NUMBER_START)?;
    let (number, after) = tail.split_once(')')?;
    Some((before, number.parse().ok()?, after))
}

fn words(kind: ErrorKind, phrase: &str) -> String {
    let words = match kind {
        ErrorKind::NotFound => "there is no such file or directory",
        ErrorKind::PermissionDenied => "this user may not do that",
        ErrorKind::ConnectionRefused => "nothing listens there",
        ErrorKind::ConnectionReset => "the other side ended the connection",
        ErrorKind::BrokenPipe => "the other side closed the connection",
        ErrorKind::TimedOut => "no answer came in time",
        ErrorKind::AddrInUse => "another program already uses this address",
        ErrorKind::AddrNotAvailable => "this machine does not have this address",
        ErrorKind::NetworkUnreachable | ErrorKind::HostUnreachable => "there is no route to it",
        ErrorKind::NotADirectory => "a part of the path is not a directory",
        ErrorKind::IsADirectory => "it is a directory",
        ErrorKind::StorageFull => "the disk is full",
        ErrorKind::QuotaExceeded => "the disk quota is used up",
        ErrorKind::ReadOnlyFilesystem => "the file system is read-only",
        ErrorKind::AlreadyExists => "it exists already",
        _ => return lowercase_start(phrase),
    };
    words.to_owned()
}

fn lowercase_start(phrase: &str) -> String {
    let mut chars = phrase.chars();
    let first = chars.next().map(|c| c.to_ascii_lowercase());
    first.into_iter().chain(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_systems_words_become_sentences_wherever_they_stand() {
        let missing = io::Error::from_raw_os_error(2);
        let denied = io::Error::from_raw_os_error(13);
        let odd = io::Error::from_raw_os_error(40);
        for (text, expected) in [
            (
                format!("cannot read /x: {missing}"),
                "cannot read /x: there is no such file or directory",
            ),
            (
                format!("/x ({missing}), then /y: {denied}; ask again"),
                "/x (there is no such file or directory), then /y: this user may not do that; ask again",
            ),
            (format!("a link: {odd}"), "a link: too many levels of symbolic links"),
            ("other words (os error 2)".to_owned(), "other words"),
            ("not one (os error x)".to_owned(), "not one (os error x)"),
            ("nothing special".to_owned(), "nothing special"),
        ] {
            assert_eq!(plain_words(&text), expected);
        }
    }
}

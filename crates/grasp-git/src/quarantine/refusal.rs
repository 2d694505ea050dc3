//! Why a pack was not taken in, in words for the person who pushed it. git's own words are passed on
//! only where they help, cut to one line.

use crate::disk_reserve::NoRoom;
use crate::gate::PackRefused;
use crate::gitmodules::BadSubmodule;
use crate::process::GitError;
use std::io;

const SIGNAL_KILL: i32 = 9;
const SIGNAL_CPU: i32 = 24;
const SIGNAL_FILE_SIZE: i32 = 25;

#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    #[error(transparent)]
    Refused(#[from] PackRefused),
    #[error("the upload broke off: {0}")]
    Upload(io::Error),
    #[error("the upload took longer than {secs} s; push fewer commits at a time")]
    Late { secs: u64 },
    #[error(
        "the pack is incomplete ({0}): it refers to objects that are neither in it nor on this \
         server; fetch first, or push the full history (not from a shallow clone)"
    )]
    Incomplete(String),
    #[error("git does not accept the pack: {0}; run `git fsck`, then push again")]
    Invalid(String),
    #[error("the pack needs too much {0} to unpack; push fewer commits at a time")]
    Costly(&'static str),
    #[error(transparent)]
    Submodule(#[from] BadSubmodule),
    #[error(transparent)]
    NoRoom(#[from] NoRoom),
    #[error("the server's disk is full; nothing was changed, try again later")]
    DiskFull,
    #[error("git stopped reading the pack before its end; run `git fsck`, then push again")]
    GitLeft,
    #[error("the server could not check the pack, try again later: {0}")]
    Git(GitError),
    #[error("the server could not store the pack, try again later: {0}")]
    Io(io::Error),
}

impl ReceiveError {
    /// The pusher's doing, not ours: trying again unchanged will not help.
    pub fn is_refusal(&self) -> bool {
        !matches!(self, Self::Git(_) | Self::Io(_) | Self::Upload(_)) && !self.is_for_want_of_room()
    }

    /// This server's disk has no room for the pack.
    pub fn is_for_want_of_room(&self) -> bool {
        matches!(self, Self::NoRoom(_) | Self::DiskFull)
    }
}

impl From<io::Error> for ReceiveError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull,
            _ => Self::Io(error),
        }
    }
}

impl From<GitError> for ReceiveError {
    fn from(error: GitError) -> Self {
        match &error {
            GitError::Failed { signal, stderr, .. } => {
                by_signal(*signal).or_else(|| by_words(stderr)).unwrap_or(Self::Git(error))
            }
            GitError::Deadline { secs, .. } => Self::Late { secs: *secs },
            _ => Self::Git(error),
        }
    }
}

fn by_signal(signal: Option<i32>) -> Option<ReceiveError> {
    match signal? {
        SIGNAL_CPU => Some(ReceiveError::Costly("time")),
        SIGNAL_FILE_SIZE => Some(ReceiveError::Costly("room")),
        SIGNAL_KILL => Some(ReceiveError::Costly("memory")),
        _ => None,
    }
}

/// Checked in this order: a full disk makes git say other things too.
fn by_words(stderr: &str) -> Option<ReceiveError> {
    let says = |text: &str| stderr.contains(text);
    if says("No space left on device") || says("Disk quota exceeded") {
        return Some(ReceiveError::DiskFull);
    }
    if says("Out of memory") || says("out of memory") || says("mmap failed") {
        return Some(ReceiveError::Costly("memory"));
    }
    let words = complaint(stderr)?;
    if says("did not receive expected object") || says("unresolved delta") {
        return Some(ReceiveError::Incomplete(words));
    }
    Some(ReceiveError::Invalid(words))
}

/// The line that says what is wrong with an object, else the last one.
fn complaint(stderr: &str) -> Option<String> {
    const LEN_MAX: usize = 200;
    let find = |prefix: &str| stderr.lines().rev().find_map(|line| line.strip_prefix(prefix));
    let line = find("error: ").or_else(|| find("fatal: ")).filter(|line| !line.is_empty())?;
    Some(line.chars().filter(|c| !c.is_control()).take(LEN_MAX).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(signal: Option<i32>, stderr: &str) -> ReceiveError {
        let (what, stderr) = ("index-pack", stderr.to_owned());
        GitError::Failed { what, code: None, signal, stderr }.into()
    }

    #[test]
    fn what_git_says_becomes_what_a_person_can_do() {
        let full = "error: x\nfatal: write error: No space left on device\n";
        assert!(failed(None, full).to_string().contains("disk is full"));
        assert!(failed(Some(SIGNAL_CPU), "").to_string().contains("too much time"));
        let fsck = "error: object 12: gitmodulesUrl: bad\nfatal: fsck error in packed object\n";
        assert!(failed(None, fsck).to_string().contains("gitmodulesUrl: bad; run"));
        let missing = "fatal: did not receive expected object 00\n";
        assert!(failed(None, missing).to_string().contains("fetch first"));
        assert!(matches!(failed(None, ""), ReceiveError::Git(_)));
        assert!(!failed(None, full).is_refusal() && failed(None, fsck).is_refusal());
    }

    #[test]
    fn foreign_words_are_cut_and_plain() {
        let said = format!("fatal: \x1b[31m{}", "x".repeat(1_000));
        let ReceiveError::Invalid(words) = failed(None, &said) else { panic!("not invalid") };
        assert!(words.len() == 200 && words.starts_with("[31mx"));
    }
}

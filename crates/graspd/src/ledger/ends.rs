//! What is said at the end of a look, to the hunt and to those who count looks. Both speak when they are
//! dropped, so also when a look broke off: otherwise its place would be taken for ever.

use super::checks::Word;
use super::look::Done;
use super::rounds::{Check, Finding};
use crate::hunt::HuntWatch;
use grasp_core::Domain;
use std::time::Duration;
use tokio::sync::mpsc;

/// To those who sent somebody to look.
#[derive(Debug)]
pub(super) struct Report {
    words: mpsc::UnboundedSender<Word>,
    check: Check,
    done: Option<(Done, u64)>,
}

impl Report {
    pub(super) fn new(words: mpsc::UnboundedSender<Word>, check: Check) -> Self {
        Self { words, check, done: None }
    }

    /// With the bytes that came in.
    pub(super) fn end(mut self, done: Option<(Done, u64)>) {
        self.done = done;
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        let broken_off = || (Done::Looked(Finding::Nothing, None), 0);
        let (done, bytes) = self.done.take().unwrap_or_else(broken_off);
        let _ = self.words.send(Word::Done(self.check.clone(), done, bytes));
    }
}

/// The hunt's leave for a look, given back.
#[derive(Debug)]
pub(super) struct Leave<'a> {
    hunt: &'a HuntWatch,
    domain: Domain,
    /// They asked for less, for so long if they said so.
    pub(super) objected: Option<Option<Duration>>,
}

impl<'a> Leave<'a> {
    pub(super) fn new(hunt: &'a HuntWatch, domain: Domain) -> Self {
        Self { hunt, domain, objected: None }
    }
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.hunt.checked(self.domain.clone(), self.objected);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use grasp_core::{PubKey, RepoId};

    #[tokio::test]
    async fn s30_a_look_that_breaks_off_is_reported_and_so_is_one_that_does_not() {
        let owner = PubKey::from_bytes([1; 32]);
        let check = Check {
            repo: RepoId { owner, identifier: "repo".parse().unwrap() },
            url: "https://one.example/repo.git".parse().unwrap(),
        };
        let (words, mut said) = mpsc::unbounded_channel();
        let report = || Report::new(words.clone(), check.clone());
        let broken = report();
        let ended = tokio::spawn(async move {
            let _report = broken;
            std::future::ready(()).await;
            panic!("a look broke off");
        });
        assert!(ended.await.is_err_and(|error| error.is_panic()));
        let word = said.recv().await;
        let nothing = matches!(&word, Some(Word::Done(it, Done::Looked(Finding::Nothing, None), 0)) if *it == check);
        assert!(nothing, "{word:?}");
        report().end(Some((Done::Gone, 7)));
        let word = said.recv().await;
        assert!(matches!(word, Some(Word::Done(_, Done::Gone, 7))), "{word:?}");
    }
}

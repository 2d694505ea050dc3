//! The repositories hosted here, a page at a time.

use super::frame::{Frame, Place, finished};
use super::{Site, markup, words};
use crate::report::{RepoLine, Repos};
use askama::Template;

/// A list changes all the time on a busy server, and nobody reads it line by line.
const PAUSE_MS: u64 = 10_000;

#[derive(Template)]
#[template(path = "repos.html", whitespace = "minimize")]
struct ReposPage<'a> {
    frame: Frame<'a>,
    repos: &'a Repos,
}

pub fn repos(site: &Site, repos: &Repos) -> String {
    let frame = Frame::new(site, Place::Repositories, "Repositories").watching("home", repos.now);
    let frame = Frame { pause_ms: PAUSE_MS, ..frame };
    finished(&ReposPage { frame, repos })
}

impl ReposPage<'_> {
    fn link(&self, line: &RepoLine) -> Option<String> {
        self.frame.repository(&format!("{}/{}", line.npub, line.identifier))
    }

    /// Which verdict sums up a repository's mirrors.
    fn class(&self, line: &RepoLine) -> &'static str {
        let ledger = &line.ledger;
        match () {
            () if ledger.we_lack > 0 => "we-lack",
            () if ledger.they_lack > 0 => "they-lack",
            () if ledger.checking > 0 => "checking",
            () if ledger.unverifiable > 0 || ledger.equal == 0 => "unverifiable",
            () => "equal",
        }
    }
}

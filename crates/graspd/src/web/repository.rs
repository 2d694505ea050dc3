//! One repository: how to get it, what is in it, who agrees, and what is in the way.

use super::frame::{Frame, Place, finished, href};
use super::{Readme, Site, markup, words};
use crate::report::{Mirror, Ref, Repo};
use askama::Template;
use grasp_core::Kind;

/// Branches, and tags, that are shown before one has to ask for the rest.
const REFS_FIRST: usize = 10;

#[derive(Template)]
#[template(path = "repository.html", whitespace = "minimize")]
struct Repository<'a> {
    frame: Frame<'a>,
    repo: &'a Repo,
    name: String,
    readme: Option<&'a Readme>,
    branches: Vec<Row<'a>>,
    tags: Vec<Row<'a>>,
}

/// A ref as it is listed.
struct Row<'a> {
    name: String,
    at: &'a Ref,
    is_head: bool,
}

/// Branches or tags: those shown at once, and those on request.
struct Group<'a> {
    label: &'static str,
    first: &'a [Row<'a>],
    rest: &'a [Row<'a>],
}

pub fn repository(site: &Site, repo: &Repo, readme: Option<&Readme>) -> String {
    let name = words::title(&repo.name, &repo.identifier);
    let topic = format!("repo:{}/{}", repo.npub, repo.identifier);
    let frame = Frame::new(site, Place::Elsewhere, &name).watching(topic, repo.now);
    let (branches, tags) = (rows(repo, "refs/heads/"), rows(repo, "refs/tags/"));
    finished(&Repository { frame, repo, name, readme, branches, tags })
}

fn rows<'a>(repo: &'a Repo, below: &str) -> Vec<Row<'a>> {
    let head = repo.head.as_deref();
    let row = |at: &'a Ref| {
        let name = words::name(at.name.strip_prefix(below)?);
        Some(Row { name, at, is_head: head == Some(at.name.as_str()) })
    };
    let mut rows: Vec<Row<'_>> = repo.refs.iter().filter_map(row).collect();
    // Where people start comes first.
    rows.sort_by_key(|row| !row.is_head);
    rows
}

impl Repository<'_> {
    fn groups(&self) -> Vec<Group<'_>> {
        let groups = [("Branches", &self.branches), ("Tags", &self.tags)].into_iter();
        let groups = groups.map(|(label, rows)| {
            let (first, rest) = rows.split_at(rows.len().min(REFS_FIRST));
            Group { label, first, rest }
        });
        groups.filter(|group| !group.first.is_empty()).collect()
    }

    fn refs_unseen(&self) -> usize {
        self.repo.refs_total.saturating_sub(self.branches.len() + self.tags.len())
    }

    fn is_empty(&self) -> bool {
        self.repo.refs.is_empty() && self.repo.refs_total == 0
    }

    fn standing(&self) -> Option<&'static str> {
        match self.repo.standing.as_str() {
            "held" => {
                Some("It is announced and waits for its first signed state and its git data.")
            }
            "asleep" => Some("It was announced, and nothing came for it. A signed state wakes it."),
            _ => None,
        }
    }

    /// What is told of the state while none is in force.
    fn no_state(&self) -> &'static str {
        match self.repo.held.iter().any(|held| held.kind == Kind::STATE.0) {
            true => "signed, and waits for its git data",
            false => "none is signed yet",
        }
    }

    fn head(&self) -> Option<String> {
        let head = self.repo.head.as_deref()?;
        Some(words::name(head.strip_prefix("refs/heads/").unwrap_or(head)))
    }

    fn threads(&self) -> String {
        let threads = self.repo.threads;
        let more = if threads.more { "more than " } else { "" };
        format!(
            "{more}{} open, {more}{} in all",
            words::count(threads.open),
            words::count(threads.all)
        )
    }

    /// Where else to look at it: its own pages as announced, and those that can show any.
    fn web(&self) -> Vec<(String, String)> {
        let own = self.repo.web.iter().filter_map(|text| {
            let href = href(text)?;
            Some((words::name(href.trim_end_matches('/')), href))
        });
        own.collect()
    }

    /// `nostr://<npub>/<hint>/<identifier>` is where gitworkshop keeps it, too.
    fn gitworkshop(&self) -> Option<String> {
        let place = self.repo.nostr.strip_prefix("nostr://")?;
        href(&format!("https://gitworkshop.dev/{place}"))
    }

    fn viewsource(&self) -> Option<String> {
        let own = self.frame.repository(&format!("{}/{}", self.repo.npub, self.repo.identifier))?;
        let place = own.strip_prefix(self.frame.base())?.strip_suffix(".git")?;
        href(&format!("https://viewsource.win{place}"))
    }

    /// What of a mirror was looked at, beside its verdict.
    fn counts(&self, mirror: &Mirror) -> Vec<String> {
        let mut said = Vec::new();
        if let Some(events) = &mirror.events {
            said.push(format!(
                "events: {} in common, they lack {}, we lack {}",
                words::count(events.both),
                words::count(events.they_lack),
                words::count(events.we_lack)
            ));
        }
        if let Some(refs) = &mirror.refs {
            let mut text = format!(
                "refs: {} equal, they lack {}, we lack {}",
                words::count(refs.equal),
                words::count(refs.they_lack),
                words::count(refs.we_lack)
            );
            if refs.unsigned > 0 {
                text.push_str(&format!(", {} signed by nobody", words::count(refs.unsigned)));
            }
            said.push(text);
        }
        said
    }
}

//! A thousand small projects: each announced, each with a state whose git data is the same tiny
//! repository, threads and replies; all of it signed beforehand and dated long ago.

use super::plan::History;
use super::shared::tagged;
use crate::events::{comment, issue, on_all_cores};
use crate::seedling::{MAIN, Seedling};
use anyhow::Result;
use grasp_core::{Kind, VerifiedEvent};
use grasp_testkit::{Author, Draft, Random, Repository};
use std::path::Path;

/// The name of the server that hosts them all.
pub(super) const DOMAIN: &str = "git.example";
const AUTHORS: u64 = 500;
/// Between two threads, so that no second is crowded.
const GAP_SECS: u64 = 10;

#[derive(Debug)]
pub(super) struct Projects {
    repositories: Vec<Repository>,
    pub(super) announcements: Vec<VerifiedEvent>,
    pub(super) states: Vec<VerifiedEvent>,
    pub(super) roots: Vec<VerifiedEvent>,
    pub(super) replies: Vec<VerifiedEvent>,
    seedling: Seedling,
}

impl Projects {
    /// Known to the relay at `elsewhere`, too.
    pub(super) async fn sign(plan: &History, elsewhere: &str, now: u64) -> Result<Self> {
        let seedling = Seedling::with_readme("hello").await?;
        let authors: Vec<Author> = (1..=AUTHORS).map(Author::number).collect();
        let repositories: Vec<Repository> = authors
            .iter()
            .cycle()
            .take(plan.repositories)
            .enumerate()
            .map(|(n, owner)| Repository::new(owner.clone(), &format!("project-{n}")))
            .collect();
        let begin = now - plan.roots as u64 * GAP_SECS - 10 * 24 * 3600;
        let announcements =
            on_all_cores(plan.repositories, |n| announcement(&repositories[n], elsewhere, begin));
        let states = on_all_cores(plan.repositories, |n| {
            let of = &repositories[n];
            of.state(&of.owner, begin + 1, &[(MAIN, &seedling.tip)], Some("main"))
        });
        let roots = on_all_cores(plan.roots, |n| {
            let mut random = Random::seeded(n as u64);
            let of = &repositories[n % repositories.len()];
            let at = begin + n as u64 * GAP_SECS;
            let draft = issue(&of.coordinate(), n, at, &mut random);
            random.pick(&authors).signs(draft)
        });
        let replies = on_all_cores(plan.replies, |n| {
            let mut random = Random::seeded((1 << 40) + n as u64);
            let root = &roots[n % roots.len()];
            let draft = comment(root, root.created_at.0 + 1 + n as u64 % GAP_SECS, &mut random);
            random.pick(&authors).signs(draft)
        });
        Ok(Self { repositories, announcements, states, roots, replies, seedling })
    }

    /// In the order in which they depend on each other.
    pub(super) fn all(&self) -> impl Iterator<Item = &VerifiedEvent> {
        let projects = self.announcements.iter().chain(&self.states);
        projects.chain(&self.roots).chain(&self.replies)
    }

    pub(super) fn len(&self) -> usize {
        self.all().count()
    }

    /// Puts the git data of all of them below a server's root.
    pub(super) fn plant(&self, root: &Path) -> Result<()> {
        self.seedling.plant(&self.repositories, root)
    }
}

fn announcement(of: &Repository, elsewhere: &str, at: u64) -> VerifiedEvent {
    let draft = Draft::new(Kind::ANNOUNCEMENT, at).tag(&["d", &of.identifier]);
    let draft = draft.tag(&["name", &of.identifier]).tag(&["clone", &of.clone_url(DOMAIN)]);
    let relays = [format!("ws://{DOMAIN}"), elsewhere.to_owned()];
    of.owner.signs(tagged(draft, "relays", &relays))
}

//! Projects whose histories have nothing in common, each with a state that says what its refs are,
//! with threads and replies; all of it signed beforehand, threads dated long ago.

use super::plan::Plan;
use crate::events::{comment, issue, on_all_cores};
use crate::git::content;
use crate::git::hosted::{Refs, git, refs};
use crate::sync::shared::tagged;
use anyhow::{Result, bail, ensure};
use grasp_core::{Kind, VerifiedEvent};
use grasp_testkit::{Author, Draft, Random, Repository, WorkTree};
use std::collections::BTreeMap;

const OWNERS: u64 = 20;
const AUTHORS: u64 = 200;
const BRANCH: &str = "main";
/// Between two threads, so that no second is crowded.
const GAP_SECS: u64 = 60;

/// Where a server is found: host and port.
pub(super) type Places<'a> = [&'a str; 2];

#[derive(Debug)]
pub(super) struct Project {
    pub(super) repository: Repository,
    pub(super) announcement: VerifiedEvent,
    pub(super) state: VerifiedEvent,
    refs: Refs,
    refspecs: Vec<String>,
}

#[derive(Debug)]
pub(super) struct Projects {
    pub(super) all: Vec<Project>,
    pub(super) issues: Vec<VerifiedEvent>,
    pub(super) replies: Vec<VerifiedEvent>,
    /// The histories of all of them, side by side.
    pub(super) tree: WorkTree,
}

impl Projects {
    /// Hosted at all of these places.
    pub(super) async fn sign(plan: &Plan, places: Places<'_>, now: u64) -> Result<Self> {
        let tree = content::many(&git(), &plan.story, plan.repositories).await;
        let begin = now - plan.roots() as u64 * GAP_SECS - 10 * 24 * 3600;
        let told = by_project(refs(&tree).await)?;
        ensure!(told.len() == plan.repositories, "{} histories were made", told.len());
        let all = on_all_cores(told.len(), |n| {
            let (name, refs) = &told[n];
            let owner = Author::number(1 + n as u64 % OWNERS);
            Project::sign(Repository::new(owner, name), refs, places, begin)
        });
        let authors: Vec<Author> = (1..=AUTHORS).map(Author::number).collect();
        let issues = on_all_cores(plan.roots(), |n| {
            let mut random = Random::seeded(n as u64);
            let of = &all[n % all.len()].repository;
            let draft = issue(&of.coordinate(), n, begin + n as u64 * GAP_SECS, &mut random);
            random.pick(&authors).signs(draft)
        });
        let replies = on_all_cores(plan.replies(), |n| {
            let mut random = Random::seeded((1 << 40) + n as u64);
            let root = &issues[n % issues.len()];
            let draft = comment(root, root.created_at.0 + 1 + n as u64 % GAP_SECS, &mut random);
            random.pick(&authors).signs(draft)
        });
        Ok(Self { all, issues, replies, tree })
    }

    pub(super) fn threads(&self) -> Vec<VerifiedEvent> {
        [&self.issues[..], &self.replies].concat()
    }

    pub(super) fn events(&self) -> impl Iterator<Item = &VerifiedEvent> {
        let projects = self.all.iter().flat_map(|it| [&it.announcement, &it.state]);
        projects.chain(&self.issues).chain(&self.replies)
    }
}

impl Project {
    fn sign(repository: Repository, refs: &Refs, places: Places<'_>, at: u64) -> Self {
        let announcement = announcement(&repository, places, at);
        let named: Vec<(&str, &str)> =
            refs.iter().map(|(name, oid)| (name.as_str(), oid.as_str())).collect();
        let state = repository.state(&repository.owner, at + 1, &named, Some(BRANCH));
        let refspecs = refs.iter().map(|(name, oid)| format!("{oid}:{name}")).collect();
        Self { repository, announcement, state, refs: refs.clone(), refspecs }
    }

    pub(super) fn refspecs(&self) -> Vec<&str> {
        self.refspecs.iter().map(String::as_str).collect()
    }

    /// As `git ls-remote` lists them: every ref, and HEAD.
    pub(super) fn listed(&self) -> BTreeMap<String, String> {
        let head = format!("refs/heads/{BRANCH}");
        let mut listed: BTreeMap<String, String> = self.refs.iter().cloned().collect();
        if let Some(tip) = listed.get(&head).cloned() {
            listed.insert("HEAD".to_owned(), tip);
        }
        listed
    }

    /// The server shows exactly this project's refs, and its HEAD.
    pub(super) async fn is_whole_at(&self, tree: &WorkTree, address: &str) -> Result<()> {
        let url = self.repository.clone_url(address);
        let shown = tree.ls_remote(&url).await;
        ensure!(shown == self.listed(), "{url} shows {shown:?}");
        let head = tree.remote_head(&url).await;
        ensure!(head == Some(format!("refs/heads/{BRANCH}")), "{url} has HEAD at {head:?}");
        Ok(())
    }
}

/// The refs under each project's name, as that project has them.
fn by_project(refs: Refs) -> Result<Vec<(String, Refs)>> {
    let mut told: BTreeMap<String, Refs> = BTreeMap::new();
    for (name, oid) in refs {
        let parts: Vec<&str> = name.splitn(4, '/').collect();
        let [root, kind, project, own] = parts[..] else { bail!("{name} is nobody's") };
        told.entry(project.to_owned()).or_default().push((format!("{root}/{kind}/{own}"), oid));
    }
    Ok(told.into_iter().collect())
}

/// Where git finds it, below a server's address.
pub(super) fn path(of: &Repository) -> String {
    of.clone_url("").trim_start_matches("http://").to_owned()
}

pub(super) fn announcement(of: &Repository, places: Places<'_>, at: u64) -> VerifiedEvent {
    let clones = places.map(|place| of.clone_url(place));
    let relays = places.map(|place| format!("ws://{place}"));
    let draft = Draft::new(Kind::ANNOUNCEMENT, at).tag(&["d", &of.identifier]);
    let draft = draft.tag(&["name", &of.identifier]);
    of.owner.signs(tagged(tagged(draft, "clone", &clones), "relays", &relays))
}

//! One project with one or two owners: what they did, what they were told, and what they do next.

use super::line::Line;
use crate::common::THEN;
use crate::common::hosted::{DOMAIN, PURGATORY};
use grasp_core::{EventId, Oid, VerifiedEvent};
use grasp_testkit::{Author, Git, Random, Repository, WorkTree};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const MAIN: &str = "refs/heads/main";
const BRANCHES: [&str; 5] = ["main", "a", "a/b", "dev", "release"];
const TAGS: [&str; 3] = ["v1", "v2", "nightly"];

pub(crate) type Refs = BTreeMap<String, Oid>;

/// A state that was offered to the server.
#[derive(Debug)]
pub(crate) struct Signed {
    pub(crate) event: VerifiedEvent,
    pub(crate) refs: Refs,
    pub(crate) acknowledged: bool,
    /// A push for it was reported done.
    pub(crate) pushed: bool,
}

/// A pull request, whose event and commit come in either order.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) event: VerifiedEvent,
    pub(crate) tip: Oid,
    /// Which owner's repository it is for.
    pub(crate) to: usize,
    pub(crate) offered: bool,
    pub(crate) acknowledged: bool,
    pub(crate) tried: bool,
    pub(crate) pushed: bool,
}

#[derive(Debug)]
pub(crate) struct Project {
    pub(crate) owners: Vec<Repository>,
    pub(crate) tree: WorkTree,
    pub(crate) announcements: Vec<VerifiedEvent>,
    pub(crate) states: Vec<Signed>,
    pub(crate) requests: Vec<Request>,
    /// Deletions that were offered, by the state they name.
    pub(crate) deletions: BTreeMap<EventId, VerifiedEvent>,
    pub(crate) deletions_acknowledged: BTreeSet<EventId>,
    /// How many of the owners take part so far.
    pub(crate) joined: usize,
    /// Begun by the interrupted push of the last state.
    unfinished: bool,
    pub(crate) pushes: usize,
    /// Those of them that nobody answered.
    pub(crate) cut: usize,
    commits: Vec<Oid>,
    clock: u64,
}

impl Project {
    pub(crate) async fn new(number: u64, owners: usize, git: &Git) -> Self {
        let name = format!("project-{number}");
        let owners = (0..owners as u64).map(|at| Author::number(100 * (number + 1) + at));
        let tree = WorkTree::init(git).await;
        let first = tree.commit("README", &name).await;
        Self {
            owners: owners.map(|owner| Repository::new(owner, &name)).collect(),
            tree,
            announcements: Vec::new(),
            states: Vec::new(),
            requests: Vec::new(),
            deletions: BTreeMap::new(),
            deletions_acknowledged: BTreeSet::new(),
            joined: 0,
            unfinished: false,
            pushes: 0,
            cut: 0,
            commits: vec![first],
            clock: THEN,
        }
    }

    fn later(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// The first so many owners name each other. They take part once all of them were heard.
    pub(crate) async fn announces(&mut self, line: &mut Line, members: usize) -> Option<()> {
        let at = self.later();
        for owner in 0..members {
            let others = (0..members).filter(|other| *other != owner);
            let others: Vec<&Author> = others.map(|other| &self.owners[other].owner).collect();
            let announcement = self.owners[owner].announcement_naming(DOMAIN, at, &others);
            let reply = line.publishes(&announcement).await?;
            assert!(reply.ok, "{reply:?}");
            self.announcements.push(announcement);
        }
        self.joined = members;
        Some(())
    }

    /// One thing after the other, until the line is dead.
    pub(crate) async fn works(
        mut self,
        address: String,
        power: super::line::Power,
        mut random: Random,
        tell: tokio::sync::mpsc::UnboundedSender<()>,
    ) -> Self {
        let Some(mut line) = Line::open(&address, &power).await else { return self };
        while self.acts(&mut line, &mut random).await.is_some() {
            // Nobody counts once the power is off.
            let _ = tell.send(());
        }
        self
    }

    async fn acts(&mut self, line: &mut Line, random: &mut Random) -> Option<()> {
        if std::mem::take(&mut self.unfinished)
            && self.states.last().is_some_and(|it| it.acknowledged)
        {
            let to = random.index(self.joined);
            return self.pushes_state(line, to).await;
        }
        let served = self.states.iter().any(|it| it.pushed);
        match random.below(12) {
            0..=5 => self.moves(line, random).await,
            6 if served => self.goes_back(line, random).await,
            7 | 8 if served => self.proposes(line, random).await,
            9 if served => self.claims(line).await,
            10 if served => self.takes_back(line).await,
            11 if served && self.joined < self.owners.len() => {
                self.announces(line, self.joined + 1).await
            }
            _ => self.moves(line, random).await,
        }
    }

    /// Somebody signs where the branches and tags are next, and pushes that.
    async fn moves(&mut self, line: &mut Line, random: &mut Random) -> Option<()> {
        let mut refs = self.states.last().map(|it| it.refs.clone()).unwrap_or_default();
        for _ in 0..=random.below(3) {
            self.changes(&mut refs, random).await;
        }
        if !refs.contains_key(MAIN) {
            refs.insert(MAIN.to_owned(), self.commits[0]);
        }
        self.signs(line, refs, random).await?;
        let to = random.index(self.joined);
        self.pushes_state(line, to).await
    }

    async fn changes(&mut self, refs: &mut Refs, random: &mut Random) {
        let branch = format!("refs/heads/{}", random.pick(&BRANCHES));
        let tag = *random.pick(&TAGS);
        match random.below(8) {
            0 => drop(refs.remove(&branch)),
            1 => drop(refs.remove(&format!("refs/tags/{tag}"))),
            2 => {
                let at = *random.pick(&self.commits);
                let at = match random.one_in(2) {
                    true => self.tree.annotated_tag(tag, &at).await,
                    false => at,
                };
                refs.insert(format!("refs/tags/{tag}"), at);
            }
            3 => drop(refs.insert(branch.clone(), *random.pick(&self.commits))),
            _ => {
                // From where it is, or from anywhere: then it has to be forced.
                let at = refs.get(&branch).filter(|_| !random.one_in(3)).copied();
                let at = at.unwrap_or_else(|| *random.pick(&self.commits));
                let tip = self.commits_on(&at, random).await;
                refs.insert(branch.clone(), tip);
            }
        }
        // A name cannot be a branch and hold branches.
        match branch.as_str() {
            "refs/heads/a" => drop(refs.remove("refs/heads/a/b")),
            "refs/heads/a/b" => drop(refs.remove("refs/heads/a")),
            _ => {}
        }
    }

    async fn commits_on(&mut self, at: &Oid, random: &mut Random) -> Oid {
        self.tree.git(&["checkout", "-q", "--detach", &at.to_hex()]).await;
        let text = format!("{} {:x}", self.commits.len(), random.next_u64());
        let file = format!("file-{}", random.below(4));
        let tip = self.tree.commit(&file, &text.repeat(1 + random.index(40))).await;
        self.commits.push(tip);
        tip
    }

    async fn signs(&mut self, line: &mut Line, refs: Refs, random: &mut Random) -> Option<()> {
        let (at, repository) = (self.later(), &self.owners[0]);
        let by = &self.owners[random.index(self.joined)].owner;
        let hex: Vec<(&String, String)> = refs.iter().map(|it| (it.0, it.1.to_hex())).collect();
        let named: Vec<(&str, &str)> =
            hex.iter().map(|(name, oid)| (name.as_str(), oid.as_str())).collect();
        let event = repository.state(by, at, &named, Some("main"));
        let signed = Signed { event: event.clone(), refs, acknowledged: false, pushed: false };
        self.states.push(signed);
        let reply = line.publishes(&event).await?;
        assert!(reply.accepted() || (reply.ok && reply.text.starts_with(PURGATORY)), "{reply:?}");
        self.states.last_mut()?.acknowledged = true;
        Some(())
    }

    /// Makes one owner's repository look like the newest state.
    async fn pushes_state(&mut self, line: &Line, to: usize) -> Option<()> {
        self.pushes += 1;
        self.cut += 1;
        self.unfinished = true;
        let number = self.pushes;
        let newest = self.states.last()?;
        let stage: String = newest
            .refs
            .iter()
            .filter_map(|(name, oid)| Some((name.strip_prefix("refs/")?, oid)))
            .map(|(name, oid)| format!("create refs/stage/{number}/{name} {oid}\n"))
            .collect();
        self.tree.git_reading(&["update-ref", "--stdin"], stage.as_bytes()).await;
        let specs =
            ["heads", "tags"].map(|kind| format!("+refs/stage/{number}/{kind}/*:refs/{kind}/*"));
        let url = self.owners[to].clone_url(&line.address);
        let mut ran = self.tree.push_with(&url, &[&specs[0], &specs[1]], &["--prune"]).await;
        if self.joined > 1 && ran.says("the ref has moved since you fetched") {
            // What another owner has was just copied here: whoever looked before looks again.
            ran = self.tree.push_with(&url, &[&specs[0], &specs[1]], &["--prune"]).await;
        }
        line.pushed(&ran)?;
        self.cut -= 1;
        self.unfinished = false;
        self.states.last_mut()?.pushed = true;
        Some(())
    }

    /// Says again what was said before: nothing has to be pushed for that.
    async fn goes_back(&mut self, line: &mut Line, random: &mut Random) -> Option<()> {
        let done: Vec<&Signed> = self.states.iter().rev().take(5).filter(|it| it.pushed).collect();
        let Some(refs) = done.last().map(|it| it.refs.clone()) else { return Some(()) };
        self.signs(line, refs, random).await
    }

    /// The newest state is deleted, if others of its author remain.
    async fn takes_back(&mut self, line: &mut Line) -> Option<()> {
        let newest = self.states.last()?;
        let author = newest.event.pubkey;
        let remain = |it: &&Signed| {
            it.pushed && it.event.pubkey == author && !self.deletions.contains_key(&it.event.id)
        };
        let is_last = !newest.pushed || self.deletions.contains_key(&newest.event.id);
        if is_last || self.states.iter().filter(remain).count() < 3 {
            return Some(());
        }
        let owner = self.owners.iter().find(|it| it.owner.key == author)?.owner.clone();
        let id = newest.event.id;
        let newest = newest.event.clone();
        let deletion = crate::common::deletion(&owner, self.later(), &[&newest]);
        self.deletions.insert(id, deletion.clone());
        let reply = line.publishes(&deletion).await?;
        assert!(reply.ok, "{reply:?}");
        self.deletions_acknowledged.insert(id);
        Some(())
    }

    /// A stranger proposes something, and says so before, after, or much later.
    async fn proposes(&mut self, line: &mut Line, random: &mut Random) -> Option<()> {
        let at = *random.pick(&self.commits);
        let tip = self.commits_on(&at, random).await;
        // It is in no branch, and must not get into one by chance.
        self.commits.pop();
        let to = 0;
        let guest = Author::number(9_000 + random.below(50));
        let said_at = self.later();
        let event = self.owners[to].pull_request(&guest, said_at, &tip);
        self.requests.push(Request {
            event,
            tip,
            to,
            offered: false,
            acknowledged: false,
            tried: false,
            pushed: false,
        });
        let at = self.requests.len() - 1;
        match random.below(3) {
            0 => {
                self.publishes_request(line, at).await?;
                self.pushes_request(line, at).await
            }
            1 => {
                self.pushes_request(line, at).await?;
                self.publishes_request(line, at).await
            }
            _ => self.pushes_request(line, at).await,
        }
    }

    /// Publishes what was pushed without its event before.
    async fn claims(&mut self, line: &mut Line) -> Option<()> {
        match self.requests.iter().position(|it| it.pushed && !it.offered) {
            Some(at) => self.publishes_request(line, at).await,
            None => Some(()),
        }
    }

    async fn publishes_request(&mut self, line: &mut Line, at: usize) -> Option<()> {
        let it = &mut self.requests[at];
        it.offered = true;
        let reply = line.publishes(&it.event).await?;
        it.acknowledged = true;
        assert!(reply.accepted() || reply.text.starts_with(PURGATORY), "{reply:?}");
        if it.pushed && !reply.accepted() {
            // Unless the disk went at this very moment, and the release is only in the journal.
            line.power.excuses("an upload was lost");
        }
        Some(())
    }

    async fn pushes_request(&mut self, line: &Line, at: usize) -> Option<()> {
        self.pushes += 1;
        self.cut += 1;
        let it = &mut self.requests[at];
        it.tried = true;
        let url = self.owners[it.to].clone_url(&line.address);
        let spec = format!("{}:refs/nostr/{}", it.tip, it.event.id);
        line.pushed(&self.tree.push(&url, &[&spec]).await)?;
        self.cut -= 1;
        it.pushed = true;
        Some(())
    }
}

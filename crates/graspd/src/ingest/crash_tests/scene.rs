//! Two owners of one project, the commits they work on, and what they sign.

use super::machine::{DOMAIN, Push, git};
use grasp_core::{EventId, Kind, Oid, RepoId, VerifiedEvent};
use grasp_testkit::{Author, Draft, Repository};
use tempfile::TempDir;

pub(crate) const MAIN: &str = "refs/heads/main";
const THEN: u64 = 1_700_000_000;

pub(crate) struct Scene {
    source: TempDir,
    pub(crate) acme: Repository,
    /// The same project, as its other maintainer has it.
    pub(crate) twin: Repository,
    pub(crate) first: Oid,
    pub(crate) second: Oid,
    /// Not in any branch.
    pub(crate) proposed: Oid,
    /// Whose fate is looked at, by what they are called.
    pub(crate) events: Vec<(&'static str, VerifiedEvent)>,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let source = tempfile::tempdir().unwrap();
        git(source.path(), &["init", "-q", "--bare"], b"");
        let commit = |text: &str, parents: &[Oid]| commit(&source, text, parents);
        let first = commit("first", &[]);
        let second = commit("second", &[first]);
        let proposed = commit("proposed", &[first]);
        let acme = Repository::new(Author::number(1), "acme");
        let twin = Repository::new(Author::number(2), "acme");
        Self { source, acme, twin, first, second, proposed, events: Vec::new() }
    }

    /// From now on, this event is looked at.
    pub(crate) fn names(&mut self, name: &'static str, event: VerifiedEvent) -> VerifiedEvent {
        self.events.push((name, event.clone()));
        event
    }

    pub(crate) fn announcement(&self) -> VerifiedEvent {
        self.acme.announcement_naming(DOMAIN, THEN, &[&self.twin.owner])
    }

    pub(crate) fn twins_announcement(&self) -> VerifiedEvent {
        self.twin.announcement_naming(DOMAIN, THEN, &[&self.acme.owner])
    }

    pub(crate) fn state(&self, at: u64, refs: &[(&str, Oid)]) -> VerifiedEvent {
        let hex: Vec<(&str, String)> =
            refs.iter().map(|(name, oid)| (*name, oid.to_hex())).collect();
        let refs: Vec<(&str, &str)> = hex.iter().map(|(name, oid)| (*name, oid.as_str())).collect();
        self.acme.state(&self.acme.owner, THEN + at, &refs, Some("main"))
    }

    pub(crate) fn pull_request(&self, to: &[&Repository]) -> VerifiedEvent {
        let tip = self.proposed.to_hex();
        let draft = Draft::new(Kind::PULL_REQUEST, THEN).tag(&["c", &tip]);
        let draft = to.iter().fold(draft, |draft, repo| draft.tag(&["a", &repo.coordinate()]));
        Author::number(3).signs(draft)
    }

    pub(crate) fn deletion(&self, of: &VerifiedEvent) -> VerifiedEvent {
        let draft = Draft::new(Kind::DELETION, THEN + 1_000).tag(&["e", &of.id.to_hex()]);
        self.acme.owner.signs(draft)
    }

    /// A push to the first owner's repository, of what `wants` reach and `has` does not.
    pub(crate) fn push(&self, refs: &[(&str, Option<Oid>)], wants: &[Oid], has: &[Oid]) -> Push {
        let refs = refs.iter().map(|(name, oid)| ((*name).to_owned(), *oid)).collect();
        Push { repo: id(&self.acme), refs, pack: self.pack(wants, has), others: Vec::new() }
    }

    pub(crate) fn pack(&self, wants: &[Oid], has: &[Oid]) -> Vec<u8> {
        let mut revisions: String = wants.iter().map(|oid| format!("{oid}\n")).collect();
        revisions.extend(has.iter().map(|oid| format!("^{oid}\n")));
        let args = ["pack-objects", "-q", "--revs", "--thin", "--stdout"];
        git(self.source.path(), &args, revisions.as_bytes())
    }
}

fn commit(source: &TempDir, text: &str, parents: &[Oid]) -> Oid {
    let run = |args: &[&str], input: &str| {
        let said = git(source.path(), args, input.as_bytes());
        String::from_utf8(said).unwrap().trim_end().to_owned()
    };
    let blob = run(&["hash-object", "-w", "--stdin"], text);
    let tree = run(&["mktree"], &format!("100644 blob {blob}\tREADME\n"));
    let mut args = vec!["commit-tree".to_owned(), "-m".to_owned(), text.to_owned()];
    parents.iter().for_each(|parent| args.extend(["-p".to_owned(), parent.to_hex()]));
    args.push(tree);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    run(&args, "").parse().unwrap()
}

pub(crate) fn id(of: &Repository) -> RepoId {
    RepoId { owner: of.owner.key, identifier: of.identifier.parse().unwrap() }
}

pub(crate) fn proposal(id: &EventId) -> String {
    format!("refs/nostr/{id}")
}
